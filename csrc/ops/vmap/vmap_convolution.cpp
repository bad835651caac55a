// The batching rules of convolutions: each becomes one convolution of plain tensors.
//
// A convolution takes images and weights, and has three kinds of dims that samples can go to:
//   images            more of them, where the weights are shared
//   channels          of the result, where one operand is shared and the other is not: the channels
//                     of the samples side by side
//   groups            where both operands have samples: each group of channels has its own
// The three internal ops are bilinear: y = conv(x, w), and each two of x, w, y give the third, so
// one table says it all. Weights come in [out, in / groups, kernel...].
#include "autograd/meta.h"
#include "ops/framework/operators.h"
#include "ops/vmap/vmap_rules.h"

namespace rush::batch {

// An operand of a convolution. What all samples share though it has them, as a repeated weight in
// backward, is taken as shared, unless a derivative has to tell its samples apart.
struct Side {
  Tensor t;
  bool batched;
  Side(const BatchedCall& c, size_t i) : t(c.physical(i)), batched(c.is_batched(i)) {
    if (!batched || c.size == 0 || t.strides()[0] != 0) return;
    if ((grad_enabled() && requires_grad(t)) || (forward_active() && has_tangent(innermost(t))))
      return;
    t = select(t, 0, 0);
    batched = false;
  }
};

static Tensor bias_of(const BatchedCall& c) { return c.is_tensor(2) ? c.physical(2) : Tensor(); }

struct Window {
  IntList stride, padding, dilation;
  int64_t groups;
  Window(const BatchedCall& c, size_t first)
      : stride(c.given(first).ints()),
        padding(c.given(first + 1).ints()),
        dilation(c.given(first + 2).ints()),
        groups(c.given(first + 3).integer()) {}
};

// y[images, out] from x[images, in] and w[out, in / groups]
void convolution_forward(BatchedCall& c) {
  if (c.size == 0) return c.loop();
  const Side x(c, 0), w(c, 1);
  const Window at(c, 3);
  const auto run = [&](const Tensor& input, const Tensor& weight, const Tensor& bias,
                       int64_t groups) {
    return _convolution_forward(input, weight, bias, at.stride, at.padding, at.dilation, groups);
  };
  const bool has_bias = c.is_tensor(2);
  if (w.batched) {
    // Samples of the bias stand beside those of the weight.
    const int64_t outer = x.batched ? 1 : at.groups;
    Tensor bias = bias_of(c);
    if (has_bias) bias = folded(c.is_batched(2) ? bias : repeated(bias, c.size), 0, outer);
    const Tensor y = run(x.batched ? folded(x.t, 1) : x.t, folded(w.t, 0, outer), bias,
                         x.batched ? at.groups * c.size : at.groups);
    return c.finish(unfolded(y, c.size, 1, outer));
  }
  const bool own_bias = has_bias && c.is_batched(2);
  const Tensor y =
      run(x.batched ? folded(x.t, 0) : x.t, w.t, own_bias ? Tensor() : bias_of(c), at.groups);
  Tensor out = x.batched ? unfolded(y, c.size, 0) : unsqueeze(y, 0);
  if (own_bias) {
    Dims sizes(uint32_t(out.dim()), 1);
    sizes[0] = c.size;
    sizes[2] = out.sizes()[2];
    out = out + reshape(bias_of(c), sizes);
  } else if (!x.batched) {
    out = repeated(y, c.size);
  }
  c.finish(out);
}

// One of the two gradients, which end in the same arguments: a call takes the operands and the groups.
struct Gradient {
  using Op = Tensor (*)(const Tensor&, const Tensor&, IntList, IntList, IntList, IntList, int64_t);
  Op op;
  Window at;
  Dims sizes;  // of the result
  Gradient(const BatchedCall& c, Op op) : op(op), at(c, 3), sizes(c.given(2).ints()) {}
  Tensor operator()(const Tensor& a, const Tensor& b, int64_t groups) const {
    return op(a, b, sizes, at.stride, at.padding, at.dilation, groups);
  }
};

// x[images, in] from y[images, out] and w[out, in / groups]
void convolution_input_grad(BatchedCall& c) {
  if (c.size == 0) return c.loop();
  const Side y(c, 0), w(c, 1);
  Gradient run(c, _convolution_input_grad);
  if (!w.batched) {
    if (!y.batched) return c.finish(repeated(run(y.t, w.t, run.at.groups), c.size));
    run.sizes[0] *= c.size;
    return c.finish(unfolded(run(folded(y.t, 0), w.t, run.at.groups), c.size, 0));
  }
  run.sizes[1] *= c.size;
  if (y.batched)
    return c.finish(
        unfolded(run(folded(y.t, 1), folded(w.t, 0), run.at.groups * c.size), c.size, 1));
  c.finish(unfolded(run(y.t, folded(w.t, 1), run.at.groups), c.size, 1, run.at.groups));
}

// w[out, in / groups] from x[images, in] and y[images, out]
void convolution_weight_grad(BatchedCall& c) {
  if (c.size == 0) return c.loop();
  const Side x(c, 0), y(c, 1);
  Gradient run(c, _convolution_weight_grad);
  if (x.batched && y.batched) {
    run.sizes[0] *= c.size;
    return c.finish(
        unfolded(run(folded(x.t, 1), folded(y.t, 1), run.at.groups * c.size), c.size, 0));
  }
  if (y.batched) {
    run.sizes[0] *= c.size;
    return c.finish(
        unfolded(run(x.t, folded(y.t, 1, run.at.groups), run.at.groups), c.size, 0, run.at.groups));
  }
  if (!x.batched) return c.finish(repeated(run(x.t, y.t, run.at.groups), c.size));
  run.sizes[1] *= c.size;
  c.finish(unfolded(run(folded(x.t, 1, run.at.groups), y.t, run.at.groups), c.size, 1));
}

}  // namespace rush::batch
