// radix_sort.h: sorts packed keys (order_keys.h) byte by byte, from the lowest byte of the key up.
//
// Each pass moves the elements into 256 bins and keeps their order inside a bin, so the result is
// the stable one. Several threads take one piece of the input each; the places where a piece's
// elements go follow from the counts of all pieces, so the result is the same for any number of
// them. Passes in which all keys have the same byte are skipped.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"

namespace rush {

inline constexpr int64_t kRadixStep = 1 << 18;  // elements between looks for an interrupt
inline constexpr int64_t kRadixPiece =
    1 << 17;  // elements below which a second thread is not worth it

using Counts = std::array<int64_t, 256>;

template <class P>
inline uint8_t digit(P p, int shift) {
  return uint8_t(p >> shift);
}

// The elements of one piece to their bins; `next` holds each bin's next place and is used up.
template <class P>
void move_to_bins(const P* from, P* to, int64_t n, int shift, Counts& next) {
  in_steps(n, kRadixStep, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) to[next[digit(from[i], shift)]++] = from[i];
  });
}

// Sorts a[0, n) by the `bytes` bytes from bit `shift` on, using b as room; returns where the result
// is (a or b).
template <class P>
P* radix_sort(P* a, P* b, int64_t n, int shift, int bytes) {
  const int64_t pieces =
      std::clamp<int64_t>(n / kRadixPiece, 1, in_parallel_region() ? 1 : num_threads());
  auto start = [&](int64_t piece) { return n * piece / pieces; };
  // counts[piece * bytes + byte], of the input's order; they stay true in total only, once elements
  // have moved.
  std::vector<Counts> counts(size_t(pieces * bytes));
  parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      Counts* own = &counts[size_t(piece * bytes)];
      for (int k = 0; k < bytes; ++k) own[k].fill(0);
      const P* from = a + start(piece);
      in_steps(start(piece + 1) - start(piece), kRadixStep, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          for (int k = 0; k < bytes; ++k) ++own[k][digit(from[i], shift + 8 * k)];
        }
      });
    }
  });
  bool moved = false;
  std::vector<Counts> next(static_cast<size_t>(pieces));
  for (int k = 0; k < bytes; ++k) {
    const int at = shift + 8 * k;
    int64_t same = 0;
    for (int64_t piece = 0; piece < pieces; ++piece)
      same += counts[size_t(piece * bytes + k)][digit(a[0], at)];
    if (same == n) continue;
    if (pieces > 1 && moved) {
      parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
        for (int64_t piece = first; piece < last; ++piece) {
          Counts& own = next[size_t(piece)];
          own.fill(0);
          const P* from = a + start(piece);
          in_steps(start(piece + 1) - start(piece), kRadixStep, [&](int64_t i, int64_t end) {
            for (; i < end; ++i) ++own[digit(from[i], at)];
          });
        }
      });
    } else {
      for (int64_t piece = 0; piece < pieces; ++piece)
        next[size_t(piece)] = counts[size_t(piece * bytes + k)];
    }
    int64_t sum = 0;
    for (size_t bin = 0; bin < 256; ++bin) {
      for (Counts& piece : next) sum += std::exchange(piece[bin], sum);
    }
    parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        move_to_bins(a + start(piece), b, start(piece + 1) - start(piece), at, next[size_t(piece)]);
      }
    });
    std::swap(a, b);
    moved = true;
  }
  return a;
}

}  // namespace rush
