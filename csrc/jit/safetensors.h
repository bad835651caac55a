// safetensors.h: the format of named tensors: the header's length, the header in JSON, the bytes.
// rushlight/utils/safetensors reads and writes the same in Python.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"
#include "jit/archive.h"

namespace rush::jit {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// The header and, in the order of the bytes, contiguous tensors on the CPU.
struct SafetensorsParts {
  std::string header;
  std::vector<Tensor> tensors;
  std::vector<std::span<const char>> parts() const;  // borrowed
};
SafetensorsParts safetensors_parts(const std::vector<NamedTensor>& tensors);

// The tensors of an entry of an archive, on the CPU; in the order of the header. Nothing is
// allocated that is not in the file.
std::vector<NamedTensor> read_safetensors(const ArchiveReader& archive, const ArchiveEntry& entry);

}  // namespace rush::jit
