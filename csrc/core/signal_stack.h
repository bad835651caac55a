// signal_stack.h: a stack of its own for the handlers of signals.
//
// Note [Signals in oneDNN]
// A signal during oneDNN's sgemm for AVX-512 corrupted the heap (backtraces end in its driver), and
// does not on a thread with an alternate stack: it seems to compute with its stack pointer inside a
// buffer, so that a handler on the thread's stack writes over whatever lies before it. Python
// installs its handlers with SA_ONSTACK, so on a thread that has an alternate stack they run there.
// Handlers that other C code installs without that flag stay a risk.
#pragma once

#include "core/export.h"

namespace rush {

namespace detail {
RUSH_API extern constinit thread_local bool t_has_signal_stack [[gnu::tls_model("initial-exec")]];
RUSH_API void make_signal_stack() noexcept;
}  // namespace detail

// Gives this thread an alternate stack for signals, unless it has one.
inline void ensure_signal_stack() noexcept {
  if (!detail::t_has_signal_stack) [[unlikely]]
    detail::make_signal_stack();
}

}  // namespace rush
