// Recurrent networks on GPUs, by cuDNN; float LSTMs by lstm.cpp, the steps of cells by
// kernels/rnn.cu.
//
// cuDNN wants all parameters side by side in one buffer. They are gathered by one launch per call,
// and gradients go back the same way: a small part of the time of a step, and no second copy of
// the weights lives between forward and backward.
#include <limits>

#include "cuda/nn/lstm.h"
#include "cuda/nn/rnn_plan.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/settings.h"
#include "device/nn/rnn.h"

namespace rush::cuda {
namespace {

// ---- weights ----

std::string spell_pieces(uint64_t key) {
  return concat("rush::move_pieces<", kernel_bytes(int64_t(key)), ">");
}
const KernelFamily kPieces{"rnn.cu", spell_pieces};

struct Piece {
  const void* from;
  void* to;
  int64_t nbytes;
};

// Copies all pieces, by as few launches as their number allows.
void move_pieces(const std::vector<Piece>& pieces, int device) {
  uint64_t bits = 16;
  int64_t longest = 0;
  for (const Piece& p : pieces) {
    bits |= reinterpret_cast<uintptr_t>(p.from) | reinterpret_cast<uintptr_t>(p.to) |
            uint64_t(p.nbytes);
    longest = std::max(longest, p.nbytes);
  }
  const int64_t width = int64_t(bits & (~bits + 1));  // the widest access that suits all of them
  for (size_t first = 0; first < pieces.size(); first += kMostPieces) {
    PiecesArgs args{};
    const size_t count = std::min<size_t>(kMostPieces, pieces.size() - first);
    for (size_t k = 0; k < count; ++k) {
      const Piece& p = pieces[first + k];
      args.from[k] = p.from, args.to[k] = p.to, args.count[k] = p.nbytes / width;
    }
    const int64_t blocks = std::clamp<int64_t>(longest / width / (kThreads * 8), 1, 1024);
    launch(kPieces, uint64_t(width), device, {unsigned(blocks), unsigned(count)}, {kThreads}, args);
  }
}

Tensor bytes(size_t count, Device device) {
  return make_tensor(Dims{int64_t(count)}, DType::UInt8, device);
}

Tensor gather_weights(const RnnPlan& plan, std::span<const Tensor> params, Device device) {
  const Tensor all = bytes(plan.weight_bytes(), device);
  std::vector<Piece> pieces;
  for (size_t i = 0; i < params.size(); ++i)
    pieces.push_back({params[i].data(), all.data<char>() + plan.places()[i], params[i].nbytes()});
  move_pieces(pieces, device.index);
  return all;
}

// ---- networks ----

bool rnn_takes(const RnnNetwork& n) {
  if (lstm_takes(n)) return true;
  if (!dnn::has_type(n.dtype) || !settings().cudnn_enabled.load() ||
      !dnn::rnn_library().missing.empty())
    return false;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const int64_t widest = std::max(n.inputs, n.hidden) * n.directions();
  if (widest >= most || n.batch_sizes[0] * int64_t(n.batch_sizes.size()) >= most) return false;
  return !rnn_plan(n).refused();
}

int64_t rnn_reserve(const RnnNetwork& n) {
  return lstm_takes(n) ? lstm_reserve(n) : int64_t(rnn_plan(n).reserve_bytes());
}

void* data_of(const Tensor& t) { return t.defined() && t.numel() > 0 ? t.data() : nullptr; }

void rnn_forward(const RnnNetwork& n, const RnnNetworkTensors& t) {
  if (lstm_takes(n)) return lstm_forward(n, t);
  const RnnPlan& plan = rnn_plan(n);
  const bool training = data_of(t.reserve) != nullptr;
  const Tensor weights = gather_weights(plan, t.params, n.device);
  const size_t room = plan.work_bytes(training);
  const Tensor work = bytes(room, n.device);
  dnn::done(dnn::rnn_library().RnnForward(
                dnn::handle(n.device.index), plan.rnn, training ? dnn::kTraining : dnn::kInference,
                nullptr, plan.x, t.input.data(), plan.y, t.output.data(), plan.h, data_of(t.h),
                data_of(t.last_h), plan.c, data_of(t.c), data_of(t.last_c), plan.weight_bytes(),
                weights.data(), room, work.data(), training ? plan.reserve_bytes() : 0,
                data_of(t.reserve)),
            "rnn");
}

void rnn_backward(const RnnNetwork& n, const RnnNetworkTensors& t, const RnnNetworkGrads& g) {
  if (lstm_takes(n)) return lstm_backward(n, t, g);
  const RnnPlan& plan = rnn_plan(n);
  const dnn::RnnLibrary& l = dnn::rnn_library();
  const Tensor weights = gather_weights(plan, t.params, n.device);
  const size_t room = plan.work_bytes(true);
  const Tensor work = bytes(room, n.device);
  dnn::done(l.RnnBackwardData(dnn::handle(n.device.index), plan.rnn, nullptr, plan.y,
                              t.output.data(), g.output.data(), plan.x, g.input.data(), plan.h,
                              data_of(t.h), data_of(g.last_h), data_of(g.h), plan.c, data_of(t.c),
                              data_of(g.last_c), data_of(g.c), plan.weight_bytes(), weights.data(),
                              room, work.data(), plan.reserve_bytes(), t.reserve.data()),
            "rnn");
  std::vector<Piece> pieces;
  const Tensor& all = weights;  // read for the last time: the gradients may take their place
  for (size_t i = 0; i < g.params.size(); ++i) {
    if (g.params[i].defined())
      pieces.push_back(
          {all.data<char>() + plan.places()[i], g.params[i].data(), g.params[i].nbytes()});
  }
  if (pieces.empty()) return;
  fill(all, 0);
  dnn::done(l.RnnBackwardWeights(dnn::handle(n.device.index), plan.rnn, dnn::kAddGrads, nullptr,
                                 plan.x, t.input.data(), plan.h, data_of(t.h), plan.y,
                                 t.output.data(), plan.weight_bytes(), all.data(), room,
                                 work.data(), plan.reserve_bytes(), t.reserve.data()),
            "rnn");
  move_pieces(pieces, n.device.index);
}

// ---- cells ----

// Key: backward, GRU, type.
std::string spell_cell(uint64_t key) {
  const DType t = DType(key & 15);
  return concat("rush::", key >> 4 & 1 ? "gru" : "lstm", "_cell", key >> 5 & 1 ? "_backward<" : "<",
                kernel_type(t), ", ", t == DType::Float64 ? "double" : "float", ">");
}
const KernelFamily kCells{"rnn.cu", spell_cell};

CellArgs cell_args(const CellTensors& t) {
  CellArgs a{};
  a.batch = t.before.sizes()[0];
  a.units = t.before.sizes()[1];
  a.before = t.before.data();
  a.c = data_of(t.c);
  a.kept = data_of(t.kept);
  return a;
}

void launch_cell(RnnMode mode, bool backward, DType dtype, const CellArgs& args, int device) {
  launch_each(kCells,
              uint64_t(backward) << 5 | uint64_t(mode == RnnMode::Gru) << 4 | uint64_t(dtype),
              device, args.batch * args.units, args);
}

void cell(RnnMode mode, const CellTensors& t) {
  CellArgs a = cell_args(t);
  a.input_sums = t.input_sums.data();
  a.state_sums = t.state_sums.data();
  a.b_input = data_of(t.b_input);
  a.b_state = data_of(t.b_state);
  a.h = t.h.data();
  launch_cell(mode, false, t.before.dtype(), a, t.before.device().index);
}

void cell_backward(RnnMode mode, const CellTensors& t, const CellGrads& g) {
  if (t.before.numel() == 0) return;
  CellArgs a = cell_args(t);
  a.h_grad = data_of(g.h);
  a.c_grad = data_of(g.c);
  a.input_sums_grad = g.input_sums.data();
  a.state_sums_grad = data_of(g.state_sums);
  a.before_grad = data_of(g.before);
  launch_cell(mode, true, t.before.dtype(), a, t.before.device().index);
}

const bool registered = [] {
  RnnLoops& loops = rnn_loops(DeviceType::CUDA);
  loops.network_takes = rnn_takes;
  loops.network_reserve = rnn_reserve;
  loops.network_forward = rnn_forward;
  loops.network_backward = rnn_backward;
  loops.cell = cell;
  loops.cell_backward = cell_backward;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
