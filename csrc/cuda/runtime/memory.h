// memory.h: memory on GPUs, and host memory that GPUs can reach.
//
// One CachingPool a stream: what a stream frees, it may use again at once, since its work runs in
// order. A block that other streams read as well (record_stream) waits for them. The driver is
// asked for memory only when no pool of the stream has any, and asked again after every pool of the
// device has given back what it caches, and after the reclaimer has freed what it can.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/caching_pool.h"
#include "core/export.h"
#include "core/storage.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {

MemoryBackend& device_memory_backend(int device);

struct MemoryStat {
  int64_t current = 0, peak = 0, gained = 0, lost = 0;
  void change(int64_t n, bool up) {
    current += up ? n : -n;
    (up ? gained : lost) += n;
    if (current > peak) peak = current;
  }
};
using PoolStat = std::array<MemoryStat, 3>;  // all, large blocks, small blocks

struct GpuMemoryStats {
  PoolStat blocks, allocated, requested;
  int64_t reserved = 0, peak_reserved = 0, driver_allocations = 0, driver_frees = 0, retries = 0,
          out_of_memory = 0;
};
RUSH_API GpuMemoryStats gpu_memory_stats(int device);
RUSH_API void reset_gpu_peaks(int device);
RUSH_API void reset_gpu_totals(int device);
RUSH_API void empty_gpu_cache();
// Between enter() and leave() this thread allocates what will live on (an optimiser's states, born
// at the end of the first iteration). The pools of the current streams grow for them first, so that
// the next iteration finds all of its memory as it was.
class RUSH_API LastingMemory {
 public:
  explicit LastingMemory(std::vector<std::pair<int, size_t>> sizes) : sizes_(std::move(sizes)) {}
  void enter();
  void leave();

 private:
  std::vector<std::pair<int, size_t>> sizes_;  // device and bytes of each
};
// What is called before an allocation fails: it frees blocks that are only kept for others.
RUSH_API void set_reclaimer(void (*reclaim)());
// At most this part of the device's memory may be reserved.
RUSH_API void set_memory_fraction(int device, double fraction);
RUSH_API double memory_fraction(int device);
// Off: every block comes from the driver and goes back to it. Only while nothing is allocated.
RUSH_API void set_gpu_caching(bool on);
RUSH_API bool gpu_caching();

// A user's functions in place of the pools: each tensor's memory comes from `allocate` and goes back
// by `free`, with the device and the stream (a cudaStream_t) it was asked for on. They may be called
// from any thread and must throw nothing; null means that there is no memory. Only while nothing is
// allocated; empty ones bring the pools back. Memory of captured graphs comes from the driver.
struct UserGpuAllocator {
  void* (*allocate)(ptrdiff_t nbytes, int device, void* stream) = nullptr;
  void (*free)(void* p, ptrdiff_t nbytes, int device, void* stream) = nullptr;
};
RUSH_API void set_user_gpu_allocator(UserGpuAllocator functions);

// Whether pools that have no memory yet will grow by virtual memory; off: by segments.
RUSH_API void set_expandable_segments(bool on);
RUSH_API bool expandable_segments();

// The block is used by another stream, too: it is not handed out again before that is done.
RUSH_API void record_stream(const Storage& storage, Stream* stream);
RUSH_API bool is_recorded(const Storage& storage);

struct PinnedMemoryStats {
  int64_t reserved, peak_reserved, reserves, releases;
};
RUSH_API PinnedMemoryStats pinned_memory_stats();

// Host memory that a copy can run from and to by itself.
RUSH_API Ref<Storage> allocate_pinned(size_t nbytes);
RUSH_API bool is_pinned(const Storage& storage);
// The stream goes on reading (or writing) the pinned block: it is not handed out before that.
void use_pinned(const Storage& storage, Stream* stream);

}  // namespace rush::cuda
