// cuda.h: PyTorch's C++ names for GPUs, for extensions with kernels of their own. It needs CUDA's
// headers, so that extension.h does not include it: what was ATen/cuda/CUDAContext.h or one of
// c10/cuda is this file.
#pragma once

#include <cuda_runtime_api.h>

#include "frontend/cuda.h"
#include "frontend/torch/macros.h"
#include "frontend/torch/types.h"

namespace rush::torch_api::cuda {

using DeviceIndex = int8_t;

inline int device_count() { return rush::cuda::device_count(); }
inline bool is_available() { return rush::cuda::is_available(); }
inline int current_device() { return rush::cuda::current_device(); }
inline void set_device(int device) { rush::cuda::use_device(device); }
inline void device_synchronize() { rush::cuda::wait_for_device(); }

// A queue of work on a GPU.
class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, int device) : stream_(stream), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return DeviceIndex(device_); }
  Device device() const { return Device(kCUDA, device_index()); }
  void synchronize() const;
  bool operator==(const CUDAStream& o) const { return stream_ == o.stream_; }

 private:
  cudaStream_t stream_;
  int device_;
};

// The stream that this thread's work on a device goes to; -1: on the current device.
inline CUDAStream getCurrentCUDAStream(int device = -1) {
  const int which = device < 0 ? rush::cuda::current_device() : device;
  return {static_cast<cudaStream_t>(rush::cuda::current_stream_handle(which)), which};
}
inline CUDAStream getDefaultCUDAStream(int device = -1) {
  return {nullptr, device < 0 ? rush::cuda::current_device() : device};
}

// The current device of a scope.
class CUDAGuard {
 public:
  explicit CUDAGuard(int device) : before_(rush::cuda::current_device()) {
    rush::cuda::use_device(device);
  }
  explicit CUDAGuard(Device device) : CUDAGuard(checked(device)) {}
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() { rush::cuda::use_device(before_); }
  void set_index(int device) { rush::cuda::use_device(device); }
  Device original_device() const { return Device(kCUDA, int8_t(before_)); }
  Device current_device() const { return Device(kCUDA, int8_t(rush::cuda::current_device())); }

 private:
  static int checked(Device device) {
    TORCH_CHECK(device.type() == kCUDA, "CUDAGuard: expected a CUDA device, got ",
                rush::Device(device));
    return rush::Device(device).index;
  }
  int before_;
};
// The same for a device that may be missing, or no GPU's: then nothing changes.
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device && device->type() == kCUDA) guard_.emplace(*device);
  }

 private:
  std::optional<CUDAGuard> guard_;
};

inline void check_call(cudaError_t error, const char* file, int line) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error: ", cudaGetErrorString(error), " (", file, ":",
              line, ")");
}
inline void CUDAStream::synchronize() const {
  check_call(cudaStreamSynchronize(stream_), __FILE__, __LINE__);
}

}  // namespace rush::torch_api::cuda

namespace rush::torch_api {
// ATen's name for the guard of a tensor's device.
class OptionalDeviceGuard {
 public:
  explicit OptionalDeviceGuard(std::optional<Device> device) : guard_(device) {}

 private:
  cuda::OptionalCUDAGuard guard_;
};
using DeviceGuard = OptionalDeviceGuard;
}  // namespace rush::torch_api

#define C10_CUDA_CHECK(call) ::rush::torch_api::cuda::check_call((call), __FILE__, __LINE__)
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define C10_CUDA_ERROR_HANDLED(call) (call)
