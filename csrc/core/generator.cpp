#include "core/generator.h"

#include <pthread.h>

#include <cstring>
#include <random>

#include "core/error.h"
#include "core/thread_generator.h"

namespace rush {

namespace {

constexpr char kMagic[] = "RUSHRNG1";

void put_word(std::byte* out, uint64_t word) {
  for (int i = 0; i < 8; ++i) out[i] = std::byte(word >> (8 * i));
}

uint64_t get_word(const std::byte* in) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= uint64_t(in[i]) << (8 * i);
  return word;
}

// 53 bits, as PyTorch's: the seed then survives a trip through a Python float or JSON.
uint64_t entropy() {
  std::random_device device;
  return ((uint64_t(device()) << 32) | device()) & ((uint64_t{1} << 53) - 1);
}

}  // namespace

void Generator::manual_seed(uint64_t seed) {
  seed_.store(seed, std::memory_order_relaxed);
  call_.store(0, std::memory_order_relaxed);
}

uint64_t Generator::seed() {
  const uint64_t fresh = entropy();
  manual_seed(fresh);
  return fresh;
}

Generator::State Generator::get_state() const {
  State state;
  std::memcpy(state.data(), kMagic, 8);
  put_word(state.data() + 8, initial_seed());
  put_word(state.data() + 16, offset());
  return state;
}

void Generator::set_state(std::span<const std::byte> state) {
  check_argument(state.size() == kStateBytes, "set_state", "a generator's state has ", kStateBytes,
                 " bytes, got ", state.size());
  check_argument(std::memcmp(state.data(), kMagic, 8) == 0, "set_state",
                 "these bytes are not the state of a Rushlight generator");
  seed_.store(get_word(state.data() + 8), std::memory_order_relaxed);
  call_.store(get_word(state.data() + 16), std::memory_order_relaxed);
}

std::shared_ptr<Generator> Generator::clone() const {
  auto copy = std::make_shared<Generator>(initial_seed());
  copy->set_offset(offset());
  return copy;
}

std::shared_ptr<Generator> default_generator_pointer() {
  // Never destroyed: ops may still run while static objects are torn down.
  static const auto& generator = *new std::shared_ptr<Generator>(new Generator(entropy()));
  return generator;
}

namespace {

std::atomic<bool> g_threads_differ{false};  // once any thread has had a generator of its own

pthread_key_t thread_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, nullptr);
    return made;
  }();
  return key;
}

}  // namespace

void set_thread_generator(Generator* own) {
  pthread_setspecific(thread_key(), own);
  g_threads_differ.store(true, std::memory_order_relaxed);
}

Generator& default_generator() {
  static Generator& generator = *default_generator_pointer();
  if (g_threads_differ.load(std::memory_order_relaxed)) [[unlikely]]
    if (void* own = pthread_getspecific(thread_key())) return *static_cast<Generator*>(own);
  return generator;
}

}  // namespace rush
