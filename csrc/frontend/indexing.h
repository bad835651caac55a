// indexing.h: parts of tensors, x.index({Slice(1, None), 0, "..."}).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "core/tensor.h"

namespace rush::indexing {

inline constexpr std::nullopt_t None = std::nullopt;
inline constexpr struct EllipsisIndexType {
} Ellipsis{};

// start:stop:step, each of which may be left out.
class Slice {
 public:
  Slice(std::optional<int64_t> start = None, std::optional<int64_t> stop = None,
        std::optional<int64_t> step = None)
      : start_(start), stop_(stop), step_(step) {}
  std::optional<int64_t> start() const { return start_; }
  std::optional<int64_t> stop() const { return stop_; }
  std::optional<int64_t> step() const { return step_; }

 private:
  std::optional<int64_t> start_, stop_, step_;
};

// One item of an index.
class TensorIndex {
 public:
  using Item = std::variant<std::nullopt_t, EllipsisIndexType, int64_t, bool, Slice, Tensor>;

  TensorIndex(std::nullopt_t) : item_(None) {}
  TensorIndex(EllipsisIndexType) : item_(Ellipsis) {}
  TensorIndex(const char* text) : item_(Ellipsis) {
    check(std::string_view(text) == "...", ErrorKind::Value, "index",
          "the only string that is an index is \"...\", got \"", text, "\"");
  }
  TensorIndex(std::same_as<bool> auto v) : item_(v) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  TensorIndex(T v) : item_(int64_t(v)) {}
  TensorIndex(Slice v) : item_(v) {}
  TensorIndex(Tensor v) : item_(std::move(v)) {}

  const Item& item() const { return item_; }

 private:
  Item item_;
};

RUSH_API Tensor get(const Tensor& self, std::span<const TensorIndex> indices);
RUSH_API void put(const Tensor& self, std::span<const TensorIndex> indices, const Tensor& value);

}  // namespace rush::indexing
