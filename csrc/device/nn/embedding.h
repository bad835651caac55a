// embedding.h: rows of a table on a device: looked up, summed bag by bag, and gradients of the
// table. Indices are int64 or int32 and contiguous; bad ones raise, perhaps later.
#pragma once

#include "device/table.h"

namespace rush {

enum class BagMode : int64_t { Sum, Mean, Max };

// Bag b holds the indices from bounds[b] (int64) to bounds[b + 1]; those equal to `skip` do not
// count.
struct Bags {
  Tensor index, bounds;
  Tensor weight;  // of each index, or undefined
  BagMode mode;
  int64_t skip;  // -1: none

  int64_t size() const { return bounds.numel() - 1; }
};

// Floating tensors of one dtype, contiguous where nothing else is said; results are overwritten.
struct EmbeddingLoops {
  // out[i] = table[index[i]]. A table of any dtype, which may lie in any way. Where the device can do so, rows
  // of out may lie apart, as those of a wider tensor do, one like the other.
  void (*look_up)(const Tensor& table, const Tensor& index, const Tensor& out) = nullptr;
  // gtable[index[i]] += g[i], but for the row `skip`; by_count: divided by how often the index
  // occurs. g is (indices, width) and may lie in any way.
  void (*backward)(const Tensor& g, const Tensor& index, int64_t skip, bool by_count,
                   const Tensor& gtable) = nullptr;
  // out (bags, width), counts (bags): how many indices counted; places (bags, width): whose row
  // the largest element came from, for Max.
  void (*bag)(const Tensor& table, const Bags& bags, const Tensor& out, const Tensor& counts,
              const Tensor& places) = nullptr;
  // The gradient of the table, for Sum and Mean.
  void (*bag_backward)(const Tensor& g, const Bags& bags, const Tensor& counts,
                       const Tensor& gtable) = nullptr;
  // gweight[i] = g[bag of i] . table[index[i]], for Sum; zero where an index is in no bag.
  void (*bag_weights)(const Tensor& g, const Tensor& table, const Bags& bags,
                      const Tensor& gweight) = nullptr;
  bool looks_up_apart = false;
};
inline constinit DeviceTable<EmbeddingLoops> embedding_loops;

}  // namespace rush
