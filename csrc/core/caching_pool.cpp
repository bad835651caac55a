#include "core/caching_pool.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/error.h"

namespace rush {

// ---- Backend: counting -------------------------------------------------------------------------

void* MemoryBackend::reserve(size_t nbytes) noexcept {
  void* p = do_reserve(nbytes);
  if (p != nullptr) count_reserved(nbytes);
  return p;
}

void MemoryBackend::count_reserved(size_t nbytes) noexcept {
  reserves.fetch_add(1, std::memory_order_relaxed);
  const int64_t now =
      reserved.fetch_add(int64_t(nbytes), std::memory_order_relaxed) + int64_t(nbytes);
  int64_t peak = peak_reserved.load(std::memory_order_relaxed);
  while (now > peak && !peak_reserved.compare_exchange_weak(peak, now)) {
  }
}

MemoryBackend::Piece MemoryBackend::map(void* p, size_t nbytes) noexcept {
  const Piece piece = do_map(p, nbytes);
  if (piece != 0) count_reserved(nbytes);
  return piece;
}

void MemoryBackend::unmap(void* p, size_t nbytes, Piece piece) noexcept {
  do_unmap(p, nbytes, piece);
  releases.fetch_add(1, std::memory_order_relaxed);
  reserved.fetch_sub(int64_t(nbytes), std::memory_order_relaxed);
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

CachingPool::Block* CachingPool::Table::find(const void* p) const noexcept {
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  size_t at = home(p);
  while (slots_[at] != nullptr && slots_[at]->p != p) at = (at + 1) & mask;
  return slots_[at];
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
  if (block->lasting) lasting_ -= block->size;
  block->lasting = false;
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
  if (cached_ > options_.cache_cap && (whole_free_ > 0 || granule_ > 0))
    release_down_to(options_.cache_cap);
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

// Gives back whole segments (or pieces), the largest first, until at most `keep` free bytes are
// left.
void CachingPool::release_down_to(size_t keep) noexcept {
  added_ = std::min(added_, lasting_);
  if (keeping_) return;
  if (granule_ > 0) {
    bool quiet = false;
    for (int bin = kBins - 1; bin >= 0 && cached_ > keep; --bin) {
      for (Block *block = bins_[bin], *next; block != nullptr && cached_ > keep; block = next) {
        next = block->next;
        if (block->size < granule_) continue;
        if (!quiet && !backend_.quiesce()) return;
        quiet = true;
        take_away(block);
      }
    }
    return;
  }
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

// ---- Virtual memory ----------------------------------------------------------------------------

bool CachingPool::is_growable() noexcept {
  if (!growth_known_ && options_.range > 0) granule_ = backend_.granule();
  growth_known_ = true;
  return granule_ > 0;
}

CachingPool::~CachingPool() {
  for (const auto& [p, record] : pieces_) backend_.unmap(p, record.size, record.piece);
  for (const auto& [p, nbytes] : ranges_) backend_.release_range(p, nbytes);
}

// A free block of that size where there was none: memory is put behind the first hole that has room
// for it, together with the free blocks beside it.
CachingPool::Block* CachingPool::grow(size_t size) {
  const auto try_holes = [&]() -> Block* {
    for (size_t i = 0; i < holes_.size(); ++i) {
      Block* hole = holes_[i];
      size_t room = hole->size;
      if (hole->before != nullptr && hole->before->free) room += hole->before->size;
      if (hole->after != nullptr && hole->after->free) room += hole->after->size;
      if (room < size) continue;
      return grow_at(hole, size);
    }
    const size_t nbytes = std::max(options_.range, (size + granule_ - 1) / granule_ * granule_);
    ranges_.reserve(ranges_.size() + 1);
    holes_.reserve(holes_.size() + 1);
    Block* hole = make_block();
    void* p = backend_.reserve_range(nbytes);
    if (p == nullptr) {
      drop_block(hole);
      return nullptr;
    }
    ranges_.emplace_back(p, nbytes);
    hole->p = static_cast<char*>(p);
    hole->size = nbytes;
    hole->hole = true;
    add_hole(hole);
    return grow_at(hole, size);
  };
  if (Block* block = try_holes()) return block;
  collect_passed(/*wait=*/true);
  if (Block* block = find(size)) {  // what waited for other streams
    remove_free(block);
    return block;
  }
  release_down_to(0);
  return try_holes();
}

// A free block for one of those that room was made for: what is still to come fills the end of the
// last free block, in its order.
CachingPool::Block* CachingPool::find_lasting(size_t size) {
  Block* last = last_free();
  if (last == nullptr || last->size < size || room_ < size) return nullptr;
  if (last->size > room_) {
    Block* end = make_block();
    remove_free(last);
    split(last, last->size - room_, end);
    put_free(last);
    last = end;
  }
  room_ -= size;
  return last;
}

// The free block behind which there is no memory, if there is one.
CachingPool::Block* CachingPool::last_free() const noexcept {
  if (holes_.empty()) return nullptr;
  Block* last = holes_.back()->before;
  return last != nullptr && last->free ? last : nullptr;
}

// All or nothing. Pieces are small while there is little memory, so that a small program reserves
// little; later they save calls of the driver.
bool CachingPool::map_pieces(char* p, size_t nbytes) noexcept {
  size_t largest = granule_;
  while (largest < options_.largest_step / 2 && largest * 16 <= reserved_ + nbytes) largest *= 2;
  size_t done = 0;
  while (done < nbytes) {
    const size_t n = std::min(largest, nbytes - done);
    const MemoryBackend::Piece piece = backend_.map(p + done, n);
    if (piece == 0) break;
    try {
      static std::atomic<uint64_t> serials{0};
      pieces_.emplace(p + done, PieceRecord{n, piece, ++serials});
    } catch (const std::bad_alloc&) {
      backend_.unmap(p + done, n, piece);
      break;
    }
    done += n;
  }
  if (done == nbytes) {
    reserved_ += nbytes;
    return true;
  }
  for (auto at = pieces_.lower_bound(p); at != pieces_.end() && at->first < p + done;) {
    backend_.unmap(at->first, at->second.size, at->second.piece);
    at = pieces_.erase(at);
  }
  return false;
}

CachingPool::Block* CachingPool::grow_at(Block* hole, size_t size) {
  Block* left = hole->before != nullptr && hole->before->free ? hole->before : nullptr;
  const size_t least = size - (left != nullptr ? left->size : 0);
  const auto rounded = [&](size_t n) { return (n + granule_ - 1) / granule_ * granule_; };
  // Not more than the hole has: the rest is free behind it.
  const size_t need = std::min(rounded(least), hole->size);
  const size_t step =
      rounded(std::clamp(reserved_ / 8, options_.first_step, options_.largest_step));
  const size_t wanted = std::min(std::max(need, step), hole->size);
  Block* block = left != nullptr ? left : make_block();
  size_t got = 0;
  if (map_pieces(hole->p, wanted))
    got = wanted;
  else if (need < wanted && map_pieces(hole->p, need))
    got = need;
  if (got == 0) {
    if (left == nullptr) drop_block(block);
    return nullptr;
  }
  if (left != nullptr) {
    remove_free(left);
    left->size += got;
  } else {
    block->p = hole->p;
    block->size = got;
    block->before = hole->before;
    block->after = hole;
    if (hole->before != nullptr) hole->before->after = block;
    hole->before = block;
  }
  hole->p += got;
  hole->size -= got;
  if (hole->size == 0) {
    block->after = hole->after;
    if (hole->after != nullptr) hole->after->before = block;
    drop_hole(hole);
    if (Block* right = block->after; right != nullptr && right->free) {
      remove_free(right);
      absorb(block, right);
    }
  }
  return block;
}

// In the order of addresses, so that low ones are filled first. The caller has made room.
void CachingPool::add_hole(Block* hole) noexcept {
  const auto place = std::lower_bound(holes_.begin(), holes_.end(), hole,
                                      [](const Block* a, const Block* b) { return a->p < b->p; });
  holes_.insert(place, hole);
}

void CachingPool::drop_hole(Block* hole) noexcept {
  holes_.erase(std::find(holes_.begin(), holes_.end(), hole));
  drop_block(hole);
}

// Takes the memory of all whole pieces of a free block away; what is left over at its ends stays.
void CachingPool::take_away(Block* block) noexcept {
  auto first = pieces_.lower_bound(block->p);
  auto last = first;
  char* const end = block->p + block->size;
  char* stop = nullptr;
  while (last != pieces_.end() && last->first + last->second.size <= end) {
    stop = last->first + last->second.size;
    ++last;
  }
  if (first == last) return;
  char* const start = first->first;
  Block *hole = nullptr, *tail = nullptr;
  try {
    holes_.reserve(holes_.size() + 1);
    hole = make_block();
    tail = make_block();
  } catch (const std::bad_alloc&) {
    if (hole != nullptr) drop_block(hole);
    return;
  }
  remove_free(block);
  for (auto at = first; at != last; ++at)
    backend_.unmap(at->first, at->second.size, at->second.piece);
  pieces_.erase(first, last);
  reserved_ -= size_t(stop - start);
  // block | hole | tail, of which block and tail may be empty.
  hole->p = start;
  hole->size = size_t(stop - start);
  hole->hole = true;
  hole->before = block;
  hole->after = block->after;
  if (hole->after != nullptr) hole->after->before = hole;
  block->after = hole;
  add_hole(hole);
  if (stop < end) {
    tail->p = stop;
    tail->size = size_t(end - stop);
    tail->before = hole;
    tail->after = hole->after;
    if (tail->after != nullptr) tail->after->before = tail;
    hole->after = tail;
    put_free(tail);
  } else {
    drop_block(tail);
  }
  if (start > block->p) {
    block->size = size_t(start - block->p);
    put_free(block);
  } else {
    hole->before = block->before;
    if (hole->before != nullptr) hole->before->after = hole;
    drop_block(block);
  }
  // Holes side by side are one.
  if (Block* right = hole->after; right != nullptr && right->hole) {
    hole->size += right->size;
    hole->after = right->after;
    if (hole->after != nullptr) hole->after->before = hole;
    drop_hole(right);
  }
  if (Block* left = hole->before; left != nullptr && left->hole) {
    left->size += hole->size;
    left->after = hole->after;
    if (left->after != nullptr) left->after->before = left;
    drop_hole(hole);
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

CachingPool::Allocation CachingPool::allocate(size_t nbytes, uint8_t label, SourcePoint source,
                                              bool lasting) noexcept try {
  const size_t size = round(std::max<size_t>(nbytes, 1));
  std::lock_guard lock(mutex_);
  if (!waiting_.empty()) collect_passed(/*wait=*/false);
  // Whatever can throw comes before the first change.
  live_.make_room();
  Block* rest = make_block();
  Block* block = lasting ? find_lasting(size) : nullptr;
  lasting = block != nullptr;
  if (!lasting) block = find(size);
  const bool fresh = block == nullptr;
  if (fresh) {
    block = is_growable() ? grow(size) : reserve_segment(size);
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
  block->requested = nbytes;
  block->lasting = lasting;
  if (lasting) lasting_ += block->size;
  block->label = label;
  block->source = source;
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

void CachingPool::make_room(size_t nbytes) noexcept try {
  std::lock_guard lock(mutex_);
  room_ = nbytes;
  if (nbytes == 0 || lasting_ + nbytes <= added_ || !is_growable() || holes_.empty()) return;
  const size_t missing = lasting_ + nbytes - added_;
  const Block* last = last_free();
  Block* block = grow_at(holes_.back(), missing + (last != nullptr ? last->size : 0));
  if (block == nullptr) return;
  put_free(block);
  added_ += missing;
} catch (const std::bad_alloc&) {  // then it grows when it has to
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

std::vector<CachingPool::SegmentInfo> CachingPool::snapshot() {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<const Block*, State>> all;
  for (const Block* block : live_.slots())
    if (block != nullptr) all.emplace_back(block, State::Live);
  for (const auto& [block, event] : waiting_) all.emplace_back(block, State::Waiting);
  for (const Block* head : bins_)
    for (const Block* block = head; block != nullptr; block = block->next)
      all.emplace_back(block, State::Free);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.first->p < b.first->p; });
  std::vector<SegmentInfo> segments;
  const Block* previous = nullptr;
  for (const auto& [block, state] : all) {
    if (previous == nullptr || previous->after != block)
      segments.push_back({block->p, 0, granule_ > 0, {}});
    segments.back().size += block->size;
    const bool in_use = state != State::Free;
    segments.back().blocks.push_back({block->p, block->size, in_use ? block->requested : 0, state,
                                      in_use ? block->label : uint8_t(0),
                                      in_use ? block->source : SourcePoint{}});
    previous = block;
  }
  return segments;
}

std::vector<CachingPool::PieceInfo> CachingPool::pieces_behind(const void* p, size_t nbytes) {
  std::lock_guard lock(mutex_);
  std::vector<PieceInfo> found;
  char* const begin = static_cast<char*>(const_cast<void*>(p));
  auto at = pieces_.upper_bound(begin);
  if (at == pieces_.begin()) return found;
  for (--at; at != pieces_.end() && at->first < begin + nbytes; ++at)
    found.push_back({at->first, at->second.size, at->second.piece, at->second.serial});
  return found;
}

std::pair<char*, size_t> CachingPool::segment_of(const void* p) {
  std::lock_guard lock(mutex_);
  for (const auto& [begin, size] : ranges_) {
    char* const start = static_cast<char*>(begin);
    if (p >= start && p < start + size) return {start, size};
  }
  const Block* block = live_.find(p);
  if (block == nullptr) return {nullptr, 0};
  while (block->before != nullptr) block = block->before;
  char* const begin = block->p;
  size_t size = 0;
  for (; block != nullptr; block = block->after) size += block->size;
  return {begin, size};
}

size_t CachingPool::reserved() noexcept {
  std::lock_guard lock(mutex_);
  return reserved_;
}

}  // namespace rush
