// pickle.h: values as Python's pickles hold them, as far as files of tensors need them. Nothing in a
// file is run: other classes than those of tensors are refused by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace rush::serialize {

// None, a bool, an int, a float, a string, a tensor, a list (or tuple), or a dict.
class PickleValue {
 public:
  using List = std::vector<PickleValue>;
  using Dict = std::vector<std::pair<PickleValue, PickleValue>>;

  PickleValue() = default;
  PickleValue(bool v) : value_(v) {}
  PickleValue(int64_t v) : value_(v) {}
  PickleValue(double v) : value_(v) {}
  PickleValue(std::string v) : value_(std::move(v)) {}
  PickleValue(Tensor v) : value_(std::move(v)) {}
  // Shared, as Python's are: a pickle may name one twice.
  PickleValue(std::shared_ptr<List> v) : value_(std::move(v)) {}
  PickleValue(std::shared_ptr<Dict> v) : value_(std::move(v)) {}

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  const List* list() const {
    const auto* p = as<std::shared_ptr<List>>();
    return p ? p->get() : nullptr;
  }
  const Dict* dict() const {
    const auto* p = as<std::shared_ptr<Dict>>();
    return p ? p->get() : nullptr;
  }

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Tensor, std::shared_ptr<List>,
               std::shared_ptr<Dict>>
      value_;
};

// A file that Python's load reads, and PyTorch's; and what such a file holds.
RUSH_API void write_file(const std::string& path, const PickleValue& value);
RUSH_API std::string write_bytes(const PickleValue& value);
RUSH_API PickleValue read_file(const std::string& path);
RUSH_API PickleValue read_bytes(std::string_view bytes);

}  // namespace rush::serialize
