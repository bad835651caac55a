// packed_accessor.h: elements by a[i][j] in kernels: sizes and strides travel with it. Nothing is
// checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frontend/torch/host_device.h"

namespace rush::torch_api {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

namespace detail {
// A part of a packed accessor: what a[i] gives while dimensions are left.
template <class T, size_t N, template <class> class PtrTraits, class index_t>
class AccessorPart {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;
  RUSH_HOST_DEVICE AccessorPart(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  RUSH_HOST_DEVICE index_t size(index_t d) const { return sizes_[d]; }
  RUSH_HOST_DEVICE index_t stride(index_t d) const { return strides_[d]; }
  RUSH_HOST_DEVICE PtrType data() const { return data_; }
  RUSH_HOST_DEVICE decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1) {
      return static_cast<T&>(data_[i * strides_[0]]);
    } else {
      return AccessorPart<T, N - 1, PtrTraits, index_t>(data_ + i * strides_[0], sizes_ + 1,
                                                        strides_ + 1);
    }
  }

 private:
  PtrType data_;
  const index_t *sizes_, *strides_;
};
}  // namespace detail

template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits,
          class index_t = int64_t>
class PackedTensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;
  PackedTensorAccessor(PtrType data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t d = 0; d < N; ++d) {
      sizes_[d] = index_t(sizes[d]);
      strides_[d] = index_t(strides[d]);
    }
  }
  RUSH_HOST_DEVICE index_t size(index_t d) const { return sizes_[d]; }
  RUSH_HOST_DEVICE index_t stride(index_t d) const { return strides_[d]; }
  RUSH_HOST_DEVICE PtrType data() const { return data_; }
  RUSH_HOST_DEVICE decltype(auto) operator[](index_t i) const {
    return detail::AccessorPart<T, N, PtrTraits, index_t>(data_, sizes_, strides_)[i];
  }

 private:
  PtrType data_;
  index_t sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = PackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = PackedTensorAccessor<T, N, PtrTraits, int64_t>;

}  // namespace rush::torch_api
