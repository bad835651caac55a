// misaligned.h: memory of others that is misaligned for its elements.
//
// Note [Misaligned memory]
// Loops read and write whole elements, which C++ allows only at addresses that are multiples of the
// type's alignment: elsewhere a compiler may use instructions that fail. Memory of our own is
// aligned to 64 bytes. Foreign memory may begin anywhere (behind a header of odd length, in packed
// records), and tensors over it share it like any other, as in PyTorch. So:
//
// - Blocks run over aligned copies of such tensors, and what they wrote is copied back
//   (run_block in ops/framework/op.h).
// - Copies themselves (cpu/copy), item(), lists and prints move bytes.
// - Whoever reads or writes memory beside these asks is_misaligned(), or takes contiguous_data(),
//   which is aligned.
// - Kernels of custom ops get the tensors as they are, as they do in PyTorch.
// - Nobody pays who has none: only a storage that does not begin at a multiple of the largest
//   alignment can hold misaligned elements, and g_odd_memory says whether there ever was one.
#pragma once

#include <atomic>

#include "core/tensor.h"

namespace rush {

// A complex number is aligned as its parts are.
constexpr int64_t alignment(DType t) {
  return info(t).category == Category::Complex ? info(t).size / 2 : info(t).size;
}
inline constexpr int64_t kLargestAlignment = 8;

extern RUSH_API std::atomic<bool> g_odd_memory;
[[gnu::cold]] RUSH_API bool begins_misaligned(const Tensor& t);

// Do t's elements lie where loops must not read them?
inline bool is_misaligned(const Tensor& t) {
  if (!g_odd_memory.load(std::memory_order_relaxed)) [[likely]]
    return false;
  return begins_misaligned(t);
}

}  // namespace rush
