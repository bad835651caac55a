#include "core/small_blocks.h"

#include <algorithm>
#include <new>

namespace rush::detail {

namespace {

constexpr size_t kSlabBytes = 256 * 1024;
constexpr size_t kFirstCut = 8 * 1024;  // bytes cut from a slab at a time: pages are touched late

// A list holds up to 512 KiB, but not fewer than 8 blocks nor more than 256.
constexpr int list_limit(int cls) {
  return int(std::clamp<size_t>(512 * 1024 / class_size(cls), 8, 256));
}

// Threads without a cache: it never holds a block, but counts, by read-modify-write, for all of
// them.
constinit ThreadCache g_no_cache;

// Where the thread stands. A trivial flag outlives the guard's destructor; the guard itself does
// not.
constinit thread_local bool t_ending [[gnu::tls_model("initial-exec")]] = false;

void count(std::atomic<int64_t>& counter, int64_t n, const ThreadCache* owner) {
  if (owner == &g_no_cache) {
    counter.fetch_add(n, std::memory_order_relaxed);
  } else {
    ThreadCache::add(counter, n);
  }
}

}  // namespace

constinit thread_local ThreadCache* t_cache = &g_no_cache;
constinit std::atomic<bool> g_leave_fast_path{false};

// ---- Threads -----------------------------------------------------------------------------------

namespace {

struct ThreadGuard {
  SmallBlocks* owner = nullptr;
  ~ThreadGuard() {
    if (owner != nullptr) owner->detach_thread(t_cache);
  }
};
thread_local ThreadGuard t_guard;

}  // namespace

ThreadCache* SmallBlocks::attach_thread() noexcept {
  if (kBypassCache || t_ending) return nullptr;
  if (t_cache != &g_no_cache) return t_cache;
  try {
    std::lock_guard lock(registry_mutex_);
    auto idle = std::find_if(registry_.begin(), registry_.end(),
                             [](const ThreadCache* cache) { return !cache->in_use; });
    if (idle == registry_.end()) {
      registry_.reserve(registry_.size() + 1);
      idle = registry_.insert(registry_.end(), new ThreadCache);
      for (int cls = 0; cls < kClasses; ++cls) {
        (*idle)->bins[cls].limit = uint16_t(list_limit(cls));
        (*idle)->bins[cls].size = uint32_t(class_size(cls));
      }
    }
    t_guard.owner = this;
    (*idle)->in_use = true;
    t_cache = *idle;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return t_cache;
}

void SmallBlocks::detach_thread(ThreadCache* cache) noexcept {
  t_ending = true;
  t_cache = &g_no_cache;
  for (int cls = 0; cls < kClasses; ++cls) give_back(cache->bins[cls], cls, 0);
  add_counts(*cache);
  std::lock_guard lock(registry_mutex_);
  cache->in_use = false;
}

// ---- Central lists -----------------------------------------------------------------------------

SmallBlocks::Slab* SmallBlocks::Central::find(const void* p) {
  auto after = std::upper_bound(slabs.begin(), slabs.end(), static_cast<const char*>(p),
                                [](const char* at, const Slab& slab) { return at < slab.begin; });
  return &*(after - 1);
}

bool SmallBlocks::add_slab(Central& central) noexcept try {
  if (central.slabs.size() == central.slabs.capacity())  // first what can throw
    central.slabs.reserve(std::max<size_t>(16, 2 * central.slabs.size()));
  char* p = static_cast<char*>(slab_source_.allocate(kSlabBytes).p);
  if (p == nullptr) return false;
  const auto at = std::upper_bound(central.slabs.begin(), central.slabs.end(), p,
                                   [](char* q, const Slab& slab) { return q < slab.begin; });
  central.slabs.insert(at, Slab{p, 0, 0});
  central.cut = p;
  central.end = p + kSlabBytes;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// A chain that some thread gave back, or else a few new blocks.
SmallBlocks::Chain SmallBlocks::take_chain(int cls) noexcept {
  Central& central = central_[cls];
  const size_t size = class_size(cls);
  std::lock_guard lock(central.mutex);
  if (FreeBlock* head = central.chains; head != nullptr) {
    central.chains = head->next_chain;
    return {head, head->chain_length, false};
  }
  if (size_t(central.end - central.cut) < size && !add_slab(central)) return {};
  const int64_t room = (central.end - central.cut) / int64_t(size);
  const int64_t length = std::clamp<int64_t>(int64_t(kFirstCut / size), 1, room);
  Chain chain{nullptr, length, true};
  for (int64_t i = length - 1; i >= 0; --i) {  // the lowest address first
    FreeBlock* block = reinterpret_cast<FreeBlock*>(central.cut + i * int64_t(size));
    block->next = chain.head;
    chain.head = block;
  }
  central.cut += length * int64_t(size);
  central.newest()->cut += length;
  return chain;
}

void SmallBlocks::give_chain(int cls, FreeBlock* head, int64_t length) noexcept {
  if (head == nullptr) return;
  Central& central = central_[cls];
  std::lock_guard lock(central.mutex);
  head->chain_length = length;
  head->next_chain = central.chains;
  central.chains = head;
}

// Moves all but the `keep` most recently freed blocks, which are the ones still in a CPU cache.
void SmallBlocks::give_back(Bin& bin, int cls, int keep) noexcept {
  if (bin.count <= keep) return;
  FreeBlock** cut = &bin.head;
  for (int i = 0; i < keep; ++i) cut = &(*cut)->next;
  FreeBlock* rest = *cut;
  *cut = nullptr;
  const int64_t length = bin.count - keep;
  bin.count = uint16_t(keep);
  give_chain(cls, rest, length);
}

// ---- Allocate and free, off the fast path ------------------------------------------------------

void* SmallBlocks::allocate(int cls) noexcept {
  const int64_t size = int64_t(class_size(cls));
  ThreadCache* cache = attach_thread();
  if (cache != nullptr && cache->bins[cls].head != nullptr) {  // sent here for another reason
    Bin& bin = cache->bins[cls];
    FreeBlock* block = bin.head;
    bin.head = block->next;
    --bin.count;
    cache->count_allocation(size);
    return block;
  }
  const Chain chain = take_chain(cls);
  if (chain.head == nullptr) return nullptr;
  if (cache == nullptr) {
    give_chain(cls, chain.head->next, chain.length - 1);
    count_outside(size, chain.fresh);
    return chain.head;
  }
  Bin& bin = cache->bins[cls];
  bin.head = chain.head->next;
  bin.count = uint16_t(chain.length - 1);
  add_counts(*cache);
  cache->count_allocation(size);
  if (chain.fresh) ThreadCache::add(cache->misses, 1);
  return chain.head;
}

void SmallBlocks::free(void* p, int cls) noexcept {
  FreeBlock* block = static_cast<FreeBlock*>(p);
  const int64_t size = int64_t(class_size(cls));
  ThreadCache* cache = attach_thread();
  if (cache == nullptr) {
    block->next = nullptr;
    give_chain(cls, block, 1);
    count_free_outside(size);
    return;
  }
  Bin& bin = cache->bins[cls];
  if (bin.count >= bin.limit) {
    give_back(bin, cls, bin.limit / 2);
    add_counts(*cache);
  }
  block->next = bin.head;
  bin.head = block;
  ++bin.count;
  cache->count_free(size);
}

// ---- Giving memory back ------------------------------------------------------------------------

void SmallBlocks::trim() noexcept {
  if (ThreadCache* cache = attach_thread())
    for (int cls = 0; cls < kClasses; ++cls) give_back(cache->bins[cls], cls, 0);
  for (int cls = 0; cls < kClasses; ++cls) trim_class(cls);
}

void SmallBlocks::trim_class(int cls) noexcept {
  Central& central = central_[cls];
  std::lock_guard lock(central.mutex);
  if (central.chains == nullptr) return;
  for (Slab& slab : central.slabs) slab.free = 0;
  for (FreeBlock* chain = central.chains; chain != nullptr; chain = chain->next_chain)
    for (FreeBlock* block = chain; block != nullptr; block = block->next)
      ++central.find(block)->free;

  // Rebuild the chains without the blocks of slabs that will go.
  FreeBlock *old = central.chains, *open = nullptr;
  central.chains = nullptr;
  while (old != nullptr) {
    FreeBlock* following_chain = old->next_chain;
    for (FreeBlock *block = old, *next; block != nullptr; block = next) {
      next = block->next;
      const Slab* slab = central.find(block);
      if (slab->free == slab->cut) continue;
      if (open == nullptr || open->chain_length >= list_limit(cls) / 2) {
        open = block;
        open->next = nullptr;
        open->chain_length = 1;
        open->next_chain = central.chains;
        central.chains = open;
      } else {
        block->next = open->next;
        open->next = block;
        ++open->chain_length;
      }
    }
    old = following_chain;
  }
  std::erase_if(central.slabs, [&](const Slab& slab) {
    if (slab.free != slab.cut) return false;
    if (central.end == slab.begin + kSlabBytes) central.cut = central.end = nullptr;
    slab_source_.free(slab.begin);
    return true;
  });
}

// ---- Statistics --------------------------------------------------------------------------------

void SmallBlocks::raise_peak(int64_t live) noexcept {
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
  }
}

void SmallBlocks::add_counts(ThreadCache& cache) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (cache.delta.load(relaxed) == 0 && cache.high.load(relaxed) == 0) return;  // large after large
  raise_peak(live_.load(relaxed) + cache.high.load(relaxed));
  live_.fetch_add(cache.delta.load(relaxed), relaxed);
  cache.delta.store(0, relaxed);
  cache.high.store(0, relaxed);
}

void SmallBlocks::count_outside(int64_t nbytes, bool fresh) noexcept {
  if (t_cache != &g_no_cache) add_counts(*t_cache);
  count(t_cache->allocations, 1, t_cache);
  if (fresh) count(t_cache->misses, 1, t_cache);
  raise_peak(live_.fetch_add(nbytes, std::memory_order_relaxed) + nbytes);
}

void SmallBlocks::count_free_outside(int64_t nbytes) noexcept {
  if (t_cache != &g_no_cache) add_counts(*t_cache);
  count(t_cache->frees, 1, t_cache);
  live_.fetch_sub(nbytes, std::memory_order_relaxed);
}

SmallBlocks::Totals SmallBlocks::totals() {
  std::lock_guard lock(registry_mutex_);
  const int64_t live = live_.load();
  Totals t{live, live, g_no_cache.allocations.load(), g_no_cache.frees.load(),
           g_no_cache.misses.load()};
  for (const ThreadCache* cache : registry_) {
    t.live += cache->delta.load();
    t.peak += cache->high.load();
    t.allocations += cache->allocations.load();
    t.frees += cache->frees.load();
    t.misses += cache->misses.load();
  }
  t.peak = std::max({t.peak, t.live, peak_.load()});
  return t;
}

void SmallBlocks::reset_peak() {
  std::lock_guard lock(registry_mutex_);
  int64_t live = live_.load();
  for (ThreadCache* cache : registry_) {
    live += cache->delta.load();
    cache->high.store(cache->delta.load());
  }
  peak_.store(live);
}

// ---- Fork --------------------------------------------------------------------------------------

void SmallBlocks::lock() noexcept {
  registry_mutex_.lock();
  for (Central& central : central_) central.mutex.lock();
}

void SmallBlocks::unlock() noexcept {
  for (Central& central : central_) central.mutex.unlock();
  registry_mutex_.unlock();
}

}  // namespace rush::detail
