// fft_rows.h: transforms of single rows and of many side by side. See Note [How a transform is
// cut].
#pragma once

#include "cpu/fft/fft_plan.h"
#include "cpu/kernels/fft_tables.h"

namespace rush {

template <class T>
const FftTable<T>& fft_kernels();

// One row of plan.n complex numbers, given as pairs; in may be out.
template <class T>
void fft_row(const FftPlan<T>& plan, const T* in, T* out, bool forward, T scale);

// `count` rows that lie end to end.
template <class T>
void fft_rows(const FftPlan<T>& plan, const T* in, T* out, int64_t count, bool forward, T scale);

// `outer` blocks of (plan.n, inner) numbers, transformed along plan.n.
template <class T>
void fft_columns(const FftPlan<T>& plan, const T* in, T* out, int64_t outer, int64_t inner,
                 bool forward, T scale);

// Fills in what Bluestein's convolution needs.
template <class T>
void make_convolution(FftPlan<T>& plan);

}  // namespace rush
