#include "jit/graph_function.h"

namespace rush::jit {
namespace {

Operand local(uint32_t index) {
  Operand o;
  o.kind = Operand::Kind::Local;
  o.index = index;
  return o;
}
Statement statement(Statement::Kind kind) {
  Statement s{};
  s.kind = kind;
  return s;
}
Operand known(IValue value) {
  Operand o;
  o.value = std::move(value);
  return o;
}

class Converter {
 public:
  Converter(const Graph& graph, const std::string& name) : graph_(graph) {
    function_.name = name;
    function_.is_method = true;
    places_.assign(graph.num_values, kNowhere);
  }

  Function run() {
    for (const Input& input : graph_.inputs) {
      function_.inputs.push_back({input.name, std::nullopt});
      function_.locals.push_back(type_of(input.structure));
    }
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) unpack(graph_.inputs[i].structure, i);
    for (const Symbol& s : graph_.symbols)
      symbols_.push_back(
          local(built("size", {local(places_[s.value]), known(int64_t(s.dim))}, "int")));
    for (const Instruction& i : graph_.body) {
      enter(i.modes);
      instruction(i);
    }
    leave();
    function_.result = type_of(graph_.output);
    Statement returned = statement(Statement::Kind::Return);
    returned.args = {packed(graph_.output)};
    statements().push_back(std::move(returned));
    return std::move(function_);
  }

 private:
  std::vector<Statement>& statements() { return inside_ ? inside_->body : function_.body; }
  uint32_t new_local(TypePointer type) {
    function_.locals.push_back(std::move(type));
    return uint32_t(function_.locals.size() - 1);
  }
  uint32_t new_local(const char* type) { return new_local(parse_type(type)); }
  uint32_t built(const char* name, std::vector<Operand> args, TypePointer type) {
    Statement s = statement(Statement::Kind::Builtin);
    s.builtin = find_builtin(name);
    internal_assert(s.builtin, "a builtin that traces need is there");
    s.args = std::move(args);
    s.to = {new_local(std::move(type))};
    statements().push_back(std::move(s));
    return statements().back().to[0];
  }
  uint32_t built(const char* name, std::vector<Operand> args, const char* type) {
    return built(name, std::move(args), parse_type(type));
  }

  // Instructions that set the same modes stand in one `with`.
  void enter(const Modes& modes) {
    if (inside_ && inside_->modes == modes) return;
    leave();
    if (modes == Modes{}) return;
    inside_.emplace(statement(Statement::Kind::With));
    inside_->modes = modes;
  }
  void leave() {
    if (!inside_) return;
    Statement done = std::move(*inside_);
    inside_.reset();
    function_.body.push_back(std::move(done));
  }

  TypePointer type_of(const Structure& s) const {
    if (s.kind == IValue::Kind::Tensor) return parse_type("Tensor");
    if (s.kind == IValue::Kind::None) return parse_type("None");
    auto type = std::make_shared<Type>();
    std::vector<TypePointer> items;
    for (const Structure& item : s.items) items.push_back(type_of(item));
    if (s.kind == IValue::Kind::Tuple) {
      type->kind = Type::Kind::Tuple;
      type->items = std::move(items);
      return type;
    }
    const bool dict = s.kind == IValue::Kind::Dict;
    type->kind = dict ? Type::Kind::Dict : Type::Kind::List;
    if (dict) type->items.push_back(parse_type("str"));
    for (const TypePointer& item : items)
      check(*item == *items[0], ErrorKind::Runtime, "trace", "the items of a ",
            dict ? "dict" : "list", " must be of one type in a program with functions, not ",
            shown(*items[0]), " and ", shown(*item), "; use a tuple");
    type->items.push_back(items.empty() ? parse_type("Tensor") : items[0]);
    return type;
  }

  void unpack(const Structure& s, uint32_t from) {
    if (s.kind == IValue::Kind::Tensor) places_[s.place.index] = from;
    for (size_t k = 0; k < s.items.size(); ++k) {
      const TypePointer type = type_of(s.items[k]);
      const Operand container = local(from), number = known(int64_t(k));
      if (s.kind == IValue::Kind::Tuple)
        unpack(s.items[k], built("item", {container, number}, type));
      else if (s.kind == IValue::Kind::List)
        unpack(s.items[k], built("get", {container, number}, type));
      else
        unpack(s.items[k], built("get_key", {container, known(s.keys[k])}, type));
    }
  }
  Operand packed(const Structure& s) {
    if (s.kind == IValue::Kind::None) return known(IValue());
    if (s.kind == IValue::Kind::Tensor) return operand(s.place);
    Statement made = statement(Statement::Kind::Make);
    for (size_t k = 0; k < s.items.size(); ++k) {
      if (s.kind == IValue::Kind::Dict) made.args.push_back(known(s.keys[k]));
      made.args.push_back(packed(s.items[k]));
    }
    made.to = {new_local(type_of(s))};
    statements().push_back(std::move(made));
    return local(statements().back().to[0]);
  }

  Operand operand(const Place& p) const {
    if (p.kind == Place::Kind::Value) return local(places_[p.index]);
    Operand o;
    o.kind = p.kind == Place::Kind::State ? Operand::Kind::State : Operand::Kind::Constant;
    o.index = p.index;
    return o;
  }
  Operand number(const SizeInt& n) {
    Operand sum = known(n.c[0]);
    const auto combine = [&](const char* how, const Operand& a, const Operand& b) {
      return local(built(how, {a, b}, "int"));
    };
    for (size_t k = 1; k < std::size(n.c); ++k) {
      if (n.c[k] == 0) continue;
      Operand term = known(n.c[k]);
      for (size_t s = 0; s < symbols_.size(); ++s) {
        if (k >> s & 1) term = combine("mul_int", term, symbols_[s]);
      }
      sum = combine("add_int", sum, term);
    }
    return sum;
  }
  static Operand list_of(const auto& items) {
    Operand o;
    o.kind = Operand::Kind::List;
    for (const auto& item : items) o.items.push_back(known(IValue(item)));
    return o;
  }
  Operand operand(const Literal& literal, const ArgSpec& spec) {
    return std::visit(
        [&]<class T>(const T& x) {
          if constexpr (std::is_same_v<T, std::monostate>) {
            return known(IValue());
          } else if constexpr (std::is_same_v<T, Scalar>) {
            check(!x.is_complex(), ErrorKind::Runtime, "trace",
                  "a complex number outside of tensors cannot stand in a program with functions");
            return known(IValue::number(x));
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                               std::is_same_v<T, std::vector<double>>) {
            return list_of(x);
          } else if constexpr (std::is_same_v<T, SizeInts>) {
            if (spec.kind != ArgKind::Ints) return number(x[0]);
            Operand list;
            list.kind = Operand::Kind::List;
            for (const SizeInt& n : x) list.items.push_back(number(n));
            return list;
          } else {
            return known(IValue(x));
          }
        },
        literal);
  }
  Operand operand(const Argument& a, const ArgSpec& spec) {
    if (const auto* place = std::get_if<Place>(&a)) return operand(*place);
    if (const auto* literal = std::get_if<Literal>(&a)) return operand(*literal, spec);
    Operand list;
    list.kind = Operand::Kind::List;
    for (const auto& place : std::get<Places>(a))
      list.items.push_back(place ? operand(*place) : known(IValue()));
    return list;
  }

  void instruction(const Instruction& i) {
    Statement s = statement(Statement::Kind::Op);
    s.op = i.op;
    for (size_t k = 0; k < i.args.size(); ++k) s.args.push_back(operand(i.args[k], i.op->args[k]));
    std::vector<std::pair<uint32_t, const std::vector<uint32_t>*>> lists;
    const auto types = result_types(*i.op);
    for (size_t k = 0; k < i.results.size(); ++k) {
      uint32_t to = kNowhere;
      if (!std::holds_alternative<std::monostate>(i.results[k])) to = new_local(types[k]);
      if (const auto* one = std::get_if<uint32_t>(&i.results[k])) places_[*one] = to;
      if (const auto* many = std::get_if<std::vector<uint32_t>>(&i.results[k]))
        lists.emplace_back(to, many);
      s.to.push_back(to);
    }
    statements().push_back(std::move(s));
    for (const auto& [list, values] : lists) take_apart(i, list, *values);
  }
  // As many tensors as in the trace, or an error.
  void take_apart(const Instruction& i, uint32_t list, const std::vector<uint32_t>& values) {
    const uint32_t length = built("len_list", {local(list)}, "int");
    const uint32_t differs =
        built("ne_int", {local(length), known(int64_t(values.size()))}, "bool");
    Statement test = statement(Statement::Kind::If), raise = statement(Statement::Kind::Raise);
    raise.error = "RuntimeError";
    raise.args = {known(concat(i.op->name, ": this program has the ", values.size(),
                               " tensors that its example inputs gave; with these inputs it gives "
                               "another number"))};
    test.args = {local(differs)};
    test.body.push_back(std::move(raise));
    statements().push_back(std::move(test));
    for (size_t k = 0; k < values.size(); ++k)
      places_[values[k]] = built("get", {local(list), known(int64_t(k))}, "Tensor");
  }

  const Graph& graph_;
  Function function_;
  std::vector<uint32_t> places_;  // of each value: its local
  std::vector<Operand> symbols_;
  std::optional<Statement> inside_;
};

}  // namespace

Function function_of(const Graph& graph, const std::string& name) {
  return Converter(graph, name).run();
}

Code with_functions(const Code& code) {
  Code made = code;
  made.methods.clear();
  for (const Code::Method& m : code.methods) made.functions.push_back(function_of(m.graph, m.name));
  return made;
}

}  // namespace rush::jit
