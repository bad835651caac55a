// cudnn.h: cuDNN, as far as we use it, opened at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "cuda/runtime/driver.h"

namespace rush::cuda::dnn {

using Handle = struct DnnContext*;
using TensorDesc = struct DnnTensor*;
using FilterDesc = struct DnnFilter*;
using ConvDesc = struct DnnConvolution*;
using ActivationDesc = struct DnnActivation*;
using BackendDesc = void*;

enum DataType : int {
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kInt32 = 4,
  kBFloat16 = 9,
  kBoolean = 11
};
enum Format : int { kContiguous = 0, kChannelsLast = 1 };
enum MathType : int { kDefaultMath = 0, kTensorOp = 1, kTensorOpConverting = 2, kFma = 3 };
inline constexpr int kCrossCorrelation = 1;
inline constexpr int kRelu = 1, kIdentity = 5, kPropagateNan = 1;  // of an activation
// The one forward algorithm that adds a bias without an activation.
inline constexpr int kImplicitPrecomputedGemm = 1;

// What the heuristics say about one algorithm.
struct AlgorithmPerf {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math_type, reserved[3];
};

// X(symbol, name here, parameters); all return a status, 0 is success.
#define RUSH_CUDNN(X)                                                                              \
  X(cudnnCreate, Create, (Handle * handle))                                                        \
  X(cudnnDestroy, Destroy, (Handle handle))                                                        \
  X(cudnnSetStream, SetStream, (Handle handle, CUstream stream))                                   \
  X(cudnnCreateTensorDescriptor, CreateTensor, (TensorDesc * desc))                                \
  X(cudnnDestroyTensorDescriptor, DestroyTensor, (TensorDesc desc))                                \
  X(cudnnSetTensorNdDescriptor, SetTensor,                                                         \
    (TensorDesc desc, DataType type, int dims, const int* sizes, const int* strides))              \
  X(cudnnCreateFilterDescriptor, CreateFilter, (FilterDesc * desc))                                \
  X(cudnnDestroyFilterDescriptor, DestroyFilter, (FilterDesc desc))                                \
  X(cudnnSetFilterNdDescriptor, SetFilter,                                                         \
    (FilterDesc desc, DataType type, Format format, int dims, const int* sizes))                   \
  X(cudnnCreateConvolutionDescriptor, CreateConv, (ConvDesc * desc))                               \
  X(cudnnDestroyConvolutionDescriptor, DestroyConv, (ConvDesc desc))                               \
  X(cudnnSetConvolutionNdDescriptor, SetConv,                                                      \
    (ConvDesc desc, int dims, const int* padding, const int* stride, const int* dilation,          \
     int mode, DataType compute))                                                                  \
  X(cudnnSetConvolutionGroupCount, SetGroups, (ConvDesc desc, int groups))                         \
  X(cudnnSetConvolutionMathType, SetMath, (ConvDesc desc, MathType math))                          \
  X(cudnnGetConvolutionForwardAlgorithm_v7, ForwardAlgorithms,                                     \
    (Handle handle, TensorDesc x, FilterDesc w, ConvDesc conv, TensorDesc y, int wanted,           \
     int* found, AlgorithmPerf* perf))                                                             \
  X(cudnnBackendCreateDescriptor, CreateDescriptor, (int kind, BackendDesc* desc))                 \
  X(cudnnBackendDestroyDescriptor, DestroyDescriptor, (BackendDesc desc))                          \
  X(cudnnBackendFinalize, FinalizeDescriptor, (BackendDesc desc))                                  \
  X(cudnnBackendSetAttribute, SetAttribute,                                                        \
    (BackendDesc desc, int name, int type, int64_t count, const void* values))                     \
  X(cudnnBackendGetAttribute, GetAttribute,                                                        \
    (BackendDesc desc, int name, int type, int64_t room, int64_t* count, void* values))            \
  X(cudnnBackendExecute, Execute, (Handle handle, BackendDesc plan, BackendDesc pack))             \
  X(cudnnCreateActivationDescriptor, CreateActivation, (ActivationDesc * desc))                    \
  X(cudnnSetActivationDescriptor, SetActivation,                                                   \
    (ActivationDesc desc, int mode, int nan, double coefficient))                                  \
  X(cudnnConvolutionBiasActivationForward, ForwardBias,                                            \
    (Handle handle, const void* alpha, TensorDesc x_desc, const void* x, FilterDesc w_desc,        \
     const void* w, ConvDesc conv, int algorithm, void* workspace, size_t nbytes,                  \
     const void* alpha2, TensorDesc z_desc, const void* z, TensorDesc bias_desc, const void* bias, \
     ActivationDesc activation, TensorDesc y_desc, void* y))

struct Library {
#define RUSH_MEMBER(symbol, name, params) int(*name) params = nullptr;
  RUSH_CUDNN(RUSH_MEMBER)
#undef RUSH_MEMBER
  const char* (*ErrorString)(int status) = nullptr;
  size_t (*Version)() = nullptr;
  std::string missing;
};

// Opened when first asked for; look at `missing` before use.
const Library& library();
// The thread's handle on a device, set to its current stream, or to another one.
Handle handle(int device);
Handle handle(int device, CUstream stream);
// Raises what cuDNN says.
void done(int status, const char* what);

DataType data_type(DType t);
inline bool has_type(DType t) {
  return t == DType::Float32 || t == DType::Float64 || is_reduced_float(t);
}

}  // namespace rush::cuda::dnn
