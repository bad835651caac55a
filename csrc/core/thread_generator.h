// thread_generator.h: a thread that is a process of its own to the program (a simulated rank) draws
// from a generator of its own.
#pragma once

#include "core/generator.h"

namespace rush {

// From now on, default_generator() on this thread is this one; null: that of the process. The
// caller owns it.
RUSH_API void set_thread_generator(Generator* own);

}  // namespace rush
