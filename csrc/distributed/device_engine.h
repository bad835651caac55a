// device_engine.h: an engine whose operations run in the streams of a GPU.
//
// Starting one queues it: behind what this thread's stream has to do by now, in a stream of the
// engine's own. The host goes on, and whoever needs the result lets its stream wait for it.
#pragma once

#include <functional>
#include <span>

#include "distributed/operation.h"

namespace rush::distributed {

// An operation that is queued, or will be: a message waits until both ranks are connected.
class RUSH_API QueuedTransfer : public Transfer {
 public:
  // Has it been queued? Queues it if it can be by now.
  virtual bool is_queued() = 0;
  // What this thread's stream does from now on waits for it. It must be queued.
  virtual void make_stream_wait() = 0;
};

class RUSH_API DeviceEngine {
 public:
  using Check = std::function<void()>;  // throws when it is no use to wait any longer

  virtual ~DeviceEngine() = default;
  // Connects the ranks on this device, if they are not. Waits for all of them.
  virtual void connect(int device, const Check& check) = 0;
  // Called by one thread at a time; collectives and batches once the ranks are connected. The
  // operation stays where it is until the transfer is done.
  virtual std::shared_ptr<QueuedTransfer> start(Operation& op) = 0;
  // Several messages as one, which all run at the same time.
  virtual std::shared_ptr<QueuedTransfer> start_batch(std::span<Operation* const> ops) = 0;
  // Lets everything that is queued end, whatever the other ranks do. From any thread.
  virtual void abort() noexcept = 0;
  // Leaves the other ranks in order. Nothing is queued any more.
  virtual void close() noexcept = 0;
};

}  // namespace rush::distributed
