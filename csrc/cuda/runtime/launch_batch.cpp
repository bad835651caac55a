#include "cuda/runtime/launch_batch.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/exposed_memory.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/gpu_lag.h"
#include "cuda/runtime/kept_graph.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda {
namespace {

constexpr size_t kMost = 32, kLeast = 16;  // kernels in a batch that ends by itself
// And in the first one behind whatever ended a batch: a GPU that has nothing to do gets work soon.
constexpr size_t kFirst = 8;
constexpr size_t kArgumentBytes = size_t(64) << 10;
constexpr size_t kMostGraphs = 512, kSightings = 1 << 14;
// More threads than these are work for tens of microseconds.
constexpr uint64_t kLargeThreads = uint64_t(1) << 22;
// A graph with calls of libraries is good for one set of addresses, and costs as much as some dozen
// launches. Making one takes credit, which uses give back; without it calls are passed over a while.
constexpr int kCredit = 512, kCostOfGraph = 4, kCallsToTryAgain = 1 << 14;

uint64_t mixed(uint64_t x) {
  x *= 0x9E3779B97F4A7C15ull;
  return x ^ x >> 29;
}

// A C++ program may launch kernels of its own at any time, so Python's module turns it on.
constinit std::atomic<bool> g_wanted{false};
constinit std::atomic<bool> g_failed{false};
constinit std::atomic<std::chrono::microseconds> g_patience{std::chrono::microseconds(200)};
std::atomic<const char*> g_left{nullptr};  // why there are no batches any more
std::atomic<int> g_single{0};
// Is anything kept back? Read without the lock: whoever kept it back did so before, or in a thread
// whose order with this one is nobody's promise.
constinit std::atomic<bool> g_pending{false};

class Batch;
constinit std::atomic<Batch*> g_batch{nullptr};

class Batch {
 public:
  static Batch& get() {
    [[maybe_unused]] static const bool made = (make_one(), true);
    return *g_batch.load(std::memory_order_relaxed);
  }

  bool add(CUfunction f, Stream* stream, const LaunchShape& shape, void** args, JoinRule join);
  bool add_captured(CUfunction f, Stream* stream, const LaunchShape& shape, void** args,
                    JoinRule join);
  bool add_call(Stream* stream, const CallKey& key, const CallRun& call);
  void queue() noexcept {
    std::lock_guard lock(mutex_);
    queue_all();
    most_ = kFirst;
  }
  CUresult take_error() noexcept {
    std::lock_guard lock(mutex_);
    g_failed.store(false);
    return std::exchange(failed_, kSuccess);
  }
  void forget(const Stream* stream) noexcept {
    std::lock_guard lock(mutex_);
    if (count_ && stream_ == stream) empty();
  }
  BatchStats stats() {
    std::lock_guard lock(mutex_);
    BatchStats s = stats_;
    s.graphs = int64_t(graphs_.size());
    s.engaged = lag_.keeps_up();
    return s;
  }

 private:
  static void make_one();
  bool joins(CUfunction f, const LaunchShape& shape, void** args, JoinRule join);
  void begin(Stream* stream);
  void keep(CUfunction f, const ParameterLayout& layout, const LaunchShape& shape, void** args);
  void mix(uint64_t own, bool may_end);
  bool trusts_calls();
  void queue_all() noexcept;
  void empty() noexcept;
  CUresult queue_kept();
  std::span<const Kept> all() const { return {kept_.data(), count_}; }
  CUresult launch_singly() const;
  KeptGraph* find(uint64_t key);
  KeptGraph* make(uint64_t key);
  void forget_old();
  void wake_watcher();
  void watch();

  std::mutex mutex_;  // the last of all: only the driver and libraries are called under it
  std::condition_variable wakes_;
  bool ends_ = false, watched_ = false, awake_ = false;
  GpuLag lag_;
  uint64_t batches_ = 0;
  CUresult failed_ = kSuccess;
  BatchStats stats_;

  Stream* stream_ = nullptr;
  bool captured_ = false;  // it will be recorded, not run
  size_t count_ = 0, calls_kept_ = 0, bytes_ = 0, most_ = kFirst;
  uint64_t key_ = 0;
  std::array<Kept, kMost> kept_;
  std::unique_ptr<std::byte[]> arguments_{new std::byte[kArgumentBytes]};

  ParameterLayouts layouts_;
  CapturedCalls calls_;
  int credit_ = kCredit, calls_passed_ = 0;
  std::unordered_map<uint64_t, KeptGraph> graphs_;
  std::vector<uint64_t> seen_ = std::vector<uint64_t>(kSightings);
};

// For good: a thread refers to it. A forked child has another one: there whoever holds the lock is
// not, and what was kept back is the parent's to queue.
void Batch::make_one() {
  g_batch.store(new Batch);
  pthread_atfork(nullptr, nullptr, [] {
    g_pending.store(false);
    g_failed.store(false);
    g_batch.store(new Batch);
  });
}

// Is it part of the last launch now?
bool Batch::joins(CUfunction f, const LaunchShape& shape, void** args, JoinRule join) {
  if (!join || count_ == 0 || kept_[count_ - 1].f != f) return false;
  Kept& last = kept_[count_ - 1];
  return join(arguments_.get() + last.at, last.shape, args[0], shape);
}

void Batch::begin(Stream* stream) {
  stream_ = stream;
  key_ = uint64_t(stream->device);
  g_pending.store(true, std::memory_order_relaxed);
  wake_watcher();
}

void Batch::keep(CUfunction f, const ParameterLayout& layout, const LaunchShape& shape,
                 void** args) {
  std::byte* to = arguments_.get() + bytes_;
  for (size_t i = 0; i < layout.count; ++i)
    std::memcpy(to + layout.offsets[i], args[i], layout.sizes[i]);
  kept_[count_++] = {.f = f, .layout = &layout, .shape = shape, .at = bytes_};
  bytes_ += layout.bytes;
}

// Behind what was kept last: its number goes into the batch's, and may end it.
void Batch::mix(uint64_t own, bool may_end) {
  own = mixed(own);
  key_ = mixed(key_ ^ own);
  if (count_ < most_ && (count_ < kLeast || !may_end || own >> 60 != 0)) return;
  queue_all();
  most_ = std::min(kMost, 2 * most_);
}

bool Batch::add(CUfunction f, Stream* stream, const LaunchShape& shape, void** args,
                JoinRule join) {
  std::lock_guard lock(mutex_);
  if (count_ && stream != stream_) queue_all();
  if (!lag_.keeps_up(stream)) {
    queue_all();
    return false;
  }
  if (joins(f, shape, args, join)) return true;
  const ParameterLayout& layout = layouts_.of(f);
  if (layout.bytes == 0) {
    queue_all();
    return false;
  }
  if (bytes_ + layout.bytes > kArgumentBytes) queue_all();
  if (count_ == 0) begin(stream);
  keep(f, layout, shape, args);
  // (Behind a kernel that another may join, no batch ends by its number.)
  mix(kept_[count_ - 1].identity(), !join);
  uint64_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  for (const unsigned n : shape.grid) threads *= n;
  if (threads >= kLargeThreads) queue_all();
  return true;
}

bool Batch::trusts_calls() {
  if (credit_ > 0) return true;
  if (++calls_passed_ < kCallsToTryAgain) return false;
  calls_passed_ = 0;
  credit_ = kCredit / 8;
  return true;
}

bool Batch::add_call(Stream* stream, const CallKey& key, const CallRun& call) {
  std::lock_guard lock(mutex_);
  if (count_ && stream != stream_) queue_all();
  if (!lag_.keeps_up(stream) || !trusts_calls()) return false;
  if (calls_.is_full()) {
    queue_all();
    driver().CtxSynchronize();
    calls_.clear();
  }
  const CapturedCall* known = calls_.find(key, stream->device, call);
  if (!known) return false;  // whoever makes the call asks for the stream, and so queues the batch
  if (count_ == 0) begin(stream);
  kept_[count_++] = {.call = known};
  ++calls_kept_;
  mix(kept_[count_ - 1].identity(), true);
  return true;
}

// In a capture one launch at most is kept, for the next one to join.
bool Batch::add_captured(CUfunction f, Stream* stream, const LaunchShape& shape, void** args,
                         JoinRule join) {
  std::lock_guard lock(mutex_);
  if (count_ && stream == stream_ && joins(f, shape, args, join)) return true;
  queue_all();
  const ParameterLayout& layout = layouts_.of(f);
  if (layout.bytes == 0) return false;
  stream_ = stream;
  captured_ = true;
  keep(f, layout, shape, args);
  g_pending.store(true, std::memory_order_relaxed);
  return true;
}

void Batch::queue_all() noexcept {
  if (count_ == 0) return;
  CUresult result = kSuccess;
  const int bound = t_bound;  // by a caller who is about to use it
  try {
    bind(stream_->device);
    result = captured_ ? launch_singly() : queue_kept();
    if (!captured_) ++batches_, lag_.look(stream_);
    if (bound >= 0) bind(bound);
  } catch (...) {  // no memory for a graph
    result = kOutOfMemory;
  }
  if (result != kSuccess && failed_ == kSuccess) {
    failed_ = result;
    g_failed.store(true);
  }
  empty();
}

void Batch::empty() noexcept {
  count_ = calls_kept_ = bytes_ = 0;
  captured_ = false;
  g_pending.store(false, std::memory_order_relaxed);
}

CUresult Batch::queue_kept() {
  KeptGraph* graph = count_ > 1 ? find(key_) : nullptr;
  if (graph) {
    graph->used = batches_;
    if (graph->launch(all(), arguments_.get(), stream_->raw_handle()) == kSuccess) {
      stats_.batched += int64_t(count_ - calls_kept_);
      stats_.calls += int64_t(calls_kept_);
      ++stats_.launches;
      return kSuccess;
    }
    // The graph's own launch comes last, so none of them has run. It is not tried again.
    graph->destroy();
    ++stats_.refused;
  }
  stats_.single += int64_t(count_ - calls_kept_);
  return launch_singly();
}

CUresult Batch::launch_singly() const {
  for (const Kept& k : all()) {
    ParameterPointers args;
    const CUresult r =
        k.call ? CapturedCalls::queue(*k.call, stream_->raw_handle())
               : launch_now(k.f, stream_, k.shape, k.node(arguments_.get(), args).params);
    if (r != kSuccess) return r;
  }
  return kSuccess;
}

KeptGraph* Batch::find(uint64_t key) {
  const auto at = graphs_.find(key);
  if (at != graphs_.end()) {
    if (!at->second.is_of(all())) return nullptr;
    if (calls_kept_ && credit_ < kCredit) ++credit_;
    return &at->second;
  }
  const bool known = std::exchange(seen_[key % kSightings], key) == key;
  if (!known && calls_kept_ == 0) return nullptr;  // (calls were seen before)
  if (calls_kept_) credit_ -= kCostOfGraph;
  return make(key);
}

// Graphs that were not used for long make room. Rare: it waits, for they may run in any stream.
void Batch::forget_old() {
  driver().CtxSynchronize();
  std::vector<uint64_t> used;
  for (const auto& [key, g] : graphs_) used.push_back(g.used);
  std::ranges::nth_element(used, used.begin() + ptrdiff_t(used.size() / 2));
  const uint64_t middle = used[used.size() / 2];
  for (auto at = graphs_.begin(); at != graphs_.end();) {
    const bool goes = at->second.used <= middle;
    if (goes) at->second.destroy();
    at = goes ? graphs_.erase(at) : std::next(at);
  }
}

// One that cannot be made is kept as empty: it is not tried again.
KeptGraph* Batch::make(uint64_t key) {
  if (graphs_.size() >= kMostGraphs) forget_old();
  KeptGraph& g = graphs_[key];
  g.used = batches_;
  const bool early = device_info(stream_->device).major >= 9;
  return g.make(all(), arguments_.get(), early) == kSuccess ? &g : nullptr;
}

// ---- what is left behind ----

void Batch::wake_watcher() {
  if (awake_) return;
  awake_ = true;
  if (watched_) {
    wakes_.notify_one();
    return;
  }
  watched_ = true;
  std::atexit([] {
    Batch& batch = get();
    std::lock_guard lock(batch.mutex_);
    batch.ends_ = true;
    batch.count_ = 0;  // nobody will ever see it
  });
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] { watch(); }).detach();
  } catch (const std::system_error&) {
    g_left.store("there is no thread that could watch over them");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Queues a batch that has not grown for a while, and sleeps while nothing is launched.
void Batch::watch() {
  std::unique_lock lock(mutex_);
  uint64_t last = ~uint64_t(0);
  int quiet = 0;
  while (!ends_) {
    const uint64_t now = batches_ << 8 | count_;
    if (now == last && !captured_) queue_all();  // (a capture ends, and asks for it)
    quiet = now == last ? quiet + 1 : 0;
    last = batches_ << 8 | count_;
    if (quiet > 50) {
      awake_ = false;
      wakes_.wait(lock, [&] { return awake_ || ends_; });
      quiet = 0;
      continue;
    }
    lock.unlock();
    std::this_thread::sleep_for(g_patience.load(std::memory_order_relaxed));
    lock.lock();
  }
}

// Is nothing kept back?
bool is_off() {
  return g_left.load(std::memory_order_relaxed) || g_single.load(std::memory_order_relaxed) ||
         is_blocking() || !driver().can_batch;
}

}  // namespace

bool add_to_batch(CUfunction f, Stream* stream, const LaunchShape& shape, void** args,
                  JoinRule join) {
  raise_batch_error();
  const bool captured = any_capture();
  if ((captured ? !join || !is_capturing(stream) : !g_wanted.load(std::memory_order_relaxed)) ||
      is_off()) {
    queue_batch();
    return false;
  }
  return captured ? Batch::get().add_captured(f, stream, shape, args, join)
                  : Batch::get().add(f, stream, shape, args, join);
}

bool add_call_to_batch(Stream* stream, const CallKey& key, const CallRun& call) {
  raise_batch_error();
  if (any_capture() || !g_wanted.load(std::memory_order_relaxed) || is_off()) return false;
  bind(stream->device);
  return Batch::get().add_call(stream, key, call);
}

void queue_batch() noexcept {
  if (g_pending.load(std::memory_order_relaxed)) [[unlikely]]
    Batch::get().queue();
}

void raise_batch_error() {
  if (g_failed.load(std::memory_order_relaxed)) [[unlikely]]
    must(take_batch_error(), "launch");
}

CUresult take_batch_error() noexcept { return Batch::get().take_error(); }
void forget_batch(const Stream* stream) noexcept { Batch::get().forget(stream); }

void leave_batches(const char* why) noexcept {
  const char* none = nullptr;
  g_left.compare_exchange_strong(none, why);
  queue_batch();
}

SingleLaunches::SingleLaunches() noexcept { set_single_launches(true); }
SingleLaunches::~SingleLaunches() { set_single_launches(false); }

void set_single_launches(bool on) noexcept {
  g_single.fetch_add(on ? 1 : -1);
  queue_batch();
}

bool coalesces_launches() { return g_wanted.load(); }
void set_coalesces_launches(bool on) {
  g_wanted.store(on);
  queue_batch();
}

void set_batch_patience(std::chrono::microseconds time) { g_patience.store(time); }

BatchStats batch_stats() {
  BatchStats s = Batch::get().stats();
  if (const char* why = g_left.load()) s.off = why;
  if (!g_wanted.load()) s.off = "config.coalesce_launches is False";
  if (g_driver && !driver().can_batch)
    s.off = "the driver lacks functions for it: one for CUDA 12.4 has them";
  return s;
}

namespace {
// Addresses of GPU memory that leave us.
const bool g_watches_addresses = [] {
  g_gpu_memory_exposed.store(
      [] { leave_batches("an address of GPU memory was given to the program"); });
  return true;
}();
}  // namespace

}  // namespace rush::cuda
