// Recurrent networks: layers and directions over _rnn_layer, and single cells.
#include <numeric>

#include "autograd/forward.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"
#include "ops/nn/rnn_layer.h"

namespace rush {

namespace {

// What all functions share. `op` names the one that the user called.
struct Network {
  const char* op;
  RnnMode mode;
  TensorList params;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional;

  int64_t directions() const { return bidirectional ? 2 : 1; }
};

// The weights of one direction of one layer.
struct Weights {
  Tensor input, state, b_input, b_state, project;
};

void check_weight(const char* op, const char* what, const Tensor& t, const Dims& sizes) {
  check_shape(t.sizes() == sizes, op, what, " must have shape ", sizes, ", got ", t.sizes());
}

// What holds for layers and cells: sizes that go together, one dtype, one device.
void check_weights(const char* op, RnnMode mode, const Tensor& x, int64_t inputs,
                   const Weights& w) {
  check_shape(w.input.dim() == 2 && w.state.dim() == 2, op, "weights must have 2 dimensions, got ",
              w.input.sizes(), " and ", w.state.sizes());
  const int64_t gates = rnn_gates(mode), sums = w.state.sizes()[0];
  check_shape(sums > 0 && sums % gates == 0, op, "the first size of weights must be a multiple of ",
              gates, " (gates), got w_hh of shape ", w.state.sizes());
  const int64_t hidden = sums / gates;
  const int64_t outputs = w.project.defined() ? w.project.sizes()[0] : hidden;
  check_weight(op, "w_hh", w.state, Dims{sums, outputs});
  if (w.project.defined()) check_weight(op, "w_hr", w.project, Dims{outputs, hidden});
  check_weight(op, "w_ih", w.input, Dims{sums, w.input.sizes()[1]});
  check_shape(inputs == w.input.sizes()[1], op, "w_ih of shape ", w.input.sizes(),
              " takes inputs of size ", w.input.sizes()[1], ", got inputs of size ", inputs,
              "; the input has shape ", x.sizes());
  for (const Tensor* b : {&w.b_input, &w.b_state}) {
    if (b->defined()) check_weight(op, "a bias", *b, Dims{sums});
  }
  for (const Tensor* t : {&w.input, &w.state, &w.b_input, &w.b_state, &w.project}) {
    if (!t->defined()) continue;
    check_argument(t->dtype() == x.dtype(), op, "input and weights must have the same dtype, got ",
                   x.dtype(), " and ", t->dtype(), ": convert with .to(dtype)");
  }
  common_device(op, {&x, &w.input, &w.state, &w.b_input, &w.b_state, &w.project});
}

void check_state(const char* op, const char* what, const Tensor& x, const Tensor& state,
                 const Dims& sizes) {
  check_shape(state.sizes() == sizes, op, what, " must have shape ", sizes, ", got ",
              state.sizes());
  check_argument(state.dtype() == x.dtype(), op, what, " must have the input's dtype ", x.dtype(),
                 ", got ", state.dtype());
  common_device(op, {&x, &state});
}

// Samples and tangents follow the rules of the ops that a network is composed of.
bool needs_ops(TensorList in) {
  for (const Tensor& t : in)
    if (t.defined() && (t.is_batched() || (forward_active() && has_tangent(t)))) return true;
  return false;
}

// One direction of one layer: fused for floats where the device can, else over ops.
std::array<Tensor, 3> run_direction(RnnMode mode, const RnnInputs& in, IntList batch_sizes,
                                    bool reverse) {
  const Tensor& x = in[kInput];
  const bool fused = rnn_loops(x).layer_forward || x.is_meta();
  if (!fused || !x.is_floating() || needs_ops(in))
    return composed_rnn_layer(in, mode, batch_sizes, reverse);
  const auto [y, h, c, gates, cells, unprojected] =
      _rnn_layer(x, in[kH], in[kC], in[kWInput], in[kWState], in[kBInput], in[kBState],
                 in[kWProject], int64_t(mode), batch_sizes, reverse);
  return {y, h, c};
}

Tensor drop(const Tensor& x, double p) {
  if (p >= 1) return x * Scalar(0.0);
  const Tensor kept = bernoulli_(empty_like(x), 1 - p);
  return x * (kept / Scalar(1 - p));
}

// The weights of all layers and directions, out of the flat list.
std::vector<Weights> split_params(const Network& n) {
  const int64_t count = n.layers * n.directions(), plain = n.has_biases ? 4 : 2;
  check_argument(n.layers > 0, n.op, "num_layers must be positive, got ", n.layers);
  const int64_t given = int64_t(n.params.size()), each = given / count;
  check_argument(
      given == count * plain || (n.mode == RnnMode::Lstm && given == count * (plain + 1)), n.op,
      "expected ", plain, n.mode == RnnMode::Lstm ? " (or one more, to project)" : "",
      " parameters for each of ", count, " layers and directions, got ", given);
  std::vector<Weights> out;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor* p = n.params.data() + i * each;
    out.push_back({p[0], p[1], n.has_biases ? p[2] : Tensor(), n.has_biases ? p[3] : Tensor(),
                   each > plain ? p[plain] : Tensor()});
  }
  return out;
}

struct Results {
  Tensor output, h, c;
};

void check_all_weights(const Network& n, const Tensor& x, const std::vector<Weights>& weights) {
  int64_t inputs = x.sizes().back();
  for (size_t i = 0; i < weights.size(); ++i) {
    check_weights(n.op, n.mode, x, inputs, weights[i]);
    check_weight(n.op, "w_hh", weights[i].state, weights[0].state.sizes());
    if (int64_t(i + 1) % n.directions() == 0) inputs = weights[i].state.sizes()[1] * n.directions();
  }
}

// Does the device run whole networks of this kind?
bool runs_whole(const Network& n, const Tensor& x, IntList batch_sizes, const Tensor& hx,
                const Tensor& cx) {
  const auto takes = rnn_loops(x).network_takes;
  if (!takes || x.numel() == 0 || needs_ops(n.params)) return false;
  const Tensor others[] = {x, hx, cx};
  return !needs_ops(others) && takes(rnn_network(x, n.params, n.mode, batch_sizes, n.has_biases,
                                                 n.layers, n.bidirectional));
}

// All layers in one go; with dropout between them, which has to draw the same numbers on every
// device, layer by layer.
Results run_whole(const Network& n, Tensor x, IntList batch_sizes, const Tensor& hx,
                  const Tensor& cx) {
  const bool drops = n.train && n.dropout > 0 && n.layers > 1;
  const int64_t step = drops ? 1 : n.layers, states = step * n.directions();
  const size_t params = n.params.size() / size_t(n.layers / step);
  std::vector<Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < n.layers; layer += step) {
    const auto part = [&](const Tensor& all) {
      return !all.defined() || !drops ? all
                                      : narrow(all, 0, wrap_number(layer * n.directions()), states);
    };
    const auto [y, h, c, reserve] =
        _rnn_network(x, part(hx), part(cx), n.params.subspan(size_t(layer / step) * params, params),
                     int64_t(n.mode), batch_sizes, n.has_biases, step, n.bidirectional);
    x = drops && layer + 1 < n.layers ? drop(y, n.dropout) : y;
    last_h.push_back(h), last_c.push_back(c);
  }
  const auto all = [](const std::vector<Tensor>& parts) {
    return parts.size() == 1 ? parts[0] : cat(parts, 0);
  };
  return {x, all(last_h), n.mode == RnnMode::Lstm ? all(last_c) : Tensor()};
}

// All layers; x (rows, size) as in Note [Rows of a packed batch].
Results run_network(const Network& n, Tensor x, IntList batch_sizes, const Tensor& hx,
                    const Tensor& cx) {
  const std::vector<Weights> weights = split_params(n);
  const int64_t batch = batch_sizes[0], count = int64_t(weights.size());
  check_argument(n.dropout >= 0 && n.dropout <= 1, n.op,
                 "dropout must be a probability between 0 and 1, got ", n.dropout);
  check_all_weights(n, x, weights);
  const int64_t outputs = weights[0].state.sizes()[1];
  const int64_t hidden = weights[0].state.sizes()[0] / rnn_gates(n.mode);
  if (hx.defined()) check_state(n.op, "hx", x, hx, Dims{count, batch, outputs});
  if (cx.defined()) check_state(n.op, "cx", x, cx, Dims{count, batch, hidden});
  if (runs_whole(n, x, batch_sizes, hx, cx)) return run_whole(n, x, batch_sizes, hx, cx);
  const auto state_of = [](const Tensor& all, int64_t i) {
    return all.defined() ? select(all, 0, i) : Tensor();
  };
  std::vector<Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < n.layers; ++layer) {
    std::vector<Tensor> outs;
    for (int64_t d = 0; d < n.directions(); ++d) {
      const int64_t i = layer * n.directions() + d;
      const Weights& w = weights[size_t(i)];
      const auto [y, h, c] = run_direction(
          n.mode,
          {x, state_of(hx, i), state_of(cx, i), w.input, w.state, w.b_input, w.b_state, w.project},
          batch_sizes, d == 1);
      outs.push_back(y);
      last_h.push_back(h);
      last_c.push_back(c);
    }
    x = outs.size() == 1 ? outs[0] : cat(outs, -1);
    if (n.train && n.dropout > 0 && layer + 1 < n.layers) x = drop(x, n.dropout);
  }
  // The gradient of the last layer reads its output, and programs write to theirs (out += x).
  if (n.directions() == 1 && grad_enabled() && requires_grad(x)) x = clone(x, std::nullopt);
  const auto all = [](const std::vector<Tensor>& states) {
    return states.size() == 1 ? unsqueeze(states[0], 0) : stack(states, 0);
  };
  return {x, all(last_h), n.mode == RnnMode::Lstm ? all(last_c) : Tensor()};
}

Results run_input(const Network& n, const Tensor& input, const Tensor& hx, const Tensor& cx,
                  bool batch_first) {
  check_shape(input.dim() == 3, n.op, "input must have 3 dimensions, ",
              batch_first ? "(batch, time, size)" : "(time, batch, size)", ", got shape ",
              input.sizes());
  const Tensor x = batch_first ? transpose(input, 0, 1) : input;
  const int64_t steps = x.sizes()[0], batch = x.sizes()[1];
  check_shape(steps > 0, n.op, "sequences must have at least one step, got input of shape ",
              input.sizes());
  const std::vector<int64_t> sizes(size_t(steps), batch);
  Results r = run_network(n, reshape(x, Dims{steps * batch, x.sizes()[2]}), sizes, hx, cx);
  r.output = reshape(r.output, Dims{steps, batch, r.output.sizes()[1]});
  if (batch_first) r.output = transpose(r.output, 0, 1);
  return r;
}

Results run_data(const Network& n, const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                 const Tensor& cx) {
  check_shape(data.dim() == 2, n.op, "packed data must have 2 dimensions, (rows, size), got shape ",
              data.sizes());
  check_argument(batch_sizes.is_cpu() && batch_sizes.dtype() == DType::Int64 &&
                     batch_sizes.dim() == 1 && batch_sizes.numel() > 0,
                 n.op, "batch_sizes must be a 1-d int64 tensor on the CPU that is not empty, got ",
                 batch_sizes.dtype(), " of shape ", batch_sizes.sizes(), " on ",
                 batch_sizes.device());
  const Tensor list = contiguous_data(batch_sizes);
  const IntList sizes(list.data<int64_t>(), size_t(list.numel()));
  for (size_t i = 0; i < sizes.size(); ++i)
    check_argument(sizes[i] > 0 && (i == 0 || sizes[i] <= sizes[i - 1]), n.op,
                   "batch_sizes must be positive and not grow, got ", sizes[i], " at step ", i);
  const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
  check_shape(rows == data.sizes()[0], n.op, "batch_sizes add up to ", rows,
              " rows, but data has shape ", data.sizes());
  return run_network(n, data, sizes, hx, cx);
}

// The LSTM's states come as a list, which may be empty.
void check_pair(const char* op, TensorList hx) {
  check_argument(hx.size() == 2 || hx.empty(), op,
                 "hx must hold two tensors, h and c, or none; got ", hx.size());
}
Tensor pick(TensorList hx, size_t i) { return i < hx.size() ? hx[i] : Tensor(); }

std::tuple<Tensor, Tensor, Tensor> three(const Results& r) { return {r.output, r.h, r.c}; }
std::tuple<Tensor, Tensor> two(const Results& r) { return {r.output, r.h}; }

constexpr const char* name_of(RnnMode mode) {
  return mode == RnnMode::Gru ? "gru" : mode == RnnMode::Tanh ? "rnn_tanh" : "rnn_relu";
}

Results run_cell(const char* op, RnnMode mode, const Tensor& x, const Tensor& hx, const Tensor& cx,
                 const Weights& w) {
  check_shape(x.dim() == 2, op, "input must have 2 dimensions, (batch, size), got shape ",
              x.sizes());
  check_weights(op, mode, x, x.sizes().back(), w);
  const int64_t batch = x.sizes()[0], hidden = w.state.sizes()[1];
  check_state(op, "hx", x, hx, Dims{batch, hidden});
  if (cx.defined()) check_state(op, "cx", x, cx, Dims{batch, hidden});
  const RnnInputs in = {x, hx, cx, w.input, w.state, w.b_input, w.b_state, Tensor()};
  if (rnn_loops(x).cell && rnn_gates(mode) > 1 && x.is_floating() && !needs_ops(in)) {
    const Tensor sums = matmul(x, transpose(w.input, 0, 1)),
                 state_sums = matmul(hx, transpose(w.state, 0, 1));
    if (mode == RnnMode::Gru)
      return {std::get<0>(_gru_gates(sums, state_sums, w.b_input, w.b_state, hx)), {}, {}};
    const auto [h, c, kept] = _lstm_gates(sums, state_sums, w.b_input, w.b_state, cx);
    return {h, h, c};
  }
  const auto [y, h, c] = run_direction(mode, in, Dims{batch}, false);
  return {h, h, c};  // not y, which the gradient reads: programs write to a cell's results
}

}  // namespace

struct LstmInput {
  static constexpr const char* name = "lstm";
  static std::tuple<Tensor, Tensor, Tensor> call(const Tensor& input, TensorList hx,
                                                 TensorList params, bool has_biases,
                                                 int64_t num_layers, double dropout, bool train,
                                                 bool bidirectional, bool batch_first) {
    check_pair(name, hx);
    return three(run_input(
        {name, RnnMode::Lstm, params, has_biases, num_layers, dropout, train, bidirectional}, input,
        pick(hx, 0), pick(hx, 1), batch_first));
  }
};
struct LstmData {
  static constexpr const char* name = "lstm";
  static std::tuple<Tensor, Tensor, Tensor> call(const Tensor& data, const Tensor& batch_sizes,
                                                 TensorList hx, TensorList params, bool has_biases,
                                                 int64_t num_layers, double dropout, bool train,
                                                 bool bidirectional) {
    check_pair(name, hx);
    return three(run_data(
        {name, RnnMode::Lstm, params, has_biases, num_layers, dropout, train, bidirectional}, data,
        batch_sizes, pick(hx, 0), pick(hx, 1)));
  }
};

// The others have one state, and differ in nothing but the cell.
template <RnnMode mode>
struct OneStateInput {
  static constexpr const char* name = name_of(mode);
  static std::tuple<Tensor, Tensor> call(const Tensor& input, const Tensor& hx, TensorList params,
                                         bool has_biases, int64_t num_layers, double dropout,
                                         bool train, bool bidirectional, bool batch_first) {
    return two(
        run_input({name, mode, params, has_biases, num_layers, dropout, train, bidirectional},
                  input, hx, Tensor(), batch_first));
  }
};
template <RnnMode mode>
struct OneStateData {
  static constexpr const char* name = name_of(mode);
  static std::tuple<Tensor, Tensor> call(const Tensor& data, const Tensor& batch_sizes,
                                         const Tensor& hx, TensorList params, bool has_biases,
                                         int64_t num_layers, double dropout, bool train,
                                         bool bidirectional) {
    return two(run_data({name, mode, params, has_biases, num_layers, dropout, train, bidirectional},
                        data, batch_sizes, hx, Tensor()));
  }
};
template <OpName N, RnnMode mode>
struct OneStateCell {
  static constexpr const char* name = N.text;
  static Tensor call(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
    return run_cell(name, mode, input, hx, Tensor(), {w_ih, w_hh, b_ih, b_hh, Tensor()}).output;
  }
};
struct GruInput : OneStateInput<RnnMode::Gru> {};
struct GruData : OneStateData<RnnMode::Gru> {};
struct GruCell : OneStateCell<"gru_cell", RnnMode::Gru> {};
struct RnnTanhInput : OneStateInput<RnnMode::Tanh> {};
struct RnnTanhData : OneStateData<RnnMode::Tanh> {};
struct RnnTanhCell : OneStateCell<"rnn_tanh_cell", RnnMode::Tanh> {};
struct RnnReluInput : OneStateInput<RnnMode::Relu> {};
struct RnnReluData : OneStateData<RnnMode::Relu> {};
struct RnnReluCell : OneStateCell<"rnn_relu_cell", RnnMode::Relu> {};

struct LstmCell {
  static constexpr const char* name = "lstm_cell";
  static std::tuple<Tensor, Tensor> call(const Tensor& input, TensorList hx, const Tensor& w_ih,
                                         const Tensor& w_hh, const Tensor& b_ih,
                                         const Tensor& b_hh) {
    check_argument(hx.size() == 2, name, "hx must hold two tensors, h and c; got ", hx.size());
    const Results r =
        run_cell(name, RnnMode::Lstm, input, hx[0], hx[1], {w_ih, w_hh, b_ih, b_hh, Tensor()});
    return {r.output, r.c};
  }
};

}  // namespace rush

#include "ops/rnn.inc"
