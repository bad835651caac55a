#include "distributed/hash_store.h"

#include <algorithm>

#include "core/interrupt.h"

namespace rush::distributed {

Answer HashStore::perform(const Command& command, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      std::optional<Answer> answer;
      const auto step = std::min(deadline, Clock::now() + kInterruptInterval);
      changed_.wait_until(lock, step,
                          [&] { return (answer = values_.apply(command)).has_value(); });
      if (!command.waits()) changed_.notify_all();
      if (answer) return *std::move(answer);
    }
    if (Clock::now() >= deadline) throw timed_out(command, timeout);
    check_interrupt();
  }
}

}  // namespace rush::distributed
