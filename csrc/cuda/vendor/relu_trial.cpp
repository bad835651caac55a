#include "cuda/vendor/relu_trial.h"

#include <cmath>
#include <limits>

#include "cuda/runtime/capture.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/launch_batch.h"
#include "cuda/runtime/loops.h"

namespace rush::cuda {

namespace {

bool begins_with_nan(const Tensor& t) {
  const Tensor first = make_tensor(t.storage(), Dims{1}, Dims{1}, t.offset(), t.dtype());
  const Tensor seen = make_tensor(Dims{1}, DType::Float32, Device{});
  copy(first, seen, false);
  return std::isnan(*static_cast<const float*>(seen.data()));
}

}  // namespace

bool ReluTrial::keeps_nan(int64_t bias_size, const Tensor& out,
                          const std::function<bool(const void* bias)>& run) const {
  if (outcome_ != Outcome::Untried) return outcome_ == Outcome::KeepsNan;
  if (is_capturing_on(out.device()) || sync_debug() != SyncDebug::Off) return false;
  const SingleLaunches single;
  const Tensor nans = make_tensor(Dims{bias_size}, out.dtype(), out.device());
  fill(nans, std::numeric_limits<double>::quiet_NaN());
  const bool keeps = run(nans.data()) && begins_with_nan(out);
  outcome_ = keeps ? Outcome::KeepsNan : Outcome::Fails;
  return keeps;
}

}  // namespace rush::cuda
