#include "cuda/runtime/graph.h"

#include <array>

#include "core/error.h"
#include "core/layout.h"
#include "core/mutex.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/memory.h"
#include "device/origin.h"

namespace rush::cuda {

std::atomic<int> g_captures{0};

namespace {

constexpr const char* kName = "CUDAGraph";

// Graphs that are being captured, by the driver's number of the capture: streams that join a
// capture (by waiting for an event of it) have the same.
struct Captures {
  Mutex mutex{LockRank::Streams};
  std::vector<std::pair<unsigned long long, Graph*>> all;
};
Captures& captures() {
  static auto* c = new Captures;
  return *c;
}

bool capture_info(const Stream* stream, unsigned long long& id) {
  CUcaptureStatus status = kCaptureNone;
  bind(stream->device);
  return driver().StreamGetCaptureInfo(stream->raw_handle(), &status, &id) == kSuccess &&
         status != kCaptureNone;
}

// The stream of upload_now.
CUstream setup_stream(int device) {
  static auto* streams = new std::array<std::atomic<CUstream>, kMaxDevices>{};
  std::atomic<CUstream>& place = (*streams)[size_t(device)];
  if (CUstream known = place.load(std::memory_order_acquire)) return known;
  CUstream fresh = nullptr, known = nullptr;
  must(driver().StreamCreate(&fresh, kStreamNonBlocking, 0), kName);
  // Another thread may have been faster; its stream is taken then, and ours is left alone.
  return place.compare_exchange_strong(known, fresh) ? fresh : known;
}

}  // namespace

// ---- what others ask ----

bool is_capturing_slow(const Stream* stream) {
  unsigned long long id = 0;
  return capture_info(stream, id);
}

Graph* capture_of_slow(const Stream* stream) {
  unsigned long long id = 0;
  if (!capture_info(stream, id)) return nullptr;
  Captures& c = captures();
  std::lock_guard lock(c.mutex);
  for (const auto& [number, graph] : c.all)
    if (number == id) return graph;
  return nullptr;
}

bool is_capturing_on(Device device) {
  if (!any_capture() || !device.is_cuda()) return false;
  return is_capturing_slow(current_stream(check_device(kName, device.index)));
}

void refuse_capture_slow(const char* what, const char* why) {
  for (int device = 0; device < device_count(); ++device) {
    Stream* stream = t_streams ? t_streams[device] : nullptr;
    if (!stream || !is_capturing_slow(stream)) continue;
    fail(ErrorKind::Runtime, what, "not possible while a CUDA graph is captured: ", why);
  }
}

void upload_now(int device, void* to, const void* from, size_t nbytes) {
  bind(device);
  const RelaxedCapture relaxed;
  const CUstream stream = setup_stream(device);
  must(driver().MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), from, nbytes, stream), "copy");
  must(driver().StreamSynchronize(stream), "copy");
}

RandomSource random_source(const RandomCall& call, int device) {
  Graph* graph = capture_of(current_stream(device));
  if (!graph) [[likely]]
    return {call.seed, call.call, nullptr};
  return graph->random(call);
}

// See Note [Arranged tensors and CUDA graphs].
namespace {
const bool g_materializes = [] {
  g_recording = [](Device device) -> const void* {
    return any_capture() ? capture_of(current_stream(device.index)) : nullptr;
  };
  return true;
}();
}  // namespace

// ---- capturing ----

Graph::~Graph() { reset(); }

void Graph::capture_begin(PoolId pool, CUcaptureMode mode) {
  flush_pending("a CUDA graph is captured");
  deferred::forget_origins(nullptr);  // replays find in memory what is there by then
  check(!stream_, ErrorKind::Runtime, kName, "this graph is being captured already");
  check(!captured_, ErrorKind::Runtime, kName,
        "this graph holds a capture already: reset() it, or make another one");
  const int device = check_device(kName, -1);
  bind(device);
  Stream* stream = current_stream(device);
  check(stream->handle() != nullptr, ErrorKind::Runtime, kName,
        "the default stream cannot be captured; capture under `with cuda.graph(g)`, or "
        "`with cuda.stream(s)` of another stream s");
  check(!is_capturing(stream), ErrorKind::Runtime, kName,
        "another graph is being captured on this stream");
  device_ = device;
  draws_.clear();
  draws_.push_back({default_generator_pointer()});
  for (const auto& generator : registered_) draws_.push_back({generator});
  for (Draws& d : draws_) d.start = d.generator->offset();
  pool_ = PrivatePool::acquire(pool, device);
  Captures& c = captures();
  // Counted first: from the call on, whoever allocates must ask.
  g_captures.fetch_add(1);
  const CUresult begun = driver().StreamBeginCapture(stream->handle(), mode);
  unsigned long long id = 0;
  if (begun != kSuccess || !capture_info(stream, id)) {
    g_captures.fetch_sub(1);
    pool_->release();
    pool_ = nullptr;
    must(begun, kName);
    fail(ErrorKind::Runtime, kName, "the capture did not begin");
  }
  stream_ = stream;
  pool_->begin_capture();
  std::lock_guard lock(c.mutex);
  c.all.emplace_back(id, this);
}

// The driver's capture is over; so is ours.
void Graph::stop_capture() noexcept {
  {
    Captures& c = captures();
    std::lock_guard lock(c.mutex);
    std::erase_if(c.all, [&](const auto& entry) { return entry.second == this; });
  }
  g_captures.fetch_sub(1);
  stream_ = nullptr;
  pool_->end_capture();
  // What was drawn while capturing was never used: the first replay begins there.
  std::erase_if(draws_, [](const Draws& d) { return d.state == nullptr; });
  for (Draws& d : draws_) {
    d.calls = d.generator->offset() - d.start;
    d.generator->set_offset(d.start);
  }
}

void Graph::capture_end() {
  check(stream_ != nullptr, ErrorKind::Runtime, kName, "nothing is being captured");
  bind(device_);
  check(current_stream(device_) == stream_, ErrorKind::Runtime, kName,
        "a capture must end on the stream on which it began");
  flush_pending("the capture of a CUDA graph ends");
  materialize_recorded(this);
  CUresult ended = driver().StreamEndCapture(stream_->handle(), &graph_);
  if (const CUresult kept = take_batch_error(); ended == kSuccess) ended = kept;
  stop_capture();
  if (ended != kSuccess || !graph_) {
    reset();
    fail(ErrorKind::Runtime, kName, "the capture failed: ", describe(ended),
         ". A call that cannot be captured was made, by this thread or, with "
         "capture_error_mode='global', by another one; or a stream that joined the capture was not "
         "joined again by the capturing stream (wait_stream) before the end");
  }
  captured_ = true;
  driver().GraphGetNodes(graph_, nullptr, &nodes_);
  if (!keep_) instantiate();
}

void Graph::capture_abort() noexcept {
  if (!stream_) return;
  try {
    bind(device_);
    forget_batch(stream_);
    driver().StreamEndCapture(stream_->handle(), &graph_);
    stop_capture();
    reset();
  } catch (const Error&) {
  }
}

void Graph::instantiate() {
  check(captured_ && graph_, ErrorKind::Runtime, kName, "nothing was captured");
  bind(device_);
  const RelaxedCapture relaxed;
  if (exec_) driver().GraphExecDestroy(exec_);
  exec_ = nullptr;
  constexpr unsigned long long kFreeOnLaunch = 1;
  must(driver().GraphInstantiate(&exec_, graph_, kFreeOnLaunch), kName);
  if (keep_) return;
  driver().GraphDestroy(graph_);
  graph_ = nullptr;
}

void Graph::replay() {
  check(captured_, ErrorKind::Runtime, "CUDAGraph.replay", "nothing was captured yet");
  if (!exec_) instantiate();
  bind(device_);
  refuse_capture("CUDAGraph.replay", "a graph cannot be replayed inside another one's capture");
  before_write_to(nullptr);  // it may write anywhere
  Stream* stream = current_stream(device_);
  for (const Draws& d : draws_) {
    const uint64_t words[2] = {d.generator->initial_seed(), d.generator->next_call(d.calls)};
    // (The driver has copied pageable memory aside when the call returns.)
    must(driver().MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(d.state), words, sizeof words,
                                  stream->handle()),
         "CUDAGraph.replay");
  }
  if (checks_indices_) expect_faults(device_);
  must(driver().GraphLaunch(exec_, stream->handle()), "CUDAGraph.replay");
  after_launch(stream);
}

void Graph::reset() {
  if (stream_) capture_abort();
  if (device_ < 0) return;
  try {
    bind(device_);
    const RelaxedCapture relaxed;
    if (exec_) driver().GraphExecDestroy(exec_);
    if (graph_) driver().GraphDestroy(graph_);
    // Replays may still be running; cuMemFree would wait for them, the pools' memory must, too.
    if (exec_ && !any_capture()) {
      queue_batch();
      driver().CtxSynchronize();
    }
  } catch (const Error&) {  // the process forked, or the device is gone
  }
  exec_ = nullptr;
  graph_ = nullptr;
  captured_ = checks_indices_ = false;
  nodes_ = 0;
  draws_.clear();
  kept_.clear();
  if (constants_) {
    for (void* p : constant_blocks_) constants_->free(p);
    constants_->release_cached();
    constants_.reset();
    constant_blocks_.clear();
  }
  if (pool_) pool_->release();
  pool_ = nullptr;
  device_ = -1;
}

PoolId Graph::pool() const {
  check(pool_ != nullptr, ErrorKind::Runtime, "CUDAGraph.pool",
        "a graph has a pool from the beginning of its capture");
  return pool_->id();
}

uintptr_t Graph::description() const {
  check(graph_ != nullptr, ErrorKind::Runtime, "CUDAGraph.raw_cuda_graph",
        "only a graph made with keep_graph=True keeps it, from the end of its capture");
  return reinterpret_cast<uintptr_t>(graph_);
}

void Graph::debug_dump(const std::string& path) const {
  check(graph_ != nullptr, ErrorKind::Runtime, "CUDAGraph.debug_dump",
        "call enable_debug_mode() before the capture");
  constexpr unsigned kVerbose = 1;
  must(driver().GraphDebugDotPrint(graph_, path.c_str(), kVerbose), "CUDAGraph.debug_dump");
}

// ---- while it is captured ----

void* Graph::constant(const void* bytes, size_t nbytes) {
  if (!constants_) {
    // Fresh memory: nobody's queued work can still be using it.
    constants_ = std::make_unique<CachingPool>(
        device_memory_backend(device_), CachingPool::Options{.segment_round = size_t(2) << 20,
                                                             .first_step = size_t(2) << 20,
                                                             .largest_step = size_t(2) << 20,
                                                             .least_rest = 512,
                                                             .cache_cap = ~size_t(0)});
  }
  constant_blocks_.reserve(constant_blocks_.size() + 1);
  void* p = constants_->allocate(nbytes).p;
  check(p != nullptr, ErrorKind::OutOfMemory, kName, "CUDA out of memory: ", nbytes,
        " bytes for what a graph keeps");
  constant_blocks_.push_back(p);
  upload_now(device_, p, bytes, nbytes);
  return p;
}

void Graph::keep_alive(Ref<Storage> storage) { kept_.push_back(std::move(storage)); }

RandomSource Graph::random(const RandomCall& call) {
  for (Draws& d : draws_) {
    if (!d.gave(call)) continue;
    const uint64_t zeros[2] = {};
    if (!d.state) d.state = static_cast<uint64_t*>(constant(zeros, sizeof zeros));
    return {call.seed, call.call - d.start, d.state};
  }
  fail(ErrorKind::Runtime, kName,
       "random numbers are drawn from a generator that the graph does not know: call "
       "graph.register_generator_state(generator) before the capture. (A backward pass that draws "
       "those of its forward again, as that of attention with dropout, must be captured with it.)");
}

void Graph::register_generator(std::shared_ptr<Generator> generator) {
  check(!captured_ && !stream_, ErrorKind::Runtime, "CUDAGraph.register_generator_state",
        "generators must be registered before the capture");
  for (const auto& known : registered_)
    if (known == generator) return;
  registered_.push_back(std::move(generator));
}

// ---- beside a capture ----

BesideCapture::BesideCapture() = default;
BesideCapture::~BesideCapture() = default;

void BesideCapture::enter() {
  device_ = check_device(kName, -1);
  before_ = current_stream(device_);
  Stream* beside = stream_from_set(device_, 0);
  while (is_capturing(beside)) beside = stream_from_set(device_, 0);  // the set is used in turns
  set_current_stream(beside);
  relaxed_ = std::make_unique<RelaxedCapture>();
}

void BesideCapture::leave() {
  Stream* beside = current_stream(device_);
  set_current_stream(before_);
  synchronize(beside);
  relaxed_.reset();
}

}  // namespace rush::cuda
