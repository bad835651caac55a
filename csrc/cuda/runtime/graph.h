// graph.h: work that is recorded once and replayed as a whole, for one call of the driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/caching_pool.h"
#include "core/export.h"
#include "core/generator.h"
#include "core/storage.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/private_pool.h"

namespace rush::cuda {

// Where a kernel's random numbers come from: see random_key in kernels/args.h.
struct RandomSource {
  uint64_t seed, call;
  const uint64_t* state;
};
// For a kernel that is about to be launched on this thread's stream. Every kernel that draws random
// numbers asks here, and hands all three on.
RandomSource random_source(const RandomCall& call, int device);

class RUSH_API Graph {
 public:
  // `keep`: the driver's description stays after it was made executable, to be looked at.
  explicit Graph(bool keep = false) : keep_(keep) {}
  Graph(const Graph&) = delete;
  ~Graph();

  // From here on this thread's stream on the current device is captured.
  void capture_begin(PoolId pool, CUcaptureMode mode);
  void capture_end();
  // Ends a capture that went wrong; the graph is empty again.
  void capture_abort() noexcept;
  // Makes what was captured executable; capture_end and replay do it where nobody has.
  void instantiate();
  // Queues the whole graph on the current stream. Random numbers are new ones each time.
  void replay();
  void reset();

  PoolId pool() const;
  void keep_description() { keep_ = true; }
  void debug_dump(const std::string& path) const;
  size_t node_count() const { return nodes_; }
  // Ops may draw from this generator while capturing; from the default one they always may.
  void register_generator(std::shared_ptr<Generator> generator);
  uintptr_t description() const;  // the driver's handle; with `keep` only

  // ---- while it is captured ----

  PrivatePool& pool_in_use() const { return *pool_; }
  // Host bytes, copied now to a place that nothing in the graph writes.
  void* constant(const void* bytes, size_t nbytes);
  // Lives as long as the graph.
  void keep_alive(Ref<Storage> storage);
  RandomSource random(const RandomCall& call);
  // A kernel that is captured may note a bad index.
  void check_indices() { checks_indices_ = true; }

 private:
  struct Draws {
    std::shared_ptr<Generator> generator;
    uint64_t start = 0, calls = 0;  // of the capture
    uint64_t* state = nullptr;      // on the device: the seed, and the first call of this replay
    bool gave(const RandomCall& call) const {
      return call.seed == generator->initial_seed() && call.call >= start &&
             call.call < generator->offset();
    }
  };
  void stop_capture() noexcept;

  bool keep_, checks_indices_ = false;
  int device_ = -1;
  Stream* stream_ = nullptr;  // while it is captured
  PrivatePool* pool_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  size_t nodes_ = 0;
  bool captured_ = false;
  std::vector<std::shared_ptr<Generator>> registered_;
  std::vector<Draws> draws_;
  std::vector<Ref<Storage>> kept_;
  std::unique_ptr<CachingPool> constants_;
  std::vector<void*> constant_blocks_;
};

// Sends this thread's work to a stream that nobody captures, and waits for it at the end: what is
// made inside exists once, and replays leave it alone.
class RUSH_API BesideCapture {
 public:
  BesideCapture();
  BesideCapture(const BesideCapture&) = delete;
  ~BesideCapture();
  void enter();
  void leave();

 private:
  std::unique_ptr<RelaxedCapture> relaxed_;
  int device_ = 0;
  Stream* before_ = nullptr;
};

}  // namespace rush::cuda
