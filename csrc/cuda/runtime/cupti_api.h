// cupti_api.h: CUPTI, as far as we use it, opened at run time. The declarations are our own; tests
// compare them with NVIDIA's where these are installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/runtime/driver.h"

namespace rush::cuda::cupti {

using Subscriber = struct CUpti_Subscriber_st*;
using Callback = void (*)(void* user, int domain, unsigned id, const void* data);
using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using BufferCompleted = void (*)(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                                 size_t valid);
using Timestamp = uint64_t (*)();

inline constexpr int kOk = 0, kOtherSubscriber = 39, kNoMoreRecords = 12;
inline constexpr int kDriverDomain = 1, kRuntimeDomain = 2;
inline constexpr int kSystemThreads = 1;     // gettid()
inline constexpr uint32_t kForcedFlush = 1;  // also buffers with records that are not complete

// Kinds of records.
inline constexpr int kCopy = 1, kFill = 2, kDriverCall = 4, kRuntimeCall = 5, kKernel = 10,
                     kPeerCopy = 22;

// Records. New versions of CUPTI append fields; what stands here has not moved since 2018.
struct KernelRecord {
  int kind;
  uint8_t caches[2];
  uint16_t registers;
  int partitions[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch[4];
  uint32_t shared_executed;
  uint64_t graph_node;
  int shared_limit;
  uint32_t graph;
};
struct CopyRecord {
  int kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
};
struct PeerCopyRecord {
  int kind;
  uint8_t copy_kind, from_kind, to_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, ends[4], correlation;  // device and context of both ends
};
struct FillRecord {
  int kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
};
struct CallRecord {
  int kind;
  uint32_t id;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};

struct SubscriberParams {
  size_t size;
  const char* name;
  char* old_name;
  size_t old_name_size;
  uint8_t allow_others, padding[7];
};

// X(symbol in the library, name here, parameters)
#define RUSH_CUPTI(X)                                                                          \
  X(cuptiSubscribe, Subscribe, (Subscriber * subscriber, Callback callback, void* user))       \
  X(cuptiUnsubscribe, Unsubscribe, (Subscriber subscriber))                                    \
  X(cuptiActivityRegisterCallbacks, RegisterCallbacks,                                         \
    (BufferRequested requested, BufferCompleted completed))                                    \
  X(cuptiActivityEnable, Enable, (int kind))                                                   \
  X(cuptiActivityDisable, Disable, (int kind))                                                 \
  X(cuptiActivityFlushAll, FlushAll, (uint32_t flag))                                          \
  X(cuptiActivityGetNextRecord, GetNextRecord, (uint8_t* buffer, size_t valid, void** record)) \
  X(cuptiActivityGetNumDroppedRecords, GetNumDropped,                                          \
    (CUcontext context, uint32_t stream, size_t* dropped))                                     \
  X(cuptiSetThreadIdType, SetThreadIdType, (int type))                                         \
  X(cuptiGetTimestamp, GetTimestamp, (uint64_t* timestamp))                                    \
  X(cuptiGetCallbackName, GetCallbackName, (int domain, uint32_t id, const char** name))       \
  X(cuptiGetResultString, GetResultString, (int result, const char** text))

// What newer ones have; null in the others.
#define RUSH_CUPTI_NEW(X)                                                               \
  X(cuptiSubscribe_v2, SubscribeNamed,                                                  \
    (Subscriber * subscriber, Callback callback, void* user, SubscriberParams* params)) \
  X(cuptiActivityRegisterTimestampCallback, RegisterTimestamp, (Timestamp now))

// The calls of the driver that are worth an event: those that queue work, wait, or get memory. CUPTI
// records all calls: those that are chosen one by one (cuptiActivityEnableDriverApi) are not, as of
// CUDA 13.0, and what they queue is then tied to nothing.
#define RUSH_CUPTI_DRIVER_CALLS(X)  \
  X(cuLaunchKernel, 307)            \
  X(cuLaunchKernelEx, 652)          \
  X(cuLaunchCooperativeKernel, 477) \
  X(cuGraphLaunch, 514)             \
  X(cuMemcpyAsync, 306)             \
  X(cuMemcpyHtoD_v2, 276)           \
  X(cuMemcpyHtoDAsync_v2, 277)      \
  X(cuMemcpyDtoH_v2, 278)           \
  X(cuMemcpyDtoHAsync_v2, 279)      \
  X(cuMemcpyDtoDAsync_v2, 281)      \
  X(cuMemcpyPeerAsync, 319)         \
  X(cuMemsetD8Async, 216)           \
  X(cuMemsetD32Async, 220)          \
  X(cuStreamSynchronize, 126)       \
  X(cuCtxSynchronize, 17)           \
  X(cuEventSynchronize, 121)        \
  X(cuMemAlloc_v2, 243)             \
  X(cuMemFree_v2, 245)              \
  X(cuMemHostAlloc, 39)             \
  X(cuMemFreeHost, 38)              \
  X(cuMemCreate, 549)               \
  X(cuMemRelease, 550)              \
  X(cuMemMap, 551)                  \
  X(cuMemUnmap, 552)                \
  X(cuMemSetAccess, 553)            \
  X(cuModuleLoadData, 19)
// And of the runtime, which NVIDIA's libraries call.
#define RUSH_CUPTI_RUNTIME_CALLS(X)         \
  X(cudaLaunchKernel_v7000, 211)            \
  X(cudaLaunchKernelExC_v11060, 430)        \
  X(cudaLaunchCooperativeKernel_v9000, 269) \
  X(cudaGraphLaunch_v10000, 311)            \
  X(cudaMemcpy_v3020, 31)                   \
  X(cudaMemcpyAsync_v3020, 41)              \
  X(cudaMemset_v3020, 49)                   \
  X(cudaMemsetAsync_v3020, 51)              \
  X(cudaMalloc_v3020, 20)                   \
  X(cudaFree_v3020, 22)                     \
  X(cudaStreamSynchronize_v3020, 131)       \
  X(cudaDeviceSynchronize_v3020, 165)       \
  X(cudaEventSynchronize_v3020, 137)

struct Library {
#define RUSH_MEMBER(symbol, name, params) int(*name) params = nullptr;
  RUSH_CUPTI(RUSH_MEMBER)
  RUSH_CUPTI_NEW(RUSH_MEMBER)
#undef RUSH_MEMBER
  std::string missing;  // why there is none; empty when there is one
};

// Opened when first asked for.
const Library& find_library();

}  // namespace rush::cuda::cupti
