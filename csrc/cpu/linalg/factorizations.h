// factorizations.h: LU factors on the CPU, for other files of this folder. See device/linalg.h.
#pragma once

#include "core/tensor.h"

namespace rush {

void lu_factor_cpu(const char* op, const Tensor& a, bool pivot, const Tensor& lu,
                   const Tensor& pivots, const Tensor& info);

}  // namespace rush
