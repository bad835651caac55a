// arg.h: options by chained calls: Conv2dOptions(1, 64, 4).stride(2).bias(false).
#pragma once

// Declares an option with its setter and getter; `= value` after it is its default.
#define RUSH_ARG(T, name)                        \
 public:                                         \
  auto name(const T& value) -> decltype(*this) { \
    name##_ = value;                             \
    return *this;                                \
  }                                              \
  const T& name() const { return name##_; }      \
  T& name() { return name##_; }                  \
                                                 \
 private:                                        \
  T name##_
