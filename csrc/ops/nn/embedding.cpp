// Look-ups of rows by index, one by one or in bags. Where a bag's backward pass is itself
// differentiated, formulas over ops take its place.
#include "device/nn/embedding.h"

#include "device/deferred.h"
#include "ops/framework/data.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

// Contiguous, on the result's device: a 0-d tensor may come from the host.
Tensor on(const Tensor& out, const Tensor& t) { return contiguous_data(placed(t, out.device())); }

void check_table(const char* op, const Tensor& weight, const Tensor& indices) {
  check_shape(weight.dim() == 2, op, "weight must have 2 dims, got shape ", weight.sizes());
  check_dtype(indices.dtype() == DType::Int64 || indices.dtype() == DType::Int32, op,
              "indices must be int64 or int32, got ", indices.dtype());
  common_device(op, {&weight, &indices});
}

}  // namespace

struct Embedding {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "embedding";
  static constexpr bool may_fail = true;
  static constexpr bool any_device = true;
  static Spec check(const Tensor& weight, const Tensor& indices, int64_t, bool, bool sparse) {
    rush::check(!sparse, ErrorKind::NotImplemented, name,
                "sparse gradients are those of nn.functional.embedding; use that for sparse=True");
    check_table(name, weight, indices);
    Dims sizes = indices.sizes();
    sizes.push_back(weight.sizes()[1]);
    return {sizes, weight.dtype(), weight.device()};
  }
  // In a compiled function `cat` may follow: Note [Products that wait] in device/deferred.h.
  static bool may_wait(const Tensor& weight, const Tensor& indices, int64_t, bool, bool) {
    constexpr int64_t kLeast = 1 << 18;  // elements: what joins less than that gains nothing
    return embedding_loops(weight).looks_up_apart && weight.dim() == 2 &&
           indices.numel() >= kLeast / std::max<int64_t>(weight.sizes()[1], 1) &&
           !op::any_laid_out_otherwise(weight, indices);
  }
  static void run(const Tensor& weight, const Tensor& indices, int64_t, bool, bool,
                  const Tensor& out) {
    if (is_unborn(out) && wait_for_cat(weight, indices, out)) return;
    if (indices.numel() > 0) embedding_loops(out).look_up(weight, on(out, indices), out);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& indices,
                    int64_t padding_idx, bool by_count, bool) {
    return {_embedding_backward(g, indices, c.sizes(0)[0], padding_idx, by_count), Tensor()};
  }

 private:
  [[gnu::noinline, gnu::cold]] static bool wait_for_cat(const Tensor& weight, const Tensor& indices,
                                                        const Tensor& out) {
    const Tensor* operands[] = {&weight, &indices};
    const auto look_up = [](std::span<const Tensor> in, const Tensor& to, bool relu) {
      if (!relu) embedding_loops(to).look_up(in[0], on(to, in[1]), to);
      return !relu;
    };
    return deferred::take_product({name, look_up, true}, operands, out);
  }
};

struct EmbeddingBackward {
  static constexpr const char* name = "embedding_backward";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& g, const Tensor&, int64_t rows, int64_t, bool) {
    return {Dims{rows, g.sizes().back()}, g.dtype(), g.device()};
  }
  static void run(const Tensor& g, const Tensor& indices, int64_t, int64_t padding_idx,
                  bool by_count, const Tensor& out) {
    if (out.numel() == 0) return;
    const int64_t count = indices.numel();
    if (count == 0) return fill_data(out, 0);
    const NoGradGuard no_grad;
    const Tensor rows = g.dim() == 2 ? g : reshape(g, Dims{count, out.sizes()[1]});
    embedding_loops(out).backward(rows, on(out, indices), padding_idx, by_count, out);
  }
  static constexpr uint32_t needs[] = {in(1), 0};
  static Grads grad(const Ctx& c, const Tensor& h, const Tensor&, const Tensor& indices,
                    int64_t rows, int64_t padding_idx, bool by_count) {
    Tensor back = embedding(h, indices, padding_idx, false, false);
    if (padding_idx >= 0)
      back =
          masked_fill(back, unsqueeze(eq(indices, wrap_number(padding_idx)), -1), wrap_number(0));
    if (by_count) {
      const Tensor counts = bincount(reshape(indices, Dims{-1}), Tensor(), rows);
      const Tensor each =
          reshape(index_select(counts, 0, reshape(indices, Dims{-1})), indices.sizes());
      back = back / unsqueeze(cast(each, back.dtype()), -1);
    }
    return {c.wants(0) ? back : Tensor(), Tensor()};
  }
};

namespace {

Bags bags_on(const Tensor& out, const Tensor& indices, const Tensor& bounds, const Tensor& weight,
             int64_t mode, int64_t padding_idx) {
  const Tensor wide = bounds.dtype() == DType::Int64 ? bounds : convert_data(bounds, DType::Int64);
  return {on(out, indices), on(out, wide), weight.defined() ? contiguous_data(weight) : weight,
          BagMode(mode), padding_idx};
}

// The bag of each index.
Tensor bag_numbers(const Tensor& bounds) {
  const int64_t bags = bounds.numel() - 1;
  const Tensor sizes = slice(bounds, 0, 1, bags + 1, 1) - slice(bounds, 0, 0, bags, 1);
  return repeat_interleave(arange(bags, DType::Int64, std::nullopt, bounds.device()), sizes,
                           std::nullopt, std::nullopt);
}

}  // namespace

struct EmbeddingBag {
  static constexpr const char* name = "embedding_bag";
  static constexpr bool any_device = true;
  static constexpr uint32_t non_differentiable = 0b110;
  static constexpr bool may_fail = true;
  static std::array<Spec, 3> check(const Tensor& weight, const Tensor& indices,
                                   const Tensor& bounds, int64_t mode, const Tensor& by, int64_t) {
    check_table(name, weight, indices);
    check_dtype(is_floating(weight.dtype()), name, "not implemented for ", weight.dtype(),
                " tensors");
    check_shape(indices.dim() == 1 && bounds.dim() == 1 && bounds.numel() > 0, name,
                "indices and bounds must have 1 dim, got ", indices.sizes(), " and ",
                bounds.sizes());
    check_argument(mode >= 0 && mode <= 2, name, "unknown mode ", mode);
    if (by.defined()) {
      check_shape(by.sizes() == indices.sizes(), name,
                  "per_sample_weights must have the shape of "
                  "the indices, ",
                  indices.sizes(), ", got ", by.sizes());
      check_dtype(by.dtype() == weight.dtype(), name, "per_sample_weights must be ", weight.dtype(),
                  " as the weight, got ", by.dtype());
    }
    const Dims sizes{bounds.numel() - 1, weight.sizes()[1]};
    return {Spec{sizes, weight.dtype(), weight.device()},
            Spec{Dims{sizes[0]}, DType::Int64, weight.device()},
            Spec{mode == 2 ? sizes : Dims{0}, DType::Int64, weight.device()}};
  }
  static void run(const Tensor& weight, const Tensor& indices, const Tensor& bounds, int64_t mode,
                  const Tensor& by, int64_t padding_idx, const Tensor& out, const Tensor& counts,
                  const Tensor& places) {
    embedding_loops(out).bag(contiguous_data(weight),
                             bags_on(out, indices, bounds, by, mode, padding_idx), out, counts,
                             places);
  }

  static constexpr uint32_t needs[] = {in(1) | in(2) | in(3) | result(1) | result(2), 0, 0,
                                       in(0) | in(1) | in(2)};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& weight, const Tensor& indices,
                    const Tensor& bounds, int64_t mode, const Tensor& by, int64_t padding_idx) {
    const Tensor& g = grads[0];
    Grads out(4);
    if (!g.defined()) return out;
    if (mode == 2) {  // -1: an empty bag
      const Tensor &places = c.out(2), empty = lt(places, wrap_number(0));
      if (c.wants(0))
        out[0] = scatter_add(zeros(c.sizes(0), g.dtype(), std::nullopt, g.device()), 0,
                             masked_fill(places, empty, wrap_number(0)),
                             masked_fill(g, empty, wrap_number(0)));
      return out;
    }
    if (!is_differentiated(g, weight, by)) {
      if (c.wants(0))
        out[0] = _embedding_bag_backward(g, indices, bounds, mode, by, padding_idx, c.out(1),
                                         c.sizes(0)[0]);
      if (c.wants(3))
        out[3] = _embedding_bag_weights_backward(g, weight, indices, bounds, padding_idx);
      return out;
    }
    const Tensor each = index_select(g, 0, bag_numbers(bounds));  // of each index
    if (c.wants(0)) {
      Tensor share = by.defined() ? each * unsqueeze(by, 1) : each;
      if (mode == 1) {
        const Tensor counts = cast(clamp(c.out(1), Scalar(1), std::nullopt), g.dtype());
        share = share / unsqueeze(index_select(counts, 0, bag_numbers(bounds)), 1);
      }
      out[0] = _embedding_backward(share, indices, c.sizes(0)[0], padding_idx, false);
    }
    if (c.wants(3)) {
      out[3] = sum(each * embedding(weight, indices, padding_idx, false, false), Dims{1});
      if (padding_idx >= 0)
        out[3] = masked_fill(out[3], eq(indices, wrap_number(padding_idx)), wrap_number(0));
    }
    return out;
  }
};

struct EmbeddingBagBackward {
  static constexpr const char* name = "embedding_bag_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static Spec check(const Tensor& g, const Tensor&, const Tensor&, int64_t, const Tensor&, int64_t,
                    const Tensor&, int64_t rows) {
    return {Dims{rows, g.sizes()[1]}, g.dtype(), g.device()};
  }
  static void run(const Tensor& g, const Tensor& indices, const Tensor& bounds, int64_t mode,
                  const Tensor& by, int64_t padding_idx, const Tensor& counts, int64_t,
                  const Tensor& out) {
    if (out.numel() == 0) return;
    embedding_loops(out).bag_backward(
        contiguous_data(g), bags_on(out, indices, bounds, by, mode, padding_idx), counts, out);
  }
};

struct EmbeddingBagWeightsBackward {
  static constexpr const char* name = "embedding_bag_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& g, const Tensor&, const Tensor& indices, const Tensor&, int64_t) {
    return {indices.sizes(), g.dtype(), g.device()};
  }
  static void run(const Tensor& g, const Tensor& weight, const Tensor& indices,
                  const Tensor& bounds, int64_t padding_idx, const Tensor& out) {
    if (out.numel() == 0) return;
    embedding_loops(out).bag_weights(contiguous_data(g), contiguous_data(weight),
                                     bags_on(out, indices, bounds, Tensor(), 0, padding_idx), out);
  }
};

}  // namespace rush

#include "ops/embedding.inc"
