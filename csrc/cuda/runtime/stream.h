// stream.h: queues of work on a GPU, points in them, and which queue is a thread's own.
//
// The default stream is the driver's legacy one. Others come from a fixed set a device and
// priority, handed out in turn, and live as long as the process: so a plain pointer names a stream,
// and a freed block may wait for one at any time.
#pragma once

#include <cstdint>

#include "core/caching_pool.h"
#include "core/export.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/launch_batch.h"
#include "device/stream.h"

namespace rush::cuda {

class PrivatePool;
class Stream;

// Memory that is used again in the order of one stream: its own, or its part of a captured graph's.
struct Arena {
  // Blocks up to here lie apart from larger ones: a loss that somebody keeps must not stand in the
  // middle of the memory that the next iteration's activations need.
  static constexpr size_t kSmall = size_t(1) << 20;

  Arena(Stream* stream, PrivatePool* owner, MemoryBackend& memory);
  CachingPool& pool_for(size_t nbytes) { return nbytes <= kSmall ? small : large; }
  void set_keeping(bool on) noexcept;
  void release_cached() noexcept;

  Stream* const stream;
  PrivatePool* const owner;  // null: the stream's own
  CachingPool small, large;
};

class Stream : public DeviceStream {
 public:
  Stream(int device, CUstream handle, int64_t id, int priority, MemoryBackend& memory);

  const int device;
  const int priority;
  Arena arena;

  // The driver's name of it; null: the default stream. Launches that are kept back come before
  // whatever is queued with it: see Note [Batches of launches].
  CUstream handle() const noexcept {
    queue_batch();
    return handle_;
  }
  CUstream raw_handle() const noexcept { return handle_; }  // for what asks and queues nothing

 private:
  const CUstream handle_;
};

RUSH_API Stream* default_stream(int device);
// One of the set; low priority is 0, high is below.
RUSH_API Stream* stream_from_set(int device, int priority);
// One that no program is given.
Stream* private_stream(int device);
// A queue that somebody else made and keeps alive.
RUSH_API Stream* external_stream(int device, CUstream handle);
RUSH_API Stream* stream_by_id(int device, int64_t id);
Stream* stream_or_null(int device, int64_t id);

// What this thread's ops on a device go to.
extern thread_local Stream** t_streams;  // one a device; null: the default ones
inline Stream* current_stream(int device) {
  return t_streams && t_streams[device] ? t_streams[device] : default_stream(device);
}
RUSH_API Stream* find_current_stream(int device);  // the same, for callers outside the library
RUSH_API void set_current_stream(Stream* stream);

RUSH_API void synchronize(Stream* stream);
RUSH_API bool is_done(Stream* stream);

// A point in a stream. Made on the device of the stream that first records it.
class RUSH_API Event {
 public:
  // `blocking`: a host that waits sleeps instead of spinning. `external`: inside a captured graph
  // it is recorded and waited for by the replays, not by the capture.
  explicit Event(bool timing = false, bool interprocess = false, bool blocking = false,
                 bool external = false)
      : flags_((timing ? 0 : kEventNoTiming) | (interprocess ? kEventInterprocess : 0) |
               (blocking ? kEventBlocking : 0)),
        external_(external) {}
  Event(const Event&) = delete;
  ~Event();

  void record(Stream* stream);
  void make_wait(Stream* stream) const;  // later work of the stream waits for the point
  bool done() const;                     // true before the first record
  void wait() const;
  float milliseconds_until(const Event& end) const;
  CUevent handle() const { return event_; }
  int device() const { return device_; }

 private:
  unsigned flags_;
  bool external_ = false;
  int device_ = -1;
  CUevent event_ = nullptr;
};

}  // namespace rush::cuda
