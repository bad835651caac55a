// cublas.h: cuBLASLt, as far as we use it, opened at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/runtime/driver.h"

namespace rush::cuda::lt {

using Handle = struct LtContext*;
using MatmulDesc = struct LtMatmulDesc*;
using Layout = struct LtMatrixLayout*;
using Preference = struct LtPreference*;

enum DataType : int {
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR8I = 3,
  kC32F = 4,
  kC64F = 5,
  kR32I = 10,
  kR16BF = 14,
  kR8FE4M3 = 28,
  kR8FE5M2 = 29,
};
enum ComputeType : int { k32F = 68, k64F = 70, k32I = 72, k32FFastTF32 = 77 };
enum Operation : int { kNone = 0, kTranspose = 1 };
enum DescAttribute : int {
  kTransA = 3,
  kTransB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kScalePointerA = 17,
  kScalePointerB = 18,
  kFastAccumulation = 25,
  kBiasType = 26,
  kScaleModeA = 31,
  kScaleModeB = 32,
};
// How many numbers there are behind a scale's pointer: one, or one for each row.
enum ScaleMode : int32_t { kOneScale = 0, kScaleOfRow = 3 };
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int {
  kWorkspaceBytes = 1,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
};
enum Epilogue : int { kDefaultEpilogue = 1, kBiasEpilogue = 4, kReluBiasEpilogue = 6 };

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

// X(symbol, name here, parameters); all return a status, 0 is success.
#define RUSH_CUBLASLT(X)                                                                        \
  X(cublasLtCreate, Create, (Handle * handle))                                                  \
  X(cublasLtMatmulDescCreate, DescCreate,                                                       \
    (MatmulDesc * desc, ComputeType compute, DataType scale))                                   \
  X(cublasLtMatmulDescDestroy, DescDestroy, (MatmulDesc desc))                                  \
  X(cublasLtMatmulDescSetAttribute, DescSet,                                                    \
    (MatmulDesc desc, DescAttribute which, const void* value, size_t size))                     \
  X(cublasLtMatrixLayoutCreate, LayoutCreate,                                                   \
    (Layout * layout, DataType type, uint64_t rows, uint64_t cols, int64_t ld))                 \
  X(cublasLtMatrixLayoutDestroy, LayoutDestroy, (Layout layout))                                \
  X(cublasLtMatrixLayoutSetAttribute, LayoutSet,                                                \
    (Layout layout, LayoutAttribute which, const void* value, size_t size))                     \
  X(cublasLtMatmulPreferenceCreate, PreferenceCreate, (Preference * preference))                \
  X(cublasLtMatmulPreferenceDestroy, PreferenceDestroy, (Preference preference))                \
  X(cublasLtMatmulPreferenceSetAttribute, PreferenceSet,                                        \
    (Preference preference, PreferenceAttribute which, const void* value, size_t size))         \
  X(cublasLtMatmulAlgoGetHeuristic, GetHeuristic,                                               \
    (Handle handle, MatmulDesc desc, Layout a, Layout b, Layout c, Layout d,                    \
     Preference preference, int wanted, Heuristic* results, int* found))                        \
  X(cublasLtMatmul, Matmul,                                                                     \
    (Handle handle, MatmulDesc desc, const void* alpha, const void* a, Layout a_layout,         \
     const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d, \
     Layout d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,      \
     CUstream stream))

struct Library {
#define RUSH_MEMBER(symbol, name, params) int(*name) params = nullptr;
  RUSH_CUBLASLT(RUSH_MEMBER)
#undef RUSH_MEMBER
  std::string missing;
};

// Opened when first asked for; look at `missing` before use.
const Library& library();
// The handle of a device; raises when the library is missing.
Handle handle(int device);

}  // namespace rush::cuda::lt
