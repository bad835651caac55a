// LSTMs of float32 and float64 on GPUs.
//
// cuDNN takes about 20 us for each step, whatever its size; a product that adds to what the input
// gave, and one kernel for the gates, take half of that. All products with the input, and all
// gradients of weights, are single products over all steps, as they do not depend on each other.
//
// The states live in one buffer (batch, units) that every step updates for the sequences it has.
// Sequences that begin later (backwards in time) find their initial state there, and those that
// ended keep their last one; the backward pass does the same with the states' gradients.
#include "cuda/nn/lstm.h"

#include "cuda/linalg/matmul.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/settings.h"
#include "cuda/vendor/cublas.h"
#include "device/reduce.h"

namespace rush::cuda {
namespace {

// Key: backward, type.
std::string spell_step(uint64_t key) {
  return concat("rush::lstm_step", key >> 4 & 1 ? "_backward<" : "<", kernel_type(DType(key & 15)),
                ">");
}
const KernelFamily kSteps{"rnn.cu", spell_step};

// Rows [first, first + count) of a matrix, columns [left, left + width).
Tensor block(const Tensor& t, int64_t first, int64_t count, int64_t left, int64_t width) {
  const int64_t row = t.strides()[0];
  return make_tensor(t.storage(), Dims{count, width}, Dims{row, 1}, t.offset() + first * row + left,
                     t.dtype());
}
Tensor rows(const Tensor& t, int64_t first, int64_t count) {
  return block(t, first, count, 0, t.sizes()[1]);
}
Tensor transposed(const Tensor& t) {
  return make_tensor(t.storage(), Dims{t.sizes()[1], t.sizes()[0]},
                     Dims{t.strides()[1], t.strides()[0]}, t.offset(), t.dtype());
}
Tensor nth(const Tensor& t, int64_t i) {  // of (n, a, b), a matrix
  return make_tensor(t.storage(), Dims{t.sizes()[1], t.sizes()[2]}, Dims{t.strides()[1], 1},
                     t.offset() + i * t.strides()[0], t.dtype());
}
void* data_of(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

// What a network's call needs all over.
struct Frame {
  const RnnNetwork& n;
  std::span<const Tensor> params;
  int64_t count, batch, total;  // rows in all
  bool tf32;

  Frame(const RnnNetwork& network, const RnnNetworkTensors& t)
      : n(network),
        params(t.params),
        count(n.directions()),
        batch(n.batch_sizes[0]),
        total(t.input.sizes()[0]),
        tf32(settings().cudnn_enabled.load() ? settings().convolution_tf32.load()
                                             : settings().matmul_tf32.load()) {}

  Tensor make(int64_t a, int64_t b) const { return make_tensor(Dims{a, b}, n.dtype, n.device); }
  const Tensor& param(int64_t layer, int64_t direction, int64_t which) const {
    return params[size_t((layer * count + direction) * n.params_each() + which)];
  }
  Tensor bias(int64_t layer, int64_t direction, int64_t which) const {
    return n.has_biases ? param(layer, direction, 2 + which) : Tensor();
  }
  void product(const Tensor& a, const Tensor& b, const Tensor& out, bool add) const {
    if (out.numel() > 0) multiply_matrices(a, b, out, add, tf32);
  }
  template <class Args>
  void step(bool backward, const Args& args) const {
    launch_each(kSteps, uint64_t(backward) << 4 | uint64_t(n.dtype), n.device.index,
                args.rows * args.units, args);
  }
  // A state's buffer, from its initial value.
  void start(const Tensor& from, int64_t i, const Tensor& to) const {
    if (from.defined())
      copy(nth(from, i), to, false);
    else
      fill(to, 0);
  }
};

// The parts of the reserve: outputs of all layers but the last; of each layer and direction the
// gates, and h and c before every step.
struct Reserve {
  Tensor all;  // undefined: each part is made when asked for
  const Frame& f;
  int64_t each() const { return f.total * 6 * f.n.hidden; }
  int64_t outputs() const { return f.total * f.count * f.n.hidden; }
  Tensor part(int64_t at, int64_t width) const {
    if (!all.defined()) return f.make(f.total, width);
    return make_tensor(all.storage(), Dims{f.total, width}, Dims{width, 1},
                       all.offset() / element_size(f.n.dtype) + at, f.n.dtype);
  }
  int64_t place(int64_t layer, int64_t d) const {
    return (f.n.layers - 1) * outputs() + (layer * f.count + d) * each();
  }
  Tensor output(int64_t layer) const { return part(layer * outputs(), f.count * f.n.hidden); }
  Tensor gates(int64_t layer, int64_t d) const { return part(place(layer, d), 4 * f.n.hidden); }
  Tensor kept(int64_t layer, int64_t d, int64_t which) const {
    return part(place(layer, d) + (4 + which) * f.total * f.n.hidden, f.n.hidden);
  }
};

void forward_direction(const Frame& f, const Reserve& r, int64_t layer, int64_t d, const Tensor& x,
                       const RnnNetworkTensors& t, const Tensor& y) {
  const int64_t units = f.n.hidden, i = layer * f.count + d;
  const Tensor gates = r.gates(layer, d);
  const Tensor h = nth(t.last_h, i), c = nth(t.last_c, i);
  const bool keeps = r.all.defined();
  const Tensor kept_h = keeps ? r.kept(layer, d, 0) : Tensor(),
               kept_c = keeps ? r.kept(layer, d, 1) : Tensor();
  f.start(t.h, i, h);
  f.start(t.c, i, c);
  f.product(x, transposed(f.param(layer, d, 0)), gates, false);
  const Tensor w_state = transposed(f.param(layer, d, 1));
  LstmStepArgs a{};
  a.units = units;
  a.b_input = data_of(f.bias(layer, d, 0));
  a.b_state = data_of(f.bias(layer, d, 1));
  a.h = h.data(), a.c = c.data();
  a.out_step = y.strides()[0];
  const RnnSteps steps(f.n.batch_sizes, d == 1);
  for (int64_t s = 0; s < steps.count(); ++s) {
    const int64_t now = steps.active[size_t(s)], first = steps.first[size_t(s)];
    const Tensor sums = rows(gates, first, now);
    if (s > 0 || t.h.defined()) f.product(rows(h, 0, now), w_state, sums, true);
    a.rows = now;
    a.sums = sums.data();
    a.out = block(y, first, now, d * units, units).data();
    if (keeps) a.kept_h = rows(kept_h, first, now).data();
    if (keeps) a.kept_c = rows(kept_c, first, now).data();
    f.step(false, a);
  }
}

void sum_rows(const Tensor& x, const Tensor& out) {
  const Tensor row = make_tensor(out.storage(), Dims{1, out.numel()}, Dims{out.numel(), 1},
                                 out.offset(), out.dtype());
  reduce(ReduceFn::Sum, x, row);
}

// `g` (rows, directions * units): of the layer's outputs. Adds to gx for the second direction.
void backward_direction(const Frame& f, const Reserve& r, int64_t layer, int64_t d, const Tensor& x,
                        const RnnNetworkGrads& grads, const Tensor& g, const Tensor& gx) {
  const int64_t units = f.n.hidden, i = layer * f.count + d;
  const Tensor gates = r.gates(layer, d), kept_c = r.kept(layer, d, 1);
  const auto buffer = [&](const Tensor& wanted) {
    return wanted.defined() ? nth(wanted, i) : f.make(f.batch, units);
  };
  const Tensor gh = buffer(grads.h), gc = buffer(grads.c);
  f.start(grads.last_h, i, gh);
  f.start(grads.last_c, i, gc);
  LstmStepGradArgs a{};
  a.units = units;
  a.h_grad = gh.data(), a.c_grad = gc.data();
  a.out_step = g.strides()[0];
  const RnnSteps steps(f.n.batch_sizes, d == 1);
  for (int64_t s = steps.count() - 1; s >= 0; --s) {
    const int64_t now = steps.active[size_t(s)], first = steps.first[size_t(s)];
    const Tensor own = rows(gates, first, now);
    a.rows = now;
    a.gates = own.data();
    a.kept_c = rows(kept_c, first, now).data();
    a.out_grad = block(g, first, now, d * units, units).data();
    f.step(true, a);
    if (s > 0 || grads.h.defined()) f.product(own, f.param(layer, d, 1), rows(gh, 0, now), false);
  }
  if (gx.defined()) f.product(gates, f.param(layer, d, 0), gx, d > 0);
  const auto wanted = [&](int64_t which) {
    return grads.params[size_t(i * f.n.params_each() + which)];
  };
  if (wanted(0).defined()) f.product(transposed(gates), x, wanted(0), false);
  if (wanted(1).defined()) f.product(transposed(gates), r.kept(layer, d, 0), wanted(1), false);
  if (!f.n.has_biases) return;
  const Tensor first = wanted(2), second = wanted(3);
  if (first.defined()) sum_rows(gates, first);
  if (second.defined()) first.defined() ? copy(first, second, false) : sum_rows(gates, second);
}

}  // namespace

bool lstm_takes(const RnnNetwork& n) {
  return n.mode == RnnMode::Lstm && !n.projects &&
         (n.dtype == DType::Float32 || n.dtype == DType::Float64) &&
         n.batch_sizes[0] * n.hidden * 8 < int64_t(1) << 31 && lt::library().missing.empty();
}

int64_t lstm_reserve(const RnnNetwork& n) {
  int64_t total = 0;
  for (int64_t size : n.batch_sizes) total += size;
  const int64_t width = (n.layers - 1) * n.directions() + n.layers * n.directions() * 6;
  return total * width * n.hidden * element_size(n.dtype);
}

void lstm_forward(const RnnNetwork& n, const RnnNetworkTensors& t) {
  const Frame f(n, t);
  const bool keeps = t.reserve.defined() && t.reserve.numel() > 0;
  const Reserve r{keeps ? t.reserve : Tensor(), f};
  Tensor x = t.input;
  for (int64_t layer = 0; layer < n.layers; ++layer) {
    const Tensor y = layer + 1 == n.layers ? t.output : r.output(layer);
    for (int64_t d = 0; d < f.count; ++d) forward_direction(f, r, layer, d, x, t, y);
    x = y;
  }
}

void lstm_backward(const RnnNetwork& n, const RnnNetworkTensors& t, const RnnNetworkGrads& g) {
  const Frame f(n, t);
  const Reserve r{t.reserve, f};
  Tensor above = g.output;
  for (int64_t layer = n.layers - 1; layer >= 0; --layer) {
    const Tensor x = layer == 0 ? t.input : r.output(layer - 1);
    const Tensor gx = layer == 0 ? g.input : f.make(f.total, x.sizes()[1]);
    for (int64_t d = 0; d < f.count; ++d) backward_direction(f, r, layer, d, x, g, above, gx);
    above = gx;
  }
}

}  // namespace rush::cuda
