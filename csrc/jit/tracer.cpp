#include "jit/tracer.h"

#include <algorithm>

#include "autograd/meta.h"
#include "core/value_read.h"
#include "jit/recorder.h"
#include "jit/running.h"
#include "ops/autocast/autocast.h"
#include "ops/ops.h"

namespace rush::jit {
namespace {

Running<Tracer> g_running;
Tracer* tracer_here() { return g_running.here(); }

void tell_tracer(const Tensor& t, const char* as) {
  if (Tracer* tracer = tracer_here()) tracer->value_read(t, as);
  tell_recorder(as);
}
// As the library is loaded, so that no thread sees it change.
[[maybe_unused]] const bool g_installed = (g_value_read = tell_tracer, true);

// The storage, without making an arranged tensor have one: such a tensor has no alias.
const Storage* storage_or_null(const Tensor& t) { return t.impl()->storage.load(); }

bool same_geometry(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.offset() == b.offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

bool is_tracing() { return tracer_here() != nullptr; }
Tracer* tracer_of_this_thread() { return tracer_here(); }

void check_not_tracing(const char* function, const char* why) {
  // What an op does inside, a custom one among them, is the op's business.
  const Tracer* tracer = tracer_here();
  check(!tracer || tracer->inside_op(), ErrorKind::Runtime, function,
        "this cannot be traced: ", why);
  end_recording(function);
}

Tracer::Tracer(Code code, std::span<const Tensor> state)
    : code_(std::move(code)), thread_(std::this_thread::get_id()) {
  internal_assert(state.size() == code_.state.size(), "a tensor for each entry of the state");
  for (uint32_t i = 0; i < state.size(); ++i) know(state[i], {Place::Kind::State, i});
  for (uint32_t i = 0; i < code_.constants.size(); ++i)
    know(code_.constants[i], {Place::Kind::Constant, i});
}

Tracer::~Tracer() { stop(); }

void Tracer::start() {
  check(!is_tracing(), ErrorKind::Runtime, "trace", "this thread is being traced already");
  outer_modes_ = t_modes;
  stream::add_listener(shared_from_this());
  stream::watch_this_thread();
  running_ = true;
  if (g_running.enter(thread_, this)) return;
  stop();
  fail(ErrorKind::Runtime, "trace", "too many threads are being traced");
}

void Tracer::stop() {
  if (!running_) return;
  running_ = false;
  g_running.leave(thread_);
  stream::remove_listener(this);
}

IValue Tracer::add_input(const std::string& name, const IValue& value) {
  IValue given;
  Structure structure = input_structure(value, given);
  graph_.inputs.push_back({name, std::move(structure)});
  return given;
}

Structure Tracer::input_structure(const IValue& value, IValue& given) {
  Structure s;
  s.kind = value.kind();
  if (s.kind == IValue::Kind::Tensor) {
    Tensor t = value.toTensor();
    if (places_.contains(t.impl())) t = rush::alias(t);
    s.place = {Place::Kind::Value, define(t, true)};
    given = t;
    return s;
  }
  check(s.kind != IValue::Kind::None, ErrorKind::Runtime, "trace",
        "inputs must be tensors, or tuples, lists and dicts of tensors, not None");
  IValue::Items items;
  for (const IValue& item : value.elements())
    s.items.push_back(input_structure(item, items.emplace_back()));
  if (s.kind == IValue::Kind::Dict) {
    s.keys = value.keys();
    given = IValue::dict(value.keys(), std::move(items));
  } else {
    given = s.kind == IValue::Kind::Tuple ? IValue::tuple(std::move(items))
                                          : IValue::list(std::move(items));
  }
  return s;
}

void Tracer::know(const Tensor& t, Place place) {
  if (places_.insert_or_assign(t.impl(), place).second) {
    kept_.push_back(t);
    if (const Storage* s = storage_or_null(t)) storages_[s].push_back(t);
  }
}

uint32_t Tracer::define(const Tensor& t, bool varies) {
  const uint32_t value = graph_.num_values++;
  varies_.push_back(varies);
  sizes_.push_back(t.defined() ? t.sizes() : Dims());
  if (t.defined()) know(t, {Place::Kind::Value, value});
  return value;
}

bool Tracer::varies(const Place& place) const {
  return place.kind == Place::Kind::State ||
         (place.kind == Place::Kind::Value && varies_[place.index]);
}

// May it give something else in another run?
bool Tracer::varies(const Instruction& i) const {
  for (size_t k = 0; k < i.args.size(); ++k) {
    if (i.op->args[k].kind == ArgKind::Generator) return true;
    const auto* place = std::get_if<Place>(&i.args[k]);
    if (place && varies(*place)) return true;
    if (const auto* places = std::get_if<Places>(&i.args[k])) {
      for (const auto& p : *places) {
        if (p && varies(*p)) return true;
      }
    }
  }
  return false;
}

uint32_t Tracer::emit(std::string_view op, std::vector<Argument> args, const Tensor& result) {
  Instruction i;
  i.op = find_entry(op, "", Form::Functional);
  internal_assert(i.op && args.size() <= i.op->args.size(), "an op that tracing needs is there");
  for (size_t k = args.size(); k < i.op->args.size(); ++k) args.emplace_back(Literal());
  i.args = std::move(args);
  const uint32_t value = define(result, varies(i));
  i.results.emplace_back(value);
  add(std::move(i), source_here());
  return value;
}

void Tracer::add(Instruction instruction, SourcePoint at) {
  graph_.body.push_back(std::move(instruction));
  lines_.push_back(at);
}

std::optional<uint32_t> Tracer::value_of(const Tensor& t) const {
  const auto found = places_.find(t.impl());
  if (found == places_.end() || found->second.kind != Place::Kind::Value) return std::nullopt;
  return found->second.index;
}

Place Tracer::place_of(const Tensor& t) {
  const auto found = places_.find(t.impl());
  return found != places_.end() ? found->second : place_of_unknown(t);
}

Place Tracer::place_of_unknown(const Tensor& t) {
  if (const Storage* s = storage_or_null(t)) {
    // A tensor that was arranged when it was recorded has a storage by now.
    for (const Tensor& k : kept_) {
      if (storage_or_null(k) == s && !storages_.contains(s)) storages_[s].push_back(k);
    }
    if (const auto found = storages_.find(s); found != storages_.end()) {
      if (const auto place = place_of_alias(t, found->second)) return *place;
    }
  }
  return constant(t);
}

std::optional<Place> Tracer::place_of_alias(const Tensor& t, const Geometries& over) {
  // The youngest one: what was written in place has the newest history.
  const auto same = std::find_if(over.rbegin(), over.rend(),
                                 [&](const Tensor& k) { return same_geometry(k, t); });
  const Tensor& known = same != over.rend() ? *same : over.front();
  const Place place = places_.at(known.impl());
  if (place.kind == Place::Kind::Constant) return std::nullopt;
  const bool cut = requires_grad(known) && !requires_grad(t);
  if (same != over.rend() && !cut) {
    if (requires_grad(t) && !requires_grad(known)) {
      refuse("a tensor of the trace was made to require a gradient without an operator",
             source_here());
    }
    know(t, place);
    return place;
  }
  if (requires_grad(t)) {
    refuse("a view with a gradient was made without an operator", source_here());
    return place;
  }
  if (same != over.rend()) return Place{Place::Kind::Value, emit("detach", {place}, t)};
  const uint32_t cut_off = emit("detach", {place}, Tensor());
  const auto list = [](const Dims& d) { return Literal(std::vector<int64_t>(d.begin(), d.end())); };
  return Place{Place::Kind::Value, emit("as_strided",
                                        {Place{Place::Kind::Value, cut_off}, list(t.sizes()),
                                         list(t.strides()), Literal(t.offset())},
                                        t)};
}

Place Tracer::constant(const Tensor& t) {
  if (requires_grad(t)) {
    refuse(
        "a tensor that requires a gradient, and is neither an input nor a parameter or buffer of "
        "the module, would become a constant; make it a parameter or an input, or detach() it",
        source_here());
  }
  const Place place{Place::Kind::Constant, uint32_t(code_.constants.size())};
  Tensor copy;
  {
    const NoGradGuard no_grad;
    const ModeGuard unseen(kObserve, false);
    copy = clone(detached(t));
  }
  code_.constants.push_back(copy);
  know(t, place);
  return place;
}

void Tracer::refuse(std::string why, SourcePoint at) {
  if (!refusal_) refusal_ = TraceNote{std::move(why), at};
}

void Tracer::value_read(const Tensor& t, const char* as) {
  if (ops_ > 0 || nodes_ > 0) return;
  const auto found = places_.find(t.impl());
  if (found == places_.end() || !varies(found->second)) return;
  warnings_.push_back({concat("trace: a tensor became ", as,
                              "; the program keeps the value of this run, and takes this way for "
                              "all inputs"),
                       source_here()});
}

void* Tracer::enter_thread(uint32_t) noexcept {
  return std::this_thread::get_id() == thread_ ? this : nullptr;
}

void* Tracer::begin(void* thread, const StreamEvent& event) noexcept {
  if (!thread) return nullptr;
  if (event.kind == StreamKind::Node) {
    if (nodes_++ == 0 && ops_ == 0) refuse("backward ran inside the traced function", event.source);
  } else if (event.kind == StreamKind::Op && ops_++ == 0 && nodes_ == 0) {
    try {
      begin_op(event);
    } catch (const std::exception& e) {
      refuse(e.what(), event.source);
    }
  }
  return this;
}

void Tracer::end(void* thread, void*, const StreamEvent& event) noexcept {
  if (!thread) return;
  if (event.kind == StreamKind::Node) {
    --nodes_;
  } else if (event.kind == StreamKind::Op && --ops_ == 0 && nodes_ == 0 && pending_) {
    try {
      if (!event.failed) end_op(event);
    } catch (const std::exception& e) {
      refuse(e.what(), event.source);
    }
    pending_.reset();
  }
}

Modes Tracer::modes_of(const StreamEvent& event) const {
  Modes modes;
  constexpr uint32_t off = kNoGrad | kInferenceMode;
  const bool grad = !(event.modes & off);
  if (grad != !(outer_modes_ & off)) modes.grad = grad;
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    if (autocast_enabled(DeviceType(i))) modes.autocast[i] = autocast_dtype(DeviceType(i));
  }
  return modes;
}

Argument Tracer::argument(const OpEntry& entry, const ArgSpec& spec, const Value& v) {
  const auto place = [&](const Tensor& t) {
    check(!t.is_batched(), ErrorKind::Runtime, "", "vmap is under way inside the traced function");
    return place_of(t);
  };
  switch (v.tag()) {
    case Value::Tag::None:
      return Literal();
    case Value::Tag::Tensor:
      if (v.tensor().is_wrapped_number() && !places_.contains(v.tensor().impl()))
        return Literal(load_scalar(v.tensor().data(), v.tensor().dtype()));
      return place(v.tensor());
    case Value::Tag::Tensors: {
      Places list;
      for (const Tensor& t : v.tensors())
        list.push_back(t.defined() ? std::optional(place(t)) : std::nullopt);
      return list;
    }
    case Value::Tag::Generator:
      refuse(concat(entry.name, " got a generator (", spec.name,
                    "), which a program cannot keep; leave it out, and the program draws from the "
                    "default one"),
             source_here());
      return Literal();
    default:
      return literal_of(v);
  }
}

// What is written to must not be a constant: the next run would begin with what this one left.
void Tracer::own_constants(const OpEntry& entry, const Value* args) {
  if (entry.form == Form::Functional && entry.kind != OpKind::Mutate) return;
  const auto own = [&](const Tensor& t) {
    if (!t.defined() || t.is_wrapped_number()) return;
    const Place place = place_of(t);
    if (place.kind != Place::Kind::Constant) return;
    places_.erase(t.impl());
    emit("clone", {place}, t);
  };
  const auto own_all = [&](const Value& v) {
    if (v.tag() == Value::Tag::Tensor) own(v.tensor());
    if (v.tag() == Value::Tag::Tensors) {
      for (const Tensor& t : v.tensors()) own(t);
    }
  };
  if (entry.form == Form::InPlace) return own_all(args[0]);
  if (entry.form == Form::Out) return own_all(args[entry.args.size() - 1]);
  for (size_t k = 0; k < entry.args.size(); ++k) own_all(args[k]);
}

void Tracer::begin_op(const StreamEvent& event) {
  const OpEntry& entry = *event.entry;
  check(!(event.modes & kForward), ErrorKind::Runtime, "",
        "forward mode (jvp, dual numbers) is under way inside the traced function");
  own_constants(entry, event.args);
  Instruction i;
  i.op = find_entry(entry.name, entry.overload, entry.form);
  internal_assert(i.op != nullptr, "an op that runs is in the table");
  for (size_t k = 0; k < entry.args.size(); ++k)
    i.args.push_back(argument(entry, entry.args[k], event.args[k]));
  i.modes = modes_of(event);
  pending_ = std::move(i);
}

void Tracer::end_op(const StreamEvent& event) {
  const OpEntry& entry = *event.entry;
  const bool varies = this->varies(*pending_);
  bool tensors = false;
  for (size_t k = 0; k < entry.num_results; ++k) {
    const Value& v = event.results[k];
    if (v.tag() == Value::Tag::Tensor) {
      pending_->results.emplace_back(define(v.tensor(), varies));
      tensors = true;
    } else if (v.tag() == Value::Tag::Tensors) {
      std::vector<uint32_t> list;
      for (const Tensor& t : v.tensors()) list.push_back(define(t, varies));
      pending_->results.emplace_back(std::move(list));
      tensors = true;
    } else {
      pending_->results.emplace_back();
    }
  }
  // An op that only answers a question is done with: the program has the answer.
  if (!tensors && entry.form == Form::Functional && entry.kind != OpKind::Mutate) {
    if (event.results[0].tag() == Value::Tag::Bool && varies) {
      warnings_.push_back({concat("trace: ", entry.name,
                                  "() made a Python bool of tensors; the program keeps this "
                                  "answer, and takes this way for all inputs"),
                           event.source});
    }
    return;
  }
  add(std::move(*pending_), event.source);
}

bool Tracer::begin_call(std::span<const Tensor> inputs) {
  if (ops_ > 0 || nodes_ > 0 || !running_) return false;
  Instruction i;
  i.op = find_entry(kCallOp, "", Form::Functional);
  internal_assert(i.op && i.op->args.size() == 1, "an op that stands for calls is there");
  Places places;
  for (const Tensor& t : inputs) places.emplace_back(place_of(t));
  i.args.emplace_back(std::move(places));
  StreamEvent event{};
  event.modes = t_modes;
  i.modes = modes_of(event);
  call_ = std::move(i);
  ++ops_;
  return true;
}

void Tracer::end_call(std::span<const Tensor> outputs) {
  internal_assert(call_.has_value() && ops_ > 0, "a call ends once");
  --ops_;
  std::vector<uint32_t> values;
  for (const Tensor& t : outputs) values.push_back(define(t, true));
  call_->results.emplace_back(std::move(values));
  add(std::move(*call_), source_here());
  call_.reset();
}

void Tracer::drop_call() {
  if (!call_) return;
  --ops_;
  call_.reset();
}

Structure Tracer::output_structure(const IValue& value) {
  Structure s;
  s.kind = value.kind();
  if (s.kind == IValue::Kind::Tensor) s.place = place_of(value.toTensor());
  if (s.kind < IValue::Kind::Tuple) return s;
  for (const IValue& item : value.elements()) s.items.push_back(output_structure(item));
  if (s.kind == IValue::Kind::Dict) s.keys = value.keys();
  return s;
}

CodePointer Tracer::finish(const std::string& method, const IValue& output) {
  internal_assert(!running_, "a trace is finished after its end");
  graph_.output = output_structure(output);
  if (refusal_) fail(ErrorKind::Runtime, "trace", refusal_->text, at_source(refusal_->at));
  auto code = std::make_shared<Code>(code_);
  code->methods.push_back({method, graph_});
  code->verify();
  return code;
}

}  // namespace rush::jit
