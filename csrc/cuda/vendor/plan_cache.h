// plan_cache.h: where the plans of libraries (cuDNN, cuBLAS, cuFFT) are found again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <unordered_map>

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

// Plans belong to a thread, as the handles of the libraries do. `make` returns a unique_ptr.
template <class Made, class Key, class Make>
const Made& kept_plan(const Key& key, Make make) {
  constexpr size_t kMostPlans = 2048;
  using Plans = std::unordered_map<Key, std::unique_ptr<Made>, PlanHash>;
  thread_local std::unique_ptr<Plans> plans;
  if (!plans) plans = std::make_unique<Plans>();
  if (const auto found = plans->find(key); found != plans->end()) return *found->second;
  auto fresh = make();
  if (plans->size() >= kMostPlans) plans->clear();
  return *plans->emplace(key, std::move(fresh)).first->second;
}

}  // namespace rush::cuda
