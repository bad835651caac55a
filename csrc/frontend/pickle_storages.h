// pickle_storages.h: how pickles name the storages of each dtype.
#pragma once

#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace rush::serialize {

// Empty: there is no such class.
inline constexpr std::string_view kStorageClasses[kDTypeCount] = {"BoolStorage",
                                                                  "ByteStorage",
                                                                  "CharStorage",
                                                                  "ShortStorage",
                                                                  "IntStorage",
                                                                  "LongStorage",
                                                                  "",
                                                                  "",
                                                                  "",
                                                                  "HalfStorage",
                                                                  "BFloat16Storage",
                                                                  "FloatStorage",
                                                                  "DoubleStorage",
                                                                  "ComplexFloatStorage",
                                                                  "ComplexDoubleStorage",
                                                                  "",
                                                                  "",
                                                                  "",
                                                                  "",
                                                                  "",
                                                                  ""};

inline std::string_view storage_class(DType dtype) { return kStorageClasses[int(dtype)]; }

inline std::optional<DType> dtype_of_storage(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (!name.empty() && kStorageClasses[i] == name) return DType(i);
  }
  return std::nullopt;
}

}  // namespace rush::serialize
