#include "bindings/gil.h"

#include <pthread.h>

namespace rush::py {

int g_threads_without_gil = 0;

namespace {

// A forked child has one thread, and that one called fork() with the GIL.
[[gnu::constructor]] void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { g_threads_without_gil = 0; });
}

}  // namespace
}  // namespace rush::py
