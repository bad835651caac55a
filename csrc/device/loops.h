// loops.h: the seam between ops and devices: one table of loops a device.
#pragma once

#include <span>

#include "core/generator.h"
#include "core/tensor.h"
#include "functors/fns.h"

namespace rush {

struct ConvShape;
struct ConvTensors;
enum class ConvKind : uint8_t;
enum class OptimizerRule : uint8_t;
struct OptimizerTensor;
struct SequenceLoops;
struct OptimizerFormula;
using ParamSpan = std::span<const Scalar>;

// See cpu/nn/pool.h.
struct PoolWindows;
struct PoolLoops {
  void (*max)(const Tensor& x, const PoolWindows& windows, const Tensor& y,
              const Tensor& indices) = nullptr;
  void (*max_backward)(const Tensor& g, const Tensor& indices, const Tensor& gx) = nullptr;
  void (*average)(const Tensor& x, const PoolWindows& windows, const Tensor& y) = nullptr;
  void (*average_backward)(const Tensor& g, const PoolWindows& windows, const Tensor& gx) = nullptr;
};

// See cpu/nn/norm.h.
struct RunningMoments;  // cpu/nn/norm.h
struct NormLoops {
  void (*batch_norm)(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const RunningMoments& running, double eps, const Tensor& y, const Tensor& mean,
                     const Tensor& var) = nullptr;
  void (*batch_norm_eval)(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& mean, const Tensor& var, double eps,
                          const Tensor& y) = nullptr;
  void (*batch_norm_backward)(const Tensor& g, const Tensor& x, const Tensor& weight,
                              const Tensor& mean, const Tensor& var, double eps, const Tensor& gx,
                              const Tensor& gw, const Tensor& gb) = nullptr;
  void (*row_norm)(const Tensor& x, int64_t width, const Tensor& weight, const Tensor& bias,
                   bool centred, double eps, const Tensor& y, const Tensor& mean,
                   const Tensor& rstd) = nullptr;
  void (*row_norm_backward)(const Tensor& g, const Tensor& x, int64_t width, const Tensor& weight,
                            const Tensor& mean, const Tensor& rstd, bool centred, const Tensor& gx,
                            const Tensor& gw, const Tensor& gb) = nullptr;
};

struct DeviceLoops {
  void (*gemm)(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
               const Scalar& beta) = nullptr;
  // out = x @ w.T + bias for x (n, k), w (m, k), bias (m); false: not done, take another way.
  bool (*linear)(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out) = nullptr;
  void (*gemv)(const Tensor& a, const Tensor& x, const Tensor& out, const Scalar& alpha,
               const Scalar& beta) = nullptr;
  void (*dot)(const Tensor& a, const Tensor& b, const Tensor& out) = nullptr;
  // With a formula, the tensors' numbers are not there yet.
  void (*optimizer_step)(OptimizerRule, std::span<const OptimizerTensor> tensors,
                         const OptimizerFormula* formula, Device device) = nullptr;
  NormLoops norms;
  PoolLoops pools;
  // Along dim, or its logarithm; false: not done, take another way.
  bool (*softmax)(const Tensor& x, int64_t dim, bool log, const Tensor& out) = nullptr;
  void (*convolve)(ConvKind, const ConvShape& shape, const ConvTensors& t) = nullptr;
  // See device/sequence.h; null: the device has none.
  const SequenceLoops* sequences = nullptr;
};

namespace detail {
extern DeviceLoops g_device_loops[kDeviceTypeCount];
}
inline DeviceLoops& device_loops(DeviceType type) {
  return detail::g_device_loops[static_cast<int>(type)];
}

}  // namespace rush
