#include "cpu/rows.h"

#include <algorithm>

#include "cpu/copy/copy.h"
#include "cpu/copy/row_moves.h"

namespace rush {

namespace {

// A chunk of each operand: four of them leave room in a 48 KiB first-level cache, and three in 32.
constexpr int64_t kChunkBytes = 8192;

enum class Mode : uint8_t { Direct, Constant, Chunked };

// Operands that are not as the function wants them pass through buffers, a chunk at a time.
[[gnu::noinline]] void run_chunks(char* const* ptrs, const int64_t* strides, int64_t n,
                                  const RowPlan& plan) {
  const int operands = plan.operands;
  alignas(64) char buffers[4][kChunkBytes];
  Mode modes[4];
  ConvertFn bring[4];
  int64_t item[4], widest = 1;
  for (int i = 0; i < operands; ++i) {
    item[i] = element_size(plan.wanted[i]);
    widest = std::max(widest, item[i]);
  }
  const int64_t chunk = kChunkBytes / widest;
  char* at[4];
  for (int i = 0; i < operands; ++i) {
    const bool direct = plan.given[i] == plan.wanted[i] && strides[i] == item[i];
    modes[i] = direct ? Mode::Direct : i > 0 && strides[i] == 0 ? Mode::Constant : Mode::Chunked;
    if (i == 0 && plan.stream) modes[i] = Mode::Chunked;
    at[i] = modes[i] == Mode::Direct ? ptrs[i] : buffers[i];
    if (modes[i] == Mode::Direct) continue;
    bring[i] = i == 0 ? convert_fn(plan.wanted[0], plan.given[0])
                      : convert_fn(plan.given[i], plan.wanted[i]);
    if (modes[i] == Mode::Constant) bring[i](buffers[i], item[i], ptrs[i], 0, std::min(n, chunk));
  }
  for (int64_t done = 0; done < n; done += chunk) {
    const int64_t m = std::min(chunk, n - done);
    for (int i = 1; i < operands; ++i) {
      if (modes[i] == Mode::Chunked)
        bring[i](buffers[i], item[i], ptrs[i] + done * strides[i], strides[i], m);
    }
    plan.fn(at, m, plan.params);
    char* const out = ptrs[0] + done * strides[0];
    if (plan.stream) {
      stream_bytes(out, buffers[0], m * item[0]);
    } else if (modes[0] == Mode::Chunked) {
      bring[0](out, strides[0], buffers[0], item[0], m);
    }
    for (int i = 0; i < operands; ++i) {
      if (modes[i] == Mode::Direct) at[i] += m * strides[i];
    }
  }
}

void run_row(char* const* ptrs, const int64_t* strides, int64_t n, const void* context) {
  const RowPlan& plan = *static_cast<const RowPlan*>(context);
  bool direct = !plan.stream;
  for (int i = 0; i < plan.operands; ++i)
    direct &= plan.given[i] == plan.wanted[i] && strides[i] == element_size(plan.wanted[i]);
  if (direct) {
    plan.fn(ptrs, n, plan.params);
  } else {
    run_chunks(ptrs, strides, n, plan);
  }
}

// Rows that lie end to end, all of the types that the function wants.
void run_direct_row(char* const* ptrs, const int64_t*, int64_t n, const void* context) {
  const RowPlan& plan = *static_cast<const RowPlan*>(context);
  plan.fn(ptrs, n, plan.params);
}

// Rows this short are taken several at a time; and those shorter than that many elements also where
// the function could read them as they lie, since a call for each costs more than copies.
constexpr int64_t kShortRow = 512, kShortDirectRow = 64;

// Rows that are one element n times each, end to end; a call that fills each with longer vectors
// costs more while they are as short as kShortFill elements.
constexpr int64_t kShortFill = 128;
template <class Word>
void fill_rows(char* to, const char* from, int64_t from_step, int64_t rows, int64_t n) {
  Word* out = reinterpret_cast<Word*>(to);
  for (int64_t k = 0; k < rows; ++k, out += n) {
    Word value;
    __builtin_memcpy(&value, from + k * from_step, sizeof value);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) out[j] = value;
  }
}

// Several short rows side by side in one chunk. An operand that repeats from row to row (a bias) is
// laid out once and stays.
struct ShortRows {
  // How a row's elements lie: end to end, as one for all, or somehow.
  enum class Way : uint8_t { Row, One, Any };
  const LoopNest& nest;
  const RowPlan& plan;
  int64_t item[4], given_item[4], widest = 1, group;
  Way ways[4];
  bool same[4];  // the tensor's type is the function's

  ShortRows(const LoopNest& nest, const RowPlan& plan) : nest(nest), plan(plan) {
    for (int i = 0; i < plan.operands; ++i) {
      item[i] = element_size(plan.wanted[i]);
      given_item[i] = element_size(plan.given[i]);
      widest = std::max(widest, item[i]);
      same[i] = plan.given[i] == plan.wanted[i];
      const bool fills = nest.sizes[0] <= kShortFill && (item[i] == 4 || item[i] == 8);
      ways[i] = nest.strides[0][i] == given_item[i] ? Way::Row
                : nest.strides[0][i] == 0 && fills  ? Way::One
                                                    : Way::Any;
    }
    group = std::max<int64_t>(1, kChunkBytes / widest / nest.sizes[0]);
  }

  ConvertFn bring(int i) const {
    return i == 0 ? convert_fn(plan.wanted[0], plan.given[0])
                  : convert_fn(plan.given[i], plan.wanted[i]);
  }
  // Rows of operand i, `step` apart, to a buffer in which they lie end to end.
  void fetch(int i, char* to, const char* from, int64_t step, int64_t rows) const {
    const int64_t n = nest.sizes[0], bytes = n * given_item[i];
    alignas(64) char staged[kChunkBytes];
    if (ways[i] == Way::Row) {
      if (same[i]) return copy_rows(to, bytes, from, step, rows, bytes);
      if (step != bytes && given_item[i] <= widest) {
        copy_rows(staged, bytes, from, step, rows, bytes);
        from = staged;
        step = bytes;
      }
      if (step == bytes) return bring(i)(to, item[i], from, given_item[i], rows * n);
    } else if (ways[i] == Way::One) {
      if (!same[i]) {
        bring(i)(staged, item[i], from, step, rows);
        from = staged;
        step = item[i];
      }
      if (item[i] == 4) return fill_rows<uint32_t>(to, from, step, rows, n);
      return fill_rows<uint64_t>(to, from, step, rows, n);
    }
    for (int64_t k = 0; k < rows; ++k)
      bring(i)(to + k * n * item[i], item[i], from + k * step, nest.strides[0][i], n);
  }
  // The result's rows from there to where they belong.
  void put_back(char* to, const char* from, int64_t step, int64_t rows) const {
    const int64_t n = nest.sizes[0], bytes = n * given_item[0];
    alignas(64) char staged[kChunkBytes];
    if (ways[0] == Way::Row) {
      if (same[0]) return copy_rows(to, step, from, bytes, rows, bytes);
      if (step == bytes) return bring(0)(to, given_item[0], from, item[0], rows * n);
      if (given_item[0] <= widest) {
        bring(0)(staged, given_item[0], from, item[0], rows * n);
        return copy_rows(to, step, staged, bytes, rows, bytes);
      }
    }
    for (int64_t k = 0; k < rows; ++k)
      bring(0)(to + k * step, nest.strides[0][0], from + k * n * item[0], item[0], n);
  }
  // Could the function read and write all rows where they are, and would that save copies?
  bool lies_in_rows() const {
    bool copies = false;
    for (int i = 0; i < plan.operands; ++i) {
      if (ways[i] != Way::Row || !same[i]) return false;
      copies |= !direct(i) && nest.strides[1][i] != 0;
    }
    return copies;
  }
  bool direct(int i) const {
    return plan.given[i] == plan.wanted[i] && nest.strides[0][i] == item[i] &&
           nest.strides[1][i] == nest.sizes[0] * item[i];
  }

  void run(int64_t begin, int64_t end) const {
    alignas(64) char buffers[4][kChunkBytes];
    const char* laid_out[4] = {};  // what a repeated operand's buffer holds ...
    int64_t laid_rows[4] = {};     // ... and for how many rows
    const int64_t n = nest.sizes[0];
    for (int64_t row = begin; row < end;) {
      const int64_t rows = std::min({group, end - row, nest.sizes[1] - row % nest.sizes[1]});
      char *from[4], *at[4];
      for (int i = 0; i < plan.operands; ++i) from[i] = nest.base[i];
      int64_t rest = row;
      for (int d = 1; d < nest.dims; ++d) {
        const int64_t index = rest % nest.sizes[d];
        rest /= nest.sizes[d];
        for (int i = 0; i < plan.operands; ++i) from[i] += index * nest.strides[d][i];
      }
      for (int i = 0; i < plan.operands; ++i) {
        at[i] = direct(i) ? from[i] : buffers[i];
        if (i == 0 || direct(i)) continue;
        const int64_t step = nest.strides[1][i];
        if (step == 0 && laid_out[i] == from[i] && laid_rows[i] >= rows) continue;
        fetch(i, buffers[i], from[i], step, rows);
        laid_out[i] = from[i];
        laid_rows[i] = rows;
      }
      plan.fn(at, rows * n, plan.params);
      if (!direct(0)) put_back(from[0], buffers[0], nest.strides[1][0], rows);
      row += rows;
    }
  }
};

}  // namespace

void run_plan(std::span<const LoopOperand> ops, RowPlan& plan) {
  const int64_t bytes = ops[0].geometry->numel * element_size(plan.wanted[0]);
  const bool flat = is_flat(ops);
  plan.stream = flat && bytes >= kStreamBytes && plan.given[0] == plan.wanted[0];
  if (flat) {
    loop(ops, run_row, &plan);
    return;
  }
  const LoopNest nest(ops);
  if (nest.dims == 1 || nest.sizes[0] > kShortRow) {
    nest.run_parallel(run_row, &plan);
    return;
  }
  if (nest.numel == 0) return;
  const ShortRows short_rows(nest, plan);
  if (nest.sizes[0] >= kShortDirectRow && short_rows.lies_in_rows()) {
    nest.run_parallel(run_direct_row, &plan);
    return;
  }
  parallel_for(nest.numel / nest.sizes[0], std::max<int64_t>(1, kGrain / nest.sizes[0]),
               [&](int64_t begin, int64_t end) { short_rows.run(begin, end); });
}

}  // namespace rush
