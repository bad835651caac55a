// allocator.h: memory for CPU tensors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rush {

struct MemoryStats {
  int64_t allocated, reserved, peak_allocated, peak_reserved, live_blocks, allocations, frees,
      cache_hits, system_reserves, system_releases;
};

void* cpu_allocate(size_t nbytes);
void cpu_free(void* p, size_t nbytes) noexcept;
MemoryStats cpu_memory_stats();
void reset_peak_memory_stats();
void empty_cache();
void set_caching_enabled(bool on);
bool caching_enabled();
void fail_nth_allocation(int64_t n);

}  // namespace rush
