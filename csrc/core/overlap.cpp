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
  // The distances between two elements of one tensor. No two dims have steps of equal length.
  explicit Meeting(const Tensor& t) {
    for (int64_t i = 0; i < t.dim(); ++i) {
      const int64_t last = t.sizes()[size_t(i)] - 1;
      add(t.strides()[size_t(i)], -last, last);
    }
    sort();
  }

  Meeting(const Tensor& a, const Tensor& b) {
    add(1, -(b.element_size() - 1), a.element_size() - 1);
    for (int64_t i = 0; i < a.dim(); ++i)
      add(a.strides()[size_t(i)] * a.element_size(), 0, a.sizes()[size_t(i)] - 1);
    for (int64_t i = 0; i < b.dim(); ++i)
      add(b.strides()[size_t(i)] * b.element_size(), 1 - b.sizes()[size_t(i)], 0);
    sort();
  }

  // Of one tensor: do some steps along a dim end where steps along shorter ones do?
  bool returns() {
    for (size_t k = 1; k < terms_.size(); ++k) {
      int64_t reach = 0;
      for (size_t below = 0; below < k; ++below) reach += terms_[below].stride * terms_[below].high;
      for (int64_t i = 1; i <= terms_[k].high && i * terms_[k].stride <= reach; ++i) {
        if (reaches(k, i * terms_[k].stride)) return true;
        if (tries_ > kMostTries) return false;
      }
    }
    return false;
  }

  Overlap find(int64_t distance) {
    const bool found = reaches(terms_.size(), distance);
    if (found) return Overlap::Partial;
    return tries_ > kMostTries ? Overlap::Unknown : Overlap::No;
  }

 private:
  static constexpr int kMostTries = 1000;

  void sort() {
    std::sort(terms_.begin(), terms_.end(),
              [](const Term& x, const Term& y) { return x.stride < y.stride; });
  }

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
  if (t.numel() == 0) return false;
  bool nested = true;  // as slices are: each step is as long as all of the next dim
  int64_t above = 0;
  for (size_t i = 0; i < t.sizes().size(); ++i) {
    const int64_t size = t.sizes()[i], stride = t.strides()[i];
    if (size == 1) continue;
    if (stride == 0) return true;
    for (size_t k = 0; k < i; ++k) {
      if (t.sizes()[k] > 1 && t.strides()[k] == stride) return true;
    }
    nested = nested && (above == 0 || stride <= above / size);
    above = stride;
  }
  return !nested && Meeting(t).returns();
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
