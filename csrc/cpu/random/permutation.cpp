// Uniform keys: their upper bits say where in the order a key belongs, up to a few neighbours. So
// one pass puts every key about where it belongs, and insertion mends the rest. Where that pass
// would write all over memory, another one before it makes parts that fit the caches. A key carries
// its place in its lowest bits.
#include <algorithm>
#include <bit>
#include <vector>

#include "core/interrupt.h"
#include "core/storage.h"
#include "core/threads.h"
#include "device/random.h"

namespace rush {

namespace {

constexpr int64_t kCached = 1 << 15;  // keys that stay in the second-level cache with their copy
constexpr int kMostPartBits = 10;  // parts of a pass over memory: not too many places to write to
constexpr int64_t kWorthInserting = 64;
constexpr int64_t kPerLook = 1 << 18;  // keys between looks for an interrupt

uint64_t place_mask(int64_t n) { return std::bit_ceil(uint64_t(std::max<int64_t>(n, 1))) - 1; }

// Two to four buckets per key: with one for two keys, insertion took a third of the time (measured).
int bucket_bits(int64_t n) { return int(std::bit_width(uint64_t(n))) + 1; }
int64_t buckets_for(int64_t n) { return int64_t{1} << bucket_bits(n); }

// Puts keys whose upper `skip` bits agree into order, using `space`, and leaves their places in
// `out`, which may be `keys`. `ends` has buckets_for(n) elements.
void order(const uint64_t* keys, int64_t n, int skip, uint64_t mask, uint64_t* space,
           uint32_t* ends, int64_t* out) {
  const int bits = std::min(63 - skip, bucket_bits(n));
  const int64_t buckets = int64_t{1} << bits;
  const auto bucket = [&](uint64_t key) { return (key << skip) >> (64 - bits); };
  std::fill_n(ends, buckets, 0u);
  for (int64_t i = 0; i < n; ++i) ++ends[bucket(keys[i])];
  uint32_t sum = 0, most = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    most = std::max(most, ends[b]);
    sum += ends[b];
    ends[b] = sum;
  }
  for (int64_t i = n - 1; i >= 0; --i) space[--ends[bucket(keys[i])]] = keys[i];
  if (most > kWorthInserting) {  // these keys are not random
    std::sort(space, space + n);
  } else {
    for (int64_t i = 1; i < n; ++i) {
      const uint64_t key = space[i];
      int64_t k = i;
      for (; k > 0 && space[k - 1] > key; --k) space[k] = space[k - 1];
      space[k] = key;
    }
  }
  for (int64_t i = 0; i < n; ++i) out[i] = int64_t(space[i] & mask);
}

// Every thread distributes its share of the keys; then parts are put into order, each by one
// thread.
void order_in_parts(uint64_t* keys, int64_t n, uint64_t mask, uint64_t* space) {
  const int part_bits = std::min(kMostPartBits, int(std::bit_width(uint64_t(n / (kCached / 2)))));
  const int64_t parts = int64_t{1} << part_bits;
  const auto part = [&](uint64_t key) { return key >> (64 - part_bits); };
  const int64_t shares = std::min<int64_t>(num_threads(), n / kCached + 1);
  const int64_t length = (n + shares - 1) / shares;
  std::vector<int64_t> at(size_t(shares * parts), 0), starts(size_t(parts + 1), n);
  const auto each_share = [&](auto f) {
    parallel_for(shares, 1, [&](int64_t s, int64_t end) {
      for (; s < end; ++s) f(at.data() + s * parts, s * length, std::min(n, (s + 1) * length));
    });
  };
  each_share([&](int64_t* count, int64_t i, int64_t end) {
    in_steps(end - i, kPerLook, [&](int64_t k, int64_t stop) {
      for (; k < stop; ++k) ++count[part(keys[i + k])];
    });
  });
  int64_t sum = 0;
  for (int64_t p = 0; p < parts; ++p) {
    starts[size_t(p)] = sum;
    for (int64_t s = 0; s < shares; ++s) {
      const int64_t count = at[size_t(s * parts + p)];
      at[size_t(s * parts + p)] = sum;
      sum += count;
    }
  }
  each_share([&](int64_t* place, int64_t i, int64_t end) {
    in_steps(end - i, kPerLook, [&](int64_t k, int64_t stop) {
      for (; k < stop; ++k) space[place[part(keys[i + k])]++] = keys[i + k];
    });
  });
  parallel_for(parts, std::max<int64_t>(1, kCached * parts / n), [&](int64_t p, int64_t end) {
    std::vector<uint32_t> ends;
    for (; p < end; ++p) {
      const int64_t start = starts[size_t(p)], count = starts[size_t(p + 1)] - start;
      if (count == 0) continue;
      ends.resize(std::max(ends.size(), size_t(buckets_for(count))));
      uint64_t* own = keys + start;  // read no more: all keys lie in `space`
      order(space + start, count, part_bits, mask, own, ends.data(),
            reinterpret_cast<int64_t*>(own));
    }
  });
}

void permutation(const Tensor& order_keys) {
  const int64_t n = order_keys.numel();
  if (n == 0) return;
  auto* signed_keys = order_keys.data<int64_t>();
  const uint64_t mask = place_mask(n), sign = uint64_t{1} << 63;
  uint64_t* keys = reinterpret_cast<uint64_t*>(signed_keys);
  parallel_for(n, 32768, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) keys[i] = ((keys[i] ^ sign) & ~mask) | uint64_t(i);
  });
  const Ref<Storage> memory = Storage::allocate({}, size_t(n) * 8);
  uint64_t* space = static_cast<uint64_t*>(memory->data());
  if (n > kCached) return order_in_parts(keys, n, mask, space);
  const Ref<Storage> counts = Storage::allocate({}, size_t(buckets_for(n)) * 4);
  order(keys, n, 0, mask, space, static_cast<uint32_t*>(counts->data()), signed_keys);
}

const bool registered = [] {
  random_loops(DeviceType::CPU).permutation = permutation;
  return true;
}();

}  // namespace
}  // namespace rush
