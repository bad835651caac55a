// Uniform keys: their upper bits say where in the order a key belongs, up to a few neighbours. So
// one pass puts every key about where it belongs, and insertion mends the rest. Where that pass
// would write all over memory, another one before it makes parts that fit the caches.
#include "cpu/permutation.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/storage.h"
#include "core/threads.h"

namespace rush {

namespace {

constexpr int64_t kCached = 1 << 15;  // keys that lie in the second-level cache, twice
constexpr int kPartBits = 10;         // the parts of a pass over memory: 1024 places to write to
constexpr int64_t kWorthInserting = 64;

// Unsigned, in the order of the signed ones.
uint64_t flipped(int64_t key) { return uint64_t(key) ^ (uint64_t{1} << 63); }

// The upper `skip` bits agree in all keys. Sorted into `to`.
void sort_cached(const int64_t* keys, int64_t n, int skip, int64_t* to, uint32_t* ends) {
  const int bits = std::min(63 - skip, std::max(1, int(std::bit_width(uint64_t(n))) - 1));
  const int64_t buckets = int64_t{1} << bits;
  const auto bucket = [&](int64_t key) { return (flipped(key) << skip) >> (64 - bits); };
  std::fill_n(ends, buckets, 0);
  for (int64_t i = 0; i < n; ++i) ++ends[bucket(keys[i])];
  uint32_t sum = 0;
  uint32_t most = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    most = std::max(most, ends[b]);
    sum += ends[b];
    ends[b] = sum;
  }
  for (int64_t i = n - 1; i >= 0; --i) to[--ends[bucket(keys[i])]] = keys[i];
  if (most > kWorthInserting) return std::sort(to, to + n);  // these keys are not random
  for (int64_t i = 1; i < n; ++i) {
    const int64_t key = to[i];
    int64_t k = i;
    for (; k > 0 && to[k - 1] > key; --k) to[k] = to[k - 1];
    to[k] = key;
  }
}

int64_t buckets_for(int64_t n) { return int64_t{1} << std::bit_width(uint64_t(n)); }

}  // namespace

void sort_random_cpu(int64_t* keys, int64_t n) {
  if (n < 2) return;
  const Ref<Storage> space = Storage::allocate({}, size_t(n) * 8);
  int64_t* parts = static_cast<int64_t*>(space->data());
  if (n <= kCached) {
    std::vector<uint32_t> ends(size_t(buckets_for(n)));
    std::copy_n(keys, n, parts);
    return sort_cached(parts, n, 0, keys, ends.data());
  }
  // Every thread distributes its share; then parts are sorted, each by one thread.
  constexpr int64_t kParts = 1 << kPartBits;
  const auto part = [](int64_t key) { return flipped(key) >> (64 - kPartBits); };
  const int64_t shares = std::min<int64_t>(num_threads(), n / kCached + 1);
  const int64_t length = (n + shares - 1) / shares;
  std::vector<int64_t> at(size_t(shares * kParts), 0), starts(size_t(kParts + 1), 0);
  const auto each_share = [&](auto f) {
    parallel_for(shares, 1, [&](int64_t s, int64_t end) {
      for (; s < end; ++s) f(at.data() + s * kParts, s * length, std::min(n, (s + 1) * length));
    });
  };
  each_share([&](int64_t* count, int64_t i, int64_t end) {
    for (; i < end; ++i) ++count[part(keys[i])];
  });
  int64_t sum = 0;
  for (int64_t p = 0; p < kParts; ++p) {
    starts[size_t(p)] = sum;
    for (int64_t s = 0; s < shares; ++s) {
      const int64_t count = at[size_t(s * kParts + p)];
      at[size_t(s * kParts + p)] = sum;
      sum += count;
    }
  }
  starts[size_t(kParts)] = n;
  each_share([&](int64_t* place, int64_t i, int64_t end) {
    for (; i < end; ++i) parts[place[part(keys[i])]++] = keys[i];
  });
  parallel_for(kParts, std::max<int64_t>(1, kCached * kParts / n), [&](int64_t p, int64_t end) {
    std::vector<uint32_t> ends;
    for (; p < end; ++p) {
      const int64_t start = starts[size_t(p)], count = starts[size_t(p + 1)] - start;
      if (count == 0) continue;
      ends.resize(std::max(ends.size(), size_t(buckets_for(count))));
      sort_cached(parts + start, count, kPartBits, keys + start, ends.data());
    }
  });
}

}  // namespace rush
