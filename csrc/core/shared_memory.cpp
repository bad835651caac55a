#include "core/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/allocator.h"
#include "core/error.h"
#include "core/fork_locks.h"
#include "core/layout.h"
#include "core/mutex.h"
#include "core/threads.h"

namespace rush {
namespace {

constexpr size_t kPage = SharedArena::kPage;
// Blocks up to here share pages; beyond, a page of one's own wastes less than half of it.
constexpr size_t kSmall = kPage / 2;
constexpr size_t kAlign = 64;
// Address space, not memory: pages exist once they are written. Each arena costs a descriptor, so
// later ones are larger.
constexpr size_t kFirstArena = size_t{16} << 20, kLargestArena = size_t{1} << 30;

// What a shared storage hangs on.
struct Block {
  Ref<SharedArena> arena;
  size_t offset, nbytes;
  Storage* storage;
};

struct Key {
  ArenaId id;
  size_t offset;
  bool operator<(const Key& o) const {
    return std::tie(id.high, id.low, offset) < std::tie(o.id.high, o.id.low, o.offset);
  }
};

using Arenas = std::vector<Ref<SharedArena>>;

// All that a process knows about shared memory, behind one lock. Everything here is rare next to
// the work on the tensors themselves.
struct Registry {
  Mutex mutex{LockRank::SharedMemory};
  Arenas arenas;  // mapped ones
  std::map<Key, Storage*> storages;
  Ref<SharedArena> current;               // where new blocks come from
  size_t next_page = 0;                   // the first that is not in use there
  size_t small_page = 0, small_used = 0;  // the page that small blocks share; 0: none
  size_t next_size = kFirstArena;
  bool named = false;

  // What nobody uses any more. To be dropped without the lock: unmapping takes its time.
  Arenas take_unused() {
    const auto unused = [&](const Ref<SharedArena>& a) {
      return a->use_count() == 1 && !a->has_named_messages();
    };
    Arenas out;
    for (Ref<SharedArena>& a : arenas) {
      if (unused(a)) out.push_back(std::move(a));
    }
    std::erase_if(arenas, [](const Ref<SharedArena>& a) { return !a; });
    return out;
  }
  // Gives up the arena that new blocks came from.
  void seal() {
    if (small_page != 0) current->let_go(small_page, kPage);
    small_page = 0;
    current = nullptr;
  }
};

Registry* g_registry;

void before_fork() {
  g_registry->mutex.lock();
  for (const Ref<SharedArena>& arena : g_registry->arenas) arena->mark_forked();
}
// Both sides begin new arenas: the old ones never give pages back, and only one may hand out there.
void after_fork_in_parent() {
  g_registry->seal();
  g_registry->mutex.unlock();
}
void after_fork_in_child() {
  g_registry->small_page = 0;
  g_registry->current = nullptr;
  g_registry->mutex.unlock();
}

Registry& registry() {
  static Registry& instance = []() -> Registry& {
    g_registry = new Registry;
    static const ForkLock lock{LockRank::SharedMemory, before_fork, after_fork_in_parent,
                               after_fork_in_child};
    hold_across_forks(lock);
    return *g_registry;
  }();
  return instance;
}

void drop_block(void* context) noexcept {
  auto* block = static_cast<Block*>(context);
  block->arena->let_go(block->offset, block->nbytes);
  Registry& r = registry();
  const Key key{block->arena->id(), block->offset};
  Arenas unused;
  {
    std::lock_guard lock(r.mutex);
    // Another storage may have taken the place while this one was dying.
    const auto found = r.storages.find(key);
    if (found != r.storages.end() && found->second == block->storage) r.storages.erase(found);
    delete block;
    unused = r.take_unused();
  }
}

// A fresh block with a hold. With the lock held.
SharedPlace take_block(Registry& r, size_t nbytes) {
  const bool small = nbytes <= kSmall;
  const size_t room = (std::max<size_t>(nbytes, 1) + kAlign - 1) / kAlign * kAlign;
  if (small && r.small_page != 0 && r.small_used + room <= kPage && !r.current->forked()) {
    const size_t offset = r.small_page + r.small_used;
    r.small_used += room;
    r.current->hold(offset);
    return {r.current, offset, nbytes};
  }
  const size_t pages = (room + kPage - 1) / kPage * kPage;
  if (!r.current || r.current->forked() || pages > r.current->size() - r.next_page) {
    const size_t size = std::max(r.next_size, pages);
    if (r.named) remove_stale_arenas();
    Ref<SharedArena> fresh = SharedArena::create(size, r.named);
    r.seal();
    r.arenas.push_back(fresh);
    r.current = std::move(fresh);
    r.next_page = r.current->first_page();
    r.next_size = std::min(2 * r.next_size, kLargestArena);
  }
  const SharedPlace place{r.current, r.next_page, nbytes};
  r.current->reserve(r.next_page, pages);
  r.next_page += pages;
  r.current->hold(place.offset);
  if (small) {
    if (r.small_page != 0) r.current->let_go(r.small_page, kPage);
    r.small_page = place.offset;
    r.small_used = room;
    r.current->hold(place.offset);  // while more blocks may come
  }
  return place;
}

Ref<Storage> make_storage(Registry& r, const SharedPlace& place) {  // with the lock held
  auto block = std::make_unique<Block>(Block{place.arena, place.offset, place.nbytes, nullptr});
  Storage*& entry = r.storages[{place.arena->id(), place.offset}];
  auto storage =
      Storage::wrap(place.arena->at(place.offset), place.nbytes, Device{}, drop_block, block.get());
  storage->mark_shared();
  entry = block->storage = storage.get();
  block.release();
  return storage;
}

}  // namespace

Ref<Storage> allocate_shared(size_t nbytes) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return make_storage(r, take_block(r, nbytes));
}

void share(Storage& storage) {
  if (storage.is_shared()) return;
  check(storage.device().is_cpu(), ErrorKind::Device, "share_memory_",
        "only memory of the CPU can be shared here, this storage is on ", storage.device());
  flush_pending("memory is shared with other processes");
  before_write_to(&storage);
  Registry& r = registry();
  auto block = std::make_unique<Block>();
  {
    std::lock_guard lock(r.mutex);
    const SharedPlace place = take_block(r, storage.nbytes());
    *block = {place.arena, place.offset, place.nbytes, &storage};
    r.storages[{place.arena->id(), place.offset}] = &storage;
  }
  const char* from = static_cast<const char*>(storage.data());
  try {
    parallel_for(int64_t(storage.nbytes()), int64_t{4} << 20, [&](int64_t begin, int64_t end) {
      block->arena->fill(block->offset + size_t(begin), from + begin, size_t(end - begin));
    });
  } catch (...) {
    drop_block(block.release());
    throw;
  }
  char* to = block->arena->at(block->offset);
  storage.move_to_shared(to, drop_block, block.release());
}

SharedPlace shared_place(const Storage& storage) {
  internal_assert(storage.is_shared(), "shared_place of a storage that is not shared");
  const auto* block = static_cast<const Block*>(storage.context());
  return {block->arena, block->offset, block->nbytes};
}

Ref<SharedArena> find_arena(ArenaId id) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (const Ref<SharedArena>& arena : r.arenas) {
    if (arena->id() == id) return arena;
  }
  return nullptr;
}

namespace {

// The arena, or the one that is already mapped for the same memory.
Ref<SharedArena> known_or_new(Ref<SharedArena> fresh) {
  Registry& r = registry();
  const ArenaId id = fresh->id();
  std::lock_guard lock(r.mutex);
  for (const Ref<SharedArena>& arena : r.arenas) {
    if (arena->id() == id) return arena;
  }
  r.arenas.push_back(fresh);
  return fresh;
}

}  // namespace

Ref<SharedArena> arena_from_descriptor(int fd, const std::string& name) {
  return known_or_new(SharedArena::map(fd, name));
}
Ref<SharedArena> arena_from_name(const std::string& name) {
  return known_or_new(SharedArena::open_name(name));
}

Ref<Storage> attach_shared(const SharedPlace& place) {
  place.arena->check_range(place.offset, place.nbytes);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto found = r.storages.find({place.arena->id(), place.offset});
  if (found != r.storages.end() && found->second->try_retain()) {
    place.arena->let_go(place.offset, place.nbytes);  // the storage has a hold of its own
    return Ref<Storage>::adopt(found->second);
  }
  return make_storage(r, place);
}

void set_named_arenas(bool on) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.named != on) r.seal();
  r.named = on;
}

bool named_arenas() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return r.named;
}

SharedMemoryStats shared_memory_stats() {
  Registry& r = registry();
  Arenas unused;
  std::lock_guard lock(r.mutex);
  unused = r.take_unused();
  return {int64_t(r.arenas.size()), int64_t(r.storages.size())};
}

void release_shared_memory() noexcept {
  Registry& r = registry();
  Arenas unused;
  {
    std::lock_guard lock(r.mutex);
    r.seal();
    unused = r.take_unused();
    for (const Ref<SharedArena>& arena : r.arenas) arena->remove_file_if_last();
  }
  if (named_arenas()) remove_stale_arenas();
}

}  // namespace rush
