// weight_layouts.h: weights in the layouts that oneDNN wants, kept until somebody writes to them.
//
// Note [Weights in another layout]
// oneDNN's convolutions want weights in blocks that depend on their shape; carrying them there took
// 17% of the time of ResNet-50 on one image. A copy hangs on the storage of the weight and holds as
// long as the storage's count of writes does (see Note [Watched storages] in core/storage.h);
// storages that cannot be watched get a fresh copy at each call. A copy goes with its storage, with
// the first use after a write, or when newer ones take its place: those of a storage take at most
// twice its bytes.
//
// A copy costs memory, and is worth it only where it is used again. So it is kept at once for
// inference, where weights stay; in training it is kept when the same layout is asked for a second
// time between two writes, as when gradients are accumulated over several batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace rush {

// Whether copies are kept: config.weight_layouts.
RUSH_API bool keeps_weight_layouts();
RUSH_API void set_keeps_weight_layouts(bool on);

struct WeightLayoutStats {
  int64_t copies, bytes;  // there now
  int64_t hits, fills;    // so far
};
RUSH_API WeightLayoutStats weight_layout_stats();

// Numbers that describe a layout in full, sizes and type included; none where they do not.
using WeightLayout = std::vector<int64_t>;

// The elements of `weight` in a layout of `nbytes`, which `fill(memory, context)` writes.
RUSH_API Ref<Storage> weight_in_layout(const Tensor& weight, const WeightLayout& layout,
                                       size_t nbytes, bool at_once,
                                       void (*fill)(void* memory, const void* context),
                                       const void* context);

}  // namespace rush
