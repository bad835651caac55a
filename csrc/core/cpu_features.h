// cpu_features.h: what this processor can really do, asked once.
#pragma once

namespace rush {

// Kernels are compiled once a level and chosen at run time. Avx2 means AVX2, FMA, F16C and BMI1/2;
// Avx512 means that and AVX-512 F, DQ, BW, VL, CD; both only where the system saves the registers.
enum class IsaLevel : unsigned char { Baseline, Avx2, Avx512 };

// The level in use: the processor's, lowered by RUSHLIGHT_ISA=baseline|avx2|avx512 or by
// set_isa_limit. The first call settles it, since kernels are picked then.
IsaLevel isa_level();
// Lowers the level; an error once isa_level() has settled on a higher one.
void set_isa_limit(IsaLevel limit);
const char* isa_name(IsaLevel level);

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
