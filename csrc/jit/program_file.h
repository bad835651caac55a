// program_file.h: programs as files: a zip of program.json, weights.safetensors and what else users
// put there (extra/<name>). docs/programs.md describes the format.
#pragma once

#include <functional>
#include <optional>

#include "jit/archive.h"
#include "jit/code.h"

namespace rush::jit {

inline constexpr int64_t kFormat = 2;
// Counted on when an op of the table changes so that old programs must be converted.
inline constexpr int64_t kTableVersion = 1;

using ExtraFiles = std::vector<std::pair<std::string, std::string>>;  // name, contents

struct LoadedProgram {
  CodePointer code;
  std::vector<Tensor> state;
  ExtraFiles extra;
};

// Everything is checked before anything is made of it; `what` names the file in messages. Tensors
// go to `device`, or to where they were.
RUSH_API LoadedProgram read_program(const ByteSource& source, const std::string& what,
                                    std::optional<Device> device);
RUSH_API void write_program(ByteSink& sink, const Code& code, const Variables& variables,
                            const ExtraFiles& extra);
// The file appears whole or not at all.
RUSH_API void write_program(const std::string& path, const Code& code, const Variables& variables,
                            const ExtraFiles& extra);

}  // namespace rush::jit
