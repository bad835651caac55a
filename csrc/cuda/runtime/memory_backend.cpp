#include "cuda/runtime/memory_backend.h"

#include "core/error.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/launch_batch.h"

namespace rush::cuda {

std::atomic<bool> g_expandable{true};

namespace {

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

CUmemProperties properties_for(int device, int handle_types) {
  CUmemProperties properties;
  properties.handle_types = handle_types;
  properties.location = {kLocationDevice, device};
  return properties;
}

// As a file descriptor, memory can be sent to another process, where the system allows that.
std::atomic<int> g_handle_types{kHandleFileDescriptor};

}  // namespace

bool GpuBackend::is_usable() const noexcept {
  try {
    bind(device);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool GpuBackend::is_over_limit(size_t nbytes) const noexcept {
  const int64_t most = limit.load(std::memory_order_relaxed);
  return most >= 0 && reserved.load(std::memory_order_relaxed) + int64_t(nbytes) > most;
}

// ---- points ----

bool GpuBackend::done(MemoryBackend::Event e) noexcept {
  auto* points = reinterpret_cast<Points*>(e);
  try {
    for (const auto& p : *points)
      if (!p->done()) return false;
  } catch (const Error&) {  // a device that failed finishes nothing more
  }
  delete points;
  return true;
}

void GpuBackend::wait(MemoryBackend::Event e) noexcept {
  auto* points = reinterpret_cast<Points*>(e);
  try {
    for (const auto& p : *points) p->wait();
  } catch (const Error&) {
  }
  delete points;
}

// ---- segments ----

void* GpuBackend::do_reserve(size_t nbytes) noexcept {
  if (is_over_limit(nbytes) || !is_usable()) return nullptr;
  const RelaxedCapture relaxed;
  CUdeviceptr p = 0;
  return driver().MemAlloc(&p, nbytes) == kSuccess ? reinterpret_cast<void*>(p) : nullptr;
}

void GpuBackend::do_release(void* p, size_t) noexcept {
  if (!is_usable()) return;
  queue_batch();  // kernels that are kept back may use it
  const RelaxedCapture relaxed;
  driver().MemFree(address(p));
}

// ---- virtual memory ----

size_t GpuBackend::granule() noexcept {
  int64_t known = granule_.load(std::memory_order_relaxed);
  if (known < 0) {
    int supported = 0;
    size_t nbytes = 0;
    const CUmemProperties properties = properties_for(device, 0);
    if (!is_usable() ||
        driver().DeviceGetAttribute(&supported, kAttributeVirtualMemory, device) != kSuccess ||
        !supported || driver().MemGranularity(&nbytes, &properties, 0) != kSuccess ||
        !can_map(nbytes))
      nbytes = 0;
    granule_.store(known = int64_t(nbytes));
  }
  return g_expandable.load(std::memory_order_relaxed) ? size_t(known) : 0;
}

// Some systems (containers, virtual GPUs) say that they have virtual memory and refuse to map it.
bool GpuBackend::can_map(size_t nbytes) noexcept {
  void* p = reserve_range(nbytes);
  if (!p) return false;
  const Piece piece = do_map(p, nbytes);
  if (piece) do_unmap(p, nbytes, piece);
  release_range(p, nbytes);
  return piece != 0;
}

void* GpuBackend::reserve_range(size_t nbytes) noexcept {
  if (!is_usable()) return nullptr;
  const RelaxedCapture relaxed;
  CUdeviceptr p = 0;
  const bool good = driver().MemAddressReserve(&p, nbytes, 0, 0, 0) == kSuccess;
  return good ? reinterpret_cast<void*>(p) : nullptr;
}

void GpuBackend::release_range(void* p, size_t nbytes) noexcept {
  if (!is_usable()) return;
  const RelaxedCapture relaxed;
  driver().MemAddressFree(address(p), nbytes);
}

bool GpuBackend::quiesce() noexcept {
  queue_batch();
  return is_usable() && !any_capture() && driver().CtxSynchronize() == kSuccess;
}

MemoryBackend::Piece GpuBackend::do_map(void* p, size_t nbytes) noexcept {
  if (is_over_limit(nbytes) || !is_usable()) return 0;
  const RelaxedCapture relaxed;
  CUmemHandle handle = 0;
  CUmemProperties properties = properties_for(device, g_handle_types.load());
  CUresult made = driver().MemCreate(&handle, nbytes, &properties, 0);
  if (made != kSuccess && made != kOutOfMemory && properties.handle_types) {
    properties = properties_for(device, 0);
    made = driver().MemCreate(&handle, nbytes, &properties, 0);
    if (made == kSuccess) g_handle_types.store(0);
  }
  if (made != kSuccess) return 0;
  const CUmemAccess access{{kLocationDevice, device}, kAccessReadWrite};
  if (driver().MemMap(address(p), nbytes, 0, handle, 0) == kSuccess) {
    if (driver().MemSetAccess(address(p), nbytes, &access, 1) == kSuccess) return handle;
    driver().MemUnmap(address(p), nbytes);
  }
  driver().MemRelease(handle);
  return 0;
}

void GpuBackend::do_unmap(void* p, size_t nbytes, Piece piece) noexcept {
  if (!is_usable()) return;
  queue_batch();
  const RelaxedCapture relaxed;
  driver().MemUnmap(address(p), nbytes);
  driver().MemRelease(piece);
}

// ---- pinned host memory ----

void* PinnedBackend::do_reserve(size_t nbytes) noexcept {
  const RelaxedCapture relaxed;
  void* p = nullptr;
  return driver().MemHostAlloc(&p, nbytes, kHostAllocPortable) == kSuccess ? p : nullptr;
}

void PinnedBackend::do_release(void* p, size_t) noexcept {
  const RelaxedCapture relaxed;
  driver().MemFreeHost(p);
}

}  // namespace rush::cuda
