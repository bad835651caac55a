#include "jit/code.h"

#include <algorithm>
#include <set>

#include "jit/interpreter.h"
#include "jit/machine.h"
#include "ops/ops.h"

namespace rush::jit {

const Graph& Code::graph(std::string_view method) const {
  for (const Method& m : methods) {
    if (m.name == method) return m.graph;
  }
  fail(ErrorKind::Runtime, "program", "it has no method '", method, "'");
}

const Function* Code::function(std::string_view method) const {
  for (const Function& f : functions) {
    if (f.is_method && f.name == method) return &f;
  }
  return nullptr;
}

std::vector<std::string> Code::method_names() const {
  std::vector<std::string> names;
  for (const Method& m : methods) names.push_back(m.name);
  for (const Function& f : functions) {
    if (f.is_method) names.push_back(f.name);
  }
  return names;
}

std::vector<IValue> Code::first_attributes() const {
  std::vector<IValue> values;
  // Copies: two programs of one code do not share lists.
  for (const AttributeEntry& a : attributes) values.push_back(taken_as(a.value, *a.type, a.name));
  return values;
}

namespace {

// What is under one dotted name cannot hold anything below it: a name is a module or a tensor.
void check_names(const Code& code) {
  std::set<std::string_view> names;
  const auto add = [&](std::string_view name) {
    check(names.insert(name).second, ErrorKind::Runtime, "program", "the name '", name,
          "' is there twice");
    check(!name.empty() && name.front() != '.' && name.back() != '.' &&
              name.find("..") == std::string_view::npos,
          ErrorKind::Runtime, "program", "'", name, "' is no name of a parameter or buffer");
  };
  for (const StateEntry& s : code.state) add(s.name);
  for (const StateAlias& a : code.aliases) {
    add(a.name);
    check(a.state < code.state.size() && a.before <= code.state.size(), ErrorKind::Runtime,
          "program", "the name '", a.name, "' stands for state ", a.state, " before state ",
          a.before, ", and there are ", code.state.size());
  }
  for (const std::string_view name : names) {
    for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
      check(!names.contains(name.substr(0, dot)), ErrorKind::Runtime, "program", "'",
            name.substr(0, dot), "' is a tensor, and '", name, "' lies below it");
  }
  for (const AttributeEntry& a : code.attributes) add(a.name);
  std::set<std::string> methods;
  for (const std::string& name : code.method_names())
    check(methods.insert(name).second, ErrorKind::Runtime, "program", "the method '", name,
          "' is there twice");
}

}  // namespace

void Code::verify() {
  check_names(*this);
  for (Method& m : methods) jit::verify(m.graph, m.name, state.size(), constants.size());
  verify_functions(*this);
  has_containers = std::any_of(attributes.begin(), attributes.end(), [](const AttributeEntry& a) {
    const std::string type = shown(*a.type);
    return type.find("List[") != std::string::npos || type.find("Dict[") != std::string::npos;
  });
  prepare(*this);
}

namespace {

void move_devices(std::vector<Operand>& operands, DeviceType from, Device to) {
  for (Operand& o : operands) {
    if (o.value.isDevice() && o.value.device().type == from) o.value = to;
    move_devices(o.items, from, to);
  }
}
void move_devices(std::vector<Statement>& body, DeviceType from, Device to) {
  for (Statement& s : body) {
    move_devices(s.args, from, to);
    move_devices(s.body, from, to);
    move_devices(s.orelse, from, to);
  }
}

}  // namespace

std::shared_ptr<const Code> Code::moved(DeviceType from, Device to) const {
  auto code = std::make_shared<Code>(*this);
  for (Tensor& t : code->constants) {
    if (t.device().type == from) t = rush::to(t, to);
  }
  for (Method& m : code->methods) {
    for (Instruction& i : m.graph.body) {
      for (Argument& a : i.args) {
        auto* literal = std::get_if<Literal>(&a);
        auto* device = literal ? std::get_if<Device>(literal) : nullptr;
        if (device && device->type == from) *device = to;
      }
    }
  }
  if (code->functions.empty()) return code;
  for (Function& f : code->functions) move_devices(f.body, from, to);
  prepare(*code);
  return code;
}

IValue Code::run(const std::string& method, Variables& variables,
                 const std::vector<IValue>& inputs) const {
  check(variables.state.size() == state.size() && variables.attributes.size() == attributes.size(),
        ErrorKind::Runtime, method, "the program has ", state.size(),
        " parameters and buffers and ", attributes.size(), " attributes, got ",
        variables.state.size(), " and ", variables.attributes.size());
  if (const Function* f = function(method)) {
    const auto alone =
        has_containers ? std::unique_lock(*variables.mutex) : std::unique_lock<ProgramMutex>();
    return jit::run(*this, *f, variables, inputs);
  }
  return jit::run(graph(method), method, {variables.state, constants}, inputs);
}

}  // namespace rush::jit
