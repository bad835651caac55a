#include "jit/function_json.h"

#include <cmath>

#include "jit/json_reader.h"

namespace rush::jit {
namespace {

using Kind = Statement::Kind;

// Writing ------------------------------------------------------------------------------------------

Json json_of_value(const IValue& v, const std::string& name) {
  switch (v.kind()) {
    case IValue::Kind::None:
      return Json();
    case IValue::Kind::Tensor:
      break;
    case IValue::Kind::Bool:
      return Json(v.boolean());
    case IValue::Kind::Int:
      return Json(v.integer());
    case IValue::Kind::Double: {
      const double d = v.real();
      if (std::isfinite(d)) return Json(d);
      return Json::Object{{"float", Json(std::isnan(d) ? "nan" : d > 0 ? "inf" : "-inf")}};
    }
    case IValue::Kind::String:
      return Json(v.string());
    case IValue::Kind::DType:
      return Json::Object{{"dtype", Json(concat(DType(v.integer())))}};
    case IValue::Kind::Device:
      return Json::Object{{"device", Json(concat(v.device()))}};
    case IValue::Kind::Layout:
      return Json::Object{{"layout", Json("strided")}};
    case IValue::Kind::MemoryFormat:
      return Json::Object{{"memory_format", Json(concat(MemoryFormat(v.integer())))}};
    case IValue::Kind::Tuple:
    case IValue::Kind::List: {
      Json::Array items;
      for (const IValue& item : v.items()) items.push_back(json_of_value(item, name));
      return Json::Object{{v.isTuple() ? "tuple" : "list", Json(std::move(items))}};
    }
    case IValue::Kind::Object: {
      Json::Array items{Json(v.names()->name)};
      for (size_t i = 0; i < v.items().size(); ++i)
        items.push_back(Json::Array{Json(v.names()->fields[i]), json_of_value(v.items()[i], name)});
      return Json::Object{{"object", Json(std::move(items))}};
    }
    case IValue::Kind::Dict: {
      Json::Array items;
      for (size_t i = 0; i < v.dict().keys.size(); ++i)
        items.push_back(Json::Array{json_of_value(v.dict().keys[i], name),
                                    json_of_value(v.dict().items[i], name)});
      return Json::Object{{"dict", Json(std::move(items))}};
    }
  }
  fail(ErrorKind::Runtime, "save", "the attribute '", name,
       "' holds a tensor now, and files keep tensors of parameters and buffers only; register it "
       "as a buffer, or empty it before");
}

constexpr std::pair<Operand::Kind, const char*> kOperands[] = {
    {Operand::Kind::State, "state"},
    {Operand::Kind::Constant, "constant"},
    {Operand::Kind::Attribute, "attribute"}};

Json json_of(const Operand& o) {
  if (o.kind == Operand::Kind::Local) return Json(o.index);
  if (o.kind == Operand::Kind::Value) return Json::Object{{"is", json_of_value(o.value, "")}};
  if (o.kind == Operand::Kind::List) {
    Json::Array items;
    for (const Operand& item : o.items) items.push_back(json_of(item));
    return Json::Object{{"list", Json(std::move(items))}};
  }
  for (const auto& [kind, name] : kOperands) {
    if (kind == o.kind) return Json::Object{{name, Json(o.index)}};
  }
  return Json();
}
Json json_of(const std::vector<Operand>& operands) {
  Json::Array items;
  for (const Operand& o : operands) items.push_back(json_of(o));
  return Json(std::move(items));
}
Json json_of(const std::vector<Statement>& body);
Json target(uint32_t local) { return local == kNowhere ? Json() : Json(local); }

Json modes_of(const Modes& modes) {
  Json::Object o;
  if (modes.grad) o.emplace_back("grad", Json(*modes.grad));
  Json::Object autocast;
  for (int k = 0; k < kDeviceTypeCount; ++k) {
    if (modes.autocast[k])
      autocast.emplace_back(std::string(name(DeviceType(k))), Json(concat(*modes.autocast[k])));
  }
  if (!autocast.empty()) o.emplace_back("autocast", Json(std::move(autocast)));
  return Json(std::move(o));
}

Json::Object object_of(const Statement& s) {
  switch (s.kind) {
    case Kind::Builtin:
      return {{"do", Json(s.builtin->name)}, {"args", json_of(s.args)}, {"to", target(s.to[0])}};
    case Kind::Op: {
      Json::Object o{{"op", Json(s.op->name)}}, args;
      if (*s.op->overload) o.emplace_back("overload", Json(s.op->overload));
      if (s.op->form == Form::Out) o.emplace_back("form", Json("out"));
      for (size_t k = 0; k < s.args.size(); ++k) {
        const bool none = s.args[k].kind == Operand::Kind::Value && s.args[k].value.isNone();
        if (!none || s.op->args[k].default_kind != DefaultKind::None)
          args.emplace_back(s.op->args[k].name, json_of(s.args[k]));
      }
      o.emplace_back("args", Json(std::move(args)));
      Json::Array to;
      for (const uint32_t local : s.to) to.push_back(target(local));
      o.emplace_back("to", Json(std::move(to)));
      return o;
    }
    case Kind::Call:
      return {{"call", Json(s.index)}, {"args", json_of(s.args)}, {"to", target(s.to[0])}};
    case Kind::If:
      return {{"if", json_of(s.args[0])}, {"then", json_of(s.body)}, {"else", json_of(s.orelse)}};
    case Kind::Loop:
      return {{"loop", json_of(s.body)}};
    case Kind::Break:
      return {{"break", Json(true)}};
    case Kind::Continue:
      return {{"continue", Json(true)}};
    case Kind::Return:
      return {{"return", json_of(s.args[0])}};
    case Kind::Raise:
      return {{"raise", Json(s.error)}, {"message", json_of(s.args[0])}};
    case Kind::Move:
      return {{"move", json_of(s.args[0])}, {"to", target(s.to[0])}};
    case Kind::SetState:
      return {{"set_state", Json(s.index)}, {"value", json_of(s.args[0])}};
    case Kind::SetAttribute:
      return {{"set_attribute", Json(s.index)}, {"value", json_of(s.args[0])}};
    case Kind::Make:
      return {{"make", json_of(s.args)}, {"to", target(s.to[0])}};
    case Kind::Cast:
      return {{"cast", json_of(s.args[0])}, {"to", target(s.to[0])}};
    case Kind::With:
      return {{"with", modes_of(s.modes)}, {"body", json_of(s.body)}};
  }
  return {};
}
Json json_of(const std::vector<Statement>& body) {
  Json::Array statements;
  for (const Statement& s : body) {
    Json::Object o = object_of(s);
    if (s.line) o.emplace_back("line", Json(s.line));
    statements.push_back(Json(std::move(o)));
  }
  return Json(std::move(statements));
}

// Reading ------------------------------------------------------------------------------------------

class FunctionReader : JsonReader {
 public:
  using JsonReader::JsonReader;

  Function function(const Json& j) {
    keys(j, {"name", "file", "method", "inputs", "locals", "returns", "body"});
    Function f;
    f.name = text(j, "name");
    context_ = concat("function '", f.name, "': ");
    f.file = text(j, "file");
    f.is_method = boolean(j, "method");
    for (const Json& t : array(j, "locals")) f.locals.push_back(type(t));
    for (const Json& input : array(j, "inputs")) {
      keys(input, {"name", "default"});
      auto& added = f.inputs.emplace_back();
      added.name = text(input, "name");
      if (const Json* standard = input.find("default")) added.standard = operand(*standard);
    }
    f.result = type(member(j, "returns"));
    f.body = block(member(j, "body"));
    return f;
  }

  AttributeEntry attribute(const Json& j) {
    keys(j, {"name", "type", "value"});
    AttributeEntry a;
    a.name = text(j, "name");
    context_ = concat("attribute '", a.name, "': ");
    a.type = type(member(j, "type"));
    const IValue given = value(member(j, "value"), 0);
    try {
      a.value = taken_as(given, *a.type, a.name);
    } catch (const Error& e) {
      require(false, e.message());
    }
    return a;
  }

 private:
  // Programs use few types many times.
  TypePointer type(const Json& j) {
    const std::string& name = word(j);
    for (const auto& [known, parsed] : types_) {
      if (known == name) return parsed;
    }
    TypePointer parsed = parse_type(name);
    if (types_.size() < 64) types_.emplace_back(name, parsed);
    return parsed;
  }

  IValue value(const Json& j, int depth) const {
    require(depth < kMostNesting, "values are nested too deep");
    if (j.is_null()) return {};
    if (j.boolean()) return *j.boolean();
    if (j.integer()) return *j.integer();
    if (j.real()) return *j.real();
    if (j.string()) return *j.string();
    require(j.object() && j.object()->size() == 1, "a value was expected");
    const auto& [key, inner] = j.object()->front();
    if (key == "float") return real(j);
    if (key == "dtype") return dtype(inner);
    if (key == "device") return device(word(inner));
    if (key == "layout") return Layout::Strided;
    if (key == "memory_format") return format(inner);
    if (key == "object") return object(items(inner), depth);
    IValue::Items names, found;
    require(key == "list" || key == "tuple" || key == "dict", "there is no value '", key, "'");
    for (const Json& item : items(inner)) {
      if (key == "dict") {
        require(items(item).size() == 2, "a dict has pairs");
        names.push_back(value(items(item)[0], depth + 1));
        require(names.back().is_number() || names.back().isString(), "keys are numbers or strings");
      }
      found.push_back(value(key == "dict" ? items(item)[1] : item, depth + 1));
    }
    if (key == "dict") return IValue::dict(std::move(names), std::move(found));
    return key == "list" ? IValue::list(std::move(found)) : IValue::tuple(std::move(found));
  }

  // [class, [attribute, value], ...]
  IValue object(const Json::Array& parts, int depth) const {
    require(!parts.empty(), "an object has a class");
    auto names = std::make_shared<TupleNames>();
    names->name = word(parts[0]);
    IValue::Items found;
    for (size_t i = 1; i < parts.size(); ++i) {
      require(items(parts[i]).size() == 2, "an attribute has a name and a value");
      names->fields.push_back(word(items(parts[i])[0]));
      found.push_back(value(items(parts[i])[1], depth + 1));
    }
    return IValue::object(std::move(found), std::move(names));
  }

  Operand operand(const Json& j, bool in_list = false) const {
    Operand o;
    if (j.integer()) {
      o.kind = Operand::Kind::Local;
      o.index = index(j);
      return o;
    }
    require(j.object() && j.object()->size() == 1, "an operand was expected");
    const auto& [key, inner] = j.object()->front();
    if (key == "is") {
      o.value = value(inner, 0);
      return o;
    }
    if (key == "list") {
      require(!in_list, "lists of an operator's argument are not nested");
      o.kind = Operand::Kind::List;
      for (const Json& item : items(inner)) o.items.push_back(operand(item, true));
      return o;
    }
    for (const auto& [kind, name] : kOperands) {
      if (key != name) continue;
      o.kind = kind;
      o.index = index(inner);
      return o;
    }
    require(false, "there is no operand '", key, "'");
    return o;
  }
  std::vector<Operand> operands(const Json& j) const {
    std::vector<Operand> found;
    for (const Json& item : items(j)) found.push_back(operand(item));
    return found;
  }
  uint32_t local(const Json& j) const { return j.is_null() ? kNowhere : index(j); }

  std::vector<Statement> block(const Json& j) {
    std::vector<Statement> found;
    for (const Json& item : items(j)) found.push_back(statement(item));
    return found;
  }

  Statement statement(const Json& j) {
    require(j.object() && !j.object()->empty(), "a statement was expected");
    const std::string& key = j.object()->front().first;
    const Json& first = j.object()->front().second;
    Statement s{};
    const Json* line = j.find("line");
    if (line) s.line = index(*line);
    const auto only = [&](std::initializer_list<std::string_view> known) {
      keys(j, known);
      require(j.object()->size() == known.size() - (line ? 0 : 1), "a part of '", key,
              "' is missing");
    };
    const auto to_one = [&] { s.to = {local(member(j, "to"))}; };
    if (key == "do") {
      only({"do", "args", "to", "line"});
      s.kind = Kind::Builtin;
      s.builtin = find_builtin(word(first));
      require(s.builtin, "there is no builtin '", word(first), "'");
      s.args = operands(member(j, "args"));
      to_one();
    } else if (key == "op") {
      op(j, s);
    } else if (key == "call") {
      only({"call", "args", "to", "line"});
      s.kind = Kind::Call;
      s.index = index(first);
      s.args = operands(member(j, "args"));
      to_one();
    } else if (key == "if") {
      only({"if", "then", "else", "line"});
      s.kind = Kind::If;
      s.args = {operand(first)};
      s.body = block(member(j, "then"));
      s.orelse = block(member(j, "else"));
    } else if (key == "loop") {
      only({"loop", "line"});
      s.kind = Kind::Loop;
      s.body = block(first);
    } else if (key == "break" || key == "continue") {
      only({key, "line"});
      s.kind = key == "break" ? Kind::Break : Kind::Continue;
    } else if (key == "return") {
      only({"return", "line"});
      s.kind = Kind::Return;
      s.args = {operand(first)};
    } else if (key == "raise") {
      only({"raise", "message", "line"});
      s.kind = Kind::Raise;
      s.error = word(first);
      s.args = {operand(member(j, "message"))};
    } else if (key == "move" || key == "cast") {
      only({key, "to", "line"});
      s.kind = key == "move" ? Kind::Move : Kind::Cast;
      s.args = {operand(first)};
      to_one();
      require(s.to[0] != kNowhere, "a value goes nowhere");
    } else if (key == "set_state" || key == "set_attribute") {
      only({key, "value", "line"});
      s.kind = key == "set_state" ? Kind::SetState : Kind::SetAttribute;
      s.index = index(first);
      s.args = {operand(member(j, "value"))};
    } else if (key == "make") {
      only({"make", "to", "line"});
      s.kind = Kind::Make;
      s.args = operands(first);
      to_one();
    } else if (key == "with") {
      only({"with", "body", "line"});
      s.kind = Kind::With;
      s.modes = modes(first);
      s.body = block(member(j, "body"));
    } else {
      require(false, "there is no statement '", key, "'");
    }
    return s;
  }

  Modes modes(const Json& j) const {
    keys(j, {"grad", "autocast"});
    Modes m;
    if (j.find("grad")) m.grad = boolean(j, "grad");
    if (const Json* autocast = j.find("autocast")) {
      keys(*autocast, {"cpu", "cuda"});
      for (const auto& [type, precision] : *autocast->object())
        m.autocast[size_t(device(type).type)] = dtype(precision);
    }
    return m;
  }

  void op(const Json& j, Statement& s) {
    keys(j, {"op", "overload", "form", "args", "to", "line"});
    s.kind = Kind::Op;
    const std::string& name = text(j, "op");
    const std::string overload = j.find("overload") ? text(j, "overload") : "";
    const bool out = j.find("form") != nullptr;
    require(!out || text(j, "form") == "out", "there is no such form");
    for (const Form form : {Form::Functional, Form::InPlace, Form::Out}) {
      if ((form == Form::Out) == out && !s.op) s.op = find_entry(name, overload, form);
    }
    require(s.op, "there is no operator '", name, overload.empty() ? "" : ".", overload, "'");
    const Json& args = member(j, "args");
    require(args.object(), "'args' must be a map");
    size_t used = 0;
    for (const ArgSpec& spec : s.op->args) {
      const Json* given = args.find(spec.name);
      used += given != nullptr;
      require(given || spec.default_kind != DefaultKind::Required, name, " needs the argument '",
              spec.name, "'");
      s.args.push_back(given ? operand(*given) : default_of(spec));
    }
    require(used == args.object()->size(), name, " has no such argument as one that is given");
    for (const Json& r : array(j, "to")) s.to.push_back(local(r));
  }
  static Operand default_of(const ArgSpec& spec) {
    Operand o;
    if (!spec.make_default) return o;
    const Value v = spec.make_default();
    const auto list = [&](const auto& numbers) {
      o.kind = Operand::Kind::List;
      for (const auto n : numbers) o.items.emplace_back().value = IValue(n);
    };
    switch (v.tag()) {
      case Value::Tag::Ints:
        list(v.ints());
        break;
      case Value::Tag::Floats:
        list(v.floats());
        break;
      case Value::Tag::Scalar:
        o.value = IValue::number(v.scalar());
        break;
      case Value::Tag::Tensor:
        o.value = IValue::number(v.tensor().item());
        break;
      case Value::Tag::Int:
        o.value = v.integer();
        break;
      case Value::Tag::Float:
        o.value = v.real();
        break;
      case Value::Tag::Bool:
        o.value = v.boolean();
        break;
      case Value::Tag::String:
        o.value = std::string(v.string());
        break;
      case Value::Tag::DType:
        o.value = v.dtype();
        break;
      case Value::Tag::Device:
        o.value = v.device();
        break;
      case Value::Tag::Layout:
        o.value = v.layout();
        break;
      case Value::Tag::MemoryFormat:
        o.value = v.memory_format();
        break;
      default:
        break;
    }
    return o;
  }

  std::vector<std::pair<std::string, TypePointer>> types_;
};

}  // namespace

Json json_of(const Function& f) {
  Json::Array inputs, locals;
  for (const Function::Input& input : f.inputs) {
    Json::Object o{{"name", Json(input.name)}};
    if (input.standard) o.emplace_back("default", json_of(*input.standard));
    inputs.push_back(Json(std::move(o)));
  }
  for (const TypePointer& t : f.locals) locals.push_back(Json(shown(*t)));
  return Json::Object{{"name", Json(f.name)},
                      {"file", Json(f.file)},
                      {"method", Json(f.is_method)},
                      {"inputs", Json(std::move(inputs))},
                      {"locals", Json(std::move(locals))},
                      {"returns", Json(shown(*f.result))},
                      {"body", json_of(f.body)}};
}
Json json_of(const AttributeEntry& a) {
  return Json::Object{{"name", Json(a.name)},
                      {"type", Json(shown(*a.type))},
                      {"value", json_of_value(a.value, a.name)}};
}

Function function_from(const Json& j, const std::string& what) {
  return FunctionReader(what).function(j);
}
AttributeEntry attribute_from(const Json& j, const std::string& what) {
  return FunctionReader(what).attribute(j);
}

}  // namespace rush::jit
