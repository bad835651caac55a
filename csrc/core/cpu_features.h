// cpu_features.h: what this processor can really do, asked once.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/export.h"

namespace rush {

// Kernels are compiled once per level and chosen at run time. Avx2 means AVX2, FMA, F16C and BMI1/2;
// Avx512 means that and AVX-512 F, DQ, BW, VL, CD; both only where the system saves the registers.
enum class IsaLevel : unsigned char { Baseline, Avx2, Avx512 };

namespace detail {
RUSH_API extern constinit std::atomic<int> g_isa_level;  // -1: not asked for yet
RUSH_API IsaLevel choose_isa_level();
}  // namespace detail

// The level in use: the processor's, unless RUSHLIGHT_ISA=baseline|avx2|avx512 or set_isa_level
// says less. It may change between two calls, so kernels are looked up anew in each (PerIsa).
inline IsaLevel isa_level() {
  const int level = detail::g_isa_level.load(std::memory_order_relaxed);
  return level >= 0 ? IsaLevel(level) : detail::choose_isa_level();
}
// An error for more than the processor has. oneDNN keeps the level that it was opened with.
RUSH_API void set_isa_level(IsaLevel level);
IsaLevel processor_isa_level();
RUSH_API const char* isa_name(IsaLevel level);

// What make(level) gives for each level that the processor has: a table of kernels, mostly. Tables
// of higher levels are not even made, for making one may execute such instructions.
template <class T>
class PerIsa {
 public:
  template <class Make>
  explicit PerIsa(Make make) {
    for (int level = 0; level <= int(IsaLevel::Avx512); ++level)
      made_[level] = make(std::min(IsaLevel(level), processor_isa_level()));
  }
  const T& now() const { return made_[int(isa_level())]; }

 private:
  T made_[int(IsaLevel::Avx512) + 1];
};

// AVX-512's bfloat16 instructions; false whenever the level is below Avx512.
bool has_avx512_bf16();

// AMX tiles with bfloat16, proven by executing them: some virtual machines advertise AMX, grant it
// and trap. Also false whenever the level is below Avx512.
bool amx_usable();

// Cores among the processors this process may run on, hyper-threads counted once; at least 1.
int physical_cores();

namespace detail {

// Runs `code` and says whether it came back without SIGILL, SIGSEGV or SIGBUS. `code` must own
// nothing, for a trap jumps out of it.
bool runs_without_trap(void (*code)());

}  // namespace detail

}  // namespace rush
