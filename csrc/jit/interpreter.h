// interpreter.h: runs a graph. It knows no Python, and keeps nothing between two runs: several
// threads may run one graph at the same time.
#pragma once

#include <span>

#include "jit/graph.h"

namespace rush::jit {

struct Tensors {
  std::span<const Tensor> state, constants;
};

// What `graph`, which has passed verify, makes of these inputs. Gradients flow as in eager calls.
RUSH_API IValue run(const Graph& graph, const std::string& method, const Tensors& tensors,
                    const std::vector<IValue>& inputs);

// Runs the instructions [first, last) of a graph without symbols. `values` are the caller's, who has
// put the inputs there, and keeps them from part to part.
RUSH_API void run_part(const Graph& graph, const std::string& method, const Tensors& tensors,
                       std::vector<Tensor>& values, size_t first, size_t last);

}  // namespace rush::jit
