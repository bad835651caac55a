// Softmax and its gradient on GPUs, through kernels/softmax.cu.
#include "device/nn/softmax.h"
#include "core/layout.h"
#include "core/shape.h"
#include "cuda/nn/row_choice.h"
#include "cuda/runtime/loops.h"
#include "device/deferred.h"

namespace rush::cuda {
namespace {

enum class Way : uint64_t { Held, HeldTwice, Rows, Columns };

// Key: backward, log, way, team (or whether columns are shared), packs, type.
struct Instance {
  bool backward, log;
  Way way;
  int team;  // for Columns: 1 when lanes share them
  bool packs;
  DType type;

  uint64_t key() const {
    return uint64_t(backward) << 10 | uint64_t(log) << 9 | uint64_t(way) << 7 |
           uint64_t(team) << 5 | uint64_t(packs) << 4 | uint64_t(type);
  }
  static Instance of(uint64_t k) {
    return {bool(k >> 10 & 1), bool(k >> 9 & 1), Way(k >> 7 & 3),
            int(k >> 5 & 3),   bool(k >> 4 & 1), DType(k & 15)};
  }
};

// Threads that share a column where columns are few.
constexpr int kLanes = 16;

std::string spell(uint64_t key) {
  const Instance i = Instance::of(key);
  constexpr const char* ways[] = {"held<", "held<", "rows<", "columns<"};
  const int64_t width = i.packs ? pack_of(i.type) : 1;
  std::string how;
  if (i.way == Way::Columns)
    how = concat(i.team ? kLanes : 1);
  else if (i.way == Way::Rows)
    how = concat(kTeams[i.team], ", ", width);
  else
    how = concat(kTeams[i.team], ", ", width, ", ",
                 (i.way == Way::Held ? 1 : 2) * held_elements(i.type) / width);
  return concat("rush::softmax_", i.backward ? "backward_" : "", ways[int(i.way)],
                type_pair(i.type), ", ", how, ", ", i.log ? "true>" : "false>");
}
const KernelFamily kSoftmax{"softmax.cu", spell};

// x, y and g (in the backward pass) lie alike and densely: along dim, neighbours are `inner` apart.
void run(bool log, const Tensor& x, const void* g, int64_t dim, const Tensor& y) {
  const int device = x.device().index;
  SoftmaxArgs args{x.data(), g, y.data(), 1, x.dim() ? x.sizes()[size_t(dim)] : 1, 1};
  if (args.width > 1) args.inner = x.strides()[size_t(dim)];
  args.rows = x.numel() / args.width;
  Instance i{g != nullptr, log, Way::Columns, 0, false, x.dtype()};
  if (args.inner > 1) {
    i.team = args.width > 8 && few_columns(args.rows, device);
    const int64_t columns = kThreads / (i.team ? kLanes : 1);
    launch(kSoftmax, i.key(), device, {unsigned((args.rows + columns - 1) / columns)}, {kThreads},
           args);
    return;
  }
  const RowChoice choice = softmax_choice(i.type, args.width);
  i.team = choice.team;
  i.way = choice.held == 0                       ? Way::Rows
          : choice.held == held_elements(i.type) ? Way::Held
                                                 : Way::HeldTwice;
  i.packs = args.width % pack_of(i.type) == 0 && aligned({args.x, args.g, args.y});
  launch(kSoftmax, i.key(), device, blocks_of_teams(args.rows, i.team), {kThreads}, args);
}

bool softmax(const Tensor& x, int64_t dim, bool log, const Tensor& out) {
  if (is_unborn(out) && deferred::take_softmax(x, dim, log, out)) return true;
  if (!is_dense(out.sizes(), out.strides()) || x.dtype() != out.dtype()) return false;
  run(log, lying_like(out, x), nullptr, dim, out);
  return true;
}

void softmax_backward(const Tensor& g, const Tensor& y, int64_t dim, bool log, const Tensor& gx) {
  if (is_unborn(gx) && deferred::take_softmax_backward(g, y, dim, log, gx)) return;
  const Tensor from = lying_like(gx, g);
  run(log, lying_like(gx, y), from.data(), dim, gx);
}

const bool registered = [] {
  const auto has_backward = [](const Tensor&, int64_t) { return true; };
  softmax_loops(DeviceType::CUDA) = {softmax, has_backward, softmax_backward};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
