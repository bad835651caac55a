// plan_hash.h: where the plans of libraries (cuDNN, cuBLAS, cuFFT) are found again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace rush::cuda {

// Of everything that a plan depends on: a plain struct without padding between its fields.
struct PlanHash {
  template <class Key>
  size_t operator()(const Key& key) const {
    static_assert(std::has_unique_object_representations_v<Key> && sizeof(Key) % 4 == 0);
    uint32_t words[sizeof(Key) / 4];
    std::memcpy(words, &key, sizeof key);
    uint64_t h = 1469598103934665603ull;
    for (const uint32_t word : words) {
      h = (h ^ word) * 0x9E3779B97F4A7C15ull;
      h ^= h >> 29;
    }
    return size_t(h);
  }
};

}  // namespace rush::cuda
