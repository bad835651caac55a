#include "cuda/runtime/stream.h"

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/layout.h"
#include "core/mutex.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/memory.h"

namespace rush::cuda {

constinit thread_local Stream** t_streams [[gnu::tls_model("initial-exec")]] = nullptr;

namespace {

constexpr int kSetSize = 32, kPriorities = 4;

// Steps of 2 MiB, as the driver's own pages: see CachingPool. Nothing that a graph has freed is
// cached once the graph is gone. Addresses are plenty: 128 TiB.
constexpr CachingPool::Options pool_options(bool is_private) {
  return {.segment_round = size_t(2) << 20,
          .first_step = size_t(2) << 20,
          .largest_step = size_t(64) << 20,
          .least_rest = 512,
          .cache_cap = is_private ? 0 : ~size_t(0),
          .range = size_t(is_private ? 32 : 256) << 30};
}

struct DeviceStreams {
  std::vector<std::unique_ptr<Stream>> all;  // all[0] is the default one
  std::array<std::array<Stream*, kSetSize>, kPriorities> sets{};
  std::array<uint32_t, kPriorities> next{};
  std::atomic<Stream*> standard{nullptr};

  Stream* add(int device, CUstream handle, int priority) {
    all.push_back(std::make_unique<Stream>(device, handle, int64_t(all.size()), priority,
                                           device_memory_backend(device)));
    return all.back().get();
  }
  Stream* ensure_default(int device) {
    if (all.empty()) standard.store(add(device, nullptr, 0), std::memory_order_release);
    return all.front().get();
  }
};

Mutex& mutex() {
  static Mutex m{LockRank::Streams};
  return m;
}
// Never destroyed: blocks are freed until the very end of the process.
DeviceStreams& streams_of(int device) {
  static auto* all = new std::array<DeviceStreams, kMaxDevices>;
  return (*all)[size_t(device)];
}

struct ThreadStreams {
  ~ThreadStreams() {
    delete[] t_streams;
    t_streams = nullptr;
  }
};

}  // namespace

Stream::Stream(int device, CUstream handle, int64_t id, int priority, MemoryBackend& memory)
    : DeviceStream{Device{DeviceType::CUDA, int8_t(device)}, id},
      device(device),
      priority(priority),
      arena(this, nullptr, memory),
      handle_(handle) {}

Arena::Arena(Stream* stream, PrivatePool* owner, MemoryBackend& memory)
    : stream(stream),
      owner(owner),
      small(memory, pool_options(owner != nullptr)),
      large(memory, pool_options(owner != nullptr)) {}

void Arena::set_keeping(bool on) noexcept {
  small.set_keeping(on);
  large.set_keeping(on);
}

void Arena::release_cached() noexcept {
  small.release_cached();
  large.release_cached();
}

Stream* default_stream(int device) {
  device = check_device("default_stream", device);
  DeviceStreams& s = streams_of(device);
  if (Stream* known = s.standard.load(std::memory_order_acquire)) return known;
  std::lock_guard lock(mutex());
  return s.ensure_default(device);
}

Stream* stream_from_set(int device, int priority) {
  device = check_device("Stream", device);
  bind(device);
  const int level = std::min(std::max(-priority, 0), kPriorities - 1);
  DeviceStreams& s = streams_of(device);
  std::lock_guard lock(mutex());
  s.ensure_default(device);
  Stream*& place = s.sets[size_t(level)][s.next[size_t(level)]++ % kSetSize];
  if (!place) {
    CUstream handle = nullptr;
    must(driver().StreamCreate(&handle, kStreamNonBlocking, -level), "Stream");
    place = s.add(device, handle, -level);
  }
  return place;
}

Stream* private_stream(int device) {
  bind(device);
  CUstream handle = nullptr;
  must(driver().StreamCreate(&handle, kStreamNonBlocking, 0), "Stream");
  DeviceStreams& s = streams_of(device);
  std::lock_guard lock(mutex());
  s.ensure_default(device);
  return s.add(device, handle, 0);
}

Stream* external_stream(int device, CUstream handle) {
  device = check_device("ExternalStream", device);
  bind(device);
  DeviceStreams& s = streams_of(device);
  std::lock_guard lock(mutex());
  s.ensure_default(device);
  leave_batches("another library's stream is used");
  for (const auto& known : s.all)
    if (known->raw_handle() == handle) return known.get();
  return s.add(device, handle, 0);
}

Stream* stream_or_null(int device, int64_t id) {
  DeviceStreams& s = streams_of(device);
  std::lock_guard lock(mutex());
  s.ensure_default(device);
  return id >= 0 && size_t(id) < s.all.size() ? s.all[size_t(id)].get() : nullptr;
}

Stream* stream_by_id(int device, int64_t id) {
  device = check_device("Stream", device);
  Stream* found = stream_or_null(device, id);
  check(found != nullptr, ErrorKind::Argument, "Stream", "there is no stream with id ", id,
        " on cuda:", device);
  return found;
}

Stream* find_current_stream(int device) {
  return current_stream(check_device("current_stream", device));
}

void set_current_stream(Stream* stream) {
  if (!t_streams) {
    static thread_local ThreadStreams cleaner;
    t_streams = new Stream* [kMaxDevices] {};
  }
  flush_pending("another stream was chosen");
  t_streams[stream->device] = stream;
}

void synchronize(Stream* stream) {
  flush_pending("a stream is waited for");
  bind(stream->device);
  check(!is_capturing(stream), ErrorKind::Runtime, "synchronize",
        "the stream is being captured into a CUDA graph: nothing runs that could be waited for");
  const RelaxedCapture relaxed;
  must(driver().StreamSynchronize(stream->handle()), "synchronize");
  raise_batch_error();
}

bool is_done(Stream* stream) {
  bind(stream->device);
  check(!is_capturing(stream), ErrorKind::Runtime, "Stream.query",
        "the stream is being captured into a CUDA graph: nothing runs that could be done");
  const RelaxedCapture relaxed;
  const CUresult result = driver().StreamQuery(stream->handle());
  if (result != kNotReady) must(result, "Stream.query");
  return result == kSuccess;
}

Event::~Event() {
  if (event_) driver().EventDestroy(event_);
}

void Event::record(Stream* stream) {
  flush_pending("an event is recorded");
  bind(stream->device);
  check(device_ < 0 || device_ == stream->device, ErrorKind::Device, "Event.record",
        "the event belongs to cuda:", device_, ", the stream to cuda:", stream->device);
  if (!event_) {
    must(driver().EventCreate(&event_, flags_), "Event");
    device_ = stream->device;
  }
  if (external_ && is_capturing(stream))
    must(driver().EventRecordWithFlags(event_, stream->handle(), kEventExternal), "Event.record");
  else
    must(driver().EventRecord(event_, stream->handle()), "Event.record");
}

void Event::make_wait(Stream* stream) const {
  if (!event_) return;
  flush_pending("a stream waits for an event");
  bind(stream->device);
  const unsigned flags = external_ && is_capturing(stream) ? kEventExternal : 0;
  must(driver().StreamWaitEvent(stream->handle(), event_, flags), "Event.wait");
}

bool Event::done() const {
  if (!event_) return true;
  bind(device_);
  const RelaxedCapture relaxed;
  const CUresult result = driver().EventQuery(event_);
  if (result != kNotReady) must(result, "Event.query");
  return result == kSuccess;
}

void Event::wait() const {
  if (!event_) return;
  bind(device_);
  const RelaxedCapture relaxed;
  must(driver().EventSynchronize(event_), "Event.synchronize");
}

float Event::milliseconds_until(const Event& end) const {
  check(event_ && end.event_, ErrorKind::Runtime, "Event.elapsed_time",
        "both events must be recorded before the time between them can be told");
  check(!((flags_ | end.flags_) & kEventNoTiming), ErrorKind::Argument, "Event.elapsed_time",
        "both events must be made with enable_timing=True");
  bind(device_);
  float ms = 0;
  must(driver().EventElapsedTime(&ms, event_, end.event_), "Event.elapsed_time");
  return ms;
}

}  // namespace rush::cuda
