// openmp.h: the number of threads that OpenMP itself knows, which oneDNN goes by, and which others
// lower to keep several pools of threads from competing (threadpoolctl does, for scikit-learn).
#pragma once

namespace rush::detail {

// Sets it for the calling thread, and remembers that it was us: num_threads() of core/threads.h takes
// a lower number that somebody else has set for a limit.
void tell_openmp(int n);

}  // namespace rush::detail
