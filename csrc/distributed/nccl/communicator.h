// communicator.h: some ranks that NCCL has connected, and the stream in which they work.
#pragma once

#include <atomic>
#include <memory>

#include "cuda/runtime/launch_batch.h"
#include "cuda/runtime/stream.h"
#include "distributed/nccl/nccl_library.h"

namespace rush::distributed::nccl {

class Communicator;

// Who is connected, and how. The ranks agree on `key`, which nobody uses twice.
struct Place {
  std::string key;
  int rank, size, device;
  Milliseconds timeout;
  bool for_messages = false;                      // of two ranks: the first one sends
  std::shared_ptr<Communicator> after = nullptr;  // connected before, on both ranks
};

// Connecting waits for all its ranks, in a way that cannot be left. So a thread of its own does
// it, which is forgotten when the wait must end: what it makes then, it aborts itself.
class Communicator {
 public:
  // The ranks find each other through the store.
  Communicator(std::shared_ptr<Store> store, Place at);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  bool is_connected();       // throws BackendError when connecting failed
  Comm handle() const;       // of a connected one; throws BackendError after abort()
  void check_error() const;  // throws what NCCL found out behind the program

  // Ends whatever its kernels wait for. It cannot be used any more.
  void abort() noexcept;
  // Gives it back in order, with the others; not waited for longer than some seconds.
  void destroy() noexcept;

  const int device;
  cuda::Stream* const stream;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
  // Its kernels may wait on the GPU for another rank. Whoever made a graph of launches meanwhile could
  // wait for them, and the other rank for him.
  const cuda::SingleLaunches single_;
};

}  // namespace rush::distributed::nccl
