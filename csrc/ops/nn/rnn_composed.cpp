// Recurrent networks over ops.
#include "autograd/engine.h"
#include "core/interrupt.h"
#include "ops/framework/operators.h"
#include "ops/nn/rnn_layer.h"

namespace rush {

namespace {

Tensor rows_of(const Tensor& t, int64_t begin, int64_t end) {
  return narrow(t, 0, wrap_number(begin), end - begin);
}
// Rows of the sequences that go on: those that begin join them, those that ended leave.
Tensor carried(const Tensor& state, const Tensor& initial, int64_t before, int64_t now) {
  if (before == 0) return rows_of(initial, 0, now);
  if (now == before) return state;
  if (now < before) return rows_of(state, 0, now);
  return cat(std::vector<Tensor>{state, rows_of(initial, before, now)}, 0);
}
// What ended last has the lower rows.
Tensor joined(std::vector<Tensor> ended) {
  std::reverse(ended.begin(), ended.end());
  return ended.size() == 1 ? ended[0] : cat(ended, 0);
}
Tensor with_bias(const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : x; }

struct State {
  Tensor h, c;
};

State next_state(RnnMode mode, const Tensor& x, const Tensor& u, const State& s,
                 const Tensor& w_project) {
  if (mode == RnnMode::Tanh) return {tanh(x + u), s.c};
  if (mode == RnnMode::Relu) return {relu(x + u), s.c};
  if (mode == RnnMode::Lstm) {
    const std::vector<Tensor> gates = chunk(x + u, 4, -1);
    const Tensor c = sigmoid(gates[1]) * s.c + sigmoid(gates[0]) * tanh(gates[2]);
    const Tensor h = sigmoid(gates[3]) * tanh(c);
    return {w_project.defined() ? matmul(h, transpose(w_project, 0, 1)) : h, c};
  }
  const std::vector<Tensor> in = chunk(x, 3, -1), state = chunk(u, 3, -1);
  const Tensor reset = sigmoid(in[0] + state[0]), update = sigmoid(in[1] + state[1]);
  const Tensor fresh = tanh(in[2] + reset * state[2]);
  return {fresh + update * (s.h - fresh), s.c};
}

}  // namespace

std::array<Tensor, 3> composed_rnn_layer(const RnnInputs& in, RnnMode mode, IntList batch_sizes,
                                         bool reverse) {
  const RnnSteps steps(batch_sizes, reverse);
  const Tensor &x = in[kInput], &w = in[kWState];
  const int64_t batch = batch_sizes[0], count = steps.count();
  const bool lstm = mode == RnnMode::Lstm;
  const auto initial = [&](const Tensor& given, int64_t size) {
    return given.defined() ? given : zeros(Dims{batch, size}, x.dtype(), {}, x.device());
  };
  const Tensor h0 = initial(in[kH], w.sizes()[1]);
  const Tensor c0 = lstm ? initial(in[kC], w.sizes()[0] / 4) : Tensor();
  const Tensor w_state = transpose(w, 0, 1);
  const Tensor sums = with_bias(matmul(x, transpose(in[kWInput], 0, 1)), in[kBInput]);

  std::vector<Tensor> outputs(static_cast<size_t>(count)), ended_h, ended_c;
  State state;
  int64_t before = 0;
  for (int64_t s = 0; s < count; ++s) {
    check_interrupt();
    const int64_t now = steps.active[size_t(s)], first = steps.first[size_t(s)];
    if (now < before) {
      ended_h.push_back(rows_of(state.h, now, before));
      if (lstm) ended_c.push_back(rows_of(state.c, now, before));
    }
    state.h = carried(state.h, h0, before, now);
    if (lstm) state.c = carried(state.c, c0, before, now);
    const Tensor u = with_bias(matmul(state.h, w_state), in[kBState]);
    state = next_state(mode, rows_of(sums, first, first + now), u, state, in[kWProject]);
    outputs[size_t(reverse ? count - 1 - s : s)] = state.h;
    before = now;
  }
  ended_h.push_back(state.h);
  if (lstm) ended_c.push_back(state.c);
  return {count == 1 ? outputs[0] : cat(outputs, 0), joined(ended_h),
          lstm ? joined(ended_c) : Tensor()};
}

std::vector<Tensor> composed_rnn_network(TensorList in, RnnMode mode, IntList batch_sizes,
                                         bool has_biases, int64_t layers, bool bidirectional) {
  const int64_t directions = bidirectional ? 2 : 1, count = layers * directions;
  const size_t each = (in.size() - 3) / size_t(count), plain = has_biases ? 4 : 2;
  Tensor x = in[0];
  std::vector<Tensor> last_h, last_c;
  for (int64_t i = 0; i < count;) {
    std::vector<Tensor> outs;
    for (int64_t d = 0; d < directions; ++d, ++i) {
      const Tensor* p = in.data() + 3 + size_t(i) * each;
      const auto state = [&](const Tensor& all) {
        return all.defined() ? select(all, 0, i) : Tensor();
      };
      auto [y, h, c] = composed_rnn_layer(
          {x, state(in[1]), state(in[2]), p[0], p[1], has_biases ? p[2] : Tensor(),
           has_biases ? p[3] : Tensor(), each > plain ? p[plain] : Tensor()},
          mode, batch_sizes, d == 1);
      outs.push_back(y), last_h.push_back(h), last_c.push_back(c);
    }
    x = outs.size() == 1 ? outs[0] : cat(outs, -1);
  }
  return {x, stack(last_h, 0), mode == RnnMode::Lstm ? stack(last_c, 0) : Tensor()};
}

std::vector<Tensor> composed_cell(RnnMode mode, const Tensor& input_sums, const Tensor& state_sums,
                                  const Tensor& b_input, const Tensor& b_state,
                                  const Tensor& before) {
  const State s = next_state(mode, with_bias(input_sums, b_input), with_bias(state_sums, b_state),
                             {before, before}, Tensor());
  return mode == RnnMode::Lstm ? std::vector<Tensor>{s.h, s.c} : std::vector<Tensor>{s.h};
}

Grads composed_grads(const Ctx& c, GradSpan grads, std::vector<Tensor> in,
                     const std::function<std::vector<Tensor>(TensorList)>& f) {
  const bool keep_graph = grad_enabled();
  ModeGuard grad_on(kNoGrad, false);
  std::vector<Tensor> inputs, roots, seeds;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!c.wants(i)) continue;
    in[i] = alias(in[i]);
    if (!requires_grad(in[i])) set_requires_grad(in[i], true);
    inputs.push_back(in[i]);
  }
  const std::vector<Tensor> outs = f(in);
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!grads[i].defined() || !outs[i].defined()) continue;
    roots.push_back(outs[i]);
    seeds.push_back(grads[i]);
  }
  const std::vector<Tensor> found =
      rush::grad(roots, seeds, inputs,
                 {.retain_graph = keep_graph, .create_graph = keep_graph, .allow_unused = true});
  Grads out(in.size());
  for (size_t i = 0, next = 0; i < in.size(); ++i) {
    if (c.wants(i)) out[i] = found[next++];
  }
  return out;
}

}  // namespace rush
