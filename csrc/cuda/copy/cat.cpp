// Joining tensors on GPUs, through kernels/cat.cu.
#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "cuda/kernels/cat_args.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "device/copy.h"

namespace rush::cuda {
namespace {

// Key: the unit's width (log 2), long counts.
std::string spell_cat(uint64_t key) {
  return concat("rush::cat<", kernel_bytes(1 << (key >> 1)), ", ",
                key & 1 ? "rush::u64" : "rush::u32", ">");
}
const KernelFamily kCat{"cat.cu", spell_cat};

// The dims as they lie in memory, from the outermost inwards; sizes of 1 do not matter.
std::vector<size_t> memory_order(const Tensor& t) {
  std::vector<size_t> order(size_t(t.dim()));
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return t.strides()[a] > t.strides()[b]; });
  return order;
}

// Elements from one stretch of t to the next, if the dims from `d` on lie end to end and those
// before it are one evenly spaced dim; else -1.
int64_t step_of_stretches(const Tensor& t, const std::vector<size_t>& order, size_t d) {
  int64_t expected = 1, step = 0;
  bool inside = true;
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t n = t.sizes()[order[i]], stride = t.strides()[order[i]];
    if (n != 1 && !inside && step == 0) step = expected = stride;
    if (n != 1 && (stride != expected || stride <= 0)) return -1;
    expected *= n;
    inside = inside && order[i] != d;
  }
  return step == 0 ? expected : step;
}

bool is_dense_in(const Tensor& t, const std::vector<size_t>& order) {
  return step_of_stretches(t, order, order.empty() ? 0 : order.front()) >= 0;
}

struct Piece {
  const Tensor* tensor;
  int64_t place;  // along the joined dim
  int64_t step;   // of its stretches, in elements
};

class Launch {
 public:
  Launch(const Tensor& out, int64_t outer, int64_t inner)
      : out_(out), outer_(outer), inner_(inner * out.element_size()) {}

  // All numbers in bytes until the unit is known.
  void add(const Piece& piece, int64_t extent) {
    const auto k = size_t(count_++);
    args_.in[k] = piece.tensor->data();
    args_.run[k] = extent * inner_;
    args_.place[k] = piece.place * inner_;
    args_.step[k] = piece.step * out_.element_size();
    bits_ |= reinterpret_cast<uintptr_t>(args_.in[k]) |
             uint64_t(args_.run[k] | args_.place[k] | args_.step[k]);
    longest_ = std::max(longest_, args_.run[k]);
    if (count_ == kCatInputs) queue();
  }

  void queue() {
    if (count_ == 0) return;
    args_.out = out_.data();
    args_.outer = outer_;
    args_.out_run = out_.nbytes() / outer_;
    bits_ |= reinterpret_cast<uintptr_t>(args_.out) | uint64_t(args_.out_run) | 16;
    const int unit = std::countr_zero(bits_);
    const int64_t most = (longest_ >> unit) * outer_;
    const bool is_long = most >= int64_t(1) << 31;
    args_.out_run >>= unit;
    for (int k = 0; k < count_; ++k) {
      args_.run[k] >>= unit, args_.place[k] >>= unit, args_.step[k] >>= unit;
      if (!is_long) args_.by_run[k] = Divider<u32>::of(u32(args_.run[k]));
    }
    const int device = out_.device().index;
    Grid grid = blocks_for(most, device);
    grid.y = unsigned(count_);
    launch(kCat, uint64_t(unit) << 1 | is_long, device, grid, {kThreads}, args_);
    count_ = 0, bits_ = 0, longest_ = 0;
  }

 private:
  const Tensor& out_;
  int64_t outer_, inner_;
  CatArgs args_{};
  int count_ = 0;
  uint64_t bits_ = 0;
  int64_t longest_ = 0;
};

void cat(std::span<const Tensor> tensors, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto d = size_t(dim);
  const std::vector<size_t> order = memory_order(out);
  const bool dense = is_dense_in(out, order);
  int64_t outer = 1, inner = 1;
  bool inside = false;
  for (const size_t i : order) {
    if (i == d)
      inside = true;
    else
      (inside ? inner : outer) *= out.sizes()[i];
  }
  Launch launch(out, outer, inner);
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    if (t.dim() != out.dim()) continue;  // an empty vector, which joins with anything
    const int64_t extent = t.sizes()[d];
    if (t.numel() > 0) {
      const int64_t step = dense ? step_of_stretches(t, order, d) : -1;
      if (step >= 0 && t.dtype() == out.dtype()) {
        launch.add({&t, at, step}, extent);
      } else {
        Dims sizes(out.sizes());
        sizes[d] = extent;
        copy(t, out.alias(sizes, out.strides(), out.offset() + at * out.strides()[d]), false);
      }
    }
    at += extent;
  }
  launch.queue();
}

const bool registered = [] {
  copy_loops(DeviceType::CUDA).cat = cat;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
