// custom_op.h: operators that users define while the program runs, from Python or C++.
//
// - Each is an OpEntry like those of the table, under the name "namespace::name": find_ops finds it,
//   and interceptors, observers, programs and the call by name see an ordinary op.
// - Entries are never freed, and neither are kernels that were replaced: a call may be under way,
//   and programs keep entries. Definitions are few.
// - A call passes the interceptors, then the op's gradient where one is needed, then the kernel of
//   the tensors' device. Kernels run without recording a graph; composite ones are the exception,
//   whose ops are recorded as if the caller had called them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "ops/framework/custom_schema.h"

namespace rush {

// What a user wrote for one operator: in C++ (frontend/library.h) or in Python.
class RUSH_API CustomKernel {
 public:
  virtual ~CustomKernel() = default;
  // Raises where the kernel is none for this schema.
  virtual void check_schema(const CustomSchema&) const {}
  // Results are owned, or borrow from the arguments.
  virtual void call(Value* args, Value* results) = 0;
};
// A rule for vmap. `samples` is the size of the level; in_dims[i] of each argument: -1 for one that
// all samples share, else 0, and the argument's tensors have the samples first. Returns out_dims.
class RUSH_API CustomBatchRule {
 public:
  virtual ~CustomBatchRule() = default;
  virtual std::vector<int64_t> call(int64_t samples, const std::vector<int64_t>& in_dims,
                                    Value* args, Value* results) = 0;
};

// Where a kernel belongs, by PyTorch's names.
enum class CustomKey : uint8_t {
  CPU,
  CUDA,
  Meta,
  CompositeExplicit,  // every device that has none of its own
  CompositeImplicit,  // the same, written over ops that know their gradients
  Autograd,           // called where a gradient is needed
};
inline constexpr size_t kCustomKeyCount = 6;
// "CPU", "CompositeImplicitAutograd", "": nothing for a name that is none of ours.
RUSH_API std::optional<CustomKey> parse_custom_key(std::string_view name);

class RUSH_API CustomOp {
 public:
  const OpEntry& entry() const { return *entry_; }
  const CustomSchema& schema() const { return schema_; }
  std::string display_name() const;  // "ns::name.overload"

  // Takes over the kernel; one that was there before is replaced (and kept).
  void set_kernel(CustomKey key, std::unique_ptr<CustomKernel> kernel);
  bool has_kernel(CustomKey key) const { return kernel(key) != nullptr; }
  void set_batch_rule(std::unique_ptr<CustomBatchRule> rule);
  // What mixed precision casts floating arguments to.
  void set_autocast(DeviceType device, DType dtype);
  std::optional<DType> autocast_dtype(DeviceType device) const;

  Value default_value(size_t argument) const;
  // The whole way of a call.
  void call(Value* args, Value* results) const;
  // The kernel alone, as the gradient's forward needs it.
  void call_kernel(Value* args, Value* results) const;
  // Exactly the kernel under a key; raises where there is none.
  void call_key(CustomKey key, Value* args, Value* results) const;

  void run_batched(BatchedCall& call) const;

 private:
  friend CustomOp& define_custom_op(CustomSchema schema);
  CustomKernel* kernel(CustomKey key) const {
    return kernels_[size_t(key)].load(std::memory_order_acquire);
  }
  CustomKernel& kernel_for(DeviceType device, bool& implicit) const;
  void dispatch(Value* args, Value* results) const;
  void check_mutated(const Value* args) const;

  OpEntry* entry_ = nullptr;
  CustomSchema schema_;
  std::string qualified_, result_names_;
  std::vector<ArgSpec> specs_;
  std::atomic<CustomKernel*> kernels_[kCustomKeyCount] = {};
  std::atomic<CustomBatchRule*> batch_rule_ = nullptr;
  std::atomic<int> autocast_[kDeviceTypeCount] = {-1, -1, -1};
  bool mutates_ = false;
};

// Adds an operator; raises when its name and overload are taken.
RUSH_API CustomOp& define_custom_op(CustomSchema schema);
// The operator behind an entry; null for those of the table.
RUSH_API CustomOp* custom_op_of(const OpEntry& entry);
// "ns::name", "ns::name.overload": null when there is none.
RUSH_API CustomOp* find_custom_op(std::string_view qualified);
// The overloads of a name, for find_ops.
std::span<const OpEntry> find_custom_entries(std::string_view name);
// Registers the kernel now, or as soon as the operator is defined: the order in which parts of
// libraries are loaded is not theirs to choose.
RUSH_API void set_kernel_when_defined(std::string_view qualified, CustomKey key,
                                      std::unique_ptr<CustomKernel> kernel);
// Forgets the names; entries that somebody holds stay as they are.
RUSH_API void remove_custom_op(std::string_view qualified);
RUSH_API std::vector<std::string> custom_op_names();

// Value::own of a list, for kernels outside of the library.
RUSH_API void own_list(Value& v, std::vector<Tensor> list);

// The value that an argument takes where the caller gives none, for ops of both kinds.
RUSH_API Value default_argument(const OpEntry& entry, size_t argument);

}  // namespace rush
