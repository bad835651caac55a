// What of a queue is computed again in backward: see Note [What is made again] in device/again.h.
#include <algorithm>
#include <limits>

#include "core/layout.h"
#include "core/modes.h"
#include "device/again.h"
#include "device/deferred_queue.h"
#include "device/runtime.h"

namespace rush::deferred {

using AgainRef = std::shared_ptr<Again>;

namespace {

// Smaller ones are not worth a launch.
constexpr int64_t kLeastBytesOnGpu = int64_t(1) << 20;

// Steps that cost what reading and writing their elements does, and whose results are all that they
// leave. Those that find sums over rows first read twice, mostly wider elements than they give.
bool is_cheap(const Recipe& r) {
  if (r.sums || r.product || r.kind == FusedStep::Kind::Join) return false;
  if (r.kind != FusedStep::Kind::Rows) return true;
  const RowOp fn = r.row->fn;
  // (Not batch norm's: with it a step of ResNet-50 took 22.2 ms instead of 19.7, of MobileNetV2 13.0
  // instead of 10.7. Networks with it are made of such passes.)
  return fn == RowOp::Scale || fn == RowOp::Groups;
}

bool lies_like(const Tensor& form, const Tensor& t) {
  return form.dtype() == t.dtype() && form.sizes() == t.sizes() && form.strides() == t.strides() &&
         t.offset() == 0;
}

// The step whose result it is, among those before `end`; -1: none.
int maker_of(std::span<const Recipe> steps, size_t end, const Tensor& t) {
  for (size_t s = end; s-- > 0;)
    if (steps[s].out.is_same(t)) return int(s);
  return -1;
}

// Finds out what a recipe would read. `held`: whose results are in memory, or will be. The program
// may let go of these the next moment: where steps can make them of less, they are no longer called
// held.
class Search {
 public:
  Search(std::span<const Recipe> steps, std::span<uint8_t> held) : steps_(steps), held_(held) {}
  bool pays(size_t s) {
    if (!visit(s) || cost_ >= steps_[s].out.nbytes()) return false;
    for (const size_t other : passed_) held_[other] = false;
    return true;
  }

 private:
  bool visit(size_t s) {
    const Recipe& r = steps_[s];
    if (r.again && r.again->has_recipe()) return add_steps(r.again->steps());
    if (!is_cheap(r) || !add_steps(1)) return false;
    for (int i = 0; i < r.operand_count(); ++i) {
      const Tensor& t = r.operands[size_t(i)];
      const int maker = maker_of(steps_, s, t);
      if (maker < 0              ? !read(t, maker)
          : held_[size_t(maker)] ? !pass(size_t(maker))
                                 : !visit(size_t(maker)))
        return false;
    }
    for (size_t i = 0; r.row && i < r.row->with.size(); ++i)
      if (r.row->with[i].defined() && !read(r.row->with[i], -1)) return false;
    return true;
  }
  bool pass(size_t maker) {
    const Tensor& t = steps_[maker].out;
    const AgainRef& own = steps_[maker].again;
    if (own && own->saves() > 0 && !own->has_recipe()) return read(t, int(maker));  // it stays
    Search other = *this;
    if (!other.visit(maker) || other.cost_ - cost_ >= t.nbytes()) return read(t, int(maker));
    other.passed_.push_back(maker);
    *this = std::move(other);
    return true;
  }
  bool add_steps(int n) { return (count_ += n) <= kMostStepsAgain; }
  bool read(const Tensor& t, int maker) {
    if (t.is_wrapped_number() || std::ranges::find(seen_, t.impl()) != seen_.end()) return true;
    seen_.push_back(t.impl());
    const Storage* s = t.impl()->storage.load();
    if (!s) {  // it will have some; if it is saved, too, it stays
      if (maker < 0) return false;
      const AgainRef& own = steps_[size_t(maker)].again;
      if (!own || own->saves() == 0) cost_ += t.nbytes();
      return true;
    }
    if (s->may_change_unseen()) return false;
    if (const AgainRef other = again_of(s)) return add_steps(other->steps());
    if (!s->has(Storage::kKept)) cost_ += int64_t(s->nbytes());
    return true;
  }

  std::span<const Recipe> steps_;
  std::span<uint8_t> held_;
  std::vector<size_t> passed_;
  std::vector<const TensorImpl*> seen_;
  int64_t cost_ = 0;
  int count_ = 0;
};

// Gives the step's result its recipe, and those that it is computed from.
AgainRef remember(std::span<Recipe> steps, size_t s) {
  Recipe& r = steps[s];
  if (r.again && r.again->has_recipe()) return r.again;
  std::array<AgainRef, 3> from;
  for (int i = 0; i < r.operand_count(); ++i) {
    const Tensor& t = r.operands[size_t(i)];
    const int maker = maker_of(steps, s, t);
    if (maker >= 0 && !steps[size_t(maker)].held)
      from[size_t(i)] = remember(steps, size_t(maker));
    else
      from[size_t(i)] = again_of(t.impl()->storage.load());
  }
  if (!r.again) r.again = Again::of(r);
  r.again->remember(r, std::move(from), r.out.impl()->storage.load());
  return r.again;
}

}  // namespace

bool pays_again(const std::vector<Recipe>& steps, size_t s, std::span<uint8_t> held) {
  const AgainRef& own = steps[s].again;
  return own && own->saves() > 0 && Search(steps, held).pays(s);
}

bool holds_form(const Recipe& r) { return r.again && r.again->form().is_same(r.out); }

void Queue::leave_again(const Plan& plan) {
  for (size_t s = 0; s < waiting_.size(); ++s) waiting_[s].held = plan.held[s];
  for (size_t s = 0; s < waiting_.size(); ++s) {
    const Recipe& r = waiting_[s];
    if (!holds_form(r)) continue;
    if (plan.again[s]) {
      remember(waiting_, s);
      counters.not_kept += r.out.nbytes();
    } else if (Storage* memory = r.out.impl()->storage.load()) {
      memory->mark(Storage::kKept);
    }
  }
}

// A node in place is made, and saves, after its op has told of the write: what it saved as a recipe
// then may read what will be written to.
void Queue::flush_before_write(const char* why) {
  if (running_) return;
  const std::vector<AgainRef> fresh = std::move(fresh_);
  fresh_.clear();
  for (const AgainRef& again : fresh) again->settle();
  leaves_recipes_ = false;
  struct Restored {
    bool& leaves;
    ~Restored() { leaves = true; }
  } const restored{leaves_recipes_};
  flush(why, nullptr);
}

bool Queue::remembers_made() const {
  return settings.recompute != 0 && t_modes & kDefer && grad_enabled();
}

void Queue::let_go_recipes() {
  for (Recipe& r : made_) {
    if (!r.again || !r.again->has_recipe()) continue;
    r.operands = {};  // they need not live any longer
    r.row = {};
  }
}

AgainRef Queue::save(const Tensor& t) {
  const bool queues_work = device_traits(t).asynchronous;
  const int64_t least = settings.recompute > 0 ? settings.recompute
                        : queues_work          ? kLeastBytesOnGpu
                                               : std::numeric_limits<int64_t>::max();
  if (settings.recompute == 0 || running_) return nullptr;
  const Tensor form = arranged_form(t);
  Storage* memory = form.impl()->storage.load();
  const bool recorded = g_recording && t.is_cuda() && g_recording(t.device());
  if (t.nbytes() >= least && !recorded) {
    if (!memory) {
      if (!waits(form.impl())) return nullptr;
      Recipe& r = waiting_[recipe_of(form.impl()) - 1];
      if (!r.out.is_same(form)) return nullptr;
      if (!r.again) r.again = Again::holding(form);
      return r.again;
    }
    if (AgainRef known = again_of(memory); known && lies_like(known->fresh_form(), form))
      return known;
    for (size_t s = 0; s < made_.size(); ++s) {
      const Recipe& r = made_[s];
      if (r.out.impl()->storage.load() != memory || !lies_like(r.out, form)) continue;
      if (r.again && r.again->has_recipe()) return r.again;
      std::vector<uint8_t> held;
      for (const Recipe& other : made_) held.push_back(other.held);
      if (!Search(made_, held).pays(s)) {
        if (r.again) return r.again;
        break;
      }
      for (size_t other = 0; other < s; ++other) made_[other].held = held[other];
      counters.not_kept += form.nbytes();
      fresh_.push_back(remember(made_, s));
      return fresh_.back();
    }
  }
  if (memory) memory->mark(Storage::kKept);
  return nullptr;
}

Tensor Queue::adopt(const AgainRef& again) {
  if (Tensor held = again->form(); held.defined()) return held;
  for (const Recipe& r : waiting_)
    if (r.again == again) return r.out;
  if (Tensor made = again->made_by(this);
      made.defined() && (made.impl()->storage.load() || waits(made.impl())))
    return made;
  if (waiting_.size() + size_t(again->steps()) + 1 > kMostWaiting)
    flush("as many steps as may wait were waiting", nullptr);
  Recipe r{};
  std::array<AgainRef, 3> from;
  if (!again->look(r, from)) return again->form();
  for (size_t i = 0; i < from.size(); ++i) {
    if (!from[i]) continue;
    r.operands[i] = adopt(from[i]);
    if (!r.operands[i].impl()->storage.load() && number_of(r.operands[i]) < 0)
      r.operands[i].storage();
  }
  r.out = again->fresh_form();
  r.again = again;
  Tensor out = r.out;
  {
    std::lock_guard lock(queues().mutex);
    waiting_.push_back(std::move(r));
    number(waiting_.size());
  }
  ++counters.steps;
  if (again->saves() > 1) again->share(this, out);
  return out;
}

AgainRef save_again(const Tensor& t) { return queue().save(t); }

Tensor form_again(const AgainRef& again) {
  if (const Tensor other = again->compute_elsewhere(); other.defined()) return other;
  Queue& own = queue();
  if (own.is_running()) return again->compute();
  const Tensor form = own.adopt(again);
  if (!(t_modes & kDefer)) form.storage();  // nobody would see to it before something is written
  return form;
}

}  // namespace rush::deferred
