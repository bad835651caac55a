#include "ops/framework/custom_op.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "autograd/forward.h"
#include "autograd/meta.h"
#include "autograd/snapshot.h"
#include "core/modes.h"
#include "device/deferred.h"
#include "ops/framework/boxing.h"
#include "ops/vmap/vmap_rules.h"

namespace rush {
namespace {

// Note [A function per operator]
// The boxed function of an entry is a plain pointer, and its address tells ops apart. So each
// custom op takes one of a fixed number of functions, which differ in nothing but the place at
// which they find their op.
constexpr size_t kMostCustomOps = 4096;
constexpr size_t kMostOverloads = 16;

std::array<std::atomic<CustomOp*>, kMostCustomOps> g_ops;
std::atomic<size_t> g_count{0};

using Boxed = void (*)(Value*, Value*);
template <size_t I>
void run_slot(Value* args, Value* results) {
  g_ops[I].load(std::memory_order_acquire)->call(args, results);
}
template <size_t... I>
constexpr std::array<Boxed, sizeof...(I)> make_slots(std::index_sequence<I...>) {
  return {run_slot<I>...};
}
constexpr auto kSlots = make_slots(std::make_index_sequence<kMostCustomOps>());

// The overloads of one name, side by side as find_ops wants them.
struct Overloads {
  std::array<OpEntry, kMostOverloads> entries{};
  std::array<CustomOp*, kMostOverloads> ops{};
  std::atomic<size_t> count{0};
};

// Names are looked up from any thread and change seldom: readers take the whole map as it is.
using Names = std::map<std::string, Overloads*, std::less<>>;
std::atomic<std::shared_ptr<const Names>>& names() {
  static auto* all = new std::atomic<std::shared_ptr<const Names>>(std::make_shared<const Names>());
  return *all;
}
Overloads* overloads_of(std::string_view name) {
  const auto all = names().load();
  const auto found = all->find(name);
  return found == all->end() ? nullptr : found->second;
}
template <class F>
void change_names(F&& change) {
  auto old = names().load();
  for (;;) {
    auto changed = std::make_shared<Names>(*old);
    change(*changed);
    if (names().compare_exchange_strong(old, std::move(changed))) return;
  }
}

// Kernels that came before their operators. Pushed one by one; whoever defines an operator takes
// the whole list, and puts back what is not its own.
struct Early {
  std::string name;
  CustomKey key;
  std::unique_ptr<CustomKernel> kernel;
  Early* next;
};
std::atomic<Early*> g_early{nullptr};

void push_early(Early* e) {
  e->next = g_early.load();
  while (!g_early.compare_exchange_weak(e->next, e)) {
  }
}

void take_early(CustomOp& op) {
  const std::string name = op.display_name();
  Early* list = g_early.exchange(nullptr);
  std::vector<std::unique_ptr<Early>> own;  // the first one that was registered is the last
  while (list) {
    Early* e = list;
    list = e->next;
    if (e->name == name)
      own.emplace_back(e);
    else
      push_early(e);
  }
  for (auto e = own.rbegin(); e != own.rend(); ++e)
    op.set_kernel((*e)->key, std::move((*e)->kernel));
}

void run_batched_op(BatchedCall& c) { custom_op_of(c.entry)->run_batched(c); }

// The device whose kernel runs: of the tensors' devices the one that stands last in the enumeration,
// so that a number on the host does not keep a GPU's kernel from running, and shapes stay shapes.
DeviceType device_of(const OpEntry& entry, const Value* args) {
  DeviceType found = Device().type;
  for (size_t i = 0; i < entry.args.size(); ++i)
    visit(args[i], [&](const Tensor& t) { found = std::max(found, t.device().type); });
  return found;
}

template <class F>
bool any_tensor(const OpEntry& entry, const Value* args, F&& test) {
  bool any = false;
  for (size_t i = 0; i < entry.args.size(); ++i)
    visit(args[i], [&](const Tensor& t) { any = any || test(t); });
  return any;
}

constexpr std::pair<std::string_view, CustomKey> kKeys[] = {
    {"CPU", CustomKey::CPU},
    {"CUDA", CustomKey::CUDA},
    {"Meta", CustomKey::Meta},
    {"CompositeExplicitAutograd", CustomKey::CompositeExplicit},
    {"CompositeExplicitAutogradNonFunctional", CustomKey::CompositeExplicit},
    {"CompositeImplicitAutograd", CustomKey::CompositeImplicit},
    {"", CustomKey::CompositeImplicit},
    {"Autograd", CustomKey::Autograd},
    {"AutogradCPU", CustomKey::Autograd},
    {"AutogradCUDA", CustomKey::Autograd},
};

}  // namespace

std::optional<CustomKey> parse_custom_key(std::string_view name) {
  for (const auto& [text, key] : kKeys) {
    if (text == name) return key;
  }
  return std::nullopt;
}

std::string CustomOp::display_name() const {
  return schema_.overload.empty() ? qualified_ : qualified_ + "." + schema_.overload;
}

CustomOp& define_custom_op(CustomSchema schema) {
  check(!schema.space.empty(), ErrorKind::Runtime, schema.name,
        "an operator needs a namespace: write \"mylib::", schema.name, "\"");
  check(schema.results.size() <= size_t(kMaxResults), ErrorKind::NotImplemented, schema.qualified(),
        "it has ", schema.results.size(), " results; at most ", kMaxResults,
        " are possible, so return a list of tensors (Tensor[])");
  check(schema.parameters.size() <= 32, ErrorKind::NotImplemented, schema.qualified(), "it has ",
        schema.parameters.size(), " arguments; at most 32 are possible");
  const std::string name = schema.qualified();
  Overloads* overloads = overloads_of(name);
  for (size_t i = 0; overloads && i < overloads->count; ++i) {
    check(overloads->entries[i].overload != schema.overload, ErrorKind::Runtime, name,
          "an operator of this name",
          schema.overload.empty() ? "" : concat(" with the overload '", schema.overload, "'"),
          " is defined already: ", overloads->ops[i]->schema().text());
  }
  const size_t slot = g_count++;
  check(slot < kMostCustomOps, ErrorKind::Runtime, name, "there are more than ", kMostCustomOps,
        " custom operators in this process");

  auto* op = new CustomOp;  // never freed, see above
  op->schema_ = std::move(schema);
  op->qualified_ = name;
  op->mutates_ = op->schema_.mutates();
  for (const CustomParameter& p : op->schema_.parameters) {
    ArgSpec spec{};
    spec.name = p.name.c_str();
    spec.kind = p.kind;
    spec.optional = p.optional;
    spec.keyword_only = p.keyword_only;
    spec.broadcast = p.broadcast;
    spec.holes = p.holes || p.bools;  // see Parser::convert_ints
    spec.default_kind = !p.has_default ? DefaultKind::Required
                        : std::holds_alternative<std::monostate>(p.default_value)
                            ? DefaultKind::None
                            : DefaultKind::Value;
    spec.default_text = p.default_text.c_str();
    op->specs_.push_back(spec);  // defaults come from default_argument: they need their op
  }
  for (const CustomResult& r : op->schema_.results) {
    if (r.name.empty() || op->schema_.results.size() < 2) {
      op->result_names_.clear();
      break;
    }
    op->result_names_ += (op->result_names_.empty() ? "" : " ") + r.name;
  }
  OpEntry entry{};
  entry.name = op->qualified_.c_str();
  entry.overload = op->schema_.overload.c_str();
  entry.form = Form::Functional;
  entry.kind = op->mutates_ ? OpKind::Mutate : OpKind::Compute;
  entry.is_function = true;
  entry.num_results = uint8_t(op->schema_.results.size());
  entry.result_names = op->result_names_.c_str();
  entry.doc = "";
  entry.args = op->specs_;
  entry.boxed = kSlots[slot];
  entry.block = op;
  entry.batch = run_batched_op;

  if (!overloads) overloads = new Overloads;
  const size_t at = overloads->count;
  check(at < kMostOverloads, ErrorKind::Runtime, name, "there are more than ", kMostOverloads,
        " overloads");
  overloads->entries[at] = entry;
  overloads->ops[at] = op;
  op->entry_ = &overloads->entries[at];
  g_ops[slot].store(op, std::memory_order_release);
  overloads->count.store(at + 1, std::memory_order_release);
  change_names([&](Names& all) { all[name] = overloads; });
  take_early(*op);
  return *op;
}

CustomOp* custom_op_of(const OpEntry& entry) {
  if (!std::strchr(entry.name, ':')) return nullptr;
  return static_cast<CustomOp*>(const_cast<void*>(entry.block));
}

CustomOp* find_custom_op(std::string_view qualified) {
  const size_t dot = qualified.rfind('.');
  const std::string_view overload =
      dot == std::string_view::npos ? std::string_view() : qualified.substr(dot + 1);
  for (const OpEntry& entry : find_custom_entries(qualified.substr(0, dot))) {
    if (entry.overload == overload) return custom_op_of(entry);
  }
  return nullptr;
}

std::span<const OpEntry> find_custom_entries(std::string_view name) {
  const Overloads* found = overloads_of(name);
  if (!found) return {};
  return {found->entries.data(), found->count.load(std::memory_order_acquire)};
}

void set_kernel_when_defined(std::string_view qualified, CustomKey key,
                             std::unique_ptr<CustomKernel> kernel) {
  if (CustomOp* op = find_custom_op(qualified)) return op->set_kernel(key, std::move(kernel));
  push_early(new Early{std::string(qualified), key, std::move(kernel), nullptr});
}

void remove_custom_op(std::string_view qualified) {
  const std::string name(qualified.substr(0, qualified.rfind('.')));
  change_names([&](Names& all) { all.erase(name); });
}

std::vector<std::string> custom_op_names() {
  const auto all = names().load();
  std::vector<std::string> out;
  for (const auto& [name, overloads] : *all) out.push_back(name);
  return out;
}

void own_list(Value& v, std::vector<Tensor> list) { v.own(std::move(list)); }

Value default_argument(const OpEntry& entry, size_t argument) {
  if (const CustomOp* op = custom_op_of(entry)) return op->default_value(argument);
  const ArgSpec& spec = entry.args[argument];
  return spec.make_default ? spec.make_default() : Value();
}

void CustomOp::set_kernel(CustomKey key, std::unique_ptr<CustomKernel> kernel) {
  kernel->check_schema(schema_);
  kernels_[size_t(key)].store(kernel.release(), std::memory_order_release);
  // vmap looks into a composite whose ops have rules of their own.
  if (key == CustomKey::CompositeImplicit && !mutates_ && !batch_rule_.load()) {
    entry_->kind = OpKind::Composite;
    entry_->batch = nullptr;
  }
}

void CustomOp::set_batch_rule(std::unique_ptr<CustomBatchRule> rule) {
  batch_rule_.store(rule.release(), std::memory_order_release);
  entry_->batch = run_batched_op;
}

void CustomOp::set_autocast(DeviceType device, DType dtype) {
  autocast_[size_t(device)].store(int(dtype));
  entry_->autocast[size_t(device)] = AutocastPolicy::LowerPrecision;
}

std::optional<DType> CustomOp::autocast_dtype(DeviceType device) const {
  const int dtype = autocast_[size_t(device)].load();
  return dtype < 0 ? std::nullopt : std::optional(DType(dtype));
}

Value CustomOp::default_value(size_t argument) const {
  const CustomParameter& p = schema_.parameters[argument];
  Value v;
  std::visit(
      [&]<class T>(const T& x) {
        if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          v.borrow(IntList(x));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          v.borrow(std::span<const double>(x));
        } else if constexpr (std::is_same_v<T, Scalar>) {
          if (p.kind == ArgKind::Int)
            v.set(x.to_int());
          else if (p.kind == ArgKind::Float)
            v.set(x.to_double());
          else if (p.kind == ArgKind::Bool)
            v.set(x.template to<bool>());
          else
            v.set(x);
        } else if constexpr (std::is_same_v<T, std::string>) {
          v.borrow(std::string_view(x));
        } else if constexpr (!std::is_same_v<T, std::monostate>) {
          v.set(x);
        }
      },
      p.default_value);
  return v;
}

CustomKernel& CustomOp::kernel_for(DeviceType device, bool& implicit) const {
  CustomKernel* k = kernel(CustomKey(device));  // the first three are the device types
  if (!k) k = kernel(CustomKey::CompositeExplicit);
  implicit = !k;
  if (!k) k = kernel(CustomKey::CompositeImplicit);
  if (!k && Device{device}.is_meta()) {
    fail(ErrorKind::NotImplemented, display_name(),
         "it was called with meta tensors, but has neither a fake nor a Meta kernel; add one with "
         "register_fake");
  }
  check(k, ErrorKind::NotImplemented, display_name(), "it has no kernel for ", name(device),
        " tensors; add one with register_kernel, Library.impl, or RUSH_LIBRARY_IMPL in C++");
  return *k;
}

void CustomOp::check_mutated(const Value* args) const {
  if (!grad_enabled()) return;
  for (size_t i = 0; i < schema_.parameters.size(); ++i) {
    if (!schema_.parameters[i].mutated) continue;
    visit(args[i], [&](const Tensor& t) {
      check(!requires_grad(t), ErrorKind::Runtime, display_name(), "it writes to '",
            schema_.parameters[i].name,
            "', which requires a gradient, and has no formula for that; call it inside no_grad(), "
            "or give it a detached tensor");
    });
  }
}

void CustomOp::dispatch(Value* args, Value* results) const {
  if (t_modes & kForward) [[unlikely]] {
    const bool tangents = any_tensor(*entry_, args, [](const Tensor& t) { return has_tangent(t); });
    bool implicit = false;
    if (tangents) kernel_for(device_of(*entry_, args), implicit);
    check(!tangents || implicit, ErrorKind::NotImplemented, display_name(),
          "a custom operator has no formula for forward mode (jvp)");
  }
  if (CustomKernel* gradient = kernel(CustomKey::Autograd);
      gradient && grad_enabled() &&
      any_tensor(*entry_, args, [](const Tensor& t) { return requires_grad(t); })) {
    return gradient->call(args, results);
  }
  call_kernel(args, results);
}

void CustomOp::call_kernel(Value* args, Value* results) const {
  bool implicit = false;
  CustomKernel& k = kernel_for(device_of(*entry_, args), implicit);
  if (implicit) return k.call(args, results);
  const NoGradGuard below;
  k.call(args, results);
}

void CustomOp::call_key(CustomKey key, Value* args, Value* results) const {
  CustomKernel* k = kernel(key);
  check(k, ErrorKind::Runtime, display_name(), "it has no kernel of this kind");
  k->call(args, results);
}

void CustomOp::call(Value* args, Value* results) const {
  if (t_modes & kSlowPath) [[unlikely]] {
    if (is_intercepted(*entry_)) return run_intercepted(*entry_, args, results);
    if (mutates_ && t_modes & kDefer) deferred::flush(" writes to its arguments", entry_->name);
  }
  if (!mutates_) return dispatch(args, results);
  check_mutated(args);
  for (size_t i = 0; i < schema_.parameters.size(); ++i)
    if (schema_.parameters[i].mutated) visit(args[i], [](const Tensor& t) { before_write(t); });
  dispatch(args, results);
  for (size_t i = 0; i < schema_.parameters.size(); ++i) {
    if (!schema_.parameters[i].mutated) continue;
    visit(args[i], [&](const Tensor& t) { t.bump_version(entry_->name); });
  }
  for (size_t i = 0; i < schema_.results.size(); ++i) {
    if (const int given = schema_.results[i].returned; given >= 0)
      results[i].own(Tensor(args[given].tensor()));
  }
}

// Inside vmap: by the user's rule, else sample by sample. What is written to must have samples of
// its own then, or the last one would win.
void CustomOp::run_batched(BatchedCall& c) const {
  CustomBatchRule* rule = batch_rule_.load(std::memory_order_acquire);
  if (rule)
    return c.run_rule([&](const std::vector<int64_t>& in_dims, Value* args, Value* results) {
      return rule->call(c.size, in_dims, args, results);
    });
  for (size_t i = 0; i < schema_.parameters.size(); ++i) {
    check(!schema_.parameters[i].mutated || c.given(i).is_none() || c.is_batched(i),
          ErrorKind::Runtime, display_name(), "vmap: it writes to '", schema_.parameters[i].name,
          "', which all samples share; make it with a *_like or new_* function of a batched "
          "tensor");
  }
  c.loop();
  for (size_t i = 0; i < schema_.results.size(); ++i) {
    if (const int given = schema_.results[i].returned; given >= 0) c.give_back(i, size_t(given));
  }
}

}  // namespace rush
