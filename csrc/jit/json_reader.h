// json_reader.h: reads the parts of program.json, with the place of a fault in every message.
#pragma once

#include <algorithm>
#include <limits>

#include "core/device.h"
#include "core/dtype.h"
#include "core/scalar.h"
#include "jit/json.h"

namespace rush::jit {

class JsonReader {
 public:
  explicit JsonReader(std::string where, std::string context = "")
      : where_(std::move(where)), context_(std::move(context)) {}

 protected:
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (!ok) [[unlikely]]
      fail(ErrorKind::Runtime, where_, context_, parts...);
  }

  // An object with these keys and no others; those not there are found missing when they are read.
  void keys(const Json& j, std::initializer_list<std::string_view> known) const {
    require(j.object(), "a map was expected");
    for (const auto& [key, value] : *j.object())
      require(std::find(known.begin(), known.end(), key) != known.end(), "the key '", key,
              "' is not known");
  }
  const Json& member(const Json& j, std::string_view key) const {
    const Json* found = j.find(key);
    require(found, "the key '", key, "' is missing");
    return *found;
  }
  const std::string& text(const Json& j, std::string_view key) const {
    const Json& m = member(j, key);
    require(m.string(), "'", key, "' must be a string");
    return *m.string();
  }
  bool boolean(const Json& j, std::string_view key) const {
    const Json& m = member(j, key);
    require(m.boolean(), "'", key, "' must be true or false");
    return *m.boolean();
  }
  int64_t integer(const Json& j, std::string_view key) const {
    const Json& m = member(j, key);
    require(m.integer(), "'", key, "' must be a whole number");
    return *m.integer();
  }
  const Json::Array& array(const Json& j, std::string_view key) const {
    const Json& m = member(j, key);
    require(m.array(), "'", key, "' must be a list");
    return *m.array();
  }
  uint32_t index(const Json& j) const {
    require(j.integer() && *j.integer() >= 0 && *j.integer() < std::numeric_limits<int32_t>::max(),
            "an index must be a whole number");
    return uint32_t(*j.integer());
  }
  Device device(const std::string& name) const {
    try {
      return parse_device(name);
    } catch (const Error& e) {
      require(false, e.message());
    }
    return {};
  }
  DType dtype(const Json& j) const {
    require(j.string(), "a dtype must be a string");
    for (int k = 0; k < kDTypeCount; ++k) {
      if (name(DType(k)) == *j.string()) return DType(k);
    }
    require(false, "there is no dtype '", *j.string(), "'");
    return {};
  }

  double real(const Json& j) const {
    if (j.real()) return *j.real();
    if (j.integer()) return double(*j.integer());
    const Json* special = j.object() && j.object()->size() == 1 ? j.find("float") : nullptr;
    require(special && special->string(), "a number was expected");
    const std::string& s = *special->string();
    require(s == "nan" || s == "inf" || s == "-inf", "a number was expected");
    return s == "nan"   ? std::numeric_limits<double>::quiet_NaN()
           : s == "inf" ? std::numeric_limits<double>::infinity()
                        : -std::numeric_limits<double>::infinity();
  }
  Scalar scalar(const Json& j) const {
    if (j.boolean()) return Scalar(*j.boolean());
    if (j.integer()) return Scalar(*j.integer());
    if (const Json* z = j.find("complex")) {
      require(j.object()->size() == 1 && z->array() && z->array()->size() == 2,
              "a complex number has two parts");
      return Scalar(complex<double>{real((*z->array())[0]), real((*z->array())[1])});
    }
    return Scalar(real(j));
  }
  int64_t whole(const Json& j) const {
    require(j.integer(), "a whole number was expected");
    return *j.integer();
  }
  const Json::Array& items(const Json& j) const {
    require(j.array(), "a list was expected");
    return *j.array();
  }
  template <class T>
  std::vector<T> list_of(const Json& j, const auto& read) const {
    std::vector<T> list;
    for (const Json& item : items(j)) list.push_back(read(item));
    return list;
  }
  const std::string& word(const Json& j) const {
    require(j.string(), "a string was expected");
    return *j.string();
  }
  MemoryFormat format(const Json& j) const {
    constexpr MemoryFormat formats[] = {MemoryFormat::Contiguous, MemoryFormat::Preserve,
                                        MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d};
    for (const MemoryFormat f : formats) {
      if (concat(f) == word(j)) return f;
    }
    require(false, "there is no memory format '", word(j), "'");
    return {};
  }

  std::string where_, context_;
};

}  // namespace rush::jit
