// int_array_ref.h: sizes, dims and strides as programs write them. They own what they were given, so
// that braces and numbers live as long as the call.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "core/shape.h"

namespace rush {

// Sizes, dims or strides: {2, 3}, one number, or a list.
class IntArrayRef {
 public:
  IntArrayRef() = default;
  IntArrayRef(std::initializer_list<int64_t> v) : values_(v) {}
  IntArrayRef(std::integral auto v) : values_({int64_t(v)}) {}
  IntArrayRef(IntList v) : values_(v) {}
  IntArrayRef(const Dims& v) : values_(v) {}
  IntArrayRef(const std::vector<int64_t>& v) : values_(v) {}
  template <size_t N>
  IntArrayRef(const std::array<int64_t, N>& v) : values_(IntList(v)) {}

  IntList list() const { return values_; }

 private:
  Dims values_;
};

// The same, or nothing.
class OptionalIntArrayRef {
 public:
  OptionalIntArrayRef() = default;
  OptionalIntArrayRef(std::nullopt_t) {}
  OptionalIntArrayRef(std::initializer_list<int64_t> v) : values_(v) {}
  template <class T>
    requires std::convertible_to<T, IntArrayRef>
  OptionalIntArrayRef(T&& v) : values_(IntArrayRef(std::forward<T>(v))) {}
  OptionalIntArrayRef(const std::optional<IntList>& v) {
    if (v) values_ = IntArrayRef(*v);
  }

  std::optional<IntList> list() const {
    return values_ ? std::optional<IntList>(values_->list()) : std::nullopt;
  }

 private:
  std::optional<IntArrayRef> values_;
};

}  // namespace rush
