// small_blocks.h: what stands behind the thread-local lists of allocator.h: central lists, slabs,
// and the registry of threads that the statistics are summed from. Private to the allocator.
#pragma once

#include <array>
#include <vector>

#include "core/allocator.h"
#include "core/caching_pool.h"
#include "core/mutex.h"

namespace rush::detail {

class SmallBlocks {
 public:
  explicit SmallBlocks(CachingPool& slabs) : slab_source_(slabs) {}

  void* allocate(int cls) noexcept;  // null when out of memory
  void free(void* p, int cls) noexcept;
  void trim() noexcept;  // this thread's lists, then every slab that is free as a whole

  // Blocks that do not come from here are counted here too: one place knows what is live.
  void count_outside(int64_t nbytes, bool fresh) noexcept;
  void count_free_outside(int64_t nbytes) noexcept;

  struct Totals {
    int64_t live, peak, allocations, frees, misses;
  };
  Totals totals();
  void reset_peak();

  void detach_thread(ThreadCache* cache) noexcept;  // the thread ends

  void lock() noexcept;
  void unlock() noexcept;

 private:
  struct Slab {
    char* begin;
    int64_t cut, free;  // blocks handed out at all; blocks free, known only inside trim
  };
  struct Central {
    Mutex mutex{LockRank::SizeClass};
    FreeBlock* chains = nullptr;
    char *cut = nullptr, *end = nullptr;  // what is left of the newest slab
    std::vector<Slab> slabs;              // sorted by address
    Slab* newest() { return find(end - 1); }
    Slab* find(const void* p);
  };
  struct Chain {
    FreeBlock* head = nullptr;
    int64_t length = 0;
    bool fresh = false;
  };

  ThreadCache* attach_thread() noexcept;  // null: the thread is ending, or no memory
  Chain take_chain(int cls) noexcept;
  bool add_slab(Central& central) noexcept;
  void give_chain(int cls, FreeBlock* head, int64_t length) noexcept;
  void give_back(Bin& bin, int cls, int keep) noexcept;
  void trim_class(int cls) noexcept;
  void add_counts(ThreadCache& cache) noexcept;
  void raise_peak(int64_t live) noexcept;

  CachingPool& slab_source_;
  std::array<Central, kClasses> central_;
  Mutex registry_mutex_{LockRank::ThreadRegistry};
  std::vector<ThreadCache*> registry_;
  std::atomic<int64_t> live_{0}, peak_{0};
};

}  // namespace rush::detail
