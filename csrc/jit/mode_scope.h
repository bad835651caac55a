// mode_scope.h: the modes that a program sets by itself, for a scope.
#pragma once

#include "core/modes.h"
#include "jit/graph.h"
#include "ops/autocast/autocast.h"

namespace rush::jit {

// The modes that instructions ask for. Those of neighbours that ask for the same stay, so that
// autocast keeps the weights that it cast, as it does in a region of a Python program.
class ModeScope {
 public:
  ModeScope() = default;
  ~ModeScope() { leave(); }
  ModeScope(ModeScope&&) = delete;

  void enter(const Modes& modes) {
    if (modes == now_) [[likely]]
      return;
    leave();
    now_ = modes;
    saved_modes_ = t_modes;
    if (modes.grad) set_mode(kNoGrad, !*modes.grad);
    for (int i = 0; i < kDeviceTypeCount; ++i) {
      const auto device = DeviceType(i);
      if (!modes.autocast[i]) continue;
      saved_[i] = {autocast_enabled(device), autocast_dtype(device)};
      set_autocast_dtype(device, *modes.autocast[i]);
      set_autocast_enabled(device, true);
      autocast_nesting(1);
    }
  }
  void leave() {
    for (int i = 0; i < kDeviceTypeCount; ++i) {
      if (!now_.autocast[i]) continue;
      set_autocast_enabled(DeviceType(i), saved_[i].enabled);
      set_autocast_dtype(DeviceType(i), saved_[i].dtype);
      if (autocast_nesting(-1) == 0) clear_autocast_cache();
    }
    if (now_.grad) set_mode(kNoGrad, saved_modes_ & kNoGrad);
    now_ = {};
  }

 private:
  struct Autocast {
    bool enabled;
    DType dtype;
  };
  Modes now_;
  uint32_t saved_modes_ = 0;
  Autocast saved_[kDeviceTypeCount] = {};
};

}  // namespace rush::jit
