// code.h: all methods of a program with what they share. It does not change once it is made:
// parameters and buffers, which do, are whoever's who runs it.
#pragma once

#include <memory>
#include <mutex>

#include "jit/function.h"
#include "jit/graph.h"

namespace rush::jit {

// One parameter or buffer, by its qualified name.
struct StateEntry {
  std::string name;
  bool is_parameter = false;
  bool requires_grad = false;
  bool persistent = true;  // buffers: part of the state dict
};
// A second name of one that is there already: modules may share parameters.
struct StateAlias {
  std::string name;
  uint32_t state;
  uint32_t before;  // state dicts have it before this entry of the state
};

// Taken by whoever calls a program, before any mutex of the core, and without the GIL.
using ProgramMutex = std::recursive_mutex;

// What a program changes while it runs: parameters and buffers, and the attributes.
struct Variables {
  std::vector<Tensor> state;
  std::vector<IValue> attributes;
  // Held while a program runs whose attributes are lists or dicts, which threads would share. A
  // signal's handler may run the program again on the same thread.
  std::shared_ptr<ProgramMutex> mutex = std::make_shared<ProgramMutex>();
};

struct RUSH_API Code {
  struct Method {
    std::string name;
    Graph graph;
  };
  std::vector<StateEntry> state;
  std::vector<StateAlias> aliases;
  std::vector<Tensor> constants;
  std::vector<Method> methods;      // straight lines of ops, from traces
  std::vector<Function> functions;  // with control flow, from scripts; some are methods
  std::vector<AttributeEntry> attributes;
  bool has_containers = false;  // by verify: an attribute is a list or a dict, or has one
  bool training = false;        // the mode of the module that was traced
  bool by_mode = false;         // does the module do something else in the other mode?

  const Graph& graph(std::string_view method) const;        // raises where there is none
  const Function* function(std::string_view method) const;  // null where there is none
  std::vector<std::string> method_names() const;
  // Checks methods, functions and names, and makes functions ready to run.
  void verify();
  std::vector<IValue> first_attributes() const;  // as they were when the program was made
  // With the constants, and what ops are told of devices, moved from one type of device to a device.
  std::shared_ptr<const Code> moved(DeviceType from, Device to) const;
  IValue run(const std::string& method, Variables& variables,
             const std::vector<IValue>& inputs) const;
};
using CodePointer = std::shared_ptr<const Code>;

}  // namespace rush::jit
