// Recurrent networks and cells on devices with loops of their own for them (device/nn/rnn.h). As
// in rnn_layer.cpp, derivatives of the backward pass come from the same network over ops.
#include "autograd/running_task.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/nn/rnn_layer.h"

namespace rush {

namespace {

// Is the backward pass itself differentiated, in either mode?
bool wants_derivative(TensorList in, GradSpan grads) {
  return grad_enabled() || (forward_active() && (op::any_tangent(in) || op::any_tangent(grads)));
}

Tensor ready(const Tensor& t) { return t.defined() ? contiguous_data(t) : t; }
Tensor fresh_like(const Tensor& t) { return make_tensor(t.sizes(), t.dtype(), t.device()); }

}  // namespace

RnnNetwork rnn_network(const Tensor& x, TensorList params, RnnMode mode, IntList batch_sizes,
                       bool has_biases, int64_t layers, bool bidirectional) {
  const Tensor& w_state = params[1];
  const int64_t each = int64_t(params.size()) / (layers * (bidirectional ? 2 : 1));
  return {.mode = mode,
          .batch_sizes = batch_sizes,
          .has_biases = has_biases,
          .bidirectional = bidirectional,
          .projects = each > (has_biases ? 4 : 2),
          .layers = layers,
          .inputs = x.sizes()[1],
          .hidden = w_state.sizes()[0] / rnn_gates(mode),
          .outputs = w_state.sizes()[1],
          .dtype = x.dtype(),
          .device = x.device()};
}

struct RnnNetwork_ {
  static constexpr const char* name = "rnn";
  static constexpr bool any_device = true;
  static constexpr bool takes_undefined = true;
  static constexpr uint32_t non_differentiable = 0b1000;

  static std::array<Spec, 4> check(const Tensor& x, const Tensor& hx, const Tensor& cx,
                                   TensorList params, int64_t mode, IntList batch_sizes,
                                   bool has_biases, int64_t layers, bool bidirectional) {
    const RnnNetwork n =
        rnn_network(x, params, RnnMode(mode), batch_sizes, has_biases, layers, bidirectional);
    const int64_t states = layers * n.directions(), batch = batch_sizes[0];
    const bool keep = grad_enabled() && op::any_requires_grad(x, hx, cx, params);
    const auto spec = [&](const Dims& sizes, DType dtype) {
      return Spec{sizes, dtype, x.device()};
    };
    return {spec({x.sizes()[0], n.outputs * n.directions()}, x.dtype()),
            spec({states, batch, n.outputs}, x.dtype()),
            spec(n.mode == RnnMode::Lstm ? Dims{states, batch, n.hidden} : Dims{0}, x.dtype()),
            spec({keep ? rnn_loops(x).network_reserve(n) : 0}, DType::UInt8)};
  }
  static void run(const Tensor& x, const Tensor& hx, const Tensor& cx, TensorList params,
                  int64_t mode, IntList batch_sizes, bool has_biases, int64_t layers,
                  bool bidirectional, const Tensor& y, const Tensor& h, const Tensor& c,
                  const Tensor& reserve) {
    const RnnNetwork n =
        rnn_network(x, params, RnnMode(mode), batch_sizes, has_biases, layers, bidirectional);
    const std::vector<Tensor> own = all_ready(params);
    rnn_loops(x).network_forward(n, {ready(x), ready(hx), ready(cx), own, y, h, c, reserve});
  }

  static constexpr uint32_t needs[] = {0xf | result(0) | result(3)};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& x, const Tensor& hx,
                    const Tensor& cx, TensorList params, int64_t mode, IntList batch_sizes,
                    bool has_biases, int64_t layers, bool bidirectional) {
    const size_t count = 3 + params.size();
    const GradSpan given = grads.first(3);
    if (!given[0].defined() && !given[1].defined() && !given[2].defined()) return Grads(count);
    std::vector<Tensor> in = {x, hx, cx};
    in.insert(in.end(), params.begin(), params.end());
    if (wants_derivative(in, given))
      return composed_grads(c, given, in, [&](TensorList own) {
        return composed_rnn_network(own, RnnMode(mode), batch_sizes, has_biases, layers,
                                    bidirectional);
      });
    const RnnNetwork n =
        rnn_network(x, params, RnnMode(mode), batch_sizes, has_biases, layers, bidirectional);
    Grads out(count);
    // Gradients of weights go through those of inputs, which are computed in any case.
    out[0] = fresh_like(x);
    for (size_t i = 1; i < count; ++i)
      if (c.wants(i)) out[i] = fresh_like(in[i]);
    const std::vector<Tensor> own = all_ready(params);
    // A graph that is kept may be walked again, and the library writes into its reserve.
    const RunningTask* task = RunningTask::current();
    const Tensor reserve = task && !task->keeps_graph() ? c.out(3) : clone_data(c.out(3));
    Tensor g = ready(given[0]);
    if (!g.defined()) fill_data(g = fresh_like(c.out(0)), 0);
    rnn_loops(x).network_backward(
        n, {ready(x), ready(hx), ready(cx), own, c.out(0), Tensor(), Tensor(), reserve},
        {g, ready(given[1]), ready(given[2]), out[0], out[1], out[2],
         std::span<const Tensor>(out.data() + 3, params.size())});
    if (!c.wants(0)) out[0] = Tensor();
    return out;
  }

 private:
  static std::vector<Tensor> all_ready(TensorList ts) {
    std::vector<Tensor> out;
    for (const Tensor& t : ts) out.push_back(ready(t));
    return out;
  }
};

// ---- cells ----

namespace {

bool keeps(TensorList in) { return grad_enabled() && op::any_requires_grad(in); }

// The two cells differ in their gates, and in which state comes before.
template <RnnMode mode>
struct CellGates {
  static constexpr bool any_device = true;
  static constexpr bool takes_undefined = true;
  static Spec kept_spec(const Tensor& sums, const Tensor& b_ih, const Tensor& b_hh,
                        const Tensor& state_sums, const Tensor& before) {
    const Tensor in[] = {sums, state_sums, b_ih, b_hh, before};
    const int64_t units = before.sizes()[1];
    return {keeps(TensorList(in, 5)) ? Dims{before.sizes()[0], 4 * units} : Dims{0},
            compute_type(sums.dtype()), sums.device()};
  }

  static Grads grad(const Ctx& c, GradSpan given, const Tensor& sums, const Tensor& state_sums,
                    const Tensor& b_ih, const Tensor& b_hh, const Tensor& before,
                    const CellTensors& saved) {
    bool any = false;
    for (const Tensor& g : given) any |= g.defined();
    if (!any) return Grads(5);
    const std::vector<Tensor> in = {sums, state_sums, b_ih, b_hh, before};
    if (wants_derivative(in, given))
      return composed_grads(c, given, in, [](TensorList own) {
        return composed_cell(mode, own[0], own[1], own[2], own[3], own[4]);
      });
    Grads out(5);
    out[0] = make_tensor(sums.sizes(), sums.dtype(), sums.device());
    // The state's sums differ only for the GRU's new gate.
    if (mode == RnnMode::Gru) out[1] = fresh_like(out[0]);
    if (c.wants(4)) out[4] = make_tensor(before.sizes(), before.dtype(), before.device());
    rnn_loops(sums).cell_backward(
        mode, saved,
        {ready(given[0]), mode == RnnMode::Lstm ? ready(given[1]) : Tensor(), out[0], out[1],
         out[4]});
    if (mode == RnnMode::Lstm) out[1] = out[0];
    if (c.wants(2)) out[2] = sum(out[0], Dims{0});
    if (c.wants(3))
      out[3] = mode == RnnMode::Lstm && out[2].defined() ? out[2] : sum(out[1], Dims{0});
    return out;
  }
};

}  // namespace

struct LstmGates : CellGates<RnnMode::Lstm> {
  static constexpr const char* name = "lstm_cell";
  static constexpr uint32_t non_differentiable = 0b100;
  static std::array<Spec, 3> check(const Tensor& sums, const Tensor& state_sums, const Tensor& b_ih,
                                   const Tensor& b_hh, const Tensor& c) {
    const Spec state{c.sizes(), c.dtype(), c.device()};
    return {state, state, kept_spec(sums, b_ih, b_hh, state_sums, c)};
  }
  static void run(const Tensor& sums, const Tensor& state_sums, const Tensor& b_ih,
                  const Tensor& b_hh, const Tensor& c, const Tensor& h, const Tensor& next_c,
                  const Tensor& kept) {
    if (h.numel() == 0) return;
    rnn_loops(sums).cell(RnnMode::Lstm, {ready(sums), ready(state_sums), ready(b_ih), ready(b_hh),
                                         ready(c), h, next_c, kept});
  }
  static constexpr uint32_t needs[] = {0x1f | result(1) | result(2)};
  static Grads grad(const Ctx& ctx, GradSpan grads, const Tensor& sums, const Tensor& state_sums,
                    const Tensor& b_ih, const Tensor& b_hh, const Tensor& c) {
    return CellGates::grad(
        ctx, grads.first(2), sums, state_sums, b_ih, b_hh, c,
        {Tensor(), Tensor(), Tensor(), Tensor(), ready(c), Tensor(), ctx.out(1), ctx.out(2)});
  }
};

struct GruGates : CellGates<RnnMode::Gru> {
  static constexpr const char* name = "gru_cell";
  static constexpr uint32_t non_differentiable = 0b10;
  static std::array<Spec, 2> check(const Tensor& sums, const Tensor& state_sums, const Tensor& b_ih,
                                   const Tensor& b_hh, const Tensor& h) {
    return {Spec{h.sizes(), h.dtype(), h.device()}, kept_spec(sums, b_ih, b_hh, state_sums, h)};
  }
  static void run(const Tensor& sums, const Tensor& state_sums, const Tensor& b_ih,
                  const Tensor& b_hh, const Tensor& h, const Tensor& next_h, const Tensor& kept) {
    if (next_h.numel() == 0) return;
    rnn_loops(sums).cell(RnnMode::Gru, {ready(sums), ready(state_sums), ready(b_ih), ready(b_hh),
                                        ready(h), next_h, Tensor(), kept});
  }
  static constexpr uint32_t needs[] = {0x1f | result(1)};
  static Grads grad(const Ctx& ctx, GradSpan grads, const Tensor& sums, const Tensor& state_sums,
                    const Tensor& b_ih, const Tensor& b_hh, const Tensor& h) {
    return CellGates::grad(
        ctx, grads.first(1), sums, state_sums, b_ih, b_hh, h,
        {Tensor(), Tensor(), Tensor(), Tensor(), ready(h), Tensor(), Tensor(), ctx.out(1)});
  }
};

}  // namespace rush

#include "ops/rnn_network.inc"
