// device_memory.h: what the core needs of a GPU. csrc/cuda fills the table; without a GPU every
// entry raises and says why there is none.
#pragma once

#include <cstddef>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "core/storage.h"

namespace rush {

struct DeviceMemory {
  struct Block {
    void* p;     // null for 0 bytes
    void* home;  // given back to free(): the stream in whose order the block was made
  };
  // Everything happens in the order of the thread's current stream.
  Block (*allocate)(int device, size_t nbytes) = nullptr;  // raises OutOfMemory
  void (*free)(void* p, size_t nbytes, void* home) noexcept = nullptr;
  void (*copy)(void* to, const void* from, size_t nbytes, int device) = nullptr;
  void (*write)(void* to, const void* host, size_t nbytes, int device) = nullptr;
  void (*read)(void* host, const void* from, size_t nbytes, int device) = nullptr;  // waits
  Ref<Storage> (*pinned)(size_t nbytes) = nullptr;  // host memory that a GPU can read by itself
  int (*resolve)(int index) = nullptr;  // -1 becomes the current device; others must exist
  // What lies in a large block, for the error when memory runs out.
  void (*describe)(void* p, IntList sizes, DType dtype) = nullptr;
};
// Blocks from here on are described.
inline constexpr size_t kDescribedBytes = size_t(1) << 20;

RUSH_API DeviceMemory& cuda_memory();

// "cuda" becomes "cuda:0".
inline Device resolved(Device device) {
  if (device.is_cuda()) [[unlikely]]
    device.index = int8_t(cuda_memory().resolve(device.index));
  return device;
}

inline bool same_type(Device a, Device b) { return a.type == b.type; }
// Is what lies on `here` where `asked` asks for it to be? Only of GPUs there may be several.
inline bool is_at(Device here, Device asked) {
  return same_type(here, asked) && (!asked.is_cuda() || resolved(asked).index == here.index);
}

}  // namespace rush
