// test_core_leaf.cpp: allocator, threads, Philox, generator, CPU features. No framework: CHECK
// prints and the program exits non-zero. Run it under -fsanitize=address,undefined and =thread as
// well.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/allocator.h"
#include "core/caching_pool.h"
#include "core/cpu_features.h"
#include "core/error.h"
#include "core/generator.h"
#include "core/interrupt.h"
#include "core/threads.h"
#include "functors/philox.h"

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                       \
    }                                                                      \
  } while (0)

using namespace rush;

namespace {

constexpr bool kCaches = !detail::kBypassCache;

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  CHECK(!"an Error was expected");
  std::abort();
}

// Runs f in a forked child, which must come back within seconds with its checks passed.
template <class F>
void in_child(F&& f) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20);
    f();
    std::_Exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct Held {
  void* p;
  size_t n;
};

// Fills a block with a pattern of its own, so that two overlapping blocks are found out.
Held hold(size_t n, unsigned tag) {
  void* p = cpu_allocate(n);
  CHECK(p != nullptr && reinterpret_cast<uintptr_t>(p) % 64 == 0);
  std::memset(p, int(tag & 0xff), std::min<size_t>(n, 300));
  if (n > 0) static_cast<unsigned char*>(p)[n - 1] = (unsigned char)tag;
  return {p, n};
}

void check_and_free(const Held& held, unsigned tag) {
  const auto* bytes = static_cast<unsigned char*>(held.p);
  for (size_t i = 0; i < std::min<size_t>(held.n, 300); ++i) CHECK(bytes[i] == (tag & 0xff));
  if (held.n > 0) CHECK(bytes[held.n - 1] == (tag & 0xff));
  cpu_free(held.p, held.n);
}

void test_size_classes() {
  for (size_t n = 0; n < detail::kSmallLimit; ++n) {
    const size_t size = detail::class_size(detail::kClassOf[(n + 63) / 64]);
    CHECK(size >= n && size % 64 == 0 && (n <= 1024 ? size < n + 65 : size < n + n / 4 + 64));
  }
}

void test_alignment_and_stats() {
  const MemoryStats before = cpu_memory_stats();
  std::vector<Held> blocks;
  for (size_t n : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1000},
                   size_t{4096}, size_t{65535}, size_t{65536}, size_t{65537}, size_t{1} << 20,
                   (size_t{1} << 20) + 1, size_t{5} << 20, size_t{100} << 20})
    blocks.push_back(hold(n, unsigned(n * 7 + 1)));
  const MemoryStats held = cpu_memory_stats();
  CHECK(held.live_blocks == before.live_blocks + int64_t(blocks.size()));
  CHECK(held.allocated >= before.allocated + (int64_t{107} << 20));
  CHECK(held.peak_allocated >= held.allocated);
  if (kCaches) CHECK(held.reserved >= held.allocated);
  for (const Held& b : blocks) check_and_free(b, unsigned(b.n * 7 + 1));
  const MemoryStats after = cpu_memory_stats();
  CHECK(after.allocated == before.allocated && after.live_blocks == before.live_blocks);
  CHECK(after.frees == before.frees + int64_t(blocks.size()));
}

void test_peak_is_exact_for_one_thread() {
  reset_peak_memory_stats();
  const int64_t base = cpu_memory_stats().allocated;
  CHECK(cpu_memory_stats().peak_allocated == base);
  void* a = cpu_allocate(1024);
  void* b = cpu_allocate(1 << 20);
  void* c = cpu_allocate(2048);
  cpu_free(b, 1 << 20);
  cpu_free(c, 2048);
  cpu_free(a, 1024);
  void* d = cpu_allocate(64);
  cpu_free(d, 64);
  CHECK(cpu_memory_stats().peak_allocated == base + 1024 + (1 << 20) + 2048);
  CHECK(cpu_memory_stats().allocated == base);
}

void test_reuse() {
  if (!kCaches) return;
  for (size_t n : {size_t{16}, size_t{5000}, size_t{200000}, size_t{40} << 20}) {
    void* first = cpu_allocate(n);
    cpu_free(first, n);
    const MemoryStats before = cpu_memory_stats();
    void* second = cpu_allocate(n);
    const MemoryStats after = cpu_memory_stats();
    CHECK(first == second && after.cache_hits == before.cache_hits + 1);
    CHECK(after.system_reserves == before.system_reserves);
    cpu_free(second, n);
  }
  empty_cache();
  const MemoryStats emptied = cpu_memory_stats();
  CHECK(emptied.system_releases > 0 && emptied.reserved < int64_t{40} << 20);
}

// Blocks of all sizes, held for random times; tags find overlaps.
void churn(unsigned seed, int rounds) {
  std::mt19937 random(seed);
  std::vector<std::pair<Held, unsigned>> live;
  for (int i = 0; i < rounds; ++i) {
    if (live.size() < 200 && (live.empty() || random() % 2)) {
      const int kind = int(random() % 20);
      const size_t n = kind < 14   ? random() % 3000
                       : kind < 18 ? random() % 70000
                       : kind < 19 ? random() % (2u << 20)
                                   : random() % (12u << 20);
      const unsigned tag = random();
      live.emplace_back(hold(n, tag), tag);
    } else {
      std::swap(live[random() % live.size()], live.back());
      check_and_free(live.back().first, live.back().second);
      live.pop_back();
    }
  }
  for (auto& [held, tag] : live) check_and_free(held, tag);
}

void test_threads_allocate() {
  const MemoryStats before = cpu_memory_stats();
  for (int wave = 0; wave < 2; ++wave) {  // the second wave takes over caches of ended threads
    std::vector<std::thread> team;
    for (unsigned id = 0; id < 4; ++id)
      team.emplace_back([id] { churn(id, kCaches ? 20000 : 2000); });
    for (std::thread& member : team) member.join();
  }
  const MemoryStats after = cpu_memory_stats();
  CHECK(after.allocated == before.allocated && after.live_blocks == before.live_blocks);
  CHECK(after.allocations - before.allocations == after.frees - before.frees);
}

// One thread allocates, another frees: memory must come back to the first, not pile up.
void test_freed_elsewhere() {
  const MemoryStats before = cpu_memory_stats();
  constexpr size_t kBytes = 1000;
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks(2000);
    for (void*& p : blocks) p = cpu_allocate(kBytes);
    std::thread([&] {
      for (void* p : blocks) cpu_free(p, kBytes);
    }).join();
  }
  const MemoryStats after = cpu_memory_stats();
  CHECK(after.allocated == before.allocated);
  CHECK(after.reserved <= before.reserved + (8 << 20));
}

// A thread-local tensor dies after the thread's cache: its destructor was registered first.
void test_freed_while_thread_ends() {
  struct Owner {
    std::vector<Held> blocks;
    ~Owner() {
      for (const Held& b : blocks) check_and_free(b, 9);
      check_and_free(hold(77, 5), 5);
    }
  };
  const MemoryStats before = cpu_memory_stats();
  std::thread([] {
    thread_local Owner owner;
    owner.blocks.push_back(hold(500, 9));
    owner.blocks.push_back(hold(500000, 9));
  }).join();
  const MemoryStats after = cpu_memory_stats();
  CHECK(after.allocated == before.allocated && after.live_blocks == before.live_blocks);
}

void test_small_memory_is_given_back() {
  if (!kCaches) return;
  empty_cache();
  const int64_t before = cpu_memory_stats().reserved;
  std::vector<void*> blocks(100000);
  for (void*& p : blocks) p = cpu_allocate(640);
  const int64_t full = cpu_memory_stats().reserved;
  CHECK(full >= before + 60'000'000);
  for (size_t i = 1; i < blocks.size(); ++i) cpu_free(blocks[i], 640);
  empty_cache();
  CHECK(cpu_memory_stats().reserved <= before + (4 << 20));
  cpu_free(blocks[0], 640);
}

void test_failures() {
  const MemoryStats before = cpu_memory_stats();
  for (size_t n : {size_t{1} << 62, ~size_t{0}, size_t{1} << 60}) {
    const Error e = error_of([&] { cpu_allocate(n); });
    CHECK(e.kind() == ErrorKind::OutOfMemory);
    CHECK(e.message().find("tried to allocate " + std::to_string(n) + " bytes") !=
          std::string::npos);
  }
  for (size_t n : {size_t{8}, size_t{100000}}) {
    fail_nth_allocation(3);
    void* a = cpu_allocate(n);
    void* b = cpu_allocate(n);
    CHECK(error_of([&] { cpu_allocate(n); }).kind() == ErrorKind::OutOfMemory);
    void* c = cpu_allocate(n);  // only the third fails
    fail_nth_allocation(1);
    fail_nth_allocation(0);
    void* d = cpu_allocate(n);
    for (void* p : {a, b, c, d}) cpu_free(p, n);
  }
  CHECK(error_of([] { fail_nth_allocation(-1); }).kind() == ErrorKind::Argument);
  CHECK(cpu_memory_stats().allocated == before.allocated);
}

void test_caching_switch() {
  const MemoryStats before = cpu_memory_stats();
  Held cached_small = hold(100, 1), cached_large = hold(3 << 20, 2);
  set_caching_enabled(false);
  CHECK(!caching_enabled());
  Held small = hold(100, 3), large = hold(3 << 20, 4);
  check_and_free(cached_small, 1);
  check_and_free(cached_large, 2);
  set_caching_enabled(true);
  CHECK(caching_enabled());
  check_and_free(small, 3);
  check_and_free(large, 4);
  CHECK(!detail::g_leave_fast_path.load());
  CHECK(cpu_memory_stats().allocated == before.allocated);
}

void test_fork_with_busy_threads() {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load()) churn(3, 200);
  });
  for (int i = 0; i < 5; ++i) {
    in_child([] {
      churn(11, 500);
      empty_cache();
      churn(12, 500);
    });
  }
  stop = true;
  busy.join();
}

// A backend whose memory is only numbers: the pool must never touch it.
class PretendBackend final : public MemoryBackend {
 public:
  int64_t room = int64_t{64} << 20;
  uint64_t passed = 0;
  bool done(Event event) noexcept override { return event <= passed; }
  void wait(Event event) noexcept override { passed = std::max(passed, event); }

 protected:
  void* do_reserve(size_t n) noexcept override {
    if (int64_t(n) > room) return nullptr;
    room -= int64_t(n);
    next_ += size_t{1} << 30;
    return reinterpret_cast<void*>(next_);
  }
  void do_release(void*, size_t n) noexcept override { room += int64_t(n); }

 private:
  uintptr_t next_ = uintptr_t{1} << 40;
};

void test_pool() {
  constexpr size_t kMiB = 1 << 20;
  PretendBackend backend;
  CachingPool pool(backend, {.segment_round = 2 * kMiB,
                             .first_step = 16 * kMiB,
                             .largest_step = 16 * kMiB,
                             .least_rest = 512,
                             .cache_cap = 64 * kMiB});
  auto at = [&](size_t n) { return static_cast<char*>(pool.allocate(n).p); };
  char *a = at(kMiB), *b = at(3 * kMiB), *c = at(kMiB);
  CHECK(b == a + kMiB && c == b + 3 * kMiB && backend.reserves == 1);  // split
  pool.free(a);
  CHECK(at(kMiB) == a);  // best fit: the hole, not the rest
  pool.free(b);
  pool.free(a);
  CHECK(at(4 * kMiB) == a);  // merged
  pool.free_after(c, 7);
  CHECK(at(kMiB) == c + kMiB);  // c is still the device's
  backend.passed = 7;
  CHECK(at(kMiB) == c);
  pool.free(c);
  pool.free(c + kMiB);
  pool.free(a);
  CHECK(backend.reserved == int64_t(16 * kMiB));
  CHECK(at(60 * kMiB) != nullptr && backend.releases == 1);  // released and tried again
  CHECK(at(60 * kMiB) == nullptr);
  pool.set_cache_cap(0);
}

void test_parallel_for() {
  set_num_threads(4);
  CHECK(num_threads() == 4);
  for (int64_t n : {0, 1, 2, 3, 7, 63, 1000, 4097, 100003}) {
    std::vector<std::atomic<int>> seen(size_t(n) + 1);
    std::atomic<int> calls{0};
    parallel_for(n, 1, [&](int64_t begin, int64_t end) {
      ++calls;
      CHECK(begin < end);
      for (int64_t i = begin; i < end; ++i) ++seen[size_t(i)];
    });
    for (int64_t i = 0; i < n; ++i) CHECK(seen[size_t(i)] == 1);
    CHECK(calls <= std::max<int64_t>(1, std::min<int64_t>(n, 4)));
  }
  int serial_calls = 0;
  parallel_for(100, 100, [&](int64_t, int64_t) {
    ++serial_calls;
    CHECK(!in_parallel_region());
  });
  CHECK(serial_calls == 1);

  std::atomic<int> inner{0};
  parallel_for(8, 1, [&](int64_t, int64_t) {
    CHECK(in_parallel_region());
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
      CHECK(begin == 0 && end == 1000);  // nested: serial
      ++inner;
    });
  });
  CHECK(inner >= 1 && inner <= 4 && !in_parallel_region());

  const auto throwing = [](int64_t, int64_t end) {
    if (end == 1000) fail(ErrorKind::Value, "body", "the last piece");
  };
  CHECK(error_of([&] { parallel_for(1000, 1, throwing); }).message() == "body: the last piece");
  CHECK(!in_parallel_region());
  CHECK(error_of([] { set_num_threads(0); }).kind() == ErrorKind::Argument);

  // With somebody to ask: in steps that cover everything once, and left early when told to.
  static std::atomic<bool> wanted{false};
  set_interrupt_poll([] {
    if (wanted) fail(ErrorKind::Runtime, "poll", "interrupted");
  });
  set_interrupt_thread(uintptr_t(pthread_self()));
  for (int threads : {1, 4}) {
    set_num_threads(threads);
    wanted = false;
    std::vector<std::atomic<int>> seen(4097);
    parallel_for(4097, 1, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) ++seen[size_t(i)];
    });
    for (const auto& count : seen) CHECK(count == 1);
    wanted = true;
    std::atomic<int> done{0};
    const auto slow = [&](int64_t i, int64_t end) {
      for (; i < end; ++i, ++done) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    };
    CHECK(error_of([&] { parallel_for(2000, 1, slow); }).message() == "poll: interrupted");
    CHECK(done < 2000 && !in_parallel_region());
    const HoldInterrupts hold;
    parallel_for(64, 1, slow);  // not now
  }
  set_interrupt_poll(nullptr);
  set_interrupt_thread(0);
  set_num_threads(4);
  CHECK(error_of([] { set_num_interop_threads(-1); }).kind() == ErrorKind::Argument);
  set_num_interop_threads(3);
  CHECK(num_interop_threads() == 3);
}

void test_parallel_after_fork() {
  parallel_for(1000, 1, [](int64_t, int64_t) {});  // the pool exists in the parent
  in_child([] {
    CHECK(num_threads() == 1);
    int calls = 0;
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
      CHECK(begin == 0 && end == 1000);
      ++calls;
    });
    CHECK(calls == 1);
  });
}

void test_philox() {
  struct Known {
    Philox4 counter;
    unsigned key[2];
    Philox4 result;
  };
  const Known known[] = {
      // the vectors published with Random123
      {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{~0u, ~0u, ~0u, ~0u}}, {~0u, ~0u}, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {0xa4093822, 0x299f31d0},
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Known& k : known) {
    const Philox4 got = philox_raw(k.counter, k.key[0], k.key[1]);
    CHECK(std::memcmp(&got, &k.result, sizeof got) == 0);
  }
  const Philox4 named = philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88);
  CHECK(std::memcmp(&named, &known[2].result, sizeof named) == 0);

  CHECK(uniform_float(0) == 0.0f && uniform_float(~0u) < 1.0f);
  CHECK(uniform_double(0) == 0.0 && uniform_double(~u64{0}) < 1.0);
  int counts[6] = {};
  double sum = 0;
  for (u64 i = 0; i < 60000; ++i) {
    const Philox4 block = philox(1, 2, i);
    ++counts[uniform_below(6, philox_pair(block, 0))];
    sum += uniform_float(block.v[2]);
    const u64 a = philox_pair(block, 0), b = philox_pair(block, 1);
    CHECK(philox_detail::multiply_high(a, b) == u64((unsigned __int128)a * b >> 64));
    CHECK(uniform_below(u64{3} << 62, block) < u64{3} << 62);
    CHECK(uniform_below(0, block) == b && uniform_below(1, block) == 0);
  }
  for (int count : counts) CHECK(std::abs(count - 10000) < 500);
  CHECK(std::abs(sum / 60000 - 0.5) < 0.01);
}

void test_generator() {
  Generator g;
  CHECK(g.initial_seed() == Generator::kDefaultSeed && g.next_call() == 0 && g.next_call(5) == 1);
  CHECK(g.next_call() == 6);
  g.manual_seed(42);
  CHECK(g.next().seed == 42 && g.next().call == 1);
  const Generator::State state = g.get_state();
  CHECK(std::memcmp(state.data(), "RUSHRNG1", 8) == 0 && state[8] == std::byte{42});
  CHECK(g.next_call() == 2);
  g.manual_seed(7);
  g.set_state(state);
  CHECK(g.initial_seed() == 42 && g.next_call() == 2 && g.clone()->next_call() == 3);
  Generator::State wrong = state;
  wrong[0] = std::byte{0};
  CHECK(error_of([&] { g.set_state(wrong); }).kind() == ErrorKind::Argument);
  CHECK(error_of([&] { g.set_state(std::span(state).first(8)); }).kind() == ErrorKind::Argument);
  const uint64_t fresh = g.seed();
  CHECK(g.initial_seed() == fresh && g.next_call() == 0);
  CHECK(&default_generator() == default_generator_pointer().get());

  std::vector<std::atomic<int>> taken(4000);
  std::vector<std::thread> team;
  g.manual_seed(1);
  for (int t = 0; t < 4; ++t)
    team.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) ++taken[g.next_call()];
    });
  for (std::thread& member : team) member.join();
  for (const auto& count : taken) CHECK(count == 1);
}

void test_cpu_features() {
  in_child([] {
    set_isa_level(IsaLevel::Baseline);
    CHECK(isa_level() == IsaLevel::Baseline && !has_avx512_bf16() && !amx_usable());
    set_isa_level(processor_isa_level());
    CHECK(isa_level() == processor_isa_level());
  });
  in_child([] {
    setenv("RUSHLIGHT_ISA", "sse9", 1);
    CHECK(error_of([] { isa_level(); }).kind() == ErrorKind::Argument);
    setenv("RUSHLIGHT_ISA", "baseline", 1);
    CHECK(isa_level() == IsaLevel::Baseline);
  });
  const IsaLevel level = isa_level();
#if defined(__x86_64__)
  if (level == IsaLevel::Avx512) CHECK(__builtin_cpu_supports("avx512f"));
  if (level == IsaLevel::Avx2) CHECK(__builtin_cpu_supports("avx2"));
#endif
  if (processor_isa_level() < IsaLevel::Avx512)
    CHECK(error_of([] { set_isa_level(IsaLevel::Avx512); }).kind() == ErrorKind::Argument);
  const PerIsa<int> numbers([](IsaLevel l) { return int(l); });
  for (int l = 0; l <= int(processor_isa_level()); ++l) {
    set_isa_level(IsaLevel(l));
    CHECK(numbers.now() == l);
  }
  set_isa_level(level);
  CHECK(physical_cores() >= 1 && physical_cores() <= int(sysconf(_SC_NPROCESSORS_CONF)));
  std::printf("isa %s, avx512_bf16 %d, amx %d, %d cores\n", isa_name(level), has_avx512_bf16(),
              amx_usable(), physical_cores());
  CHECK(detail::runs_without_trap([] {}));
  CHECK(!detail::runs_without_trap([] { raise(SIGILL); }));
#if defined(__x86_64__)
  for (int i = 0; i < 2; ++i) CHECK(!detail::runs_without_trap([] { __asm__ volatile("ud2"); }));
#endif
  CHECK(detail::runs_without_trap([] {}));
}

}  // namespace

int main() {
  test_cpu_features();
  test_size_classes();
  test_alignment_and_stats();
  test_peak_is_exact_for_one_thread();
  test_reuse();
  churn(5, 20000);
  test_threads_allocate();
  test_freed_elsewhere();
  test_freed_while_thread_ends();
  test_small_memory_is_given_back();
  test_failures();
  test_caching_switch();
  test_fork_with_busy_threads();
  test_pool();
  test_parallel_for();
  test_parallel_after_fork();
  test_philox();
  test_generator();
  std::puts("core_leaf_test: all passed");
}
