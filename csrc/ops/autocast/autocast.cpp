#include "ops/autocast/autocast.h"

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "autograd/meta.h"
#include "core/device_memory.h"
#include "core/modes.h"
#include "device/runtime.h"
#include "ops/framework/custom_op.h"
#include "ops/ops.h"

namespace rush {
namespace {

// A weight and its cast. Holding the weight keeps its address from being used again.
struct CachedCast {
  Tensor weight, cast;
  uint32_t version;
  bool recorded;
  bool noted = false;  // among CastWeights::now
};

// See Note [Weights cast ahead].
struct CastWeights {
  std::vector<Tensor> last, now;
  bool on = false, ahead = false;  // were those of the last call cast in this region?
};

struct State {
  bool enabled[kDeviceTypeCount] = {};
  DType dtype[kDeviceTypeCount];
  bool cache_enabled = true;
  int nesting = 0;
  std::unordered_map<const TensorImpl*, CachedCast> cache;
  std::unique_ptr<CastWeights> made_weights;  // thread-local memory is scarce
  CastWeights& weights() {
    if (!made_weights) made_weights = std::make_unique<CastWeights>();
    return *made_weights;
  }

  State() {
    for (int i = 0; i < kDeviceTypeCount; ++i)
      dtype[i] = device_traits(DeviceType(i)).autocast_dtype;
  }
};
State& state() {
  static thread_local State s;
  return s;
}

// float64 is left alone: whoever uses it wants it.
bool is_eligible(const Tensor& t, DeviceType device) {
  return t.defined() && t.is_floating() && t.dtype() != DType::Float64 &&
         same_type(t.device(), Device{device});
}

// Weights are cast once per region, not once per call: leaves that want a gradient, from float32.
bool is_cacheable(const Tensor& t, DType to) {
  return state().cache_enabled && to != DType::Float32 && t.dtype() == DType::Float32 &&
         !t.impl()->base && requires_grad(t) && is_leaf(t);
}

CachedCast& cast_weight(const Tensor& t, DType to) {
  CachedCast& c = state().cache[t.impl()];
  // A cast made without a graph would cut the weight off from it; an old one has old values.
  const bool fits = c.cast.defined() && c.cast.dtype() == to && c.version == t.version() &&
                    c.recorded == grad_enabled();
  if (!fits) c = {t, rush::cast(t, to), t.version(), grad_enabled(), c.noted};
  return c;
}

Tensor cast_to(const Tensor& t, DType to) {
  if (!is_cacheable(t, to)) return rush::cast(t, to);
  CachedCast& own = cast_weight(t, to);
  if (t_modes & kDefer && device_traits(t).asynchronous && state().weights().on) [[unlikely]] {
    CastWeights& weights = state().weights();
    if (!own.noted) weights.now.push_back(t);
    own.noted = true;
    for (const Tensor& other : weights.ahead ? std::vector<Tensor>() : weights.last) {
      // One that only this list holds is gone from the program.
      if (other.impl()->use_count() > 1 && other.device() == t.device() && is_cacheable(other, to))
        cast_weight(other, to);
    }
    weights.ahead = true;
  }
  return own.cast;
}

// Arguments that had to change, for the time of a call: the caller gets its own back.
class Recast {
 public:
  Recast(DeviceType device, DType to) : device_(device), to_(to) {}
  ~Recast() {
    for (auto& [at, old] : replaced_) *at = std::move(old);
  }
  Recast(const Recast&) = delete;
  Recast& operator=(const Recast&) = delete;

  // An empty place in the stead of v, which comes back in the end.
  Value& replace(Value& v) {
    replaced_.emplace_back(&v, std::move(v));
    return v;
  }
  void argument(Value& v) {
    if (v.tag() == Value::Tag::Tensor && changes(v.tensor())) {
      Tensor cast = cast_to(v.tensor(), to_);
      replace(v).own(std::move(cast));
    } else if (v.tag() == Value::Tag::Tensors) {
      list(v);
    }
  }

 private:
  bool changes(const Tensor& t) const { return is_eligible(t, device_) && t.dtype() != to_; }
  void list(Value& v) {
    bool any = false;
    for (const Tensor& t : v.tensors()) any |= changes(t);
    if (!any) return;
    std::vector<Tensor> cast(v.tensors().begin(), v.tensors().end());
    for (Tensor& t : cast) {
      if (changes(t)) t = cast_to(t, to_);
    }
    replace(v).own(std::move(cast));
  }
  DeviceType device_;
  DType to_;
  std::vector<std::pair<Value*, Value>> replaced_;
};

template <class F>
void for_tensors(const OpEntry& entry, Value* args, F&& f) {
  for (size_t i = 0; i < entry.args.size(); ++i) {
    if (args[i].tag() == Value::Tag::Tensor) f(args[i].tensor());
    if (args[i].tag() == Value::Tag::Tensors) {
      for (const Tensor& t : args[i].tensors()) f(t);
    }
  }
}

// float32 as soon as one is, or when the two 16-bit types meet.
DType widest(const OpEntry& entry, Value* args, DeviceType device) {
  std::optional<DType> found;
  for_tensors(entry, args, [&](const Tensor& t) {
    if (!is_eligible(t, device)) return;
    found = !found || *found == t.dtype() ? t.dtype() : DType::Float32;
  });
  return found.value_or(DType::Float32);
}

}  // namespace

bool autocast_enabled(DeviceType device) { return state().enabled[int(device)]; }
bool autocast_enabled() {
  bool any = false;
  for (const bool e : state().enabled) any |= e;
  return any;
}
void set_autocast_enabled(DeviceType device, bool on) {
  state().enabled[int(device)] = on;
  intercept_for_autocast(autocast_enabled());
}
DType autocast_dtype(DeviceType device) { return state().dtype[int(device)]; }
void set_autocast_dtype(DeviceType device, DType dtype) { state().dtype[int(device)] = dtype; }
bool autocast_cache_enabled() { return state().cache_enabled; }
void set_autocast_cache_enabled(bool on) { state().cache_enabled = on; }
void clear_autocast_cache() {
  // The tensors die after the map is empty: their deaths may come back here.
  const auto doomed = std::move(state().cache);
  state().cache = {};
  state().weights().ahead = false;
}

bool begin_cast_weights(std::vector<Tensor> of_last_call) {
  CastWeights& weights = state().weights();
  if (weights.on) return false;
  weights.last = std::move(of_last_call);
  weights.on = true;
  weights.ahead = false;
  return true;
}
std::vector<Tensor> end_cast_weights() {
  CastWeights& weights = state().weights();
  weights.on = false;
  const auto doomed = std::move(weights.last);
  weights.last = {};
  for (const Tensor& t : weights.now) {  // the region may go on
    const auto found = state().cache.find(t.impl());
    if (found != state().cache.end()) found->second.noted = false;
  }
  return std::exchange(weights.now, {});
}
int autocast_nesting(int change) { return state().nesting += change; }

namespace {

// No autocast for a scope.
class Off {
 public:
  Off() : before_(intercept_for_autocast(false)) {}
  ~Off() { intercept_for_autocast(before_); }
  Off(const Off&) = delete;
  Off& operator=(const Off&) = delete;

 private:
  bool before_;
};

AutocastPolicy policy_for(const OpEntry& entry, DeviceType device) {
  // Tensors without memory stand for those that a program will put on a GPU.
  static constexpr int rules[kDeviceTypeCount] = {0, 1, 1};
  if (entry.form != Form::Functional) return AutocastPolicy::None;
  return entry.autocast[rules[static_cast<int>(device)]];
}

}  // namespace

AutocastPolicy autocast_policy(std::string_view op, DeviceType device) {
  for (const OpEntry& entry : find_ops(op)) {
    const AutocastPolicy policy = policy_for(entry, device);
    if (policy != AutocastPolicy::None) return policy;
  }
  return AutocastPolicy::None;
}

bool run_autocast(const OpEntry& entry, Value* args, Value* results) {
  // The first tensor names the device: the others agree, or the op will complain. A number that
  // became a tensor has none of its own.
  const Tensor* first = nullptr;
  for_tensors(entry, args, [&](const Tensor& t) {
    if (t.defined() && !first && !t.is_wrapped_number()) first = &t;
  });
  if (!first || !autocast_enabled(first->device().type)) return false;
  const DeviceType device = first->device().type;
  const AutocastPolicy policy = policy_for(entry, device);
  if (policy == AutocastPolicy::None) return false;
  // Sums of integers and of float64 keep their dtypes.
  const bool sets_option = policy == AutocastPolicy::Float32ByOption && is_eligible(*first, device);
  const Off off;
  DType to = DType::Float32;
  if (policy == AutocastPolicy::LowerPrecision) {
    const CustomOp* custom = custom_op_of(entry);
    to = custom ? custom->autocast_dtype(device).value_or(to) : state().dtype[int(device)];
  }
  if (policy == AutocastPolicy::Widest) to = widest(entry, args, device);
  Recast recast(device, to);
  for (size_t i = 0; i < entry.args.size(); ++i) {
    if (policy != AutocastPolicy::Float32ByOption)
      recast.argument(args[i]);
    else if (sets_option && entry.args[i].kind == ArgKind::DType && args[i].is_none())
      recast.replace(args[i]).set(DType::Float32);
  }
  entry.boxed(args, results);
  return true;
}

}  // namespace rush
