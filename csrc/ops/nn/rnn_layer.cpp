// One direction of one recurrent layer, fused. Where the backward pass is itself differentiated, in
// either mode, the layer is run again over ops and these are differentiated instead (a test holds
// the two equal).
#include "ops/nn/rnn_layer.h"

#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/ops.h"

namespace rush {

namespace {

Tensor prepared(const Tensor& t, DType dtype) {
  if (!t.defined()) return t;
  return contiguous_data(t.dtype() == dtype ? t : convert_data(t, dtype));
}
// Where results are computed: in `t` itself, or for the half types in a tensor of its size.
Tensor place_for(const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? t : make_tensor(t.sizes(), dtype, t.device());
}

RnnLayer layer_of(RnnMode mode, IntList batch_sizes, bool reverse, DType dtype,
                  const RnnInputs& t) {
  return {mode,
          batch_sizes,
          reverse,
          prepared(t[kInput], dtype),
          prepared(t[kH], dtype),
          prepared(t[kC], dtype),
          prepared(t[kWInput], dtype),
          prepared(t[kWState], dtype),
          prepared(t[kBInput], dtype),
          prepared(t[kBState], dtype),
          prepared(t[kWProject], dtype)};
}

const Spec& nothing(Spec& s) {
  s.sizes = Dims{0};
  return s;
}

}  // namespace

struct RnnLayerBackward {
  static constexpr const char* name = "rnn_backward";
  static constexpr bool differentiable = false;  // only called where no derivative is wanted
  static std::array<Spec, 8> check(const Tensor&, const Tensor&, const Tensor&, const Tensor& x,
                                   const Tensor&, const Tensor&, const Tensor& w_ih,
                                   const Tensor& w_hh, const Tensor& w_hr, const Tensor&,
                                   const Tensor&, const Tensor&, const Tensor&, int64_t mode,
                                   IntList batch_sizes, bool, int64_t wanted) {
    const int64_t batch = batch_sizes[0], sums = w_hh.sizes()[0];
    const int64_t hidden = sums / rnn_gates(RnnMode(mode));
    const auto spec = [&](const Dims& sizes) { return Spec{sizes, x.dtype(), x.device()}; };
    std::array<Spec, 8> out = {
        spec(x.sizes()),       spec({batch, w_hh.sizes()[1]}),
        spec({batch, hidden}), spec(w_ih.sizes()),
        spec(w_hh.sizes()),    spec({sums}),
        spec({sums}),          spec(w_hr.defined() ? w_hr.sizes() : Dims{0})};
    for (size_t i = 0; i < 8; ++i) {
      if (!(wanted >> i & 1)) nothing(out[i]);
    }
    return out;
  }
  static void run(const Tensor& output_grad, const Tensor& h_grad, const Tensor& c_grad,
                  const Tensor& x, const Tensor& hx, const Tensor& cx, const Tensor& w_ih,
                  const Tensor& w_hh, const Tensor& w_hr, const Tensor& output, const Tensor& gates,
                  const Tensor& cells, const Tensor& unprojected, int64_t mode, IntList batch_sizes,
                  bool reverse, int64_t, const Tensor& gx, const Tensor& ghx, const Tensor& gcx,
                  const Tensor& gw_ih, const Tensor& gw_hh, const Tensor& gb_ih,
                  const Tensor& gb_hh, const Tensor& gw_hr) {
    const std::array<Tensor, 8> outs = {gx, ghx, gcx, gw_ih, gw_hh, gb_ih, gb_hh, gw_hr};
    if (x.sizes()[0] == 0) {
      for (const Tensor& t : outs) fill_data(t, 0);
      return;
    }
    const DType dtype = compute_type(x.dtype());
    std::array<Tensor, 8> to;
    for (size_t i = 0; i < 8; ++i) to[i] = place_for(outs[i], dtype);
    rnn_loops(x).layer_backward(
        layer_of(RnnMode(mode), batch_sizes, reverse, dtype,
                 {x, hx, cx, w_ih, w_hh, Tensor(), Tensor(), w_hr}),
        prepared(output, dtype), {gates, cells, unprojected},
        {prepared(output_grad, dtype), prepared(h_grad, dtype), prepared(c_grad, dtype)},
        {to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7]});
    for (size_t i = 0; i < 8; ++i) {
      if (!to[i].is_same(outs[i])) copy_data(outs[i], to[i]);
    }
  }
};

struct RnnLayer_ {
  static constexpr const char* name = "rnn";
  static constexpr bool takes_undefined = true;
  static constexpr uint32_t non_differentiable = 0b111000;
  static std::array<Spec, 6> check(const Tensor& x, const Tensor& hx, const Tensor& cx,
                                   const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                                   const Tensor& b_hh, const Tensor& w_hr, int64_t mode_number,
                                   IntList batch_sizes, bool) {
    const RnnMode mode = RnnMode(mode_number);
    const int64_t rows = x.sizes()[0], batch = batch_sizes[0], outputs = w_hh.sizes()[1];
    const int64_t hidden = w_hh.sizes()[0] / rnn_gates(mode);
    const bool keep =
        grad_enabled() && op::any_requires_grad(x, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr);
    const bool lstm = mode == RnnMode::Lstm;
    const auto kept = [&](bool wanted, int64_t numbers) {
      return Spec{wanted && keep ? Dims{rows, numbers} : Dims{0}, compute_type(x.dtype()),
                  x.device()};
    };
    return {Spec{Dims{rows, outputs}, x.dtype(), x.device()},
            Spec{Dims{batch, outputs}, x.dtype(), x.device()},
            Spec{lstm ? Dims{batch, hidden} : Dims{0}, x.dtype(), x.device()},
            kept(rnn_kept(mode) > 0, rnn_kept(mode) * hidden),
            kept(lstm, hidden),
            kept(w_hr.defined(), hidden)};
  }
  static void run(const Tensor& x, const Tensor& hx, const Tensor& cx, const Tensor& w_ih,
                  const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, const Tensor& w_hr,
                  int64_t mode, IntList batch_sizes, bool reverse, const Tensor& output,
                  const Tensor& h, const Tensor& c, const Tensor& gates, const Tensor& cells,
                  const Tensor& unprojected) {
    if (x.sizes()[0] == 0) return;
    const DType dtype = compute_type(x.dtype());
    const Tensor to[] = {place_for(output, dtype), place_for(h, dtype), place_for(c, dtype)};
    rnn_loops(x).layer_forward(layer_of(RnnMode(mode), batch_sizes, reverse, dtype,
                                        {x, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr}),
                               to[0], to[1], to[2], {gates, cells, unprojected});
    if (to[0].is_same(output)) return;
    copy_data(output, to[0]);
    copy_data(h, to[1]);
    copy_data(c, to[2]);
  }

  // Not the last states: programs write to them between steps (h *= mask).
  static constexpr uint32_t needs[] = {0xff | result(0) | result(3) | result(4) | result(5)};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& x, const Tensor& hx,
                    const Tensor& cx, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                    const Tensor& b_hh, const Tensor& w_hr, int64_t mode, IntList batch_sizes,
                    bool reverse) {
    const Tensor &g = grads[0], &gh = grads[1], &gc = grads[2];
    if (!g.defined() && !gh.defined() && !gc.defined()) return Grads(8);
    const RnnInputs in = {x, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr};
    const bool tangents =
        forward_active() && (op::any_tangent(TensorList(in)) || op::any_tangent(grads));
    if (grad_enabled() || tangents)
      return composed_grads(c, grads.first(3), std::vector<Tensor>(in.begin(), in.end()),
                            [&](TensorList own) {
                              RnnInputs each;
                              std::copy(own.begin(), own.end(), each.begin());
                              const std::array<Tensor, 3> outs =
                                  composed_rnn_layer(each, RnnMode(mode), batch_sizes, reverse);
                              return std::vector<Tensor>(outs.begin(), outs.end());
                            });
    int64_t wanted = 0;
    for (size_t i = 0; i < 8; ++i) wanted |= int64_t(c.wants(i)) << i;
    auto found = _rnn_layer_backward(g, gh, gc, x, hx, cx, w_ih, w_hh, w_hr, c.out(0), c.out(3),
                                     c.out(4), c.out(5), mode, batch_sizes, reverse, wanted);
    return std::apply(
        [&](auto&... t) {
          Grads out;
          (out.push_back(t), ...);
          for (size_t i = 0; i < 8; ++i) {
            if (!c.wants(i)) out[i] = Tensor();
          }
          return out;
        },
        found);
  }
};

}  // namespace rush

#include "ops/rnn_layer.inc"
