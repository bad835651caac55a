#include "cpu/vendor/primitive_cache.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/mutex.h"

namespace rush {

namespace {

// What a primitive is charged. The least is about what convolutions of all kinds take on average
// (measured: 100 KB); a smaller growth means that memory of one thrown out before was used again.
constexpr int64_t kLeastBytes = 128 << 10, kMostBytes = 4 << 20;
constexpr int64_t kDefaultLimit = 96 << 20;

using Value = std::shared_ptr<const void>;

class Cache {
 public:
  Cache() = default;
  // In a forked child; the parent's is kept as it is, with its lock perhaps taken.
  explicit Cache(const Cache* parents) : parents_(parents), limit_(parents->limit()) {}

  Value find(const PrimitiveKey& key) {
    std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) {
      ++stats_.misses;
      return {};
    }
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->value;
  }

  // Those that are thrown out are destroyed without the lock: oneDNN has locks of its own.
  std::vector<Value> keep(const PrimitiveKey& key, Value value, int64_t bytes) {
    std::lock_guard lock(mutex_);
    if (limit_ == 0 || places_.contains(key)) return {};
    entries_.push_front({key, std::move(value), bytes});
    places_.emplace(key, entries_.begin());
    stats_.bytes += bytes;
    ++stats_.entries;
    return shrink_to(limit_);
  }

  std::vector<Value> clear() {
    std::lock_guard lock(mutex_);
    return shrink_to(0);
  }
  std::vector<Value> set_limit(int64_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    return shrink_to(limit_);
  }
  int64_t limit() const { return limit_.load(); }
  PrimitiveCacheStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Entry {
    PrimitiveKey key;
    Value value;
    int64_t bytes;
  };
  struct Hash {
    size_t operator()(const PrimitiveKey& key) const { return key.hash(); }
  };

  std::vector<Value> shrink_to(int64_t limit) {
    std::vector<Value> dropped;
    while (stats_.bytes > limit && !entries_.empty()) {
      Entry& last = entries_.back();
      stats_.bytes -= last.bytes;
      --stats_.entries;
      ++stats_.evictions;
      places_.erase(last.key);
      dropped.push_back(std::move(last.value));
      entries_.pop_back();
    }
    return dropped;
  }

  [[maybe_unused]] const Cache* parents_ = nullptr;
  Mutex mutex_{LockRank::Primitives};
  std::list<Entry> entries_;  // the latest used one first
  std::unordered_map<PrimitiveKey, std::list<Entry>::iterator, Hash> places_;
  PrimitiveCacheStats stats_{};
  std::atomic<int64_t> limit_{kDefaultLimit};
};

// Never destroyed: primitives would outlive oneDNN's own data, or threads the cache.
constinit std::atomic<Cache*> g_cache{nullptr};

Cache& cache() {
  static const bool made = [] {
    g_cache.store(new Cache);
    pthread_atfork(nullptr, nullptr, [] { g_cache.store(new Cache(g_cache.load())); });
    return true;
  }();
  (void)made;
  return *g_cache.load(std::memory_order_relaxed);
}

}  // namespace

std::shared_ptr<const void> detail::find_primitive(const PrimitiveKey& key) {
  return cache().find(key);
}

void detail::keep_primitive(const PrimitiveKey& key, std::shared_ptr<const void> made,
                            int64_t bytes) {
  cache().keep(key, std::move(made), std::clamp(bytes, kLeastBytes, kMostBytes));
}

int64_t detail::resident_bytes() {
  long pages = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return int64_t(resident) * sysconf(_SC_PAGESIZE);
}

PrimitiveCacheStats primitive_cache_stats() { return cache().stats(); }

int64_t primitive_cache_limit() { return cache().limit(); }

void set_primitive_cache_limit(int64_t bytes) {
  check_argument(bytes >= 0, "set_primitive_cache_limit", "expected a number from 0, got ", bytes);
  cache().set_limit(bytes);
}

void clear_primitive_cache() { cache().clear(); }

}  // namespace rush
