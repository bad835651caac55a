// ivalue.h: what goes into a program and comes out: a tensor, nothing, or containers of these.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace rush::jit {

// Names as in PyTorch's C++ interface. Programs that were traced take and give tensors and
// containers of tensors; None stands where a program has no tensor to give.
class RUSH_API IValue {
 public:
  enum class Kind : uint8_t { None, Tensor, Tuple, List, Dict };
  using Items = std::vector<IValue>;

  IValue() = default;
  IValue(Tensor t) : kind_(t.defined() ? Kind::Tensor : Kind::None), tensor_(std::move(t)) {}
  static IValue tuple(Items items) { return IValue(Kind::Tuple, {}, std::move(items)); }
  static IValue list(Items items) { return IValue(Kind::List, {}, std::move(items)); }
  // In the order given; one item per key.
  static IValue dict(std::vector<std::string> keys, Items items);

  Kind kind() const { return kind_; }
  bool isNone() const { return kind_ == Kind::None; }
  bool isTensor() const { return kind_ == Kind::Tensor; }
  bool isTuple() const { return kind_ == Kind::Tuple; }
  bool isList() const { return kind_ == Kind::List; }
  bool isGenericDict() const { return kind_ == Kind::Dict; }

  // Each raises when the value is something else.
  const Tensor& toTensor() const;
  operator Tensor() const { return toTensor(); }
  const Items& elements() const;                 // of a tuple, a list, a dict
  const std::vector<std::string>& keys() const;  // of a dict
  const IValue& at(std::string_view key) const;  // of a dict

 private:
  IValue(Kind kind, std::vector<std::string> keys, Items items)
      : kind_(kind), keys_(std::move(keys)), items_(std::move(items)) {}
  Kind kind_ = Kind::None;
  Tensor tensor_;
  std::vector<std::string> keys_;
  Items items_;
};

RUSH_API const char* kind_name(IValue::Kind kind);  // "a tuple", for messages

}  // namespace rush::jit
