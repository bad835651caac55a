// stream.cpp: the watched threads and the listeners.
//
// Note [Who may touch a thread's slots]
// A thread keeps its listeners in slots of its own, so that telling them takes no lock.
// - `generation` counts the changes of the process's list. A thread that finds another number than
//   its own brings its slots up to date, under the mutex.
// - Listeners that left must not stay alive because a thread sleeps. So a thread says when events
//   of it are under way (`busy`), then looks at the generation; whoever changes the list counts the
//   generation on, then looks at `busy`. Both orders are sequentially consistent: either the thread
//   sees the new number and waits for the mutex, or the other one sees that it is busy and leaves
//   its slots alone, which it tidies up itself when it is done.
#include "trace/stream.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "autograd/meta.h"
#include "core/fork_locks.h"
#include "core/modes.h"
#include "core/mutex.h"
#include "device/pass_listener.h"

namespace rush {
namespace {

using stream::kMostListeners;

struct Slot {
  std::shared_ptr<StreamListener> listener;
  uint64_t serial = 0;  // tells a listener from the next one in its place; 0: none
  void* thread = nullptr;
};
using Slots = std::array<Slot, kMostListeners>;

// An event that is under way: who was told of it, and what they answered.
struct Open {
  StreamEvent event;
  uint64_t range = 0;
  std::array<uint64_t, kMostListeners> serials{};
  std::array<void*, kMostListeners> begun{};
};

class WatchedThread;
struct Registry {
  Mutex mutex{LockRank::Listeners};
  Slots listeners;  // `thread` is not used
  uint64_t next_serial = 1;
  std::atomic<uint64_t> generation{1};
  std::deque<WatchedThread*> threads;  // never freed: those of ended threads are used again
  uint32_t numbers = 0;
};
Registry& registry() {
  static auto* r = new Registry;  // never freed: threads may end after it
  return *r;
}

bool any_listener(const Slots& slots) {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return s.serial != 0; });
}

class WatchedThread final : public OpObserver, public NodeObserver {
 public:
  void observe(const OpEntry& entry, Value* args, Value* results) override {
    if (!begin({.kind = StreamKind::Op, .entry = &entry, .args = args}))
      return run_observed(entry, args, results);
    struct End {
      WatchedThread& thread;
      Value* results;
      bool failed = true;
      ~End() {
        StreamEvent& event = thread.open_.back().event;
        event.failed = failed;
        event.results = failed ? nullptr : results;
        event.node = failed ? nullptr : node_of(*event.entry, results);
        thread.end_last();
      }
    } end{*this, results};
    run_observed(entry, args, results);
    end.failed = false;
  }
  void begin_node(const Node& node, Part part) noexcept override {
    if (!begin({.kind = StreamKind::Node, .part = part, .node = &node}))
      open_.emplace_back().event = {.kind = StreamKind::Node, .node = &node};
  }
  void end_node(const Node&, Part, bool failed) noexcept override {
    open_.back().event.failed = failed;
    end_last();
  }
  uint64_t begin_range(std::string_view name, uint64_t tag) {
    if (!begin({.kind = StreamKind::Range, .name = name, .tag = tag})) return 0;
    open_.back().event.name = {};
    return open_.back().range = ++ranges_;
  }
  void end_range(uint64_t range, bool failed) {
    const auto at =
        std::find_if(open_.rbegin(), open_.rend(), [&](const Open& o) { return o.range == range; });
    if (at == open_.rend()) return;
    at->event.failed = failed;
    tell_end(*at);
    open_.erase(std::next(at).base());
    leave();
  }

  void watch() {
    set_observer(this);
    set_node_observer(this);
  }
  // The thread ends. Its stack of interceptors may be gone already: only the bit is cleared.
  Slots forget() {
    set_mode(kObserve, false);
    set_node_observer(nullptr);
    open_.clear();
    busy_.store(false);
    generation_ = 0;
    used = false;
    return std::exchange(slots_, {});
  }
  // The slots of listeners that are not in the list any more, to be freed; with the mutex held.
  Slots take_left(const Slots& now) {
    Slots left;
    for (size_t i = 0; i < kMostListeners; ++i) {
      if (slots_[i].serial != now[i].serial) left[i] = std::exchange(slots_[i], {});
    }
    return left;
  }
  void tidy() {
    if (open_.empty()) leave();
  }
  bool is_busy() const { return busy_.load(); }

  bool used = false;
  uint32_t number = 0;

 private:
  static const Node* node_of(const OpEntry& entry, const Value* results) {
    if (entry.num_results == 0) return nullptr;
    const Tensor* t = nullptr;
    if (results[0].tag() == Value::Tag::Tensor) t = &results[0].tensor();
    if (results[0].tag() == Value::Tag::Tensors && !results[0].tensors().empty())
      t = &results[0].tensors().front();
    const GradMeta* meta = t && t->defined() ? grad_meta_or_null(*t) : nullptr;
    return meta ? meta->grad_fn.get() : nullptr;
  }

  bool begin(StreamEvent event) {
    if (open_.empty()) busy_.store(true);
    if (registry().generation.load() != generation_ && !update()) return false;
    event.depth = uint32_t(open_.size());
    event.modes = t_modes;
    event.source = source_here();
    Open& open = open_.emplace_back();
    open.event = event;
    for (size_t i = 0; i < kMostListeners; ++i) {
      const Slot& s = slots_[i];
      if (!s.serial) continue;
      open.begun[i] = s.listener->begin(s.thread, event);
      open.serials[i] = s.serial;
    }
    return true;
  }
  void tell_end(const Open& open) {
    for (size_t i = kMostListeners; i-- > 0;) {
      const Slot& s = slots_[i];
      if (s.serial && s.serial == open.serials[i])
        s.listener->end(s.thread, open.begun[i], open.event);
    }
  }
  void end_last() {
    tell_end(open_.back());
    open_.pop_back();
    leave();
  }
  void leave() {
    if (!open_.empty()) return;
    busy_.store(false);
    if (registry().generation.load() != generation_) {
      busy_.store(true);
      update();
      busy_.store(false);
    }
  }
  // False when nobody listens; the thread is not watched then.
  bool update() {
    Registry& r = registry();
    std::array<std::shared_ptr<StreamListener>, kMostListeners> gone;  // freed after the lock
    {
      const std::lock_guard lock(r.mutex);
      for (size_t i = 0; i < kMostListeners; ++i) {
        const Slot& now = r.listeners[i];
        Slot& mine = slots_[i];
        if (mine.serial == now.serial) continue;
        gone[i] = std::exchange(mine.listener, now.listener);
        mine.serial = now.serial;
        mine.thread = now.serial ? now.listener->enter_thread(number) : nullptr;
      }
      generation_ = r.generation.load();
    }
    if (any_listener(slots_)) return true;
    if (open_.empty()) busy_.store(false);
    set_observer(nullptr);
    set_node_observer(nullptr);
    return false;
  }

  std::vector<Open> open_;
  Slots slots_;
  uint64_t generation_ = 0;
  uint64_t ranges_ = 0;
  std::atomic<bool> busy_{false};
};

// What a thread is known by; given back when it ends.
struct Holder {
  WatchedThread* thread = nullptr;
  ~Holder() {
    if (!thread) return;
    Slots left;  // freed after the lock
    const std::lock_guard lock(registry().mutex);
    left = thread->forget();
  }
};
thread_local Holder t_holder;

WatchedThread& this_thread() {
  if (t_holder.thread) return *t_holder.thread;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  auto at = std::find_if(r.threads.begin(), r.threads.end(),
                         [](const WatchedThread* t) { return !t->used; });
  if (at == r.threads.end()) at = r.threads.insert(at, new WatchedThread);
  t_holder.thread = *at;
  (*at)->used = true;
  (*at)->number = ++r.numbers;
  return **at;
}

// Counts the generation on and takes the slots of sleeping threads away, whose listeners may have
// left; with the mutex held. The threads that run take care of their own.
void changed(Registry& r, std::vector<Slots>& taken) {
  ++r.generation;
  for (WatchedThread* t : r.threads) {
    if (t->used && !t->is_busy()) taken.push_back(t->take_left(r.listeners));
  }
}

}  // namespace

namespace stream {
namespace {

// Passes of deferred ops are shown as ops.
constexpr deferred::PassListener kPasses{
    [](std::string_view name) { return begin_range(name, kStepTag); }, end_range};

}  // namespace

void add_listener(std::shared_ptr<StreamListener> listener) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = std::find_if(r.listeners.begin(), r.listeners.end(),
                               [](const Slot& s) { return s.serial == 0; });
  check(at != r.listeners.end(), ErrorKind::Runtime, "profiler", kMostListeners,
        " listeners at a time are the most");
  at->listener = std::move(listener);
  at->serial = r.next_serial++;
  ++r.generation;
  g_observe_thread = watch_this_thread;
  deferred::g_pass_listener = &kPasses;
  static const ForkLock held{LockRank::Listeners, [] { registry().mutex.lock(); },
                             [] { registry().mutex.unlock(); },
                             [] {
                               // Nobody reads what a child process does, until it listens itself. The
                               // parent's listeners are left alive: other threads' slots have them, too.
                               (void)new Slots(std::exchange(registry().listeners, {}));
                               ++registry().generation;
                               registry().mutex.unlock();
                               set_mode(kObserve, false);
                               set_node_observer(nullptr);
                             }};
  [[maybe_unused]] static const bool registered = (hold_across_forks(held), true);
}

void remove_listener(const StreamListener* listener) {
  Registry& r = registry();
  std::vector<Slots> taken;  // freed after the lock
  {
    const std::lock_guard lock(r.mutex);
    for (Slot& s : r.listeners) {
      if (s.listener.get() != listener) continue;
      taken.emplace_back()[0] = std::exchange(s, {});
      changed(r, taken);
    }
  }
  if (watches_this_thread()) this_thread().tidy();
}

void watch_this_thread() { this_thread().watch(); }
bool watches_this_thread() { return t_modes & kObserve; }

uint64_t begin_range(std::string_view name, uint64_t tag) {
  return t_modes & kObserve ? this_thread().begin_range(name, tag) : 0;
}
void end_range(uint64_t range, bool failed) {
  if (range && t_holder.thread) t_holder.thread->end_range(range, failed);
}

}  // namespace stream
}  // namespace rush
