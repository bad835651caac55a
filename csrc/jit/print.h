// print.h: programs as text for people; nothing reads it back.
#pragma once

#include <string>

#include "jit/code.h"

namespace rush::jit {

// "%7 = linear(%3, state.0, None)"
RUSH_API std::string shown(const Instruction& instruction);
// A method with the names of its parameters and buffers, one instruction per line.
RUSH_API std::string shown(const Code& code, const std::string& method);

std::string shown(const Code& code, const Function& function);

}  // namespace rush::jit
