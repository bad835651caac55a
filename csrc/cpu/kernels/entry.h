// entry.h: the loops that kernel files make out of functors, and the table entries that hold them.
//
// Note [One loop per functor]
// A functor is compiled once per type and instruction set, for operands that lie end to end. Rows
// with gaps, constants and other types are brought into that form in chunks that stay in the
// first-level cache (rows.cpp); that costs a few percent there and saves most of the build time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu/kernels/tables.h"
#include "functors/activation.h"
#include "functors/stored.h"
#include "functors/ternary.h"

namespace rush::RUSH_ISA {

template <FnResult R, class T>
struct ResultOf {
  using type = T;
};
template <class T>
struct ResultOf<FnResult::Bool, T> {
  using type = bool;
};
template <class T>
struct ResultOf<FnResult::Real, complex<T>> {
  using type = T;
};

template <class F, class T>
constexpr bool checks_zero() {
  if constexpr (requires { F::template checks_zero<T>; }) return F::template checks_zero<T>;
  return false;
}

// The condition of `where` is bool whatever the type of the other two.
template <class F>
constexpr bool takes_condition = std::is_same_v<F, functors::Where>;
template <class F, class T>
using First = std::conditional_t<takes_condition<F>, bool, T>;

// The functor with its own numbers filled in; each converts itself to the field's type.
template <class F, size_t... P>
F with_params(const Number* p, std::index_sequence<P...>) {
  return F{p[P]...};
}

// An output may be one of the inputs, element for element: `omp simd` allows just that.
template <int Arity, class F, class T, int P, FnResult R>
void element_loop(char* const* ptrs, int64_t n, const Number* params) {
  using Out = typename ResultOf<R, T>::type;
  const F f = with_params<F>(params, std::make_index_sequence<P>{});
  Out* out = reinterpret_cast<Out*>(ptrs[0]);
  using A = First<F, T>;
  const stored<A>* a = reinterpret_cast<const stored<A>*>(ptrs[1]);
  if constexpr (Arity == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(A(a[i])));
  } else if constexpr (Arity == 2) {
    const stored<T>* b = reinterpret_cast<const stored<T>*>(ptrs[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(A(a[i]), T(b[i])));
  } else {
    const stored<T>* b = reinterpret_cast<const stored<T>*>(ptrs[2]);
    const stored<T>* c = reinterpret_cast<const stored<T>*>(ptrs[3]);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(A(a[i]), T(b[i]), T(c[i])));
  }
}

// Functors without numbers of their own are plain structs, the others templates over the type.
template <int Arity, class F, class T, int P, FnResult R>
constexpr Entry make_entry() {
  return {element_loop<Arity, F, T, P, R>, P, R, checks_zero<F, T>(), takes_condition<F>};
}
template <int Arity, template <class> class F, class T, int P, FnResult R>
constexpr Entry make_entry() {
  return make_entry<Arity, F<T>, T, P, R>();
}

}  // namespace rush::RUSH_ISA

// The generated kernel files are made of these lines; a table's maker names Fn, kArity, T and t.
#define RUSH_ENTRY(F, n, r) \
  t.entries[static_cast<int>(Fn::F)] = make_entry<kArity, functors::F, T, n, FnResult::r>();
