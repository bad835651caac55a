// driver.h: NVIDIA's driver API, as far as we use it, opened at run time.
//
// The declarations are our own: a build needs no CUDA. Only what we call is listed, since a driver
// that lacks one of these is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rush::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUmemHandle = unsigned long long;

inline constexpr CUresult kSuccess = 0, kOutOfMemory = 2, kNotReady = 600;
inline constexpr int kAttributeMajor = 75, kAttributeMinor = 76, kAttributeProcessors = 16,
                     kAttributeSharedPerBlock = 8, kAttributeSharedOptin = 97,
                     kAttributeWarpSize = 10, kAttributeThreadsPerProcessor = 39,
                     kAttributeL2Bytes = 38, kAttributeClock = 13, kAttributeIntegrated = 18,
                     kAttributePciBus = 33, kAttributePciDevice = 34, kAttributePciDomain = 50;
inline constexpr int kAttributeVirtualMemory = 102;
inline constexpr unsigned kStreamNonBlocking = 1, kEventBlocking = 1, kEventNoTiming = 2,
                          kEventInterprocess = 4, kEventExternal = 1, kHostAllocPortable = 1,
                          kIpcLazyPeerAccess = 1;

// What other threads may do while a stream is captured (cuStreamBeginCapture).
enum CUcaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CUcaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };

struct CUuuid {
  char bytes[16];
};
struct CUipcHandle {  // of memory and of events alike
  char bytes[64];
};

// ---- virtual memory ----

struct CUmemLocation {
  int type, id;
};
inline constexpr int kLocationDevice = 1;
struct CUmemProperties {
  int type = 1;          // pinned, the only one
  int handle_types = 0;  // how it can be sent to other processes
  CUmemLocation location{};
  void* windows_only = nullptr;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags{};
};
inline constexpr int kHandleFileDescriptor = 1;
struct CUmemAccess {
  CUmemLocation location;
  int flags;
};
inline constexpr int kAccessReadWrite = 3;

// ---- launches ----

union CUlaunchValue {
  char room[64];
  int on;
};
struct CUlaunchAttribute {
  int id, padding;
  CUlaunchValue value;
};
inline constexpr int kLaunchCooperative = 2, kLaunchProgrammatic = 6;
struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CUstream stream;
  const CUlaunchAttribute* attributes;
  unsigned attribute_count;
};

// ---- graphs that we make ourselves ----

struct CUkernelNode {
  CUfunction f;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** params;
  void** extra;
  void* kernel;  // in place of f
  CUcontext context;
};
struct CUgraphEdge {
  unsigned char from_port, to_port, type, reserved[5];
};
// A kernel begins as the one before lets it (Note [Early launches]).
inline constexpr CUgraphEdge kEarlyEdge{1, 0, 1, {}};

// X(symbol in the library, name here, parameters)
#define RUSH_CUDA_DRIVER(X)                                                                       \
  X(cuInit, Init, (unsigned flags))                                                               \
  X(cuDriverGetVersion, DriverGetVersion, (int* version))                                         \
  X(cuGetErrorName, GetErrorName, (CUresult error, const char** text))                            \
  X(cuGetErrorString, GetErrorString, (CUresult error, const char** text))                        \
  X(cuDeviceGetCount, DeviceGetCount, (int* count))                                               \
  X(cuDeviceGet, DeviceGet, (CUdevice * device, int ordinal))                                     \
  X(cuDeviceGetName, DeviceGetName, (char* name, int room, CUdevice device))                      \
  X(cuDeviceGetUuid_v2, DeviceGetUuid, (CUuuid * uuid, CUdevice device))                          \
  X(cuDeviceGetAttribute, DeviceGetAttribute, (int* value, int attribute, CUdevice device))       \
  X(cuDeviceTotalMem_v2, DeviceTotalMem, (size_t* nbytes, CUdevice device))                       \
  X(cuDeviceCanAccessPeer, DeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer))       \
  X(cuDevicePrimaryCtxRetain, DevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))     \
  X(cuCtxSetCurrent, CtxSetCurrent, (CUcontext context))                                          \
  X(cuCtxSynchronize, CtxSynchronize, ())                                                         \
  X(cuMemGetInfo_v2, MemGetInfo, (size_t* free, size_t* total))                                   \
  X(cuMemAlloc_v2, MemAlloc, (CUdeviceptr * p, size_t nbytes))                                    \
  X(cuMemFree_v2, MemFree, (CUdeviceptr p))                                                       \
  X(cuMemHostAlloc, MemHostAlloc, (void** p, size_t nbytes, unsigned flags))                      \
  X(cuMemFreeHost, MemFreeHost, (void* p))                                                        \
  X(cuMemcpyAsync, MemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream s))    \
  X(cuMemcpyHtoDAsync_v2, MemcpyHtoDAsync,                                                        \
    (CUdeviceptr to, const void* from, size_t nbytes, CUstream stream))                           \
  X(cuMemcpyDtoHAsync_v2, MemcpyDtoHAsync,                                                        \
    (void* to, CUdeviceptr from, size_t nbytes, CUstream stream))                                 \
  X(cuMemsetD8Async, MemsetD8Async, (CUdeviceptr p, unsigned char byte, size_t n, CUstream s))    \
  X(cuStreamCreateWithPriority, StreamCreate, (CUstream * stream, unsigned flags, int priority))  \
  X(cuStreamSynchronize, StreamSynchronize, (CUstream stream))                                    \
  X(cuStreamQuery, StreamQuery, (CUstream stream))                                                \
  X(cuStreamWaitEvent, StreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))         \
  X(cuEventCreate, EventCreate, (CUevent * event, unsigned flags))                                \
  X(cuEventDestroy_v2, EventDestroy, (CUevent event))                                             \
  X(cuEventRecord, EventRecord, (CUevent event, CUstream stream))                                 \
  X(cuEventQuery, EventQuery, (CUevent event))                                                    \
  X(cuEventSynchronize, EventSynchronize, (CUevent event))                                        \
  X(cuEventElapsedTime, EventElapsedTime, (float* milliseconds, CUevent begin, CUevent end))      \
  X(cuEventRecordWithFlags, EventRecordWithFlags,                                                 \
    (CUevent event, CUstream stream, unsigned flags))                                             \
  X(cuStreamBeginCapture_v2, StreamBeginCapture, (CUstream stream, CUcaptureMode mode))           \
  X(cuStreamEndCapture, StreamEndCapture, (CUstream stream, CUgraph * graph))                     \
  X(cuStreamGetCaptureInfo, StreamGetCaptureInfo,                                                 \
    (CUstream stream, CUcaptureStatus * status, unsigned long long* id))                          \
  X(cuThreadExchangeStreamCaptureMode, ThreadExchangeCaptureMode, (CUcaptureMode * mode))         \
  X(cuGraphInstantiateWithFlags, GraphInstantiate,                                                \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                \
  X(cuGraphGetNodes, GraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t* count))          \
  X(cuGraphLaunch, GraphLaunch, (CUgraphExec exec, CUstream stream))                              \
  X(cuGraphExecDestroy, GraphExecDestroy, (CUgraphExec exec))                                     \
  X(cuGraphDestroy, GraphDestroy, (CUgraph graph))                                                \
  X(cuGraphDebugDotPrint, GraphDebugDotPrint, (CUgraph graph, const char* path, unsigned flags))  \
  X(cuMemGetAllocationGranularity, MemGranularity,                                                \
    (size_t* nbytes, const CUmemProperties* properties, int option))                              \
  X(cuMemAddressReserve, MemAddressReserve,                                                       \
    (CUdeviceptr * p, size_t nbytes, size_t alignment, CUdeviceptr at, unsigned long long flags)) \
  X(cuMemAddressFree, MemAddressFree, (CUdeviceptr p, size_t nbytes))                             \
  X(cuMemCreate, MemCreate,                                                                       \
    (CUmemHandle * handle, size_t nbytes, const CUmemProperties* properties,                      \
     unsigned long long flags))                                                                   \
  X(cuMemRelease, MemRelease, (CUmemHandle handle))                                               \
  X(cuMemMap, MemMap,                                                                             \
    (CUdeviceptr p, size_t nbytes, size_t offset, CUmemHandle handle, unsigned long long flags))  \
  X(cuMemUnmap, MemUnmap, (CUdeviceptr p, size_t nbytes))                                         \
  X(cuMemSetAccess, MemSetAccess,                                                                 \
    (CUdeviceptr p, size_t nbytes, const CUmemAccess* access, size_t count))                      \
  X(cuMemExportToShareableHandle, MemExport,                                                      \
    (void* to, CUmemHandle handle, int type, unsigned long long flags))                           \
  X(cuMemImportFromShareableHandle, MemImport, (CUmemHandle * handle, void* from, int type))      \
  X(cuPointerGetAttribute, PointerGetAttribute, (void* data, int attribute, CUdeviceptr p))       \
  X(cuIpcGetEventHandle, IpcGetEventHandle, (CUipcHandle * handle, CUevent event))                \
  X(cuIpcOpenEventHandle, IpcOpenEventHandle, (CUevent * event, CUipcHandle handle))              \
  X(cuIpcGetMemHandle, IpcGetMemHandle, (CUipcHandle * handle, CUdeviceptr p))                    \
  X(cuIpcOpenMemHandle_v2, IpcOpenMemHandle,                                                      \
    (CUdeviceptr * p, CUipcHandle handle, unsigned flags))                                        \
  X(cuIpcCloseMemHandle, IpcCloseMemHandle, (CUdeviceptr p))                                      \
  X(cuModuleLoadData, ModuleLoadData, (CUmodule * module, const void* image))                     \
  X(cuModuleGetFunction, ModuleGetFunction, (CUfunction * f, CUmodule module, const char* name))  \
  X(cuFuncSetAttribute, FuncSetAttribute, (CUfunction f, int attribute, int value))               \
  X(cuLaunchKernelEx, LaunchKernelEx,                                                             \
    (const CUlaunchConfig* config, CUfunction f, void** params, void** extra))

// What older drivers lack: batches of launches need it, and users' kernels are checked with it.
#define RUSH_CUDA_DRIVER_NEWER(X)                                                                \
  X(cuFuncGetParamInfo, FuncGetParamInfo,                                                        \
    (CUfunction f, size_t index, size_t* offset, size_t* size))                                  \
  X(cuGraphCreate, GraphCreate, (CUgraph * graph, unsigned flags))                               \
  X(cuGraphAddKernelNode_v2, GraphAddKernelNode,                                                 \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, size_t count,                 \
     const CUkernelNode* kernel))                                                                \
  X(cuGraphKernelNodeSetAttribute, GraphKernelNodeSetAttribute,                                  \
    (CUgraphNode node, int attribute, const CUlaunchValue* value))                               \
  X(cuGraphAddChildGraphNode, GraphAddChildGraphNode,                                            \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, size_t count, CUgraph child)) \
  X(cuGraphAddDependencies_v2, GraphAddDependencies,                                             \
    (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdge* edges,    \
     size_t count))                                                                              \
  X(cuGraphExecKernelNodeSetParams_v2, GraphExecKernelNodeSetParams,                             \
    (CUgraphExec exec, CUgraphNode node, const CUkernelNode* kernel))

struct Driver {
#define RUSH_MEMBER(symbol, name, params) CUresult(*name) params = nullptr;
  RUSH_CUDA_DRIVER(RUSH_MEMBER)
  RUSH_CUDA_DRIVER_NEWER(RUSH_MEMBER)
#undef RUSH_MEMBER
  bool can_batch = false;  // all of the newer ones are there
  // Why there is no driver that we can use; empty when there is one.
  std::string missing;
};

// Opened when first asked for; a missing driver is no error here.
const Driver& find_driver();

// The driver of a machine that has one: callers have a device.
extern const Driver* g_driver;
inline const Driver& driver() { return *g_driver; }

// "CUDA_ERROR_INVALID_VALUE (1): invalid argument"
std::string describe(CUresult error);
// Raises what the driver says about `what`. A kernel that failed earlier is reported by whatever
// call comes next, and the text says so.
[[noreturn]] void fail_driver(CUresult error, const char* what);

inline void must(CUresult error, const char* what) {
  if (error != kSuccess) [[unlikely]]
    fail_driver(error, what);
}

}  // namespace rush::cuda
