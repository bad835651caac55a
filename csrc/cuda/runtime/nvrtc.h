// nvrtc.h: NVIDIA's run-time compiler, opened at first use. It needs no driver and no GPU.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/export.h"

namespace rush::cuda {

struct CompiledKernels {
  std::string cubin;
  std::vector<std::string> names;  // of the expressions, as the linker knows them
};

// Why no compiler was found, with what to install; empty when there is one.
RUSH_API std::string nvrtc_missing();
// 13000 for CUDA 13.0.
RUSH_API int nvrtc_version();

// Compiles a file of csrc/cuda/kernels for one architecture (90 for sm_90). An error of the
// compiler is an error of ours, and carries its log.
RUSH_API CompiledKernels compile_kernels(const std::string& file,
                                         std::span<const std::string> expressions, int arch);
// The same for a source that was generated; `name` stands for it in messages.
RUSH_API CompiledKernels compile_source(const std::string& name, const std::string& source,
                                        std::span<const std::string> expressions, int arch);

// The same with the compiler's options; what it refuses is an error of `op` and of this kind.
RUSH_API CompiledKernels compile_program(const char* op, ErrorKind kind, const std::string& name,
                                         const std::string& source,
                                         std::span<const std::string> expressions,
                                         std::span<const std::string> options);

// The folder with the kernels' sources, which travels with the library.
RUSH_API std::string kernel_source_folder();
// The folder with what came compiled, see kernel_bundle.h: RUSHLIGHT_KERNEL_BUNDLES, else beside the
// sources. It may be missing.
RUSH_API std::string kernel_bundle_folder();
// All sources, one after the other: what a compiled kernel depends on.
RUSH_API const std::string& kernel_source_digest();

}  // namespace rush::cuda
