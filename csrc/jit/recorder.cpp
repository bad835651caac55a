#include "jit/recorder.h"

#include <algorithm>

#include "autograd/meta.h"
#include "jit/running.h"
#include "ops/autocast/autocast.h"
#include "ops/gradients_ops.h"
#include "ops/ops.h"

namespace rush::jit {
namespace {

Running<Recorder> g_running;

// Ops whose results are as large as the values say.
bool sizes_depend_on_values(const OpEntry& entry, const Value* args) {
  constexpr std::string_view names[] = {"nonzero",  "masked_select", "bincount",
                                        "_unique2", "_unique_dim",   "_unique_consecutive"};
  const std::string_view name = entry.name;
  if (name == "where") return std::string_view(entry.overload) == "nonzero";
  if (name == "repeat_interleave") return args[0].tag() == Value::Tag::Tensor;
  if (name != "index") return std::ranges::find(names, name) != std::end(names);
  return std::ranges::any_of(args[1].tensors(), [](const Tensor& t) {
    return t.defined() && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8);
  });
}

// Of ops without a tensor among their results: is it a question about values? Others write (their
// names say so) or ask for what every call with the same key has: types, geometries.
bool answers_by_values(const OpEntry& entry) {
  constexpr std::string_view harmless[] = {"_run_backward",  "_put_grad", "_want_grad",
                                           "optimizer_step", "can_cast",  "promote_types",
                                           "result_type",    "is_conj",   "is_neg"};
  const std::string_view name = entry.name;
  return !name.ends_with('_') && std::ranges::find(harmless, name) == std::end(harmless);
}

constexpr uint32_t kGradModes = kNoGrad | kInferenceMode;

enum Fact : uint8_t { kRequiresGrad = 1, kLeaf = 2, kHasGrad = 4, kInference = 8 };
uint8_t flags_of(const Tensor& t) {
  uint8_t flags = t.impl()->has(TensorImpl::kInference) ? kInference : 0;
  if (!is_tracked(t)) return flags | kLeaf;
  flags |= uint8_t((requires_grad(t) ? kRequiresGrad : 0) | (is_leaf(t) ? kLeaf : 0));
  if (flags & kLeaf && grad_of(t).defined()) flags |= kHasGrad;
  return flags;
}

}  // namespace

TensorFacts facts_of(const Tensor& t) {
  return {t.sizes(), t.strides(), t.dtype(), t.device(), flags_of(t)};
}
bool has_facts(const Tensor& t, const TensorFacts& facts) {
  return t.dtype() == facts.dtype && t.device() == facts.device && t.sizes() == facts.sizes &&
         t.strides() == facts.strides && flags_of(t) == facts.flags;
}
std::string shown(const TensorFacts& f) {
  return concat("a tensor of shape ", f.sizes, ", strides ", f.strides, ", ", f.dtype, " on ",
                f.device, f.flags & kRequiresGrad ? ", requires_grad" : "",
                f.flags & kLeaf ? "" : ", computed", f.flags & kHasGrad ? ", with a gradient" : "",
                f.flags & kInference ? ", made in inference mode" : "");
}

Recorder* recorder_here() { return g_running.here(); }
void end_recording(const char* what) {
  // What an op does inside it does again when it is replayed.
  if (Recorder* r = recorder_here(); r && !r->inside_op())
    r->refuse(concat(what, " is not what a replay can repeat"), source_here());
}
void tell_recorder(const char* as) {
  if (Recorder* r = recorder_here()) r->value_read(as);
}
void note_made(const Tensor& t) {
  if (Recorder* r = recorder_here()) r->made(t);
}

Recorder::Recorder(std::vector<Tensor> inputs, std::unordered_set<const TensorImpl*> reachable)
    : reachable_(std::move(reachable)),
      inputs_(std::move(inputs)),
      thread_(std::this_thread::get_id()) {
  for (const Tensor& t : inputs_) {
    Structure s;
    s.kind = IValue::Kind::Tensor;
    s.place = {Place::Kind::Value, recording_.graph.num_values++};
    recording_.graph.sizes.push_back(t.sizes());
    recording_.devices.push_back(t.device());
    know(t, s.place);
    recording_.graph.inputs.push_back({"", std::move(s)});
  }
}
Recorder::~Recorder() { stop(); }

void Recorder::start() {
  outer_modes_ = t_modes;
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    outer_autocast_[i] = autocast_enabled(DeviceType(i));
    outer_autocast_dtype_[i] = autocast_dtype(DeviceType(i));
  }
  stream::add_listener(shared_from_this());
  running_ = true;
  if (g_running.enter(thread_, this)) return stream::watch_this_thread();
  stop();
  fail(ErrorKind::Runtime, "compile", "too many threads record at the same time");
}

void Recorder::stop() {
  if (!std::exchange(running_, false)) return;
  g_running.leave(thread_);
  stream::remove_listener(this);
}

void Recorder::refuse(std::string why, SourcePoint at) {
  if (ended()) return;
  reason_ = concat(why, at_source(at));
  pending_.reset();
}

void Recorder::value_read(const char* as) {
  // len() and iteration ask for sizes, which the key has.
  const std::string_view what = as;
  if (inside_op() || what.starts_with("its length") || what.starts_with("as many items")) return;
  refuse(concat("a tensor became ", as, ", by which Python may decide"), source_here());
}

SourcePoint Recorder::line_of(const Tensor& result) const {
  const auto found = born_.find(result.impl());
  return found == born_.end() ? SourcePoint{} : found->second;
}

void Recorder::know(const Tensor& t, Place place) { places_.insert_or_assign(t.impl(), place); }

uint32_t Recorder::define(const Tensor& t) {
  const uint32_t value = recording_.graph.num_values++;
  recording_.graph.sizes.push_back(t.defined() ? t.sizes() : Dims());
  recording_.devices.push_back(t.defined() ? std::optional(t.device()) : std::nullopt);
  if (!t.defined()) return value;
  // What was written in place is no new tensor.
  if (!places_.contains(t.impl())) {
    results_.push_back(t);
    born_[t.impl()] = source_here();
  }
  know(t, {Place::Kind::Value, value});
  return value;
}

uint32_t Recorder::emit(std::string_view op, std::vector<Argument> args, const Tensor& result) {
  Instruction i;
  i.op = find_entry(op, "", Form::Functional);
  internal_assert(i.op && args.size() <= i.op->args.size(), "an op that recordings need is there");
  args.resize(i.op->args.size());
  i.args = std::move(args);
  const uint32_t value = define(result);
  i.results.emplace_back(value);
  recording_.graph.body.push_back(std::move(i));
  recording_.graph.lines.push_back(source_here());
  return value;
}

void Recorder::made(const Tensor& t) {
  if (ended() || inside_op()) return;
  Tensor copy;
  {
    const NoGradGuard no_grad;
    const ModeGuard unseen(kObserve, false);
    copy = clone(detached(t));
    copy.storage();
  }
  const auto number = uint32_t(recording_.constants.size());
  recording_.constants.push_back(copy);
  emit("clone", {Place{Place::Kind::Constant, number}}, t);
}

// `.data`, as_subclass: made without an op, over memory of a tensor that is known.
std::optional<Place> Recorder::place_of_alias(const Tensor& t) {
  const Storage* storage = t.impl()->storage.load();
  if (!storage) return std::nullopt;
  const auto over = [&](const Tensor& k) { return k.impl()->storage.load() == storage; };
  const Tensor* known = nullptr;
  const auto look = [&](const std::vector<Tensor>& list) {
    const auto at = std::find_if(list.rbegin(), list.rend(), over);
    if (!known && at != list.rend()) known = &*at;
  };
  look(results_);
  look(inputs_);
  look(recording_.state);
  if (!known) return std::nullopt;
  if (requires_grad(t) || known->dtype() != t.dtype()) {
    refuse("a view was made without an operator", source_here());
    return Place{Place::Kind::Value, 0};
  }
  const auto list = [](const Dims& d) { return Literal(std::vector<int64_t>(d.begin(), d.end())); };
  const uint32_t cut = emit("detach", {places_.at(known->impl())}, Tensor());
  return Place{Place::Kind::Value, emit("as_strided",
                                        {Place{Place::Kind::Value, cut}, list(t.sizes()),
                                         list(t.strides()), Literal(t.offset())},
                                        t)};
}

Place Recorder::place_of(const Tensor& t) {
  if (t.is_batched()) refuse("vmap is under way", source_here());
  const auto found = places_.find(t.impl());
  if (found != places_.end()) return found->second;
  if (!reachable_.contains(t.impl())) {
    if (const auto place = place_of_alias(t)) return *place;
  }
  const Place place{Place::Kind::State, uint32_t(recording_.state.size())};
  recording_.state.push_back(t);
  recording_.state_facts.push_back(facts_of(t));
  recording_.state_met.push_back(source_here());
  know(t, place);
  return place;
}

void* Recorder::enter_thread(uint32_t) noexcept {
  return std::this_thread::get_id() == thread_ ? this : nullptr;
}

void Recorder::unless_it_fails(const StreamEvent& event,
                               void (Recorder::*step)(const StreamEvent&)) noexcept {
  try {
    (this->*step)(event);
  } catch (const std::exception& e) {
    refuse(e.what(), event.source);
  }
}

void* Recorder::begin(void* thread, const StreamEvent& event) noexcept {
  if (!thread || event.kind == StreamKind::Range) return nullptr;
  int& under_way = event.kind == StreamKind::Op ? ops_ : nodes_;
  const bool outermost = ops_ == 0 && nodes_ == 0;
  ++under_way;
  if (!outermost || ended()) return this;
  if (event.kind == StreamKind::Node) {
    refuse("gradients were computed otherwise than by backward() or grad()", event.source);
    return this;
  }
  unless_it_fails(event, &Recorder::begin_op);
  return this;
}

void Recorder::end(void* thread, void*, const StreamEvent& event) noexcept {
  if (!thread || event.kind == StreamKind::Range) return;
  --(event.kind == StreamKind::Op ? ops_ : nodes_);
  if (inside_op() || !pending_) return;
  unless_it_fails(event, &Recorder::end_op);
  pending_.reset();
}

// The modes that the function itself has set. False: a run could not set them.
bool Recorder::modes_fit(const StreamEvent& event, Modes& modes) {
  constexpr uint32_t fixed = kInferenceMode | kForward | kSavedTensorHooks;
  if ((event.modes & fixed) != (outer_modes_ & fixed)) return false;
  const bool grad = !(event.modes & kGradModes);
  if (grad != !(outer_modes_ & kGradModes)) modes.grad = grad;
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    const bool on = autocast_enabled(DeviceType(i));
    const DType dtype = autocast_dtype(DeviceType(i));
    if (on == outer_autocast_[i] && (!on || dtype == outer_autocast_dtype_[i])) continue;
    if (!on) return false;
    modes.autocast[i] = dtype;
  }
  return true;
}

Argument Recorder::argument(const Value& v) {
  switch (v.tag()) {
    case Value::Tag::Tensor: {
      const Tensor& t = v.tensor();
      if (t.is_wrapped_number() && !places_.contains(t.impl()))
        return Literal(load_scalar(t.data(), t.dtype()));
      return place_of(t);
    }
    case Value::Tag::Tensors: {
      Places list;
      for (const Tensor& t : v.tensors())
        list.push_back(t.defined() ? std::optional(place_of(t)) : std::nullopt);
      return list;
    }
    case Value::Tag::Generator:
      if (v.generator() != &default_generator())
        refuse("random numbers were drawn from a generator of the program's own", source_here());
      return Literal();
    default:
      return literal_of(v);
  }
}

void Recorder::begin_op(const StreamEvent& event) {
  const OpEntry& entry = *event.entry;
  Instruction i;
  i.op = find_entry(entry.name, entry.overload, entry.form);
  internal_assert(i.op != nullptr, "an op that runs is in the table");
  if (sizes_depend_on_values(entry, event.args))
    return refuse(concat("the sizes of what ", entry.name, "() gives depend on values"),
                  event.source);
  if (!modes_fit(event, i.modes))
    return refuse(
        "the function enters inference mode or forward mode, packs saved tensors, or turns "
        "autocast off",
        event.source);
  for (size_t k = 0; k < entry.args.size(); ++k) i.args.push_back(argument(event.args[k]));
  if (!ended()) pending_ = std::move(i);
}

void Recorder::end_op(const StreamEvent& event) {
  const OpEntry& entry = *event.entry;
  if (event.failed)
    return refuse(concat(entry.name, "() failed, and the function went on"), event.source);
  bool tensors = false;
  for (size_t k = 0; k < entry.num_results; ++k) {
    const Value& v = event.results[k];
    Result& result = pending_->results.emplace_back();
    if (v.tag() == Value::Tag::Tensor || (v.is_none() && entry.num_results == 1)) {
      result = define(v.tensor());
      tensors = true;
    } else if (v.tag() == Value::Tag::Tensors) {
      auto& list = result.emplace<std::vector<uint32_t>>();
      for (const Tensor& t : v.tensors()) list.push_back(define(t));
      tensors = true;
    }
  }
  if (!tensors && answers_by_values(entry))
    return refuse(
        concat(entry.name, "() made a Python value of tensors, by which Python may decide"),
        event.source);
  recording_.graph.body.push_back(std::move(*pending_));
  recording_.graph.lines.push_back(event.source);
}

Recording Recorder::finish(const std::vector<Tensor>& outputs) {
  internal_assert(!running_ && !ended(), "a recording is finished after its end, and once");
  Structure all;
  all.kind = IValue::Kind::Tuple;
  for (const Tensor& t : outputs) {
    Structure& s = all.items.emplace_back();
    s.kind = IValue::Kind::Tensor;
    s.place = place_of(t);
  }
  recording_.graph.output = std::move(all);
  verify(recording_.graph, "frozen", recording_.state.size(), recording_.constants.size(), true);
  return recording_;
}

}  // namespace rush::jit
