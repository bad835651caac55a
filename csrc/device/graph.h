// graph.h: work of a device that is recorded once and queued as a whole afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/table.h"

namespace rush {

class RUSH_API DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // From here to end() this thread's work on the device goes into the graph, and is not done.
  virtual void begin() = 0;
  virtual void end() = 0;
  // Ends a recording that went wrong; the graph is empty again.
  virtual void abort() noexcept = 0;
  // Queues all of it on this thread's stream. Random numbers are those that would be drawn now.
  virtual void replay() = 0;
  virtual size_t nodes() const = 0;
};

// Devices without graphs have none of these.
struct DeviceGraphs {
  // `memory` is a name by new_memory(). Graphs of one name use what the others' recordings have
  // freed, so only one of them may be at work at a time.
  std::unique_ptr<DeviceGraph> (*make)(Device device, int64_t memory) = nullptr;
  int64_t (*new_memory)() = nullptr;
  // The switches by which ops choose what they queue, as one number.
  uint64_t (*switches)() = nullptr;
  // Is code being compiled that ops will queue instead of what they queue now?
  bool (*awaits_code)() = nullptr;
  // How often ops have done without code that was not there yet.
  uint64_t (*missed_code)() = nullptr;
};
RUSH_API extern DeviceTable<DeviceGraphs> device_graphs;

}  // namespace rush
