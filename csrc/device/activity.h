// activity.h: what a device did, by its own clock, and the calls of the host that queued it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "device/table.h"

namespace rush {

struct Activity {
  enum class Kind : uint8_t { Kernel, Copy, Fill, Call };
  Kind kind{};
  uint32_t name = 0;  // its place in Activities::names
  // Where it ran. Of a call: -1, and what the operating system calls the thread.
  int32_t device = -1, stream = 0;
  uint32_t correlation = 0;    // a call and what it queued have the same
  uint32_t graph = 0;          // of the graph that it is a node of; 0: none
  int64_t begin = 0, end = 0;  // ns of the steady clock
  uint64_t bytes = 0;
  int32_t grid[3] = {}, block[3] = {};
  uint32_t registers = 0, shared_bytes = 0;
};

struct Activities {
  std::vector<Activity> all;
  std::vector<std::string> names;
  uint64_t lost = 0;  // there was no room for as many
};

// A device without a clock of its own has none of these.
struct ActivityRecorder {
  // Begins to record for one listener more; false when it cannot, and why_not says why.
  bool (*start)(std::string& why_not) = nullptr;
  // Ends it, having waited for what is queued; what began since then, in no order. Work belongs to
  // the event in which the call was made that queued it: the threads and times of calls tell.
  Activities (*stop)(int64_t since) = nullptr;
};
RUSH_API extern DeviceTable<ActivityRecorder> activity_recorders;

// Who is told that the host is about to wait for a device where the program did not say so (it reads
// a value); null: nobody.
using WaitListener = void (*)(const char* what);
RUSH_API extern std::atomic<WaitListener> g_wait_listener;

}  // namespace rush
