// Attention of sequences of different lengths. They lie one behind the other in tensors (all
// lengths together, heads, size), and the blocked kernels of device/nn/attention.h run on views of
// them: nothing is padded or copied. Neighbours of the same lengths share a call.
//
// Query i of a sequence with Lq queries and Lk keys stands beside key i + Lk - Lq, so that the last
// ones meet; it sees `left` keys before that one and `right` behind it, -1 for all.
#include "device/nn/attention.h"
#include "ops/framework/data.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/operators.h"
#include "ops/nn/rnn_layer.h"
#include "ops/varlen_attention_ops.h"

namespace rush {

namespace {

constexpr const char* kName = "varlen_attn";

// The arguments that say where sequences lie, as the rows have them.
struct Sequences {
  IntList query_bounds, key_starts, key_lengths;
  int64_t left, right;

  int64_t count() const { return int64_t(key_lengths.size()); }
  int64_t queries(int64_t i) const { return query_bounds[size_t(i) + 1] - query_bounds[size_t(i)]; }
  int64_t keys(int64_t i) const { return key_lengths[size_t(i)]; }
  bool everywhere() const { return left < 0 && right < 0; }
};

// Sequences at equal distances that have the same lengths: a batch, as the kernels see it.
struct Run {
  int64_t first, count, queries, keys, key_step;
};
template <class F>
void for_runs(const Sequences& s, F&& f) {
  for (int64_t i = 0; i < s.count();) {
    Run run{i, 1, s.queries(i), s.keys(i), s.keys(i)};
    for (int64_t j = i + 1; j < s.count(); ++j) {
      const int64_t step = s.key_starts[size_t(j)] - s.key_starts[size_t(j) - 1];
      if (s.queries(j) != run.queries || s.keys(j) != run.keys) break;
      if (j == i + 1) run.key_step = step;
      if (step != run.key_step) break;
      run.count = j - i + 1;
    }
    if (run.queries > 0) f(run);
    i += run.count;
  }
}

// A run of (all, heads, size) as (sequences, heads, length, size).
Tensor as_batch(const Tensor& t, int64_t start, int64_t count, int64_t step, int64_t length) {
  const Dims &sizes = t.sizes(), &strides = t.strides();
  return make_tensor(t.storage(), Dims{count, sizes[1], length, sizes[2]},
                     Dims{step * strides[0], strides[1], strides[0], strides[2]},
                     t.offset() + start * strides[0], t.dtype());
}
Tensor query_batch(const Tensor& t, const Sequences& s, const Run& r) {
  return as_batch(t, s.query_bounds[size_t(r.first)], r.count, r.queries, r.queries);
}
Tensor key_batch(const Tensor& t, const Sequences& s, const Run& r) {
  return as_batch(t, s.key_starts[size_t(r.first)], r.count, r.key_step, r.keys);
}
// The same of (heads, all) as (sequences, heads, length).
Tensor sum_batch(const Tensor& t, const Sequences& s, const Run& r) {
  return make_tensor(t.storage(), Dims{r.count, t.sizes()[0], r.queries},
                     Dims{r.queries, t.strides()[0], t.strides()[1]},
                     t.offset() + s.query_bounds[size_t(r.first)] * t.strides()[1], t.dtype());
}

Tensor unit_rows(const Tensor& x) {
  return x.sizes().back() <= 1 || x.strides().back() == 1 ? x : contiguous_data(x);
}

// Windows for devices whose kernels know masks only. All sequences share one line of bools, read
// from another place by each query: memory grows with the length of the longest one.
class Windows {
 public:
  Windows(const Sequences& s, const Tensor& like) : s_(s) {
    if (s.everywhere() || attention_loops(like).knows_windows) return;
    for (int64_t i = 0; i < s.count(); ++i) reach_ = std::max({reach_, s.queries(i), s.keys(i)});
    const Tensor line = make_tensor(Dims{2 * reach_ + 1}, DType::Bool);
    for (int64_t d = -reach_; d <= reach_; ++d)
      line.data<bool>()[d + reach_] = (s.left < 0 || d >= -s.left) && (s.right < 0 || d <= s.right);
    line_ = placed(line, like.device());
  }

  AttentionOptions options(double scale, const Run& r) const {
    AttentionOptions o{scale, is_causal(r), 0, {}};
    o.varied = s_.count() > r.count;
    const int64_t shift = r.keys - r.queries;
    if (s_.left >= 0) o.before = s_.left - shift;
    if (s_.right >= 0) o.after = s_.right + shift;
    return o;
  }
  Tensor mask(const Run& r, int64_t heads) const {
    if (!line_.defined() || is_causal(r)) return {};
    return make_tensor(line_.storage(), Dims{r.count, heads, r.queries, r.keys}, Dims{0, 0, -1, 1},
                       line_.offset() + reach_ - (r.keys - r.queries), DType::Bool);
  }

 private:
  bool is_causal(const Run& r) const { return s_.left < 0 && s_.right == 0 && r.queries == r.keys; }
  const Sequences& s_;
  int64_t reach_ = 0;
  Tensor line_;
};

// The same over ops, for derivatives and devices that the kernels do not serve.
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& s, double scale,
                std::vector<Tensor>* sums = nullptr) {
  std::vector<Tensor> outs;
  const auto piece = [](const Tensor& t, int64_t start, int64_t length) {
    return permute(narrow(t, 0, wrap_number(start), length), Dims{1, 0, 2});
  };
  for (int64_t i = 0; i < s.count(); ++i) {
    const int64_t queries = s.queries(i), keys = s.keys(i);
    const Tensor own = piece(q, s.query_bounds[size_t(i)], queries);
    const Tensor seen = piece(k, s.key_starts[size_t(i)], keys);
    Tensor mask;
    if (!s.everywhere()) {
      mask = ones(Dims{queries, keys}, DType::Bool, std::nullopt, q.device());
      if (s.right >= 0) mask = tril(mask, keys - queries + s.right);
      if (s.left >= 0) mask = triu(mask, keys - queries - s.left);
    }
    outs.push_back(
        permute(scaled_dot_product_attention(own, seen, piece(v, s.key_starts[size_t(i)], keys),
                                             mask, 0.0, false, scale, true),
                Dims{1, 0, 2}));
    if (!sums) continue;
    const int64_t group = q.sizes()[1] / std::max<int64_t>(k.sizes()[1], 1);
    Tensor scores =
        matmul(own, transpose(repeat_interleave(seen, group, int64_t(0)), -2, -1)) * Scalar(scale);
    if (mask.defined()) scores = masked_fill(scores, logical_not(mask), wrap_number(-INFINITY));
    sums->push_back(keys > 0 ? logsumexp(scores, Dims{-1}, false)
                             : full(Dims{q.sizes()[1], queries}, -INFINITY, q.dtype(), std::nullopt,
                                    q.device()));
  }
  return outs.empty() ? new_zeros(q, Dims{0, q.sizes()[1], v.sizes()[2]}, std::nullopt,
                                  std::nullopt, std::nullopt, false, false)
                      : cat(outs, 0);
}

void check_bounds(const Tensor& q, const Tensor& k, const Sequences& s) {
  check_argument(!s.query_bounds.empty() && s.query_bounds.size() == s.key_starts.size() + 1 &&
                     s.key_starts.size() == s.key_lengths.size(),
                 kName,
                 "cu_seq_q and cu_seq_k must have one more element than there are sequences, "
                 "got bounds for ",
                 int64_t(s.query_bounds.size()) - 1, " and ", s.key_lengths.size());
  check_argument(s.query_bounds[0] == 0 && s.query_bounds.back() == q.sizes()[0], kName,
                 "cu_seq_q must go from 0 to the number of queries, ", q.sizes()[0], ", got ",
                 s.query_bounds[0], " to ", s.query_bounds.back());
  int64_t end = 0;
  for (int64_t i = 0; i < s.count(); ++i) {
    check_argument(s.queries(i) >= 0, kName, "cu_seq_q must not fall, but goes from ",
                   s.query_bounds[size_t(i)], " to ", s.query_bounds[size_t(i) + 1]);
    const int64_t start = s.key_starts[size_t(i)], length = s.keys(i);
    check_argument(start >= end && length >= 0 && length <= k.sizes()[0] - start, kName,
                   "sequence ", i, " has ", length, " keys from ", start, " on; they must follow ",
                   end, " and end by ", k.sizes()[0], ", the number of keys");
    end = start + length;
  }
}

void check_tensors(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_shape(q.dim() == 3 && k.dim() == 3 && v.dim() == 3, kName,
              "query, key and value must be (tokens, heads, size), got shapes ", q.sizes(), ", ",
              k.sizes(), " and ", v.sizes());
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), ErrorKind::Runtime, kName,
        "query, key and value must have the same dtype, got ", q.dtype(), ", ", k.dtype(), " and ",
        v.dtype());
  check_dtype(is_floating(q.dtype()), kName, "not implemented for ", q.dtype(), " tensors");
  common_device(kName, {&q, &k, &v});
  check_shape(q.sizes()[2] == k.sizes()[2], kName,
              "query and key must have the same size in their last dim, got shapes ", q.sizes(),
              " and ", k.sizes());
  check_shape(k.sizes()[0] == v.sizes()[0] && k.sizes()[1] == v.sizes()[1], kName,
              "key and value must have the same tokens and heads, got shapes ", k.sizes(), " and ",
              v.sizes());
  check_shape(k.sizes()[1] > 0 && q.sizes()[1] % k.sizes()[1] == 0, kName,
              "the heads of key must divide those of query, got shapes ", q.sizes(), " and ",
              k.sizes());
}

}  // namespace

struct VarlenKernelBackward {
  static constexpr const char* name = "varlen_attn_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static std::array<Spec, 3> check(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Tensor&, const Tensor&, IntList, IntList, IntList, double,
                                   int64_t, int64_t) {
    const auto like = [](const Tensor& t) { return Spec{t.sizes(), t.dtype(), t.device()}; };
    return {like(q), like(k), like(v)};
  }
  static void run(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& out, const Tensor& lse, IntList query_bounds, IntList key_starts,
                  IntList key_lengths, double scale, int64_t left, int64_t right, const Tensor& gq,
                  const Tensor& gk, const Tensor& gv) {
    const Sequences s{query_bounds, key_starts, key_lengths, left, right};
    const Windows windows(s, q);
    // Keys of no sequence, and those of sequences without queries, are looked at by nobody.
    fill_data(gk, 0), fill_data(gv, 0);
    const Tensor own = unit_rows(g), from[] = {unit_rows(q), unit_rows(k), unit_rows(v)};
    for_runs(s, [&](const Run& r) {
      if (r.keys == 0) return fill_data(query_batch(gq, s, r), 0);
      const Tensor sums = contiguous_data(sum_batch(lse, s, r));
      attention_loops(q).backward(windows.options(scale, r), query_batch(own, s, r),
                                  query_batch(from[0], s, r), key_batch(from[1], s, r),
                                  key_batch(from[2], s, r), windows.mask(r, q.sizes()[1]),
                                  query_batch(out, s, r), sums, query_batch(gq, s, r),
                                  key_batch(gk, s, r), key_batch(gv, s, r));
    });
  }
};

struct VarlenKernel {
  static constexpr const char* name = kName;
  static constexpr bool any_device = true;
  static constexpr bool takes_undefined = true;
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& q, const Tensor&, const Tensor& v, IntList,
                                   IntList, IntList, double, int64_t, int64_t) {
    return {Spec{Dims{q.sizes()[0], q.sizes()[1], v.sizes()[2]}, q.dtype(), q.device()},
            Spec{Dims{q.sizes()[1], q.sizes()[0]}, attention_accumulator(q.dtype()), q.device()}};
  }
  static void run(const Tensor& q, const Tensor& k, const Tensor& v, IntList query_bounds,
                  IntList key_starts, IntList key_lengths, double scale, int64_t left,
                  int64_t right, const Tensor& out, const Tensor& lse) {
    const Sequences s{query_bounds, key_starts, key_lengths, left, right};
    const Windows windows(s, q);
    const Tensor from[] = {unit_rows(q), unit_rows(k), unit_rows(v)};
    for_runs(s, [&](const Run& r) {
      const Tensor to = query_batch(out, s, r), sums = sum_batch(lse, s, r);
      if (r.keys == 0 || to.numel() == 0) {
        fill_data(to, 0);
        return fill_data(sums, -INFINITY);
      }
      const Tensor own = make_tensor(sums.sizes(), lse.dtype(), lse.device());
      attention_loops(q).forward(windows.options(scale, r), query_batch(from[0], s, r),
                                 key_batch(from[1], s, r), key_batch(from[2], s, r),
                                 windows.mask(r, q.sizes()[1]), to, own);
      copy_data(sums, own);
    });
  }
  static constexpr uint32_t all = in(0) | in(1) | in(2) | kOut;
  static constexpr uint32_t needs[] = {all, all, all};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& q, const Tensor& k, const Tensor& v,
                    IntList query_bounds, IntList key_starts, IntList key_lengths, double scale,
                    int64_t left, int64_t right) {
    const Tensor& g = grads[0];
    if (!g.defined()) return Grads(3);
    if (is_differentiated(g, q, k, v) || g.is_batched()) {
      const Sequences s{query_bounds, key_starts, key_lengths, left, right};
      return composed_grads(c, grads.first(1), {q, k, v}, [&](TensorList own) {
        return std::vector<Tensor>{composed(own[0], own[1], own[2], s, scale)};
      });
    }
    auto [gq, gk, gv] = _varlen_kernel_backward(g, q, k, v, c.out(0), c.out(1), query_bounds,
                                                key_starts, key_lengths, scale, left, right);
    return {c.wants(0) ? gq : Tensor(), c.wants(1) ? gk : Tensor(), c.wants(2) ? gv : Tensor()};
  }
};

struct VarlenAttention {
  static constexpr const char* name = kName;
  static std::tuple<Tensor, Tensor> call(const Tensor& q, const Tensor& k, const Tensor& v,
                                         IntList query_bounds, IntList key_starts,
                                         IntList key_lengths, double scale, int64_t before,
                                         int64_t after) {
    // No sequence is longer; sums with lengths do not overflow.
    constexpr int64_t kFar = int64_t(1) << 48;
    const int64_t left = std::min(before, kFar), right = std::min(after, kFar);
    const Sequences s{query_bounds, key_starts, key_lengths, left, right};
    check_tensors(q, k, v);
    check_bounds(q, k, s);
    check_argument(left >= -1 && right >= -1, kName, "window_size must be -1 or more, got (", left,
                   ", ", right, ")");
    bool by_ops = false;
    for (const Tensor* t : {&q, &k, &v})
      by_ops |= t->is_batched() || (forward_active() && has_tangent(*t));
    const bool plain = s.everywhere() || attention_loops(q).knows_windows;
    const AttentionCase wanted{q.dtype(), q.sizes()[2], v.sizes()[2], plain, attention_backends()};
    if (!q.is_meta() && !takes_attention(q, wanted)) by_ops = true;
    if (!by_ops)
      return _varlen_kernel(q, k, v, query_bounds, key_starts, key_lengths, scale, left, right);
    std::vector<Tensor> sums;
    const Tensor out = composed(q, k, v, s, scale, &sums);
    const Tensor lse = sums.empty() ? zeros(Dims{q.sizes()[1], 0}, q.dtype(), {}, q.device())
                                    : detach(cat(sums, 1));
    return {out, cast(lse, attention_accumulator(q.dtype()))};
  }
};

}  // namespace rush

#include "ops/varlen_attention.inc"
