// special.cu: out[i] = f(in[i], ...) for the functors of functors/special.h, by the kernels of
// pointwise.cu. Apart from those: these functions are long, and every compilation reads them.
#include "cuda/kernels/pointwise.cu"
#include "functors/special.h"
