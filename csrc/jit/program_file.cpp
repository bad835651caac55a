#include "jit/program_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "autograd/meta.h"
#include "jit/file_sink.h"
#include "jit/program_json.h"
#include "jit/safetensors.h"
#include "ops/ops.h"

namespace rush::jit {
namespace {

constexpr const char *kProgram = "program.json", *kWeights = "weights.safetensors",
                     *kExtra = "extra/";
constexpr uint64_t kMostProgram = 64 << 20;  // what is made of it is up to 30 times as large

// No parameter or buffer has a name that begins with a dot.
std::string constant_name(size_t k) { return concat(".constant.", k); }

// The device that a program was saved on, as far as it has one.
DeviceType device_of(const StoredState& stored) {
  if (!stored.devices.empty()) return stored.devices[0].type;
  return stored.constant_devices.empty() ? DeviceType::CPU : stored.constant_devices[0].type;
}

}  // namespace

LoadedProgram read_program(const ByteSource& source, const std::string& what,
                           std::optional<Device> device) {
  const NoGradGuard no_grad;
  const ArchiveReader archive(source, what);
  LoadedProgram loaded;
  for (const ArchiveEntry& e : archive.entries()) {
    const bool extra = e.name.starts_with(kExtra);
    check(extra || e.name == kProgram || e.name == kWeights, ErrorKind::Runtime, what,
          "the entry '", e.name, "' is none of a .rush file, as rushlight.jit.save writes them");
    if (extra) loaded.extra.emplace_back(e.name.substr(std::strlen(kExtra)), archive.read(e));
  }
  const ArchiveEntry *program = archive.find(kProgram), *weights = archive.find(kWeights);
  check(program && weights, ErrorKind::Runtime, what, kProgram, " or ", kWeights, " is missing");
  check(program->size <= kMostProgram, ErrorKind::Runtime, what, kProgram, " has ", program->size,
        " bytes; at most ", kMostProgram, " are read");
  StoredState stored;
  auto code =
      std::make_shared<Code>(parse_code(archive.read(*program), what + ": " + kProgram, stored));
  code->verify();

  std::map<std::string, Tensor> tensors;
  for (NamedTensor& t : read_safetensors(archive, *weights)) tensors[t.name] = std::move(t.tensor);
  const auto take = [&](const std::string& name, Device where) {
    const auto found = tensors.find(name);
    check(found != tensors.end(), ErrorKind::Runtime, what, kWeights, " has no tensor '", name,
          "'");
    Tensor t = to(found->second, device.value_or(where));
    tensors.erase(found);
    return t;
  };
  for (size_t k = 0; k < code->state.size(); ++k) {
    const StateEntry& s = code->state[k];
    Tensor t = take(s.name, stored.devices[k]);
    if (s.requires_grad) {
      check(is_differentiable(t.dtype()), ErrorKind::Runtime, what, "'", s.name, "' is ", t.dtype(),
            ", which cannot require a gradient");
      set_requires_grad(t, true);
    }
    loaded.state.push_back(std::move(t));
  }
  for (size_t k = 0; k < code->constants.size(); ++k)
    code->constants[k] = take(constant_name(k), stored.constant_devices[k]);
  check(tensors.empty(), ErrorKind::Runtime, what, kWeights, " has the tensor '",
        tensors.empty() ? "" : tensors.begin()->first, "', which no part of the program uses");
  loaded.code = device ? code->moved(device_of(stored), *device) : CodePointer(std::move(code));
  return loaded;
}

void write_program(ByteSink& sink, const Code& code, const Variables& variables,
                   const ExtraFiles& extra) {
  const std::vector<Tensor>& state = variables.state;
  check(state.size() == code.state.size(), ErrorKind::Runtime, "save", "the program has ",
        code.state.size(), " parameters and buffers, got ", state.size());
  StoredState stored;
  std::vector<NamedTensor> tensors;
  Code now = code;
  for (size_t k = 0; k < state.size(); ++k) {
    now.state[k].requires_grad = requires_grad(state[k]);
    stored.devices.push_back(state[k].device());
    tensors.push_back({code.state[k].name, detached(state[k])});
  }
  for (size_t k = 0; k < code.attributes.size(); ++k)
    now.attributes[k].value = variables.attributes[k];
  for (size_t k = 0; k < code.constants.size(); ++k) {
    stored.constant_devices.push_back(code.constants[k].device());
    tensors.push_back({constant_name(k), code.constants[k]});
  }
  ArchiveWriter archive(sink);
  const std::string text = code_text(now, stored);
  const std::span<const char> program[] = {text};
  archive.add(kProgram, program);
  const SafetensorsParts weights = safetensors_parts(tensors);
  archive.add(kWeights, weights.parts());
  for (const auto& [name, contents] : extra) {
    const std::span<const char> parts[] = {contents};
    archive.add(kExtra + name, parts);
  }
  archive.finish();
}

void write_program(const std::string& path, const Code& code, const Variables& variables,
                   const ExtraFiles& extra) {
  FileSink sink(path);
  write_program(sink, code, variables, extra);
  sink.place();
}

}  // namespace rush::jit
