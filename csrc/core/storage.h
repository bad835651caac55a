// storage.h: a counted block of bytes. Small CPU blocks sit right behind their header, one
// allocation for both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device.h"
#include "core/export.h"
#include "core/intrusive.h"

namespace rush {

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
  bool inline_data_ = false;   // data_ follows this header in one block
  uint32_t inline_bytes_ = 0;  // room behind the header that a resize left unused
};

}  // namespace rush
