// rnn_plan.h: what the passes over a recurrent layer share: the weights as panels, and how the work
// is cut among threads.
#pragma once

#include <algorithm>
#include <vector>

#include "core/threads.h"
#include "cpu/kernels/rnn_tables.h"
#include "cpu/linalg/multiply.h"
#include "cpu/scratch.h"
#include "device/nn/rnn.h"

namespace rush {

template <class T>
const RnnTable<T>& rnn_kernels();  // for the processor at hand

// Rows that lie a multiple of 2 KiB apart would all fall into few sets of the first-level cache.
// An odd number of cache lines is the best distance.
template <class T>
int64_t padded_row(int64_t n) {
  constexpr int64_t line = 64 / int64_t(sizeof(T));
  const int64_t lines = (n + line - 1) / line;
  return (lines | 1) * line;
}
template <class T>
bool rows_collide(int64_t row) {
  return row * int64_t(sizeof(T)) % 2048 == 0;
}

template <class T>
void copy_rows(int64_t rows, int64_t n, const T* from, int64_t from_row, T* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_row, n, to + r * to_row);
}
template <class T>
void clear_rows(int64_t rows, int64_t n, T* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * to_row, n, T(0));
}

// A weight as the right operand of products, cut into blocks of units; a block holds these units of
// every gate. Packed: as panels, worth their making over many steps. Otherwise there is one block,
// and a library does the products.
template <class T>
class RnnWeight {
 public:
  // unit(u) of gate g at depth k is from[(g * units + u) * unit_stride + k * depth_stride].
  RnnWeight(const T* from, int64_t gates, int64_t units, int64_t depth, int64_t unit_stride,
            int64_t depth_stride, bool packed);

  int64_t blocks() const { return packed_ ? (units_ + wide_ - 1) / wide_ : 1; }
  int64_t begin(int64_t block) const { return block * wide_; }
  int64_t units(int64_t block) const {
    return packed_ ? std::min(wide_, units_ - begin(block)) : units_;
  }
  int64_t width(int64_t block) const {  // as stored: whole vectors
    if (!packed_) return units_;
    return units(block) > lanes_ ? wide_ : lanes_;
  }
  int64_t padded_units() const { return packed_ ? blocks() * wide_ : units_; }
  bool packed() const { return packed_; }

  // c (+)= a @ these gates of a block; c has `width` numbers a gate.
  void multiply(int64_t block, int64_t gate, int64_t gates, int64_t rows, const T* a, int64_t a_row,
                T* c, int64_t c_row, bool accumulate) const;

 private:
  const T* from_;
  int64_t gates_, units_, depth_, unit_stride_, depth_stride_, lanes_, wide_;
  bool packed_;
  Scratch<T> panels_;
};

// Are there so few steps that packing does not pay? Measured on a Zen 4: packing costs about as
// much as one product with 32 rows, or four with a single row.
inline bool worth_packing(const RnnLayer& layer) {
  const size_t steps = layer.batch_sizes.size();
  return steps > 2 && (layer.batch() > 1 || steps > 8);
}

// What both passes over a layer begin with.
struct RnnPass {
  const RnnLayer& layer;
  const RnnSteps steps;
  const int64_t gates, hidden, outputs;

  explicit RnnPass(const RnnLayer& l)
      : layer(l),
        steps(l.batch_sizes, l.reverse),
        gates(rnn_gates(l.mode)),
        hidden(l.hidden()),
        outputs(l.outputs()) {}
};

// Sequences are independent: each thread takes some of them through all steps. Where there are too
// few, threads share the units of a step instead, and wait for each other after each.
struct RnnSplit {
  std::vector<int64_t> bounds;  // of the pieces: sequences bounds[i] to bounds[i + 1]
  int64_t together;             // how many of a piece go through the steps at once, at most
  bool share_units = false;
};
template <class T>
RnnSplit split_rnn(const RnnLayer& layer, const RnnSteps& steps, const RnnWeight<T>& weight);

// Calls run(begin, end) for groups of sequences.
template <class F>
void for_sequences(const RnnSplit& split, F&& run) {
  const int64_t pieces = int64_t(split.bounds.size()) - 1;
  parallel_for(pieces, 1, [&](int64_t piece, int64_t last) {
    for (; piece < last; ++piece) {
      const int64_t begin = split.bounds[size_t(piece)], end = split.bounds[size_t(piece + 1)];
      const int64_t groups = (end - begin + split.together - 1) / split.together;
      for (int64_t g = 0; g < groups; ++g)
        run(begin + g * (end - begin) / groups, begin + (g + 1) * (end - begin) / groups);
    }
  });
}

// Calls run(block) for all blocks. Every other step goes backwards: what the last step left in the
// cache is used first.
template <class F>
void for_blocks(int64_t blocks, bool share, int64_t step, F&& run) {
  const auto range = [&](int64_t begin, int64_t end) {
    if (step % 2 == 0)
      for (int64_t b = begin; b < end; ++b) run(b);
    else
      for (int64_t b = end; b-- > begin;) run(b);
  };
  if (share)
    parallel_for_whole(blocks, 1, range);
  else
    range(0, blocks);
}

// Pieces of work on independent rows, when nobody else splits them.
template <class F>
void for_rows(int64_t rows, int64_t numbers_a_row, bool share, F&& run) {
  constexpr int64_t kGrain = 4096;  // numbers of gates worth a thread
  if (share)
    parallel_for(rows, std::max<int64_t>(1, kGrain / numbers_a_row), run);
  else
    run(0, rows);
}

template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() && t.numel() > 0 ? t.data<T>() : nullptr;
}

}  // namespace rush
