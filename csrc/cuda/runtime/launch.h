// launch.h: kernels by key, their launch, and what they report back.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/export.h"
#include "core/tensor.h"
#include "cuda/kernels/args.h"
#include "cuda/runtime/launch_batch.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {

// A family of kernels: a file of csrc/cuda/kernels, and how to spell the instance that a key stands
// for. Keys are packed by the family itself, so that finding a compiled kernel costs one look into
// a table and no text. Families are constants of the files that launch them, numbered as the
// program starts.
struct KernelFamily {
  KernelFamily(const char* file, std::string (*spell)(uint64_t key));

  const char* file;
  std::string (*spell)(uint64_t key);
  uint8_t number;  // unique among the families
};
inline constexpr int kKeyBits = 50;

// The kernel on a device; compiled, or read from the disk cache, when it is first asked for.
CUfunction find_function(const KernelFamily& family, uint64_t key, int device);

// (file, expression) of every kernel that this process has loaded.
RUSH_API std::vector<std::pair<std::string, std::string>> loaded_kernels();

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};
// A kernel that is launched with more than 48 KiB of shared memory must be allowed to before.
void allow_shared(CUfunction f, unsigned shared);
// Queues the kernel on the thread's stream. `args` are the addresses of its arguments.
void launch(CUfunction f, int device, Grid grid, Grid block, void** args, unsigned shared = 0);

template <class... Args>
void launch(const KernelFamily& family, uint64_t key, int device, Grid grid, Grid block,
            Args... args) {
  void* pointers[] = {&args...};
  launch(find_function(family, key, device), device, grid, block, pointers);
}

// The same for a kernel that says at its launch how many bytes of shared memory a block has.
template <class... Args>
void launch_with_shared(const KernelFamily& family, uint64_t key, int device, Grid grid, Grid block,
                        unsigned shared, Args... args) {
  void* pointers[] = {&args...};
  CUfunction f = find_function(family, key, device);
  allow_shared(f, shared);
  launch(f, device, grid, block, pointers, shared);
}

// The same for a kernel that may share a launch with one of its own kind (JoinRule).
void launch_joined(CUfunction f, int device, Grid grid, Grid block, void* args, JoinRule join);
template <class Args>
void launch_joined(const KernelFamily& family, uint64_t key, int device, Grid grid, Grid block,
                   Args args, JoinRule join) {
  launch_joined(find_function(family, key, device), device, grid, block, &args, join);
}

// The same for a kernel whose blocks wait for each other: they run all at once, or not at all.
void launch_together(CUfunction f, int device, Grid grid, Grid block, void** args);
template <class Args>
void launch_together(const KernelFamily& family, uint64_t key, int device, Grid grid, Grid block,
                     Args args) {
  void* pointers[] = {&args};
  launch_together(find_function(family, key, device), device, grid, block, pointers);
}

// The launch itself, at once. What was kept back (launch_batch.h) is not its business.
CUresult launch_now(CUfunction f, Stream* stream, const LaunchShape& shape, void** args);

// Threads per block of every elementwise kernel (kernels/element.h).
inline constexpr int kThreads = 256;
// Enough blocks to fill the GPU; the kernels stride over the rest.
Grid blocks_for(int64_t threads, int device);
// Queues an elementwise kernel for n elements.
template <class... Args>
void launch_each(const KernelFamily& family, uint64_t key, int device, int64_t n,
                 const Args&... args) {
  launch(family, key, device, blocks_for(n, device), {kThreads}, args...);
}

// Counters by which a kernel's blocks agree who comes last. Those of the thread's stream: kernels
// of one stream do not overlap, so each finds them zero and leaves them so. In a captured graph,
// which may be replayed beside anything, they are the kernel's own. At most kStreamCounters.
inline constexpr int64_t kStreamCounters = 4096;
u32* stream_counters(int device, int64_t count);

// "rush::half", as the kernels' sources say it.
const char* kernel_type(DType dtype);
// The same for elements in memory: see functors/stored.h.
const char* stored_type(DType dtype);
// An unsigned integer of the same width, for kernels that only move elements.
const char* kernel_bytes(int64_t element_size);

// ---- faults ----

// The record into which kernels write the first index that is out of range, and a number for this
// launch. What it checks is remembered, so that the error can say it.
struct FaultSlot {
  IndexFault* record;
  uint64_t launch;
};
FaultSlot next_fault_slot(int device, const char* op, int64_t dim, int64_t size);
// For elements that break a rule; the record's value holds the bits of a double.
FaultSlot next_fault_slot(int device, const char* op, const char* rule);
// A graph that was captured with such kernels is about to be replayed.
void expect_faults(int device);
// After a synchronisation: raises the fault that was recorded, if any, and clears the record.
RUSH_API void raise_faults(int device);

// ---- waiting ----

enum class SyncDebug : uint8_t { Off, Warn, Error };
RUSH_API void set_sync_debug(SyncDebug mode);
RUSH_API SyncDebug sync_debug();
// Called before the host waits for the device where the user did not ask for it. Raises while a
// graph is captured, since nothing runs then.
void note_wait(const char* what);
// Waits after every launch: slow, and errors come from the call that caused them.
RUSH_API void set_blocking(bool on);
RUSH_API bool is_blocking();
// Does so, behind work that was queued without launch().
void after_launch(Stream* stream);

}  // namespace rush::cuda
