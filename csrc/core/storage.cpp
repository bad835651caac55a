#include "core/storage.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/allocator.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/exposed_memory.h"
#include "core/layout.h"
#include "core/memory_listener.h"
#include "core/misaligned.h"

namespace rush {

constinit std::atomic<void (*)()> g_gpu_memory_exposed{nullptr};

namespace {

// The header takes one cache line, so that data behind it keeps the allocator's 64-byte alignment.
constexpr size_t kHeader = 64;
// Up to here, header and data share a block; beyond, the data gets a block of its own so that it
// can be page-aligned.
constexpr size_t kInlineLimit = 32 * 1024;
static_assert(sizeof(Storage) <= kHeader);

// Out of the way of CPU tensors, which the allocator tells of: their functions keep few registers.
[[gnu::cold, gnu::noinline]] void tell(const Storage& s, int64_t change) noexcept {
  detail::tell_of_block(s.device(), block_of(s), change);
}

}  // namespace

DeviceMemory& cuda_memory() {
  static constinit DeviceMemory table;
  return table;
}

Ref<Storage> Storage::allocate(Device device, size_t nbytes) {
  if (!device.is_cpu()) [[unlikely]]
    return allocate_on_gpu(device, nbytes);
  if (nbytes <= kInlineLimit) {
    char* block = static_cast<char*>(cpu_allocate(kHeader + nbytes));
    auto* s = new (block) Storage(device, block + kHeader, nbytes);
    s->inline_data_ = true;
    return Ref<Storage>::adopt(s);
  }
  void* data = cpu_allocate(nbytes);
  try {
    return Ref<Storage>::adopt(new (cpu_allocate(kHeader)) Storage(device, data, nbytes));
  } catch (...) {
    cpu_free(data, nbytes);
    throw;
  }
}

// On any device but the CPU: tensors on the meta device have a header and nothing behind it.
Ref<Storage> Storage::allocate_on_gpu(Device device, size_t nbytes) {
  if (device.is_meta()) {
    auto* s = new (cpu_allocate(kHeader)) Storage(device, nullptr, nbytes);
    tell(*s, int64_t(nbytes));
    return Ref<Storage>::adopt(s);
  }
  device = resolved(device);
  const DeviceMemory::Block block = cuda_memory().allocate(device.index, nbytes);
  try {
    auto* s = new (cpu_allocate(kHeader)) Storage(device, block.p, nbytes);
    s->context_ = block.home;
    tell(*s, int64_t(nbytes));
    return Ref<Storage>::adopt(s);
  } catch (...) {
    cuda_memory().free(block.p, nbytes, block.home);
    throw;
  }
}

Ref<Storage> Storage::wrap(void* data, size_t nbytes, Device device, Deleter deleter,
                           void* context) {
  auto* s = new (cpu_allocate(kHeader)) Storage(device, data, nbytes);
  s->deleter_ = deleter;
  s->context_ = context;
  if (device.is_cpu() && reinterpret_cast<uintptr_t>(data) % kLargestAlignment != 0) [[unlikely]]
    g_odd_memory.store(true, std::memory_order_relaxed);
  return Ref<Storage>::adopt(s);
}

void Storage::free_data() noexcept {
  if (deleter_) {
    deleter_(context_);
  } else if (device_.is_cuda()) {
    tell(*this, -int64_t(nbytes_));
    cuda_memory().free(data_, nbytes_, context_);
  } else if (inline_data_) {
    // It goes with the header.
  } else if (data_) {
    cpu_free(data_, nbytes_);
  } else if (device_.is_meta()) {
    tell(*this, -int64_t(nbytes_));
  }
}

const void* block_of(const Storage& s) {
  const void* behind = reinterpret_cast<const char*>(&s) + kHeader;
  const bool shares = s.data() == behind && s.nbytes() <= kInlineLimit;
  return s.device().is_meta() || shares ? static_cast<const void*>(&s) : s.data();
}

void Storage::resize(size_t nbytes) {
  check(!shared_, ErrorKind::Runtime, "resize_",
        "this storage is shared between processes and cannot be resized");
  check(!is_foreign(), ErrorKind::Runtime, "resize_",
        "this storage wraps memory of another library and cannot be resized");
  note_write();
  if (device_.is_meta()) {
    detail::tell_of_block(device_, this, -int64_t(nbytes_));
    detail::tell_of_block(device_, this, int64_t(nbytes));
    nbytes_ = nbytes;
    return;
  }
  if (device_.is_cuda()) {
    const DeviceMemory& gpu = cuda_memory();
    const DeviceMemory::Block block = gpu.allocate(device_.index, nbytes);
    if (const size_t kept = std::min(nbytes, nbytes_)) {
      gpu.copy(block.p, data_, kept, device_.index);
      // The old block goes back to its own stream's order: what was just queued must be done.
      if (block.home != context_) gpu.read(nullptr, nullptr, 0, device_.index);
    }
    free_data();
    detail::tell_of_block(device_, block.p, int64_t(nbytes));
    data_ = block.p;
    context_ = block.home;
    nbytes_ = nbytes;
    return;
  }

  void* fresh = cpu_allocate(nbytes);
  std::memcpy(fresh, data_, std::min(nbytes, nbytes_));
  if (!inline_data_) {
    cpu_free(data_, nbytes_);
    data_ = fresh;
    nbytes_ = nbytes;
    return;
  }
  // The header's own block keeps its size; remember it so that destroy() returns the right one.
  inline_bytes_ = uint32_t(nbytes_);
  inline_data_ = false;
  data_ = fresh;
  nbytes_ = nbytes;
}

void Storage::expose() {
  flush_pending("an address was given out");  // what waits may read what is written there
  before_write_to(this);
  mark(kExposed);
  if (device_.is_cuda())
    if (const auto told = g_gpu_memory_exposed.load()) told();
}

void Storage::move_to_shared(void* data, Deleter deleter, void* context) noexcept {
  free_data();
  // The header's own block keeps its size, as in resize().
  if (inline_data_) inline_bytes_ = uint32_t(nbytes_);
  inline_data_ = false;
  data_ = data;
  deleter_ = deleter;
  context_ = context;
  shared_ = true;
}

void Storage::destroy(Storage* s) noexcept {
  const size_t block = kHeader + (s->inline_data_ ? s->nbytes_ : s->inline_bytes_);
  delete s->extra;
  if (!s->inline_data_) s->free_data();
  s->~Storage();
  cpu_free(s, block);
}

}  // namespace rush
