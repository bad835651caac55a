// allocator.h: memory for CPU tensors. The design is at the top of allocator.cpp; here is what has
// to be inlined into every op: popping a block off a thread's own list, and pushing it back.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/export.h"

namespace rush {

// `allocated` counts live bytes as rounded to a size class or to 512 bytes; peaks are exact for one
// thread, and too high by at most the threads' lists for several. A cache hit is an allocation that
// took memory which had been used before or was already cut up.
struct MemoryStats {
  int64_t allocated, reserved, peak_allocated, peak_reserved, live_blocks, allocations, frees,
      cache_hits, system_reserves, system_releases;
};

// 64 byte aligned, never null (also for 0 bytes); throws Error(OutOfMemory).
void* cpu_allocate(size_t nbytes);
// From any thread, with the nbytes that were asked for.
void cpu_free(void* p, size_t nbytes) noexcept;

RUSH_API MemoryStats cpu_memory_stats();
RUSH_API void reset_peak_memory_stats();
// Gives cached memory back to the system. Other threads keep their (bounded) lists.
RUSH_API void empty_cache();
// Off: every allocation is malloc's, for tools that watch malloc.
RUSH_API void set_caching_enabled(bool on);
RUSH_API bool caching_enabled();
// Whether memory from now on lies in huge pages. What is cached goes back to the system first.
RUSH_API void set_huge_pages(bool on);
RUSH_API bool huge_pages();
// For tests: the n-th allocation from now throws OutOfMemory, once. 0 disarms.
RUSH_API void fail_nth_allocation(int64_t n);

namespace detail {

// Sanitisers must see every block as malloc's own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kBypassCache = true;
#else
inline constexpr bool kBypassCache = false;
#endif

#if defined(RUSH_DEBUG_POISON)
inline constexpr bool kPoison = true;  // 0xFF bytes are NaN in every floating type
#else
inline constexpr bool kPoison = false;
#endif

// Size classes: every 64 bytes up to 1 KiB, then four a power of two up to 64 KiB.
inline constexpr size_t kSmallLimit = 64 * 1024;  // requests below this are small
inline constexpr int kClasses = 16 + 4 * 6;

constexpr size_t class_size(int cls) {
  if (cls < 16) return size_t(cls + 1) * 64;
  return size_t(5 + (cls - 16) % 4) << (8 + (cls - 16) / 4);
}

// Class by ceil(nbytes / 64): a table is one load, and small sizes share its first cache line.
inline constexpr auto kClassOf = [] {
  std::array<uint8_t, kSmallLimit / 64 + 1> table{};
  int cls = 0;
  for (size_t units = 0; units < table.size(); ++units) {
    while (class_size(cls) < units * 64) ++cls;
    table[units] = uint8_t(cls);
  }
  return table;
}();
static_assert(class_size(kClasses - 1) == kSmallLimit && kClassOf.back() == kClasses - 1);

// What a free block holds. It may alias anything: the same bytes were a tensor's a moment ago.
struct [[gnu::may_alias]] FreeBlock {
  FreeBlock* next;
  FreeBlock* next_chain;  // only in the first block of a chain in the central lists
  int64_t chain_length;
};

struct Bin {
  FreeBlock* head;
  uint16_t count, limit;
  uint32_t size;
};

// One a thread. The counters are written by their owner and read by anyone: relaxed atomics, which
// compile to plain loads and stores.
struct alignas(64) ThreadCache {
  std::atomic<int64_t> delta{0};  // live bytes not yet added to the process's total
  std::atomic<int64_t> high{0};   // the highest delta since then
  std::atomic<int64_t> allocations{0}, frees{0}, misses{0};
  bool in_use = false;
  std::array<Bin, kClasses> bins{};

  static void add(std::atomic<int64_t>& counter, int64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void count_allocation(int64_t nbytes) {
    add(allocations, 1);
    add(delta, nbytes);
    const int64_t now = delta.load(std::memory_order_relaxed);
    if (now > high.load(std::memory_order_relaxed)) high.store(now, std::memory_order_relaxed);
  }
  void count_free(int64_t nbytes) {
    add(frees, 1);
    add(delta, -nbytes);
  }
};

// A thread without a cache points to an empty one whose lists have no room, so both fast paths fail
// by themselves. Only the pointer is thread-local: static TLS is scarce in a library that Python
// loads, and initial-exec saves the call that a dynamic TLS address would cost.
extern constinit thread_local ThreadCache* t_cache [[gnu::tls_model("initial-exec")]];
// Set while caching is off, a fault is armed, or blocks from malloc are still alive.
extern constinit std::atomic<bool> g_leave_fast_path;

void* allocate_slow(size_t nbytes);
void free_slow(void* p, size_t nbytes) noexcept;

inline bool on_fast_path(size_t nbytes) {
  return !kBypassCache && nbytes < kSmallLimit &&
         !g_leave_fast_path.load(std::memory_order_relaxed);
}

}  // namespace detail

inline void* cpu_allocate(size_t nbytes) {
  using namespace detail;
  if (on_fast_path(nbytes)) [[likely]] {
    ThreadCache* cache = t_cache;
    Bin& bin = cache->bins[kClassOf[(nbytes + 63) / 64]];
    if (FreeBlock* block = bin.head; block != nullptr) [[likely]] {
      bin.head = block->next;
      --bin.count;
      cache->count_allocation(bin.size);
      if constexpr (kPoison) std::memset(static_cast<void*>(block), 0xFF, bin.size);
      return block;
    }
  }
  return allocate_slow(nbytes);
}

inline void cpu_free(void* p, size_t nbytes) noexcept {
  using namespace detail;
  if (on_fast_path(nbytes)) [[likely]] {
    ThreadCache* cache = t_cache;
    Bin& bin = cache->bins[kClassOf[(nbytes + 63) / 64]];
    if (bin.count < bin.limit) [[likely]] {
      FreeBlock* block = static_cast<FreeBlock*>(p);
      block->next = bin.head;
      bin.head = block;
      ++bin.count;
      cache->count_free(bin.size);
      return;
    }
  }
  free_slow(p, nbytes);
}

}  // namespace rush
