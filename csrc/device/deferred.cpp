#include "device/deferred.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <unordered_map>

#include "core/layout.h"
#include "core/modes.h"
#include "core/mutex.h"
#include "device/copy.h"
#include "device/deferred_plan.h"
#include "device/pass_listener.h"

namespace rush::deferred {

constinit std::atomic<const PassListener*> g_pass_listener{nullptr};

namespace {

using Kind = FusedStep::Kind;

// A form's recipe in the queue of its thread, counted from 1; 0: it has none. Forms are never cut off
// a graph, so that field of theirs is free. (`offset` is not: other threads install storage.)
uint32_t recipe_of(const TensorImpl* form) { return form->cut_at.code; }
void set_recipe(TensorImpl* form, size_t number) { form->cut_at.code = uint32_t(number); }

void give_memory(const Tensor& form) {
  give_storage(form.impl());
  form.impl()->storage->hide();  // see Note [Watched storages]
}

void give_memory_beside(const Recipe& r) {
  if (!r.row) return;
  for (const Tensor& t : r.row->beside)
    if (t.defined()) give_memory(t);
}

class Queue;

// All queues, for threads that meet a pending result of another one.
struct Queues {
  Mutex mutex{LockRank::PendingResults};
  std::vector<Queue*> all;
};
// Threads may end after static objects are gone, so it is never freed.
constinit std::atomic<Queues*> g_queues{nullptr};
Queues& queues() {
  static const bool made = (g_queues.store(new Queues), true);
  (void)made;
  return *g_queues.load(std::memory_order_relaxed);
}

class Queue {
 public:
  Queue() {
    std::lock_guard lock(queues().mutex);
    queues().all.push_back(this);
  }
  ~Queue() {
    std::lock_guard lock(queues().mutex);
    std::erase(queues().all, this);
  }

  bool queue_step(Kind kind, unsigned fn, std::span<const Tensor* const> operands,
                  const Tensor& out, ParamSpan params, DType compute);
  bool take_rows(RowStep row, std::span<const Tensor* const> operands, const Tensor& out);
  void flush(const char* why, const char* by);
  // A signal handler may run ops while the queue is: they see pending results as other threads do.
  bool is_running() const { return running_; }
  uint32_t references_to(const TensorImpl* form) const {
    uint32_t n = 0;
    for (const Recipe& r : waiting_) {
      n += r.gives(form);
      for (const Tensor& operand : r.operands) n += operand.impl() == form;
    }
    return n;
  }
  bool owns(const TensorImpl* form) const {
    const size_t number = recipe_of(form);
    return number > 0 && number <= waiting_.size() && waiting_[number - 1].gives(form);
  }
  // For another thread, under the mutex of all queues: the recipes of `form` and of all that it is
  // computed from, the inputs first. False: it is not in this queue.
  bool copy_recipes(const TensorImpl* form, std::vector<Recipe>& to) const;

  Settings settings;
  Counters counters;
  Report* report = nullptr;

 private:
  void add(Recipe r, std::span<const Tensor* const> operands);
  void number(size_t recipe) const;
  void run(const Group& group, const Plan& plan, Report::Flush* told);
  bool run_fused(const Group& group, const Plan& plan);
  void run_one_by_one(const Group& group, const Plan& plan);
  const Tensor& known_number(const Tensor& number) const;
  // Of the step whose result t is. Those beside a result do not count: nobody reads them late.
  int number_of(const Tensor& t) const {
    if (t.impl()->storage.load() || !owns(t.impl())) return -1;
    const int number = int(recipe_of(t.impl())) - 1;
    return waiting_[size_t(number)].out.is_same(t) ? number : -1;
  }

  std::vector<Recipe> waiting_;  // changed under the mutex of all queues
  bool running_ = false;
};

pthread_key_t queue_key() {
  static const pthread_key_t key = [] {  // thread-local memory of the linker's is scarce
    pthread_key_t made;
    pthread_key_create(&made, [](void* q) { delete static_cast<Queue*>(q); });
    // A child process has the thread that forked, whoever of the others held the mutex.
    pthread_atfork(nullptr, nullptr, [] {
      auto* fresh = new Queues;
      if (auto* own = static_cast<Queue*>(pthread_getspecific(queue_key())))
        fresh->all.push_back(own);
      g_queues.store(fresh);
    });
    return made;
  }();
  return key;
}

Queue& queue() {
  auto* known = static_cast<Queue*>(pthread_getspecific(queue_key()));
  if (!known) pthread_setspecific(queue_key(), known = new Queue);
  return *known;
}

// ---- taking ----

bool may_be_read_later(const Tensor& t, Device device) {
  const Storage* s = t.impl()->storage.load();
  if (!s) return true;  // pending, or arranged by this thread's own work
  return !s->may_change_unseen() && (t.device() == device || t.numel() == 1);
}

// Python's 2 in `x * 2` is a new tensor each time; one serves for all that are equal.
const Tensor& Queue::known_number(const Tensor& number) const {
  for (const Recipe& r : waiting_) {
    for (int i = 0; i < r.operand_count(); ++i) {
      const Tensor& other = r.operands[size_t(i)];
      if (other.is_wrapped_number() && other.dtype() == number.dtype() &&
          std::memcmp(other.data(), number.data(), size_t(number.element_size())) == 0)
        return other;
    }
  }
  return number;
}

bool Queue::queue_step(Kind kind, unsigned fn, std::span<const Tensor* const> operands,
                       const Tensor& out, ParamSpan params, DType compute) {
  if (running_) return false;
  for (const Tensor* t : operands) {
    if (!may_be_read_later(*t, out.device())) return false;
  }
  Recipe r{kind, uint8_t(params.size()), uint16_t(fn), compute, {}, {}, out, source_here()};
  std::copy(params.begin(), params.end(), r.params.begin());
  add(std::move(r), operands);
  return true;
}

// Strides of dims of size 1 may be anything.
bool lie_alike(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() &&
         (a.strides() == b.strides() ||
          (is_contiguous(a.sizes(), a.strides()) && is_contiguous(b.sizes(), b.strides())));
}

// Rows that are longer do not stay in a cache while they are worked on.
constexpr int64_t kLongestRow = 16384;

bool Queue::take_rows(RowStep row, std::span<const Tensor* const> operands, const Tensor& out) {
  if (running_ || row.width > kLongestRow || !fused_loops(out).takes_rows ||
      !fused_loops(out).takes_rows(row, out.dtype()))
    return false;
  for (const Tensor* t : operands) {
    if (!may_be_read_later(*t, out.device()) || t->dtype() != out.dtype() || !lie_alike(*t, out))
      return false;
  }
  for (const Tensor& t : row.with) {
    if (!t.defined()) continue;
    t.storage();
    if (!may_be_read_later(t, out.device())) return false;
  }
  for (const Tensor& t : row.beside) {
    if (t.defined() && t.impl()->storage.load()) t.impl()->storage = {};
  }
  Recipe r{Kind::Rows, 0, uint16_t(row.fn), out.dtype(), {}, {}, out, source_here()};
  r.row = std::make_shared<const RowStep>(std::move(row));
  add(std::move(r), operands);
  return true;
}

void Queue::add(Recipe r, std::span<const Tensor* const> operands) {
  if (waiting_.size() == kMostWaiting) flush("as many steps as may wait were waiting", nullptr);
  for (size_t i = 0; i < operands.size(); ++i) {
    r.operands[i] =
        operands[i]->is_wrapped_number() ? known_number(*operands[i]) : arranged_form(*operands[i]);
    // One that another thread has not computed yet: this thread's queue does not know it.
    if (!r.operands[i].impl()->storage.load() && number_of(r.operands[i]) < 0)
      r.operands[i].storage();
  }
  TensorImpl* form = r.out.impl();
  form->set(TensorImpl::kContiguous, is_contiguous(form->sizes, form->strides));
  std::lock_guard lock(queues().mutex);
  if (waiting_.empty()) waiting_.reserve(16);
  waiting_.push_back(std::move(r));
  number(waiting_.size());
  ++counters.steps;
}

// Tells the forms which recipe is theirs.
void Queue::number(size_t recipe) const {
  const Recipe& r = waiting_[recipe - 1];
  set_recipe(r.out.impl(), recipe);
  for (size_t i = 0; r.row && i < r.row->beside.size(); ++i)
    if (r.row->beside[i].defined()) set_recipe(r.row->beside[i].impl(), recipe);
}

// ---- running ----

bool Queue::run_fused(const Group& group, const Plan& plan) {
  const Tensor& first = waiting_[group.steps[0]].out;
  const auto run = fused_loops(first).run;
  if (!run) return false;
  // Inputs as the group has them, then the steps.
  const size_t inputs_count = group.inputs.size(), own = size_t(plan.group[group.steps[0]]);
  std::vector<Tensor> inputs(inputs_count);
  std::vector<FusedStep> steps(group.steps.size());
  std::vector<FusedOutput> outputs;
  const Recipe* row = nullptr;
  for (size_t k = 0; k < steps.size(); ++k) {
    const uint16_t s = group.steps[k];
    const Recipe& r = waiting_[s];
    FusedStep& step = steps[k];
    step.kind = r.kind;
    step.fn = r.fn;
    step.compute = r.compute;
    step.result = r.out.dtype();
    step.params_count = r.params_count;
    step.params = r.params;
    step.row = r.row.get();
    for (int i = 0; i < r.operand_count(); ++i) {
      const Tensor& t = r.operands[size_t(i)];
      const int maker = plan.maker(s, i);
      if (maker >= 0 && size_t(plan.group[size_t(maker)]) == own) {
        step.operands[size_t(i)] = uint16_t(inputs_count + plan.place[size_t(maker)]);
        continue;
      }
      const auto at = size_t(std::ranges::find(group.inputs, t.impl()) - group.inputs.begin());
      inputs[at] = t;
      step.operands[size_t(i)] = uint16_t(at);
    }
    if (plan.kept[s]) outputs.push_back({uint16_t(k), r.out});
    row = r.row ? &r : row;
  }
  if (outputs.empty() &&
      row) {  // only what is beside it is wanted: somebody has to say how it lies
    const auto at = std::ranges::find_if(steps, [](const FusedStep& step) { return step.row; });
    outputs.push_back({uint16_t(at - steps.begin()), row->out});
  }
  if (inputs.size() > kFusedInputs || outputs.size() > kFusedOutputs) return false;
  for (const FusedOutput& o : outputs) give_memory(o.out);
  if (row) give_memory_beside(*row);
  return run({first.sizes(), inputs, steps, outputs, settings.wait_for_code});
}

void Queue::run_one_by_one(const Group& group, const Plan& plan) {
  // Values that are not kept live until their last reader within the group has run.
  std::unordered_map<const TensorImpl*, Tensor> passing;
  std::unordered_map<const TensorImpl*, uint16_t> last_reader;
  for (const uint16_t s : group.steps) {
    for (int i = 0; i < waiting_[s].operand_count(); ++i)
      last_reader[waiting_[s].operands[size_t(i)].impl()] = s;
  }
  for (const uint16_t s : group.steps) {
    const Recipe& r = waiting_[s];
    std::array<Tensor, 3> operands;
    for (int i = 0; i < r.operand_count(); ++i) {
      const Tensor& t = r.operands[size_t(i)];
      const auto found = passing.find(t.impl());
      operands[size_t(i)] = found == passing.end() ? t : found->second;
    }
    Tensor out = r.out;
    if (plan.kept[s])
      give_memory(out);
    else
      out = make_tensor(out.sizes(), out.strides(), out.dtype(), out.device());
    give_memory_beside(r);
    run_alone(r, {operands.data(), size_t(r.operand_count())}, out,
              r.row ? std::span<const Tensor>(r.row->beside) : std::span<const Tensor>());
    if (!plan.kept[s]) passing[r.out.impl()] = out;
    for (int i = 0; i < r.operand_count(); ++i) {
      const TensorImpl* t = r.operands[size_t(i)].impl();
      if (last_reader[t] == s) passing.erase(t);
    }
  }
}

// Tells who observes this thread of one pass.
class SeenPass {
 public:
  SeenPass(const std::vector<Recipe>& waiting, const Group& group) {
    listener_ = t_modes & kObserve ? g_pass_listener.load(std::memory_order_acquire) : nullptr;
    if (!listener_) return;
    std::string name = group.steps.size() > 1 ? "fused(" : "deferred(";
    for (const uint16_t s : group.steps) {
      if (name.back() != '(') name += ", ";
      name += name_of(waiting[s]);
    }
    number_ = listener_->begin(name + ")");
  }
  SeenPass(const SeenPass&) = delete;
  SeenPass& operator=(const SeenPass&) = delete;
  ~SeenPass() {
    if (listener_) listener_->end(number_, std::uncaught_exceptions() > before_);
  }

 private:
  const PassListener* listener_;
  uint64_t number_ = 0;
  const int before_ = std::uncaught_exceptions();
};

void Queue::run(const Group& group, const Plan& plan, Report::Flush* told) {
  const SeenPass seen(waiting_, group);
  const bool several = group.steps.size() > 1;
  const bool fused = several && run_fused(group, plan);
  if (!fused) run_one_by_one(group, plan);
  counters.passes += fused;
  (fused ? counters.fused : counters.unfused) += int64_t(group.steps.size());
  if (!told) return;
  Report::Group& shown = told->groups.emplace_back();
  shown.sizes = waiting_[group.steps[0]].out.sizes();
  shown.inputs = group.inputs.size();
  shown.fused = fused;
  for (const uint16_t s : group.steps)
    shown.steps.push_back({name_of(waiting_[s]), waiting_[s].source, bool(plan.kept[s])});
}

void Queue::flush(const char* why, const char* by) {
  if (waiting_.empty() || running_) return;
  ++counters.flushes;
  Plan plan;
  plan.made_by.assign(3 * waiting_.size(), -1);
  for (size_t s = 0; s < waiting_.size(); ++s) {
    for (int i = 0; i < waiting_[s].operand_count(); ++i)
      plan.made_by[3 * s + size_t(i)] = int16_t(number_of(waiting_[s].operands[size_t(i)]));
  }
  make_groups(waiting_, plan);
  Report::Flush* told = nullptr;
  if (report) {
    told = &report->flushes.emplace_back();
    told->why = by ? std::string(by) + why : why;
    told->source = source_here();
  }
  // What fails (no memory, Ctrl-C) leaves the rest waiting, and it is tried again when asked for.
  struct Remaining {
    Queue& q;
    Plan& plan;
    std::vector<uint8_t> done;
    ~Remaining() {
      q.running_ = false;
      std::vector<Recipe> gone, left;  // freed without the lock
      std::lock_guard lock(queues().mutex);
      if (std::ranges::count(done, 0) == 0) {
        q.waiting_.swap(gone);
        return;
      }
      for (size_t s = 0; s < q.waiting_.size(); ++s) {
        const bool computed = plan.group[s] < 0 || done[size_t(plan.group[s])];
        (computed ? gone : left).push_back(std::move(q.waiting_[s]));
      }
      q.waiting_.swap(left);
      for (size_t s = 0; s < q.waiting_.size(); ++s) q.number(s + 1);
    }
  } remaining{*this, plan, std::vector<uint8_t>(plan.groups.size(), 0)};
  running_ = true;
  for (size_t s = 0; s < waiting_.size(); ++s) {
    if (plan.group[s] >= 0) continue;
    ++counters.dropped;
    if (told) told->dropped.push_back({name_of(waiting_[s]), waiting_[s].source, false});
  }
  for (const uint8_t g : plan.order) {
    run(plan.groups[g], plan, told);
    remaining.done[g] = 1;
  }
}

// ---- other threads ----

bool Queue::copy_recipes(const TensorImpl* form, std::vector<Recipe>& to) const {
  const auto at = std::ranges::find_if(waiting_, [&](const Recipe& r) { return r.gives(form); });
  if (at == waiting_.end()) return false;
  // Recipes read earlier ones only.
  std::vector<uint8_t> needed(waiting_.size(), 0);
  needed[size_t(at - waiting_.begin())] = 1;
  for (size_t s = waiting_.size(); s-- > 0;) {
    if (!needed[s]) continue;
    for (int i = 0; i < waiting_[s].operand_count(); ++i) {
      const TensorImpl* t = waiting_[s].operands[size_t(i)].impl();
      for (size_t other = 0; other < s; ++other)
        if (waiting_[other].out.impl() == t) needed[other] = 1;
    }
  }
  for (size_t s = 0; s < waiting_.size(); ++s)
    if (needed[s]) to.push_back(waiting_[s]);
  return true;
}

// See Note [Pending results and threads].
void compute_for_another(TensorImpl* form) {
  std::vector<Recipe> recipes;
  {
    std::lock_guard lock(queues().mutex);
    for (const Queue* q : queues().all)
      if (q->copy_recipes(form, recipes)) break;
  }
  std::unordered_map<const TensorImpl*, Tensor> values;
  for (const Recipe& r : recipes) {
    std::array<Tensor, 3> operands;
    for (int i = 0; i < r.operand_count(); ++i) {
      const auto found = values.find(r.operands[size_t(i)].impl());
      operands[size_t(i)] = found == values.end() ? r.operands[size_t(i)] : found->second;
    }
    const Tensor out = make_tensor(r.out.sizes(), r.out.strides(), r.out.dtype(), r.out.device());
    std::array<Tensor, 2> beside;
    for (size_t i = 0; r.row && i < beside.size(); ++i) {
      const Tensor& t = r.row->beside[i];
      if (!t.defined()) continue;
      values[t.impl()] = beside[i] = make_tensor(t.sizes(), t.strides(), t.dtype(), t.device());
    }
    run_alone(r, {operands.data(), size_t(r.operand_count())}, out, beside);
    values[r.out.impl()] = out;
  }
  if (const auto own = values.find(form); own != values.end()) {
    own->second.storage()->hide();
    form->storage.install(Ref<Storage>(own->second.storage()));
  }
  // Not found: its owner has just computed it, or was not copied by a fork.
  check(form->storage.load() != nullptr, ErrorKind::Runtime, "compile",
        "a result was still to be computed by another thread when this process was forked");
}

const bool registered = [] {
  g_compute_pending = [](TensorImpl* form) {
    if (recipe_of(form) == 0) return give_storage(form);
    Queue& own = queue();
    if (own.owns(form) && !own.is_running())
      own.flush("values were asked for", nullptr);
    else
      compute_for_another(form);
  };
  g_flush_pending = [](const char* why) { queue().flush(why, nullptr); };
  g_references_to_pending = [](const TensorImpl* form) { return queue().references_to(form); };
  return true;
}();

}  // namespace

bool pays(const Dims& sizes, Device device) {
  constexpr int64_t kMost = int64_t(1)
                            << 40;  // what cannot be allocated fails where it is asked for
  int64_t n = 1;
  for (const int64_t size : sizes) {
    if (size == 0 || size > kMost / n) return false;
    n *= size;
  }
  return !device.is_meta() &&
         (device_traits(device).asynchronous || n >= queue().settings.least_elements);
}
bool queue_step(Kind kind, unsigned fn, std::span<const Tensor* const> operands, const Tensor& out,
                ParamSpan params, DType compute) {
  return queue().queue_step(kind, fn, operands, out, params, compute);
}
bool take_rows(RowStep row, std::span<const Tensor* const> operands, const Tensor& out) {
  return queue().take_rows(std::move(row), operands, out);
}
void flush(const char* why, const char* by) { queue().flush(why, by); }
Counters counters() { return queue().counters; }
void report_to(Report* report) { queue().report = report; }
Settings& settings() { return queue().settings; }

}  // namespace rush::deferred
