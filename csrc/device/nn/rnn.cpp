#include "device/nn/rnn.h"

namespace rush {

RnnSteps::RnnSteps(IntList batch_sizes, bool reverse)
    : active(batch_sizes.begin(), batch_sizes.end()) {
  int64_t row = 0;
  for (const int64_t n : active) {
    first.push_back(row);
    row += n;
  }
  if (reverse) {
    std::reverse(active.begin(), active.end());
    std::reverse(first.begin(), first.end());
  }
}

}  // namespace rush
