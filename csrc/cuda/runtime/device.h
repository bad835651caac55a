// device.h: the GPUs of this machine: whether they can be used, what they are, which is current.
#pragma once

#include <cstddef>
#include <string>

#include "core/export.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda {

inline constexpr int kMaxDevices = 64;

struct DeviceInfo {
  std::string name;
  int major, minor, processors, threads_per_processor, warp_size, shared_per_block, shared_optin,
      l2_bytes, clock_khz;
  bool integrated;
  size_t total_memory;
  CUuuid uuid;
  int pci_domain, pci_bus, pci_device;

  int arch() const { return major * 10 + minor; }
};

// How many GPUs the process may use. Asking opens no context and, where NVIDIA's management library
// answers, does not even initialise the driver: a program may still fork and use them in the child.
RUSH_API int device_count();
// Why there is none, and what to do about it; empty when there is one.
RUSH_API const std::string& why_unavailable();
// Has this process a context on any device?
RUSH_API bool is_initialized();
RUSH_API void initialize();

RUSH_API const DeviceInfo& device_info(int device);
RUSH_API bool can_access_peer(int device, int peer);

// The device that this thread means by "cuda". Setting it opens nothing.
RUSH_API int current_device();
RUSH_API void set_current_device(int device);
// Raises unless there is such a device; -1 becomes the current one.
RUSH_API int check_device(const char* op, int device);

// Makes the device's context the thread's own, opening it first when needed. Every function of the
// driver that works on a device needs that.
void bind_slow(int device);
extern thread_local int t_bound;  // the device whose context the thread has, -1: none
inline void bind(int device) {
  if (t_bound != device) [[unlikely]]
    bind_slow(device);
}

RUSH_API void synchronize(int device);
// What the driver says: free and total bytes.
RUSH_API std::pair<size_t, size_t> memory_info(int device);

}  // namespace rush::cuda
