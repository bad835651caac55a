#include "core/allocator.h"

#include <atomic>
#include <cstdlib>

#include "core/error.h"

namespace rush {

namespace {
std::atomic<int64_t> g_live{0}, g_peak{0}, g_allocs{0}, g_frees{0}, g_fail_in{0};
std::atomic<bool> g_caching{true};
size_t rounded(size_t n) { return n == 0 ? 64 : (n + 63) / 64 * 64; }
}  // namespace

void* cpu_allocate(size_t n) {
  if (g_fail_in.load() > 0 && g_fail_in.fetch_sub(1) == 1)
    fail(ErrorKind::OutOfMemory, "", "out of memory: tried to allocate ", n, " bytes (a test asked)");
  void* p = n > (size_t{1} << 60) ? nullptr : std::aligned_alloc(64, rounded(n));
  check(p != nullptr, ErrorKind::OutOfMemory, "", "out of memory: tried to allocate ", n, " bytes");
  const int64_t live = g_live.fetch_add(int64_t(rounded(n))) + int64_t(rounded(n));
  for (int64_t peak = g_peak; live > peak && !g_peak.compare_exchange_weak(peak, live);) {
  }
  ++g_allocs;
  return p;
}

void cpu_free(void* p, size_t n) noexcept {
  std::free(p);
  g_live -= int64_t(rounded(n));
  ++g_frees;
}

MemoryStats cpu_memory_stats() {
  return {g_live, g_live, g_peak, g_peak, g_allocs - g_frees, g_allocs, g_frees, 0, g_allocs, g_frees};
}
void reset_peak_memory_stats() { g_peak = g_live.load(); }
void empty_cache() {}
void set_caching_enabled(bool on) { g_caching = on; }
bool caching_enabled() { return g_caching; }
void fail_nth_allocation(int64_t n) { g_fail_in = n; }

}  // namespace rush
