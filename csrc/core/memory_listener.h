// memory_listener.h: who wants to know of every block of tensor memory, as it comes and goes.
//
// There is one listener for the process (profiler/memory_log.h). While there is none, nothing is
// tested for it on the way of small CPU blocks: with one, they leave the allocator's fast path.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/device.h"
#include "core/export.h"
#include "core/storage.h"

namespace rush {

// `change` is what the block holds, rounded as the statistics do; below zero when it is freed.
// Called from any thread, outside the allocator's locks; it must not allocate tensor memory.
// Tensors on the meta device have blocks too, so that their sizes can be followed.
using MemoryListener = void (*)(Device device, const void* block, int64_t change) noexcept;

// Null ends it; calls that are under way on other threads may still come.
RUSH_API void set_memory_listener(MemoryListener listener);

// The block that a storage's bytes lie in, as the listener was told of it.
RUSH_API const void* block_of(const Storage& storage);

namespace detail {
extern constinit std::atomic<MemoryListener> g_memory_listener;
inline void tell_of_block(Device device, const void* block, int64_t change) noexcept {
  if (const MemoryListener f = g_memory_listener.load(std::memory_order_acquire)) [[unlikely]]
    f(device, block, change);
}
}  // namespace detail

}  // namespace rush
