#include "cuda/runtime/device.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <vector>

#include "core/dynamic_library.h"
#include "core/error.h"
#include "core/layout.h"
#include "core/mutex.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/launch_batch.h"
#include "cuda/runtime/nvrtc.h"
#include "cuda/runtime/opened.h"

namespace rush::cuda {

constinit thread_local int t_bound [[gnu::tls_model("initial-exec")]] = -1;

namespace {

constexpr int kOldestArch = 75;  // what the newest NVRTC still compiles for

constinit thread_local int t_current [[gnu::tls_model("initial-exec")]] = 0;
std::atomic<bool> g_initialized{false};
std::atomic<bool> g_forked{false};  // this is the child of a process that had a context

// ---- counting without the driver ----

struct Nvml {
  int (*Init)() = nullptr;
  int (*Shutdown)() = nullptr;
  int (*DeviceGetCount)(unsigned* count) = nullptr;
};

// -1: it does not say.
int count_by_nvml() {
  void* library = open_library({"libnvidia-ml.so.1"}, {""});
  Nvml n;
  n.Init = reinterpret_cast<int (*)()>(library_symbol(library, "nvmlInit_v2"));
  n.Shutdown = reinterpret_cast<int (*)()>(library_symbol(library, "nvmlShutdown"));
  n.DeviceGetCount =
      reinterpret_cast<int (*)(unsigned*)>(library_symbol(library, "nvmlDeviceGetCount_v2"));
  if (!n.Init || !n.Shutdown || !n.DeviceGetCount || n.Init() != 0) return -1;
  unsigned count = 0;
  const bool good = n.DeviceGetCount(&count) == 0;
  n.Shutdown();
  return good ? int(count) : -1;
}

// CUDA_VISIBLE_DEVICES as the driver reads it, for lists of numbers: the first bad one ends the
// list. Names of devices are left to the driver (-1).
int visible_of(int count) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!text) return count;
  std::istringstream parts(text);
  std::vector<int> seen;
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    const long k = std::strtol(part.c_str(), &end, 10);
    if (end == part.c_str() || *end) return part.empty() ? int(seen.size()) : -1;
    if (k < 0 || k >= count) break;
    for (const int other : seen)
      if (other == k) return 0;
    seen.push_back(int(k));
  }
  return int(seen.size());
}

void start_driver() {
  const Driver& d = find_driver();
  check(d.missing.empty(), ErrorKind::Runtime, "cuda", d.missing);
  must(d.Init(0), "cuInit");
  g_driver = &d;
}

struct Availability {
  int count = 0;
  std::string why;
};

Availability look() {
  Availability a;
  const Driver& d = find_driver();
  a.why = d.missing;
  if (a.why.empty()) a.why = nvrtc_missing();
  if (!a.why.empty()) return a;
  const int all = count_by_nvml();
  a.count = all < 0 ? -1 : visible_of(all);
  if (a.count < 0) {
    int count = 0;
    const CUresult error = d.Init(0);
    if (error == kSuccess) d.DeviceGetCount(&count);
    a.count = count;
    if (error != kSuccess) a.why = "the NVIDIA driver does not start: " + describe(error);
  }
  if (a.count == 0 && a.why.empty()) {
    a.why = std::getenv("CUDA_VISIBLE_DEVICES")
                ? "CUDA_VISIBLE_DEVICES leaves no GPU to this process"
                : "the NVIDIA driver finds no GPU";
  }
  a.count = std::min(a.count, kMaxDevices);
  return a;
}

const Availability& availability() {
  static const Availability found = look();
  return found;
}

// ---- devices ----

struct OpenDevice {
  CUdevice handle = 0;
  DeviceInfo info;
  std::atomic<CUcontext> context{nullptr};
  std::atomic<bool> described{false};
};

Mutex& mutex() {
  static Mutex m{LockRank::CudaDevices};
  return m;
}
OpenDevice& slot(int device) {
  static std::array<OpenDevice, kMaxDevices> devices;
  return devices[size_t(device)];
}

void refuse_forked() {
  check(!g_forked.load(std::memory_order_relaxed), ErrorKind::Runtime, "cuda",
        "Cannot re-initialize CUDA in forked subprocess: the parent used the GPU before it forked, "
        "and the driver does not survive that. Use the 'spawn' start method");
}

int attribute(CUdevice device, int which) {
  int value = 0;
  must(driver().DeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

// Caller holds the mutex.
OpenDevice& describe_device(int device) {
  OpenDevice& d = slot(device);
  if (d.described.load(std::memory_order_acquire)) return d;
  refuse_forked();
  if (!g_driver) start_driver();
  const Driver& api = driver();
  must(api.DeviceGet(&d.handle, device), "cuDeviceGet");
  char name[256] = {};
  must(api.DeviceGetName(name, sizeof name, d.handle), "cuDeviceGetName");
  DeviceInfo& i = d.info;
  i.name = name;
  i.major = attribute(d.handle, kAttributeMajor);
  i.minor = attribute(d.handle, kAttributeMinor);
  i.processors = attribute(d.handle, kAttributeProcessors);
  i.threads_per_processor = attribute(d.handle, kAttributeThreadsPerProcessor);
  i.warp_size = attribute(d.handle, kAttributeWarpSize);
  i.shared_per_block = attribute(d.handle, kAttributeSharedPerBlock);
  i.shared_optin = attribute(d.handle, kAttributeSharedOptin);
  i.l2_bytes = attribute(d.handle, kAttributeL2Bytes);
  i.clock_khz = attribute(d.handle, kAttributeClock);
  i.integrated = attribute(d.handle, kAttributeIntegrated) != 0;
  i.pci_domain = attribute(d.handle, kAttributePciDomain);
  i.pci_bus = attribute(d.handle, kAttributePciBus);
  i.pci_device = attribute(d.handle, kAttributePciDevice);
  must(api.DeviceTotalMem(&i.total_memory, d.handle), "cuDeviceTotalMem");
  must(api.DeviceGetUuid(&i.uuid, d.handle), "cuDeviceGetUuid");
  d.described.store(true, std::memory_order_release);
  return d;
}

void in_forked_child() {
  if (g_initialized.load()) g_forked.store(true);
  t_bound = -1;
}

}  // namespace

int device_count() { return availability().count; }
const std::string& why_unavailable() { return availability().why; }
bool is_initialized() { return g_initialized.load() && !g_forked.load(); }
void initialize() { bind(check_device("cuda.init", -1)); }

int check_device(const char* op, int device) {
  const int count = device_count();
  if (count == 0) [[unlikely]]
    fail(ErrorKind::Device, op, "CUDA cannot be used here: ", why_unavailable());
  if (device < 0) return t_current;
  if (device >= count) [[unlikely]] {
    fail(ErrorKind::Device, op, "there is no device cuda:", device, ": this process sees ", count,
         count == 1 ? " GPU" : " GPUs");
  }
  return device;
}

const DeviceInfo& device_info(int device) {
  device = check_device("get_device_properties", device);
  OpenDevice& d = slot(device);
  if (!d.described.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex());
    describe_device(device);
  }
  return d.info;
}

bool can_access_peer(int device, int peer) {
  device_info(device);
  device_info(peer);
  int can = 0;
  must(driver().DeviceCanAccessPeer(&can, slot(device).handle, slot(peer).handle),
       "cuDeviceCanAccessPeer");
  return can != 0;
}

int current_device() { return t_current; }
void set_current_device(int device) { t_current = check_device("set_device", device); }

void bind_slow(int device) {
  check_device("cuda", device);
  OpenDevice& d = slot(device);
  refuse_forked();
  if (!d.context.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex());
    describe_device(device);
    check(d.info.arch() >= kOldestArch, ErrorKind::Device, "cuda", d.info.name,
          " has compute capability ", d.info.major, ".", d.info.minor,
          "; Rushlight needs 7.5 or newer");
    CUcontext context = nullptr;
    must(driver().DevicePrimaryCtxRetain(&context, d.handle), "cuDevicePrimaryCtxRetain");
    d.context.store(context, std::memory_order_release);
    if (!g_initialized.exchange(true)) pthread_atfork(nullptr, nullptr, in_forked_child);
  }
  must(driver().CtxSetCurrent(d.context.load(std::memory_order_relaxed)), "cuCtxSetCurrent");
  t_bound = device;
}

void synchronize(int device) {
  bind(check_device("synchronize", device));
  refuse_capture("synchronize", "nothing runs that could be waited for");
  flush_pending("a device is waited for");
  queue_batch();
  must(driver().CtxSynchronize(), "synchronize");
  raise_batch_error();
}

void synchronize_opened() noexcept {
  if (!is_initialized() || any_capture()) return;
  queue_batch();
  const int before = t_bound;
  for (int device = 0; device < kMaxDevices; ++device) {
    const CUcontext context = slot(device).context.load(std::memory_order_acquire);
    if (context && driver().CtxSetCurrent(context) == kSuccess) driver().CtxSynchronize();
  }
  t_bound = -1;
  if (before >= 0 && driver().CtxSetCurrent(slot(before).context.load()) == kSuccess)
    t_bound = before;
}

std::pair<size_t, size_t> memory_info(int device) {
  bind(check_device("mem_get_info", device));
  size_t free = 0, total = 0;
  must(driver().MemGetInfo(&free, &total), "mem_get_info");
  return {free, total};
}

}  // namespace rush::cuda
