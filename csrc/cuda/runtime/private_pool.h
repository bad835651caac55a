// private_pool.h: memory of captured graphs.
//
// A graph's kernels have addresses in them, so its memory never goes back to the driver and never
// to anyone else while the graph lives. Within a capture it is used again in the order of the
// stream, as ever. Graphs that are replayed in the order of their capture may share a pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/export.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {

using PoolId = std::pair<int64_t, int64_t>;  // (0, 0): none
// A name for a pool that several graphs share.
RUSH_API PoolId new_pool_id();

class PrivatePool {
 public:
  // The pool of that name on the device, with one user more. (0, 0): a new one.
  static PrivatePool* acquire(PoolId id, int device);
  // One user less. After the last, memory goes back to the driver as it is freed.
  void release();

  PoolId id() const { return id_; }
  // The part that a stream uses.
  Arena& arena_of(Stream* stream);
  void begin_capture();
  void end_capture();
  // `elsewhere`: streams other than the pool's have used the block. Nobody can tell when they are
  // done before the capture is.
  void free(CachingPool& pool, void* p, bool elsewhere) noexcept;

  // f(arena, id) for what all pools have.
  static void for_each_arena(const std::function<void(Arena&, PoolId)>& f);

 private:
  PrivatePool(PoolId id, int device) : id_(id), device_(device) {}
  bool is_spent() noexcept;

  // All that changes is guarded by one mutex for all pools.
  const PoolId id_;
  const int device_;
  int users_ = 0, captures_ = 0;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::pair<CachingPool*, void*>> held_;
};

}  // namespace rush::cuda
