// divides.h: which functors look for zeros before they run.
#pragma once

#include "device/pointwise.h"

namespace rush::cuda {

// Does a functor divide integers, which must not be zero?
bool divides_integers(BinaryFn fn, DType compute);

}  // namespace rush::cuda
