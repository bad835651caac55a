#include "jit/code.h"

#include <algorithm>
#include <set>

#include "jit/interpreter.h"
#include "ops/ops.h"

namespace rush::jit {

const Graph& Code::graph(std::string_view method) const {
  for (const Method& m : methods) {
    if (m.name == method) return m.graph;
  }
  fail(ErrorKind::Runtime, "program", "it has no method '", method, "'");
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
  std::set<std::string_view> method_names;
  for (const Code::Method& m : code.methods)
    check(method_names.insert(m.name).second, ErrorKind::Runtime, "program", "the method '", m.name,
          "' is there twice");
}

}  // namespace

void Code::verify() {
  check_names(*this);
  for (Method& m : methods) jit::verify(m.graph, m.name, state.size(), constants.size());
}

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
  return code;
}

IValue Code::run(const std::string& method, std::span<const Tensor> given,
                 const std::vector<IValue>& inputs) const {
  check(given.size() == state.size(), ErrorKind::Runtime, method, "the program has ", state.size(),
        " parameters and buffers, got ", given.size());
  return jit::run(graph(method), method, {given, constants}, inputs);
}

}  // namespace rush::jit
