#include "jit/ivalue.h"

#include <algorithm>

namespace rush::jit {

IValue IValue::dict(std::vector<std::string> keys, Items items) {
  check(keys.size() == items.size(), ErrorKind::Value, "IValue.dict", keys.size(), " keys for ",
        items.size(), " items");
  return IValue(Kind::Dict, std::move(keys), std::move(items));
}

const char* kind_name(IValue::Kind kind) {
  constexpr const char* names[] = {"None", "a tensor", "a tuple", "a list", "a dict"};
  return names[size_t(kind)];
}

const Tensor& IValue::toTensor() const {
  check(isTensor(), ErrorKind::Type, "toTensor", "the value is ", kind_name(kind_));
  return tensor_;
}

const IValue::Items& IValue::elements() const {
  check(kind_ >= Kind::Tuple, ErrorKind::Type, "elements", "the value is ", kind_name(kind_));
  return items_;
}

const std::vector<std::string>& IValue::keys() const {
  check(kind_ == Kind::Dict, ErrorKind::Type, "keys", "the value is ", kind_name(kind_));
  return keys_;
}

const IValue& IValue::at(std::string_view key) const {
  const auto found = std::find(keys().begin(), keys().end(), key);
  check(found != keys_.end(), ErrorKind::Index, "at", "the dict has no key '", key, "'");
  return items_[size_t(found - keys_.begin())];
}

}  // namespace rush::jit
