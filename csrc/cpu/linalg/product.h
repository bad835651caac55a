// product.h: one matrix product by plain pointers, as kernels and libraries see it.
//
// Compiled into kernel files of every instruction set: no tensors, no allocation in here.
#pragma once

#include <cstdint>
#include <type_traits>

#include "functors/accumulator.h"

namespace rush {

// What a product adds up in.
template <class T>
using Accumulator = accumulator<T>;

// A matrix inside memory; strides in elements.
template <class T>
struct Matrix {
  T* data;
  int64_t row, col;

  T* at(int64_t i, int64_t j) const { return data + i * row + j * col; }
  Matrix transposed() const { return {data, col, row}; }
};

// c = beta * c + alpha * a @ b, with a (m, k), b (k, n), c (m, n). beta == 0: c is not read.
template <class T>
struct Product {
  int64_t m, n, k;
  Matrix<const T> a, b;
  Matrix<T> c;
  Accumulator<T> alpha, beta;

  // The same product, written as transpose(c) = transpose(b) @ transpose(a).
  Product transposed() const {
    return {n, m, k, b.transposed(), a.transposed(), c.transposed(), alpha, beta};
  }
  Product rows(int64_t begin, int64_t end) const {
    Product p = *this;
    p.m = end - begin;
    p.a.data = a.at(begin, 0);
    p.c.data = c.at(begin, 0);
    return p;
  }
  Product columns(int64_t begin, int64_t end) const {
    Product p = *this;
    p.n = end - begin;
    p.b.data = b.at(0, begin);
    p.c.data = c.at(0, begin);
    return p;
  }
};

template <class A>
RUSH_FN bool is_zero(const A& x) {
  if constexpr (is_complex_v<A>)
    return x.re == 0 && x.im == 0;
  else
    return x == A(0);
}

template <class A>
RUSH_FN A times(const A& x, const A& y) {
  if constexpr (is_complex_v<A>)
    return A(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
  else
    return x * y;
}

template <class A>
RUSH_FN A plus(const A& x, const A& y) {
  if constexpr (is_complex_v<A>)
    return A(x.re + y.re, x.im + y.im);
  else
    return x + y;
}

// c = beta * c + alpha * sum, in the wider type.
template <class T>
RUSH_FN void finish(T* c, Accumulator<T> sum, Accumulator<T> alpha, Accumulator<T> beta) {
  using A = Accumulator<T>;
  A r = times(alpha, sum);
  if (!is_zero(beta)) r = plus(r, times(beta, A(*c)));
  *c = T(r);
}

}  // namespace rush
