// text.h: texts as programs write them.
#pragma once

#include <concepts>
#include <string_view>

namespace rush {

// A text, and nothing that merely could be one: {0, 0} is a list of numbers, and 0 a number.
class Text {
 public:
  template <class T>
    requires(std::convertible_to<const T&, std::string_view> && !std::integral<T>)
  Text(const T& text) : text_(text) {}
  std::string_view view() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace rush
