// permutation.h: putting random keys into order, which is how a random permutation is made.
#pragma once

#include <cstdint>

namespace rush {

// Sorts n numbers whose upper bits are uniformly random, the sign included: much faster than a sort
// that knows nothing. Right for any numbers, slow for others.
void sort_random_cpu(int64_t* keys, int64_t n);

}  // namespace rush
