// Losses of input and target on GPUs, through kernels/loss.cu.
#include "device/nn/loss.h"

#include "core/modes.h"
#include "cuda/nn/rows.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

// As kernels/loss.cu has it.
struct Noting {
  u64 launch;
  IndexFault* fault;
};

enum Kernel : uint64_t { kEach, kSum, kSlope, kJoin };

// Key: kernel, loss, packs, type.
std::string spell(uint64_t key) {
  constexpr const char* kernels[] = {"each", "sum", "slope", "join"};
  constexpr const char* losses[] = {"L1", "Mse", "SmoothL1", "Huber", "BinaryLogits", "Binary"};
  static_assert(std::size(losses) == size_t(LossFn::kCount));
  const auto type = DType(key & 15);
  if (Kernel(key >> 8) == kJoin) return concat("rush::loss_join<", kernel_type(type), ">");
  return concat("rush::loss_", kernels[key >> 8], "<rush::losses::", losses[key >> 5 & 7], "<",
                compute_name(type), ">, ", type_pair(type), ", ", key >> 4 & 1 ? pack_of(type) : 1,
                ">");
}
const KernelFamily kFamily{"loss.cu", spell};

void run(Kernel kernel, LossFn fn, const LossArgs& args, const Tensor& x, Grid grid) {
  const bool packs = aligned(
      {args.x, args.target, args.g_step ? args.g : nullptr, kernel == kSum ? nullptr : args.y});
  const int device = x.device().index;
  const uint64_t key = kernel << 8 | uint64_t(fn) << 5 | uint64_t(packs) << 4 | uint64_t(x.dtype());
  if (kernel == kSlope) return launch(kFamily, key, device, grid, {kThreads}, args);
  FaultSlot fault{};
  if (fn == LossFn::Binary)
    fault = next_fault_slot(device, "binary_cross_entropy",
                            "the input must be probabilities between 0 and 1");
  const Noting to{fault.launch, fault.record};
  launch(kFamily, key, device, grid, {kThreads}, args, to);
}
Grid grid_for(const Tensor& x) {
  return blocks_for(x.numel() / pack_of(x.dtype()) + 1, x.device().index);
}

void loss(LossFn fn, const Tensor& x, const Tensor& target, double parameter, const Tensor& out) {
  LossArgs args{x.numel(), x.data(), target.data(), nullptr, out.data(), nullptr,
                0,         0,        parameter,     1};
  if (args.n) run(kEach, fn, args, x, grid_for(x));
}

void loss_sum(LossFn fn, const Tensor& x, const Tensor& target, double parameter, double divisor,
              const Tensor& out) {
  LossArgs args{x.numel(), x.data(), target.data(), nullptr,    out.data(), nullptr,
                0,         0,        parameter,     1 / divisor};
  Grid grid = grid_for(x);
  if (grid.x <= 4) grid.x = 1;  // a second launch costs more
  args.blocks = i32(grid.x);
  Tensor partial;
  if (grid.x > 1) {
    partial = make_tensor(Dims{grid.x}, DType::Float64, x.device());
    args.partial = partial.data<double>();
    if (t_modes & kDefer) args.counter = stream_counters(x.device().index, 1);
  }
  run(kSum, fn, args, x, grid);
  if (grid.x > 1 && !args.counter)
    launch(kFamily, kJoin << 8 | uint64_t(x.dtype()), x.device().index, {1}, {kThreads}, args);
}

void loss_backward(LossFn fn, const Tensor& x, const Tensor& target, double parameter,
                   const Tensor& g, double scale, const Tensor& gx) {
  if (x.numel() == 0) return;
  const i32 step = g.numel() == x.numel();
  const LossArgs args{x.numel(), x.data(), target.data(), g.data(), gx.data(), nullptr,
                      step,      0,        parameter,     scale};
  run(kSlope, fn, args, x, grid_for(x));
}

const bool registered = [] {
  LossLoops& loops = loss_loops(DeviceType::CUDA);
  loops.element = loss;
  loops.element_sum = loss_sum;
  loops.element_backward = loss_backward;
  loops.element_takes_halves = true;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
