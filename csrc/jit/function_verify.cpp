// function_verify.cpp: types and flow of functions, checked before anything runs.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "jit/code.h"
#include "ops/framework/result_kind.h"

namespace rush::jit {
namespace {

using Kind = Type::Kind;

TypePointer simple(Kind kind) {
  static const auto* types = [] {
    auto* all = new std::vector<TypePointer>;
    for (int k = 0; k <= int(Kind::MemoryFormat); ++k) {
      auto t = std::make_shared<Type>();
      t->kind = Kind(k);
      all->push_back(std::move(t));
    }
    return all;
  }();
  return (*types)[size_t(kind)];
}

bool is_number(const Type& t) {
  return t.kind == Kind::Bool || t.kind == Kind::Int || t.kind == Kind::Float;
}

bool all_items(const Type& t, auto&& f) {
  return std::all_of(t.items.begin(), t.items.end(), [&](const TypePointer& i) { return f(*i); });
}

// Items of a list or a tuple.
bool is_sequence_of(const Type& t, auto&& f) {
  return (t.kind == Kind::List || t.kind == Kind::Tuple) && all_items(t, f);
}

}  // namespace

bool takes(const ArgSpec& spec, const Type& type) {
  if (type.kind == Kind::Union)
    return all_items(type, [&](const Type& t) { return takes(spec, t); });
  if (type.kind == Kind::None) return spec.optional;
  const auto is = [](Kind kind) { return [kind](const Type& t) { return t.kind == kind; }; };
  switch (spec.kind) {
    case ArgKind::Tensor:
    case ArgKind::Operand:
      return type.kind == Kind::Tensor || is_number(type);
    case ArgKind::Scalar:
      return is_number(type);
    case ArgKind::Tensors:
      return is_sequence_of(type, [&](const Type& t) {
        return t.kind == Kind::Tensor ||
               (spec.holes && t.is_optional() && t.items.size() == 2 &&
                t.items[1]->kind == Kind::Tensor) ||
               (spec.holes && t.kind == Kind::None);
      });
    case ArgKind::Int:
      return type.kind == Kind::Int;
    case ArgKind::Ints:
      return is_sequence_of(type, is(Kind::Int)) || (spec.broadcast > 0 && type.kind == Kind::Int);
    case ArgKind::Float:
      return type.kind == Kind::Float || type.kind == Kind::Int;
    case ArgKind::Floats:
      return is_sequence_of(
          type, [](const Type& t) { return t.kind == Kind::Float || t.kind == Kind::Int; });
    case ArgKind::Bool:
      return type.kind == Kind::Bool;
    case ArgKind::String:
      return type.kind == Kind::Str;
    case ArgKind::DType:
      return type.kind == Kind::DType;
    case ArgKind::Device:
      return type.kind == Kind::Device;
    case ArgKind::Layout:
      return type.kind == Kind::Layout;
    case ArgKind::MemoryFormat:
      return type.kind == Kind::MemoryFormat;
    case ArgKind::Generator:
      return false;
  }
  return false;
}

std::vector<TypePointer> result_types(const OpEntry& op) {
  static const auto* others = [] {
    auto* found = new std::map<std::pair<std::string_view, std::string_view>, TypePointer>;
    const std::pair<std::string_view, const char*> names[] = {
        {"Tensor[]", "List[Tensor]"}, {"Scalar", "Union[bool, int, float]"}, {"DType", "dtype"}};
    for (const SoleResult& r : other_results()) {
      std::string text = r.kind;
      for (const auto& [kind, name] : names) {
        if (text == kind) text = name;
      }
      if (!text.empty()) found->emplace(std::pair(r.name, r.overload), parse_type(text));
    }
    return found;
  }();
  if (op.form != Form::Out) {
    const auto found = others->find({op.name, op.overload});
    if (found != others->end()) return {found->second};
  }
  return std::vector<TypePointer>(op.num_results, simple(Kind::Tensor));
}

namespace {

struct Signature {
  std::vector<TypePointer> args;
  TypePointer result;
  bool variadic = false;
};

const Signature& signature_of(const Builtin& b) {
  static const auto* all = [] {
    auto* found = new std::unordered_map<const Builtin*, Signature>;
    for (const Builtin& row : all_builtins()) {
      const std::string_view text = row.signature;
      const size_t arrow = text.find(" -> ");
      Signature s;
      s.result = parse_type(text.substr(arrow + 4), true);
      const std::string args = concat("Tuple[", text.substr(0, arrow), "]");
      s.variadic = args == "Tuple[...]";
      if (!s.variadic && arrow > 0) s.args = parse_type(args, true)->items;
      found->emplace(&row, std::move(s));
    }
    return found;
  }();
  return all->at(&b);
}

class Bindings {
 public:
  // May `given` stand for the pattern? Variables take what they first meet.
  bool fits(const TypePointer& pattern, const TypePointer& given) {
    if (pattern->kind == Kind::Variable) {
      const auto [at, fresh] = bound_.emplace(pattern->variable, given);
      return fresh || is_subtype(*given, *at->second);
    }
    if (pattern->kind == Kind::List || pattern->kind == Kind::Dict) {
      if (given->kind != pattern->kind) return false;
      for (size_t i = 0; i < pattern->items.size(); ++i) {
        const TypePointer &p = pattern->items[i], &g = given->items[i];
        if (p->kind == Kind::Variable ? !(*bound_.emplace(p->variable, g).first->second == *g)
                                      : !(*p == *g))
          return false;
      }
      return true;
    }
    return is_subtype(*given, *pattern);
  }
  TypePointer filled(const TypePointer& pattern) const {
    if (pattern->kind == Kind::Variable) return bound_.at(pattern->variable);
    if (pattern->items.empty()) return pattern;
    // Through the text, which sorts unions and leaves one None of two.
    auto t = std::make_shared<Type>(*pattern);
    for (TypePointer& item : t->items) item = filled(item);
    return pattern->kind == Kind::Union ? parse_type(shown(*t)) : t;
  }

 private:
  std::map<std::string, TypePointer> bound_;
};

class FunctionVerifier {
 public:
  FunctionVerifier(const Code& code, size_t at, const std::vector<int>& depths)
      : code_(code), at_(at), f_(code.functions[at]), depths_(depths), written_(f_.locals.size()) {}

  int run() {
    require(f_.inputs.size() <= f_.locals.size(), "it has more inputs than locals");
    for (size_t i = 0; i < f_.inputs.size(); ++i) {
      write(uint32_t(i));
      const auto& standard = f_.inputs[i].standard;
      if (!standard) continue;
      require(standard->kind == Operand::Kind::Value && fits(*type_of(*standard), *f_.locals[i]),
              "the default of '", f_.inputs[i].name, "' is no ", shown(*f_.locals[i]));
    }
    const bool falls = block(f_.body, 0, false);
    require(!falls || f_.result->kind == Kind::None, "its end can be reached without a return");
    return depth_;
  }

 private:
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (ok) [[likely]]
      return;
    const std::string where = line_ ? concat(", line ", line_) : "";
    fail(ErrorKind::Runtime, "program", "function '", f_.name, "'", where, ": ", parts...);
  }
  static bool fits(const Type& given, const Type& expected) { return is_subtype(given, expected); }

  void write(uint32_t local) {
    if (written_[local]) return;
    written_[local] = true;
    trail_.push_back(local);
  }
  std::vector<uint32_t> undo(size_t mark) {
    std::vector<uint32_t> undone(trail_.begin() + ptrdiff_t(mark), trail_.end());
    for (const uint32_t local : undone) written_[local] = false;
    trail_.resize(mark);
    return undone;
  }

  TypePointer type_of(const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::Local:
        require(o.index < f_.locals.size(), "there is no local ", o.index, ", only ",
                f_.locals.size());
        require(written_[o.index], "local ", o.index, " is read before it is written");
        return f_.locals[o.index];
      case Operand::Kind::Value:
        require(o.value.kind() != IValue::Kind::Tensor && o.value.kind() < IValue::Kind::Tuple,
                "tensors and containers are no constants");
        return simple(Kind(o.value.kind()));
      case Operand::Kind::State:
        require(o.index < code_.state.size(), "there is no state ", o.index, ", only ",
                code_.state.size());
        return simple(Kind::Tensor);
      case Operand::Kind::Constant:
        require(o.index < code_.constants.size(), "there is no constant ", o.index, ", only ",
                code_.constants.size());
        return simple(Kind::Tensor);
      case Operand::Kind::Attribute:
        require(o.index < code_.attributes.size(), "there is no attribute ", o.index, ", only ",
                code_.attributes.size());
        return code_.attributes[o.index].type;
      case Operand::Kind::List:
        require(false, "only operators are given lists like this");
    }
    return nullptr;
  }
  void assign(uint32_t local, const Type& given) {
    if (local == kNowhere) return;
    require(local < f_.locals.size(), "there is no local ", local, ", only ", f_.locals.size());
    require(fits(given, *f_.locals[local]), "local ", local, " is ", shown(*f_.locals[local]),
            ", and ", shown(given), " is written to it");
    write(local);
  }
  void count_args(const Statement& s, size_t n, size_t results) const {
    require(s.args.size() == n, "a statement has ", s.args.size(), " arguments instead of ", n);
    require(s.to.size() == results, "a statement has ", s.to.size(), " results instead of ",
            results);
  }
  void assign_one(const Statement& s, const Type& given) {
    require(s.to.size() == 1, "a statement has ", s.to.size(), " results instead of 1");
    assign(s.to[0], given);
  }

  // Does it go on after the last statement?
  bool block(const std::vector<Statement>& statements, int depth, bool in_loop) {
    require(depth < kMostBlocks, "blocks are nested more than ", kMostBlocks, " deep");
    bool falls = true;
    for (const Statement& s : statements) {
      line_ = s.line;
      require(falls, "a statement is never reached");
      falls = statement(s, depth, in_loop);
    }
    return falls;
  }

  bool statement(const Statement& s, int depth, bool in_loop) {
    const bool owns = s.kind == Statement::Kind::If || s.kind == Statement::Kind::Loop ||
                      s.kind == Statement::Kind::With;
    require(owns || (s.body.empty() && s.orelse.empty()), "only if, loop and with own statements");
    switch (s.kind) {
      case Statement::Kind::Builtin:
        builtin(s);
        return true;
      case Statement::Kind::Op:
        op(s);
        return true;
      case Statement::Kind::Call:
        call(s);
        return true;
      case Statement::Kind::If: {
        count_args(s, 1, 0);
        require(type_of(s.args[0])->kind == Kind::Bool, "the condition of an if must be a bool");
        const size_t mark = trail_.size();
        const bool first = block(s.body, depth + 1, in_loop);
        const std::vector<uint32_t> by_first = undo(mark);
        const bool second = block(s.orelse, depth + 1, in_loop);
        const std::vector<uint32_t> by_second = undo(mark);
        // What both have written stays; a branch that never ends does not count.
        if (first && second) {
          for (const uint32_t local : by_first) written_[local] = true;
          std::vector<uint32_t> both;
          for (const uint32_t local : by_second) {
            if (written_[local]) both.push_back(local);
          }
          for (const uint32_t local : by_first) written_[local] = false;
          for (const uint32_t local : both) write(local);
        } else if (first || second) {
          for (const uint32_t local : first ? by_first : by_second) write(local);
        }
        return first || second;
      }
      case Statement::Kind::Loop: {
        count_args(s, 0, 0);
        const size_t mark = trail_.size();
        const bool outer = std::exchange(leaves_, false);
        block(s.body, depth + 1, true);
        undo(mark);
        return std::exchange(leaves_, outer);
      }
      case Statement::Kind::Break:
      case Statement::Kind::Continue:
        count_args(s, 0, 0);
        require(in_loop, "break or continue outside of a loop");
        if (s.kind == Statement::Kind::Break) leaves_ = true;
        return false;
      case Statement::Kind::Return:
        count_args(s, 1, 0);
        require(fits(*type_of(s.args[0]), *f_.result), "it returns ", shown(*type_of(s.args[0])),
                ", not ", shown(*f_.result));
        return false;
      case Statement::Kind::Raise:
        count_args(s, 1, 0);
        require(type_of(s.args[0])->kind == Kind::Str, "the message of an error must be a string");
        return false;
      case Statement::Kind::Move:
        count_args(s, 1, 1);
        assign(s.to[0], *type_of(s.args[0]));
        return true;
      case Statement::Kind::SetState:
        count_args(s, 1, 0);
        require(s.index < code_.state.size(), "there is no state ", s.index);
        require(!code_.state[s.index].is_parameter,
                "a parameter cannot be replaced, only written in place");
        require(type_of(s.args[0])->kind == Kind::Tensor, "a buffer must be a tensor");
        return true;
      case Statement::Kind::SetAttribute:
        count_args(s, 1, 0);
        require(s.index < code_.attributes.size(), "there is no attribute ", s.index);
        require(fits(*type_of(s.args[0]), *code_.attributes[s.index].type), "the attribute '",
                code_.attributes[s.index].name, "' is ", shown(*code_.attributes[s.index].type),
                ", not ", shown(*type_of(s.args[0])));
        return true;
      case Statement::Kind::Make:
        make(s);
        return true;
      case Statement::Kind::Cast: {
        count_args(s, 1, 1);
        const TypePointer given = type_of(s.args[0]);
        require(s.to[0] < f_.locals.size(), "there is no local ", s.to[0]);
        const Type& wanted = *f_.locals[s.to[0]];
        require(is_subtype(wanted, *given) || is_subtype(*given, wanted), shown(*given),
                " is never ", shown(wanted));
        write(s.to[0]);
        return true;
      }
      case Statement::Kind::With:
        count_args(s, 0, 0);
        for (const auto& dtype : s.modes.autocast)
          require(!dtype || is_floating(*dtype), "autocast needs a floating dtype");
        return block(s.body, depth + 1, in_loop);
    }
    require(false, "a statement is of no kind");
    return false;
  }

  void builtin(const Statement& s) {
    const std::string_view name = s.builtin->name;
    if (name == "item" || name == "list_of") return tuple_builtin(s, name == "item");
    if (name == "set_field") return set_field(s);
    const Signature& signature = signature_of(*s.builtin);
    Bindings bindings;
    std::vector<TypePointer> given;
    for (const Operand& o : s.args) given.push_back(type_of(o));
    if (!signature.variadic) {
      require(given.size() == signature.args.size(), name, " takes ", signature.args.size(),
              " arguments, here are ", given.size());
      for (size_t k = 0; k < given.size(); ++k)
        require(bindings.fits(signature.args[k], given[k]), name, ": argument ", k, " is ",
                shown(*given[k]), ", and ", s.builtin->signature, " is expected");
    }
    assign_one(s, *bindings.filled(signature.result));
  }
  // The type of a tuple's item or an object's attribute.
  const Type& place_in(const Type& whole, const Operand& place) const {
    require(place.kind == Operand::Kind::Value && place.value.isInt() &&
                place.value.integer() >= 0 && size_t(place.value.integer()) < whole.items.size(),
            "the place in a tuple or an object must be a number that stands in the program");
    return *whole.items[size_t(place.value.integer())];
  }
  void set_field(const Statement& s) {
    count_args(s, 3, 1);
    const TypePointer object = type_of(s.args[0]);
    require(object->kind == Kind::Object, "an object was expected");
    const Type& field = place_in(*object, s.args[1]);
    require(fits(*type_of(s.args[2]), field), "an attribute of ", shown(*object), " is ",
            shown(*type_of(s.args[2])));
    assign(s.to[0], *simple(Kind::None));
  }
  void tuple_builtin(const Statement& s, bool item) {
    count_args(s, item ? 2 : 1, 1);
    const TypePointer tuple = type_of(s.args[0]);
    require(tuple->kind == Kind::Tuple || (item && tuple->kind == Kind::Object),
            "a tuple was expected");
    if (item) return assign(s.to[0], place_in(*tuple, s.args[1]));
    require(!tuple->items.empty() &&
                all_items(*tuple, [&](const Type& t) { return t == *tuple->items[0]; }),
            "a tuple of one type was expected");
    auto list = std::make_shared<Type>();
    list->kind = Kind::List;
    list->items = {tuple->items[0]};
    assign(s.to[0], *list);
  }

  void op(const Statement& s) {
    const OpEntry& entry = *s.op;
    require(may_be_called(entry), entry.name, " is only called by other operators");
    require(s.args.size() == entry.args.size(), entry.name, " takes ", entry.args.size(),
            " arguments, here are ", s.args.size());
    for (size_t k = 0; k < s.args.size(); ++k) {
      const ArgSpec& spec = entry.args[k];
      const Operand& o = s.args[k];
      bool ok;
      if (o.kind == Operand::Kind::List) {
        auto tuple = std::make_shared<Type>();
        tuple->kind = Kind::Tuple;
        for (const Operand& item : o.items) tuple->items.push_back(type_of(item));
        ok = takes(spec, *tuple);
      } else {
        ok = takes(spec, *type_of(o));
      }
      require(ok, "the argument '", spec.name, "' of ", entry.name, " does not take what is there");
    }
    const bool needs_out = entry.form == Form::Out;
    require(!needs_out || s.args.back().kind != Operand::Kind::Value, entry.name, " has no 'out'");
    const std::vector<TypePointer> results = result_types(entry);
    require(s.to.size() == results.size(), entry.name, " has ", results.size(),
            " results, here are ", s.to.size());
    for (size_t k = 0; k < results.size(); ++k) assign(s.to[k], *results[k]);
  }

  void call(const Statement& s) {
    require(s.index < at_, "a function calls only those that stand before it");
    const Function& callee = code_.functions[s.index];
    require(s.args.size() == callee.inputs.size(), callee.name, " takes ", callee.inputs.size(),
            " arguments, here are ", s.args.size());
    for (size_t k = 0; k < s.args.size(); ++k)
      require(fits(*type_of(s.args[k]), *callee.locals[k]), "the input '", callee.inputs[k].name,
              "' of ", callee.name, " is ", shown(*callee.locals[k]), ", not ",
              shown(*type_of(s.args[k])));
    depth_ = std::max(depth_, depths_[s.index] + 1);
    require(depth_ <= kMostCalls, "calls are more than ", kMostCalls, " deep");
    assign_one(s, *callee.result);
  }

  void make(const Statement& s) {
    require(s.to.size() == 1 && s.to[0] < f_.locals.size(), "what is made goes to one local");
    const Type& made = *f_.locals[s.to[0]];
    require(made.kind >= Kind::Tuple && made.kind <= Kind::Object, shown(made), " is no container");
    const bool tuple = made.kind == Kind::Tuple || made.kind == Kind::Object,
               dict = made.kind == Kind::Dict;
    require(tuple ? s.args.size() == made.items.size() : !dict || s.args.size() % 2 == 0,
            "the items do not fit ", shown(made));
    for (size_t k = 0; k < s.args.size(); ++k) {
      const Type& of = *made.items[tuple ? k : dict ? k % 2 : 0];
      require(fits(*type_of(s.args[k]), of), "an item of ", shown(made), " is ",
              shown(*type_of(s.args[k])));
    }
    write(s.to[0]);
  }

  const Code& code_;
  const size_t at_;
  const Function& f_;
  const std::vector<int>& depths_;
  std::vector<bool> written_;
  std::vector<uint32_t> trail_;  // what was written, in order
  bool leaves_ = false;          // the loop has a break
  int depth_ = 1;
  uint32_t line_ = 0;
};

}  // namespace

void verify_functions(const Code& code) {
  std::vector<int> depths;
  for (size_t i = 0; i < code.functions.size(); ++i)
    depths.push_back(FunctionVerifier(code, i, depths).run());
  for (const AttributeEntry& a : code.attributes)
    check(is_a(a.value, *a.type), ErrorKind::Runtime, "program", "the attribute '", a.name,
          "' is no ", shown(*a.type));
}

}  // namespace rush::jit
