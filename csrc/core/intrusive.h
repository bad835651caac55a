// intrusive.h: reference counting inside the object. A Ref is one pointer wide; the count may
// change from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace rush {

// Base of counted objects. T must offer `static void destroy(T*) noexcept`, called by the last
// release. A T that plain pointers may lead to (see try_retain) says so by seen_by_pointers().
template <class T>
class Counted {
 public:
  void retain() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    // A sole owner needs no atomic write: nobody else can see the object any more. Unless a plain
    // pointer leads to it, whose holder may come between the look and the write.
    bool sole = refs_.load(std::memory_order_acquire) == 1;
    if constexpr (requires(const T* t) { t->seen_by_pointers(); })
      sole = sole && !static_cast<const T*>(this)->seen_by_pointers();
    if (sole) {
      refs_.store(0, std::memory_order_relaxed);
      T::destroy(const_cast<T*>(static_cast<const T*>(this)));
    } else if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      T::destroy(const_cast<T*>(static_cast<const T*>(this)));
    }
  }
  // For holders of a plain pointer that is cleared by destroy(): false when the last reference is
  // already gone.
  bool try_retain() const noexcept {
    static_assert(requires(const T* t) { t->seen_by_pointers(); });
    uint32_t n = refs_.load(std::memory_order_acquire);
    while (n != 0 && !refs_.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) {
    }
    return n != 0;
  }
  uint32_t use_count() const noexcept { return refs_.load(std::memory_order_acquire); }

 protected:
  Counted() = default;
  ~Counted() = default;

 private:
  mutable std::atomic<uint32_t> refs_{1};
};

template <class T>
class Ref {
 public:
  constexpr Ref() = default;
  constexpr Ref(std::nullptr_t) {}
  Ref(const Ref& other) noexcept : p_(other.p_) {
    if (p_) p_->retain();
  }
  Ref(Ref&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~Ref() {
    if (p_) p_->release();
  }

  // Takes over the count that a fresh object is born with.
  static Ref adopt(T* p) noexcept {
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref share(T* p) noexcept {
    if (p) p->retain();
    return adopt(p);
  }
  T* detach() noexcept { return std::exchange(p_, nullptr); }

  T* get() const noexcept { return p_; }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  bool operator==(const Ref& other) const noexcept { return p_ == other.p_; }

  // For a field that is filled on first use, from any thread: reads it, and fills it unless another
  // thread was faster.
  T* load() const noexcept { return std::atomic_ref<T*>(p_).load(std::memory_order_acquire); }
  void install(Ref fresh) noexcept {
    T* expected = nullptr;
    if (std::atomic_ref<T*>(p_).compare_exchange_strong(expected, fresh.p_,
                                                        std::memory_order_acq_rel))
      fresh.p_ = nullptr;
  }

 private:
  mutable T* p_ = nullptr;  // mutable: atomic_ref takes no const before C++26
};

}  // namespace rush
