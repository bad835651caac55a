// kept_graph.h: a batch of launches (launch_batch.h) as a graph that is queued again and again.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cuda/runtime/launch_batch.h"
#include "cuda/runtime/library_call.h"
#include "cuda/runtime/parameter_layout.h"

namespace rush::cuda {

// A launch that was kept back: of a kernel, or a library's call.
struct Kept {
  CUfunction f = nullptr;
  const CapturedCall* call = nullptr;
  const ParameterLayout* layout = nullptr;
  LaunchShape shape{};
  size_t at = 0;  // of its arguments

  // The kernel, or the call: no two are alike.
  uint64_t identity() const {
    if (call) return call->number << 2 | 1;
    return uint64_t(reinterpret_cast<uintptr_t>(f)) << 2 | (shape.together ? 2 : 0);
  }
  CUkernelNode node(const std::byte* arguments, ParameterPointers& to) const;
};

class KeptGraph {
 public:
  uint64_t used = 0;  // the number of the batch that used it last

  // A chain, in which a kernel may begin as the one before ends (Note [Early launches]) if `early`,
  // but for those whose blocks have to run all at once.
  CUresult make(std::span<const Kept> all, const std::byte* arguments, bool early);
  bool is_of(std::span<const Kept> all) const;
  // With these arguments and shapes.
  CUresult launch(std::span<const Kept> all, const std::byte* arguments, CUstream stream);
  void destroy() noexcept;

 private:
  CUresult add(const Kept& k, const std::byte* arguments, const Kept* before, bool early);

  CUgraph graph_ = nullptr;  // whose nodes these are
  CUgraphExec exec_ = nullptr;
  std::vector<uint64_t> identities_;
  std::vector<CUgraphNode> nodes_;
  // As the nodes have them: setting what is there already costs 30 times a comparison.
  std::vector<LaunchShape> shapes_;
  std::vector<std::byte> arguments_;
};

}  // namespace rush::cuda
