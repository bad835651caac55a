// code.h: all methods of a program with what they share. It does not change once it is made:
// parameters and buffers, which do, are whoever's who runs it.
#pragma once

#include <memory>

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

struct RUSH_API Code {
  struct Method {
    std::string name;
    Graph graph;
  };
  std::vector<StateEntry> state;
  std::vector<StateAlias> aliases;
  std::vector<Tensor> constants;
  std::vector<Method> methods;
  bool training = false;  // the mode of the module that was traced
  bool by_mode = false;   // does the module do something else in the other mode?

  const Graph& graph(std::string_view method) const;  // raises where there is none
  // Checks the methods and the names.
  void verify();
  // With the constants, and what ops are told of devices, moved from one type of device to a device.
  std::shared_ptr<const Code> moved(DeviceType from, Device to) const;
  IValue run(const std::string& method, std::span<const Tensor> state,
             const std::vector<IValue>& inputs) const;
};
using CodePointer = std::shared_ptr<const Code>;

}  // namespace rush::jit
