// library_call.h: calls of cuDNN and cuBLASLt, which may be queued together with kernels of ours.
//
// Note [Calls in batches]
// What a library launches only it knows, so a batch (launch_batch.h) used to end at each of its calls;
// in a network for images two kernels of ours stand between two convolutions. But a call with the
// plan and the addresses of an earlier one launches the same again, and in a training loop nearly all
// calls are so (docs/decisions/segments_of_launches.md):
// - At its second sight a call is captured, as a graph of its own. From then on it is a node of
//   batches, and the library is not asked any more.
// - All that decides what is launched is in the call's key: a plan by its number, which no other
//   plan ever has, addresses, and numbers that are read when it is queued.
// - Calls whose addresses do not repeat are made as they come.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda {

class Stream;

// Everything that a call depends on.
class CallKey {
 public:
  explicit CallKey(uint64_t plan) { add(plan); }
  void add(uint64_t word) {
    internal_assert(count_ < kMost, "a key of a call is too long");
    words_[count_++] = word;
  }
  void add(const void* address) { add(uint64_t(reinterpret_cast<uintptr_t>(address))); }
  void add_bytes(const void* from, size_t nbytes) {
    for (size_t at = 0; at < nbytes; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(from) + at, nbytes - at < 8 ? nbytes - at : 8);
      add(word);
    }
  }
  uint64_t hash() const;
  bool operator==(const CallKey&) const = default;

 private:
  static constexpr size_t kMost = 12;
  std::array<uint64_t, kMost> words_{};
  size_t count_ = 0;
};

// A number for a plan that is being made.
inline uint64_t next_plan_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// What has the library queue its work on a stream.
struct CallRun {
  void* self;
  void (*run)(void* self, CUstream stream);
};

// A call as a graph.
struct CapturedCall {
  uint64_t number;  // no other call has it, ever
  CUgraph graph = nullptr;
  mutable CUgraphExec exec = nullptr;  // made when the call is queued by itself
};

// Those of a process, under the lock of its batch.
class CapturedCalls {
 public:
  // Null: it was not seen before, or cannot be captured.
  const CapturedCall* find(const CallKey& key, int device, const CallRun& call);
  // Queues it by itself.
  static CUresult queue(const CapturedCall& call, CUstream stream);
  bool is_full() const { return known_.size() >= kMostCalls; }
  // Nothing that was queued may be running.
  void clear() noexcept;

 private:
  static constexpr size_t kMostCalls = 4096, kSightings = 1 << 14;
  struct Hash {
    size_t operator()(const CallKey& key) const { return size_t(key.hash()); }
  };
  std::unordered_map<CallKey, CapturedCall, Hash> known_;
  std::vector<uint64_t> seen_ = std::vector<uint64_t>(kSightings);
  uint64_t last_ = 0;  // number
};

// Takes a call into the batch. False: the caller has to make it.
bool add_call_to_batch(Stream* stream, const CallKey& key, const CallRun& call);
// The call itself, now, on the thread's stream of the device.
void make_call(Stream* stream, const CallRun& call);

// Queues a library's call: run(stream) makes it on that stream.
template <class Run>
void queue_call(Stream* stream, const CallKey& key, Run run) {
  const CallRun call{&run, [](void* self, CUstream on) { (*static_cast<Run*>(self))(on); }};
  if (!add_call_to_batch(stream, key, call)) make_call(stream, call);
}

}  // namespace rush::cuda
