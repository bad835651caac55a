// expanding_array.h: D numbers, or one that stands for all of them: kernel_size(3), stride({2, 1}).
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>

#include "core/shape.h"

namespace rush {

template <size_t D>
class ExpandingArray {
 public:
  ExpandingArray(std::integral auto v) { values_.fill(int64_t(v)); }
  ExpandingArray(std::initializer_list<int64_t> list)
      : ExpandingArray(IntList(list.begin(), list.size())) {}
  ExpandingArray(const std::vector<int64_t>& list) : ExpandingArray(IntList(list)) {}
  ExpandingArray(IntList list) {
    check_argument(list.size() == D || list.size() == 1, "options", "expected 1 or ", D,
                   " numbers, got ", list.size());
    for (size_t d = 0; d < D; ++d) values_[d] = list[list.size() == 1 ? 0 : d];
  }
  operator IntList() const { return values_; }
  int64_t operator[](size_t d) const { return values_[d]; }
  const std::array<int64_t, D>& values() const { return values_; }

 private:
  std::array<int64_t, D> values_;
};

template <size_t D>
std::ostream& operator<<(std::ostream& os, const ExpandingArray<D>& v) {
  if constexpr (D == 1) return os << v[0];
  os << '[';
  for (size_t d = 0; d < D; ++d) os << (d ? ", " : "") << v[d];
  return os << ']';
}

}  // namespace rush
