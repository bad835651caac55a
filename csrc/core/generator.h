// generator.h: a source of random calls. It holds no numbers, only (seed, call number): an op
// reserves one call and computes element values from functors/philox.h, on whatever device.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/export.h"

namespace rush {

// What an op needs to draw its numbers.
struct RandomCall {
  uint64_t seed;
  uint64_t call;
};

// Thread safe without a lock, so that a fork cannot find it locked. Reseeding while another thread
// draws may pair the old seed with a new call number: random all the same, and never repeatable
// whatever we did.
class RUSH_API Generator {
 public:
  // The state as bytes: "RUSHRNG1", then seed and call number, each 8 bytes little endian.
  static constexpr size_t kStateBytes = 24;
  using State = std::array<std::byte, kStateBytes>;
  // PyTorch's default, so that an unseeded Generator() is repeatable and says the familiar seed.
  static constexpr uint64_t kDefaultSeed = 67280421310721;

  explicit Generator(uint64_t seed = kDefaultSeed) : seed_(seed), call_(0) {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Reserves one call, or `count` of them: no other caller ever gets the same number.
  uint64_t next_call(uint64_t count = 1) {
    return call_.fetch_add(count, std::memory_order_relaxed);
  }
  RandomCall next(uint64_t count = 1) { return {initial_seed(), next_call(count)}; }

  void manual_seed(uint64_t seed);
  uint64_t seed();  // reseeds from the system's entropy and returns the seed
  uint64_t initial_seed() const { return seed_.load(std::memory_order_relaxed); }
  uint64_t offset() const { return call_.load(std::memory_order_relaxed); }
  void set_offset(uint64_t call) { call_.store(call, std::memory_order_relaxed); }

  State get_state() const;
  void set_state(std::span<const std::byte> state);
  std::shared_ptr<Generator> clone() const;

 private:
  std::atomic<uint64_t> seed_;
  std::atomic<uint64_t> call_;
};

// The one generator of all devices, seeded from the system's entropy at first use.
RUSH_API Generator& default_generator();
RUSH_API std::shared_ptr<Generator> default_generator_pointer();

}  // namespace rush
