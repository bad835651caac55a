#include "cuda/runtime/kept_graph.h"

#include <cstring>
#include <utility>

namespace rush::cuda {

CUkernelNode Kept::node(const std::byte* arguments, ParameterPointers& to) const {
  for (size_t p = 0; p < layout->count; ++p)
    to[p] = const_cast<std::byte*>(arguments) + at + layout->offsets[p];
  const auto& [grid, block, shared, together] = shape;
  return {f,        grid[0], grid[1],   grid[2], block[0], block[1],
          block[2], shared,  to.data(), nullptr, nullptr,  nullptr};
}

CUresult KeptGraph::add(const Kept& k, const std::byte* arguments, const Kept* before, bool early) {
  const CUgraphNode* last = before ? &nodes_.back() : nullptr;
  CUgraphNode made = nullptr;
  CUresult result = kSuccess;
  if (k.call) {
    result = driver().GraphAddChildGraphNode(&made, graph_, last, last ? 1 : 0, k.call->graph);
  } else {
    // Only between kernels there are edges that let the next one begin.
    const bool begins_early =
        early && before && !before->call && !before->shape.together && !k.shape.together;
    ParameterPointers to;
    const CUkernelNode node = k.node(arguments, to);
    result = driver().GraphAddKernelNode(&made, graph_, begins_early ? nullptr : last,
                                         last && !begins_early ? 1 : 0, &node);
    if (result == kSuccess && begins_early)
      result = driver().GraphAddDependencies(graph_, last, &made, &kEarlyEdge, 1);
    constexpr CUlaunchValue kOn{.on = 1};
    if (result == kSuccess && k.shape.together)
      result = driver().GraphKernelNodeSetAttribute(made, kLaunchCooperative, &kOn);
  }
  nodes_.push_back(made);
  identities_.push_back(k.identity());
  shapes_.push_back(k.shape);
  return result;
}

CUresult KeptGraph::make(std::span<const Kept> all, const std::byte* arguments, bool early) {
  CUresult result = driver().GraphCreate(&graph_, 0);
  size_t bytes = 0;
  for (size_t i = 0; i < all.size() && result == kSuccess; ++i) {
    result = add(all[i], arguments, i > 0 ? &all[i - 1] : nullptr, early);
    if (all[i].layout) bytes = all[i].at + all[i].layout->bytes;
  }
  if (result == kSuccess) result = driver().GraphInstantiate(&exec_, graph_, 0);
  if (result != kSuccess) exec_ = nullptr;
  arguments_.assign(arguments, arguments + bytes);
  return result;
}

bool KeptGraph::is_of(std::span<const Kept> all) const {
  if (!exec_ || identities_.size() != all.size()) return false;
  for (size_t i = 0; i < all.size(); ++i)
    if (identities_[i] != all[i].identity()) return false;
  return true;
}

CUresult KeptGraph::launch(std::span<const Kept> all, const std::byte* arguments, CUstream stream) {
  for (size_t i = 0; i < all.size(); ++i) {
    const Kept& k = all[i];
    if (k.call) continue;
    std::byte* mine = arguments_.data() + k.at;
    if (std::memcmp(mine, arguments + k.at, k.layout->bytes) == 0 && shapes_[i] == k.shape)
      continue;
    ParameterPointers to;
    const CUkernelNode node = k.node(arguments, to);
    if (const CUresult r = driver().GraphExecKernelNodeSetParams(exec_, nodes_[i], &node)) return r;
    std::memcpy(mine, arguments + k.at, k.layout->bytes);
    shapes_[i] = k.shape;
  }
  return driver().GraphLaunch(exec_, stream);
}

void KeptGraph::destroy() noexcept {
  if (exec_) driver().GraphExecDestroy(std::exchange(exec_, nullptr));
  if (graph_) driver().GraphDestroy(std::exchange(graph_, nullptr));
}

}  // namespace rush::cuda
