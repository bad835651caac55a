// shared_memory.h: storages in memory that other processes can map; the arenas are in
// shared_arena.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/export.h"
#include "core/shared_arena.h"
#include "core/storage.h"

namespace rush {

// Where the bytes of a shared storage are: what a message to another process says.
struct SharedPlace {
  Ref<SharedArena> arena;
  size_t offset = 0, nbytes = 0;
};

// A storage of zeros in shared memory.
RUSH_API Ref<Storage> allocate_shared(size_t nbytes);
// Moves a storage of this process into shared memory, in place.
RUSH_API void share(Storage& storage);
RUSH_API SharedPlace shared_place(const Storage& storage);

// The arena of that id, where this process has it mapped; null otherwise.
RUSH_API Ref<SharedArena> find_arena(ArenaId id);
// The arena behind a descriptor that came with a message, which is closed or kept. With the name of
// its file, or an empty one.
RUSH_API Ref<SharedArena> arena_from_descriptor(int fd, const std::string& name);
RUSH_API Ref<SharedArena> arena_from_name(const std::string& name);
// The storage over a block: the same one for all who ask while it lives. The caller has a hold on
// the block (of the message that named it), which the storage takes over or gives back.
RUSH_API Ref<Storage> attach_shared(const SharedPlace& place);

// New arenas are files in /dev/shm instead of memfds.
RUSH_API void set_named_arenas(bool on);
RUSH_API bool named_arenas();

struct SharedMemoryStats {
  int64_t arenas, storages;
};
RUSH_API SharedMemoryStats shared_memory_stats();
// At the end of a process: lets go of what it only keeps for later.
RUSH_API void release_shared_memory() noexcept;

}  // namespace rush
