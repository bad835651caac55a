// The caching pool over virtual memory, with a backend that checks every call and has no memory.
#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "core/caching_pool.h"
#include "testing.h"

using namespace rush;

namespace {

constexpr size_t kMiB = size_t{1} << 20, kGranule = 2 * kMiB;

class PretendVirtual final : public MemoryBackend {
 public:
  int64_t room = int64_t{1} << 40;
  std::map<uintptr_t, size_t> ranges, mapped;
  std::map<Piece, std::pair<uintptr_t, size_t>> pieces;
  int quiets = 0, faults = 0;
  bool captured = false;

  size_t granule() noexcept override { return kGranule; }
  void* reserve_range(size_t n) noexcept override {
    const uintptr_t at = next_;
    next_ += n + kGranule;  // never side by side
    ranges[at] = n;
    return reinterpret_cast<void*>(at);
  }
  void release_range(void* p, size_t n) noexcept override {
    const auto found = ranges.find(uintptr_t(p));
    faults += found == ranges.end() || found->second != n;
    for (const auto& [at, size] : mapped) faults += at >= uintptr_t(p) && at < uintptr_t(p) + n;
    ranges.erase(found);
  }
  bool quiesce() noexcept override {
    ++quiets;
    return !captured;
  }
  bool is_mapped(const void* p, size_t n) const {
    for (uintptr_t at = uintptr_t(p); at < uintptr_t(p) + n;) {
      auto found = mapped.upper_bound(at);
      if (found == mapped.begin()) return false;
      --found;
      if (at >= found->first + found->second) return false;
      at = found->first + found->second;
    }
    return true;
  }

 protected:
  void* do_reserve(size_t) noexcept override {
    ++faults;
    return nullptr;
  }
  void do_release(void*, size_t) noexcept override { ++faults; }
  Piece do_map(void* p, size_t n) noexcept override {
    if (int64_t(n) > room) return 0;
    room -= int64_t(n);
    const auto at = uintptr_t(p);
    faults += n == 0 || n % kGranule != 0 || at % kGranule != 0;
    auto range = ranges.upper_bound(at);
    faults += range == ranges.begin();
    --range;
    faults += at + n > range->first + range->second;
    for (const auto& [other, size] : mapped) faults += at < other + size && other < at + n;
    mapped[at] = n;
    pieces[++last_] = {at, n};
    return last_;
  }
  void do_unmap(void* p, size_t n, Piece piece) noexcept override {
    const auto found = pieces.find(piece);
    faults += found == pieces.end() || found->second != std::pair(uintptr_t(p), n);
    room += int64_t(n);
    pieces.erase(piece);
    mapped.erase(uintptr_t(p));
  }

 private:
  uintptr_t next_ = uintptr_t{1} << 40;
  Piece last_ = 0;
};

CachingPool::Options options(size_t range = size_t{64} << 30) {
  return {.segment_round = kGranule,
          .first_step = kGranule,
          .largest_step = 64 * kMiB,
          .least_rest = 512,
          .cache_cap = ~size_t{0},
          .range = range};
}

char* at(CachingPool& pool, size_t n) { return static_cast<char*>(pool.allocate(n).p); }

}  // namespace

TEST(growing_meets_what_is_free) {
  PretendVirtual backend;
  CachingPool pool(backend, options());
  char* a = at(pool, 3 * kMiB);
  EXPECT(backend.reserved == int64_t(4 * kMiB));
  // One free MiB is left behind a; only what is missing is added to it.
  char* b = at(pool, 2 * kMiB);
  EXPECT(b == a + 3 * kMiB && backend.reserved == int64_t(6 * kMiB));
  pool.free(b);
  // A request that nothing fits takes the free end and as much as it needs.
  char* c = at(pool, 10 * kMiB);
  EXPECT(c == a + 3 * kMiB && backend.reserved == int64_t(14 * kMiB));
  EXPECT(backend.is_mapped(a, 13 * kMiB));
  pool.free(a);
  pool.free(c);
  EXPECT(at(pool, 14 * kMiB) == a && backend.reserved == int64_t(14 * kMiB));
  EXPECT(backend.faults == 0);
}

// What is born late takes the memory of what came before; room made for it lets that come again.
TEST(room_is_made_ahead) {
  for (const bool ahead : {false, true}) {
    PretendVirtual backend;
    CachingPool pool(backend, options());
    const auto iteration = [&] {
      std::vector<void*> work;
      for (size_t n = 1; n < 9; ++n) work.push_back(at(pool, n * kMiB));
      for (void* p : work) pool.free(p);
    };
    iteration();
    if (ahead) pool.make_room(20 * kMiB);
    for (int k = 0; k < 20; ++k) EXPECT(pool.allocate(kMiB, 0, {}, ahead).p != nullptr);
    const int64_t before = backend.reserves;
    iteration();
    EXPECT((backend.reserves == before) == ahead);
  }
  // Those that follow, when the first are gone, find the room that was made for them.
  PretendVirtual again;
  CachingPool pool(again, options());
  pool.free(at(pool, 9 * kMiB));
  for (int round = 0; round < 5; ++round) {
    pool.make_room(6 * kMiB);
    const auto a = pool.allocate(2 * kMiB, 0, {}, true).p,
               b = pool.allocate(4 * kMiB, 0, {}, true).p;
    EXPECT(again.reserved == int64_t(16 * kMiB) && b == static_cast<char*>(a) + 2 * kMiB);
    pool.free(a);
    pool.free(b);
  }
  PretendVirtual backend;
  CachingPool empty(backend, options());
  empty.make_room(kMiB);  // nothing to stand behind
  EXPECT(empty.reserved() == 0);
}

TEST(whole_pieces_are_given_back_from_the_middle) {
  PretendVirtual backend;
  CachingPool pool(backend, options());
  char* a = at(pool, 2 * kMiB + 512);
  char* b = at(pool, 12 * kMiB);
  char* c = at(pool, kMiB);
  EXPECT(backend.is_mapped(a, size_t(c + kMiB - a)));
  pool.free(b);
  const int64_t before = backend.reserved;
  pool.release_cached();
  EXPECT(backend.reserved < before && backend.quiets == 1);
  EXPECT(backend.is_mapped(a, 2 * kMiB + 512) && backend.is_mapped(c, kMiB));
  EXPECT(!backend.is_mapped(b, 12 * kMiB));
  // The hole is filled again, at the same place.
  EXPECT(at(pool, 12 * kMiB) == b && backend.is_mapped(b, 12 * kMiB));
  EXPECT(backend.reserved == before);
  pool.free(a);
  pool.free(b);
  pool.free(c);
  pool.release_cached();
  EXPECT(backend.reserved == 0 && backend.mapped.empty() && pool.reserved() == 0);
  EXPECT(backend.faults == 0);
}

TEST(memory_is_released_before_a_request_fails) {
  PretendVirtual backend;
  backend.room = int64_t(64 * kMiB);
  CachingPool pool(backend, options());
  char *a = at(pool, 30 * kMiB), *b = at(pool, 2 * kMiB), *c = at(pool, 24 * kMiB);
  EXPECT(a && b && c);
  pool.free(a);
  pool.free(c);
  // 60 MiB in one go are possible only with the memory of both; b stays where it is.
  char* d = at(pool, 60 * kMiB);
  EXPECT(d != nullptr && backend.is_mapped(d, 60 * kMiB) && backend.is_mapped(b, 2 * kMiB));
  EXPECT(pool.allocate(8 * kMiB).p == nullptr);
  EXPECT(backend.is_mapped(d, 60 * kMiB) && backend.is_mapped(b, 2 * kMiB));
  pool.free(d);
  EXPECT(at(pool, 8 * kMiB) != nullptr && backend.faults == 0);
}

TEST(nothing_is_taken_away_that_cannot_be_waited_for) {
  PretendVirtual backend;
  CachingPool pool(backend, options());
  char* a = at(pool, 20 * kMiB);
  pool.free(a);
  backend.captured = true;
  pool.release_cached();
  EXPECT(backend.is_mapped(a, 20 * kMiB));
  backend.captured = false;
  pool.release_cached();
  EXPECT(backend.reserved == 0);
}

TEST(a_pool_that_keeps_gives_nothing_back) {
  PretendVirtual backend;
  backend.room = int64_t(32 * kMiB);
  auto o = options();
  o.cache_cap = 0;
  CachingPool pool(backend, o);
  pool.set_keeping(true);
  char* a = at(pool, 20 * kMiB);
  pool.free(a);
  EXPECT(backend.reserved == int64_t(20 * kMiB));
  EXPECT(pool.allocate(40 * kMiB).p == nullptr && backend.is_mapped(a, 20 * kMiB));
  char* b = at(pool, 4 * kMiB);
  EXPECT(b == a);
  pool.set_keeping(false);
  EXPECT(backend.is_mapped(b, 4 * kMiB) && backend.reserved <= int64_t(8 * kMiB));
  pool.free(b);
  EXPECT(backend.reserved == 0 && backend.faults == 0);
}

TEST(ranges_follow_when_one_is_full) {
  PretendVirtual backend;
  {
    CachingPool pool(backend, options(16 * kMiB));
    std::vector<char*> all;
    for (int i = 0; i < 20; ++i) all.push_back(at(pool, 5 * kMiB));
    char* large = at(pool, 40 * kMiB);  // larger than a range
    EXPECT(large != nullptr && backend.is_mapped(large, 40 * kMiB) && backend.ranges.size() > 5);
    for (char* p : all) pool.free(p);
    pool.free(large);
  }
  EXPECT(backend.mapped.empty() && backend.ranges.empty() && backend.faults == 0);
}

// Lengths that change all the time: sequences of random length, as in translation.
TEST(random_lengths_leave_no_gaps) {
  PretendVirtual backend;
  CachingPool pool(backend, options());
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  std::vector<std::pair<char*, size_t>> live;
  size_t used = 0, most = 0;
  int64_t early = 0, calls = 0;
  for (int step = 0; step < 400; ++step) {
    // An iteration: activations of a length of its own, of which a few stay until the next one.
    const size_t length = 1 + below(64);
    for (int layer = 0; layer < 40; ++layer) {
      const size_t n = length * (layer % 3 + 1) * 150'000 + below(512) * 512;
      char* p = at(pool, n);
      EXPECT(p != nullptr && backend.is_mapped(p, n));
      live.emplace_back(p, n);
      used += n;
      most = std::max(most, used);
    }
    std::shuffle(live.begin(), live.end(), random);
    while (live.size() > 10) {
      pool.free(live.back().first);
      used -= live.back().second;
      live.pop_back();
    }
    if (step == 100) early = backend.reserved, calls = backend.reserves;
  }
  EXPECT(size_t(backend.peak_reserved) < most + most / 4);
  EXPECT(backend.reserved <= early + early / 5);
  EXPECT(backend.reserves <= calls + calls / 4);
  for (const auto& [p, n] : live) pool.free(p);
  pool.release_cached();
  EXPECT(backend.reserved == 0 && backend.faults == 0);
}

// Everything at once, against a list of what is live.
TEST(blocks_never_overlap_whatever_happens) {
  PretendVirtual backend;
  backend.room = int64_t(200 * kMiB);
  CachingPool pool(backend, options(96 * kMiB));
  std::mt19937 random(2);
  std::map<char*, size_t> live;
  for (int step = 0; step < 20000; ++step) {
    const auto dice = random() % 100;
    if (dice < 55) {
      const size_t n = 1 + random() % (dice < 45 ? 300'000 : 24 * kMiB);
      char* p = at(pool, n);
      if (p == nullptr) continue;
      EXPECT(backend.is_mapped(p, n));
      const auto next = live.lower_bound(p);
      EXPECT(next == live.end() || p + n <= next->first);
      EXPECT(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= p);
      live[p] = n;
    } else if (dice < 99 && !live.empty()) {
      auto victim = std::next(live.begin(), long(random() % live.size()));
      pool.free(victim->first);
      live.erase(victim);
    } else if (dice == 99) {
      pool.release_cached();
    }
  }
  size_t blocks = 0, bytes = 0;
  for (const auto& segment : pool.snapshot()) {
    bytes += segment.size;
    EXPECT(segment.expandable && backend.is_mapped(segment.p, segment.size));
    for (const auto& block : segment.blocks) {
      if (block.state != CachingPool::State::Live) continue;
      ++blocks;
      EXPECT(live.at(const_cast<char*>(block.p)) == block.requested);
    }
  }
  EXPECT(blocks == live.size() && int64_t(bytes) == backend.reserved && bytes == pool.reserved());
  for (const auto& [p, n] : live) {
    size_t behind = 0;
    for (const auto& piece : pool.pieces_behind(p, n)) behind += piece.size;
    EXPECT(behind >= n);
    pool.free(p);
  }
  pool.release_cached();
  EXPECT(backend.reserved == 0 && backend.faults == 0);
}

TEST(threads_share_a_pool) {
  PretendVirtual backend;
  backend.room = int64_t(400 * kMiB);
  CachingPool pool(backend, options());
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&pool, seed] {
      std::mt19937 random(seed);
      std::vector<char*> mine;
      for (int step = 0; step < 3000; ++step) {
        if (random() % 2 || mine.empty()) {
          if (char* p = at(pool, 1 + random() % (3 * kMiB))) mine.push_back(p);
        } else {
          std::swap(mine[random() % mine.size()], mine.back());
          pool.free(mine.back());
          mine.pop_back();
        }
        if (step % 500 == 0) pool.release_cached();
        if (step % 700 == 0) pool.snapshot();
      }
      for (char* p : mine) pool.free(p);
    });
  }
  for (std::thread& t : threads) t.join();
  pool.release_cached();
  EXPECT(backend.reserved == 0 && pool.reserved() == 0 && backend.faults == 0);
}
