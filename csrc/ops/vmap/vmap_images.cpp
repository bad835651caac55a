// The batching rules of ops over batches of images, as pools and norms are: samples are more images
// or more channels.
#include "ops/framework/operators.h"
#include "ops/vmap/vmap_rules.h"

namespace rush::batch {

// Every tensor counts images in its first dimension, and none has to do with another.
void more_images(BatchedCall& c) {
  if (c.size == 0) return c.loop();
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.is_tensor(i)) c.set(i, folded(c.all_samples(i), 0));
  }
  if (const int i = c.find("input_size"); i >= 0) {
    Dims sizes(c.given(size_t(i)).ints());
    sizes[0] *= c.size;
    c.set(size_t(i), std::move(sizes));
  }
  c.run([&](const Tensor& t, size_t) { return unfolded(t, c.size, 0); });
}

// Norms: statistics of channels, or of groups of them, in dimension 1 of images and in dimension 0
// or 1 of what has no spatial dims. Samples stand beside each other there.
void more_channels(BatchedCall& c) {
  if (c.size == 0) return c.loop();
  for (const char* state : {"running_mean", "running_var", "batches"}) {
    // What is written to belongs to no sample.
    if (const int i = c.find(state); i >= 0 && c.is_tensor(size_t(i))) return c.loop();
  }
  for (size_t i = 0; i < c.count(); ++i) {
    if (!c.is_tensor(i)) continue;
    c.set(i, contiguous(folded(c.all_samples(i), c.logical(i).dim() > 1 ? 1 : 0)));
  }
  if (const int i = c.find("groups"); i >= 0)
    c.set(size_t(i), c.given(size_t(i)).integer() * c.size);
  c.run([&](const Tensor& t, size_t) { return unfolded(t, c.size, t.dim() > 1 ? 1 : 0); });
}

// Rows of one sample are more rows for a weight that all share.
void row_norm(BatchedCall& c) {
  const auto own = [&](size_t i) { return c.is_tensor(i) && c.is_batched(i); };
  const int64_t dims = c.given(3).integer();
  if (c.size == 0) return c.loop();
  if (!own(1) && !own(2)) return c.run();
  c.set(0, c.all_samples(0));
  c.clear(1);
  c.clear(2);
  // A parameter has the sizes of a row.
  const auto beside_rows = [&](size_t i) {
    Tensor t = c.physical(i);
    if (!own(i)) return t;
    for (int64_t d = c.logical(0).dim() - dims; d > 0; --d) t = unsqueeze(t, 1);
    return t;
  };
  c.run([&](const Tensor& t, size_t i) {
    if (i > 0) return t;
    Tensor out = c.is_tensor(1) ? t * beside_rows(1) : t;
    if (c.is_tensor(2)) out = out + beside_rows(2);
    return out.dtype() == t.dtype() ? out : cast(out, t.dtype());  // parameters may be wider
  });
}

// grad, input, weight, mean, rstd: the parameters' gradients are sums over the rows of one sample.
void row_norm_backward(BatchedCall& c) {
  if (c.size == 0) return c.loop();
  const int64_t dims = c.given(5).integer(), rank = c.logical(1).dim();
  Tensor g = c.all_samples(0);
  const Tensor x = c.all_samples(1);
  const auto row_of = [&](size_t i) {
    Tensor t = c.all_samples(i);
    while (t.dim() < rank + 1) t = unsqueeze(t, -1);
    return t;
  };
  Dims rows;
  for (int64_t d = 1; d < rank - dims + 1; ++d) rows.push_back(d);
  const auto per_sample = [&](const Tensor& t) { return rows.empty() ? t : sum(t, rows); };
  const bool centred = c.given(6).boolean();
  const Tensor rstd = row_of(4), normal = (centred ? x - row_of(3) : x) * rstd;
  const Tensor weight_grad = per_sample(g * normal), bias_grad = per_sample(g);
  if (c.is_tensor(2) && c.is_batched(2)) {
    Tensor w = c.physical(2);
    for (int64_t d = rank - dims; d > 0; --d) w = unsqueeze(w, 1);
    g = g * w;
    c.clear(2);
  }
  c.set(0, g);
  c.set(1, x);
  c.set(3, contiguous(c.all_samples(3)));  // as forward left them
  c.set(4, contiguous(c.all_samples(4)));
  c.run([&](const Tensor& t, size_t i) { return i == 0 ? t : i == 1 ? weight_grad : bias_grad; });
}

}  // namespace rush::batch
