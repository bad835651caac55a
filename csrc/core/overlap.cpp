// overlap.cpp: do two tensors share elements? Exact for all geometries that programs build.
//
// An address of a is a0 + sum(i_k * s_k), one of b is b0 + sum(j_k * t_k); both meet when the sum
// of all terms, each a stride times a number from a range, can be b0 - a0. Steps of equal length
// are one term. From the longest stride down, the terms below reach only so far, which leaves few
// numbers to try: nested strides (all that slicing makes) leave one or two.
#include <algorithm>

#include "core/small_vector.h"
#include "core/tensor.h"

namespace rush {
namespace {

struct Term {
  int64_t stride, low, high;  // stride * n for n in [low, high]
};

class Meeting {
 public:
  Meeting(const Tensor& a, const Tensor& b) {
    add(1, -(b.element_size() - 1), a.element_size() - 1);
    for (int64_t i = 0; i < a.dim(); ++i)
      add(a.strides()[size_t(i)] * a.element_size(), 0, a.sizes()[size_t(i)] - 1);
    for (int64_t i = 0; i < b.dim(); ++i)
      add(b.strides()[size_t(i)] * b.element_size(), 1 - b.sizes()[size_t(i)], 0);
    std::sort(terms_.begin(), terms_.end(),
              [](const Term& x, const Term& y) { return x.stride < y.stride; });
  }

  Overlap find(int64_t distance) {
    const bool found = reaches(terms_.size(), distance);
    if (found) return Overlap::Partial;
    return tries_ > kMostTries ? Overlap::Unknown : Overlap::No;
  }

 private:
  static constexpr int kMostTries = 1000;

  void add(int64_t stride, int64_t low, int64_t high) {
    if (low == high || stride == 0) return;
    for (Term& t : terms_) {
      if (t.stride == stride) {
        t.low += low;
        t.high += high;
        return;
      }
    }
    terms_.push_back({stride, low, high});
  }

  // Can the first n terms add up to `distance`?
  bool reaches(size_t n, int64_t distance) {
    if (n == 0) return distance == 0;
    const Term& t = terms_[n - 1];
    int64_t low = 0, high = 0;  // of all terms below
    for (size_t k = 0; k + 1 < n; ++k) {
      low += terms_[k].stride * terms_[k].low;
      high += terms_[k].stride * terms_[k].high;
    }
    for (int64_t i = std::max(t.low, divide_up(distance - high, t.stride));
         i <= t.high && i * t.stride <= distance - low; ++i) {
      if (++tries_ > kMostTries) return false;
      if (reaches(n - 1, distance - i * t.stride)) return true;
    }
    return false;
  }

  static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b > 0); }

  SmallVector<Term, 16> terms_;
  int tries_ = 0;
};

}  // namespace

bool has_internal_overlap(const Tensor& t) {
  if (t.is_contiguous() || is_dense(t.sizes(), t.strides())) return false;
  for (int64_t i = 0; i < t.dim(); ++i) {
    if (t.sizes()[i] > 1 && t.strides()[i] == 0) return true;
  }
  return false;
}

// Does each index mean the same address in both?
static bool same_geometry(const Tensor& a, const Tensor& b) {
  if (a.data() != b.data() || a.element_size() != b.element_size() || !(a.sizes() == b.sizes()))
    return false;
  for (size_t i = 0; i < a.sizes().size(); ++i) {
    if (a.sizes()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  }
  return true;
}

Overlap overlap(const Tensor& a, const Tensor& b) {
  if (!(a.storage() == b.storage())) {
    if (!a.storage()->is_foreign() && !b.storage()->is_foreign()) return Overlap::No;
  }
  if (a.numel() == 0 || b.numel() == 0 || a.is_meta() || b.is_meta()) return Overlap::No;
  if (same_geometry(a, b)) return Overlap::Full;
  return Meeting(a, b).find(static_cast<char*>(b.data()) - static_cast<char*>(a.data()));
}

}  // namespace rush
