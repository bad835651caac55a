// json.h: JSON, as strict as its standard, with limits; for files that nobody has looked at.
//
// Integers that fit into 64 bits stay integers. Depth is limited, keys are unique, text is valid
// UTF-8, and what is made of a text is at most a constant times as large.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/export.h"

namespace rush::jit {

// How many bytes the character at `at` has; 0 where no valid UTF-8 stands there.
size_t utf8_length(std::string_view text, size_t at);

class RUSH_API Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in the order of the text

  Json() = default;
  Json(bool v) : value_(v) {}
  Json(int64_t v) : value_(v) {}
  Json(uint32_t v) : value_(int64_t{v}) {}
  Json(double v) : value_(v) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}

  // Raises with the position of the first fault; `what` names the text in messages.
  static Json parse(std::string_view text, const std::string& what);
  std::string text() const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  const Json* find(std::string_view key) const;  // of an object; null where there is none

 private:
  void write(std::string& to) const;
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace rush::jit
