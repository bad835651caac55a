// nccl_library.h: NCCL, as far as we use it, opened at first use.
//
// The declarations are our own, as those of the driver (cuda/runtime/driver.h) are; a test compares
// them with NVIDIA's header where that is at hand.
#pragma once

#include <cstddef>
#include <string>

#include "core/dtype.h"
#include "cuda/runtime/driver.h"
#include "distributed/operation.h"

namespace rush::distributed::nccl {

using Comm = struct ncclComm*;
struct UniqueId {
  char bytes[128];
};

enum Result : int { kOk = 0, kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7 };
enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9,
  kNoType = -1
};
enum RedOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

// X(symbol, name here, parameters); all return a Result.
#define RUSH_NCCL(X)                                                                           \
  X(ncclGetVersion, GetVersion, (int* version))                                                \
  X(ncclGetUniqueId, GetUniqueId, (UniqueId * id))                                             \
  X(ncclCommInitRank, CommInitRank, (Comm * comm, int size, UniqueId id, int rank))            \
  X(ncclCommFinalize, CommFinalize, (Comm comm))                                               \
  X(ncclCommDestroy, CommDestroy, (Comm comm))                                                 \
  X(ncclCommAbort, CommAbort, (Comm comm))                                                     \
  X(ncclCommGetAsyncError, CommGetAsyncError, (Comm comm, Result * error))                     \
  X(ncclGroupStart, GroupStart, ())                                                            \
  X(ncclGroupEnd, GroupEnd, ())                                                                \
  X(ncclAllReduce, AllReduce,                                                                  \
    (const void* in, void* out, size_t count, DataType type, RedOp op, Comm comm,              \
     cuda::CUstream stream))                                                                   \
  X(ncclReduce, Reduce,                                                                        \
    (const void* in, void* out, size_t count, DataType type, RedOp op, int root, Comm comm,    \
     cuda::CUstream stream))                                                                   \
  X(ncclReduceScatter, ReduceScatter,                                                          \
    (const void* in, void* out, size_t count, DataType type, RedOp op, Comm comm,              \
     cuda::CUstream stream))                                                                   \
  X(ncclBroadcast, Broadcast,                                                                  \
    (const void* in, void* out, size_t count, DataType type, int root, Comm comm,              \
     cuda::CUstream stream))                                                                   \
  X(ncclAllGather, AllGather,                                                                  \
    (const void* in, void* out, size_t count, DataType type, Comm comm, cuda::CUstream s))     \
  X(ncclSend, Send,                                                                            \
    (const void* in, size_t count, DataType type, int peer, Comm comm, cuda::CUstream stream)) \
  X(ncclRecv, Recv,                                                                            \
    (void* out, size_t count, DataType type, int peer, Comm comm, cuda::CUstream stream))

struct Library {
#define RUSH_MEMBER(symbol, name, params) Result(*name) params = nullptr;
  RUSH_NCCL(RUSH_MEMBER)
#undef RUSH_MEMBER
  const char* (*GetErrorString)(Result result) = nullptr;
  const char* (*GetLastError)(Comm comm) = nullptr;  // may be missing
  std::string missing;
};

RUSH_API bool is_available();
RUSH_API int version();    // 22809 for 2.28.9; 0 when there is none
const Library& library();  // throws BackendError when there is none

DataType type_of(DType t);  // kNoType: NCCL does not add it
bool reduces(ReduceOp op);  // has NCCL such a reduction?
RedOp reduction_of(ReduceOp op);
void check_nccl(Result result, const char* what, Comm comm = nullptr);

}  // namespace rush::distributed::nccl
