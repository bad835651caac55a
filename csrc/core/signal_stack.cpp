#include "core/signal_stack.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace rush {

constinit thread_local bool detail::t_has_signal_stack = false;

namespace {

// What the kernel saves for a signal grows with the registers of the processor (11 KiB with AMX),
// and handlers need room besides. Pages that nobody touches cost nothing.
size_t stack_size() {
  constexpr long least = 128 << 10;
  return size_t(std::max<long>(least, sysconf(_SC_SIGSTKSZ)));
}

// Taken back when the thread ends, if it is still ours: a handler must not find it gone.
struct Stack {
  void* memory = MAP_FAILED;
  size_t size = 0;

  ~Stack() {
    if (memory == MAP_FAILED) return;
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || now.ss_sp != memory) return;  // somebody built on it
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (sigaltstack(&none, nullptr) == 0) munmap(memory, size);
  }
};

}  // namespace

void detail::make_signal_stack() noexcept {
  static thread_local Stack own;
  t_has_signal_stack = true;  // whatever comes: it is tried once
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  const size_t size = stack_size();
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t fresh{};
  fresh.ss_sp = memory;
  fresh.ss_size = size;
  if (sigaltstack(&fresh, nullptr) == 0)
    own.memory = memory, own.size = size;
  else
    munmap(memory, size);
}

}  // namespace rush
