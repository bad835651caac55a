// cpu_backend.h: segments of ordinary memory, from mmap.
#pragma once

#include "core/caching_pool.h"

namespace rush {

class CpuBackend final : public MemoryBackend {
 public:
  static constexpr size_t kHugePage = 2 << 20;

  // How many freed bytes the process may keep: see cpu_backend.cpp.
  static size_t default_cache_cap();

  // Whether segments from now on ask for huge pages.
  static inline std::atomic<bool> huge_pages{true};

 protected:
  void* do_reserve(size_t nbytes) noexcept override;
  void do_release(void* p, size_t nbytes) noexcept override;
};

}  // namespace rush
