// What runs of a queue: see Note [What runs of a queue] and Note [What waits longer].
#include <algorithm>
#include <bit>
#include <exception>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "core/modes.h"
#include "device/deferred_queue.h"
#include "device/lists.h"
#include "device/pass_listener.h"
#include "device/runtime.h"

namespace rush::deferred {

namespace {

void give_memory(const Tensor& form) {
  give_storage(form.impl());
  form.impl()->storage->hide();  // see Note [Watched storages]
}

void give_memory_beside(const Recipe& r) {
  // Sums over rows may wait on: the device takes them, or gives them memory.
  if (!r.row || (r.row->fn == RowOp::NormBackward && list_loops(r.out).column_sums)) return;
  for (const Tensor& t : r.row->beside)
    if (t.defined()) give_memory(t);
}

// Tells who observes this thread of one pass.
class SeenPass {
 public:
  explicit SeenPass(std::span<const Recipe* const> steps) {
    listener_ = t_modes & kObserve ? g_pass_listener.load(std::memory_order_acquire) : nullptr;
    if (!listener_) return;
    std::string name = steps.size() > 1 ? "fused(" : "deferred(";
    for (const Recipe* r : steps) {
      if (name.back() != '(') name += ", ";
      name += name_of(*r);
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

bool moves_channels(const Recipe& cast) {
  const Tensor& from = cast.operands[0];
  return !lie_alike(from, cast.out) && list_loops(cast.out).moves_channels &&
         list_loops(cast.out).moves_channels(from, cast.out);
}

// Is it a conversion that one launch can do together with others? See Note [What waits longer].
bool is_cast_of_memory(const Recipe& r) {
  if (r.kind != FusedStep::Kind::Convert || r.product) return false;
  const Tensor& from = r.operands[0];
  return is_floating(from.dtype()) && is_floating(r.out.dtype()) && from.dtype() != r.out.dtype() &&
         from.device() == r.out.device() && device_traits(r.out.device()).asynchronous &&
         list_loops(r.out).copy && from.impl()->storage.load() &&
         (moves_channels(r) ||
          (lie_alike(from, r.out) && is_dense(r.out.sizes(), r.out.strides())));
}

// Steps of complex32 go one by one: in a pass, what is NaN has another sign now and then.
bool is_computed_apart(const Recipe& r) {
  if (r.out.dtype() == DType::Complex32) return true;
  for (int i = 0; i < r.operand_count(); ++i)
    if (r.operands[size_t(i)].dtype() == DType::Complex32) return true;
  return false;
}

bool is_wider(const Recipe& cast) {
  return cast.out.element_size() > cast.operands[0].element_size();
}

}  // namespace

// ---- running ----

bool Queue::run_fused(const Group& group, const Plan& plan) {
  const Tensor& shaped = waiting_[group.last()].out;
  const auto run = fused_loops(shaped).run;
  if (!run) return false;
  // Inputs as the group has them, then the steps.
  const size_t inputs_count = group.inputs.size(), own = size_t(plan.group[group.steps[0]]);
  SmallVector<Tensor, 8> inputs(inputs_count);
  std::vector<FusedStep> steps(group.steps.size());
  SmallVector<FusedOutput, 2> outputs;
  const Recipe* row = nullptr;
  FusedJoin join;
  for (size_t k = 0; k < steps.size(); ++k) {
    const uint16_t s = group.steps[k];
    const Recipe& r = waiting_[s];
    FusedStep& step = steps[k];
    step.kind = r.kind;
    step.fn = r.fn;
    step.compute = r.compute;
    step.result = r.out.dtype();
    if (is_computed_apart(r)) return false;
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
      const GroupInput input = plan.input_of(r, s, i);
      const auto at = size_t(std::ranges::find(group.inputs, input) - group.inputs.begin());
      inputs[at] = t;
      join.part[at] = input.part;
      step.operands[size_t(i)] = uint16_t(at);
    }
    if (plan.kept[s]) outputs.push_back({uint16_t(k), r.out});
    row = r.row ? &r : row;
    if (r.kind == FusedStep::Kind::Join)
      join.dim = r.dim, join.second = r.operands[0].sizes()[size_t(r.dim)];
  }
  if (outputs.empty() && row && row->row->has_result()) {
    // Only what is beside it is wanted: somebody has to say how it lies.
    const auto at = std::ranges::find_if(steps, [](const FusedStep& step) { return step.row; });
    outputs.push_back({uint16_t(at - steps.begin()), row->out});
  }
  if (inputs.size() > kFusedInputs || outputs.size() > kFusedOutputs) return false;
  for (const FusedOutput& o : outputs) give_memory(o.out);
  if (row) give_memory_beside(*row);
  const KnownInput* known = row ? plan.known_of(size_t(row - waiting_.data()), group) : nullptr;
  const std::optional<FusedNormal> normal =
      known ? put_known(*known, plan, row->operands[1], steps, inputs, outputs) : std::nullopt;
  return run({shaped.sizes(), inputs, steps, outputs, settings.wait_for_code,
              group.has_join ? &join : nullptr, normal ? &*normal : nullptr,
              row && !row->row->has_result() ? &row->out : nullptr});
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
    else if (!r.row || r.row->has_result())
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

void Queue::run(const Group& group, const Plan& plan, Report::Flush* told) {
  std::vector<const Recipe*> steps;
  if (t_modes & kObserve)
    for (const uint16_t s : group.steps) steps.push_back(&waiting_[s]);
  const SeenPass seen(steps);
  const bool several = group.steps.size() > 1;
  const bool fused = several && run_fused(group, plan);
  if (!fused) run_one_by_one(group, plan);
  counters.passes += fused;
  (fused ? counters.fused : counters.unfused) += int64_t(group.steps.size());
  if (!told) return;
  Report::Group& shown = told->groups.emplace_back();
  shown.sizes = waiting_[group.last()].out.sizes();
  shown.inputs = group.inputs.size();
  shown.fused = fused;
  for (const uint16_t s : group.steps)
    shown.steps.push_back({name_of(waiting_[s]), waiting_[s].source, bool(plan.kept[s])});
}

// Takes them out of the queue; not those that would share a pass with others, or that nobody holds.
void Queue::set_casts_apart(const TensorImpl* asked) {
  if (std::ranges::none_of(waiting_, is_cast_of_memory)) return;
  const auto is_apart = [&](size_t s) {
    const Recipe& cast = waiting_[s];
    if (!is_cast_of_memory(cast) || cast.out.impl()->use_count() == 1) return false;
    if (cast.out.impl() == asked && is_wider(cast)) return false;  // the others wait on
    return std::ranges::none_of(waiting_, [&](const Recipe& r) {
      if (r.out.sizes() == cast.out.sizes() && !is_cast_of_memory(r)) return true;
      return std::ranges::any_of(r.operands, [&](const Tensor& t) { return t.is_same(cast.out); });
    });
  };
  std::vector<uint8_t> apart(waiting_.size());
  for (size_t s = 0; s < waiting_.size(); ++s) apart[s] = is_apart(s);
  if (std::ranges::count(apart, 1) == 0) return;
  std::vector<Recipe> left;
  std::lock_guard lock(queues().mutex);
  for (size_t s = 0; s < waiting_.size(); ++s) {
    if (!apart[s]) {
      left.push_back(std::move(waiting_[s]));
      continue;
    }
    late_.push_back(std::move(waiting_[s]));
    set_recipe(late_.back().out.impl(), kMostWaiting + late_.size());
  }
  waiting_.swap(left);
  for (size_t s = 0; s < waiting_.size(); ++s) number(s + 1);
}

// Casts from one type to one other, all with their channels moved or none; or sums.
void Queue::run_list(std::span<const Recipe* const> alike, Report::Flush* told) {
  const SeenPass seen(alike);
  std::vector<Tensor> from, to;
  std::vector<ColumnSums> sums;
  for (const Recipe* r : alike) {
    if (r->sums)
      sums.push_back(*r->sums);
    else
      from.push_back(r->operands[0]);
    to.push_back(make_tensor(r->out.sizes(), r->out.strides(), r->out.dtype(), r->out.device()));
  }
  const bool several = alike.size() > 1;
  if (!sums.empty())
    list_loops(to[0]).column_sums(sums, to);
  else if (moves_channels(*alike[0]))
    list_loops(to[0]).move_channels(from, to);
  else if (several)
    list_loops(to[0]).copy(from, to);
  else
    run_alone(*alike[0], from, to[0], {});
  for (size_t i = 0; i < alike.size(); ++i) {
    to[i].storage()->hide();  // see Note [Watched storages]
    alike[i]->out.impl()->storage.install(Ref<Storage>(to[i].storage()));
  }
  counters.passes += several;
  (several ? counters.fused : counters.unfused) += int64_t(alike.size());
  if (!told) return;
  Report::Group& shown = told->groups.emplace_back();
  shown.sizes = several ? Dims{-1} : to[0].sizes();
  shown.inputs = alike.size();
  shown.fused = several;
  for (const Recipe* r : alike) shown.steps.push_back({name_of(*r), r->source, true});
}

// Sums hold what their blocks have found, which is more than their results.
bool Queue::holds_too_much() const {
  constexpr int64_t kMostBytes = int64_t(64) << 20;
  size_t casts = 0, sums = 0;
  int64_t bytes = 0;
  for (const Recipe& r : late_) {
    if (!r.sums) {
      ++casts;
    } else if (r.out.impl()->use_count() > 1) {  // else nobody wants it any more
      ++sums;
      bytes += r.sums->segments * r.out.numel() * r.sums->from.element_size();
    }
  }
  return casts >= kMostWaiting || sums >= kMostLateSums || bytes > kMostBytes;
}

// Which of those that wait longer have to run with a flush.
std::vector<const Recipe*> Queue::late_for(const TensorImpl* asked) const {
  bool all = !asked || holds_too_much();
  if (asked && is_late(asked)) {
    const Recipe& own = late_[recipe_of(asked) - kMostWaiting - 1];
    if (own.sums && &own == &late_.back()) return {&own};
    all = all || own.sums || is_wider(own);
  }
  std::vector<const Recipe*> wanted;
  for (const Recipe& r : late_) {
    if (r.sums && r.out.impl()->use_count() == 1) continue;  // nobody holds it
    if (all || (!r.sums && !is_wider(r))) wanted.push_back(&r);
  }
  return wanted;
}

// Of what waits longer: what is computed, and what nobody holds.
void Queue::let_go_unwanted() {
  std::vector<Recipe> gone, left;  // freed without the lock
  std::lock_guard lock(queues().mutex);
  for (Recipe& r : late_) {
    const bool is_over = r.out.impl()->storage.load() || r.out.impl()->use_count() == 1;
    (is_over ? gone : left).push_back(std::move(r));
  }
  late_.swap(left);
  for (size_t s = 0; s < late_.size(); ++s) set_recipe(late_[s].out.impl(), kMostWaiting + s + 1);
}

void Queue::run_late(std::vector<const Recipe*> wanted, Report::Flush* told) {
  const auto kind = [](const Recipe* r) {
    const Device on = r->out.device();
    return r->sums ? std::tuple(on.index, 2, DType::Float32, DType::Float32)
                   : std::tuple(on.index, int(moves_channels(*r)), r->operands[0].dtype(),
                                r->out.dtype());
  };
  std::ranges::stable_sort(wanted, {}, kind);
  struct Left {  // also where memory is missing
    Queue& q;
    ~Left() {
      q.running_ = false;
      q.let_go_unwanted();
    }
  } const left{*this};
  running_ = true;
  for (auto rest = std::span(std::as_const(wanted)); !rest.empty();) {
    const auto end =
        std::ranges::find_if(rest, [&](const Recipe* r) { return kind(r) != kind(rest[0]); });
    const auto count = size_t(end - rest.begin());
    run_list(rest.first(count), told);
    rest = rest.subspan(count);
  }
}

void Queue::flush(const char* why, const char* by, const TensorImpl* asked) {
  if (running_) return;
  if (!asked) forget_made();  // something may be about to change
  if (waiting_.empty() && late_.empty()) return;
  ++counters.flushes;
  Report::Flush* told = nullptr;
  if (report) {
    told = &report->flushes.emplace_back();
    told->why = by ? std::string(by) + why : why;
    told->source = source_here();
  }
  set_casts_apart(asked);
  if (!asked || !is_late(asked)) run_waiting(told, asked);
  let_go_recipes();
  // (Even if it is nothing: then those are let go that nobody wants any more.)
  if (auto wanted = late_for(asked); !wanted.empty() || (!asked && !late_.empty()))
    run_late(std::move(wanted), told);
  if (!asked) forget_made();
}

// ---- products: see Note [Products that wait] ----

// The step that alone reads it, whose place nobody sees: -1 where there is none.
int Queue::only_reader(size_t product) const {
  const Tensor& made = waiting_[product].out;
  int reader = -1;
  uint32_t reads = 0;
  for (size_t s = product + 1; s < waiting_.size(); ++s) {
    for (const Tensor& operand : waiting_[s].operands) {
      if (!operand.is_same(made)) continue;
      reader = int(s);
      ++reads;
    }
  }
  return reads == 1 && made.impl()->use_count() == 2 ? reader : -1;
}

// Returns which step was computed with it, or -1.
int Queue::run_product(size_t number, Report::Flush* told) {
  const Recipe& r = waiting_[number];
  if (r.out.impl()->use_count() == 1) {  // nobody wants it
    ++counters.dropped;
    if (told) told->dropped.push_back({name_of(r), r.source, false});
    return -1;
  }
  const auto compute = [&](const Recipe& last, bool relu) {
    const Tensor to =
        make_tensor(last.out.sizes(), last.out.strides(), last.out.dtype(), last.out.device());
    if (!r.product->run(r.operands, to, relu)) return false;
    to.storage()->hide();  // see Note [Watched storages]
    last.out.impl()->storage.install(Ref<Storage>(to.storage()));
    if (holds_form(last)) to.storage()->mark(Storage::kKept);
    return true;
  };
  const int next = only_reader(number);
  const Recipe* relu = next < 0 ? nullptr : &waiting_[size_t(next)];
  if (relu && (relu->kind != FusedStep::Kind::Unary || UnaryFn(relu->fn) != UnaryFn::Relu ||
               relu->out.dtype() != r.out.dtype() || !lie_alike(relu->out, r.out)))
    relu = nullptr;
  const Recipe* steps[] = {&r, relu};
  bool both = false;
  if (relu) {
    const SeenPass seen(steps);
    both = compute(*relu, true);
  }
  if (!both) {
    const SeenPass seen(std::span<const Recipe* const>(steps, 1));
    compute(r, false);
  }
  counters.passes += both;
  (both ? counters.fused : counters.unfused) += 1 + both;
  if (told) {
    Report::Group& shown = told->groups.emplace_back();
    shown.sizes = r.out.sizes();
    shown.inputs = r.operands.size();
    shown.fused = both;
    shown.steps.push_back({name_of(r), r.source, !both});
    if (both) shown.steps.push_back({name_of(*relu), relu->source, true});
  }
  return both ? next : -1;
}

void Queue::run_products(Report::Flush* told) {
  const auto is_product = [](const Recipe& r) { return r.product != nullptr; };
  if (std::ranges::none_of(waiting_, is_product)) return;
  struct Left {  // also where one fails: it and those after it wait on
    Queue& q;
    PerStep<uint8_t> is_over{};
    ~Left() {
      q.running_ = false;
      std::vector<Recipe> gone, left;  // freed without the lock
      std::lock_guard lock(queues().mutex);
      for (size_t s = 0; s < q.waiting_.size(); ++s)
        (is_over[s] ? gone : left).push_back(std::move(q.waiting_[s]));
      q.waiting_.swap(left);
      for (size_t s = 0; s < q.waiting_.size(); ++s) q.number(s + 1);
    }
  } left{*this};
  running_ = true;
  for (size_t s = 0; s < waiting_.size(); ++s) {
    if (!waiting_[s].product) continue;
    const int with = run_product(s, told);
    left.is_over[s] = 1;
    if (with >= 0) left.is_over[size_t(with)] = 1;
  }
}

void Queue::run_waiting(Report::Flush* told, const TensorImpl* asked) {
  run_products(told);
  if (waiting_.empty()) return;
  forget_made();
  Plan plan;
  plan.leaves_recipes = leaves_recipes_;
  for (size_t s = 0; s < waiting_.size(); ++s) {
    for (int i = 0; i < waiting_[s].operand_count(); ++i)
      plan.made_by[3 * s + size_t(i)] = int16_t(number_of(waiting_[s].operands[size_t(i)]));
  }
  make_groups(waiting_, plan, asked);
  // What fails (no memory, Ctrl-C) leaves the rest waiting, and it is tried again when asked for.
  struct Remaining {
    Queue& q;
    Plan& plan;
    uint64_t done = 0;  // groups
    ~Remaining() {
      q.running_ = false;
      std::vector<Recipe> gone, left;  // freed without the lock
      std::lock_guard lock(queues().mutex);
      const bool all_done = size_t(std::popcount(done)) == plan.groups.size();
      std::vector<Recipe>& over = all_done && q.remembers_made() ? q.made_ : gone;
      const auto any = [&](const PerStep<uint8_t>& of) {
        return std::count(of.begin(), of.begin() + std::ptrdiff_t(q.waiting_.size()), 1) > 0;
      };
      if (all_done && !any(plan.stays)) {
        q.waiting_.swap(over);
        return;
      }
      const bool any_again = !all_done && any(plan.again);
      for (size_t s = 0; s < q.waiting_.size(); ++s) {
        bool computed = plan.group[s] < 0 || (done >> plan.group[s] & 1 && !plan.stays[s]);
        // Recipes for backward are not left yet, and may be of any step.
        if (any_again) computed = computed && q.waiting_[s].out.impl()->storage.load();
        (computed ? over : left).push_back(std::move(q.waiting_[s]));
      }
      q.waiting_.swap(left);
      for (size_t s = 0; s < q.waiting_.size(); ++s) q.number(s + 1);
    }
  } remaining{*this, plan};
  running_ = true;
  for (size_t s = 0; s < waiting_.size(); ++s) {
    if (plan.group[s] >= 0 || plan.again[s]) continue;
    ++counters.dropped;
    if (told) told->dropped.push_back({name_of(waiting_[s]), waiting_[s].source, false});
  }
  for (const uint8_t g : plan.order) {
    run(plan.groups[g], plan, told);
    remaining.done |= uint64_t(1) << g;
  }
  leave_again(plan);
  if (asked) leave_origins(plan);  // else something may be about to change
}

}  // namespace rush::deferred
