// exposed_memory.h: who wants to know that addresses leave us.
#pragma once

#include <atomic>

namespace rush {

// Told when an address of GPU memory is given out (Storage::expose); null: nobody.
extern std::atomic<void (*)()> g_gpu_memory_exposed;

}  // namespace rush
