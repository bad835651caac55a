// fake_driver.cpp: a libcuda.so.1 without a GPU, for tests of everything around the kernels.
//
// - Memory is the host's; copies and fills are done at once, or recorded while their stream is
//   captured and done by each launch of the graph. Kernels do nothing.
// - Host functions (cuLaunchHostFunc, which the fake NCCL uses) run behind the program, and so does
//   all that is queued behind them (fake_streams.h).
// - It is strict where the real one is: a call that may wait is refused while a stream is captured
//   (and spoils the capture), memory must be mapped before it is touched, handles must be known,
//   and nothing that is freed twice or at the wrong address goes unnoticed.
// - FAKE_CUDA_MEMORY is the number of bytes that a device has, FAKE_CUDA_DEVICES how many there
// are.
//   Kernels and fills go to streams of the device whose context is current, events are recorded in
//   streams of their own device, as the real one has it.
//
// - What fake_cupti.cpp reports it is told by `fake_cuda_tool`.
//
// Compiled by tests/fake_gpu/conftest.py against the declarations of csrc/cuda/runtime/driver.h.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/runtime/driver.h"
#include "fake_streams.h"

#include "fake_tool.h"

using namespace rush::cuda;

FakeTool fake_cuda_tool = nullptr;

namespace {

void tell(FakeWork work) {
  if (fake_cuda_tool) fake_cuda_tool(work);
}

constexpr CUresult kInvalidValue = 1, kInvalidDevice = 101, kInvalidHandle = 400,
                   kCaptureUnsupported = 900, kCaptureInvalid = 901, kIllegalState = 401,
                   kNotSupported = 801;
constexpr size_t kPage = size_t(2) << 20;

struct Graph {
  std::vector<std::function<void()>> work;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};
// A kernel of a graph that was made node by node. Its number is that of the node in executable graphs,
// too; they know it as long as the graph is there.
struct KernelNode {
  size_t number;
  std::shared_ptr<bool> alive;
  CUgraph graph = nullptr;
  CUkernelNode kernel{};
  bool together = false;  // all its blocks run at once
};

// FAKE_CUDA_LOG: a file that gets a line for each kernel, copy and fill as it is done.
void note(const std::string& line) {
  static FILE* log = [] {
    const char* path = std::getenv("FAKE_CUDA_LOG");
    return path ? std::fopen(path, "a") : nullptr;
  }();
  if (!log) return;
  std::fprintf(log, "%s\n", line.c_str());
  std::fflush(log);
}

struct Capture {
  unsigned long long id;
  CUcaptureMode mode;
  Graph* graph;
  bool spoilt = false;
  void* owner;  // the stream that began it
};

struct FakeStream {
  explicit FakeStream(int device = 0) : device(device) {}
  int device;
  Capture* capture = nullptr;
  fake::Line line;
};
struct FakeEvent {
  int device = 0;
  Capture* capture = nullptr;
  bool recorded = false;
  std::shared_ptr<fake::Point> point = std::make_shared<fake::Point>();
};

std::recursive_mutex g_mutex;
std::set<FakeStream*> g_streams;
std::set<FakeEvent*> g_events;
std::vector<Capture*> g_live;  // captures that are going on
constexpr int kMost = 8;
thread_local int t_device = 0;  // whose context is current
// Never destroyed: threads may be at work when the process ends.
std::array<FakeStream, kMost>& g_defaults = *[] {
  auto* all = new std::array<FakeStream, kMost>;
  for (int d = 0; d < kMost; ++d) (*all)[size_t(d)].device = d;
  return all;
}();
unsigned long long g_next = 1;
std::array<size_t, kMost> g_used{};
struct Allocation {
  size_t size;
  int device;
};
std::map<CUdeviceptr, Allocation> g_allocations;
std::map<CUdeviceptr, size_t> g_ranges, g_mapped;
std::map<unsigned long long, int> g_modules;  // and functions: their devices
std::map<CUfunction, std::string> g_names;
std::map<void*, size_t> g_hosts;
struct Physical {
  int file;
  size_t size;
  int device;
  int maps = 0;
  bool released = false;
};
std::map<CUmemHandle, Physical> g_physical;
thread_local CUcaptureMode t_mode = kCaptureGlobal;

size_t total() {
  const char* text = std::getenv("FAKE_CUDA_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : size_t(256) << 20;
}

int devices() {
  const char* text = std::getenv("FAKE_CUDA_DEVICES");
  return text ? std::atoi(text) : 1;
}
size_t& used() { return g_used[size_t(t_device)]; }

FakeStream* stream_of(CUstream s) {
  auto* stream = s ? reinterpret_cast<FakeStream*>(s) : &g_defaults[size_t(t_device)];
  if (s && !g_streams.count(stream)) {
    std::fprintf(stderr, "fake driver: unknown stream\n");
    std::abort();
  }
  return stream;
}
Capture* capturing(CUstream s) { return stream_of(s)->capture; }

// A call that may wait for other streams.
CUresult unsafe() {
  if (t_mode == kCaptureRelaxed) return kSuccess;
  for (Capture* c : g_live) {
    if (c->mode == kCaptureRelaxed) continue;
    c->spoilt = true;
    return kCaptureUnsupported;
  }
  return kSuccess;
}

CUresult wait_for(CUstream s) {
  if (Capture* c = capturing(s)) {
    c->spoilt = true;
    return kCaptureUnsupported;
  }
  return kSuccess;
}

// Does it, or records it.
CUresult queue(CUstream s, std::function<void()> work) {
  if (Capture* c = capturing(s)) {
    if (c->spoilt) return kCaptureInvalid;
    c->graph->work.push_back(std::move(work));
    return kSuccess;
  }
  stream_of(s)->line.add(std::move(work));
  return kSuccess;
}

void* host(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

}  // namespace

#define FAKE(symbol) extern "C" __attribute__((visibility("default"))) CUresult symbol
#define LOCKED std::lock_guard<std::recursive_mutex> lock(g_mutex)

FAKE(cuInit)(unsigned) { return kSuccess; }
FAKE(cuDriverGetVersion)(int* version) {
  *version = 13000;
  return kSuccess;
}
FAKE(cuGetErrorName)(CUresult e, const char** text) {
  *text = e == kCaptureUnsupported ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : "FAKE_ERROR";
  return kSuccess;
}
FAKE(cuGetErrorString)(CUresult, const char** text) {
  *text = "of the fake driver";
  return kSuccess;
}
FAKE(cuDeviceGetCount)(int* n) {
  *n = devices();
  return kSuccess;
}
FAKE(cuDeviceGet)(CUdevice* d, int number) {
  if (number < 0 || number >= devices()) return kInvalidDevice;
  *d = number;
  return kSuccess;
}
FAKE(cuDeviceGetName)(char* name, int room, CUdevice) {
  std::snprintf(name, size_t(room), "Fake GPU");
  return kSuccess;
}
FAKE(cuDeviceGetUuid_v2)(CUuuid* uuid, CUdevice d) {
  std::memset(uuid, 7 + d, sizeof *uuid);
  return kSuccess;
}
FAKE(cuDeviceGetAttribute)(int* value, int which, CUdevice) {
  *value = which == kAttributeMajor                 ? 9
           : which == kAttributeMinor               ? 0
           : which == kAttributeProcessors          ? 4
           : which == kAttributeWarpSize            ? 32
           : which == kAttributeThreadsPerProcessor ? 2048
           : which == kAttributeSharedPerBlock      ? 49152
           : which == kAttributeSharedOptin         ? 232448
           : which == kAttributeVirtualMemory       ? !std::getenv("FAKE_CUDA_NO_VIRTUAL_MEMORY")
                                                    : 1;
  return kSuccess;
}
FAKE(cuDeviceTotalMem_v2)(size_t* n, CUdevice) {
  *n = total();
  return kSuccess;
}
FAKE(cuDeviceCanAccessPeer)(int* can, CUdevice, CUdevice) {
  *can = 0;
  return kSuccess;
}
FAKE(cuDevicePrimaryCtxRetain)(CUcontext* c, CUdevice d) {
  *c = reinterpret_cast<CUcontext>(uintptr_t(8 + d));
  return kSuccess;
}
FAKE(cuCtxSetCurrent)(CUcontext c) {
  t_device = int(reinterpret_cast<uintptr_t>(c)) - 8;
  return kSuccess;
}
FAKE(cuCtxSynchronize)() {
  tell({.call = 17, .kind = FakeWork::Wait, .device = t_device});
  std::vector<FakeStream*> all = {&g_defaults[size_t(t_device)]};
  {
    LOCKED;
    for (Capture* c : g_live) {
      c->spoilt = true;
      return kCaptureUnsupported;
    }
    for (FakeStream* stream : g_streams)
      if (stream->device == t_device) all.push_back(stream);
  }
  for (FakeStream* stream : all) stream->line.drain();
  return kSuccess;
}

// ---- memory ----

FAKE(cuMemGetInfo_v2)(size_t* free, size_t* all) {
  LOCKED;
  *free = total() - used();
  *all = total();
  return kSuccess;
}
FAKE(cuMemAlloc_v2)(CUdeviceptr* p, size_t n) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  const size_t whole = (n + kPage - 1) / kPage * kPage;
  if (used() + whole > total()) return kOutOfMemory;
  void* at = std::aligned_alloc(kPage, whole);
  std::memset(at, 0, whole);
  used() += whole;
  g_allocations[*p = reinterpret_cast<CUdeviceptr>(at)] = {whole, t_device};
  return kSuccess;
}
FAKE(cuMemFree_v2)(CUdeviceptr p) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  const auto found = g_allocations.find(p);
  if (found == g_allocations.end()) {
    std::fprintf(stderr, "fake driver: freed what is not allocated\n");
    std::abort();
  }
  g_used[size_t(found->second.device)] -= found->second.size;
  std::free(host(p));
  g_allocations.erase(found);
  return kSuccess;
}
FAKE(cuMemHostAlloc)(void** p, size_t n, unsigned) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  *p = std::aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  g_hosts[*p] = n;
  return kSuccess;
}
FAKE(cuMemFreeHost)(void* p) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  if (!g_hosts.erase(p)) std::abort();
  std::free(p);
  return kSuccess;
}
FAKE(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  tell({.call = 306,
        .kind = FakeWork::Copy,
        .direction = 8,
        .stream = s,
        .device = t_device,
        .bytes = n});
  LOCKED;
  return queue(s, [=] {
    note("copy");
    std::memmove(host(to), host(from), n);
  });
}
FAKE(cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  tell({.call = 277,
        .kind = FakeWork::Copy,
        .direction = 1,
        .stream = s,
        .device = t_device,
        .bytes = n});
  LOCKED;
  if (capturing(s) || stream_of(s)->line.is_idle())
    return queue(s, [=] {
      note("upload");
      std::memcpy(host(to), from, n);
    });
  // The caller may change its memory as soon as this returns.
  const auto* bytes = static_cast<const char*>(from);
  const auto kept = std::make_shared<std::vector<char>>(bytes, bytes + n);
  return queue(s, [=] {
    note("upload");
    std::memcpy(host(to), kept->data(), n);
  });
}
FAKE(cuMemcpyDtoHAsync_v2)(void* to, CUdeviceptr from, size_t n, CUstream s) {
  tell({.call = 279,
        .kind = FakeWork::Copy,
        .direction = 2,
        .stream = s,
        .device = t_device,
        .bytes = n});
  LOCKED;
  return queue(s, [=] {
    note("download");
    std::memcpy(to, host(from), n);
  });
}
FAKE(cuMemsetD8Async)(CUdeviceptr p, unsigned char byte, size_t n, CUstream s) {
  tell({.call = 216, .kind = FakeWork::Fill, .stream = s, .device = t_device, .bytes = n});
  LOCKED;
  if (stream_of(s)->device != t_device) return kInvalidHandle;
  return queue(s, [=] {
    note("fill");
    std::memset(host(p), byte, n);
  });
}

// ---- virtual memory ----

FAKE(cuMemGetAllocationGranularity)(size_t* n, const CUmemProperties*, int) {
  *n = kPage;
  return kSuccess;
}
FAKE(cuMemAddressReserve)(CUdeviceptr* p, size_t n, size_t, CUdeviceptr, unsigned long long) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  if (n % kPage) return kInvalidValue;
  // Aligned by hand: mmap gives pages of 4 KiB.
  char* at = static_cast<char*>(
      mmap(nullptr, n + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (at == MAP_FAILED) return kOutOfMemory;
  char* begin = at + (kPage - reinterpret_cast<uintptr_t>(at) % kPage) % kPage;
  if (begin > at) munmap(at, size_t(begin - at));
  munmap(begin + n, size_t(at + n + kPage - (begin + n)));
  g_ranges[*p = reinterpret_cast<CUdeviceptr>(begin)] = n;
  return kSuccess;
}
FAKE(cuMemAddressFree)(CUdeviceptr p, size_t n) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  const auto found = g_ranges.find(p);
  if (found == g_ranges.end() || found->second != n) return kInvalidValue;
  for (const auto& [at, size] : g_mapped)
    if (at >= p && at < p + n) return kIllegalState;
  munmap(host(p), n);
  g_ranges.erase(found);
  return kSuccess;
}
FAKE(cuMemCreate)(CUmemHandle* h, size_t n, const CUmemProperties* how, unsigned long long) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  if (n % kPage) return kInvalidValue;
  const int device = how->location.id;
  if (g_used[size_t(device)] + n > total()) return kOutOfMemory;
  const int file = memfd_create("fake gpu", MFD_CLOEXEC);
  if (ftruncate(file, off_t(n)) != 0) return kOutOfMemory;
  g_used[size_t(device)] += n;
  g_physical[*h = g_next++] = {file, n, device};
  return kSuccess;
}
static void drop_physical(CUmemHandle h) {
  Physical& p = g_physical.at(h);
  if (!p.released || p.maps > 0) return;
  close(p.file);
  g_used[size_t(p.device)] -= p.size;
  g_physical.erase(h);
}
static std::map<CUdeviceptr, CUmemHandle> g_mapping;
FAKE(cuMemRelease)(CUmemHandle h) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  if (!g_physical.count(h) || g_physical[h].released) return kInvalidHandle;
  g_physical[h].released = true;
  drop_physical(h);
  return kSuccess;
}
FAKE(cuMemMap)(CUdeviceptr p, size_t n, size_t offset, CUmemHandle h, unsigned long long) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  if (!g_physical.count(h) || n % kPage || p % kPage || offset) return kInvalidValue;
  if (g_mapped.count(p)) return kInvalidValue;
  bool inside = false;
  for (const auto& [at, size] : g_ranges) inside = inside || (p >= at && p + n <= at + size);
  if (!inside) return kInvalidValue;
  if (mmap(host(p), n, PROT_NONE, MAP_SHARED | MAP_FIXED, g_physical[h].file, 0) == MAP_FAILED)
    return kOutOfMemory;
  g_mapped[p] = n;
  g_mapping[p] = h;
  ++g_physical[h].maps;
  return kSuccess;
}
FAKE(cuMemUnmap)(CUdeviceptr p, size_t n) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  size_t done = 0;
  while (done < n) {
    const auto found = g_mapped.find(p + done);
    if (found == g_mapped.end() || done + found->second > n) return kInvalidValue;
    const CUdeviceptr at = found->first;
    const size_t size = found->second;
    mmap(host(at), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    const CUmemHandle h = g_mapping[at];
    g_mapping.erase(at);
    g_mapped.erase(found);
    --g_physical[h].maps;
    drop_physical(h);
    done += size;
  }
  return kSuccess;
}
FAKE(cuMemSetAccess)(CUdeviceptr p, size_t n, const CUmemAccess*, size_t) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  return mprotect(host(p), n, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}
FAKE(cuMemExportToShareableHandle)(void* to, CUmemHandle h, int, unsigned long long) {
  LOCKED;
  if (!g_physical.count(h)) return kInvalidHandle;
  *static_cast<int*>(to) = dup(g_physical[h].file);
  return kSuccess;
}
FAKE(cuMemImportFromShareableHandle)(CUmemHandle* h, void* from, int) {
  LOCKED;
  const int file = dup(int(reinterpret_cast<intptr_t>(from)));
  const off_t size = lseek(file, 0, SEEK_END);
  g_physical[*h = g_next++] = {file, size_t(size), t_device};
  used() += size_t(size);
  return kSuccess;
}

// ---- streams and events ----

FAKE(cuStreamCreateWithPriority)(CUstream* s, unsigned, int) {
  LOCKED;
  auto* stream = new FakeStream(t_device);
  g_streams.insert(stream);
  *s = reinterpret_cast<CUstream>(stream);
  return kSuccess;
}
FAKE(cuStreamSynchronize)(CUstream s) {
  tell({.call = 126, .kind = FakeWork::Wait, .stream = s, .device = t_device});
  FakeStream* stream = nullptr;
  {
    LOCKED;
    if (CUresult r = wait_for(s)) return r;
    stream = stream_of(s);
  }
  stream->line.drain();
  return kSuccess;
}
FAKE(cuStreamQuery)(CUstream s) {
  LOCKED;
  if (CUresult r = wait_for(s)) return r;
  return stream_of(s)->line.is_idle() ? kSuccess : kNotReady;
}
FAKE(cuLaunchHostFunc)(CUstream s, void (*f)(void*), void* data) {
  LOCKED;
  if (capturing(s)) return queue(s, [=] { f(data); });
  stream_of(s)->line.add_slow([=] { f(data); });
  return kSuccess;
}
FAKE(cuStreamWaitEvent)(CUstream s, CUevent e, unsigned) {
  LOCKED;
  auto* event = reinterpret_cast<FakeEvent*>(e);
  if (event->capture)
    stream_of(s)->capture = event->capture;  // joins
  else
    stream_of(s)->line.wait_for(event->point);
  return kSuccess;
}
FAKE(cuEventCreate)(CUevent* e, unsigned) {
  LOCKED;
  auto* event = new FakeEvent{t_device};
  g_events.insert(event);
  *e = reinterpret_cast<CUevent>(event);
  return kSuccess;
}
FAKE(cuEventDestroy_v2)(CUevent e) {
  LOCKED;
  auto* event = reinterpret_cast<FakeEvent*>(e);
  if (!g_events.erase(event)) std::abort();
  delete event;
  return kSuccess;
}
FAKE(cuEventRecord)(CUevent e, CUstream s) {
  LOCKED;
  auto* event = reinterpret_cast<FakeEvent*>(e);
  if (event->device != stream_of(s)->device) return kInvalidHandle;
  event->capture = capturing(s);
  event->recorded = true;
  if (!event->capture) stream_of(s)->line.record(event->point);
  return kSuccess;
}
FAKE(cuEventRecordWithFlags)(CUevent e, CUstream, unsigned) {
  LOCKED;
  reinterpret_cast<FakeEvent*>(e)->recorded = true;
  return kSuccess;
}
static CUresult event_done(CUevent e) {
  if (CUresult r = unsafe()) return r;
  if (Capture* c = reinterpret_cast<FakeEvent*>(e)->capture) {
    for (Capture* live : g_live)
      if (live == c) return kCaptureUnsupported;
  }
  return kSuccess;
}
FAKE(cuEventQuery)(CUevent e) {
  if (std::getenv("FAKE_CUDA_BEHIND")) return kNotReady;  // a GPU that has much to do
  LOCKED;
  if (CUresult r = event_done(e)) return r;
  return fake::Line::has_passed(*reinterpret_cast<FakeEvent*>(e)->point) ? kSuccess : kNotReady;
}
FAKE(cuEventSynchronize)(CUevent e) {
  std::shared_ptr<fake::Point> point;
  {
    LOCKED;
    if (CUresult r = event_done(e)) return r;
    point = reinterpret_cast<FakeEvent*>(e)->point;
  }
  fake::Line::await(*point, point->recorded);
  return kSuccess;
}
FAKE(cuEventElapsedTime)(float* ms, CUevent a, CUevent b) {
  LOCKED;
  if (reinterpret_cast<FakeEvent*>(a)->device != reinterpret_cast<FakeEvent*>(b)->device)
    return kInvalidHandle;
  *ms = 1;
  return kSuccess;
}

// ---- captures and graphs ----

FAKE(cuStreamBeginCapture_v2)(CUstream s, CUcaptureMode mode) {
  LOCKED;
  if (!s || capturing(s)) return kCaptureUnsupported;
  auto* c = new Capture{g_next++, mode, new Graph, false, stream_of(s)};
  stream_of(s)->capture = c;
  g_live.push_back(c);
  return kSuccess;
}
FAKE(cuStreamEndCapture)(CUstream s, CUgraph* graph) {
  LOCKED;
  *graph = nullptr;
  Capture* c = capturing(s);
  if (!c || c->owner != stream_of(s)) return kInvalidValue;
  for (FakeStream* stream : g_streams)
    if (stream->capture == c) stream->capture = nullptr;
  std::erase(g_live, c);
  if (c->spoilt) return kCaptureInvalid;
  *graph = reinterpret_cast<CUgraph>(c->graph);
  return kSuccess;  // (the capture's record is leaked: events may still point to it)
}
FAKE(cuStreamGetCaptureInfo)(CUstream s, CUcaptureStatus* status, unsigned long long* id) {
  LOCKED;
  Capture* c = capturing(s);
  *status = !c ? kCaptureNone : c->spoilt ? kCaptureInvalidated : kCaptureActive;
  if (c && id) *id = c->id;
  return kSuccess;
}
FAKE(cuThreadExchangeStreamCaptureMode)(CUcaptureMode* mode) {
  std::swap(t_mode, *mode);
  return kSuccess;
}
FAKE(cuGraphInstantiateWithFlags)(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  LOCKED;
  *exec = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return kSuccess;
}
FAKE(cuGraphGetNodes)(CUgraph graph, CUgraphNode*, size_t* count) {
  *count = reinterpret_cast<Graph*>(graph)->work.size();
  return kSuccess;
}
FAKE(cuGraphLaunch)(CUgraphExec exec, CUstream s) {
  LOCKED;
  if (capturing(s)) return kCaptureUnsupported;
  tell({.call = 514,
        .kind = FakeWork::Kernel,
        .stream = s,
        .device = t_device,
        .name = "a node of a graph",
        .graph = 7,
        .count = unsigned(reinterpret_cast<Graph*>(exec)->work.size())});
  for (const auto& work : reinterpret_cast<Graph*>(exec)->work) stream_of(s)->line.add(work);
  return kSuccess;
}
FAKE(cuGraphExecDestroy)(CUgraphExec exec) {
  LOCKED;
  delete reinterpret_cast<Graph*>(exec);
  return kSuccess;
}
FAKE(cuGraphDestroy)(CUgraph graph) {
  LOCKED;
  *reinterpret_cast<Graph*>(graph)->alive = false;
  delete reinterpret_cast<Graph*>(graph);
  return kSuccess;
}
FAKE(cuGraphDebugDotPrint)(CUgraph, const char* path, unsigned) {
  FILE* f = std::fopen(path, "w");
  if (!f) return kInvalidValue;
  std::fputs("digraph {}\n", f);
  std::fclose(f);
  return kSuccess;
}

// ---- kernels and other processes ----

FAKE(cuModuleLoadData)(CUmodule* m, const void*) {
  LOCKED;
  if (CUresult r = unsafe()) return r;
  g_modules[g_next] = t_device;
  *m = reinterpret_cast<CUmodule>(g_next++);
  return kSuccess;
}
FAKE(cuModuleGetFunction)(CUfunction* f, CUmodule m, const char* name) {
  LOCKED;
  g_modules[g_next] = g_modules.at(reinterpret_cast<unsigned long long>(m));
  *f = reinterpret_cast<CUfunction>(g_next++);
  g_names[*f] = name;
  return kSuccess;
}
FAKE(cuFuncSetAttribute)(CUfunction, int, int) { return kSuccess; }
// FAKE_CUDA_PARAMETERS=8,4: the sizes of every kernel's parameters. Unset: this driver cannot tell.
static std::vector<size_t> parameter_sizes() {
  std::vector<size_t> sizes;
  const char* told = std::getenv("FAKE_CUDA_PARAMETERS");
  std::istringstream text(told ? told : "");
  for (std::string one; std::getline(text, one, ',');) sizes.push_back(std::stoul(one));
  return sizes;
}
FAKE(cuFuncGetParamInfo)(CUfunction, size_t index, size_t* offset, size_t* size) {
  if (!std::getenv("FAKE_CUDA_PARAMETERS")) return kNotSupported;
  const std::vector<size_t> sizes = parameter_sizes();
  if (index >= sizes.size()) return kInvalidValue;
  *offset = 0;
  *size = sizes[index];
  return kSuccess;
}
// FAKE_CUDA_LAUNCHES=file: launches with the bytes of their parameters are written there.
static void write_launch(const CUlaunchConfig& c, const std::string& name, void** params) {
  std::ofstream out(std::getenv("FAKE_CUDA_LAUNCHES"), std::ios::app);
  out << name << " " << c.grid_x << "x" << c.grid_y << "x" << c.grid_z << " " << c.block_x << "x"
      << c.block_y << "x" << c.block_z << " " << c.shared_bytes << std::hex;
  const std::vector<size_t> sizes = parameter_sizes();
  for (size_t i = 0; i < sizes.size(); ++i) {
    unsigned long long value = 0;
    std::memcpy(&value, params[i], sizes[i]);
    out << " " << value;
  }
  out << "\n";
}
// (The last word is of kernels whose blocks run all at once.)
static std::string kernel_line(CUfunction f, unsigned grid, bool together) {
  return g_names.at(f) + " " + std::to_string(grid) + (together ? " together" : "");
}
FAKE(cuLaunchKernelEx)(const CUlaunchConfig* config, CUfunction f, void** params, void**) {
  LOCKED;
  if (std::getenv("FAKE_CUDA_LAUNCHES")) write_launch(*config, g_names.at(f), params);
  if (stream_of(config->stream)->device != t_device) return kInvalidHandle;
  if (g_modules.at(reinterpret_cast<unsigned long long>(f)) != t_device) return kInvalidHandle;
  if (!capturing(config->stream))
    tell({.call = 652,
          .kind = FakeWork::Kernel,
          .stream = config->stream,
          .device = t_device,
          .name = g_names.at(f).c_str(),
          .grid = config->grid_x,
          .block = config->block_x});
  bool together = false;
  for (unsigned i = 0; i < config->attribute_count; ++i)
    together = together || config->attributes[i].id == kLaunchCooperative;
  return queue(config->stream, [line = kernel_line(f, config->grid_x, together)] { note(line); });
}
FAKE(cuGraphCreate)(CUgraph* graph, unsigned) {
  *graph = reinterpret_cast<CUgraph>(new Graph);
  return kSuccess;
}
static std::function<void()> kernel_work(const CUkernelNode& k, bool together) {
  return [line = kernel_line(k.f, k.grid_x, together)] { note(line); };
}
FAKE(cuGraphAddKernelNode_v2)(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                              const CUkernelNode* kernel) {
  LOCKED;
  auto& work = reinterpret_cast<Graph*>(graph)->work;
  *node = reinterpret_cast<CUgraphNode>(
      new KernelNode{work.size(), reinterpret_cast<Graph*>(graph)->alive, graph, *kernel});
  work.push_back(kernel_work(*kernel, false));
  return kSuccess;
}
// Of kernels whose blocks run all at once.
FAKE(cuGraphKernelNodeSetAttribute)(CUgraphNode node, int attribute, const CUlaunchValue* value) {
  LOCKED;
  auto* known = reinterpret_cast<KernelNode*>(node);
  if (attribute != kLaunchCooperative || value->on != 1 || !*known->alive) return kInvalidValue;
  known->together = true;
  reinterpret_cast<Graph*>(known->graph)->work.at(known->number) = kernel_work(known->kernel, true);
  return kSuccess;
}
FAKE(cuGraphAddChildGraphNode)(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                               CUgraph child) {
  LOCKED;
  auto& work = reinterpret_cast<Graph*>(graph)->work;
  *node = reinterpret_cast<CUgraphNode>(
      new KernelNode{work.size(), reinterpret_cast<Graph*>(graph)->alive});
  // (A copy, as the real one makes: the child may go.)
  work.push_back([all = reinterpret_cast<Graph*>(child)->work] {
    for (const auto& one : all) one();
  });
  return kSuccess;
}
FAKE(cuGraphAddDependencies_v2)(CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdge*,
                                size_t) {
  return kSuccess;
}
FAKE(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec exec, CUgraphNode node,
                                        const CUkernelNode* kernel) {
  LOCKED;
  auto& work = reinterpret_cast<Graph*>(exec)->work;
  const auto* known = reinterpret_cast<KernelNode*>(node);
  if (!*known->alive) return kInvalidValue;
  work.at(known->number) = kernel_work(*kernel, known->together);
  return kSuccess;
}
FAKE(cuIpcGetEventHandle)(CUipcHandle*, CUevent) { return kInvalidValue; }
FAKE(cuIpcOpenEventHandle)(CUevent*, CUipcHandle) { return kInvalidValue; }
FAKE(cuIpcGetMemHandle)(CUipcHandle*, CUdeviceptr) { return kInvalidValue; }
FAKE(cuIpcOpenMemHandle_v2)(CUdeviceptr*, CUipcHandle, unsigned) { return kInvalidValue; }
FAKE(cuIpcCloseMemHandle)(CUdeviceptr) { return kInvalidValue; }
FAKE(cuPointerGetAttribute)(void* data, int, CUdeviceptr p) {
  LOCKED;
  int& device = *static_cast<int*>(data) = 0;
  for (const auto& [at, a] : g_allocations)
    if (p >= at && p < at + a.size) device = a.device;
  for (const auto& [at, size] : g_mapped)
    if (p >= at && p < at + size) device = g_physical.at(g_mapping.at(at)).device;
  return kSuccess;
}
