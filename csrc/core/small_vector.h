// small_vector.h: a vector that keeps its first N elements inside itself. For lists that are nearly
// always short.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <new>
#include <span>
#include <utility>

namespace rush {

template <class T, size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(size_t n) { resize(n); }
  SmallVector(std::initializer_list<T> v) {
    reserve(v.size());
    for (const T& x : v) push_back(x);
  }
  SmallVector(const SmallVector& o) {
    reserve(o.n_);
    for (const T& x : o) push_back(x);
  }
  SmallVector(SmallVector&& o) noexcept { take(o); }
  SmallVector& operator=(SmallVector o) noexcept {
    clear_all();
    take(o);
    return *this;
  }
  ~SmallVector() { clear_all(); }

  T* data() { return heap_ ? heap_ : inline_data(); }
  const T* data() const { return heap_ ? heap_ : const_cast<SmallVector*>(this)->inline_data(); }
  size_t size() const { return n_; }
  bool empty() const { return n_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + n_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + n_; }
  operator std::span<const T>() const { return {data(), n_}; }
  operator std::span<T>() { return {data(), n_}; }

  void push_back(T v) {
    if (n_ == capacity_) reserve(capacity_ * 2);
    new (data() + n_) T(std::move(v));
    ++n_;
  }
  void resize(size_t n) {
    reserve(n);
    while (n_ < n) new (data() + n_++) T();
    while (n_ > n) data()[--n_].~T();
  }
  void reserve(size_t n) {
    if (n <= capacity_) return;
    T* fresh = static_cast<T*>(::operator new(n * sizeof(T)));
    for (size_t i = 0; i < n_; ++i) {
      new (fresh + i) T(std::move(data()[i]));
      data()[i].~T();
    }
    if (heap_) ::operator delete(heap_);
    heap_ = fresh;
    capacity_ = n;
  }

 private:
  T* inline_data() { return std::launder(reinterpret_cast<T*>(inline_)); }
  void clear_all() {
    resize(0);
    if (heap_) ::operator delete(std::exchange(heap_, nullptr));
    capacity_ = N;
  }
  // Moves o's elements here; this must be empty and without heap memory.
  void take(SmallVector& o) noexcept {
    if (o.heap_) {
      heap_ = std::exchange(o.heap_, nullptr);
      capacity_ = std::exchange(o.capacity_, N);
      n_ = std::exchange(o.n_, 0);
    } else {
      for (T& x : o) push_back(std::move(x));
      o.resize(0);
    }
  }

  size_t n_ = 0;
  size_t capacity_ = N;
  T* heap_ = nullptr;
  alignas(T) unsigned char inline_[N * sizeof(T)];
};

}  // namespace rush
