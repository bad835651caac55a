#include "cuda/runtime/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/device_memory.h"
#include "core/error.h"
#include "core/modes.h"
#include "core/mutex.h"
#include "core/spin_lock.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/memory_backend.h"
#include "cuda/runtime/memory_report.h"
#include "cuda/runtime/private_pool.h"

namespace rush::cuda {
namespace {

struct DeviceState {
  GpuBackend backend;
  // A handful of counters that change together: one byte guards them all.
  SpinLock counting;
  PoolStat blocks, allocated, requested;
  std::atomic<int64_t> retries{0}, failures{0};
  std::atomic<double> fraction{1.0};

  void count(size_t nbytes, bool fresh) noexcept {
    const auto rounded = int64_t(CachingPool::round(nbytes));
    const int which = nbytes > Arena::kSmall ? 1 : 2;
    counting.lock();
    for (const int k : {0, which}) {
      blocks[size_t(k)].change(1, fresh);
      allocated[size_t(k)].change(rounded, fresh);
      requested[size_t(k)].change(int64_t(nbytes), fresh);
    }
    counting.unlock();
  }
};

// Never destroyed: blocks are freed until the very end of the process.
DeviceState& state_of(int device) {
  static auto* all = [] {
    auto* states = new std::array<DeviceState, kMaxDevices>;
    for (int i = 0; i < kMaxDevices; ++i) (*states)[size_t(i)].backend.device = i;
    return states;
  }();
  return (*all)[size_t(device)];
}

std::atomic<bool> g_caching{true};
UserGpuAllocator g_users;  // changes only while nothing is allocated; g_caching is off with it
constinit thread_local bool t_lasting [[gnu::tls_model("initial-exec")]] = false;
std::atomic<void (*)()> g_reclaim{nullptr};

// ---- blocks that several streams use ----

struct Recorded {
  Mutex mutex{LockRank::Streams};
  std::unordered_map<void*, std::vector<Stream*>> streams;
  std::atomic<int64_t> count{0};  // so that free() need not look when there are none
};
Recorded& recorded() {
  static auto* r = new Recorded;
  return *r;
}

std::vector<Stream*> take_recorded(void* p) {
  Recorded& r = recorded();
  if (r.count.load(std::memory_order_relaxed) == 0) return {};
  std::lock_guard lock(r.mutex);
  const auto found = r.streams.find(p);
  if (found == r.streams.end()) return {};
  std::vector<Stream*> out = std::move(found->second);
  r.streams.erase(found);
  r.count.fetch_sub(1, std::memory_order_relaxed);
  return out;
}

void note_use(void* p, Stream* stream) {
  Recorded& r = recorded();
  std::lock_guard lock(r.mutex);
  auto& list = r.streams[p];
  if (list.empty()) r.count.fetch_add(1, std::memory_order_relaxed);
  if (std::find(list.begin(), list.end(), stream) == list.end()) list.push_back(stream);
}

// Frees p once every stream has passed what it has queued by now.
void free_behind(CachingPool& pool, void* p, const std::vector<Stream*>& streams) noexcept {
  try {
    auto points = std::make_unique<Points>();
    for (Stream* s : streams) {
      if (is_capturing(s))
        continue;  // nothing runs there; replays keep what they need by other means
      points->push_back(std::make_unique<Event>());
      points->back()->record(s);
    }
    pool.free_after(p, reinterpret_cast<MemoryBackend::Event>(points.release()));
  } catch (...) {  // the driver is gone, and with it whoever could still read the block
    pool.free(p);
  }
}

// A user's function does not know of the other streams.
void wait_for(const std::vector<Stream*>& streams) noexcept {
  for (Stream* stream : streams) driver().StreamSynchronize(stream->handle());
}

[[noreturn]] void out_of_memory(int device, size_t nbytes) {
  DeviceState& s = state_of(device);
  s.failures.fetch_add(1);
  fail_out_of_memory(
      {device, nbytes, s.allocated[0].current, s.backend.reserved.load(), s.fraction.load()});
}

// ---- the table of the core ----

// Everything that is cached on the device goes back to the driver.
void release_all(int device);

// What a stream allocates from: while it is captured, its part of the graph's pool.
Arena* arena_for(Stream* stream) {
  if (Graph* graph = capture_of(stream)) [[unlikely]]
    return &graph->pool_in_use().arena_of(stream);
  return &stream->arena;
}

DeviceMemory::Block allocate(int device, size_t nbytes) {
  bind(device);
  Arena* arena = arena_for(current_stream(device));
  if (nbytes == 0) return {nullptr, arena};
  DeviceState& s = state_of(device);
  void* p = nullptr;
  if (g_caching.load(std::memory_order_relaxed) || arena->owner) [[likely]] {
    const uint8_t label = grad_enabled() ? kRecording : 0;
    const SourcePoint source = nbytes >= kDescribedBytes ? source_here() : SourcePoint{};
    CachingPool& pool = arena->pool_for(nbytes);
    const auto take = [&] { return pool.allocate(nbytes, label, source, t_lasting).p; };
    p = take();
    if (!p) [[unlikely]] {
      s.retries.fetch_add(1);
      release_all(device);
      p = take();
    }
    if (const auto reclaim = g_reclaim.load(); !p && reclaim) [[unlikely]] {
      reclaim();
      release_all(device);
      p = take();
    }
  } else if (g_users.allocate) {
    p = g_users.allocate(ptrdiff_t(nbytes), device, arena->stream->handle());
  } else {
    p = s.backend.reserve(CachingPool::round(nbytes));
  }
  if (!p) [[unlikely]]
    out_of_memory(device, nbytes);
  s.count(nbytes, true);
  return {p, arena};
}

void free(void* p, size_t nbytes, void* home) noexcept {
  if (!p) return;
  auto* arena = static_cast<Arena*>(home);
  DeviceState& s = state_of(arena->stream->device);
  s.count(nbytes, false);
  if (nbytes >= kDescribedBytes) forget_description(p);
  const std::vector<Stream*> others = take_recorded(p);
  CachingPool& pool = arena->pool_for(nbytes);
  if (arena->owner) [[unlikely]] {
    arena->owner->free(pool, p, !others.empty());
  } else if (g_users.free) [[unlikely]] {
    wait_for(others);
    g_users.free(p, ptrdiff_t(nbytes), arena->stream->device, arena->stream->handle());
  } else if (!g_caching.load(std::memory_order_relaxed)) [[unlikely]] {
    s.backend.release(p, CachingPool::round(nbytes));  // the driver waits for the device
  } else if (others.empty()) {
    pool.free(p);
  } else {
    free_behind(pool, p, others);
  }
}

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

void copy(void* to, const void* from, size_t nbytes, int device) {
  bind(device);
  must(driver().MemcpyAsync(address(to), address(from), nbytes, current_stream(device)->handle()),
       "copy");
}

// The driver copies pageable memory aside before it returns.
void write(void* to, const void* host, size_t nbytes, int device) {
  bind(device);
  if (nbytes == 0) return;
  Stream* stream = current_stream(device);
  if (Graph* graph = capture_of(stream)) [[unlikely]] {
    // Every replay writes the value of today.
    const void* kept = graph->constant(host, nbytes);
    must(driver().MemcpyAsync(address(to), address(kept), nbytes, stream->handle()), "copy");
    return;
  }
  must(driver().MemcpyHtoDAsync(address(to), host, nbytes, stream->handle()), "copy");
}

void read(void* host, const void* from, size_t nbytes, int device) {
  bind(device);
  Stream* stream = current_stream(device);
  note_wait("a copy to the host");
  if (nbytes) must(driver().MemcpyDtoHAsync(host, address(from), nbytes, stream->handle()), "copy");
  must(driver().StreamSynchronize(stream->handle()), "copy");
  raise_faults(device);
}

const bool registered = [] {
  cuda_memory() = {.allocate = allocate,
                   .free = free,
                   .copy = copy,
                   .write = write,
                   .read = read,
                   .pinned = allocate_pinned,
                   .resolve = [](int index) { return check_device("cuda", index); },
                   .describe = describe_block};
  return true;
}();

// ---- pinned memory ----

struct Pinned {
  PinnedBackend backend;
  CachingPool pool{backend,
                   {.segment_round = size_t(1) << 20,
                    .first_step = size_t(1) << 20,
                    .largest_step = size_t(32) << 20,
                    .least_rest = 512,
                    .cache_cap = ~size_t(0)}};
};
Pinned& pinned() {
  static auto* p = new Pinned;
  return *p;
}

void free_pinned(void* p) noexcept {
  const std::vector<Stream*> users = take_recorded(p);
  if (users.empty())
    pinned().pool.free(p);
  else
    free_behind(pinned().pool, p, users);
}

void release_all(int device) {
  for (int64_t id = 0;; ++id) {
    Stream* s = stream_or_null(device, id);
    if (!s) return;
    s->arena.release_cached();
  }
}

}  // namespace

MemoryBackend& device_memory_backend(int device) { return state_of(device).backend; }

GpuMemoryStats gpu_memory_stats(int device) {
  DeviceState& s = state_of(check_device("memory_stats", device));
  s.counting.lock();
  GpuMemoryStats out{.blocks = s.blocks, .allocated = s.allocated, .requested = s.requested};
  s.counting.unlock();
  out.reserved = s.backend.reserved;
  out.peak_reserved = s.backend.peak_reserved;
  out.driver_allocations = s.backend.reserves;
  out.driver_frees = s.backend.releases;
  out.retries = s.retries;
  out.out_of_memory = s.failures;
  return out;
}

void reset_gpu_peaks(int device) {
  DeviceState& s = state_of(check_device("reset_peak_memory_stats", device));
  s.counting.lock();
  for (PoolStat* stats : {&s.blocks, &s.allocated, &s.requested})
    for (MemoryStat& stat : *stats) stat.peak = stat.current;
  s.counting.unlock();
  s.backend.peak_reserved.store(s.backend.reserved.load());
}

void reset_gpu_totals(int device) {
  DeviceState& s = state_of(check_device("reset_accumulated_memory_stats", device));
  s.counting.lock();
  for (PoolStat* stats : {&s.blocks, &s.allocated, &s.requested})
    for (MemoryStat& stat : *stats) stat.gained = stat.lost = 0;
  s.counting.unlock();
  for (auto* total : {&s.retries, &s.failures, &s.backend.reserves, &s.backend.releases})
    total->store(0);
}

void empty_gpu_cache() {
  if (!is_initialized()) return;
  for (int device = 0; device < device_count(); ++device) {
    if (state_of(device).backend.reserved.load() == 0) continue;
    bind(device);
    release_all(device);
  }
  pinned().pool.release_cached();
}

void LastingMemory::enter() {
  struct Sums {
    size_t small = 0, large = 0;
  };
  std::map<int, Sums> sums;
  for (const auto& [device, nbytes] : sizes_) {
    Sums& s = sums[check_device("LastingMemory", device)];
    (nbytes <= Arena::kSmall ? s.small : s.large) += CachingPool::round(nbytes);
  }
  for (const auto& [device, sum] : sums) {
    bind(device);
    Arena* arena = arena_for(current_stream(device));
    if (!gpu_caching() || arena->owner) continue;
    arena->small.make_room(sum.small);
    arena->large.make_room(sum.large);
  }
  t_lasting = true;
}
void LastingMemory::leave() { t_lasting = false; }

void set_reclaimer(void (*reclaim)()) { g_reclaim.store(reclaim); }

void set_memory_fraction(int device, double fraction) {
  device = check_device("set_per_process_memory_fraction", device);
  check(fraction >= 0 && fraction <= 1, ErrorKind::Value, "set_per_process_memory_fraction",
        "the fraction must lie between 0 and 1, not ", fraction);
  DeviceState& s = state_of(device);
  s.fraction.store(fraction);
  const double total = double(device_info(device).total_memory);
  s.backend.limit.store(fraction == 1 ? -1 : int64_t(fraction * total));
}

double memory_fraction(int device) {
  return state_of(check_device("get_per_process_memory_fraction", device)).fraction.load();
}

namespace {

void check_nothing_allocated(const char* function) {
  for (int device = 0; device < kMaxDevices; ++device) {
    check(state_of(device).blocks[0].current == 0, ErrorKind::Runtime, function,
          "tensors are alive on cuda:", device,
          ": the allocator can be switched only while there are none");
  }
}

}  // namespace

void set_gpu_caching(bool on) {
  check_nothing_allocated("caching_allocator_enable");
  empty_gpu_cache();
  g_caching.store(on && !g_users.allocate);
}

void set_user_gpu_allocator(UserGpuAllocator functions) {
  check(!functions.allocate == !functions.free, ErrorKind::Value, "change_current_allocator",
        "both functions are needed, or none");
  check_nothing_allocated("change_current_allocator");
  empty_gpu_cache();
  g_users = functions;
  g_caching.store(!functions.allocate);
}

bool gpu_caching() { return g_caching.load(); }

PinnedMemoryStats pinned_memory_stats() {
  const PinnedBackend& b = pinned().backend;
  return {b.reserved, b.peak_reserved, b.reserves, b.releases};
}

void set_expandable_segments(bool on) { g_expandable.store(on); }
bool expandable_segments() { return g_expandable.load(); }

void record_stream(const Storage& storage, Stream* stream) {
  check(storage.device().is_cuda(), ErrorKind::Device, "record_stream",
        "the tensor must be on a GPU, it is on ", storage.device());
  if (!storage.data() || storage.is_foreign()) return;
  if (static_cast<const Arena*>(storage.home())->stream == stream) return;
  note_use(storage.data(), stream);
}

bool is_recorded(const Storage& storage) {
  Recorded& r = recorded();
  if (r.count.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(r.mutex);
  return r.streams.contains(storage.data());
}

Ref<Storage> allocate_pinned(size_t nbytes) {
  bind(check_device("pin_memory", -1));
  void* p = pinned().pool.allocate(nbytes).p;
  check(p != nullptr, ErrorKind::OutOfMemory, "pin_memory", "the driver cannot pin ",
        size_text(double(nbytes)), " of host memory");
  try {
    return Storage::wrap(p, nbytes, Device{}, free_pinned, p);
  } catch (...) {
    pinned().pool.free(p);
    throw;
  }
}

bool is_pinned(const Storage& storage) { return storage.deleter() == free_pinned; }

void use_pinned(const Storage& storage, Stream* stream) { note_use(storage.data(), stream); }

}  // namespace rush::cuda
