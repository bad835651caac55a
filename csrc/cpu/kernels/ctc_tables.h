// ctc_tables.h: one time step of connectionist temporal classification, over the states of a label
// sequence: blanks around and between the labels. Everything is a logarithm.
#pragma once

#include <cstdint>

#include "cpu/kernels/tables.h"

namespace rush {

template <class T>
struct CtcTable {
  // next[s] = emit[s] + log(e^before[s] + e^before[s - 1] + e^(before[s - 2] + skip[s])) for s < n.
  // before[-1] and before[-2] may be read.
  void (*forward)(const T* before, const T* skip, const T* emit, T* next, int64_t n);
  // The same from the other end: s + 1 and s + 2, and skip[s + 2]. All of these may be read.
  void (*backward)(const T* after, const T* skip, const T* emit, T* next, int64_t n);
  // The probability of being in s, given the labels: e^(alpha[s] + beta[s] - emit[s] + loss).
  void (*posterior)(const T* alpha, const T* beta, const T* emit, T loss, T* out, int64_t n);
  void (*exponentials)(const T* x, T* out, int64_t n);
};

template <Isa isa, class T>
const CtcTable<T>* ctc_table();

}  // namespace rush
