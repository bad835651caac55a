// fft_plan.h: what a transform of one length needs: its factors and their twiddles.
//
// Note [How a transform is cut]
// - `Lanes`: many transforms side by side, element i of all of them next to each other. Every
//   factor is one pass (Stockham's order, so no bits are reversed), vectorised over the transforms.
// - One long row of n = n1 n2 elements is brought into that form: read as an (n1, n2) matrix, its
//   columns are n2 transforms side by side; then twiddles, a transposition, and n1 transforms side
//   by side. Up to kMedium elements this happens inside the second-level cache. Longer rows are cut
//   into strips of columns, spread over threads.
// - Lengths with a large prime factor: Bluestein's convolution, by transforms of a better length.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace rush {

template <class T>
struct FftPlan {
  explicit FftPlan(int64_t n);

  struct Pass {
    int64_t radix, m;  // m: butterflies
    std::vector<T> twiddles, roots;
  };

  int64_t n;
  bool smooth;                                   // only small prime factors
  std::vector<Pass> passes;                      // of smooth lengths up to kLongestLanes
  int64_t n1 = 0, n2 = 0;                        // a smooth row is cut into these, or n2 is 0
  std::shared_ptr<const FftPlan> first, second;  // of n1, n2
  std::vector<T> turn_re, turn_im;               // (n1, n2)
  std::shared_ptr<const FftPlan> convolution;    // Bluestein: of the better length
  std::vector<T> chirp_re, chirp_im, kernel_re, kernel_im;

  static constexpr int64_t kLongestLanes = 65536;
  static constexpr int64_t kMedium = sizeof(T) == 4 ? 16384 : 8192;

  bool has_lanes() const { return !passes.empty() || n == 1; }
  size_t bytes() const;
};

// The plan for a length, made when first asked for and kept.
template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n);

// cos and sin of -2 pi k / n for k <= n / 4, in pairs: what a transform of n real numbers needs
// beyond the plan of n / 2.
template <class T>
std::shared_ptr<const std::vector<T>> real_fft_roots(int64_t n);

// The smallest length from n on that transforms well.
int64_t good_fft_length(int64_t n);

}  // namespace rush
