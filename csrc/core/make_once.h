// make_once.h: what an object gets only when it is first needed, by whichever thread comes first.
#pragma once

#include <atomic>

namespace rush {

// What p points to; made here where it is null.
template <class T>
T& make_once(std::atomic<T*>& p) {
  T* known = p.load(std::memory_order_acquire);
  if (known) return *known;
  auto* made = new T;
  if (p.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;  // another thread was faster
  return *known;
}

}  // namespace rush
