// A coverage-guided fuzzer of the C++ readers: archives, JSON, safetensors and program files.
//
// The input is a whole file, or, with a first byte of 'J', a text of JSON; with 'P' a program's JSON,
// with 'S' a safetensors file: those two are put into an archive with right sums first, so that the
// fuzzer does not have to guess checksums.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "jit/archive.h"
#include "jit/json.h"
#include "jit/program_file.h"

namespace {

using namespace rush::jit;

struct Collected : ByteSink {
  std::string bytes;
  void write(std::span<const char> more) override { bytes.append(more.data(), more.size()); }
};

struct Entry {
  std::string name, bytes;
};

// The entries of a valid program, from the file that FUZZ_PROGRAM names.
const std::vector<Entry>& valid_entries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> found;
    const char* path = std::getenv("FUZZ_PROGRAM");
    if (!path) return found;
    auto source = ByteSource::file(path);
    ArchiveReader reader(*source, path);
    for (const ArchiveEntry& e : reader.entries()) found.push_back({e.name, reader.read(e)});
    return found;
  }();
  return entries;
}

std::string with_entry(const std::string& name, std::string_view bytes) {
  Collected sink;
  ArchiveWriter writer(sink);
  for (const Entry& e : valid_entries()) {
    std::span<const char> part =
        e.name == name ? std::span<const char>(bytes) : std::span<const char>(e.bytes);
    writer.add(e.name, std::span<const std::span<const char>>(&part, 1));
  }
  writer.finish();
  return std::move(sink.bytes);
}

void read(std::string_view file) {
  auto source = ByteSource::memory(std::span<const char>(file.data(), file.size()));
  read_program(*source, "input", std::nullopt);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (size && text[0] == 'J') {
      Json parsed = Json::parse(text.substr(1), "input");
      // What was written can be read again, and says the same.
      if (Json::parse(parsed.text(), "written").text() != parsed.text()) std::abort();
    } else if (size && text[0] == 'P') {
      read(with_entry("program.json", text.substr(1)));
    } else if (size && text[0] == 'S') {
      read(with_entry("weights.safetensors", text.substr(1)));
    } else {
      read(text);
    }
  } catch (const rush::Error& error) {
    if (error.kind() == rush::ErrorKind::Internal) std::abort();  // a fault of ours is no answer
  } catch (const std::exception&) {
    // refused
  }
  return 0;
}
