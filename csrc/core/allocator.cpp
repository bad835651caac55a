// allocator.cpp: memory for CPU tensors.
//
// Small blocks (below 64 KiB), where the cost of the call counts:
// - 40 size classes. Each thread has a list of free blocks per class; allocate pops, free pushes, no
//   lock and no atomic read-modify-write (allocator.h).
// - A block goes to the list of the thread that frees it, whoever allocated it. A list has a limit;
//   at the limit half of it moves, as one chain, to the class's central list under a lock, and an
//   empty list takes a chain from there. So a producer and a consumer thread pass blocks in
//   batches.
// - New blocks are cut from slabs of 256 KiB, a few at a time, so that pages are touched late.
// - A thread that ends hands its lists to the central ones; its cache object is kept and reused by
//   the next new thread, and with it its counters: nothing is forgotten.
// - empty_cache() counts the free blocks of each slab and gives back slabs that are free as a
//   whole.
//
// Everything else comes from two CachingPools over mmap: one for slabs and for blocks up to 1 MiB,
// one for larger ones, so that a long-lived small block cannot hold a huge segment.
//
// Statistics: each thread counts for itself and adds its live bytes to the total (add_counts)
// whenever it leaves the fast path; what it has not added is bounded by its lists. Reading sums
// all.
//
// Fork: every lock is held across it, so the child finds consistent lists; the lists of threads
// that do not exist in the child are lost to it, and bounded.
//
// Nothing here is ever destroyed: tensors may be freed by static destructors and by dying threads.
#include "core/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <unordered_map>
#include <vector>

#include "core/cpu_backend.h"
#include "core/error.h"
#include "core/fork_locks.h"
#include "core/memory_listener.h"
#include "core/mutex.h"
#include "core/small_blocks.h"
#include "core/user_allocator.h"

namespace rush {

constinit std::atomic<MemoryListener> detail::g_memory_listener{nullptr};

namespace {

using namespace detail;

constexpr size_t kMediumLimit = 1 << 20;  // requests above this have the large pool
constexpr size_t kAlign = 64;

CachingPool::Options medium_options() {
  return {.segment_round = CpuBackend::kHugePage,
          .first_step = CpuBackend::kHugePage,
          .largest_step = size_t{32} << 20,
          .least_rest = kSmallLimit,
          .cache_cap = CpuBackend::default_cache_cap() / 8};
}

CachingPool::Options large_options() {
  return {.segment_round = CpuBackend::kHugePage,
          .first_step = size_t{8} << 20,
          .largest_step = size_t{64} << 20,
          .least_rest = kMediumLimit,
          .cache_cap = CpuBackend::default_cache_cap()};
}

struct Allocator {
  CpuBackend backend;
  CachingPool medium{backend, medium_options()};
  CachingPool large{backend, large_options()};
  SmallBlocks small{medium};

  Mutex switches{LockRank::AllocatorSwitches};  // guards the four below and g_leave_fast_path
  // Live blocks that came from malloc, while caching was off, or from a user's functions: who frees
  // them, null for malloc's.
  std::unordered_map<void*, void (*)(void*, size_t)> direct;
  UserAllocator user;
  bool caching = true;
  int64_t fail_in = 0;  // allocations until the injected failure; 0: none

  CachingPool& pool_for(size_t nbytes) { return nbytes <= kMediumLimit ? medium : large; }

  void choose_path() {  // with `switches` held
    const bool listened = g_memory_listener.load(std::memory_order_relaxed) != nullptr;
    g_leave_fast_path.store(!caching || user.allocate || fail_in > 0 || !direct.empty() || listened,
                            std::memory_order_relaxed);
  }
};

Allocator* make_allocator();

Allocator& allocator() {
  static Allocator& instance = *make_allocator();
  return instance;
}

Allocator* make_allocator() {
  static Allocator* made = new Allocator;
  static constexpr auto unlock = [] {
    made->large.unlock();
    made->medium.unlock();
    made->small.unlock();
    made->switches.unlock();
  };
  static const ForkLock all{LockRank::AllocatorSwitches,
                            [] {
                              made->switches.lock();
                              made->small.lock();
                              made->medium.lock();
                              made->large.lock();
                            },
                            unlock, unlock};
  hold_across_forks(all);
  return made;
}

int64_t counted_size(size_t nbytes) {
  return int64_t(nbytes < kSmallLimit ? class_size(kClassOf[(nbytes + 63) / 64])
                                      : CachingPool::round(nbytes));
}

[[noreturn]] void out_of_memory(size_t nbytes, const char* why) {
  const MemoryStats stats = cpu_memory_stats();
  fail(ErrorKind::OutOfMemory, "", "out of CPU memory: tried to allocate ", nbytes, " bytes", why,
       "; ", stats.allocated, " bytes are allocated and ", stats.reserved, " reserved");
}

// Counts one allocation against the injected failure.
bool failure_is_due(Allocator& a) {
  std::lock_guard lock(a.switches);
  if (a.fail_in == 0 || --a.fail_in > 0) return false;
  a.choose_path();
  return true;
}

// ---- Straight from malloc: caching is off, or a sanitiser watches ------------------------------

// Not a byte more than was asked for: who watches has to see a step beyond it.
void* malloc_block(size_t nbytes) {
  void* p = nullptr;
  return posix_memalign(&p, kAlign, std::max<size_t>(nbytes, 1)) == 0 ? p : nullptr;
}

void* user_block(const UserAllocator& user, size_t nbytes) {
  void* p = user.allocate(nbytes);
  if (p != nullptr && reinterpret_cast<uintptr_t>(p) % kAlign != 0) {
    user.free(p, nbytes);
    fail(ErrorKind::Runtime, "", "a user's allocator returned memory that is not aligned to ",
         kAlign, " bytes");
  }
  return p;
}

void* allocate_direct(Allocator& a, size_t nbytes) {
  UserAllocator user;
  {
    std::lock_guard lock(a.switches);
    user = a.user;
  }
  void* p = user.allocate ? user_block(user, nbytes) : malloc_block(nbytes);
  if (p == nullptr) out_of_memory(nbytes, user.allocate ? " from a user's allocator" : "");
  if (!kBypassCache || user.allocate) {
    std::lock_guard lock(a.switches);
    a.direct.emplace(p, user.free);
    a.choose_path();
  }
  a.small.count_outside(counted_size(nbytes), /*fresh=*/true);
  return p;
}

// Frees a block that lies in no pool; false when it does.
bool free_direct(Allocator& a, void* p, size_t nbytes) noexcept {
  void (*user_free)(void*, size_t) = nullptr;
  bool found = kBypassCache;
  if (g_leave_fast_path.load(std::memory_order_relaxed)) {
    std::lock_guard lock(a.switches);
    if (const auto at = a.direct.find(p); at != a.direct.end()) {
      user_free = at->second;
      a.direct.erase(at);
      a.choose_path();
      found = true;
    }
  }
  if (!found) return false;
  if (user_free)
    user_free(p, nbytes);
  else
    std::free(p);
  return true;
}

void* allocate_pooled(Allocator& a, size_t nbytes) {
  CachingPool& pool = a.pool_for(nbytes);
  CachingPool::Allocation got = pool.allocate(nbytes);
  if (got.p == nullptr) {
    empty_cache();
    got = pool.allocate(nbytes);
  }
  if (got.p == nullptr) out_of_memory(nbytes, "");
  a.small.count_outside(counted_size(nbytes), got.fresh);
  return got.p;
}

void* allocate_small(Allocator& a, size_t nbytes) {
  const int cls = kClassOf[(nbytes + 63) / 64];
  void* p = a.small.allocate(cls);
  if (p == nullptr) {
    empty_cache();
    p = a.small.allocate(cls);
  }
  if (p == nullptr) out_of_memory(nbytes, "");
  return p;
}

}  // namespace

void* detail::allocate_slow(size_t nbytes) {
  Allocator& a = allocator();
  bool caching = !kBypassCache;
  if (g_leave_fast_path.load(std::memory_order_relaxed)) {
    if (failure_is_due(a)) out_of_memory(nbytes, " (a failure injected by fail_nth_allocation)");
    std::lock_guard lock(a.switches);
    caching = caching && a.caching && !a.user.allocate;
  }
  if (nbytes > size_t{1} << 47) out_of_memory(nbytes, "");  // more than can be addressed
  void* p = !caching               ? allocate_direct(a, nbytes)
            : nbytes < kSmallLimit ? allocate_small(a, nbytes)
                                   : allocate_pooled(a, nbytes);
  if constexpr (kPoison) std::memset(p, 0xFF, nbytes);
  tell_of_block(Device{}, p, counted_size(nbytes));
  return p;
}

void detail::free_slow(void* p, size_t nbytes) noexcept {
  if (p == nullptr) return;
  Allocator& a = allocator();
  tell_of_block(Device{}, p, -counted_size(nbytes));
  if (free_direct(a, p, nbytes)) {
    a.small.count_free_outside(counted_size(nbytes));
  } else if (nbytes < kSmallLimit) {
    a.small.free(p, kClassOf[(nbytes + 63) / 64]);
  } else {
    a.pool_for(nbytes).free(p);
    a.small.count_free_outside(counted_size(nbytes));
  }
}

MemoryStats cpu_memory_stats() {
  Allocator& a = allocator();
  const SmallBlocks::Totals t = a.small.totals();
  const auto read = [](const std::atomic<int64_t>& counter) { return counter.load(); };
  return {.allocated = t.live,
          .reserved = read(a.backend.reserved),
          .peak_allocated = t.peak,
          .peak_reserved = read(a.backend.peak_reserved),
          .live_blocks = t.allocations - t.frees,
          .allocations = t.allocations,
          .frees = t.frees,
          .cache_hits = t.allocations - t.misses,
          .system_reserves = read(a.backend.reserves),
          .system_releases = read(a.backend.releases)};
}

void reset_peak_memory_stats() {
  Allocator& a = allocator();
  a.small.reset_peak();
  a.backend.peak_reserved.store(a.backend.reserved.load());
}

void empty_cache() {
  Allocator& a = allocator();
  a.small.trim();
  a.medium.release_cached();
  a.large.release_cached();
}

void set_caching_enabled(bool on) {
  Allocator& a = allocator();
  {
    std::lock_guard lock(a.switches);
    a.caching = on;
    a.choose_path();
  }
  a.medium.set_cache_cap(on ? medium_options().cache_cap : 0);
  a.large.set_cache_cap(on ? large_options().cache_cap : 0);
  if (!on) empty_cache();
}

UserAllocator set_user_allocator(UserAllocator functions) {
  check((functions.allocate == nullptr) == (functions.free == nullptr), ErrorKind::Value,
        "set_user_allocator", "both functions are needed, or none");
  Allocator& a = allocator();
  UserAllocator before;
  {
    std::lock_guard lock(a.switches);
    before = a.user;
    a.user = functions;
    a.choose_path();
  }
  empty_cache();
  return before;
}

bool caching_enabled() {
  Allocator& a = allocator();
  std::lock_guard lock(a.switches);
  return a.caching;
}

void set_memory_listener(MemoryListener listener) {
  Allocator& a = allocator();
  std::lock_guard lock(a.switches);
  g_memory_listener.store(listener, std::memory_order_release);
  a.choose_path();
}

void set_huge_pages(bool on) {
  CpuBackend::huge_pages.store(on);
  empty_cache();
}

bool huge_pages() { return CpuBackend::huge_pages.load(); }

void fail_nth_allocation(int64_t n) {
  check_argument(n >= 0, "fail_nth_allocation", "expected a number from 0, got ", n);
  Allocator& a = allocator();
  std::lock_guard lock(a.switches);
  a.fail_in = n;
  a.choose_path();
}

}  // namespace rush
