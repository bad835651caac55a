#include "cuda/vendor/cublas.h"

#include <array>
#include <atomic>

#include "core/dynamic_library.h"
#include "core/error.h"
#include "core/mutex.h"
#include "cuda/runtime/device.h"

namespace rush::cuda::lt {
namespace {

Library open() {
  Library l;
  void* library = open_library({"libcublasLt.so.13", "libcublasLt.so.12"},
                               {"nvidia/cu13/lib", "nvidia/cublas/lib", ""});
  bool whole = library != nullptr;
#define RUSH_LOAD(symbol, name, params)                                          \
  l.name = reinterpret_cast<decltype(l.name)>(library_symbol(library, #symbol)); \
  whole = whole && l.name;
  RUSH_CUBLASLT(RUSH_LOAD)
#undef RUSH_LOAD
  if (!whole) l.missing = "cuBLASLt was not found: pip install 'rushlight[cuda]'";
  return l;
}

}  // namespace

const Library& library() {
  static const Library found = open();
  return found;
}

Handle handle(int device) {
  static std::array<std::atomic<Handle>, kMaxDevices> handles{};
  std::atomic<Handle>& place = handles[size_t(device)];
  if (Handle known = place.load(std::memory_order_acquire)) return known;
  const Library& l = library();
  check(l.missing.empty(), ErrorKind::Runtime, "matmul", l.missing);
  static Mutex mutex{LockRank::CudaDevices};
  bind(device);
  std::lock_guard lock(mutex);
  if (Handle known = place.load(std::memory_order_relaxed)) return known;
  Handle fresh = nullptr;
  const int status = l.Create(&fresh);
  check(status == 0, ErrorKind::Runtime, "matmul", "cublasLtCreate failed with status ", status);
  place.store(fresh, std::memory_order_release);
  return fresh;
}

}  // namespace rush::cuda::lt
