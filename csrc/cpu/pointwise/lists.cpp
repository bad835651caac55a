// Pointwise functions of lists of tensors on the CPU: the ordinary loops, which share out large
// tensors among threads by themselves, one tensor after the other.
#include "device/lists.h"

#include "device/copy.h"

namespace rush {
namespace {

// Number k of those that are there for all outputs or for each.
double nth(std::span<const double> numbers, size_t k) {
  return numbers[numbers.size() == 1 ? 0 : k];
}
Tensor nth(const ListInput& input, size_t k) {
  if (input.tensors.empty()) return wrap_number(nth(input.numbers, k));
  return input.tensors[input.tensors.size() == 1 ? 0 : k];
}

void list_pointwise_cpu(const ListWork& work) {
  const PointwiseLoops& loops = pointwise_loops(DeviceType::CPU);
  for (size_t k = 0; k < work.outs.size(); ++k) {
    const Tensor& out = work.outs[k];
    if (out.numel() == 0) continue;
    Scalar value;
    ParamSpan params;
    if (!work.value.empty()) {
      value = nth(work.value, k);
      params = {&value, 1};
    }
    const Tensor a = nth(work.inputs[0], k);
    if (work.arity == 1) {
      loops.unary(UnaryFn(work.fn), a, out, params, work.compute);
    } else if (work.arity == 2) {
      loops.binary(BinaryFn(work.fn), a, nth(work.inputs[1], k), out, params, work.compute);
    } else {
      loops.ternary(TernaryFn(work.fn), a, nth(work.inputs[1], k), nth(work.inputs[2], k), out,
                    params, work.compute);
    }
  }
}

void list_copy_cpu(std::span<const Tensor> from, std::span<const Tensor> to) {
  for (size_t k = 0; k < to.size(); ++k) copy_loops(DeviceType::CPU).copy(from[k], to[k], false);
}

void list_fill_cpu(std::span<const Tensor> tensors, double value) {
  for (const Tensor& t : tensors) copy_loops(DeviceType::CPU).fill(t, value);
}

const bool registered = [] {
  ListLoops& loops = list_loops(DeviceType::CPU);
  loops.pointwise = list_pointwise_cpu;
  loops.copy = list_copy_cpu;
  loops.fill = list_fill_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
