// relu_trial.h: does a library's launch that ends with relu leave nan as it is?
//
// Our relu does. cuBLASLt does not say what becomes of nan, and it has kernels by the hundred. So a plan is tried
// before relu is left to it: once, with a bias of nan, into memory that is about to be written
// anyway. The host waits for that, as it does where a plan is made.
#pragma once

#include <functional>

#include "core/tensor.h"

namespace rush::cuda {

// A plan has one.
class ReluTrial {
 public:
  // run(bias) queues the launch with so many numbers as its bias, into `out`, and says whether the library
  // took it. False also where the host may not wait now: then it is tried another time.
  bool keeps_nan(int64_t bias_size, const Tensor& out,
                 const std::function<bool(const void* bias)>& run) const;

 private:
  enum class Outcome : uint8_t { Untried, KeepsNan, Fails };
  mutable Outcome outcome_ = Outcome::Untried;
};

}  // namespace rush::cuda
