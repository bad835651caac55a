#include "jit/machine.h"

#include <list>

#include "core/interrupt.h"
#include "jit/integers.h"
#include "jit/machine_steps.h"
#include "jit/mode_scope.h"
#include "jit/reused.h"
#include "ops/framework/boxing.h"

namespace rush::jit {
namespace {

constexpr int64_t kTurns = 1 << 14;  // of a loop, between two looks for an interrupt

using integers::overflow;

class Runner {
 public:
  Runner(const Code& code, Variables& variables) : code_(code), variables_(variables) {}

  IValue call(const Function& f, std::vector<IValue> cells) {
    const Machine& m = *f.machine;
    cells.reserve(m.num_cells + m.constants.size());
    cells.resize(m.num_cells);
    cells.insert(cells.end(), m.constants.begin(), m.constants.end());
    return steps(f, m, cells.data());
  }

 private:
  static std::string located(const std::string& message, const Function& f, const Step& s) {
    if (f.file.empty() && s.line == 0) return message;
    return concat(message, "\n  in ", f.name, f.file.empty() ? "" : " at ", f.file,
                  s.line ? concat(f.file.empty() ? " at line " : ":", s.line) : "");
  }

  // Every step jumps to the next by itself, not through one place that all share: so processors
  // foresee where it goes.
  IValue steps(const Function& f, const Machine& m, IValue* const c) {
#define RUSH_RUN goto* places[size_t(s->code)]
#define RUSH_NEXT \
  ++s;            \
  RUSH_RUN
#define RUSH_GO         \
  s = first + s->extra; \
  RUSH_RUN
#define RUSH_CHECKED(name, builtin)                                    \
  name:                                                                \
  {                                                                    \
    int64_t r;                                                         \
    if (builtin(c[s->a].integer(), c[s->b].integer(), &r)) overflow(); \
    c[s->to].put(r);                                                   \
  }                                                                    \
  RUSH_NEXT;
#define RUSH_COMPARE(name, as, op)                  \
  name:                                             \
  c[s->to].put(bool(c[s->a].as() op c[s->b].as())); \
  RUSH_NEXT;
#define RUSH_FLOAT(name, op)                              \
  name:                                                   \
  c[s->to].put(double(c[s->a].real() op c[s->b].real())); \
  RUSH_NEXT;
#define RUSH_JUMP(name, op)                     \
  name:                                         \
  if (c[s->a].integer() op c[s->b].integer()) { \
    RUSH_NEXT;                                  \
  }                                             \
  RUSH_GO;
#define RUSH_PLACE(name) &&name,
    static const void* const places[] = {RUSH_STEPS(RUSH_PLACE)};
    std::list<ModeScope> scopes;
    const Step* const first = m.steps.data();
    const Step* s = first;
    try {
      RUSH_RUN;
    None:
      RUSH_NEXT;
      RUSH_CHECKED(AddInt, __builtin_add_overflow)
      RUSH_CHECKED(SubInt, __builtin_sub_overflow)
      RUSH_CHECKED(MulInt, __builtin_mul_overflow)
      RUSH_COMPARE(LtInt, integer, <)
      RUSH_COMPARE(LeInt, integer, <=)
      RUSH_COMPARE(GtInt, integer, >)
      RUSH_COMPARE(GeInt, integer, >=)
      RUSH_COMPARE(EqInt, integer, ==)
      RUSH_COMPARE(NeInt, integer, !=)
      RUSH_FLOAT(AddFloat, +)
      RUSH_FLOAT(SubFloat, -)
      RUSH_FLOAT(MulFloat, *)
      RUSH_COMPARE(LtFloat, real, <)
      RUSH_COMPARE(LeFloat, real, <=)
      RUSH_COMPARE(GtFloat, real, >)
      RUSH_COMPARE(GeFloat, real, >=)
      RUSH_COMPARE(EqFloat, real, ==)
      RUSH_COMPARE(NeFloat, real, !=)
    Not:
      c[s->to].put(!c[s->a].boolean());
      RUSH_NEXT;
    IntToFloat:
      c[s->to].put(double(c[s->a].integer()));
      RUSH_NEXT;
    ModInt:
      c[s->to].put(integers::mod(c[s->a].integer(), c[s->b].integer()));
      RUSH_NEXT;
    FloordivInt:
      c[s->to].put(integers::floordiv(c[s->a].integer(), c[s->b].integer()));
      RUSH_NEXT;
    NegInt:
      if (c[s->a].integer() == INT64_MIN) overflow();
      c[s->to].put(-c[s->a].integer());
      RUSH_NEXT;
    DivFloat:
      c[s->to].put(integers::divide(c[s->a].real(), c[s->b].real()));
      RUSH_NEXT;
    DivInt:
      c[s->to].put(integers::divide(double(c[s->a].integer()), double(c[s->b].integer())));
      RUSH_NEXT;
      RUSH_JUMP(JumpUnlessLtInt, <)
      RUSH_JUMP(JumpUnlessLeInt, <=)
      RUSH_JUMP(JumpUnlessGtInt, >)
      RUSH_JUMP(JumpUnlessGeInt, >=)
      RUSH_JUMP(JumpUnlessEqInt, ==)
      RUSH_JUMP(JumpUnlessNeInt, !=)
    Jump:
      RUSH_GO;
    JumpUnless:
      if (c[s->a].boolean()) {
        RUSH_NEXT;
      }
      RUSH_GO;
    Repeat:
      turns_.add();
      RUSH_GO;
    ForNext:
      if (c[s->a].integer() >= c[s->b].integer()) {
        RUSH_GO;
      }
      c[s->to].put(c[s->a].integer());
      c[s->a].put(c[s->a].integer() + 1);
      RUSH_NEXT;
    MovePlain:
      c[s->to].put_plain(c[s->a]);
      RUSH_NEXT;
    Move:
      c[s->to] = c[s->a];
      RUSH_NEXT;
    Take:
      c[s->to] = std::move(c[s->a]);
      RUSH_NEXT;
    LoadState:
      c[s->to] = variables_.state[s->a];
      RUSH_NEXT;
    LoadAttribute:
      c[s->to] = variables_.attributes[s->a];
      RUSH_NEXT;
    LoadConstant:
      c[s->to] = code_.constants[s->a];
      RUSH_NEXT;
    SetState:
      variables_.state[s->extra] = c[s->a].tensor();
      RUSH_NEXT;
    SetAttribute:
      variables_.attributes[s->extra] = c[s->a];
      RUSH_NEXT;
    Builtin:
      {
        const Plan& p = m.plans[s->extra];
        const IValue* args[16];
        const size_t n = p.cells.size();
        if (n > std::size(args)) [[unlikely]] {
          many(p, c, c[s->to]);
        } else {
          for (size_t k = 0; k < n; ++k) args[k] = &c[p.cells[k]];
          p.builtin->run(args, n, c[s->to]);
        }
        empty(p, c);
      }
      RUSH_NEXT;
    Op:
      op(m.plans[s->extra], c);
      RUSH_NEXT;
    Call:
      {
        const Plan& p = m.plans[s->extra];
        std::vector<IValue> inputs;
        const Function& callee = code_.functions[p.function];
        inputs.reserve(callee.machine->num_cells + callee.machine->constants.size());
        for (const uint32_t k : p.cells) inputs.push_back(c[k]);
        empty(p, c);
        IValue result = call(callee, std::move(inputs));
        c[s->to] = std::move(result);
      }
      RUSH_NEXT;
    Make:
      {
        const Plan& p = m.plans[s->extra];
        IValue made = this->made(p, c);
        empty(p, c);
        c[s->to] = std::move(made);
      }
      RUSH_NEXT;
    Cast:
      {
        const Plan& p = m.plans[s->extra];
        IValue v = c[p.cells[0]];
        empty(p, c);
        if (p.by_kind ? !has_kind(v, *p.type) : !is_a(v, *p.type)) [[unlikely]]
          throw ScriptError("TypeError",
                            concat("expected ", shown(*p.type), ", got ", kind_name(v.kind())),
                            ErrorKind::Type);
        c[s->to] = std::move(v);
      }
      RUSH_NEXT;
    Return:
      return c[s->a];
    Raise:
      {
        const Plan& p = m.plans[s->extra];
        throw ScriptError(p.error, c[p.cells[0]].string(), kind_of_error(p.error));
      }
    Enter:
      scopes.emplace_back();
      scopes.back().enter(m.plans[s->extra].modes);
      RUSH_NEXT;
    Leave:
      scopes.pop_back();
      RUSH_NEXT;
    } catch (const ScriptError& e) {
      throw ScriptError(e.class_name(), located(e.message(), f, *s), e.kind());
    } catch (const Error& e) {
      throw Error(e.kind(), located(e.message(), f, *s));
    }
#undef RUSH_RUN
#undef RUSH_NEXT
#undef RUSH_GO
#undef RUSH_PLACE
#undef RUSH_CHECKED
#undef RUSH_COMPARE
#undef RUSH_FLOAT
#undef RUSH_JUMP
  }

  static ErrorKind kind_of_error(const std::string& name) {
    constexpr std::pair<std::string_view, ErrorKind> kinds[] = {
        {"ValueError", ErrorKind::Value},
        {"TypeError", ErrorKind::Type},
        {"IndexError", ErrorKind::Index},
        {"KeyError", ErrorKind::Index},
        {"NotImplementedError", ErrorKind::NotImplemented},
        {"OverflowError", ErrorKind::Overflow}};
    for (const auto& [known, kind] : kinds) {
      if (name == known) return kind;
    }
    return ErrorKind::Runtime;
  }
  static bool has_kind(const IValue& v, const Type& type) {
    if (type.kind != Type::Kind::Union) return size_t(v.kind()) == size_t(type.kind);
    for (const TypePointer& t : type.items) {
      if (size_t(v.kind()) == size_t(t->kind)) return true;
    }
    return false;
  }
  static void empty(const Plan& p, IValue* c) {
    for (const uint32_t k : p.passing) c[k] = IValue();
  }
  [[gnu::noinline]] static void many(const Plan& p, IValue* c, IValue& out) {
    std::vector<const IValue*> args;
    for (const uint32_t k : p.cells) args.push_back(&c[k]);
    p.builtin->run(args.data(), args.size(), out);
  }
  static IValue made(const Plan& p, const IValue* c) {
    IValue::Items items;
    items.reserve(p.cells.size());
    if (p.type->kind == Type::Kind::Dict) {
      IValue::Items keys;
      for (size_t k = 0; k < p.cells.size(); k += 2) {
        keys.push_back(c[p.cells[k]]);
        items.push_back(c[p.cells[k + 1]]);
      }
      return IValue::dict(std::move(keys), std::move(items));
    }
    for (const uint32_t k : p.cells) items.push_back(c[k]);
    if (p.type->kind == Type::Kind::Object) return IValue::object(std::move(items), p.type->names);
    return p.type->kind == Type::Kind::Tuple ? IValue::tuple(std::move(items), p.type->names)
                                             : IValue::list(std::move(items));
  }

  // Ops ------------------------------------------------------------------------------------------

  static int64_t int_of(const IValue& v) { return v.integer(); }
  static double float_of(const IValue& v) { return v.isInt() ? double(v.integer()) : v.real(); }

  const Tensor& tensor_at(const ArgPlan& a, const IValue* c) {
    static const Tensor none;
    switch (a.from) {
      case ArgPlan::From::State:
        return variables_.state[a.index];
      case ArgPlan::From::Constant:
        return code_.constants[a.index];
      case ArgPlan::From::Cell:
        if (c[a.index].isTensor()) return c[a.index].tensor();
        if (c[a.index].is_number()) return numbers_.next() = wrap_number(c[a.index].scalar());
        return none;
      default:
        return none;
    }
  }

  void fill(Value& v, const ArgPlan& a, const IValue* c) {
    if (a.from == ArgPlan::From::Nothing) return;
    if (a.from == ArgPlan::From::State || a.from == ArgPlan::From::Constant) {
      const Tensor& t = tensor_at(a, c);
      if (a.kind == ArgKind::Tensors) return v.own(std::vector<Tensor>{t});
      if (t.defined()) v.borrow(t.impl());
      return;
    }
    if (a.from == ArgPlan::From::List) return fill_list(v, a, c);
    const IValue& x = c[a.index];
    if (x.isNone()) return;
    switch (a.kind) {
      case ArgKind::Tensor:
      case ArgKind::Operand:
        if (x.isTensor()) [[likely]]
          return v.borrow(x.tensor().impl());
        if (a.number.defined()) return v.borrow(a.number.impl());
        return v.own(wrap_number(x.scalar()));
      case ArgKind::Scalar:
        return v.set(x.scalar());
      case ArgKind::Int:
        return v.set(x.integer());
      case ArgKind::Float:
        return v.set(float_of(x));
      case ArgKind::Bool:
        return v.set(x.boolean());
      case ArgKind::String:
        return v.borrow(std::string_view(x.string()));
      case ArgKind::DType:
        return v.set(DType(x.integer()));
      case ArgKind::Device:
        return v.set(x.device());
      case ArgKind::Layout:
        return v.set(Layout(x.integer()));
      case ArgKind::MemoryFormat:
        return v.set(MemoryFormat(x.integer()));
      case ArgKind::Ints: {
        Dims& dims = ints_.next();
        if (x.isInt())
          for (int k = 0; k < a.broadcast; ++k) dims.push_back(x.integer());
        else
          for (const IValue& item : x.items()) dims.push_back(item.integer());
        return v.borrow(IntList(dims));
      }
      case ArgKind::Floats: {
        std::vector<double>& floats = floats_.next();
        for (const IValue& item : x.items()) floats.push_back(float_of(item));
        return v.borrow(std::span<const double>(floats));
      }
      case ArgKind::Tensors: {
        std::vector<Tensor> tensors;
        tensors.reserve(x.items().size());
        for (const IValue& item : x.items())
          tensors.push_back(item.isTensor() ? item.tensor() : Tensor());
        return v.own(std::move(tensors));
      }
      case ArgKind::Generator:
        return;
    }
  }
  void fill_list(Value& v, const ArgPlan& a, const IValue* c) {
    if (a.kind == ArgKind::Ints) {
      Dims& dims = ints_.next();
      for (const ArgPlan& item : a.items) dims.push_back(c[item.index].integer());
      return v.borrow(IntList(dims));
    }
    if (a.kind == ArgKind::Floats) {
      std::vector<double>& floats = floats_.next();
      for (const ArgPlan& item : a.items) floats.push_back(float_of(c[item.index]));
      return v.borrow(std::span<const double>(floats));
    }
    std::vector<Tensor> tensors;
    for (const ArgPlan& item : a.items) tensors.push_back(tensor_at(item, c));
    v.own(std::move(tensors));
  }

  void op(const Plan& p, IValue* c) {
    const size_t n = p.args.size();
    if (n > args_.size()) [[unlikely]]
      args_.resize(n);
    const Borrowed borrowed{*this, n, p.borrows};
    for (size_t k = 0; k < n; ++k) fill(args_[k], p.args[k], c);
    p.op->boxed(args_.data(), results_);
    for (size_t k = 0; k < p.to.size(); ++k) {
      if (p.to[k] != kNowhere) keep(p, c[p.to[k]], results_[k], p.kinds[k]);
      results_[k].clear();
    }
    empty(p, c);
  }
  // Empties the arguments, whether the op throws or not: an error may be caught, and the run go on
  // elsewhere.
  struct Borrowed {
    Runner& r;
    size_t n;
    bool pools;
    ~Borrowed() {
      for (size_t k = 0; k < n; ++k) r.args_[k].clear();
      if (!pools) return;
      r.ints_.clear();
      r.floats_.clear();
      r.numbers_.clear();
    }
  };

  static void keep(const Plan& p, IValue& to, Value& v, Type::Kind expected) {
    if (expected == Type::Kind::Tensor && v.tag() == Value::Tag::Tensor) [[likely]] {
      to = IValue(v.take_tensor());
      return;
    }
    IValue made;
    switch (v.tag()) {
      case Value::Tag::Tensor:
        made = IValue(v.take_tensor());
        break;
      case Value::Tag::Tensors: {
        IValue::Items items;
        items.reserve(v.tensors().size());
        for (const Tensor& t : v.tensors()) items.emplace_back(t);
        made = IValue::list(std::move(items));
        break;
      }
      case Value::Tag::Scalar:
        made = IValue::number(v.scalar());
        break;
      case Value::Tag::Int:
        made = v.integer();
        break;
      case Value::Tag::Float:
        made = v.real();
        break;
      case Value::Tag::Bool:
        made = v.boolean();
        break;
      case Value::Tag::DType:
        made = v.dtype();
        break;
      default:
        break;
    }
    const bool fits =
        expected == Type::Kind::Union ? made.is_number() : size_t(made.kind()) == size_t(expected);
    if (!fits) [[unlikely]]
      fail(ErrorKind::Runtime, p.op->name, "a result is ", kind_name(made.kind()),
           " with these arguments, which programs cannot keep");
    to = std::move(made);
  }

  const Code& code_;
  Variables& variables_;
  std::vector<Value> args_ = std::vector<Value>(16);
  Value results_[kMaxResults];
  // What args_ borrows.
  Pool<Dims> ints_;
  Pool<std::vector<double>> floats_;
  Pool<Tensor> numbers_;
  InterruptCounter turns_{kTurns};
};

}  // namespace

IValue run(const Code& code, const Function& f, Variables& variables,
           const std::vector<IValue>& inputs) {
  check(inputs.size() <= f.inputs.size(), ErrorKind::Type, f.name, "expected at most ",
        f.inputs.size(), " inputs, got ", inputs.size());
  std::vector<IValue> cells;
  cells.reserve(f.machine->num_cells + f.machine->constants.size());
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const auto& [name, standard] = f.inputs[i];
    check(i < inputs.size() || standard, ErrorKind::Type, f.name, "the input '", name,
          "' is missing");
    const IValue& given = i < inputs.size() ? inputs[i] : standard->value;
    const Type& type = *f.locals[i];
    if (type.kind < Type::Kind::Tuple && size_t(given.kind()) == size_t(type.kind)) [[likely]]
      cells.push_back(given);
    else
      cells.push_back(taken_as(given, type, concat(f.name, ": the input '", name, "'")));
  }
  return Runner(code, variables).call(f, std::move(cells));
}

}  // namespace rush::jit
