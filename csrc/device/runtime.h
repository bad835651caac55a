// runtime.h: what kind of thing a device is, and what it does beside computing.
#pragma once

#include <cstdint>

#include "core/storage.h"
#include "device/stream.h"
#include "device/table.h"

namespace rush {

// Answers to what an op may ask about a device. As it stands: the host itself.
struct DeviceTraits {
  // Work is queued in streams and done later. Reading a value waits for it, so values are checked
  // where they are computed, and a fault raises at the next wait.
  bool asynchronous = false;
  // The host cannot read its memory: a block written for the host runs over copies.
  bool separate_memory = false;
  // What autocast computes in there, unless told otherwise.
  DType autocast_dtype = DType::BFloat16;
};
RUSH_API extern DeviceTable<DeviceTraits> device_traits;

// Devices that are not asynchronous have none of these.
struct DeviceRuntime {
  // This thread's stream on a device.
  DeviceStream* (*current_stream)(Device device) = nullptr;
  void (*set_current_stream)(DeviceStream* stream) = nullptr;
  DeviceStream* (*stream_by_id)(Device device, int64_t id) = nullptr;
  // What is queued in `later` from now on waits for what is queued in `earlier` by now.
  void (*wait_for)(DeviceStream* later, DeviceStream* earlier) = nullptr;
  // The stream uses the memory, too: it is not handed out again before that is done.
  void (*record_stream)(const Storage& storage, DeviceStream* stream) = nullptr;
  // Has a stream been recorded that uses the memory beside its own?
  bool (*is_recorded)(const Storage& storage) = nullptr;

  // Is work recorded into a graph in this thread's stream, instead of being done?
  bool (*is_capturing)(Device device) = nullptr;
  // Raises when this thread records a graph: what follows would have to wait.
  void (*refuse_capture)(const char* what, const char* why) = nullptr;
  // Before the host waits where the user did not ask for it.
  void (*note_wait)(const char* what) = nullptr;
};
extern DeviceTable<DeviceRuntime> device_runtime;

}  // namespace rush
