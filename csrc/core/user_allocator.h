// user_allocator.h: a user's functions in place of the allocator of CPU tensors.
#pragma once

#include <cstddef>

#include "core/export.h"

namespace rush {

// `allocate` returns memory that is aligned to 64 bytes, or null when there is none; `free` gets it
// back with the same size. Both may be called from any thread, and must throw nothing.
struct UserAllocator {
  void* (*allocate)(size_t nbytes) = nullptr;
  void (*free)(void* p, size_t nbytes) = nullptr;
};

// From now on all memory of CPU tensors comes from these functions, uncached. What was allocated
// before goes back to where it came from. With empty ones, the allocator of the library serves
// again. Returns those that were there.
RUSH_API UserAllocator set_user_allocator(UserAllocator functions);

}  // namespace rush
