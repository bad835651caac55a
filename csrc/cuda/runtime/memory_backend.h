// memory_backend.h: where the GPU's caching pools get their memory from: the driver.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/caching_pool.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {

// Points that freed memory waits for. An Event of a pool is a pointer to a list of them.
using Points = std::vector<std::unique_ptr<Event>>;

// Whether pools that have no memory yet will grow by virtual memory.
extern std::atomic<bool> g_expandable;

class GpuBackend final : public MemoryBackend {
 public:
  int device = 0;
  std::atomic<int64_t> limit{-1};  // bytes; -1: the whole device

  bool done(MemoryBackend::Event e) noexcept override;
  void wait(MemoryBackend::Event e) noexcept override;
  size_t granule() noexcept override;
  void* reserve_range(size_t nbytes) noexcept override;
  void release_range(void* p, size_t nbytes) noexcept override;
  // cuMemFree waits for the device; taking pieces away does not. While a graph is captured nobody
  // can wait for the device.
  bool quiesce() noexcept override;

 protected:
  void* do_reserve(size_t nbytes) noexcept override;
  void do_release(void* p, size_t nbytes) noexcept override;
  Piece do_map(void* p, size_t nbytes) noexcept override;
  void do_unmap(void* p, size_t nbytes, Piece piece) noexcept override;

 private:
  bool is_over_limit(size_t nbytes) const noexcept;
  bool can_map(size_t nbytes) noexcept;
  // Makes the device the thread's; false in a forked child, which must leave it alone.
  bool is_usable() const noexcept;
  std::atomic<int64_t> granule_{-1};
};

class PinnedBackend final : public MemoryBackend {
 public:
  bool done(MemoryBackend::Event e) noexcept override { return gpu_.done(e); }
  void wait(MemoryBackend::Event e) noexcept override { gpu_.wait(e); }

 protected:
  void* do_reserve(size_t nbytes) noexcept override;
  void do_release(void* p, size_t nbytes) noexcept override;

 private:
  GpuBackend gpu_;  // for its points
};

}  // namespace rush::cuda
