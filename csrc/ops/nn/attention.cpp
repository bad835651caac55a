// Scaled dot-product attention. It runs by blocks, forward and backward, on devices that have
// kernels for it (device/nn/attention.h). Where a derivative of the backward pass, a batched
// gradient, forward mode or the gradient of a mask is wanted, the formulas composed of ops take its
// place; a test holds the two equal.
#include "device/nn/attention.h"

#include <atomic>
#include <cmath>

#include "ops/framework/data.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

constinit std::atomic<uint32_t> g_backends{kMathAttention | kFlashAttention | kEfficientAttention |
                                           kCudnnAttention};

}  // namespace

uint32_t attention_backends() { return g_backends.load(std::memory_order_relaxed); }
void set_attention_backends(uint32_t bits) { g_backends.store(bits, std::memory_order_relaxed); }
bool takes_attention(const Tensor& query, const AttentionCase& c) {
  const auto takes = attention_loops(query).takes;
  return takes && takes(c);
}

namespace {

IntList leading(const Tensor& x) { return IntList(x.sizes()).first(size_t(x.dim() - 2)); }
int64_t rows(const Tensor& x) { return x.sizes()[size_t(x.dim() - 2)]; }
int64_t width(const Tensor& x) { return x.sizes().back(); }

Dims with(IntList lead, int64_t a, int64_t b) {
  Dims out(lead);
  out.push_back(a), out.push_back(b);
  return out;
}

// Rows end to end, the dims before them in the order in which `like` has them in memory: heads that
// were cut out of longer rows go back there without a copy.
Dims row_layout(const Dims& sizes, const Tensor& like) {
  const size_t n = sizes.size() - 1;
  if (size_t(like.dim()) != n + 1 ||
      !equal(IntList(sizes).first(n), IntList(like.sizes()).first(n)))
    return {};
  SmallVector<size_t, 8> order;  // slowest first
  for (size_t d = 0; d < n; ++d) {
    if (like.strides()[d] == 0 && sizes[d] > 1) return {};
    size_t at = order.size();
    order.push_back(d);
    for (; at > 0 && like.strides()[order[at - 1]] < like.strides()[d] && sizes[d] > 1; --at)
      order[at] = order[at - 1];
    order[at] = d;
  }
  Dims strides(uint32_t(n + 1), 1);
  int64_t step = std::max<int64_t>(sizes[n], 1);
  for (size_t i = n; i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return is_contiguous(sizes, strides) ? Dims{} : strides;
}

// For the kernels: elements of a row end to end, and these leading dims, repeated where needed.
Tensor unit_rows(const Tensor& x) {
  return x.sizes().back() <= 1 || x.strides().back() == 1 ? x : contiguous_data(x);
}
Tensor seen_as(const Tensor& t, IntList sizes, IntList strides, int64_t shift = 0) {
  return make_tensor(t.storage(), sizes, strides, t.offset() + shift, t.dtype());
}
Tensor spread(const Tensor& x, const Dims& sizes) {
  if (x.sizes() == sizes) return x;
  return seen_as(x, sizes, expand_strides("attention", x.sizes(), x.strides(), sizes));
}
Tensor kernel_mask(const Tensor& mask, const Dims& sizes, const Tensor& query) {
  if (!mask.defined()) return mask;
  const DType wide = attention_accumulator(query.dtype());
  const bool fits = mask.dtype() == DType::Bool || mask.dtype() == wide ||
                    (mask.dtype() == query.dtype() && attention_loops(query).half_masks);
  return spread(fits ? mask : convert_data(mask, wide), sizes);
}

// The leading dims of the result, and those of keys and values: the same but for their heads,
// where neighbouring heads of the queries share one.
struct Leads {
  Dims all, keys;
  Leads(const Tensor& q, const Tensor& k, const Tensor& v) {
    const int64_t heads = q.dim() > 2 ? q.sizes()[size_t(q.dim() - 3)] : 1;
    const int64_t key_heads = k.dim() > 2 ? k.sizes()[size_t(k.dim() - 3)] : 1;
    if (q.dim() == k.dim() && k.dim() == v.dim() && equal(leading(q), leading(k)) &&
        equal(leading(k), leading(v))) {
      all = keys = Dims(leading(q));
      return;
    }
    const bool grouped = heads != key_heads && heads > 1 && key_heads > 1;
    const std::string_view op = "scaled_dot_product_attention";
    keys = broadcast_shapes(op, leading(k), leading(v));
    if (!grouped) {
      all = keys = broadcast_shapes(op, leading(q), keys);
      return;
    }
    const auto outer = [](IntList lead) { return lead.first(lead.size() - 1); };
    all = broadcast_shapes(op, outer(leading(q)), outer(keys));
    keys = all;
    all.push_back(heads), keys.push_back(key_heads);
  }
};

AttentionOptions options(double scale, bool causal, double dropout, int64_t seed, int64_t call) {
  return {scale, causal, dropout, {uint64_t(seed), uint64_t(call)}};
}

// ---- over ops ----

// The scores' softmax over ops; keys with as many heads as the queries.
struct Composed {
  Tensor q, k, v, weights, kept;
  double scale;

  Composed(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
           double factor, bool causal, const Tensor& dropped)
      : q(query), k(key), v(value), kept(dropped), scale(factor) {
    // Half of the scale on each side, as neither may overflow where its product would not.
    const double root = std::sqrt(std::abs(factor));
    Tensor scores =
        matmul(q * Scalar(root), transpose(k, -2, -1) * Scalar(std::copysign(root, factor)));
    Tensor seen;  // where a query may look
    if (mask.defined() && mask.dtype() == DType::Bool) seen = mask;
    if (causal) {
      const Tensor below =
          tril(ones(Dims{rows(q), rows(k)}, DType::Bool, std::nullopt, q.device()), 0);
      seen = seen.defined() ? logical_and(seen, below) : below;
    }
    if (mask.defined() && mask.dtype() != DType::Bool) scores = scores + mask;
    if (scores.dtype() != q.dtype()) scores = cast(scores, q.dtype());
    if (seen.defined()) scores = masked_fill(scores, logical_not(seen), wrap_number(-INFINITY));
    if (!mask.defined() || width(scores) == 0) {
      weights = softmax(scores, -1, std::nullopt);
      return;
    }
    // A query that may look nowhere gets zeros, and gives none back.
    const Tensor blind = eq(amax(scores, Dims{-1}, true), wrap_number(-INFINITY));
    weights = masked_fill(softmax(masked_fill(scores, blind, wrap_number(0.0)), -1, std::nullopt),
                          blind, wrap_number(0.0));
  }

  Tensor used() const { return kept.defined() ? weights * kept : weights; }
  Tensor output() const { return matmul(used(), v); }
  // The gradient of the scores, for that of the weights as they were used.
  Tensor scores_grad(const Tensor& g) const {
    const Tensor own = kept.defined() ? g * kept : g;
    return weights * (own - sum(own * weights, Dims{-1}, true));
  }
};

// Keys or values with one head for each of the queries'.
Tensor for_every_head(const Tensor& x, int64_t heads) {
  const int64_t own = x.dim() > 2 ? x.sizes()[size_t(x.dim() - 3)] : 1;
  if (own == heads || own == 1 || heads == 1) return x;
  return repeat_interleave(x, heads / own, int64_t(-3));
}
// The other way: gradients of heads that share keys are added up.
Tensor for_own_heads(const Tensor& g, const Dims& sizes) {
  const int64_t heads = g.dim() > 2 ? g.sizes()[size_t(g.dim() - 3)] : 1;
  const int64_t own = sizes.size() > 2 ? sizes[sizes.size() - 3] : 1;
  if (own == heads || own == 1 || heads == 1) return g;
  Dims split(IntList(g.sizes()).first(size_t(g.dim() - 3)));
  split.push_back(own), split.push_back(heads / own);
  split.push_back(rows(g)), split.push_back(width(g));
  return sum(reshape(g, split), Dims{-3});
}

Tensor kept_for(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, int64_t seed,
                int64_t call) {
  if (dropout <= 0) return {};
  const Dims sizes = with(Leads(q, k, v).all, rows(q), rows(k));
  return placed(
      _attention_kept(make_tensor(sizes, q.dtype(), Device(DeviceType::Meta)), dropout, seed, call),
      q.device());
}

Grads composed_grads(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                     const Tensor& mask, double scale, bool causal, const Tensor& kept,
                     bool wants_q, bool wants_k, bool wants_v) {
  const int64_t heads = q.dim() > 2 ? q.sizes()[size_t(q.dim() - 3)] : 1;
  const Composed n(q, for_every_head(k, heads), for_every_head(v, heads), mask, scale, causal,
                   kept);
  Grads out(3);
  if (wants_v) out[2] = for_own_heads(matmul(transpose(n.used(), -2, -1), g), v.sizes());
  if (!wants_q && !wants_k) return out;
  const Tensor ds = n.scores_grad(matmul(g, transpose(n.v, -2, -1)));
  if (wants_q) out[0] = matmul(ds, n.k) * Scalar(scale);
  if (wants_k) out[1] = for_own_heads(matmul(transpose(ds, -2, -1), q) * Scalar(scale), k.sizes());
  return out;
}

bool any_batched(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors)
    if (t->defined() && t->is_batched()) return true;
  return false;
}

}  // namespace

// ---- by blocks ----

struct AttentionKept {
  static constexpr const char* name = "_attention_kept";
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& weights, double, int64_t, int64_t) {
    return {weights.sizes(), attention_accumulator(weights.dtype())};
  }
  static void run(const Tensor&, double dropout, int64_t seed, int64_t call, const Tensor& out) {
    if (out.numel() > 0) attention_loops(out).kept(options(1, false, dropout, seed, call), out);
  }
};

struct FlashAttentionBackward {
  static constexpr const char* name = "scaled_dot_product_attention_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static std::array<Spec, 3> check(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Tensor&, const Tensor&, const Tensor&, double, bool,
                                   double, int64_t, int64_t) {
    const Leads lead(q, k, v);
    const auto spec = [&](const Dims& first, const Tensor& x) {
      const Dims sizes = with(first, rows(x), width(x));
      return Spec{sizes, q.dtype(), q.device(), row_layout(sizes, x)};
    };
    return {spec(lead.all, q), spec(lead.keys, k), spec(lead.keys, v)};
  }
  static void run(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& out, const Tensor& lse, const Tensor& mask, double scale,
                  bool causal, double dropout, int64_t seed, int64_t call, const Tensor& gq,
                  const Tensor& gk, const Tensor& gv) {
    if (out.numel() == 0 || rows(k) == 0)
      return fill_data(gq, 0), fill_data(gk, 0), fill_data(gv, 0);
    attention_loops(q).backward(
        options(scale, causal, dropout, seed, call), unit_rows(g), spread(unit_rows(q), gq.sizes()),
        spread(unit_rows(k), gk.sizes()), spread(unit_rows(v), gv.sizes()),
        kernel_mask(mask, with(leading(gq), rows(q), rows(k)), q), unit_rows(out), lse, gq, gk, gv);
  }
};

struct FlashAttention {
  static constexpr const char* name = "scaled_dot_product_attention";
  static constexpr bool any_device = true;
  static constexpr bool takes_undefined = true;
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                                   double, bool, double, int64_t, int64_t) {
    const Leads lead(q, k, v);
    const Dims sizes = with(lead.all, rows(q), width(v));
    Dims stats = lead.all;
    stats.push_back(rows(q));
    return {Spec{sizes, q.dtype(), q.device(), row_layout(sizes, q)},
            Spec{stats, attention_accumulator(q.dtype()), q.device()}};
  }
  static void run(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  double scale, bool causal, double dropout, int64_t seed, int64_t call,
                  const Tensor& out, const Tensor& lse) {
    if (out.numel() == 0) return fill_data(lse, 0);
    const Leads lead(q, k, v);
    attention_loops(q).forward(options(scale, causal, dropout, seed, call),
                               spread(unit_rows(q), with(lead.all, rows(q), width(q))),
                               spread(unit_rows(k), with(lead.keys, rows(k), width(k))),
                               spread(unit_rows(v), with(lead.keys, rows(v), width(v))),
                               kernel_mask(mask, with(lead.all, rows(q), rows(k)), q), out, lse);
  }
  static constexpr uint32_t all = in(0) | in(1) | in(2) | in(3) | kOut;
  static constexpr uint32_t needs[] = {all, all, all, 0};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& mask, double scale, bool causal, double dropout, int64_t seed,
                    int64_t call) {
    const Tensor& g = grads[0];
    Grads out(4);
    if (!g.defined()) return out;
    if (!is_differentiated(g, q, k, v, mask) && !any_batched({&g, &q, &k, &v, &mask})) {
      auto [gq, gk, gv] = _flash_attention_backward(g, q, k, v, c.out(0), c.out(1), mask, scale,
                                                    causal, dropout, seed, call);
      if (c.wants(0)) out[0] = gq;
      if (c.wants(1)) out[1] = gk;
      if (c.wants(2)) out[2] = gv;
      return out;
    }
    const Grads composed =
        composed_grads(g, q, k, v, mask, scale, causal, kept_for(q, k, v, dropout, seed, call),
                       c.wants(0), c.wants(1), c.wants(2));
    for (size_t i = 0; i < 3; ++i) out[i] = composed[i];
    return out;
  }
};

// ---- queries, keys and values side by side ----

namespace {

// (length, batch, 3 * width) or (batch, length, 3 * width) as three (batch, heads, length, size).
struct Packed {
  int64_t batch, length, heads, size;
  Dims sizes, strides;
  Packed(const Tensor& t, int64_t heads_, bool batch_first, int64_t parts)
      : batch(t.sizes()[batch_first ? 0 : 1]),
        length(t.sizes()[batch_first ? 1 : 0]),
        heads(heads_),
        size(t.sizes()[2] / parts / heads_),
        sizes{batch, heads, length, size},
        strides{t.strides()[batch_first ? 0 : 1], size * t.strides()[2],
                t.strides()[batch_first ? 1 : 0], t.strides()[2]} {}
  Tensor part(const Tensor& t, int64_t i) const {
    return seen_as(t, sizes, strides, i * heads * size * t.strides()[2]);
  }
};

// The same with history.
Tensor part_of(const Tensor& qkv, int64_t i, int64_t heads, bool batch_first) {
  const int64_t w = qkv.sizes()[2] / 3;
  const Tensor x = unflatten(slice(qkv, 2, i * w, (i + 1) * w, 1), 2, Dims{heads, w / heads});
  return permute(x, batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3});
}
// (batch, heads, length, size) back to (length, batch, width).
Tensor join_heads(const Tensor& x, bool batch_first) {
  return flatten(permute(x, batch_first ? Dims{0, 2, 1, 3} : Dims{2, 0, 1, 3}), 2, 3);
}

}  // namespace

struct PackedAttentionBackward {
  static constexpr const char* name = "scaled_dot_product_attention_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor&, const Tensor& qkv, const Tensor&, const Tensor&, const Tensor&,
                    int64_t, bool, double, bool, double, int64_t, int64_t) {
    return {qkv.sizes(), qkv.dtype(), qkv.device()};
  }
  static void run(const Tensor& g, const Tensor& qkv, const Tensor& out, const Tensor& lse,
                  const Tensor& mask, int64_t heads, bool batch_first, double scale, bool causal,
                  double dropout, int64_t seed, int64_t call, const Tensor& to) {
    if (to.numel() == 0) return;
    const Tensor x = unit_rows(qkv), own = unit_rows(g);
    const Packed in(x, heads, batch_first, 3), one(out, heads, batch_first, 1);
    const Packed up(own, heads, batch_first, 1), down(to, heads, batch_first, 3);
    attention_loops(qkv).backward(
        options(scale, causal, dropout, seed, call), up.part(own, 0), in.part(x, 0), in.part(x, 1),
        in.part(x, 2), kernel_mask(mask, Dims{in.batch, in.heads, in.length, in.length}, qkv),
        one.part(out, 0), lse, down.part(to, 0), down.part(to, 1), down.part(to, 2));
  }
};

struct PackedAttention {
  static constexpr const char* name = "scaled_dot_product_attention";
  static constexpr bool any_device = true;
  static constexpr bool takes_undefined = true;
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& qkv, const Tensor&, int64_t heads,
                                   bool batch_first, double, bool, double, int64_t, int64_t) {
    const Packed p(qkv, heads, batch_first, 3);
    return {
        Spec{Dims{qkv.sizes()[0], qkv.sizes()[1], qkv.sizes()[2] / 3}, qkv.dtype(), qkv.device()},
        Spec{Dims{p.batch, heads, p.length}, attention_accumulator(qkv.dtype()), qkv.device()}};
  }
  static void run(const Tensor& qkv, const Tensor& mask, int64_t heads, bool batch_first,
                  double scale, bool causal, double dropout, int64_t seed, int64_t call,
                  const Tensor& out, const Tensor& lse) {
    if (out.numel() == 0) return;
    const Tensor x = unit_rows(qkv);
    const Packed in(x, heads, batch_first, 3), to(out, heads, batch_first, 1);
    attention_loops(qkv).forward(
        options(scale, causal, dropout, seed, call), in.part(x, 0), in.part(x, 1), in.part(x, 2),
        kernel_mask(mask, Dims{in.batch, in.heads, in.length, in.length}, qkv), to.part(out, 0),
        lse);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | kOut, 0};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& qkv, const Tensor& mask,
                    int64_t heads, bool batch_first, double scale, bool causal, double dropout,
                    int64_t seed, int64_t call) {
    const Tensor& g = grads[0];
    if (!g.defined()) return Grads(2);
    if (!is_differentiated(g, qkv, mask) && !any_batched({&g, &qkv, &mask}))
      return {_packed_attention_backward(g, qkv, c.out(0), c.out(1), mask, heads, batch_first,
                                         scale, causal, dropout, seed, call),
              Tensor()};
    Tensor part[3];
    for (int64_t i = 0; i < 3; ++i) part[i] = part_of(qkv, i, heads, batch_first);
    const Tensor own = permute(unflatten(g, 2, Dims{heads, g.sizes()[2] / heads}),
                               batch_first ? Dims{0, 2, 1, 3} : Dims{1, 2, 0, 3});
    const Tensor kept = kept_for(part[0], part[1], part[2], dropout, seed, call);
    const Grads parts =
        composed_grads(own, part[0], part[1], part[2], mask, scale, causal, kept, true, true, true);
    const Tensor joined[3] = {join_heads(parts[0], batch_first), join_heads(parts[1], batch_first),
                              join_heads(parts[2], batch_first)};
    return {cat(TensorList(joined, 3), 2), Tensor()};
  }
};

// ---- weights ----

struct AttentionWeights {
  static constexpr const char* name = "attention_weights";
  static Spec check(const Tensor& q, const Tensor& k, const Tensor&, const Tensor&, double, bool,
                    double, int64_t, int64_t, bool average) {
    const IntList lead = average ? leading(q).first(size_t(q.dim() - 3)) : leading(q);
    return {with(lead, rows(q), rows(k)), attention_accumulator(q.dtype()), q.device()};
  }
  static void run(const Tensor& q, const Tensor& k, const Tensor& lse, const Tensor& mask,
                  double scale, bool causal, double dropout, int64_t seed, int64_t call,
                  bool average, const Tensor& out) {
    if (out.numel() == 0) return;
    attention_loops(q).weights(
        options(scale, causal, dropout, seed, call), unit_rows(q), unit_rows(k),
        kernel_mask(mask, with(leading(q), rows(q), rows(k)), q), lse, average, out);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | in(3), in(0) | in(1) | in(3), 0, 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& q, const Tensor& k, const Tensor&,
                    const Tensor& mask, double scale, bool causal, double dropout, int64_t seed,
                    int64_t call, bool average) {
    const Composed n(q, k, Tensor(), mask, scale, causal, kept_for(q, k, k, dropout, seed, call));
    const Tensor own = average ? unsqueeze(g, -3) / Scalar(q.sizes()[size_t(q.dim() - 3)]) : g;
    const Tensor ds = n.scores_grad(own.dtype() == q.dtype() ? own : cast(own, q.dtype()));
    return {c.wants(0) ? matmul(ds, k) * Scalar(scale) : Tensor(),
            c.wants(1) ? matmul(transpose(ds, -2, -1), q) * Scalar(scale) : Tensor(), Tensor(),
            Tensor()};
  }
};

// ---- what users call ----

namespace {

constexpr const char* kName = "scaled_dot_product_attention";

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v) {
  check(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, ErrorKind::Shape, kName,
        "query, key and value need at least 2 dims (..., length, size), got shapes ", q.sizes(),
        ", ", k.sizes(), " and ", v.sizes());
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), ErrorKind::Runtime, kName,
        "query, key and value must have the same dtype, got ", q.dtype(), ", ", k.dtype(), " and ",
        v.dtype());
  check_dtype(is_floating(q.dtype()), kName, "not implemented for ", q.dtype(), " tensors");
  common_device(kName, {&q, &k, &v});
  check_shape(width(q) == width(k), kName,
              "query and key must have the same size in their last dim, got shapes ", q.sizes(),
              " and ", k.sizes());
  check_shape(rows(k) == rows(v), kName,
              "key and value must have the same length (dim -2), got shapes ", k.sizes(), " and ",
              v.sizes());
}

void check_mask(const Tensor& q, const Tensor& mask, const Dims& sizes) {
  if (!mask.defined()) return;
  check(mask.dtype() == DType::Bool || mask.dtype() == q.dtype() || mask.dtype() == DType::Float32,
        ErrorKind::Runtime, kName, "attn_mask must be bool (True: look here) or ", q.dtype(),
        " (added to the scores), got ", mask.dtype());
  common_device(kName, {&q, &mask});
  check(mask.dim() >= 2, ErrorKind::Range, kName,
        "attn_mask needs at least 2 dims (queries, keys), got shape ", mask.sizes());
  bool fits = mask.dim() <= int64_t(sizes.size());
  for (int64_t d = 1; fits && d <= mask.dim(); ++d) {
    const int64_t n = mask.sizes()[size_t(mask.dim() - d)];
    fits = n == 1 || n == sizes[sizes.size() - size_t(d)];
  }
  check_shape(fits, kName, "attn_mask of shape ", mask.sizes(),
              " does not broadcast to the scores' shape (..., queries, keys) ", sizes);
}

void check_dropout(double p) {
  check_argument(p >= 0 && p <= 1, kName, "dropout_p must be between 0 and 1, got ", p);
}

// Heads of keys and values that are shared by several of the queries.
void check_groups(const Tensor& q, const Tensor& k, const Tensor& v) {
  check(q.dim() >= 3 && k.dim() >= 3 && v.dim() >= 3, ErrorKind::Range, kName,
        "enable_gqa needs a dim of heads (dim -3), got shapes ", q.sizes(), ", ", k.sizes(),
        " and ", v.sizes());
  const int64_t heads = q.sizes()[size_t(q.dim() - 3)];
  for (const Tensor* t : {&k, &v}) {
    const int64_t own = t->sizes()[size_t(t->dim() - 3)];
    check_shape(own > 0 && heads % own == 0, kName,
                "with enable_gqa the heads of key and value must divide those of query, got "
                "shapes ",
                q.sizes(), ", ", k.sizes(), " and ", v.sizes());
  }
}

// Must this call be made of ops that record themselves?
bool composes(std::initializer_list<const Tensor*> tensors, const Tensor& mask, double dropout,
              int64_t width, int64_t value_width) {
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (t->is_batched() || (forward_active() && has_tangent(*t))) return true;
  }
  const Tensor& q = **tensors.begin();
  const AttentionCase wanted{q.dtype(), width, value_width, !mask.defined() && dropout <= 0,
                             attention_backends()};
  if (const auto takes = attention_loops(q).takes; takes && !takes(wanted)) {
    check(wanted.backends & kMathAttention, ErrorKind::Runtime, kName,
          "no available kernel: none that sdpa_kernel allows takes these arguments");
    return true;
  }
  return mask.defined() && grad_enabled() && requires_grad(mask);
}

Tensor drawn(const Tensor& weights, double dropout) {
  if (dropout <= 0) return {};
  if (dropout >= 1) return zeros_like(weights);
  return bernoulli_(empty_like(weights), 1 - dropout) / Scalar(1 - dropout);
}

struct Random {
  int64_t seed = 0, call = 0;
  explicit Random(double dropout) {
    if (dropout <= 0) return;
    const RandomCall next = default_generator().next();
    seed = int64_t(next.seed), call = int64_t(next.call);
  }
};

double default_scale(const Tensor& q) { return 1 / std::sqrt(double(width(q))); }

Tensor compose_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                         double scale, bool causal, double dropout, Tensor* weights = nullptr) {
  const DType own = q.dtype(), wide = attention_accumulator(own);
  if (own != wide) {  // scores in half precision would lose what the softmax then enlarges
    const Tensor found = compose_attention(cast(q, wide), cast(k, wide), cast(v, wide), mask, scale,
                                           causal, dropout, weights);
    if (weights) *weights = cast(*weights, own);
    return cast(found, own);
  }
  const int64_t heads = q.dim() > 2 ? q.sizes()[size_t(q.dim() - 3)] : 1;
  Composed n(q, for_every_head(k, heads), for_every_head(v, heads), mask, scale, causal, Tensor());
  n.kept = drawn(n.weights, dropout);
  if (weights) *weights = n.used();
  return n.output();
}

}  // namespace

struct ScaledDotProductAttention {
  static constexpr const char* name = kName;
  static Tensor call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                     double dropout, bool causal, std::optional<double> scale, bool gqa) {
    check_inputs(q, k, v);
    check_dropout(dropout);
    if (gqa) check_groups(q, k, v);
    Tensor keys = k, values = v;
    const auto heads = [](const Tensor& t) {
      return t.dim() > 2 ? t.sizes()[size_t(t.dim() - 3)] : 1;
    };
    if (gqa && heads(k) != heads(v)) {
      keys = for_every_head(k, heads(q));
      values = for_every_head(v, heads(q));
    }
    check_shape(gqa || heads(q) == heads(k) || heads(q) == 1 || heads(k) == 1, name, "query has ",
                heads(q), " heads (dim -3), key ", heads(k), "; shapes are ", q.sizes(), ", ",
                k.sizes(), " and ", v.sizes(),
                ": pass enable_gqa=True for queries that share keys");
    check_mask(q, mask, with(Leads(q, keys, values).all, rows(q), rows(k)));
    const double factor = scale.value_or(default_scale(q));
    if (composes({&q, &k, &v, &mask}, mask, dropout, width(q), width(v)))
      return compose_attention(q, keys, values, mask, factor, causal, dropout);
    const Random random(dropout);
    return std::get<0>(
        _flash_attention(q, keys, values, mask, factor, causal, dropout, random.seed, random.call));
  }
};

struct SelfAttention {
  static constexpr const char* name = "_self_attention";
  static Tensor call(const Tensor& qkv, int64_t heads, bool batch_first, const Tensor& mask,
                     double dropout, bool causal) {
    check_shape(qkv.dim() == 3 && heads > 0 && qkv.sizes()[2] % (3 * heads) == 0, name,
                "expects (length, batch, 3 * heads * size) with ", heads, " heads, got shape ",
                qkv.sizes());
    check_dtype(is_floating(qkv.dtype()), name, "not implemented for ", qkv.dtype(), " tensors");
    check_dropout(dropout);
    const int64_t length = qkv.sizes()[batch_first ? 1 : 0],
                  batch = qkv.sizes()[batch_first ? 0 : 1];
    check_mask(qkv, mask, Dims{batch, heads, length, length});
    const double scale = 1 / std::sqrt(double(qkv.sizes()[2] / (3 * heads)));
    const int64_t size = qkv.sizes()[2] / (3 * heads);
    if (composes({&qkv, &mask}, mask, dropout, size, size)) {
      Tensor part[3];
      for (int64_t i = 0; i < 3; ++i) part[i] = part_of(qkv, i, heads, batch_first);
      return join_heads(compose_attention(part[0], part[1], part[2], mask, scale, causal, dropout),
                        batch_first);
    }
    const Random random(dropout);
    return std::get<0>(_packed_attention(qkv, mask, heads, batch_first, scale, causal, dropout,
                                         random.seed, random.call));
  }
};

struct AttentionWithWeights {
  static constexpr const char* name = "_attention_with_weights";
  static std::tuple<Tensor, Tensor> call(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const Tensor& mask, double dropout, bool causal,
                                         bool average) {
    check_inputs(q, k, v);
    check_dropout(dropout);
    check_shape(q.dim() == 4 && equal(leading(q), leading(k)) && equal(leading(q), leading(v)),
                name, "expects (batch, heads, length, size) three times, got shapes ", q.sizes(),
                ", ", k.sizes(), " and ", v.sizes());
    check_mask(q, mask, with(leading(q), rows(q), rows(k)));
    const double scale = default_scale(q);
    const bool by_blocks = attention_loops(q).weights || q.is_meta();
    if (!by_blocks || composes({&q, &k, &v, &mask}, mask, dropout, width(q), width(v))) {
      Tensor weights;
      const Tensor out = compose_attention(q, k, v, mask, scale, causal, dropout, &weights);
      return {out, average ? mean(weights, Dims{1}, false, std::nullopt) : weights};
    }
    const Random random(dropout);
    const auto [out, lse] =
        _flash_attention(q, k, v, mask, scale, causal, dropout, random.seed, random.call);
    const Tensor weights = _attention_weights(q, k, lse, mask, scale, causal, dropout, random.seed,
                                              random.call, average);
    return {out, weights.dtype() == q.dtype() ? weights : cast(weights, q.dtype())};
  }
};

}  // namespace rush

#include "ops/attention.inc"
