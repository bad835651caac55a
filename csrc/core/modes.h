// modes.h: one thread-local word holds everything that may leave the fast path. It is tested once a
// call.
#pragma once

#include <cstdint>

#include "core/export.h"

namespace rush {

enum Mode : uint32_t {
  kNoGrad = 1u << 0,  // grad mode off
  kInferenceMode = 1u << 1,
  kSavedTensorHooks = 1u << 2,  // tensors saved for backward go through the user's functions
  kForward = 1u << 3,           // forward mode: a level is entered, and tangents are to be computed
  // Results may be arranged (core/layout.h) even where no input is: the gradient of something that
  // was arranged.
  kArrange = 1u << 4,
  // The bits below send a call to the boxed path with its interceptors.
  kIntercept = 1u << 8,  // at least one interceptor is installed on this thread
  // An observer is told of this thread's ops. Code that chooses another way where calls may be
  // changed tests kIntercept alone: what is observed must run as it does when nobody looks.
  kObserve = 1u << 9,
  // Pointwise results may be pending (core/layout.h): what `compile` sets.
  kDefer = 1u << 10,
};
inline constexpr uint32_t kSlowPath = kIntercept | kObserve | kDefer;

// initial-exec: one fixed offset from the thread pointer instead of a call into the loader.
// constinit: readers need not ask whether it has been initialised.
extern RUSH_API constinit thread_local uint32_t t_modes __attribute__((tls_model("initial-exec")));

// Whether operations are recorded: never under inference mode, whatever grad mode says.
inline bool grad_enabled() { return !(t_modes & (kNoGrad | kInferenceMode)); }
inline void set_mode(Mode bit, bool on) { t_modes = on ? t_modes | bit : t_modes & ~bit; }

// Sets or clears a mode for a scope.
class ModeGuard {
 public:
  ModeGuard(Mode bit, bool on) : saved_(t_modes) { set_mode(bit, on); }
  ~ModeGuard() { t_modes = saved_; }
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  uint32_t saved_;
};

struct NoGradGuard : ModeGuard {
  NoGradGuard() : ModeGuard(kNoGrad, true) {}
};

}  // namespace rush
