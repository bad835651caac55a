#include "device/deferred.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <unordered_map>

#include "core/layout.h"
#include "core/modes.h"
#include "core/mutex.h"
#include "device/copy.h"
#include "device/pass_listener.h"

namespace rush::deferred {

constinit std::atomic<const PassListener*> g_pass_listener{nullptr};

namespace {

using Kind = FusedStep::Kind;

// As many steps wait at most: loops without a reader must not keep their inputs for good. Sets of
// groups fit into a word.
constexpr size_t kMostWaiting = 64;

// A form's recipe in the queue of its thread, counted from 1; 0: it has none. Forms are never cut off
// a graph, so that field of theirs is free. (`offset` is not: other threads install storage.)
uint32_t recipe_of(const TensorImpl* form) { return form->cut_at.code; }
void set_recipe(TensorImpl* form, size_t number) { form->cut_at.code = uint32_t(number); }

struct Recipe {
  Kind kind;
  uint8_t params_count;
  uint16_t fn;
  DType compute;
  std::array<Scalar, 4> params;
  std::array<Tensor, 3> operands;
  Tensor out;  // the form
  SourcePoint source;

  int operand_count() const { return kind == Kind::Convert ? 1 : int(kind); }
  ParamSpan params_span() const { return {params.data(), params_count}; }
};

std::string name_of(Kind kind, unsigned fn) {
  const char* camel = kind == Kind::Unary     ? info(UnaryFn(fn)).name
                      : kind == Kind::Binary  ? info(BinaryFn(fn)).name
                      : kind == Kind::Ternary ? info(TernaryFn(fn)).name
                                              : "Convert";
  return op_name_of(camel);
}

void give_memory(const Tensor& form) {
  give_storage(form.impl());
  form.impl()->storage->hide();  // see Note [Watched storages]
}

// One step by itself. All operands have their memory.
void run_alone(const Recipe& r, std::span<const Tensor> operands, const Tensor& out) {
  const PointwiseLoops& loops = pointwise_loops(out);
  switch (r.kind) {
    case Kind::Convert:
      return copy_elements(operands[0], out);
    case Kind::Unary:
      return loops.unary(UnaryFn(r.fn), operands[0], out, r.params_span(), r.compute);
    case Kind::Binary:
      return loops.binary(BinaryFn(r.fn), operands[0], operands[1], out, r.params_span(),
                          r.compute);
    case Kind::Ternary:
      return loops.ternary(TernaryFn(r.fn), operands[0], operands[1], operands[2], out,
                           r.params_span(), r.compute);
  }
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

// A group of steps, by their numbers in the queue.
struct Group {
  std::vector<uint16_t> steps;
  uint64_t after = 0;  // the groups that have to run before it, directly or not
};

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

  bool take(Kind kind, unsigned fn, std::span<const Tensor* const> operands, const Tensor& out,
            ParamSpan params, DType compute);
  void flush(const char* why, const char* by);
  // A signal handler may run ops while the queue is: they see pending results as other threads do.
  bool is_running() const { return running_; }
  uint32_t references_to(const TensorImpl* form) const {
    uint32_t n = 0;
    for (const Recipe& r : waiting_) {
      n += r.out.impl() == form;
      for (const Tensor& operand : r.operands) n += operand.impl() == form;
    }
    return n;
  }
  bool owns(const TensorImpl* form) const {
    const size_t number = recipe_of(form);
    return number > 0 && number <= waiting_.size() && waiting_[number - 1].out.impl() == form;
  }
  // For another thread, under the mutex of all queues: the recipes of `form` and of all that it is
  // computed from, the inputs first. False: it is not in this queue.
  bool copy_recipes(const TensorImpl* form, std::vector<Recipe>& to) const;

  Settings settings;
  Counters counters;
  Report* report = nullptr;

 private:
  struct Plan;
  void run(const Group& group, const Plan& plan, Report::Flush* told);
  bool run_fused(const Group& group, const Plan& plan);
  void run_one_by_one(const Group& group, const Plan& plan);
  const Tensor& known_number(const Tensor& number) const;
  int number_of(const Tensor& t) const {
    return !t.impl()->storage.load() && owns(t.impl()) ? int(recipe_of(t.impl())) - 1 : -1;
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

bool Queue::take(Kind kind, unsigned fn, std::span<const Tensor* const> operands, const Tensor& out,
                 ParamSpan params, DType compute) {
  if (running_) return false;
  for (const Tensor* t : operands) {
    if (!may_be_read_later(*t, out.device())) return false;
  }
  if (waiting_.size() == kMostWaiting) flush("as many steps as may wait were waiting", nullptr);
  Recipe r{kind, uint8_t(params.size()), uint16_t(fn), compute, {}, {}, out, source_here()};
  std::copy(params.begin(), params.end(), r.params.begin());
  for (size_t i = 0; i < operands.size(); ++i) {
    r.operands[i] =
        operands[i]->is_wrapped_number() ? known_number(*operands[i]) : arranged_form(*operands[i]);
    // One that another thread has not computed yet: this thread's queue does not know it.
    if (!r.operands[i].impl()->storage.load() && number_of(r.operands[i]) < 0)
      r.operands[i].storage();
  }
  TensorImpl* form = out.impl();
  set_recipe(form, waiting_.size() + 1);
  form->set(TensorImpl::kContiguous, is_contiguous(form->sizes, form->strides));
  std::lock_guard lock(queues().mutex);
  waiting_.push_back(std::move(r));
  ++counters.steps;
  return true;
}

// ---- running ----

// What is known about each step of a queue while it is run.
struct Queue::Plan {
  std::vector<uint8_t> wanted;  // somebody outside of the queue holds the result
  std::vector<uint8_t> kept;    // it goes to memory
  std::vector<int16_t> group;   // -1: not computed
  std::vector<Group> groups;
  std::vector<uint8_t> order;  // of the groups
};

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.device() == b.device() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

size_t inputs_of(const std::vector<Recipe>& steps, const Group& group, int also = -1) {
  std::vector<const TensorImpl*> seen;
  const auto look = [&](size_t step) {
    for (int i = 0; i < steps[step].operand_count(); ++i) {
      const TensorImpl* t = steps[step].operands[size_t(i)].impl();
      const bool inside = std::ranges::any_of(
          group.steps, [&](uint16_t other) { return steps[other].out.impl() == t; });
      if (!inside && std::ranges::find(seen, t) == seen.end()) seen.push_back(t);
    }
  };
  for (const uint16_t step : group.steps) look(step);
  if (also >= 0) look(size_t(also));
  return seen.size();
}

// See Note [What runs of a queue].
template <class NumberOf>
void make_groups(const std::vector<Recipe>& steps, NumberOf number_of, auto& plan) {
  const size_t n = steps.size();
  plan.wanted.assign(n, 0);
  plan.kept.assign(n, 0);
  plan.group.assign(n, -1);
  std::vector<uint32_t> readers(n, 0), held(n, 1);  // held by the recipes: as a result, by readers
  for (const Recipe& r : steps) {
    for (int i = 0; i < r.operand_count(); ++i) {
      if (const int at = number_of(r.operands[size_t(i)]); at >= 0) ++held[size_t(at)];
    }
  }
  for (size_t s = n; s-- > 0;) {
    plan.wanted[s] = steps[s].out.impl()->use_count() > held[s];
    if (!plan.wanted[s] && readers[s] == 0) continue;
    plan.group[s] = 0;  // live
    for (int i = 0; i < steps[s].operand_count(); ++i) {
      if (const int at = number_of(steps[s].operands[size_t(i)]); at >= 0) ++readers[size_t(at)];
    }
  }
  std::vector<Group>& groups = plan.groups;
  for (size_t s = 0; s < n; ++s) {
    if (plan.group[s] < 0) continue;
    uint64_t needs = 0;  // groups that this step's inputs come from
    for (int i = 0; i < steps[s].operand_count(); ++i) {
      if (const int at = number_of(steps[s].operands[size_t(i)]); at >= 0)
        needs |= uint64_t(1) << plan.group[size_t(at)];
    }
    int joined = -1;
    for (int g = int(groups.size()) - 1; g >= 0 && joined < 0; --g) {
      if (!same_layout(steps[groups[size_t(g)].steps[0]].out, steps[s].out)) continue;
      if (groups[size_t(g)].steps.size() == kFusedSteps) continue;
      bool in_between = false;  // is there a group that needs this one, and that the step needs?
      for (uint64_t left = needs & ~(uint64_t(1) << g); left && !in_between; left &= left - 1)
        in_between = groups[size_t(std::countr_zero(left))].after >> g & 1;
      if (in_between || inputs_of(steps, groups[size_t(g)], int(s)) > kFusedInputs) continue;
      joined = g;
    }
    if (joined < 0) {
      joined = int(groups.size());
      groups.emplace_back();
    }
    uint64_t after = groups[size_t(joined)].after;
    for (uint64_t left = needs & ~(uint64_t(1) << joined); left; left &= left - 1) {
      const int g = std::countr_zero(left);
      after |= uint64_t(1) << g | groups[size_t(g)].after;
    }
    groups[size_t(joined)].after = after;
    for (Group& other : groups) {
      if (other.after >> joined & 1) other.after |= after;
    }
    groups[size_t(joined)].steps.push_back(uint16_t(s));
    plan.group[s] = int16_t(joined);
  }
  for (size_t s = 0; s < n; ++s) {
    if (plan.group[s] < 0) continue;
    plan.kept[s] = plan.kept[s] || plan.wanted[s];
    for (int i = 0; i < steps[s].operand_count(); ++i) {
      const int at = number_of(steps[s].operands[size_t(i)]);
      if (at >= 0 && plan.group[size_t(at)] != plan.group[s]) plan.kept[size_t(at)] = 1;
    }
  }
  // A group comes when all that it needs have come.
  uint64_t done = 0;
  while (plan.order.size() < groups.size()) {
    for (size_t g = 0; g < groups.size(); ++g) {
      if (done >> g & 1 || (groups[g].after & ~done)) continue;
      plan.order.push_back(uint8_t(g));
      done |= uint64_t(1) << g;
    }
  }
}

bool Queue::run_fused(const Group& group, const Plan& plan) {
  const Tensor& first = waiting_[group.steps[0]].out;
  const auto run = fused_loops(first).run;
  if (!run) return false;
  std::vector<Tensor> inputs;
  std::vector<FusedStep> steps;
  std::vector<FusedOutput> outputs;
  std::unordered_map<const TensorImpl*, uint16_t>
      value;  // inputs by number, steps by theirs + kStep
  constexpr uint16_t kStep = 1 << 15;
  for (const uint16_t s : group.steps) {
    const Recipe& r = waiting_[s];
    FusedStep& step = steps.emplace_back();
    step.kind = r.kind;
    step.fn = r.fn;
    step.compute = r.compute;
    step.result = r.out.dtype();
    step.params_count = r.params_count;
    step.params = r.params;
    for (int i = 0; i < r.operand_count(); ++i) {
      const Tensor& t = r.operands[size_t(i)];
      const auto [at, fresh] = value.try_emplace(t.impl(), uint16_t(inputs.size()));
      if (fresh) inputs.push_back(t);
      step.operands[size_t(i)] = at->second;
    }
    value[r.out.impl()] = uint16_t(kStep | (steps.size() - 1));
    if (plan.kept[s]) outputs.push_back({uint16_t(steps.size() - 1), r.out});
  }
  if (inputs.size() > kFusedInputs || outputs.size() > kFusedOutputs) return false;
  for (FusedStep& step : steps) {
    for (uint16_t& operand : step.operands)
      if (operand & kStep) operand = uint16_t(inputs.size() + (operand & ~kStep));
  }
  for (const FusedOutput& o : outputs) give_memory(o.out);
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
    run_alone(r, {operands.data(), size_t(r.operand_count())}, out);
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
      name += name_of(waiting[s].kind, waiting[s].fn);
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
  shown.inputs = inputs_of(waiting_, group);
  shown.fused = fused;
  for (const uint16_t s : group.steps)
    shown.steps.push_back(
        {name_of(waiting_[s].kind, waiting_[s].fn), waiting_[s].source, bool(plan.kept[s])});
}

void Queue::flush(const char* why, const char* by) {
  if (waiting_.empty() || running_) return;
  ++counters.flushes;
  Plan plan;
  make_groups(waiting_, [this](const Tensor& t) { return number_of(t); }, plan);
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
      std::vector<Recipe> gone;  // freed without the lock
      std::lock_guard lock(queues().mutex);
      std::vector<Recipe> left;
      for (size_t s = 0; s < q.waiting_.size(); ++s) {
        const bool computed = plan.group[s] < 0 || done[size_t(plan.group[s])];
        (computed ? gone : left).push_back(std::move(q.waiting_[s]));
      }
      q.waiting_.swap(left);
      for (size_t s = 0; s < q.waiting_.size(); ++s) set_recipe(q.waiting_[s].out.impl(), s + 1);
    }
  } remaining{*this, plan, std::vector<uint8_t>(plan.groups.size(), 0)};
  running_ = true;
  for (size_t s = 0; s < waiting_.size(); ++s) {
    if (plan.group[s] >= 0) continue;
    ++counters.dropped;
    if (told)
      told->dropped.push_back(
          {name_of(waiting_[s].kind, waiting_[s].fn), waiting_[s].source, false});
  }
  for (const uint8_t g : plan.order) {
    run(plan.groups[g], plan, told);
    remaining.done[g] = 1;
  }
}

// ---- other threads ----

bool Queue::copy_recipes(const TensorImpl* form, std::vector<Recipe>& to) const {
  const auto at =
      std::ranges::find_if(waiting_, [&](const Recipe& r) { return r.out.impl() == form; });
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
    run_alone(r, {operands.data(), size_t(r.operand_count())}, out);
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
bool take(Kind kind, unsigned fn, std::span<const Tensor* const> operands, const Tensor& out,
          ParamSpan params, DType compute) {
  return queue().take(kind, fn, operands, out, params, compute);
}
void flush(const char* why, const char* by) { queue().flush(why, by); }
Counters counters() { return queue().counters; }
void report_to(Report* report) { queue().report = report; }
Settings& settings() { return queue().settings; }

}  // namespace rush::deferred
