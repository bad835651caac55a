// batched.h: told when the last reference to a vmap wrapper goes; ops/vmap/vmap.cpp installs it.
#pragma once

#include "core/tensor.h"

namespace rush {

extern RUSH_API void (*g_forget_batched)(TensorImpl* wrapper) noexcept;

}  // namespace rush
