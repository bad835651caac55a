// vector_bytes.h: the widest vectors of the instruction set that a kernel file is compiled for.
#pragma once

namespace rush::RUSH_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

}  // namespace rush::RUSH_ISA
