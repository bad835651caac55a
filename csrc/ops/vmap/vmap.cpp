#include "ops/vmap/vmap.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "autograd/forward.h"
#include "core/batched.h"
#include "core/modes.h"
#include "core/mutex.h"
#include "ops/framework/boxing.h"
#include "ops/ops.h"
#include "ops/vmap/vmap_rules.h"
#include "ops/vmap_ops.h"

namespace rush {
namespace {

// The wrappers that are alive, to be emptied when their level is left. They may die on any thread.
struct Wrappers {
  Mutex mutex{LockRank::BatchedTensors};
  std::unordered_map<TensorImpl*, uint64_t> all;  // with the id of the level each belongs to
  uint64_t next_id = 1;
};
Wrappers& wrappers() {
  static auto* w = new Wrappers;  // never freed: tensors may die at exit
  return *w;
}

struct Level {
  int64_t size;
  Randomness randomness;
  bool linear;
  uint64_t id;                    // of this level among those of all threads
  bool differentiated;            // see Note [Inputs that samples share]
  std::vector<TensorImpl*> made;  // wrappers of this level; some of them are gone

  bool owns(TensorImpl* t) const {
    const auto found = wrappers().all.find(t);
    return found != wrappers().all.end() && found->second == id;
  }
};

class Vmap final : public Interceptor {
 public:
  void call(const OpEntry& entry, Value* args, Value* results) override;
  std::vector<Level> levels;
  size_t active = 0;  // rules of random ops run with the levels below theirs only

 private:
  void call_random(const OpEntry& entry, Value* args, Value* results);
};
Vmap& vmap() {
  static thread_local Vmap v;
  return v;
}

const Ref<Storage>& no_storage() {
  static const auto* s = new Ref<Storage>(Storage::allocate(Device{DeviceType::Meta}, 0));
  return *s;
}

void empty_out(TensorImpl* t) {
  t->vmap_level = 0;
  t->physical = nullptr;
  t->device = Device{DeviceType::Meta};
}

bool is_random(const OpEntry& entry) {
  for (const ArgSpec& a : entry.args) {
    if (a.kind == ArgKind::Generator) return true;
  }
  return false;
}

// See Note [Inputs that samples share].
bool is_spread(const Tensor& t, int level) {
  return vmap().levels[size_t(level - 1)].differentiated && grad_enabled() && requires_grad(t);
}

// A wrapper of that level, or one of a level above over it.
bool has_samples(const Tensor& t, int level) {
  const TensorImpl* x = t.impl();
  while (x->vmap_level > level) x = x->physical.get();
  return x->vmap_level == level;
}

// Tangents may be batched where their tensor is not: next to batched arguments the tensor is then
// taken as batched, too.
bool has_batched_tangent(const Tensor& t, int level) {
  for (int k = visible_forward_level(); k > 0; --k) {
    const Tensor tangent = tangent_at(t, k);
    if (tangent.defined() && has_samples(tangent, level)) return true;
  }
  return false;
}

}  // namespace

int enter_vmap(int64_t size, Randomness randomness, bool linear) {
  Vmap& v = vmap();
  check(v.levels.size() < 1000, ErrorKind::Runtime, "vmap", "more than 1000 nested calls");
  static const bool installed = [] {
    g_forget_batched = [](TensorImpl* t) noexcept {
      const std::lock_guard lock(wrappers().mutex);
      wrappers().all.erase(t);
    };
    return true;
  }();
  (void)installed;
  if (v.levels.empty()) push_interceptor(&v);
  {
    const std::lock_guard lock(wrappers().mutex);
    v.levels.push_back({size, randomness, linear, wrappers().next_id++, false, {}});
  }
  v.active = v.levels.size();
  return int(v.levels.size());
}

void exit_vmap() {
  Vmap& v = vmap();
  check(!v.levels.empty(), ErrorKind::Runtime, "vmap", "no level was entered");
  const Level& left = v.levels.back();
  std::vector<Ref<TensorImpl>> dropped;  // physical tensors go after the lock
  {
    const std::lock_guard lock(wrappers().mutex);
    for (TensorImpl* t : left.made) {
      if (!left.owns(t)) continue;
      dropped.push_back(t->physical);
      empty_out(t);
      wrappers().all.erase(t);
    }
  }
  v.levels.pop_back();
  v.active = v.levels.size();
  if (v.levels.empty()) pop_interceptor(&v);
}

int vmap_level() { return int(vmap().active); }
int64_t vmap_size(int level) { return vmap().levels[size_t(level - 1)].size; }
uint64_t vmap_id(int level) { return level == 0 ? 0 : vmap().levels[size_t(level - 1)].id; }

int vmap_level_of(uint64_t id) {
  const std::vector<Level>& levels = vmap().levels;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].id == id) return int(i) + 1;
  }
  return 0;
}

void differentiate_samples() {
  for (size_t i = 0; i < vmap().active; ++i) {
    if (!vmap().levels[i].linear) vmap().levels[i].differentiated = true;
  }
}

Tensor add_batch(const Tensor& physical, int level) {
  const IntList sizes = IntList(physical.sizes()).subspan(1);
  const IntList strides = IntList(physical.strides()).subspan(1);
  Tensor out = make_tensor(no_storage(), sizes, strides, physical.offset(), physical.dtype());
  out.impl()->device = physical.device();
  out.impl()->physical = physical.ref();
  out.impl()->vmap_level = uint16_t(level);
  Level& own = vmap().levels[size_t(level - 1)];
  const std::lock_guard lock(wrappers().mutex);
  wrappers().all.emplace(out.impl(), own.id);
  if (own.made.size() >= 1024 && (own.made.size() & (own.made.size() - 1)) == 0)
    std::erase_if(own.made, [&](TensorImpl* t) { return !own.owns(t); });
  own.made.push_back(out.impl());
  return out;
}

Tensor add_batch_below(const Tensor& t, int level) {
  const int above = t.impl()->vmap_level;
  if (above <= level) return add_batch(t, level);
  return add_batch(add_batch_below(transpose(Tensor(t.impl()->physical), 0, 1), level), above);
}

Tensor without_batch(const Tensor& t, int level) {
  if (!t.defined() || t.impl()->vmap_level != level) return t;
  return Tensor(t.impl()->physical);
}

Tensor with_all_samples(const Tensor& t, int level) {
  if (!t.defined()) return t;
  if (t.impl()->vmap_level == level) return Tensor(t.impl()->physical);
  if (t.impl()->vmap_level > level) {
    // A wrapper of a level above, seen with this level's samples as its first dimension.
    const Tensor inner = with_all_samples(Tensor(t.impl()->physical), level);
    return add_batch(transpose(inner, 0, 1), t.impl()->vmap_level);
  }
  Tensor out = is_spread(t, level)
                   ? _spread_samples(t, 0, vmap_size(level), int64_t(vmap_id(level)))
                   : expand(t, with_first(vmap_size(level), t.sizes()));
  // A tangent that has its own samples keeps them.
  for (int k = visible_forward_level(); k > 0; --k) {
    const Tensor tangent = tangent_at(t, k);
    if (!tangent.defined() || !has_samples(tangent, level)) continue;
    const Tensor own = with_all_samples(tangent, level);
    if (out.impl()->base) {
      const LevelsBelow below(k);
      // See Note [Tangents of views]: where addresses repeat, views keep tangents of their own, and
      // a tangent that is a wrapper itself cannot be viewed like memory.
      Tensor bare = own.is_batched() ? clone(out) : alias(out);
      bare.impl()->base = nullptr;
      out = bare;
    }
    set_own_tangent(out, k, own);
  }
  return out;
}

Tensor innermost(const Tensor& t) {
  Tensor x = t;
  while (x.defined() && x.is_batched()) x = Tensor(x.impl()->physical);
  return x;
}

// --- the interceptor -----------------------------------------------------------------------------

namespace {

// The arguments, where some without samples of the level have to be seen with them: those whose
// tangents have samples, and those that are differentiated for each sample. Else empty.
std::vector<Value> lift(const OpEntry& entry, const Value* args, int level, bool spread) {
  const bool forward = forward_active();
  std::vector<Value> out;
  if (!forward && !(grad_enabled() && vmap().levels[size_t(level - 1)].differentiated)) return out;
  auto wanted = [&](const Tensor& t) {
    if (!t.defined() || t.impl()->vmap_level == level) return false;
    return (forward && has_batched_tangent(t, level)) || (spread && is_spread(t, level));
  };
  auto lifted = [&](const Tensor& t) {
    return wanted(t) ? add_batch(with_all_samples(t, level), level) : t;
  };
  for (size_t i = 0; i < entry.args.size(); ++i) {
    bool any = false;
    visit(args[i], [&](const Tensor& t) { any |= wanted(t); });
    if (!any) continue;
    if (entry.form == Form::InPlace && i == 0) {
      check(!forward || !has_batched_tangent(args[0].tensor(), level), ErrorKind::Runtime,
            entry.name,
            "inside vmap, self has no samples of its own, but its tangent has; clone() it first");
      continue;  // the call is refused
    }
    if (out.empty()) {
      for (size_t k = 0; k < entry.args.size(); ++k) out.push_back(copy_of(args[k]));
    }
    if (args[i].tag() == Value::Tag::Tensor) {
      out[i].own(lifted(args[i].tensor()));
    } else {
      std::vector<Tensor> list;
      for (const Tensor& t : args[i].tensors()) list.push_back(lifted(t));
      out[i].own(std::move(list));
    }
  }
  return out;
}

class LevelsUnder {
 public:
  LevelsUnder(size_t& active, size_t now) : active_(active), saved_(active) { active = now; }
  ~LevelsUnder() { active_ = saved_; }
  LevelsUnder(const LevelsUnder&) = delete;
  LevelsUnder& operator=(const LevelsUnder&) = delete;

 private:
  size_t& active_;
  size_t saved_;
};

}  // namespace

void Vmap::call(const OpEntry& entry, Value* args, Value* results) {
  if (active > 0 && is_random(entry)) return call_random(entry, args, results);
  int level = 0;
  for (size_t i = 0; i < entry.args.size(); ++i)
    visit(args[i], [&](const Tensor& t) { level = std::max<int>(level, t.impl()->vmap_level); });
  if (level == 0) return run_under(this, entry, args, results);

  check(entry.form != Form::Out, ErrorKind::Runtime, entry.name,
        "out= is not supported inside vmap; use the result");
  const ActiveAgain again(this);
  const BatchingRule rule = entry.batch;
  const bool as_it_is = !rule && entry.kind == OpKind::Composite;
  std::vector<Value> lifted = lift(entry, args, level, !as_it_is);
  if (!lifted.empty()) args = lifted.data();
  if (entry.form == Form::InPlace && entry.args[0].kind == ArgKind::Tensor) {
    check(args[0].tensor().impl()->vmap_level == level, ErrorKind::Runtime, entry.name,
          "vmap: in-place operations on a tensor that is not batched over cannot take a batched "
          "argument: self (shape ",
          args[0].tensor().sizes(),
          ") has room for one sample only. Use the out-of-place form, or make self with a *_like "
          "or new_* function of a batched tensor");
  }
  if (as_it_is) return run_under(this, entry, args, results);
  BatchedCall c(entry, args, results, level);
  rule ? rule(c) : c.loop();
}

void Vmap::call_random(const OpEntry& entry, Value* args, Value* results) {
  const ActiveAgain again(this);
  const int level = int(active);
  const Level& l = levels[active - 1];
  check(l.randomness != Randomness::Error, ErrorKind::Runtime, entry.name,
        "vmap: called random operation while in randomness error mode; pass randomness='same' (one "
        "draw for all samples) or randomness='different' to vmap, or draw outside of it");
  bool batched = false;
  for (size_t i = 0; i < entry.args.size(); ++i)
    visit(args[i], [&](const Tensor& t) { batched |= t.impl()->vmap_level == level; });
  const bool one_draw = l.randomness == Randomness::Same && !batched;
  std::vector<Value> lifted;
  if (!one_draw) lifted = lift(entry, args, level, true);
  if (!lifted.empty()) args = lifted.data();
  const LevelsUnder guard(active, active - 1);
  if (one_draw) return entry.boxed(args, results);
  check(entry.form != Form::InPlace || batched, ErrorKind::Runtime, entry.name,
        "vmap: cannot draw different numbers in place into a tensor that is not batched");
  check(entry.form != Form::Out, ErrorKind::Runtime, entry.name,
        "out= is not supported inside vmap; use the result");
  if (l.randomness == Randomness::Different) {
    BatchedCall c(entry, args, results, level);
    return c.loop();
  }
  // The same draw for every sample: the generator starts each from one state.
  Generator* given = nullptr;
  for (size_t i = 0; i < entry.args.size(); ++i) {
    if (entry.args[i].kind == ArgKind::Generator) given = args[i].generator();
  }
  Generator& g = given ? *given : default_generator();
  BatchedCall c(entry, args, results, level);
  c.loop(&g);
}

}  // namespace rush
