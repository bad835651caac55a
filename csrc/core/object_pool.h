// object_pool.h: memory for small objects that are made and freed with every op, such as graph
// nodes: each thread keeps some of each size. Other than tensors' memory it is not counted.
#pragma once

#include <cstddef>

#include "core/export.h"

namespace rush {

RUSH_API void* pool_allocate(size_t bytes);
RUSH_API void pool_free(void* p, size_t bytes) noexcept;  // on any thread

}  // namespace rush
