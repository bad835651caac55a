// Connectionist temporal classification on GPUs, through kernels/ctc.cu.
#include "device/nn/loss.h"

#include <algorithm>
#include <vector>

#include "cuda/kernels/ctc_args.h"
#include "cuda/nn/rows.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kAlpha, kBeta, kGradient };

std::string spell(uint64_t key) {
  constexpr const char* names[] = {"ctc_alpha<", "ctc_beta<", "ctc_gradient<"};
  return concat("rush::", names[key >> 4], kernel_type(DType(key & 15)), ">");
}
const KernelFamily kFamily{"ctc.cu", spell};

struct Prepared {
  CtcArgs args{};
  Tensor table;  // the lengths, on the device

  Prepared(const Tensor& x, const Tensor& targets, const CtcLengths& lengths,
           const Tensor& log_alpha) {
    args.log_probs = x.data();
    args.targets = targets.data<const i64>();
    args.log_alpha = log_alpha.data();
    args.blank = lengths.blank;
    args.steps = x.sizes()[0], args.batch = x.sizes()[1], args.classes = x.sizes()[2];
    args.width = log_alpha.sizes()[2];
    args.longest = args.width / 2;
    std::vector<i64> all;
    all.insert(all.end(), lengths.input.begin(), lengths.input.end());
    all.insert(all.end(), lengths.target.begin(), lengths.target.end());
    all.insert(all.end(), lengths.first, lengths.first + args.batch);
    const size_t bytes = all.size() * sizeof(i64);
    const int device = x.device().index;
    Stream* stream = current_stream(device);
    if (Graph* graph = capture_of(stream)) [[unlikely]] {
      args.inputs = static_cast<const i64*>(graph->constant(all.data(), bytes));
    } else {
      table = make_tensor(Dims{int64_t(all.size())}, DType::Int64, x.device());
      args.inputs = table.data<i64>();
      bind(device);
      // The driver has copied it aside when the call returns.
      must(driver().MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(table.data()), all.data(), bytes,
                                    stream->handle()),
           "ctc_loss");
    }
    args.lengths = args.inputs + args.batch;
    args.first = args.lengths + args.batch;
  }
};

void ctc_loss(const Tensor& x, const Tensor& targets, const CtcLengths& lengths, const Tensor& loss,
              const Tensor& log_alpha) {
  Prepared p(x, targets, lengths, log_alpha);
  const int device = x.device().index;
  p.args.loss = loss.data();
  const FaultSlot fault = next_fault_slot(device, "ctc_loss", 2, p.args.classes);
  p.args.launch = fault.launch;
  p.args.fault = fault.record;
  launch(kFamily, kAlpha << 4 | uint64_t(x.dtype()), device, {unsigned(p.args.batch)}, {kThreads},
         p.args);
}

void ctc_loss_backward(const Tensor& x, const Tensor& targets, const CtcLengths& lengths,
                       const Tensor& loss, const Tensor& log_alpha, bool zero_infinity,
                       const Tensor& gx) {
  Prepared p(x, targets, lengths, log_alpha);
  CtcArgs& args = p.args;
  const int device = x.device().index;
  const Tensor log_beta = make_tensor(log_alpha.sizes(), x.dtype(), x.device());
  const Tensor chains = make_tensor(Dims{args.batch, 2, std::max<int64_t>(1, args.longest)},
                                    DType::Int32, x.device());
  args.log_beta = log_beta.data();
  args.chains = chains.data<i32>();
  args.loss = loss.data();
  args.gx = gx.data();
  args.zero_infinity = zero_infinity;
  launch(kFamily, kBeta << 4 | uint64_t(x.dtype()), device, {unsigned(args.batch)}, {kThreads},
         args);
  launch(kFamily, kGradient << 4 | uint64_t(x.dtype()), device, {unsigned(args.steps * args.batch)},
         {kThreads}, args);
}

const bool registered = [] {
  ctc_loops(DeviceType::CUDA) = {ctc_loss, ctc_loss_backward};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
