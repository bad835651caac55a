// task_streams.h: backward in the streams of forward.
//
// - A node's gradients are computed in the stream in which its op ran, so that what ran side by
//   side does so again, and memory is used again in the order of the stream that made it.
// - Where a gradient goes from one stream to another, the second waits for the first.
// - Leaves add up in the stream of the caller, who waits for all others at the end: whoever calls
//   backward() sees the results as if everything had run in the current stream.
// - All that costs nothing where every node ran in the caller's own stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "device/runtime.h"

namespace rush {

// Remembers in which stream the node's op runs, unless it is the default one: few programs use
// others, so that lies in a table beside the nodes.
void note_stream(const Node& node, Device device);
void forget_stream_slow(const Node& node) noexcept;
extern std::atomic<int64_t> g_noted_streams;  // nodes in the table
inline void forget_stream(const Node& node) noexcept {
  if (g_noted_streams.load(std::memory_order_relaxed) != 0) [[unlikely]]
    forget_stream_slow(node);
}

class TaskStreams {
 public:
  void see(const Node& node) {
    if (const ResultMeta* result = queued_result(node)) [[unlikely]]
      see_queued(node, result->device);
  }
  bool several() const { return several_; }
  // Where the node runs; null: on the host, or nothing special.
  DeviceStream* of(const Node& node) const;
  // Where what arrives at the node is added up.
  DeviceStream* at(const Node& node, const Tensor& grad) const;
  // The caller's stream on the gradient's device.
  DeviceStream* callers_for(const Tensor& grad) const {
    return device_traits(grad).asynchronous ? callers(grad.device()) : nullptr;
  }
  // `to` waits for what made the gradient in `from`, and the memory for both.
  void hand_over(const Tensor& grad, DeviceStream* from, DeviceStream* to);
  // The caller waits for all streams.
  void join();

  // Sends this thread's work to a stream; null: leaves it where it is.
  class Scope {
   public:
    explicit Scope(DeviceStream* stream);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    DeviceStream* before_ = nullptr;
  };

 private:
  // A result on the device in whose stream the op ran; null: it ran on the host.
  static const ResultMeta* queued_result(const Node& node) {
    for (const ResultMeta& m : node.results())
      if (device_traits(m.device).asynchronous) return &m;
    return nullptr;
  }
  void see_queued(const Node& node, Device device);
  DeviceStream* callers(Device device) const;
  bool several_ = false;
  std::vector<DeviceStream*> used_;
  mutable std::vector<std::pair<Device, DeviceStream*>> callers_;
};

}  // namespace rush
