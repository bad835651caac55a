// value_read.h: says that values of a tensor become values of the program around it: a number, a
// list, an array. Whoever records a program from its ops (jit/tracer.h) cannot see them any more.
#pragma once

#include "core/modes.h"
#include "core/tensor.h"

namespace rush {

// How the values left, for messages: "a Python number".
extern RUSH_API void (*g_value_read)(const Tensor& t, const char* as);

inline void note_value_read(const Tensor& t, const char* as) {
  if (t_modes & kObserve && g_value_read) [[unlikely]]
    g_value_read(t, as);
}

}  // namespace rush
