#include "core/caching_pool.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/error.h"

namespace rush {

// ---- Backend: counting -------------------------------------------------------------------------

void* MemoryBackend::reserve(size_t nbytes) noexcept {
  void* p = do_reserve(nbytes);
  if (p == nullptr) return nullptr;
  reserves.fetch_add(1, std::memory_order_relaxed);
  const int64_t now =
      reserved.fetch_add(int64_t(nbytes), std::memory_order_relaxed) + int64_t(nbytes);
  int64_t peak = peak_reserved.load(std::memory_order_relaxed);
  while (now > peak && !peak_reserved.compare_exchange_weak(peak, now)) {
  }
  return p;
}

void MemoryBackend::release(void* p, size_t nbytes) noexcept {
  do_release(p, nbytes);
  releases.fetch_add(1, std::memory_order_relaxed);
  reserved.fetch_sub(int64_t(nbytes), std::memory_order_relaxed);
}

// ---- Table of live blocks ----------------------------------------------------------------------

size_t CachingPool::Table::home(const void* p) const noexcept {
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(p) / kRound) * 0x9E3779B97F4A7C15ull;
  return size_t(mixed >> 32) & (slots_.size() - 1);
}

void CachingPool::Table::make_room() {
  if ((used_ + 1) * 2 <= slots_.size()) return;
  std::vector<Block*> old(std::max<size_t>(64, slots_.size() * 2), nullptr);
  old.swap(slots_);
  used_ = 0;
  for (Block* block : old)
    if (block != nullptr) insert(block);
}

void CachingPool::Table::insert(Block* block) noexcept {
  const size_t mask = slots_.size() - 1;
  size_t at = home(block->p);
  while (slots_[at] != nullptr) at = (at + 1) & mask;
  slots_[at] = block;
  ++used_;
}

// Removes the entry and closes the gap, so that no tombstones pile up. Null when p is not ours.
CachingPool::Block* CachingPool::Table::take(void* p) noexcept {
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  size_t gap = home(p);
  while (slots_[gap] != nullptr && slots_[gap]->p != p) gap = (gap + 1) & mask;
  Block* found = slots_[gap];
  if (found == nullptr) return nullptr;
  for (size_t at = (gap + 1) & mask; slots_[at] != nullptr; at = (at + 1) & mask) {
    const size_t wanted = home(slots_[at]->p);
    if (((at - wanted) & mask) < ((at - gap) & mask)) continue;  // would move before its home
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap] = nullptr;
  --used_;
  return found;
}

// ---- Free lists --------------------------------------------------------------------------------

// Eight lists a power of two of 512 byte units. Sizes below 8 units have a list each.
int CachingPool::bin_of(size_t size) noexcept {
  const size_t units = size / kRound;
  if (units < 8) return int(units);
  const int top = std::bit_width(units) - 1;
  return std::min((top - 2) * 8 + int((units >> (top - 3)) & 7), kBins - 1);
}

void CachingPool::put_free(Block* block) noexcept {
  const int bin = bin_of(block->size);
  block->free = true;
  block->previous = nullptr;
  block->next = bins_[bin];
  if (block->next != nullptr) block->next->previous = block;
  bins_[bin] = block;
  occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
  cached_ += block->size;
  whole_free_ += block->whole();
}

void CachingPool::remove_free(Block* block) noexcept {
  const int bin = bin_of(block->size);
  if (block->next != nullptr) block->next->previous = block->previous;
  if (block->previous != nullptr) {
    block->previous->next = block->next;
  } else {
    bins_[bin] = block->next;
    if (block->next == nullptr) occupied_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  }
  block->free = false;
  cached_ -= block->size;
  whole_free_ -= block->whole();
}

// The smallest block that fits, from the first list that has one. Only the head of a long list is
// searched: the sizes in it differ by an eighth at most.
CachingPool::Block* CachingPool::find(size_t size) noexcept {
  constexpr int kSearch = 64;
  int bin = bin_of(size);
  while (bin < kBins) {
    Block* best = nullptr;
    int looked = 0;
    for (Block* b = bins_[bin]; b != nullptr && looked < kSearch; b = b->next, ++looked) {
      if (b->size < size || (best != nullptr && b->size >= best->size)) continue;
      best = b;
      if (b->size == size) break;
    }
    if (best != nullptr) return best;
    if (++bin == kBins) break;
    int word = bin / 64;
    uint64_t bits = occupied_[word] & (~uint64_t{0} << (bin % 64));
    while (bits == 0 && ++word < kBins / 64) bits = occupied_[word];
    if (bits == 0) break;
    bin = word * 64 + std::countr_zero(bits);
  }
  return nullptr;
}

// ---- Blocks ------------------------------------------------------------------------------------

CachingPool::Block* CachingPool::make_block() {
  if (spare_blocks_ == nullptr) return &blocks_.emplace_back();
  Block* block = spare_blocks_;
  spare_blocks_ = block->next;
  *block = Block{};
  return block;
}

void CachingPool::drop_block(Block* block) noexcept {
  block->next = spare_blocks_;
  spare_blocks_ = block;
}

void CachingPool::split(Block* block, size_t size, Block* rest) noexcept {
  rest->p = block->p + size;
  rest->size = block->size - size;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  put_free(rest);
}

void CachingPool::absorb(Block* left, Block* right) noexcept {
  left->size += right->size;
  left->after = right->after;
  if (left->after != nullptr) left->after->before = left;
  drop_block(right);
}

void CachingPool::free_block(Block* block) noexcept {
  if (Block* right = block->after; right != nullptr && right->free) {
    remove_free(right);
    absorb(block, right);
  }
  if (Block* left = block->before; left != nullptr && left->free) {
    remove_free(left);
    absorb(left, block);
    block = left;
  }
  put_free(block);
  if (cached_ > options_.cache_cap && whole_free_ > 0) release_down_to(options_.cache_cap);
}

// ---- Segments ----------------------------------------------------------------------------------

// A quarter of what is there already, within bounds; a request that would fill most of such a
// segment gets one of its own, so that it can be given back when it is freed.
size_t CachingPool::next_segment_size(size_t size) const noexcept {
  const size_t round = options_.segment_round;
  const size_t step = std::clamp(reserved_ / 4, options_.first_step, options_.largest_step);
  const size_t wanted = size > step / 2 ? size : step;
  return (wanted + round - 1) / round * round;
}

CachingPool::Block* CachingPool::reserve_segment(size_t size) {
  const size_t nbytes = next_segment_size(size);
  Block* block = make_block();
  void* p = backend_.reserve(nbytes);
  if (p == nullptr) {
    collect_passed(/*wait=*/true);
    release_down_to(0);
    p = backend_.reserve(nbytes);
  }
  if (p == nullptr) {
    drop_block(block);
    return nullptr;
  }
  block->p = static_cast<char*>(p);
  block->size = nbytes;
  reserved_ += nbytes;
  return block;
}

// Gives back whole segments, the largest first, until at most `keep` free bytes are left.
void CachingPool::release_down_to(size_t keep) noexcept {
  if (keeping_) return;
  for (int bin = kBins - 1; bin >= 0 && cached_ > keep && whole_free_ > 0; --bin) {
    for (Block *block = bins_[bin], *next; block != nullptr && cached_ > keep; block = next) {
      next = block->next;
      if (!block->whole()) continue;
      remove_free(block);
      backend_.release(block->p, block->size);
      reserved_ -= block->size;
      drop_block(block);
    }
  }
}

void CachingPool::collect_passed(bool wait) noexcept {
  for (size_t i = 0; i < waiting_.size();) {
    const auto [block, event] = waiting_[i];
    if (wait) backend_.wait(event);
    if (!wait && !backend_.done(event)) {
      ++i;
      continue;
    }
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
    free_block(block);
  }
}

// ---- The interface -----------------------------------------------------------------------------

CachingPool::Allocation CachingPool::allocate(size_t nbytes) noexcept try {
  const size_t size = round(std::max<size_t>(nbytes, 1));
  std::lock_guard lock(mutex_);
  if (!waiting_.empty()) collect_passed(/*wait=*/false);
  // Whatever can throw comes before the first change.
  live_.make_room();
  Block* rest = make_block();
  Block* block = find(size);
  const bool fresh = block == nullptr;
  if (fresh) {
    block = reserve_segment(size);
  } else {
    remove_free(block);
  }
  if (block == nullptr) {
    drop_block(rest);
    return {nullptr, false};
  }
  if (block->size - size >= options_.least_rest) {
    split(block, size, rest);
  } else {
    drop_block(rest);
  }
  live_.insert(block);
  return {block->p, fresh};
} catch (const std::bad_alloc&) {
  return {nullptr, false};
}

void CachingPool::free(void* p) noexcept {
  std::lock_guard lock(mutex_);
  Block* block = live_.take(p);
  internal_assert(block != nullptr, "memory was freed that is not live");  // ends the process
  free_block(block);
}

void CachingPool::free_after(void* p, MemoryBackend::Event event) noexcept {
  std::lock_guard lock(mutex_);
  Block* block = live_.take(p);
  internal_assert(block != nullptr, "memory was freed that is not live");
  try {
    waiting_.emplace_back(block, event);
  } catch (const std::bad_alloc&) {
    backend_.wait(event);
    free_block(block);
  }
}

void CachingPool::release_cached() noexcept {
  std::lock_guard lock(mutex_);
  collect_passed(/*wait=*/false);
  release_down_to(0);
}

void CachingPool::set_cache_cap(size_t nbytes) noexcept {
  std::lock_guard lock(mutex_);
  options_.cache_cap = nbytes;
  release_down_to(nbytes);
}

void CachingPool::set_keeping(bool on) noexcept {
  std::lock_guard lock(mutex_);
  keeping_ = on;
  if (cached_ > options_.cache_cap) release_down_to(options_.cache_cap);
}

size_t CachingPool::reserved() noexcept {
  std::lock_guard lock(mutex_);
  return reserved_;
}

}  // namespace rush
