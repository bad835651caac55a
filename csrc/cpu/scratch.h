// scratch.h: memory for the time of a call.
#pragma once

#include "core/storage.h"

namespace rush {

// From the caching allocator; none for a count of 0.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count) {
    if (count > 0) storage_ = Storage::allocate({}, size_t(count) * sizeof(T));
  }
  T* get() const { return storage_ ? static_cast<T*>(storage_->data()) : nullptr; }

 private:
  Ref<Storage> storage_;
};

}  // namespace rush
