#include "cuda/runtime/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/dynamic_library.h"
#include "core/error.h"
#include "core/sha256.h"
#include "cuda/runtime/nvrtc_api.h"

namespace rush::cuda {
namespace {

Nvrtc open() {
  Nvrtc n;
  const std::initializer_list<const char*> places{"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", ""};
  // It looks for its companion, of its own version, by name alone: what is open already is found.
  for (int minor = 0; minor < 10; ++minor)
    open_library({concat("libnvrtc-builtins.so.13.", minor).c_str()}, places);
  void* library = open_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, places);
  bool whole = library != nullptr;
#define RUSH_LOAD(symbol, params)                                                    \
  n.symbol = reinterpret_cast<decltype(n.symbol)>(library_symbol(library, #symbol)); \
  whole = whole && n.symbol;
  RUSH_NVRTC(RUSH_LOAD)
#undef RUSH_LOAD
  if (!whole) {
    n.missing = "the compiler NVRTC was not found: pip install 'rushlight[cuda]'";
    return n;
  }
  int major = 0, minor = 0;
  n.nvrtcVersion(&major, &minor);
  n.version = major * 1000 + minor * 10;
  return n;
}

const Nvrtc& nvrtc() {
  static const Nvrtc found = open();
  return found;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  check(in.good(), ErrorKind::Runtime, "cuda", "the kernel source ", path.string(),
        " cannot be read: the installation is broken, install rushlight again");
  return {std::istreambuf_iterator<char>(in), {}};
}

struct OwnedProgram {
  Program program = nullptr;
  ~OwnedProgram() {
    if (program) nvrtc().nvrtcDestroyProgram(&program);
  }
};

std::string log_of(Program program) {
  size_t size = 0;
  nvrtc().nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  if (size) nvrtc().nvrtcGetProgramLog(program, log.data());
  return log;
}

}  // namespace

std::string nvrtc_missing() { return nvrtc().missing; }
int nvrtc_version() { return nvrtc().version; }

namespace {
// A folder beside the library.
std::string folder_beside(const char* name) {
  Dl_info info;
  internal_assert(dladdr(reinterpret_cast<void*>(&folder_beside), &info) && info.dli_fname,
                  "the library does not find its own file");
  return (std::filesystem::path(info.dli_fname).parent_path() / name).string();
}
}  // namespace

std::string kernel_source_folder() { return folder_beside("csrc"); }
std::string kernel_bundle_folder() {
  const char* own = std::getenv("RUSHLIGHT_KERNEL_BUNDLES");
  return own && *own ? own : folder_beside("kernels");
}

const std::string& kernel_source_digest() {
  static const std::string digest = [] {
    std::vector<std::filesystem::path> files;
    for (const char* folder : {"functors", "cuda/kernels"}) {
      const auto path = std::filesystem::path(kernel_source_folder()) / folder;
      for (const auto& entry : std::filesystem::directory_iterator(path))
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    Sha256 sum;
    for (const auto& file : files) {
      sum.add(file.filename().string());
      sum.add(std::string_view("\0", 1));
      sum.add(read_file(file));
      sum.add(std::string_view("\0", 1));
    }
    return sum.finish_hex();
  }();
  return digest;
}

CompiledKernels compile_kernels(const std::string& file, std::span<const std::string> expressions,
                                int arch) {
  check(nvrtc().missing.empty(), ErrorKind::Runtime, "cuda", nvrtc().missing);
  const std::string source = read_file(kernel_source_folder() + "/cuda/kernels/" + file);
  return compile_source(file, source, expressions, arch);
}

CompiledKernels compile_source(const std::string& name, const std::string& source,
                               std::span<const std::string> expressions, int arch) {
  // What only this architecture has, and none after it, is in files of their own.
  std::vector<std::string> options = {
      "--std=c++20",
      concat("--gpu-architecture=sm_", arch, name.ends_with("_hopper.cu") ? "a" : ""),
      "-I" + kernel_source_folder()};
  // Where bits must not depend on what a compiler contracts, nor on whose maths it is.
  if (name.ends_with("_exact.cu"))
    options.insert(options.end(), {"--fmad=false", "-DRUSH_EXACT_MATH=1", "-D__builtin_fmod=::fmod",
                                   "-D__builtin_fmodf=::fmodf"});
  return compile_program("cuda", ErrorKind::Internal, name, source, expressions, options);
}

CompiledKernels compile_program(const char* op, ErrorKind kind, const std::string& name,
                                const std::string& source, std::span<const std::string> expressions,
                                std::span<const std::string> options) {
  const Nvrtc& n = nvrtc();
  check(n.missing.empty(), ErrorKind::Runtime, op, n.missing);
  OwnedProgram owned;
  auto done = [&](int code, const char* what) {
    check(code == 0, kind, op, what, " failed with ", code, " for ", name, ":\n",
          owned.program ? log_of(owned.program) : "");
  };
  done(n.nvrtcCreateProgram(&owned.program, source.c_str(), name.c_str(), 0, nullptr, nullptr),
       "nvrtcCreateProgram");
  for (const std::string& e : expressions)
    done(n.nvrtcAddNameExpression(owned.program, e.c_str()), "nvrtcAddNameExpression");
  std::vector<const char*> texts;
  for (const std::string& option : options) texts.push_back(option.c_str());
  done(n.nvrtcCompileProgram(owned.program, int(texts.size()), texts.data()),
       "nvrtcCompileProgram");
  CompiledKernels out;
  size_t size = 0;
  done(n.nvrtcGetCUBINSize(owned.program, &size), "nvrtcGetCUBINSize");
  out.cubin.resize(size);
  done(n.nvrtcGetCUBIN(owned.program, out.cubin.data()), "nvrtcGetCUBIN");
  for (const std::string& e : expressions) {
    const char* lowered = nullptr;
    done(n.nvrtcGetLoweredName(owned.program, e.c_str(), &lowered), "nvrtcGetLoweredName");
    out.names.emplace_back(lowered);
  }
  return out;
}

}  // namespace rush::cuda
