// storage.h: a counted block of bytes. Small CPU blocks sit right behind their header, one
// allocation for both.
//
// Note [Watched storages]
// Whoever keeps what it computed from a storage's contents (weights in another layout, see
// cpu/nn/weight_layouts.h) has to know when they change. So it watches the storage: from then on
// `writes()` counts.
// - All writers say so through Tensor::bump_version(): in-place ops, out=, optimisers; also those
//   that write through `.data` or detach(), whose version counters are others. They say so after
//   the write, so contents that were read at a count hold as long as the count does. In-place ops
//   also say so before, in case they fail halfway.
// - Memory that can be written to without us cannot be watched: another library's, shared between
//   processes, or exposed: its address was given out (data_ptr(), NumPy, DLPack, buffers). Once
//   exposed, a storage stays so.
// - The hidden forms of arranged tensors (core/layout.h) cannot be watched either: their tensors'
//   writes do not lead to them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/device.h"
#include "core/export.h"
#include "core/intrusive.h"

namespace rush {

// What hangs on a storage and goes with it.
struct StorageExtra {
  virtual ~StorageExtra() = default;
};

class RUSH_API Storage : public Counted<Storage> {
 public:
  // Called once with the context when the last reference goes; from any thread.
  using Deleter = void (*)(void* context) noexcept;

  // Fresh bytes from the device's allocator (Meta: none).
  static Ref<Storage> allocate(Device device, size_t nbytes);
  // Somebody else's bytes (NumPy, DLPack, shared memory), kept alive by the context.
  static Ref<Storage> wrap(void* data, size_t nbytes, Device device, Deleter deleter,
                           void* context);

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  bool read_only() const { return read_only_; }
  void set_read_only(bool v) { read_only_ = v; }
  bool is_foreign() const { return deleter_ != nullptr; }
  Deleter deleter() const { return deleter_; }
  // On a GPU, own memory: the stream in whose order it was made.
  void* home() const { return deleter_ ? nullptr : context_; }
  // In memory that other processes may map (core/shared_memory.h).
  bool is_shared() const { return shared_; }
  bool seen_by_pointers() const { return shared_; }  // for Counted: a table leads to shared ones
  void* context() const { return context_; }

  // Grows the block, keeping its contents; foreign memory refuses.
  void resize(size_t nbytes);
  // Puts shared memory, already filled, in place of what is there, which is freed.
  void move_to_shared(void* data, Deleter deleter, void* context) noexcept;
  void mark_shared() { shared_ = true; }

  // See Note [Watched storages].
  bool can_be_watched() const { return device_.is_cpu() && !hidden_ && !may_change_unseen(); }
  // May it be written to by somebody who does not say so?
  bool may_change_unseen() const { return shared_ || deleter_ || has(kExposed); }
  void hide() { hidden_ = true; }  // before anybody else sees it
  // Starts counting, and returns the count so far. What is read afterwards cannot be read before:
  // an exchange orders that, a store would not.
  uint32_t watch() {
    watched_.exchange(true);
    return writes();
  }
  uint32_t writes() const { return writes_.load(); }
  void note_write() {
    if (watched_.load()) [[unlikely]]
      writes_.fetch_add(1);
  }
  void expose();
  enum Mark : uint8_t {
    kExposed = 1,  // its address was given out
    // What recipes for backward know of it, see Note [What is made again] in device/again.h.
    kKept = 2,
    kRemade = 4,
    // It has a number that changes before writes, see device/origin.h.
    kWitnessed = 8,
  };
  bool has(Mark m) const { return marks_.load(std::memory_order_acquire) & m; }
  void mark(Mark m) { marks_.fetch_or(m, std::memory_order_release); }
  // Guarded by whoever uses it.
  StorageExtra* extra = nullptr;  // owned

  static void destroy(Storage* s) noexcept;

 private:
  static Ref<Storage> allocate_on_gpu(Device device, size_t nbytes);
  Storage(Device device, void* data, size_t nbytes)
      : data_(data), nbytes_(nbytes), device_(device) {}
  void free_data() noexcept;

  void* data_;
  size_t nbytes_;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
  Device device_;
  bool read_only_ = false;
  bool shared_ = false;
  bool hidden_ = false;       // the form of an arranged tensor
  bool inline_data_ = false;  // data_ follows this header in one block
  std::atomic<bool> watched_{false};
  std::atomic<uint8_t> marks_{0};
  uint32_t inline_bytes_ = 0;  // room behind the header that a resize left unused
  std::atomic<uint32_t> writes_{0};
};

}  // namespace rush
