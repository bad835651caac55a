// saved_hooks.h: the user's functions that pack and unpack what is saved for backward. The bindings
// implement them; SavedTensor asks for them while kSavedTensorHooks is set in the thread's modes.
#pragma once

#include <string>

#include "core/tensor.h"

namespace rush {

class RUSH_API PackedTensor : public Counted<PackedTensor> {
 public:
  virtual ~PackedTensor() = default;
  virtual Tensor unpack() = 0;
  virtual bool is_users() const { return true; }  // or is it the library that keeps it otherwise?
  static void destroy(PackedTensor* p) noexcept { delete p; }
};

class RUSH_API SavedTensorHooks : public Counted<SavedTensorHooks> {
 public:
  virtual ~SavedTensorHooks() = default;
  virtual Ref<PackedTensor> pack(const Tensor& t) = 0;
  static void destroy(SavedTensorHooks* h) noexcept { delete h; }
};

// The innermost pair on this thread is the one that counts. Null: none, or off for a while.
RUSH_API void push_saved_tensor_hooks(Ref<SavedTensorHooks> hooks);
RUSH_API void pop_saved_tensor_hooks();
RUSH_API Ref<SavedTensorHooks> current_saved_tensor_hooks();
// While a message stands, pushing raises it. Returns the one before; null: allowed.
RUSH_API const std::string* saved_tensor_hooks_refusal();
RUSH_API void set_saved_tensor_hooks_refusal(const std::string* message);

}  // namespace rush
