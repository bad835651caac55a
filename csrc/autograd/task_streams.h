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

namespace rush {

namespace cuda {
class Stream;
}

// Remembers in which stream the node's op runs, unless it is the default one: few programs use
// others, so that lies in a table beside the nodes.
void note_stream(const Node& node, int device);
void forget_stream_slow(const Node& node) noexcept;
extern std::atomic<int64_t> g_noted_streams;  // nodes in the table
inline void forget_stream(const Node& node) noexcept {
  if (g_noted_streams.load(std::memory_order_relaxed) != 0) [[unlikely]]
    forget_stream_slow(node);
}

class TaskStreams {
 public:
  void see(const Node& node) {
    if (device_of(node) >= 0) [[unlikely]]
      see_gpu(node);
  }
  bool several() const { return several_; }
  // Where the node runs; null: on the host, or nothing special.
  cuda::Stream* of(const Node& node) const;
  // Where what arrives at the node is added up.
  cuda::Stream* at(const Node& node, const Tensor& grad) const;
  // The caller's stream on the gradient's device.
  cuda::Stream* callers_for(const Tensor& grad) const {
    return grad.is_cuda() ? callers(grad.device().index) : nullptr;
  }
  // `to` waits for what made the gradient in `from`, and the memory for both.
  void hand_over(const Tensor& grad, cuda::Stream* from, cuda::Stream* to);
  // The caller waits for all streams.
  void join();

  // Sends this thread's work to a stream; null: leaves it where it is.
  class Scope {
   public:
    explicit Scope(cuda::Stream* stream);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    cuda::Stream* before_ = nullptr;
  };

 private:
  // The GPU on which the op ran; -1: the host.
  static int device_of(const Node& node) {
    for (const ResultMeta& m : node.results())
      if (m.device.is_cuda()) return m.device.index;
    return -1;
  }
  void see_gpu(const Node& node);
  cuda::Stream* callers(int device) const;
  bool several_ = false;
  std::vector<cuda::Stream*> used_;
  mutable std::vector<std::pair<int, cuda::Stream*>> callers_;
};

}  // namespace rush
