#include "cuda/runtime/private_pool.h"

#include <atomic>
#include <map>

#include "core/mutex.h"
#include "cuda/runtime/memory.h"

namespace rush::cuda {
namespace {

// Never destroyed, since blocks are freed until the very end of the process.
struct Registry {
  Mutex mutex{LockRank::Streams};
  std::map<std::pair<int, PoolId>, PrivatePool*> pools;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

std::atomic<int64_t> g_ids{0};

}  // namespace

PoolId new_pool_id() { return {0, ++g_ids}; }

PrivatePool* PrivatePool::acquire(PoolId id, int device) {
  if (id == PoolId{0, 0}) id = {++g_ids, 0};
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  PrivatePool*& place = r.pools[{device, id}];
  if (!place) place = new PrivatePool(id, device);
  if (place->users_++ == 0)
    for (const auto& arena : place->arenas_) arena->set_keeping(true);
  return place;
}

void PrivatePool::release() {
  Registry& r = registry();
  bool spent = false;
  {
    std::lock_guard lock(r.mutex);
    if (--users_ > 0) return;
    for (const auto& arena : arenas_) arena->set_keeping(false);
    spent = is_spent();
    if (spent) r.pools.erase({device_, id_});
  }
  if (spent) delete this;
}

bool PrivatePool::is_spent() noexcept {
  if (users_ > 0) return false;
  for (const auto& arena : arenas_)
    if (arena->small.reserved() + arena->large.reserved() > 0) return false;
  return true;
}

Arena& PrivatePool::arena_of(Stream* stream) {
  std::lock_guard lock(registry().mutex);
  for (const auto& arena : arenas_)
    if (arena->stream == stream) return *arena;
  arenas_.push_back(std::make_unique<Arena>(stream, this, device_memory_backend(device_)));
  arenas_.back()->set_keeping(true);
  return *arenas_.back();
}

void PrivatePool::for_each_arena(const std::function<void(Arena&, PoolId)>& f) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (const auto& [key, pool] : r.pools)
    for (const auto& arena : pool->arenas_) f(*arena, pool->id_);
}

void PrivatePool::begin_capture() {
  std::lock_guard lock(registry().mutex);
  ++captures_;
}

void PrivatePool::end_capture() {
  std::lock_guard lock(registry().mutex);
  if (--captures_ > 0) return;
  for (const auto& [pool, p] : held_) pool->free(p);
  held_.clear();
}

void PrivatePool::free(CachingPool& pool, void* p, bool elsewhere) noexcept {
  Registry& r = registry();
  bool spent = false;
  {
    std::lock_guard lock(r.mutex);
    if (elsewhere && captures_ > 0) {
      try {
        held_.emplace_back(&pool, p);
      } catch (const std::bad_alloc&) {  // it stays allocated, rather than being used too early
      }
      return;
    }
    pool.free(p);
    spent = is_spent();
    if (spent) r.pools.erase({device_, id_});
  }
  if (spent) delete this;
}

}  // namespace rush::cuda
