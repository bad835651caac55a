// primitive_cache.h: what oneDNN compiled, kept by shape. One cache per process, bounded in bytes.
//
// - A primitive is machine code made for one shape, layout, type and number of threads; making one
//   costs up to some milliseconds, so it is kept. Programs with ever new shapes must not grow, so
//   the least recently used ones go.
// - oneDNN does not say how much memory a primitive takes. It is charged what the process grew by
//   while it was made, within bounds: growth may be another thread's, and none may be memory that
//   was used before.
// - Whoever executes a primitive holds it, so it may be thrown out meanwhile. A forked child begins
//   with an empty cache: its primitives are for one thread, and another thread of its parent may
//   have held the lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include "core/export.h"

namespace rush {

struct PrimitiveCacheStats {
  int64_t entries, bytes, hits, misses, evictions;
};
RUSH_API PrimitiveCacheStats primitive_cache_stats();
// In bytes; 0 keeps nothing.
RUSH_API void set_primitive_cache_limit(int64_t bytes);
RUSH_API int64_t primitive_cache_limit();
RUSH_API void clear_primitive_cache();

// What a primitive depends on, its kind first.
class PrimitiveKey {
 public:
  enum Kind : int64_t { Matmul, Convolution, IntegerProduct, IntegerConvolution };
  explicit PrimitiveKey(Kind kind) { *this << kind; }
  PrimitiveKey& operator<<(int64_t number) {
    numbers_[size_t(count_++)] = number;
    return *this;
  }
  size_t hash() const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < count_; ++i)
      h = (h ^ uint64_t(numbers_[size_t(i)])) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return h;
  }
  friend bool operator==(const PrimitiveKey&, const PrimitiveKey&) = default;

 private:
  std::array<int64_t, 40> numbers_{};
  int count_ = 0;
};

namespace detail {
std::shared_ptr<const void> find_primitive(const PrimitiveKey& key);
void keep_primitive(const PrimitiveKey& key, std::shared_ptr<const void> made, int64_t bytes);
int64_t resident_bytes();
}  // namespace detail

// The primitive of this key, made by make() when it is not there. P is always the same for a kind.
template <class P, class Make>
std::shared_ptr<const P> cached_primitive(const PrimitiveKey& key, Make&& make) {
  if (auto found = detail::find_primitive(key)) return std::static_pointer_cast<const P>(found);
  const int64_t before = detail::resident_bytes();
  auto made = std::make_shared<const P>(make());
  detail::keep_primitive(key, made, detail::resident_bytes() - before);
  return made;
}

}  // namespace rush
