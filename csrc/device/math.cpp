#include "device/math.h"

namespace rush {

constinit MathLoops detail::g_cuda_math_loops = {};

}  // namespace rush
