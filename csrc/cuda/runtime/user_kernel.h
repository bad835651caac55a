// user_kernel.h: a kernel that a program brings along as CUDA C++, compiled and queued on request.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/nvrtc.h"

namespace rush::cuda {

class RUSH_API UserKernel {
 public:
  // Compiles the kernel `name` (it may be an expression such as scale<float>) for an architecture
  // ("90", "90a"); `options` go to the compiler.
  UserKernel(const std::string& source, std::string name, const std::string& architecture,
             std::span<const std::string> options);

  // The bytes of each parameter; none where the driver is too old to tell.
  std::optional<std::vector<size_t>> parameter_bytes(int device);
  // Queues the kernel; `params` are the bytes of the parameters.
  void launch(Stream* stream, Grid grid, Grid block, std::span<const std::string> params,
              unsigned shared);

 private:
  CUfunction function_on(int device);
  void allow_shared(CUfunction f, int device, unsigned shared);

  std::string name_, architecture_;
  CompiledKernels code_;
  Mutex mutex_{LockRank::Kernels};
  std::vector<std::pair<int, CUfunction>> functions_;     // by device, once loaded
  std::vector<std::pair<CUfunction, unsigned>> allowed_;  // shared memory beyond the usual
};

}  // namespace rush::cuda
