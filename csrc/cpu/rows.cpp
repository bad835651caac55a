#include "cpu/rows.h"

#include <algorithm>

#include "cpu/copy.h"

namespace rush {

namespace {

// A chunk of each operand: four of them leave room in a 48 KiB first-level cache, and three in 32.
constexpr int64_t kChunkBytes = 8192;

// Outputs from this size on are written past the caches (measured).
constexpr int64_t kStreamBytes = 8 << 20;

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

}  // namespace

void run_plan(std::span<const LoopOperand> ops, RowPlan& plan) {
  const int64_t bytes = ops[0].geometry->numel * element_size(plan.wanted[0]);
  plan.stream = bytes >= kStreamBytes && plan.given[0] == plan.wanted[0] && is_flat(ops);
  loop(ops, run_row, &plan);
}

}  // namespace rush
