// Chains of cheap steps; see chain_tables.h. A few vectors at a time go through all steps, so that
// what it takes to find out which step comes next is little beside the work.
#include <cstring>

#include "cpu/kernels/chain_tables.h"
#include "cpu/kernels/vector_bytes.h"

namespace rush::RUSH_ISA {

namespace {

// Vectors at a time: as many as leave registers for operands.
constexpr int kAtATime = kVectorBytes == 64 ? 16 : 8;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

// Sums and products whose first operand is the first for the processor, too: its NaN is the result.
// The compiler would take them in either order.
#if defined(__AVX__)
#define RUSH_ASM(name, x86, arm) asm("v" name x86 " %2, %1, %0" : "=v"(out) : "v"(a), "vm"(b))
#elif defined(__SSE2__)
#define RUSH_ASM(name, x86, arm) asm(name x86 " %2, %0" : "=x"(out) : "0"(a), "x"(b))
#elif defined(__aarch64__)
#define RUSH_ASM(name, x86, arm) asm("f" name arm : "=w"(out) : "w"(a), "w"(b))
#endif
#define RUSH_IN_ORDER(function, name)               \
  template <class T, class V>                       \
  inline V function(V a, V b) {                     \
    constexpr bool vectors = sizeof(V) > sizeof(T); \
    V out;                                          \
    if constexpr (sizeof(T) == 4 && vectors)        \
      RUSH_ASM(name, "ps", " %0.4s, %1.4s, %2.4s"); \
    else if constexpr (sizeof(T) == 4)              \
      RUSH_ASM(name, "ss", " %s0, %s1, %s2");       \
    else if constexpr (vectors)                     \
      RUSH_ASM(name, "pd", " %0.2d, %1.2d, %2.2d"); \
    else                                            \
      RUSH_ASM(name, "sd", " %d0, %d1, %d2");       \
    return out;                                     \
  }
#ifdef RUSH_ASM
RUSH_IN_ORDER(sum, "add")
RUSH_IN_ORDER(product, "mul")
#else
template <class T, class V>
inline V sum(V a, V b) {
  return a + b;
}
template <class T, class V>
inline V product(V a, V b) {
  return a * b;
}
#endif
template <class T, class V>
inline V difference(V a, V b) {
  return a - b;
}
template <class T, class V>
inline V quotient(V a, V b) {
  return a / b;
}

template <class V, class T>
inline V all(T number) {
  return number - V{};  // not 0 + number, which -0 would not survive
}

// Elements [begin, end) are whole rounds of Count vectors (or, where V is T, numbers).
template <class T, class V, int Count>
void run_rounds(char* const* at, const ChainStep* steps, size_t count, int64_t begin, int64_t end) {
  constexpr int64_t round = int64_t(Count * sizeof(V) / sizeof(T));
  for (; begin + round <= end; begin += round) {
    V value[Count];
    const char* const begins = at[steps->at] + begin * int64_t(sizeof(T));
#pragma GCC unroll 16
    for (size_t k = 0; k < Count; ++k) std::memcpy(&value[k], begins + k * sizeof(V), sizeof(V));
    const auto each = [&](auto f) {
#pragma GCC unroll 16
      for (int k = 0; k < Count; ++k) value[k] = f(value[k], k);
    };
    for (const ChainStep *step = steps + 1, *const last = steps + count; step != last; ++step) {
      char* const memory = at[step->at];
      char* const block = memory + begin * int64_t(sizeof(T));
      const auto load = [&](int k) {
        V v;
        std::memcpy(&v, block + size_t(k) * sizeof(V), sizeof(V));
        return v;
      };
      const auto number = [&] {
        T n;
        std::memcpy(&n, memory, sizeof(T));
        return n;
      };
      switch (step->op) {
        case ChainOp::Load:
          break;
        case ChainOp::Store:
#pragma GCC unroll 16
          for (int k = 0; k < Count; ++k)
            std::memcpy(block + size_t(k) * sizeof(V), &value[k], sizeof(V));
          break;
        case ChainOp::Neg:
          each([](V v, int) { return -v; });
          break;
        case ChainOp::Square:
          each([](V v, int) { return v * v; });
          break;
        case ChainOp::Relu:
          each([](V v, int) { return v < T(0) ? V{} : v; });
          break;
        case ChainOp::Masked:
          each([&, t = T(*step->threshold)](V v, int k) { return load(k) <= t ? V{} : v; });
          break;
#define RUSH_FOUR(name, function)                                         \
  case ChainOp::name:                                                     \
    each([&](V v, int k) { return function<T>(v, load(k)); });            \
    break;                                                                \
  case ChainOp::name##To:                                                 \
    each([&](V v, int k) { return function<T>(load(k), v); });            \
    break;                                                                \
  case ChainOp::name##N:                                                  \
    each([n = all<V>(number())](V v, int) { return function<T>(v, n); }); \
    break;                                                                \
  case ChainOp::name##ToN:                                                \
    each([n = all<V>(number())](V v, int) { return function<T>(n, v); }); \
    break;
          RUSH_FOUR(Add, sum)
          RUSH_FOUR(Sub, difference)
          RUSH_FOUR(Mul, product)
          RUSH_FOUR(Div, quotient)
#undef RUSH_FOUR
      }
    }
  }
}

template <class T>
void run_chain(char* const* at, const ChainStep* steps, size_t count, int64_t n) {
  using V = typename VectorOf<T>::type;
  constexpr int64_t lanes = int64_t(sizeof(V) / sizeof(T));
  const int64_t whole = n / (kAtATime * lanes) * (kAtATime * lanes), vectors = n / lanes * lanes;
  run_rounds<T, V, kAtATime>(at, steps, count, 0, whole);
  run_rounds<T, V, 1>(at, steps, count, whole, vectors);
  run_rounds<T, T, 1>(at, steps, count, vectors, n);
}

}  // namespace
}  // namespace rush::RUSH_ISA

namespace rush {

template <>
ChainFn chain_fn<Isa::RUSH_ISA, float>() {
  return RUSH_ISA::run_chain<float>;
}
template <>
ChainFn chain_fn<Isa::RUSH_ISA, double>() {
  return RUSH_ISA::run_chain<double>;
}

}  // namespace rush
