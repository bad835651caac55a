// graph_function.h: a traced method as a function with typed locals.
//
// What a graph cannot say a function can: numbers that are computed, checks, calls of functions with
// control flow. Python edits what comes out (rushlight/export, rushlight/jit/_calls.py).
#pragma once

#include "jit/code.h"

namespace rush::jit {

// The inputs are the first locals, in their order and packed as they were. Raises where the graph
// has what functions lack: a complex number outside of a tensor.
Function function_of(const Graph& graph, const std::string& name);

// The code with each method as a function.
RUSH_API Code with_functions(const Code& code);

}  // namespace rush::jit
