#include "jit/program_json.h"

#include <cmath>
#include <limits>

#include "core/version.h"
#include "jit/function_json.h"
#include "jit/json_reader.h"
#include "jit/program_file.h"
#include "ops/framework/custom_op.h"

namespace rush::jit {
namespace {

// Writing ------------------------------------------------------------------------------------------

template <class T>
std::string printed(const T& x) {
  return concat(x);
}

constexpr const char* kPlaceKinds[] = {"value", "state", "constant"};

Json json_of(const Place& p) { return Json::Object{{kPlaceKinds[size_t(p.kind)], Json(p.index)}}; }
Json json_of(double d) {
  if (std::isfinite(d)) return Json(d);
  return Json::Object{{"float", Json(std::isnan(d) ? "nan" : d > 0 ? "inf" : "-inf")}};
}
Json json_of(const Scalar& s) {
  if (s.is_bool()) return Json(s.to<bool>());
  if (s.is_integer()) return Json(s.to_int());
  if (s.is_floating()) return json_of(s.to_double());
  const auto z = s.to<complex<double>>();
  return Json::Object{{"complex", Json::Array{json_of(z.re), json_of(z.im)}}};
}
Json json_of(const Literal& literal) {
  return std::visit(
      []<class T>(const T& x) -> Json {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return Json();
        } else if constexpr (std::is_same_v<T, Scalar> || std::is_same_v<T, double>) {
          return json_of(x);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return Json(Json::Array(x.begin(), x.end()));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          Json::Array items;
          for (const double d : x) items.push_back(json_of(d));
          return Json(std::move(items));
        } else if constexpr (std::is_same_v<T, SizeInts>) {
          Json::Array items;
          for (const SizeInt& n : x) items.push_back(Json::Array(std::begin(n.c), std::end(n.c)));
          return Json::Object{{"sizes", Json(std::move(items))}};
        } else if constexpr (std::is_same_v<T, Layout>) {
          return Json("strided");
        } else if constexpr (std::is_same_v<T, DType> || std::is_same_v<T, Device> ||
                             std::is_same_v<T, MemoryFormat>) {
          return Json(printed(x));
        } else {
          return Json(x);
        }
      },
      literal);
}
Json json_of(const Argument& a) {
  if (const auto* literal = std::get_if<Literal>(&a)) return json_of(*literal);
  if (const auto* place = std::get_if<Place>(&a)) return json_of(*place);
  Json::Array items;
  for (const auto& place : std::get<Places>(a)) items.push_back(place ? json_of(*place) : Json());
  return Json(std::move(items));
}
Json json_of(const Structure& s) {
  if (s.kind == IValue::Kind::None) return Json();
  if (s.kind == IValue::Kind::Tensor) return json_of(s.place);
  Json::Array items;
  for (size_t k = 0; k < s.items.size(); ++k) {
    if (s.kind == IValue::Kind::Dict)
      items.push_back(Json::Array{Json(s.keys[k]), json_of(s.items[k])});
    else
      items.push_back(json_of(s.items[k]));
  }
  const char* kind = s.kind == IValue::Kind::Tuple  ? "tuple"
                     : s.kind == IValue::Kind::List ? "list"
                                                    : "dict";
  return Json::Object{{kind, Json(std::move(items))}};
}
Json json_of(const Result& r) {
  if (const auto* one = std::get_if<uint32_t>(&r)) return Json(*one);
  if (const auto* list = std::get_if<std::vector<uint32_t>>(&r))
    return Json(Json::Array(list->begin(), list->end()));
  return Json();
}

bool is_left_out(const ArgSpec& spec, const Argument& a) {
  const auto* literal = std::get_if<Literal>(&a);
  return literal && std::holds_alternative<std::monostate>(*literal) &&
         spec.default_kind == DefaultKind::None;
}

Json json_of(const Instruction& i) {
  Json::Object o{{"op", Json(i.op->name)}};
  if (*i.op->overload) o.emplace_back("overload", Json(i.op->overload));
  if (i.op->form == Form::Out) o.emplace_back("form", Json("out"));
  Json::Object args;
  for (size_t k = 0; k < i.args.size(); ++k) {
    if (!is_left_out(i.op->args[k], i.args[k]))
      args.emplace_back(i.op->args[k].name, json_of(i.args[k]));
  }
  o.emplace_back("args", Json(std::move(args)));
  Json::Array results;
  for (const Result& r : i.results) results.push_back(json_of(r));
  o.emplace_back("results", Json(std::move(results)));
  if (i.modes.grad) o.emplace_back("grad", Json(*i.modes.grad));
  Json::Object autocast;
  for (int k = 0; k < kDeviceTypeCount; ++k) {
    if (i.modes.autocast[k])
      autocast.emplace_back(std::string(name(DeviceType(k))), Json(printed(*i.modes.autocast[k])));
  }
  if (!autocast.empty()) o.emplace_back("autocast", Json(std::move(autocast)));
  return Json(std::move(o));
}

Json json_of(const Code::Method& m) {
  Json::Array inputs, symbols, body;
  for (const Symbol& s : m.graph.symbols)
    symbols.push_back(Json::Object{{"value", Json(s.value)}, {"dim", Json(s.dim)}});
  for (const Input& input : m.graph.inputs)
    inputs.push_back(Json::Object{{"name", Json(input.name)}, {"value", json_of(input.structure)}});
  for (const Instruction& i : m.graph.body) body.push_back(json_of(i));
  return Json::Object{{"name", Json(m.name)},
                      {"inputs", Json(std::move(inputs))},
                      {"sizes", Json(std::move(symbols))},
                      {"values", Json(m.graph.num_values)},
                      {"body", Json(std::move(body))},
                      {"output", json_of(m.graph.output)}};
}

// Reading ------------------------------------------------------------------------------------------

class CodeReader : JsonReader {
 public:
  using JsonReader::JsonReader;

  Code read(const Json& j, StoredState& stored) {
    keys(j, {"format", "table", "library", "training", "by_mode", "state", "aliases", "constants",
             "methods", "attributes", "functions"});
    const int64_t format = integer(j, "format");
    require(format >= 1 && format <= kFormat, "its format is ", format,
            "; this version of Rushlight reads format 1 to ", kFormat);
    require(format > 1 || (!j.find("attributes") && !j.find("functions")),
            "format 1 has no functions");
    require(integer(j, "table") <= kTableVersion && integer(j, "table") >= 1,
            "it was made with table ", integer(j, "table"), " of operators; this version has ",
            kTableVersion, ": it needs a newer Rushlight");
    text(j, "library");
    Code code;
    code.training = boolean(j, "training");
    code.by_mode = boolean(j, "by_mode");
    for (const Json& entry : array(j, "state")) {
      keys(entry, {"name", "kind", "requires_grad", "persistent", "device"});
      const std::string& kind = text(entry, "kind");
      require(kind == "parameter" || kind == "buffer", "a state is '", kind, "'");
      code.state.push_back({text(entry, "name"), kind == "parameter",
                            boolean(entry, "requires_grad"), boolean(entry, "persistent")});
      stored.devices.push_back(device(text(entry, "device")));
    }
    for (const Json& alias : array(j, "aliases")) {
      keys(alias, {"name", "state", "before"});
      code.aliases.push_back(
          {text(alias, "name"), index(member(alias, "state")), index(member(alias, "before"))});
    }
    for (const Json& constant : array(j, "constants")) {
      require(constant.string(), "a constant must name its device");
      stored.constant_devices.push_back(device(*constant.string()));
      code.constants.emplace_back();
    }
    for (const Json& m : array(j, "methods")) code.methods.push_back(method(m));
    if (format == 1) return code;
    for (const Json& a : array(j, "attributes"))
      code.attributes.push_back(attribute_from(a, where_));
    for (const Json& f : array(j, "functions")) code.functions.push_back(function_from(f, where_));
    return code;
  }

 private:
  std::optional<Place> maybe_place(const Json& j) const {
    if (!j.object() || j.object()->size() != 1) return std::nullopt;
    const auto& [key, value] = j.object()->front();
    for (size_t k = 0; k < 3; ++k) {
      if (key == kPlaceKinds[k]) return Place{Place::Kind(k), index(value)};
    }
    return std::nullopt;
  }
  Place place(const Json& j) const {
    const auto found = maybe_place(j);
    require(found.has_value(), "a tensor was expected");
    return *found;
  }
  Argument argument(const ArgSpec& spec, const Json& j) const {
    if (j.is_null()) return Literal();
    if (j.object() && j.find("sizes")) return Literal(sizes(j));
    switch (spec.kind) {
      case ArgKind::Tensor:
      case ArgKind::Operand:
        if (const auto found = maybe_place(j)) return *found;
        return Literal(scalar(j));
      case ArgKind::Tensors: {
        Places list;
        for (const Json& item : items(j))
          list.push_back(item.is_null() ? std::nullopt : std::optional(place(item)));
        return list;
      }
      case ArgKind::Scalar:
        return Literal(scalar(j));
      case ArgKind::Int:
        return Literal(whole(j));
      case ArgKind::Ints:
        return Literal(list_of<int64_t>(j, [&](const Json& item) { return whole(item); }));
      case ArgKind::Float:
        return Literal(real(j));
      case ArgKind::Floats:
        return Literal(list_of<double>(j, [&](const Json& item) { return real(item); }));
      case ArgKind::Bool:
        require(j.boolean(), "true or false was expected");
        return Literal(*j.boolean());
      case ArgKind::String:
        return Literal(word(j));
      case ArgKind::DType:
        return Literal(dtype(j));
      case ArgKind::Device:
        return Literal(device(word(j)));
      case ArgKind::Layout:
        require(word(j) == "strided", "there is no layout '", word(j), "'");
        return Literal(Layout::Strided);
      case ArgKind::MemoryFormat:
        return Literal(format(j));
      case ArgKind::Generator:
        break;
    }
    require(false, "a program cannot hold a generator");
    return Literal();
  }

  SizeInts sizes(const Json& j) const {
    keys(j, {"sizes"});
    SizeInts list;
    for (const Json& item : array(j, "sizes")) {
      SizeInt& n = list.emplace_back();
      require(items(item).size() == std::size(n.c), "a number that follows sizes has ",
              std::size(n.c), " coefficients");
      for (size_t k = 0; k < std::size(n.c); ++k) n.c[k] = whole(items(item)[k]);
    }
    return list;
  }

  Structure structure(const Json& j, int depth) const {
    require(depth < kMostNesting, "containers are nested more than ", kMostNesting, " deep");
    Structure s;
    if (j.is_null()) return s;
    if (const auto found = maybe_place(j)) {
      s.kind = IValue::Kind::Tensor;
      s.place = *found;
      return s;
    }
    require(j.object() && j.object()->size() == 1, "a tensor or a container was expected");
    const auto& [key, value] = j.object()->front();
    require(key == "tuple" || key == "list" || key == "dict", "there is no container '", key, "'");
    s.kind = key == "tuple"  ? IValue::Kind::Tuple
             : key == "list" ? IValue::Kind::List
                             : IValue::Kind::Dict;
    for (const Json& item : items(value)) {
      if (s.kind != IValue::Kind::Dict) {
        s.items.push_back(structure(item, depth + 1));
        continue;
      }
      require(items(item).size() == 2, "a dict has pairs");
      s.keys.push_back(word(items(item)[0]));
      s.items.push_back(structure(items(item)[1], depth + 1));
    }
    return s;
  }

  Instruction instruction(const Json& j) {
    keys(j, {"op", "overload", "form", "args", "results", "grad", "autocast"});
    const std::string& op = text(j, "op");
    const std::string overload = j.find("overload") ? text(j, "overload") : "";
    const bool out = j.find("form") != nullptr;
    require(!out || text(j, "form") == "out", "there is no such form");
    Instruction i;
    for (const Form form : {Form::Functional, Form::InPlace, Form::Out}) {
      if ((form == Form::Out) == out && !i.op) i.op = find_entry(op, overload, form);
    }
    require(i.op, "there is no operator '", op, overload.empty() ? "" : ".", overload, "'",
            missing_library(op));
    const Json& args = member(j, "args");
    require(args.object(), "'args' must be a map");
    size_t used = 0;
    for (const ArgSpec& spec : i.op->args) {
      const Json* given = args.find(spec.name);
      used += given != nullptr;
      require(given || spec.default_kind != DefaultKind::Required, op, " needs the argument '",
              spec.name, "'");
      i.args.push_back(given ? argument(spec, *given) : default_of(*i.op, spec));
    }
    require(used == args.object()->size(), op, " has no such argument as one that is given");
    for (const Json& r : array(j, "results")) i.results.push_back(result(r));
    if (j.find("grad")) i.modes.grad = boolean(j, "grad");
    if (const Json* autocast = j.find("autocast")) {
      keys(*autocast, {"cpu", "cuda"});
      for (const auto& [type, precision] : *autocast->object())
        i.modes.autocast[size_t(device(type).type)] = dtype(precision);
    }
    return i;
  }
  Result result(const Json& j) const {
    if (j.is_null()) return {};
    if (!j.array()) return index(j);
    std::vector<uint32_t> list;
    for (const Json& item : *j.array()) list.push_back(index(item));
    return list;
  }
  // A table that has grown an argument gives old programs its default.
  Argument default_of(const OpEntry& op, const ArgSpec& spec) const {
    return literal_of(default_argument(op, size_t(&spec - op.args.data())));
  }
  // Operators of users are there once their library is.
  static std::string missing_library(const std::string& op) {
    const size_t end = op.find("::");
    if (end == std::string::npos) return "";
    return concat("; load the library that defines the operators of '", op.substr(0, end),
                  "' first (ops.load_library, or import its package; in C++ link it or open it)");
  }

  Code::Method method(const Json& j) {
    keys(j, {"name", "inputs", "sizes", "values", "body", "output"});
    Code::Method m;
    m.name = text(j, "name");
    context_ = concat("'", m.name, "': ");
    for (const Json& input : array(j, "inputs")) {
      keys(input, {"name", "value"});
      m.graph.inputs.push_back({text(input, "name"), structure(member(input, "value"), 0)});
    }
    for (const Json& s : array(j, "sizes")) {
      keys(s, {"value", "dim"});
      m.graph.symbols.push_back({index(member(s, "value")), index(member(s, "dim"))});
    }
    m.graph.num_values = index(member(j, "values"));
    for (const Json& i : array(j, "body")) {
      context_ = concat("instruction ", m.graph.body.size(), " of '", m.name, "': ");
      m.graph.body.push_back(instruction(i));
    }
    context_ = concat("'", m.name, "': ");
    m.graph.output = structure(member(j, "output"), 0);
    context_.clear();
    return m;
  }
};

}  // namespace

std::string code_text(const Code& code, const StoredState& stored) {
  Json::Array state, aliases, constants, methods;
  for (size_t k = 0; k < code.state.size(); ++k) {
    const StateEntry& s = code.state[k];
    state.push_back(Json::Object{{"name", Json(s.name)},
                                 {"kind", Json(s.is_parameter ? "parameter" : "buffer")},
                                 {"requires_grad", Json(s.requires_grad)},
                                 {"persistent", Json(s.persistent)},
                                 {"device", Json(printed(stored.devices[k]))}});
  }
  for (const StateAlias& a : code.aliases)
    aliases.push_back(
        Json::Object{{"name", Json(a.name)}, {"state", Json(a.state)}, {"before", Json(a.before)}});
  for (const Device& d : stored.constant_devices) constants.push_back(Json(printed(d)));
  for (const Code::Method& m : code.methods) methods.push_back(json_of(m));
  // Programs without functions are written as they always were, for readers of any age.
  const bool plain = code.functions.empty() && code.attributes.empty();
  Json::Object o{{"format", Json(plain ? int64_t{1} : kFormat)},
                 {"table", Json(kTableVersion)},
                 {"library", Json(version())},
                 {"training", Json(code.training)},
                 {"by_mode", Json(code.by_mode)},
                 {"state", Json(std::move(state))},
                 {"aliases", Json(std::move(aliases))},
                 {"constants", Json(std::move(constants))},
                 {"methods", Json(std::move(methods))}};
  if (!plain) {
    Json::Array attributes, functions;
    for (const AttributeEntry& a : code.attributes) attributes.push_back(json_of(a));
    for (const Function& f : code.functions) functions.push_back(json_of(f));
    o.emplace_back("attributes", Json(std::move(attributes)));
    o.emplace_back("functions", Json(std::move(functions)));
  }
  return Json(std::move(o)).text();
}

Code parse_code(std::string_view text, const std::string& what, StoredState& stored) {
  return CodeReader(what).read(Json::parse(text, what), stored);
}

}  // namespace rush::jit
