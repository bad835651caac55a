// shape.h: sizes and strides. Dims keeps up to five numbers inside itself, so that common tensors
// never allocate for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/error.h"
#include "core/export.h"

namespace rush {

using IntList = std::span<const int64_t>;
inline constexpr int kMaxDims = 64;

class Dims {
 public:
  static constexpr uint32_t kInline = 5;

  Dims() = default;
  Dims(std::initializer_list<int64_t> v) { assign(v.begin(), uint32_t(v.size())); }
  Dims(IntList v) { assign(v.data(), uint32_t(v.size())); }
  Dims(const std::vector<int64_t>& v) { assign(v.data(), uint32_t(v.size())); }
  Dims(uint32_t n, int64_t value) {
    resize(n);
    std::fill_n(data(), n, value);
  }
  Dims(const Dims& o) { assign(o.data(), o.n_); }
  Dims(Dims&& o) noexcept : n_(o.n_), capacity_(o.capacity_) {
    std::memcpy(inline_, o.inline_, sizeof inline_);
    o.capacity_ = kInline;
    o.n_ = 0;
  }
  Dims& operator=(const Dims& o) {
    if (this != &o) assign(o.data(), o.n_);
    return *this;
  }
  Dims& operator=(Dims&& o) noexcept {
    if (this != &o) {
      free_heap();
      n_ = o.n_;
      capacity_ = o.capacity_;
      std::memcpy(inline_, o.inline_, sizeof inline_);
      o.capacity_ = kInline;
      o.n_ = 0;
    }
    return *this;
  }
  ~Dims() { free_heap(); }

  int64_t* data() { return capacity_ == kInline ? inline_ : heap_; }
  const int64_t* data() const { return capacity_ == kInline ? inline_ : heap_; }
  uint32_t size() const { return n_; }
  bool empty() const { return n_ == 0; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + n_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + n_; }
  int64_t back() const { return data()[n_ - 1]; }
  operator IntList() const { return {data(), n_}; }

  void resize(uint32_t n) {
    if (n > capacity_) grow(n);
    n_ = n;
  }
  void push_back(int64_t v) {
    resize(n_ + 1);
    data()[n_ - 1] = v;
  }
  void insert(uint32_t at, int64_t v) {
    resize(n_ + 1);
    std::memmove(data() + at + 1, data() + at, (n_ - 1 - at) * sizeof(int64_t));
    data()[at] = v;
  }
  void erase(uint32_t at) {
    std::memmove(data() + at, data() + at + 1, (n_ - 1 - at) * sizeof(int64_t));
    --n_;
  }
  void assign(const int64_t* p, uint32_t n) {
    if (n > capacity_) grow(n);
    n_ = n;
    std::copy_n(p, n, data());
  }
  friend bool operator==(const Dims& a, const Dims& b) {
    return a.n_ == b.n_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  RUSH_API void grow(uint32_t n);
  void free_heap() {
    if (capacity_ != kInline) delete[] heap_;
  }

  uint32_t n_ = 0;
  uint32_t capacity_ = kInline;
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

inline bool equal(IntList a, IntList b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}
// "[2, 3]", as users know shapes from repr and messages.
inline std::ostream& operator<<(std::ostream& os, const Dims& v) {
  return os << concat(IntList(v));
}

// Product of the sizes; raises when it overflows or a size is negative (`op` for the message).
RUSH_API int64_t checked_numel(std::string_view op, IntList sizes);
inline int64_t numel(IntList sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}
RUSH_API Dims contiguous_strides(IntList sizes);
RUSH_API Dims channels_last_strides(IntList sizes);  // 4-d or 5-d
RUSH_API Dims strides_for(IntList sizes, MemoryFormat format);
RUSH_API bool is_contiguous(IntList sizes, IntList strides);
RUSH_API bool is_channels_last(
    IntList sizes, IntList strides);  // 4-d or 5-d with channels fastest, and not contiguous
RUSH_API bool is_dense(IntList sizes,
                       IntList strides);  // some permutation of the dims is contiguous
// Strides of a fresh result that keeps the order of dims of `strides` ("preserve_format").
RUSH_API Dims preserved_strides(IntList sizes, IntList strides);

// Wraps a negative dim; raises IndexError with the allowed range. A 0-d tensor accepts -1 and 0.
RUSH_API int64_t wrap_dim(std::string_view op, int64_t dim, int64_t ndim);
RUSH_API Dims broadcast_shapes(std::string_view op, IntList a, IntList b);
// Strides that let a tensor of `sizes`/`strides` be read as `target`; 0 where broadcast. Raises
// ShapeError.
RUSH_API Dims expand_strides(std::string_view op, IntList sizes, IntList strides, IntList target);
// Strides for viewing as `target` without a copy; empty optional where impossible.
RUSH_API bool view_strides(IntList sizes, IntList strides, IntList target, Dims& out);
// Replaces one -1 in `shape` so that the product equals numel; raises otherwise.
RUSH_API Dims infer_size(std::string_view op, IntList shape, int64_t numel);

}  // namespace rush
