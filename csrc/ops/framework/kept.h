// kept.h: how the node of an op keeps the arguments of its call for backward, and how those that
// show them (y.grad_fn._saved_self) find them by the names of the op table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/saved_tensor.h"
#include "ops/framework/boxing.h"

namespace rush {

// One argument that a node keeps.
struct KeptArgument {
  ArgKind kind;
  std::span<SavedTensor> tensors{};  // of a tensor this one; of a list those that were saved
  Value value{};                     // of anything else; borrows from the node
};

// What a node keeps of its call. Good while nobody releases what the node saved: see NodeLock.
struct KeptCall {
  const void* block = nullptr;         // block_id of the op's block
  const char* const* names = nullptr;  // of the arguments, where the table has no such call
  uint32_t needs = 0;                  // what any of the gradients may read, as in Op::needs
  std::vector<KeptArgument> arguments;
  std::span<SavedTensor> results;

  template <class K>
  void add(ArgKind kind, K& kept) {
    kept.show(arguments.emplace_back(KeptArgument{kind}));
  }
};

// What a saved name stands for: "self", "dim", "result", "self_sym_sizes".
struct SavedName {
  enum class What : uint8_t { Argument, Result, Sizes };
  std::string name;
  What what;
  size_t index;  // of the argument or the result
  size_t edge;   // of a tensor argument; its sizes are known there
};
// All names of a node's call; none for nodes that are no op's.
RUSH_API std::vector<SavedName> saved_names(const Node& node, const KeptCall& call);

namespace op {

// How each kind of argument is kept for backward, and given back to `grad`.
template <class A>
struct Kept {
  using Arg = A;
  A value;
  explicit Kept(const A& a, bool) : value(a) {}
  A get(const Node*) const { return value; }
  void release() {}
  void show(KeptArgument& to) { box(to.value, value); }
};
template <>
struct Kept<Tensor> {
  SavedTensor value;
  Kept(const Tensor& t, bool save) {
    if (save) value = SavedTensor(t);
  }
  Tensor get(const Node* n) const { return value.unpack(n); }
  void release() {
    if (value.defined()) value.reset();
  }
  void show(KeptArgument& to) { to.tensors = {&value, 1}; }
};
template <>
struct Kept<TensorList> {
  std::vector<SavedTensor> value;
  mutable std::vector<Tensor> unpacked;
  Kept(TensorList ts, bool save) {
    if (save) {
      for (const Tensor& t : ts) value.emplace_back(t);
    }
  }
  TensorList get(const Node* n) const {
    unpacked.clear();
    for (const SavedTensor& s : value) unpacked.push_back(s.unpack(n));
    return unpacked;
  }
  void release() {
    unpacked.clear();
    for (SavedTensor& s : value) s.reset();
  }
  void show(KeptArgument& to) { to.tensors = value; }
};
template <>
struct Kept<IntList> {
  SmallVector<int64_t, 4> value;  // not Dims: cat has as many extents as tensors
  Kept(IntList v, bool) {
    value.reserve(v.size());
    for (int64_t x : v) value.push_back(x);
  }
  IntList get(const Node*) const { return value; }
  void release() {}
  void show(KeptArgument& to) { to.value.borrow(IntList(value)); }
};
template <>
struct Kept<std::optional<IntList>> {
  std::optional<Dims> value;
  Kept(const std::optional<IntList>& v, bool) : value(v ? std::optional<Dims>(*v) : std::nullopt) {}
  std::optional<IntList> get(const Node*) const {
    return value ? std::optional<IntList>(*value) : std::nullopt;
  }
  void release() {}
  void show(KeptArgument& to) {
    if (value) to.value.borrow(IntList(*value));
  }
};
template <>
struct Kept<std::span<const double>> {
  std::vector<double> value;
  Kept(std::span<const double> v, bool) : value(v.begin(), v.end()) {}
  std::span<const double> get(const Node*) const { return value; }
  void release() {}
  void show(KeptArgument& to) { to.value.borrow(std::span<const double>(value)); }
};
template <>
struct Kept<std::string_view> {
  std::string value;
  Kept(std::string_view v, bool) : value(v) {}
  std::string_view get(const Node*) const { return value; }
  void release() {}
  void show(KeptArgument& to) { to.value.borrow(std::string_view(value)); }
};
template <>
struct Kept<Generator*> {
  Kept(Generator*, bool) {}
  Generator* get(const Node*) const { return nullptr; }
  void release() {}
  void show(KeptArgument&) {}
};

// The kind in the table that an argument of this C++ type stands for; of an optional, its value's.
template <class A>
inline constexpr ArgKind kind_of = kind_of<typename A::value_type>;
template <>
inline constexpr ArgKind kind_of<Tensor> = ArgKind::Tensor;
template <>
inline constexpr ArgKind kind_of<TensorList> = ArgKind::Tensors;
template <>
inline constexpr ArgKind kind_of<Scalar> = ArgKind::Scalar;
template <>
inline constexpr ArgKind kind_of<int64_t> = ArgKind::Int;
template <>
inline constexpr ArgKind kind_of<IntList> = ArgKind::Ints;
template <>
inline constexpr ArgKind kind_of<double> = ArgKind::Float;
template <>
inline constexpr ArgKind kind_of<std::span<const double>> = ArgKind::Floats;
template <>
inline constexpr ArgKind kind_of<bool> = ArgKind::Bool;
template <>
inline constexpr ArgKind kind_of<std::string_view> = ArgKind::String;
template <>
inline constexpr ArgKind kind_of<DType> = ArgKind::DType;
template <>
inline constexpr ArgKind kind_of<Device> = ArgKind::Device;
template <>
inline constexpr ArgKind kind_of<Layout> = ArgKind::Layout;
template <>
inline constexpr ArgKind kind_of<MemoryFormat> = ArgKind::MemoryFormat;
template <>
inline constexpr ArgKind kind_of<Generator*> = ArgKind::Generator;

}  // namespace op
}  // namespace rush
