// registry.cpp: the sorted table of all families, the interceptors of a thread, and the by-name
// call.
#include "ops/framework/registry.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/modes.h"
#include "device/deferred.h"
#include "ops/autocast/autocast.h"
#include "ops/framework/boxing.h"
#include "ops/framework/custom_op.h"

namespace rush {
namespace table {

// Generated: visits the entries of each family.
void for_each_family(void (*visit)(std::span<const OpEntry>, void*), void* to);

}  // namespace table

namespace {

bool before(const OpEntry& a, const OpEntry& b) { return std::strcmp(a.name, b.name) < 0; }

// Does a take a tensor where b, the same so far, takes a number? A tensor of one element can stand
// for a number, so b would catch what was meant for a: max(x, other) is not max(x, dim).
bool takes_tensor_for_number(const OpEntry& a, const OpEntry& b) {
  for (size_t i = 0; i < std::min(a.args.size(), b.args.size()); ++i) {
    const ArgKind x = a.args[i].kind, y = b.args[i].kind;
    if (x == y) continue;
    return x == ArgKind::Tensor &&
           (y == ArgKind::Scalar || y == ArgKind::Int || y == ArgKind::Float);
  }
  return false;
}

// The first overload that fits is called. They keep the order of the table, except that tensors
// are tried before numbers.
std::vector<OpEntry> sorted_table() {
  std::vector<OpEntry> all;
  table::for_each_family(
      [](std::span<const OpEntry> family, void* to) {
        auto& list = *static_cast<std::vector<OpEntry>*>(to);
        list.insert(list.end(), family.begin(), family.end());
      },
      &all);
  std::stable_sort(all.begin(), all.end(), before);
  for (auto entry = all.begin(); entry != all.end(); ++entry) {
    const auto first = std::lower_bound(all.begin(), entry, *entry, before);
    const auto later = std::find_if(
        first, entry, [&](const OpEntry& other) { return takes_tensor_for_number(*entry, other); });
    if (later != entry) std::rotate(later, entry, entry + 1);
  }
  return all;
}

const std::vector<OpEntry>& sorted_ops() {
  static const auto* ops = new std::vector<OpEntry>(sorted_table());  // never freed: used at exit
  return *ops;
}

// Note [Interceptors see what is below them]
// While an interceptor runs, only those pushed before it are active, so that the ops it calls pass
// the rest of the stack and never itself. The bit in t_modes is set as long as any is active.
// Autocast is not on the stack, since regions are entered and left in any order: it comes before
// all others, and is off in the ops that it runs.
struct Stack {
  std::vector<Interceptor*> all;
  size_t active = 0;
  bool autocast = false;
  OpObserver* observer = nullptr;
  void (*passed_on)(Value*, Value*) = nullptr;  // see Note [One op, observed once]
  void show() const { set_mode(kIntercept, active > 0 || autocast); }
};
Stack& stack() {
  static thread_local Stack s;
  return s;
}

class Lowered {
 public:
  explicit Lowered(Stack& s) : stack_(s), saved_(s.active), modes_(t_modes) { set(s.active - 1); }
  ~Lowered() {
    stack_.active = saved_;
    set_mode(kIntercept, modes_ & kIntercept);
  }
  Lowered(const Lowered&) = delete;
  Lowered& operator=(const Lowered&) = delete;

 private:
  void set(size_t n) {
    stack_.active = n;
    stack_.show();
  }
  Stack& stack_;
  size_t saved_;
  uint32_t modes_;
};

}  // namespace

std::span<const OpEntry> all_ops() { return sorted_ops(); }

std::span<const OpEntry> find_ops(std::string_view name) {
  if (name.find(':') != std::string_view::npos) return find_custom_entries(name);
  const auto& ops = sorted_ops();
  const auto [first, last] =
      std::equal_range(ops.begin(), ops.end(), name, [](const auto& a, const auto& b) {
        auto text = [](const auto& x) -> std::string_view {
          if constexpr (std::is_same_v<std::decay_t<decltype(x)>, OpEntry>)
            return x.name;
          else
            return x;
        };
        return text(a) < text(b);
      });
  return {first, last};
}

bool any_interceptor() { return t_modes & kIntercept && stack().active > 0; }

void push_interceptor(Interceptor* i) {
  Stack& s = stack();
  internal_assert(s.active == s.all.size(), "an interceptor was pushed by a running one");
  s.all.push_back(i);
  s.active = s.all.size();
  s.show();
}

void pop_interceptor(Interceptor* i) {
  Stack& s = stack();
  internal_assert(!s.all.empty() && s.all.back() == i, "interceptors leave in reverse order");
  s.all.pop_back();
  s.active = s.all.size();
  s.show();
}

namespace {
// The boxed function that must not be intercepted once more; see run_under.
thread_local void (*t_passing)(Value*, Value*) = nullptr;
}  // namespace

bool intercept_for_autocast(bool on) {
  Stack& s = stack();
  const bool before = s.autocast;
  s.autocast = on;
  s.show();
  return before;
}

namespace {

void run_with_interceptors(Stack& s, const OpEntry& entry, Value* args, Value* results) {
  if (s.autocast && run_autocast(entry, args, results)) return;
  if (s.active == 0) {
    // The ops inside are looked at. (A thread that took over another one's modes has the bit of
    // interceptors that it does not have.)
    if (t_modes & kSlowPath) t_passing = entry.boxed;
    return entry.boxed(args, results);
  }
  Interceptor* top = s.all[s.active - 1];
  const Lowered guard(s);
  top->call(entry, args, results);
}

// Note [One op, observed once]
// An interceptor that leaves a call as it is calls the op once more, and that comes here again. It
// is the same op if no other came in between; one whose arguments were cast or batched first is an
// op inside the op.
bool is_observed(Stack& s, const OpEntry& entry) {
  if (!s.observer) {  // a guard brought the bit back after the observer had gone
    set_mode(kObserve, false);
    return false;
  }
  return std::exchange(s.passed_on, nullptr) != entry.boxed;
}

}  // namespace

void set_observer(OpObserver* o) {
  stack().observer = o;
  set_mode(kObserve, o != nullptr);
}

void run_observed(const OpEntry& entry, Value* args, Value* results) {
  struct Passing {
    explicit Passing(Stack& stack) : s(stack) {}
    ~Passing() { s.passed_on = nullptr; }
    Stack& s;
  } passing(stack());
  if (passing.s.active > 0 || passing.s.autocast) passing.s.passed_on = entry.boxed;
  run_with_interceptors(passing.s, entry, args, results);
}

void run_intercepted(const OpEntry& entry, Value* args, Value* results) {
  Stack& s = stack();
  if (t_modes & kObserve && is_observed(s, entry)) return s.observer->observe(entry, args, results);
  run_with_interceptors(s, entry, args, results);
}

bool is_intercepted(const OpEntry& entry) {
  if (t_passing == entry.boxed) {
    t_passing = nullptr;
    return false;
  }
  // What waits may read what it changes. (Blocks ask for that just before they write.)
  if (t_modes & kDefer && entry.form != Form::Functional && entry.kind != OpKind::Compute)
    deferred::flush(" works in place", entry.name);
  return t_modes & (kIntercept | kObserve);
}

ActiveAgain::ActiveAgain(Interceptor* self) : saved_(stack().active) {
  Stack& s = stack();
  const auto at = std::find(s.all.begin(), s.all.end(), self);
  internal_assert(at != s.all.end(), "this interceptor is not installed");
  s.active = size_t(at - s.all.begin()) + 1;
  s.show();
}
ActiveAgain::~ActiveAgain() {
  stack().active = saved_;
  stack().show();
}

void run_under(Interceptor* self, const OpEntry& entry, Value* args, Value* results) {
  const ActiveAgain again(self);
  t_passing = entry.boxed;
  entry.boxed(args, results);
}

namespace {

// Makes `v` what `spec` wants, where that loses nothing; false when it does not fit.
bool fit(Value& v, const ArgSpec& spec) {
  using Tag = Value::Tag;
  const Tag tag = v.tag();
  if (tag == Tag::None) return spec.optional;
  auto number = [&](Scalar& s) {
    if (tag == Tag::Scalar)
      s = v.scalar();
    else if (tag == Tag::Int)
      s = Scalar(v.integer());
    else if (tag == Tag::Float)
      s = Scalar(v.real());
    else if (tag == Tag::Bool)
      s = Scalar(v.boolean());
    else
      return false;
    return true;
  };
  Scalar s;
  switch (spec.kind) {
    case ArgKind::Tensor:
      return tag == Tag::Tensor;
    case ArgKind::Operand:
      if (tag == Tag::Tensor) return true;
      if (!number(s)) return false;
      v.own(wrap_number(s));
      return true;
    case ArgKind::Scalar:
      if (!number(s)) return false;
      v.set(s);
      return true;
    case ArgKind::Float:
      if (!number(s) || s.is_complex()) return false;
      v.set(s.to_double());
      return true;
    case ArgKind::Int:
      if (!number(s) || s.is_floating() || s.is_complex()) return false;
      v.set(s.to_int());
      return true;
    case ArgKind::Bool:
      return tag == Tag::Bool;
    case ArgKind::Tensors:
      return tag == Tag::Tensors;
    case ArgKind::Ints:
      return tag == Tag::Ints;
    case ArgKind::Floats:
      return tag == Tag::Floats;
    case ArgKind::String:
      return tag == Tag::String;
    case ArgKind::DType:
      return tag == Tag::DType;
    case ArgKind::Device:
      return tag == Tag::Device;
    case ArgKind::Layout:
      return tag == Tag::Layout;
    case ArgKind::MemoryFormat:
      return tag == Tag::MemoryFormat;
    case ArgKind::Generator:
      return tag == Tag::Generator;
  }
  return false;
}

bool fits(const OpEntry& entry, std::span<Value> args) {
  if (args.size() > entry.args.size()) return false;
  for (size_t i = 0; i < entry.args.size(); ++i) {
    if (i < args.size() ? !fit(args[i], entry.args[i])
                        : entry.args[i].default_kind == DefaultKind::Required) {
      return false;
    }
  }
  // An out form without its out is the plain one.
  return entry.form != Form::Out || (args.size() == entry.args.size() && !args.back().is_none());
}

}  // namespace

std::vector<Value> call_by_name(std::string_view name, std::span<Value> args) {
  const auto overloads = find_ops(name);
  check_argument(!overloads.empty(), name, "there is no operator of this name");
  for (const OpEntry& entry : overloads) {
    if (!fits(entry, args)) continue;
    std::vector<Value> full;
    for (size_t i = 0; i < entry.args.size(); ++i) {
      if (i < args.size())
        full.push_back(std::move(args[i]));
      else
        full.push_back(default_argument(entry, i));
    }
    std::array<Value, kMaxResults> out;
    entry.boxed(full.data(), out.data());
    std::vector<Value> results;
    for (int i = 0; i < entry.num_results; ++i) {
      if (out[i].tag() == Value::Tag::Tensor && !out[i].owned())
        out[i].own(Tensor(out[i].tensor()));
      results.push_back(std::move(out[i]));
    }
    return results;
  }
  fail(ErrorKind::Type, name, "no overload takes these ", args.size(), " arguments");
}

}  // namespace rush
