// cudnn_rnn.h: cuDNN's recurrent networks, as far as we use them.
#pragma once

#include "cuda/vendor/cudnn.h"

namespace rush::cuda::dnn {

using RnnDesc = struct DnnRnn*;
using RnnDataDesc = struct DnnRnnData*;
using DropoutDesc = struct DnnDropout*;

enum RnnAlgorithm : int { kStandardRnn = 0, kPersistDynamic = 2 };
enum RnnCell : int { kRnnRelu = 0, kRnnTanh = 1, kLstm = 2, kGru = 3 };
enum RnnBias : int { kNoBias = 0, kDoubleBias = 2 };
enum RnnDirection : int { kOneWay = 0, kBothWays = 1 };
enum RnnInputMode : int { kLinearInput = 0 };
enum RnnLayout : int { kTimeFirst = 0, kPackedRows = 1 };
enum RnnForwardMode : int { kInference = 0, kTraining = 1 };
enum WeightGradMode : int { kAddGrads = 0 };
inline constexpr uint32_t kPaddedRows = 1;  // auxFlags

// X(symbol, name here, parameters); all return a status, 0 is success.
#define RUSH_CUDNN_RNN(X)                                                                          \
  X(cudnnCreateDropoutDescriptor, CreateDropout, (DropoutDesc * desc))                             \
  X(cudnnDestroyDropoutDescriptor, DestroyDropout, (DropoutDesc desc))                             \
  X(cudnnSetDropoutDescriptor, SetDropout,                                                         \
    (DropoutDesc desc, Handle handle, float dropout, void* states, size_t nbytes,                  \
     unsigned long long seed))                                                                     \
  X(cudnnCreateRNNDescriptor, CreateRnn, (RnnDesc * desc))                                         \
  X(cudnnDestroyRNNDescriptor, DestroyRnn, (RnnDesc desc))                                         \
  X(cudnnSetRNNDescriptor_v8, SetRnn,                                                              \
    (RnnDesc desc, RnnAlgorithm algorithm, RnnCell cell, RnnBias bias, RnnDirection direction,     \
     RnnInputMode input_mode, DataType data, DataType compute, MathType math, int32_t inputs,      \
     int32_t hidden, int32_t projected, int32_t layers, DropoutDesc dropout, uint32_t flags))      \
  X(cudnnCreateRNNDataDescriptor, CreateRnnData, (RnnDataDesc * desc))                             \
  X(cudnnDestroyRNNDataDescriptor, DestroyRnnData, (RnnDataDesc desc))                             \
  X(cudnnSetRNNDataDescriptor, SetRnnData,                                                         \
    (RnnDataDesc desc, DataType type, RnnLayout layout, int longest, int batch, int width,         \
     const int* lengths, void* filling))                                                           \
  X(cudnnGetRNNTempSpaceSizes, RnnRoom,                                                            \
    (Handle handle, RnnDesc desc, RnnForwardMode mode, RnnDataDesc x, size_t* workspace,           \
     size_t* reserve))                                                                             \
  X(cudnnGetRNNWeightSpaceSize, RnnWeightRoom, (Handle handle, RnnDesc desc, size_t* nbytes))      \
  X(cudnnGetRNNWeightParams, RnnWeightPlace,                                                       \
    (Handle handle, RnnDesc desc, int32_t layer, size_t nbytes, const void* weights, int32_t id,   \
     TensorDesc matrix, void** matrix_at, TensorDesc bias, void** bias_at))                        \
  X(cudnnRNNForward, RnnForward,                                                                   \
    (Handle handle, RnnDesc desc, RnnForwardMode mode, const int32_t* lengths, RnnDataDesc x_desc, \
     const void* x, RnnDataDesc y_desc, void* y, TensorDesc h_desc, const void* hx, void* hy,      \
     TensorDesc c_desc, const void* cx, void* cy, size_t weight_bytes, const void* weights,        \
     size_t work_bytes, void* work, size_t reserve_bytes, void* reserve))                          \
  X(cudnnRNNBackwardData_v8, RnnBackwardData,                                                      \
    (Handle handle, RnnDesc desc, const int32_t* lengths, RnnDataDesc y_desc, const void* y,       \
     const void* gy, RnnDataDesc x_desc, void* gx, TensorDesc h_desc, const void* hx,              \
     const void* ghy, void* ghx, TensorDesc c_desc, const void* cx, const void* gcy, void* gcx,    \
     size_t weight_bytes, const void* weights, size_t work_bytes, void* work,                      \
     size_t reserve_bytes, void* reserve))                                                         \
  X(cudnnRNNBackwardWeights_v8, RnnBackwardWeights,                                                \
    (Handle handle, RnnDesc desc, WeightGradMode mode, const int32_t* lengths, RnnDataDesc x_desc, \
     const void* x, TensorDesc h_desc, const void* hx, RnnDataDesc y_desc, const void* y,          \
     size_t weight_bytes, void* weight_grads, size_t work_bytes, void* work, size_t reserve_bytes, \
     void* reserve))

struct RnnLibrary {
#define RUSH_MEMBER(symbol, name, params) int(*name) params = nullptr;
  RUSH_CUDNN_RNN(RUSH_MEMBER)
#undef RUSH_MEMBER
  std::string missing;
};

// Opened when first asked for; look at `missing` before use.
const RnnLibrary& rnn_library();

}  // namespace rush::cuda::dnn
