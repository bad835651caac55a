// machine.h: runs functions. It knows no Python, and keeps nothing between two runs: several threads
// may run one function at the same time.
//
// Note [Steps and cells]
// `prepare` lays a verified function out flat: steps, of which some jump, over an array of cells:
// the locals, then the constants of the function. Kinds were checked before, so a step looks at no
// tag. A local that is written once and read once in the same list of statements is a passing
// result: who reads it takes it away, so that its tensor is freed as early as Python would.
#pragma once

#include "jit/code.h"

namespace rush::jit {

// Lays out all functions of a code that has been verified.
void prepare(Code& code);

// What `function` makes of these inputs, as they come from outside.
IValue run(const Code& code, const Function& function, Variables& variables,
           const std::vector<IValue>& inputs);

}  // namespace rush::jit
