// embedding.h: sums of rows of a table, bag by bag, and gradients of the table. float32 or float64,
// contiguous; indices are int64 and have been checked.
#pragma once

#include "core/tensor.h"

namespace rush {

enum class BagMode : int64_t { Sum, Mean, Max };

// Bag b holds the indices from bounds[b] to bounds[b + 1]; those equal to `skip` do not count.
struct Bags {
  Tensor index, bounds;
  Tensor weight;  // of each index, or undefined
  BagMode mode;
  int64_t skip;  // -1: none

  int64_t size() const { return bounds.numel() - 1; }
};

// out (bags, width), counts (bags): how many indices counted; places (bags, width): whose row the
// largest element came from, for Max.
void embedding_bag_cpu(const Tensor& table, const Bags& bags, const Tensor& out,
                       const Tensor& counts, const Tensor& places);
// The gradient of the table, for Sum and Mean; gtable is overwritten.
void embedding_bag_backward_cpu(const Tensor& g, const Bags& bags, const Tensor& counts,
                                const Tensor& gtable);
// gweight[i] = g[bag of i] . table[index[i]], for Sum.
void embedding_bag_weights_cpu(const Tensor& g, const Tensor& table, const Bags& bags,
                               const Tensor& gweight);

// gtable[index[i]] += g[i], but for the row `skip`; by_count: divided by how often the index
// occurs. gtable is overwritten.
void embedding_backward_cpu(const Tensor& g, const Tensor& index, int64_t skip, bool by_count,
                            const Tensor& gtable);

}  // namespace rush
