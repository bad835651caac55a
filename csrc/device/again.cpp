#include "device/again.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "core/fork_locks.h"
#include "core/layout.h"
#include "core/modes.h"
#include "core/mutex.h"
#include "device/origin.h"
#include "device/runtime.h"

namespace rush::deferred {

using AgainRef = std::shared_ptr<Again>;

// Which recipes read a storage, and which one stands for it. A storage that somebody reads lives as
// long as that; one that was a result may be gone, and its address another's, which then has no mark.
struct Registry {
  Mutex mutex{LockRank::MadeAgain};
  std::unordered_map<const Storage*, Again::Readers> readers;
  std::unordered_map<const Storage*, std::weak_ptr<Again>> results;
};

namespace {

Registry& registry() { return shared_across_forks<Registry, LockRank::MadeAgain>(); }

bool runs_in_streams(Device device) { return device_traits(device).asynchronous; }

// A tensor of its own over the same memory.
Tensor own_alias(const Tensor& t) {
  if (t.is_wrapped_number()) return t;
  return make_tensor(Ref<Storage>(t.impl()->storage), t.sizes(), t.strides(), t.offset(),
                     t.dtype());
}

template <class F>
void each_storage(const Recipe& step, F&& f) {
  const auto look = [&](const Tensor& t) {
    if (t.defined() && !t.is_wrapped_number()) f(t.impl()->storage.load());
  };
  for (const Tensor& t : step.operands) look(t);
  if (!step.row) return;
  for (const Tensor& t : step.row->with) look(t);
}

// Sends this thread's work to the stream in which the recipe's inputs were made, and lets the
// stream of before wait for it.
class InStream {
 public:
  InStream(Device device, int64_t id) {
    if (!runs_in_streams(device)) return;
    const DeviceRuntime& runtime = device_runtime(device);
    DeviceStream* current = runtime.current_stream(device);
    if (current->id == id) return;
    before_ = current;
    own_ = runtime.stream_by_id(device, id);
    runtime.set_current_stream(own_);
  }
  ~InStream() {
    if (!before_) return;
    const DeviceRuntime& runtime = device_runtime(before_->place);
    runtime.set_current_stream(before_);
    runtime.wait_for(before_, own_);
  }
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

 private:
  DeviceStream *before_ = nullptr, *own_ = nullptr;
};

}  // namespace

AgainRef Again::of(const Recipe& step) {
  AgainRef made(new Again);
  made->sizes_ = step.out.sizes();
  made->strides_ = step.out.strides();
  made->dtype_ = step.out.dtype();
  made->device_ = step.out.device();
  return made;
}

AgainRef Again::holding(const Tensor& form) {
  AgainRef made(new Again);
  made->form_ = form;
  made->sizes_ = form.sizes();
  made->strides_ = form.strides();
  made->dtype_ = form.dtype();
  made->device_ = form.device();
  return made;
}

Again::~Again() {
  const std::lock_guard lock(registry().mutex);
  forget_reads();
}

// Under the mutex.
void Again::forget_reads() {
  if (!watches_) return;
  watches_ = false;
  g_write_watchers.fetch_sub(1, std::memory_order_relaxed);
  each_storage(step_, [&](const Storage* s) {
    const auto found = registry().readers.find(s);
    if (found == registry().readers.end()) return;
    found->second.erase(this);
    if (found->second.empty()) registry().readers.erase(found);
  });
  for (const AgainRef& f : from_)
    if (f) f->readers_.erase(this);
  const std::weak_ptr<Again> own = weak_from_this();
  const auto is_own = [&](const std::weak_ptr<Again>& w) {  // (lock() might own the last one)
    return !w.owner_before(own) && !own.owner_before(w);
  };
  if (const auto found = registry().results.find(result_);
      found != registry().results.end() && is_own(found->second))
    registry().results.erase(found);
}

Tensor Again::form() const {
  const std::lock_guard lock(registry().mutex);
  return form_;
}

Tensor Again::fresh_form() const {
  const Tensor form = make_pending(sizes_, strides_, dtype_, device_);
  form.impl()->set(TensorImpl::kContiguous, is_contiguous(sizes_, strides_));
  return form;
}

void Again::remember(const Recipe& step, std::array<AgainRef, 3> from, Storage* made) {
  Recipe own = step;
  own.out = {};
  own.again = {};
  for (size_t i = 0; i < own.operands.size(); ++i) {
    if (from[i])
      own.operands[i] = {};
    else if (own.operands[i].defined())
      own.operands[i] = own_alias(own.operands[i]);
  }
  if (own.row) {
    RowStep row = *own.row;
    for (Tensor& t : row.with)
      if (t.defined()) t = own_alias(t);
    own.row = std::make_shared<const RowStep>(std::move(row));
  }
  for (const AgainRef& f : from)
    if (f) steps_ += f->steps_;
  if (runs_in_streams(device_)) stream_ = device_runtime(device_).current_stream(device_)->id;
  Tensor doomed;
  const std::lock_guard lock(registry().mutex);
  doomed = std::move(form_);
  form_ = {};
  step_ = std::move(own);
  from_ = std::move(from);
  watches_ = true;
  g_write_watchers.fetch_add(1, std::memory_order_relaxed);
  each_storage(step_, [&](Storage* s) {
    s->mark(Storage::kKept);
    registry().readers[s].emplace(this, weak_from_this());
  });
  for (const AgainRef& f : from_)
    if (f) f->readers_.emplace(this, weak_from_this());
  if (!made) return;
  made->mark(Storage::kRemade);
  result_ = made;
  registry().results[made] = weak_from_this();
}

bool Again::look(Recipe& step, std::array<AgainRef, 3>& from) const {
  const std::lock_guard lock(registry().mutex);
  if (form_.defined()) return false;
  step = step_;
  from = from_;
  return true;
}

Tensor Again::compute() {
  Recipe step{};
  std::array<AgainRef, 3> from;
  if (!look(step, from)) {
    const Tensor held = form();
    held.storage();
    return held;
  }
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i]) step.operands[i] = from[i]->compute();
  const Tensor out = make_tensor(sizes_, strides_, dtype_, device_);
  run_alone(step, {step.operands.data(), size_t(step.operand_count())}, out, {});
  out.storage()->hide();
  return out;
}

void Again::settle_as(Tensor form) {
  Recipe doomed{};
  std::array<AgainRef, 3> let_go;
  const std::lock_guard lock(registry().mutex);
  if (form_.defined()) return;
  forget_reads();
  std::swap(doomed, step_);
  std::swap(let_go, from_);
  form_ = std::move(form);
  was_settled_ = true;
}

void Again::settle() {
  const ModeGuard at_once(kDefer, false);
  const InStream scope(device_, stream_);
  if (has_recipe()) settle_as(compute());
}

// Those that are computed from it, before what it holds changes.
void Again::settle_readers() {
  std::vector<AgainRef> all;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [address, weak] : readers_)
      if (AgainRef reader = weak.lock()) all.push_back(std::move(reader));
  }
  for (const AgainRef& reader : all) reader->settle();
}

void Again::drop_save() {
  if (saves_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Tensor doomed;
  const std::lock_guard lock(registry().mutex);
  std::swap(doomed, made_);
}

Tensor Again::made_by(const Queue* queue) const {
  const std::lock_guard lock(registry().mutex);
  return made_by_ == queue ? made_ : Tensor();
}

void Again::share(const Queue* queue, const Tensor& form) {
  Tensor doomed;
  const std::lock_guard lock(registry().mutex);
  doomed = std::exchange(made_, form);
  made_by_ = queue;
}

Tensor Again::compute_elsewhere() {
  if (!runs_in_streams(device_)) return {};
  const DeviceRuntime& runtime = device_runtime(device_);
  DeviceStream* current = runtime.current_stream(device_);
  if (current->id == stream_ || (form().defined() && !was_settled_)) return {};
  Tensor made;
  {
    const InStream scope(device_, stream_);
    made = compute();
  }
  runtime.record_stream(*made.impl()->storage.load(), current);
  return made;
}

AgainRef again_of(const Storage* storage) {
  if (!storage || !storage->has(Storage::kRemade)) return nullptr;
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().results.find(storage);
  return found == registry().results.end() ? nullptr : found->second.lock();
}

// Before the memory is written to; null: all memory.
void settle(const Storage* storage) {
  forget_origins(storage);
  std::vector<AgainRef> reading;
  {
    const std::lock_guard lock(registry().mutex);
    const auto take = [&](const Again::Readers& all) {
      for (const auto& [address, weak] : all)
        if (AgainRef reader = weak.lock()) reading.push_back(std::move(reader));
    };
    if (const auto found = registry().readers.find(storage); found != registry().readers.end())
      take(found->second);
    for (auto it = registry().readers.begin(); !storage && it != registry().readers.end(); ++it)
      take(it->second);
    // And those that are computed from them; what reads several is there more than once.
    for (size_t i = 0; !storage && i < reading.size(); ++i) take(reading[i]->readers_);
  }
  if (reading.empty() && !(storage && storage->has(Storage::kRemade))) return;
  const auto is_recorded = [](Device device) {  // what is recorded is not done now
    return runs_in_streams(device) && device_runtime(device).is_capturing(device);
  };
  for (const AgainRef& reader : reading) {
    if (is_recorded(reader->device_)) continue;
    if (!storage && reader->saves() == 0) continue;  // it goes with those that need it
    reader->settle();
  }
  const AgainRef own = again_of(storage);
  if (!own || !own->has_recipe() || is_recorded(own->device_)) return;
  own->settle_readers();
  own->settle_as(make_tensor(Ref<Storage>::share(const_cast<Storage*>(storage)), own->sizes_,
                             own->strides_, 0, own->dtype_));
}

namespace {

const bool registered = [] {
  g_before_write = settle;
  return true;
}();

}  // namespace
}  // namespace rush::deferred
