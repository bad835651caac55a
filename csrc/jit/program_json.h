// program_json.h: code as JSON and back.
#pragma once

#include "jit/code.h"
#include "jit/json.h"

namespace rush::jit {

// A parameter or buffer as program.json has it: where its tensor was belongs to the file only.
struct StoredState {
  std::vector<Device> devices;           // one per entry of the state
  std::vector<Device> constant_devices;  // one per constant
};

RUSH_API std::string code_text(const Code& code, const StoredState& stored);
// Everything but the tensors: `constants` are undefined ones, as many as there must be.
RUSH_API Code parse_code(std::string_view text, const std::string& what, StoredState& stored);

}  // namespace rush::jit
