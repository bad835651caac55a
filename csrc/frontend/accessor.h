// accessor.h: elements by a[i][j], for loops over a tensor on the CPU. Nothing is checked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rush {

template <class T, size_t N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  int64_t size(int64_t d) const { return sizes_[d]; }
  int64_t stride(int64_t d) const { return strides_[d]; }
  T* data() const { return data_; }
  decltype(auto) operator[](int64_t i) const {
    T* const at = data_ + i * strides_[0];
    if constexpr (N == 1) {
      return static_cast<T&>(*at);
    } else {
      return TensorAccessor<T, N - 1>(at, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  T* data_;
  const int64_t* sizes_;  // of the tensor, which must outlive this
  const int64_t* strides_;
};

}  // namespace rush
