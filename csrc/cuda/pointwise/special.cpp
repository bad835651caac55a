// Special functions on GPUs, through kernels/special.cu.
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/pointwise.h"

namespace rush::cuda {
namespace {

// Key: the function, then the type.
std::string spell_special(uint64_t key) {
  const SpecialInfo& f = info(SpecialFn(key >> 4));
  const char* type = kernel_type(DType(key & 15));
  std::string text = concat("rush::pointwise_flat<rush::functors::", f.name);
  if (f.params) text += concat("<", type, ">");
  text += concat(", ", int(f.params), ", ", type, ", 1");
  for (int i = 0; i <= f.inputs; ++i) text += concat(", ", type);
  return text + ">";
}
const KernelFamily kSpecial{"special.cu", spell_special};

template <int Inputs>
void queue(SpecialFn fn, const Tensor* const* in, const Tensor& out, double first, double second) {
  const int device = out.device().index;
  PointwiseArgs<Inputs> args{};
  args.n = out.numel();
  args.out = out.data();
  for (int i = 0; i < Inputs; ++i) args.in[i] = in[i]->data();
  args.params[0] = to_number(first);
  args.params[1] = to_number(second);
  launch_each(kSpecial, uint64_t(fn) << 4 | uint64_t(out.dtype()), device,
              args.n / packs_at_once(1) + 1, args);
}

const bool registered = [] {
  pointwise_loops(DeviceType::CUDA).special = [](SpecialFn fn, const Tensor& x, const Tensor& y,
                                                 const Tensor& out, double first, double second) {
    if (out.numel() == 0) return;
    const Tensor* in[] = {&x, &y};
    if (info(fn).inputs == 1)
      queue<1>(fn, in, out, first, second);
    else
      queue<2>(fn, in, out, first, second);
  };
  return true;
}();

}  // namespace
}  // namespace rush::cuda
