#include "cuda/vendor/cudnn_attention.h"

#include <limits>

#include "cuda/runtime/launch.h"
#include "cuda/runtime/settings.h"
#include "cuda/vendor/cudnn_operations.h"
#include "cuda/vendor/plan_cache.h"

namespace rush::cuda::dnn {
namespace {

// Everything that a plan depends on.
struct Geometry {
  int64_t backward, dtype, device, causal, deterministic;
  int64_t batch, heads, key_heads, queries, keys, width, value_width;
  int64_t q[3], k[3], v[3], out[3], g[3], gq[3], gk[3], gv[3];  // strides: batch, head, row
  bool operator==(const Geometry& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};

// A dim of one element may have any stride; cuDNN wants a usual one.
void set_strides(int64_t (&to)[3], const HeadSteps& s, int64_t batch, int64_t heads, int64_t rows,
                 int64_t width) {
  to[2] = rows > 1 ? s.row : width;
  to[1] = heads > 1 ? s.head : rows * to[2];
  to[0] = batch > 1 ? s.batch : heads * to[1];
}

Geometry geometry_of(const AttentionArgs& a, int64_t batch, DType dtype, int device) {
  Geometry x{};
  x.backward = a.g != nullptr;
  x.dtype = int64_t(dtype);
  x.device = device;
  x.causal = a.causal;
  x.deterministic = x.backward && settings().wants_repeatable();
  x.batch = batch;
  x.heads = a.heads;
  x.key_heads = a.heads / a.group;
  x.queries = a.queries;
  x.keys = a.keys;
  x.width = a.width;
  x.value_width = a.value_width;
  set_strides(x.q, a.q_steps, batch, x.heads, x.queries, x.width);
  set_strides(x.k, a.k_steps, batch, x.key_heads, x.keys, x.width);
  set_strides(x.v, a.v_steps, batch, x.key_heads, x.keys, x.value_width);
  set_strides(x.out, a.out_steps, batch, x.heads, x.queries, x.value_width);
  if (!x.backward) return x;
  set_strides(x.g, a.g_steps, batch, x.heads, x.queries, x.value_width);
  set_strides(x.gq, a.gq_steps, batch, x.heads, x.queries, x.width);
  set_strides(x.gk, a.gk_steps, batch, x.key_heads, x.keys, x.width);
  set_strides(x.gv, a.gv_steps, batch, x.key_heads, x.keys, x.value_width);
  return x;
}

using Value = GraphBuilder::Value;
using Mode = PointwiseMode;

// A plan, and what its tensors are called; what a pass does not have stays 0.
struct AttentionPlan {
  Value q, k, v, out, lse, scale, hidden;
  Value g, gq, gk, gv, one, delta, gq_sum;
  std::vector<Plan> best;  // one, or none
};

// The parts that both passes have in common.
class AttentionGraph {
 public:
  explicit AttentionGraph(const Geometry& geometry)
      : x(geometry), io(data_type(DType(geometry.dtype))) {}

 protected:
  Shape4 scores() const { return {x.batch, x.heads, x.queries, x.keys}; }
  Shape4 per_query() const { return {x.batch, x.heads, x.queries, 1}; }
  Value rows(int64_t heads, int64_t length, int64_t width, const int64_t (&s)[3]) {
    return graph.memory(io, {x.batch, heads, length, width}, {s[0], s[1], s[2], 1});
  }
  Value columns(int64_t length, int64_t width, const int64_t (&s)[3]) {  // of keys, transposed
    return graph.memory(io, {x.batch, x.key_heads, width, length}, {s[0], s[1], 1, s[2]});
  }
  Value scaled_scores(AttentionPlan& p) {
    p.scale = graph.number();
    const Value s = graph.between(kFloat, scores());
    graph.matmul(p.q, p.k, s);
    return graph.pointwise(Mode::Mul, {.x = s, .b = p.scale});
  }
  // Queries see the keys up to their own position.
  Value hide_later_keys(AttentionPlan& p, Value s) {
    if (!x.causal) return s;
    p.hidden = graph.number();
    const Value row = graph.pointwise(Mode::Index, {.x = s, .axis = 2}, kInt32);
    const Value col = graph.pointwise(Mode::Index, {.x = s, .axis = 3}, kInt32);
    const Value seen =
        graph.pointwise(Mode::GreaterEqual, {.x = row, .b = col}, kBoolean, kBoolean);
    return graph.pointwise(Mode::Select, {.x = s, .b = p.hidden, .t = seen});
  }
  void plan(AttentionPlan& p) {
    const Conditions conditions{.deterministic = x.deterministic != 0,
                                .most_workspace = int64_t(4) << 30,
                                .compiling_is_fine = true};
    p.best = graph.plan(handle(int(x.device)), conditions);
  }

  const Geometry& x;
  const DataType io;
  GraphBuilder graph;
};

class ForwardGraph : AttentionGraph {
 public:
  using AttentionGraph::AttentionGraph;
  AttentionPlan make() {
    AttentionPlan p;
    p.q = rows(x.heads, x.queries, x.width, x.q);
    p.k = columns(x.keys, x.width, x.k);
    p.v = rows(x.key_heads, x.keys, x.value_width, x.v);
    const Value s = hide_later_keys(p, scaled_scores(p));
    const Value largest = graph.between(kFloat, per_query()),
                sum = graph.between(kFloat, per_query());
    graph.reduce(ReductionMode::Max, s, largest);
    const Value e =
        graph.pointwise(Mode::Exp, {.x = graph.pointwise(Mode::Sub, {.x = s, .b = largest})});
    graph.reduce(ReductionMode::Add, e, sum);
    p.lse = graph.memory(kFloat, per_query(), contiguous_strides(per_query()));
    graph.pointwise(Mode::Add, {.x = largest, .b = graph.pointwise(Mode::Log, {.x = sum})}, p.lse);
    const Value weights = graph.pointwise(Mode::Div, {.x = e, .b = sum}, io);
    p.out = rows(x.heads, x.queries, x.value_width, x.out);
    graph.matmul(weights, p.v, p.out);
    plan(p);
    return p;
  }
};

class BackwardGraph : AttentionGraph {
 public:
  using AttentionGraph::AttentionGraph;
  AttentionPlan make() {
    AttentionPlan p;
    p.q = rows(x.heads, x.queries, x.width, x.q);
    p.k = columns(x.keys, x.width, x.k);
    p.v = columns(x.keys, x.value_width, x.v);
    p.out = rows(x.heads, x.queries, x.value_width, x.out);
    p.g = rows(x.heads, x.queries, x.value_width, x.g);
    p.lse = graph.memory(kFloat, per_query(), contiguous_strides(per_query()));
    p.one = graph.number();
    p.delta = graph.memory(kFloat, per_query(), contiguous_strides(per_query()));
    const Value total = graph.between(kFloat, per_query());
    graph.reduce(ReductionMode::Add, graph.pointwise(Mode::Mul, {.x = p.g, .b = p.out}), total);
    graph.pointwise(Mode::Mul, {.x = total, .b = p.one}, p.delta);

    const Value shifted = graph.pointwise(Mode::Sub, {.x = scaled_scores(p), .b = p.lse});
    const Value weights = graph.pointwise(Mode::Exp, {.x = hide_later_keys(p, shifted)});
    p.gv = rows(x.key_heads, x.keys, x.value_width, x.gv);
    key_gradient(weights, p.g, x.value_width, p.gv);

    Value ds = graph.between(kFloat, scores());
    graph.matmul(p.g, p.v, ds);
    ds = graph.pointwise(Mode::Sub, {.x = ds, .b = p.delta});
    ds = graph.pointwise(Mode::Mul, {.x = ds, .b = weights});
    ds = graph.pointwise(Mode::Mul, {.x = ds, .b = p.scale});
    p.gk = rows(x.key_heads, x.keys, x.width, x.gk);
    key_gradient(ds, p.q, x.width, p.gk);

    const Value keys =
        graph.between(io, {x.batch, x.key_heads, x.keys, x.width}, {x.k[0], x.k[1], x.k[2], 1});
    graph.reshape(p.k, keys);
    p.gq = rows(x.heads, x.queries, x.width, x.gq);
    if (x.deterministic) {  // the scores' gradient goes through memory instead of atomic sums
      graph.matmul(ds, keys, p.gq);
    } else {
      const Shape4 sizes{x.batch, x.heads, x.queries, x.width};
      p.gq_sum = graph.memory(kFloat, sizes, contiguous_strides(sizes));
      graph.matmul(ds, keys, p.gq_sum);
      graph.pointwise(Mode::Identity, {.x = p.gq_sum}, p.gq);
    }
    plan(p);
    return p;
  }

 private:
  // rows^T @ by, added up over the heads that share keys.
  void key_gradient(Value per_score, Value by, int64_t width, Value to) {
    const int64_t area = x.queries * x.keys;
    const Value transposed =
        graph.between(io, {x.batch, x.heads, x.keys, x.queries}, {x.heads * area, area, 1, x.keys});
    graph.reshape(per_score, transposed);
    if (x.heads == x.key_heads) return graph.matmul(transposed, by, to);
    const Value each = graph.between(io, {x.batch, x.heads, x.keys, width});
    graph.matmul(transposed, by, each);
    graph.reduce(ReductionMode::Add, each, to);
  }
};

const AttentionPlan& plan_for(const Geometry& x) {
  return kept_plan<AttentionPlan>(x, [&] {
    try {
      return std::make_unique<AttentionPlan>(x.backward ? BackwardGraph(x).make()
                                                        : ForwardGraph(x).make());
    } catch (const Error&) {  // cuDNN refuses a part of the graph already: as if it had no engine
      return std::make_unique<AttentionPlan>();
    }
  });
}

Tensor scratch(int64_t count, DType dtype, int device) {
  return count ? make_tensor(Dims{count}, dtype, Device(DeviceType::CUDA, device)) : Tensor();
}
void* data_of(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

// No two elements in one place, as expanded tensors have them.
bool is_walked(const HeadSteps& s, int64_t batch, int64_t heads, int64_t rows) {
  return (batch == 1 || s.batch > 0) && (heads == 1 || s.head > 0) && (rows == 1 || s.row > 0);
}

}  // namespace

bool run_attention(const AttentionArgs& a, int64_t batch, DType dtype, int device) {
  const Geometry x = geometry_of(a, batch, dtype, device);
  const AttentionPlan& p = plan_for(x);
  if (p.best.empty()) return false;
  const Plan& plan = p.best.front();
  float scale = a.scale, one = 1, hidden = -std::numeric_limits<float>::infinity();
  const Tensor workspace = scratch(plan.workspace(), DType::UInt8, device);
  const Tensor gq_sum = scratch(p.gq_sum.defined() ? batch * x.heads * x.queries * x.width : 0,
                                DType::Float32, device);
  const std::pair<Value, const void*> all[] = {{p.q, a.q},     {p.k, a.k},
                                               {p.v, a.v},     {p.out, a.out},
                                               {p.lse, a.lse}, {p.scale, &scale},
                                               {p.one, &one},  {p.hidden, &hidden},
                                               {p.g, a.g},     {p.delta, a.delta},
                                               {p.gq, a.gq},   {p.gk, a.gk},
                                               {p.gv, a.gv},   {p.gq_sum, data_of(gq_sum)}};
  int64_t ids[std::size(all)];
  void* data[std::size(all)];
  size_t count = 0;
  for (const auto& [value, at] : all)
    if (value.defined()) ids[count] = value.id, data[count++] = const_cast<void*>(at);
  plan.run(handle(device), {ids, count}, {data, count}, data_of(workspace));
  return true;
}

bool has_attention() { return cudnn_version() >= 91000; }

bool takes_attention(const AttentionArgs& a, int64_t batch, DType dtype) {
  const int64_t key_heads = a.heads / a.group;
  return is_reduced_float(dtype) && settings().cudnn_enabled.load() && has_attention() && !a.mask &&
         a.keep == 1 && a.aligned && a.width % 8 == 0 && a.value_width % 8 == 0 &&
         is_walked(a.q_steps, batch, a.heads, a.queries) &&
         is_walked(a.k_steps, batch, key_heads, a.keys) &&
         is_walked(a.v_steps, batch, key_heads, a.keys) &&
         (!a.g || is_walked(a.g_steps, batch, a.heads, a.queries));
}

}  // namespace rush::cuda::dnn
