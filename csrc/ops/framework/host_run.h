// host_run.h: ops that a device has no kernels for run on the host, over copies.
//
// Slow, and it waits for the GPU (set_sync_debug_mode tells), but every op works on every device
// from its first day. A block whose run() only calls what is made for all devices (map_unary,
// copy_data, reduce, gemm, ...) says `any_device` and is called with the tensors themselves.
#pragma once

#include <utility>
#include <vector>

#include "ops/framework/value.h"

namespace rush {

// The host copies of one call's tensors. A tensor that is passed twice has one copy.
class RUSH_API HostCopies {
 public:
  explicit HostCopies(const char* op) : op_(op) {}
  Tensor of(const Tensor& t);
  std::vector<Tensor> of(TensorList ts);
  template <class A>
  const A& of(const A& other) {
    return other;
  }
  // What the op wrote goes back to where it belongs.
  void write_back(const Tensor& t) const;

 private:
  const char* op_;
  std::vector<std::pair<Tensor, Tensor>> pairs_;  // original, copy
};

// Is t where the host cannot read it?
RUSH_API bool needs_host_copy(const Tensor& t);

// Runs a block over host copies; the last `Results` arguments are written (0: the first one).
template <class Op, size_t Results, class... A>
[[gnu::noinline, gnu::cold]] void run_on_host(const A&... args) {
  HostCopies copies(Op::name);
  [&](const auto&... copy) { Op::run(copy...); }(copies.of(args)...);
  size_t left = sizeof...(A);
  const auto finish = [&]<class T>(const T& arg) {
    --left;
    if constexpr (std::is_same_v<T, Tensor>) {
      if (Results == 0 ? left + 1 == sizeof...(A) : left < Results) copies.write_back(arg);
    }
  };
  (finish(args), ...);
}

}  // namespace rush
