// mutex.h: the mutex of the core, with a place in one order.
//
// Note [Lock order]
// Whoever holds a mutex takes only mutexes of higher rank, or of the same rank at a higher address
// (the lists of the allocator, all held across a fork). The GIL comes before all of them: nobody
// waits for it, or calls into Python, while holding one. Debug builds (RUSHLIGHT_DEBUG) check both
// and end the process with a message where a release build would deadlock one day.
#pragma once

#include <cstdint>
#include <mutex>

#include "core/export.h"

namespace rush {

enum class LockRank : uint8_t {
  DataLoader,         // the batches of a C++ program's loader
  ProcessGroup,       // the collectives that a process group has to carry out
  Work,               // the end of a collective
  Publishing,         // a rank writes its status into the store
  Judge,              // what a rank knows about its group's faults
  Recorder,           // which collectives a rank has issued
  Store,              // the table of a store, or the connections to it
  Gradients,          // an addition to some tensor's gradient
  CudaDevices,        // a GPU is opened
  Kernels,            // a CUDA kernel is compiled or loaded
  Primitives,         // what oneDNN compiled
  WeightLayouts,      // weights in oneDNN's layouts
  LibraryFolders,     // where oneDNN and the like are looked for
  Probe,              // code that may trap is tried out
  IsaLevel,           // the instruction set is chosen
  BatchedTensors,     // wrappers of vmap, by level
  Recorded,           // arranged tensors of CUDA graphs
  MadeAgain,          // what backward computes again
  Origins,            // what backward need not read
  PendingResults,     // the queues of deferred steps
  Hooks,              // lists of hooks
  Listeners,          // who is told of ops, and on which threads
  EventNames,         // what the profiler's events are called
  DroppedReferences,  // Python objects that wait for the GIL
  Streams,            // CUDA streams and their pools of memory
  SharedMemory,       // arenas that other processes map
  AllocatorSwitches,  // caching on or off, injected failures
  ThreadRegistry,     // the allocator's thread caches
  SizeClass,          // a central list of small blocks
  Pool,               // a caching pool
};

#if defined(RUSH_DEBUG)

class RUSH_API Mutex {
 public:
  constexpr explicit Mutex(LockRank rank) noexcept : rank_(rank) {}
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
  LockRank rank_;
};

// Ends the process when this thread holds a mutex of the core.
RUSH_API void assert_no_lock_held(const char* what);

#else

class Mutex : public std::mutex {
 public:
  constexpr explicit Mutex(LockRank) noexcept {}
};

inline void assert_no_lock_held(const char*) {}

#endif

}  // namespace rush
