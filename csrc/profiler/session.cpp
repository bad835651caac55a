#include "profiler/session.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "autograd/node_name.h"
#include "ops/framework/cost.h"

namespace rush::profiler {
namespace {

constexpr size_t kMostCalls = 64;

std::atomic<int64_t> g_live_bytes{0};

int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}
int64_t wall_now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

// Does the call cost something of its own, so that the ops inside it do not count? See op_cost.
bool costs_itself(const OpEntry& entry) {
  return entry.kind != OpKind::Composite || entry.flops || entry.bytes;
}

bool equal_calls(const SourcePoint* a, const SourcePoint* b, size_t n) {
  return std::equal(a, a + n, b, [](SourcePoint x, SourcePoint y) {
    return x.code == y.code && x.offset == y.offset;
  });
}

// The calls that are under way. Ops in a row often have the same ones.
void note_calls(ThreadBuffer& buffer, Event& e) {
  if (!g_source_host.calls) return;
  SourcePoint found[kMostCalls];
  const size_t n = g_source_host.calls(found, kMostCalls);
  if (n != buffer.num_last_calls || !equal_calls(found, buffer.last_calls, n)) {
    auto* kept = buffer.arena.take<SourcePoint>(n);
    std::copy_n(found, n, kept);
    buffer.last_calls = kept;
    buffer.num_last_calls = uint32_t(n);
  }
  e.calls = buffer.last_calls;
  e.num_calls = buffer.num_last_calls;
}

template <class Pack>
const int64_t* packed(ThreadBuffer& buffer, Pack&& pack) {
  std::vector<int64_t>& words = buffer.words;
  words.clear();
  pack(words);
  auto* kept = buffer.arena.take<int64_t>(words.size());
  std::copy(words.begin(), words.end(), kept);
  return kept;
}

const ActivityRecorder& recorder() { return activity_recorders(Device{DeviceType::CUDA, 0}); }

// A range of no length, so that the wait has a line.
void note_wait(const char* what) { stream::end_range(stream::begin_range(what, kWaitTag), false); }

bool start_devices(std::string& why_not) {
  g_wait_listener = note_wait;  // for good: threads that nobody watches test a bit
  if (recorder().start) return recorder().start(why_not);
  why_not = "this build has no support for GPUs";
  return false;
}

void note_node(Event& e, const Node* node) {
  if (!node || node->sequence() == kLeafSequence) return;
  e.node = reinterpret_cast<uint64_t>(node);
  e.sequence = node->sequence();
}

}  // namespace

int64_t live_bytes() { return g_live_bytes.load(); }

std::string prepare_devices() {
  std::string why_not;
  if (start_devices(why_not)) recorder().stop(now());
  return why_not;
}

struct Arena::Block {
  size_t bytes;
  alignas(std::max_align_t) unsigned char data[1];
};
void Arena::Free::operator()(Block* b) const {
  g_live_bytes -= int64_t(b->bytes);
  ::operator delete(b);
}

void* Arena::take_bytes(size_t n) {
  n = (n + 7) & ~size_t{7};
  if (used_ + n > size_) {
    size_ = std::max(n, kBlock);
    used_ = 0;
    const size_t bytes = offsetof(Block, data) + size_;
    auto* block = static_cast<Block*>(::operator new(bytes));
    block->bytes = bytes;
    blocks_.emplace_back(block);
    g_live_bytes += int64_t(bytes);
  }
  return blocks_.back()->data + std::exchange(used_, used_ + n);
}

ThreadBuffer::ThreadBuffer(uint32_t n)
    : number(n),
      system_id(gettid()),
      handle(int64_t(pthread_self())),
      first_(new Chunk),
      last_(first_) {
  g_live_bytes += int64_t(sizeof(Chunk));
}
ThreadBuffer::~ThreadBuffer() {
  for (Chunk* c = first_; c;) {
    delete std::exchange(c, c->next.load());
    g_live_bytes -= int64_t(sizeof(Chunk));
  }
}

Event* ThreadBuffer::add() {
  uint32_t at = last_->used.load(std::memory_order_relaxed);
  if (at == kEvents) {
    auto* next = new Chunk;
    g_live_bytes += int64_t(sizeof(Chunk));
    last_->next.store(next, std::memory_order_release);
    last_ = next;
    at = 0;
  }
  return &last_->events[at];
}

void ThreadBuffer::for_each(const std::function<void(const Event&)>& f) const {
  for (const Chunk* c = first_; c; c = c->next.load(std::memory_order_acquire)) {
    const uint32_t n = c->used.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < n; ++i) f(c->events[i]);
  }
}

// Devices first: to begin recording them takes long.
Session::Session(uint32_t wanted)
    : wanted_(wanted),
      records_devices_(wanted & kDevices && start_devices(devices_missing_)),
      begin_(now()),
      wall_begin_(wall_now()) {
  if (wanted & kMemory) memory_ = std::make_unique<MemoryLog>();
}
Session::~Session() { stop_devices(); }
void Session::stop() {
  stop_devices();
  end_ = now();
  if (memory_) memory_->stop();
}
void Session::stop_devices() {
  if (records_devices_.exchange(false)) activities_ = recorder().stop(begin_);
}
int64_t Session::end() const { return stopped() ? end_ : now(); }

void Session::for_each(const std::function<void(const ThreadBuffer&, const Event&)>& f) const {
  std::vector<const ThreadBuffer*> threads;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& t : threads_) threads.push_back(t.get());
  }
  for (const ThreadBuffer* t : threads) t->for_each([&](const Event& e) { f(*t, e); });
}

std::vector<std::pair<int64_t, uint32_t>> Session::threads() const {
  std::vector<std::pair<int64_t, uint32_t>> found;
  const std::lock_guard lock(mutex_);
  for (const auto& t : threads_) found.emplace_back(t->handle, t->number);
  return found;
}

const std::string* Session::intern(std::string name) {
  const std::lock_guard lock(mutex_);
  return &*names_.insert(std::move(name)).first;
}

void* Session::enter_thread(uint32_t number) noexcept {
  auto buffer = std::make_unique<ThreadBuffer>(number);
  const std::lock_guard lock(mutex_);
  return threads_.emplace_back(std::move(buffer)).get();
}

void Session::begin_op(ThreadBuffer& buffer, Event& e, const StreamEvent& event) {
  e.entry = event.entry;
  if (wanted_ & kShapes)
    e.inputs = packed(buffer, [&](auto& to) { pack_inputs(*event.entry, event.args, to); });
  if (wanted_ & kFlops && costs_itself(*event.entry)) e.costs = buffer.costing++ == 0;
}

void* Session::begin(void* thread, const StreamEvent& event) noexcept {
  ThreadBuffer& buffer = *static_cast<ThreadBuffer*>(thread);
  Event& e = *buffer.add();
  e.kind = event.kind;
  e.modes = event.modes;
  e.source = event.source;
  if (event.kind == StreamKind::Op) {
    begin_op(buffer, e, event);
  } else if (event.kind == StreamKind::Node) {
    e.part = event.part;
    e.name = intern(node_name(*event.node));
    note_node(e, event.node);
    if (wanted_ & kShapes && event.part == NodeObserver::Part::Apply)
      e.inputs = packed(buffer, [&](auto& to) { pack_gradients(*event.node, to); });
  } else {
    e.name = intern(std::string(event.name));
    e.tag = event.tag;
  }
  if (wanted_ & kStacks) note_calls(buffer, e);
  e.begin = now();  // last: what it took to write the event down is not the op's time
  buffer.publish();
  return &e;
}

void Session::end(void* thread, void* begun, const StreamEvent& event) noexcept {
  const int64_t end = now();
  ThreadBuffer& buffer = *static_cast<ThreadBuffer*>(thread);
  Event& e = *static_cast<Event*>(begun);
  e.failed = event.failed;
  if (event.kind == StreamKind::Op) {
    note_node(e, event.node);
    if (wanted_ & kFlops && costs_itself(*event.entry)) {
      --buffer.costing;
      if (e.costs && !event.failed) {
        const OpCost cost = op_cost(*event.entry, event.args, event.results);
        e.flops = cost.flops;
        e.bytes = cost.bytes;
      }
    }
  }
  e.end.store(end, std::memory_order_release);
}

}  // namespace rush::profiler
