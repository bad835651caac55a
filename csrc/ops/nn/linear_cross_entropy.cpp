// Cross entropy of the scores x @ w.T + b, some rows at a time: the scores of a chunk exist for the
// time of a few kernels, and never all of them.
//
// - A mean or a sum has one number as its gradient. So the gradients of input, weight and bias are
//   computed together with the loss, while a chunk's scores are there, and backward scales them.
//   They are those of the sum: in float16 the gradients of a mean would be too small for the type.
// - Losses of single rows get a gradient each, which only backward knows: it computes the scores
//   again, and so it does where nobody knew that a gradient would be wanted.
// - The gradients of half types' weights and biases add up over the chunks in float32.
// - Where the backward pass is itself differentiated, a formula over ops takes its place, and the
//   scores are whole.
#include "autograd/snapshot.h"
#include "device/linalg.h"
#include "device/nn/loss.h"
#include "device/runtime.h"
#include "ops/autocast/autocast.h"
#include "ops/framework/data.h"
#include "ops/framework/dying.h"
#include "ops/framework/operators.h"
#include "ops/linear_cross_entropy_ops.h"
#include "ops/nn/cross_entropy.h"

namespace rush {

namespace {

Tensor seen_as(const Tensor& t, IntList sizes, IntList strides, int64_t skipped = 0) {
  return make_tensor(t.storage(), sizes, strides, t.offset() + skipped, t.dtype());
}
Tensor rows_of(const Tensor& t, int64_t first, int64_t count) {
  Dims sizes = t.sizes();
  sizes[0] = count;
  return seen_as(t, sizes, t.strides(), first * t.strides()[0]);
}
Tensor in_type(const Tensor& t, DType dtype) {
  return !t.defined() || t.dtype() == dtype ? t : convert_data(t, dtype);
}

// Gradients of the weight are read and written once per chunk. That takes as long as the products
// of about 20 rows on a CPU, of 230 on a large GPU, so a chunk has many more; and scores of this
// many bytes are not worth cutting.
constexpr int64_t kHostRows = 512, kDeviceRows = 2048, kSmallBytes = int64_t{32} << 20;

int64_t rows_of_chunk(int64_t given, const Tensor& x, int64_t classes, DType compute) {
  const int64_t rows = x.sizes()[0];
  if (given > 0) return std::min(given, std::max<int64_t>(rows, 1));
  const int64_t least = device_traits(x).asynchronous ? kDeviceRows : kHostRows;
  const int64_t most =
      std::max(least, kSmallBytes / std::max<int64_t>(1, classes * element_size(compute)));
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

struct Gradients {
  Tensor input, weight, bias;  // what is not wanted is empty
  bool any() const { return wants(input) || wants(weight) || wants(bias); }
  static bool wants(const Tensor& t) { return t.dim() > 1 || t.numel() > 0; }
};

// One call, chunk by chunk.
class Chunks {
 public:
  Chunks(const Tensor& x, const Tensor& w, const Tensor& target, const Tensor& bias,
         const Tensor& weight, const CrossEntropyRule& rule, int64_t chunk, DType compute)
      : x_(x),
        w_(contiguous_data(in_type(w, compute))),
        bias_(in_type(bias, compute)),
        weight_(weight_in(weight, compute_type(compute))),
        labels_(labels_on(x, target)),
        rule_(rule),
        compute_(compute),
        rows_(x.sizes()[0]),
        size_(std::max<int64_t>(1, rows_of_chunk(chunk, x, w.sizes()[0], compute))) {}

  int64_t count() const { return (rows_ + size_ - 1) / size_; }

  // f(number of the chunk, its first row, its rows, its part of the input, its scores).
  template <class F>
  void each(F&& f) const {
    for (int64_t i = 0, first = 0; first < rows_; ++i, first += size_) {
      const int64_t n = std::min(size_, rows_ - first);
      const Tensor part = in_type(rows_of(x_, first, n), compute_);
      f(i, first, n, part, linear(part, w_, bias_));
    }
  }

  // What the device's loops take of a chunk. The tensors have to live as long.
  struct Views {
    Tensor scores, labels;
  };
  Views views(const Tensor& scores, int64_t first, int64_t n) const {
    const int64_t classes = scores.sizes()[1];
    return {seen_as(scores, Dims{n, classes, 1}, Dims{classes, 1, 1}),
            seen_as(labels_, Dims{n, 1}, Dims{1, 1}, first)};
  }
  CrossEntropyCall call(const Views& v, int64_t reduction) const {
    return {v.scores, v.labels, weight_, reduction, rule_.ignore_index, rule_.smoothing, true};
  }

  void begin(const Gradients& out) const {
    if (Gradients::wants(out.weight)) fill_data(out.weight, 0);
    if (Gradients::wants(out.bias)) fill_data(out.bias, 0);
  }
  // `slopes`: the gradient of a chunk's scores.
  void add(const Gradients& out, int64_t first, const Tensor& part, const Tensor& slopes) const {
    const int64_t n = slopes.sizes()[0], classes = slopes.sizes()[1];
    if (Gradients::wants(out.input)) {
      const Tensor rows = rows_of(out.input, first, n);
      const bool direct = rows.dtype() == compute_;
      const Tensor to = direct ? rows : make_tensor(rows.sizes(), compute_, rows.device());
      product_loops(to).gemm(slopes, w_, to, 1, 0);
      if (!direct) copy_data(rows, to);
    }
    if (Gradients::wants(out.weight)) {
      const Tensor turned = seen_as(slopes, Dims{classes, n}, Dims{1, classes});
      if (out.weight.dtype() == compute_)
        product_loops(turned).gemm(turned, part, out.weight, 1, 1);
      else
        product_loops(turned).add_wide(turned, part, out.weight);
    }
    if (Gradients::wants(out.bias)) add_(out.bias, sum(slopes, Dims{0}, false, out.bias.dtype()));
  }

 private:
  const Tensor& x_;
  const Tensor w_, bias_, weight_, labels_;
  const CrossEntropyRule rule_;
  const DType compute_;
  const int64_t rows_, size_;
};

// The gradients' specs. Weight and bias: in the type that they add up in.
std::array<Spec, 3> gradient_specs(const Tensor& x, const Tensor& w, DType compute, bool input,
                                   bool weight, bool bias) {
  const DType wide = compute_type(compute);
  return {Spec{input ? x.sizes() : Dims{0}, x.dtype(), x.device()},
          Spec{weight ? w.sizes() : Dims{0}, wide, x.device()},
          Spec{bias ? Dims{w.sizes()[0]} : Dims{0}, wide, x.device()}};
}

}  // namespace

struct CrossEntropyBackward_ {
  static constexpr const char* name = "cross_entropy_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static void check(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                    const Tensor&, int64_t, int64_t, double, bool) {}
  static void run(const Tensor& x, const Tensor& g, const Tensor& target, const Tensor& weight,
                  const Tensor& total, const Tensor& weights, int64_t reduction, int64_t ignore,
                  double smoothing, bool scores) {
    const Tensor w = weight_in(weight, compute_type(x.dtype())), labels = labels_on(x, target);
    loss_loops(x).cross_entropy_backward({x, labels, w, reduction, ignore, smoothing, scores},
                                         contiguous_data(g), total, weights, x);
  }
};

struct LinearCrossEntropyBackward {
  static constexpr const char* name = "linear_cross_entropy_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static std::array<Spec, 3> check(const Tensor&, const Tensor& x, const Tensor& w, const Tensor&,
                                   const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   int64_t, int64_t, double, int64_t, DType compute, bool input,
                                   bool weight, bool bias) {
    return gradient_specs(x, w, compute, input, weight, bias);
  }
  static void run(const Tensor& g, const Tensor& x, const Tensor& w, const Tensor& target,
                  const Tensor& bias, const Tensor& weight, const Tensor& total,
                  const Tensor& weights, int64_t reduction, int64_t ignore, double smoothing,
                  int64_t chunk, DType compute, bool, bool, bool, const Tensor& gx,
                  const Tensor& gw, const Tensor& gb) {
    const NoGradGuard no_grad;
    const Gradients out{gx, gw, gb};
    const Chunks chunks(x, w, target, bias, weight, {reduction, ignore, smoothing, true}, chunk,
                        compute);
    const Tensor dense = contiguous_data(g);
    chunks.begin(out);
    chunks.each([&](int64_t, int64_t first, int64_t n, const Tensor& part, const Tensor& scores) {
      const Chunks::Views v = chunks.views(scores, first, n);
      const Tensor own = reduction == kNone ? rows_of(dense, first, n) : dense;
      loss_loops(x).cross_entropy_backward(chunks.call(v, reduction), own, rows_of(total, first, n),
                                           weights, v.scores);
      chunks.add(out, first, part, scores);
    });
  }
};

struct LinearCrossEntropyChunks : ComparesWithTargets {
  static constexpr const char* name = "linear_cross_entropy";
  static constexpr uint32_t non_differentiable = 0b111110;
  static std::array<Spec, 6> check(const Tensor& x, const Tensor& w, const Tensor& target,
                                   const Tensor&, const Tensor&, int64_t reduction, int64_t, double,
                                   int64_t, DType compute, DType result, bool input, bool weight,
                                   bool bias) {
    const auto grads = gradient_specs(x, w, compute, input, weight, bias);
    return {Spec{reduction == kNone ? target.sizes() : Dims{}, result, x.device()},
            Spec{target.sizes(), compute_type(compute), x.device()},
            Spec{Dims{}, DType::Float64, x.device()},
            grads[0],
            grads[1],
            grads[2]};
  }
  static void run(const Tensor& x, const Tensor& w, const Tensor& target, const Tensor& bias,
                  const Tensor& weight, int64_t reduction, int64_t ignore, double smoothing,
                  int64_t chunk, DType compute, DType, bool, bool, bool, const Tensor& loss,
                  const Tensor& total, const Tensor& weights, const Tensor& gx, const Tensor& gw,
                  const Tensor& gb) {
    const NoGradGuard no_grad;
    const DType wide = compute_type(compute);
    const Gradients out{gx, gw, gb};
    const Chunks chunks(x, w, target, bias, weight, {reduction, ignore, smoothing, true}, chunk,
                        compute);
    // One place per chunk; a single one is the result.
    const bool joins = reduction != kNone && chunks.count() != 1;
    const Tensor losses = joins ? make_tensor(Dims{chunks.count()}, wide, x.device()) : loss;
    const Tensor sums = make_tensor(Dims{chunks.count()}, DType::Float64, x.device());
    Tensor one;
    if (out.any()) fill_data(one = make_tensor(Dims{}, wide, x.device()), 1);
    chunks.begin(out);
    chunks.each([&](int64_t i, int64_t first, int64_t n, const Tensor& part, const Tensor& scores) {
      const Chunks::Views v = chunks.views(scores, first, n);
      const Tensor logs = rows_of(total, first, n), own_weights = seen_as(sums, {}, {}, i);
      const Tensor own = joins                ? seen_as(losses, {}, {}, i)
                         : reduction == kNone ? seen_as(losses, Dims{n, 1}, Dims{1, 1}, first)
                                              : losses;
      loss_loops(x).cross_entropy(chunks.call(v, joins ? int64_t(kSum) : reduction), own, logs,
                                  own_weights);
      if (!out.any()) return;
      loss_loops(x).cross_entropy_backward(chunks.call(v, kSum), one, logs, own_weights, v.scores);
      chunks.add(out, first, part, scores);
    });
    const Tensor all = sum(sums, std::nullopt);
    copy_data(weights, all);
    if (!joins) return;
    const Tensor added = sum(losses, std::nullopt, false, DType::Float64);
    copy_data(loss, reduction == kMean ? added / all : added);
  }

  static constexpr uint32_t kRead = in(0) | in(1) | in(2) | in(3) | in(4) | result(1) | result(2) |
                                    result(3) | result(4) | result(5);
  static constexpr uint32_t needs[] = {kRead, kRead, 0, kRead, kRead};
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor& x, const Tensor& w,
                    const Tensor& target, const Tensor& bias, const Tensor& weight,
                    int64_t reduction, int64_t ignore, double smoothing, int64_t chunk,
                    DType compute, DType result, bool input_grad, bool weight_grad,
                    bool bias_grad) {
    const Tensor& g = grads[0];
    if (!g.defined()) return Grads(5);
    if (is_differentiated(g, x, w, bias, weight) || c.wants(4))
      return composed(c, g, x, w, target, bias, weight, {reduction, ignore, smoothing, true},
                      compute, result);
    const bool known = reduction != kNone && c.wants(0) <= input_grad &&
                       c.wants(1) <= weight_grad && c.wants(3) <= bias_grad;
    if (known) {
      const Tensor by = scale(g, reduction, c.out(2), compute_type(compute));
      return {c.wants(0) ? scaled(c.out(3), by) : Tensor(),
              c.wants(1) ? scaled(c.out(4), by) : Tensor(), Tensor(),
              c.wants(3) ? scaled(c.out(5), by) : Tensor(), Tensor()};
    }
    auto [gx, gw, gb] = _linear_cross_entropy_backward(
        g, x, w, target, bias, weight, c.out(1), c.out(2), reduction, ignore, smoothing, chunk,
        compute, c.wants(0), c.wants(1), c.wants(3));
    return {c.wants(0) ? gx : Tensor(), c.wants(1) ? gw : Tensor(), Tensor(),
            c.wants(3) ? gb : Tensor(), Tensor()};
  }

 private:
  // What the gradients of the sum are multiplied by. Where nothing counts, the mean is NaN, but its
  // gradient zero.
  static Tensor scale(const Tensor& g, int64_t reduction, const Tensor& weights, DType wide) {
    if (reduction == kSum) return g.dtype() == wide ? g : cast(g, wide);
    const Tensor share = cast(g, DType::Float64) / weights;
    return cast(masked_fill(share, eq(weights, wrap_number(0)), wrap_number(0)), wide);
  }
  static Tensor scaled(const Tensor& sum, const Tensor& by) {
    if (!may_overwrite_saved(sum)) return sum * by;
    mul_(sum, by);
    return in_memory_of(sum);
  }

  static Grads composed(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& w,
                        const Tensor& target, const Tensor& bias, const Tensor& weight,
                        const CrossEntropyRule& rule, DType compute, DType result) {
    const auto brought = [](const Tensor& t, DType dtype) {
      return !t.defined() || t.dtype() == dtype ? t : cast(t, dtype);
    };
    const Tensor inputs = brought(x, compute), map = brought(w, compute);
    const int64_t rows = x.sizes()[0], classes = w.sizes()[0];
    const Tensor scores = brought(linear(inputs, map, brought(bias, compute)), result);
    auto [slopes, weight_grad] = composed_cross_entropy_gradients(
        rule.reduction == kNone ? unsqueeze(g, 1) : g, reshape(scores, Dims{rows, classes, 1}),
        reshape(target, Dims{rows, 1}), weight, rule, c.wants(0) || c.wants(1) || c.wants(3),
        c.wants(4));
    Grads out(5);
    out[4] = weight_grad;
    if (!slopes.defined()) return out;
    const Tensor flat = brought(reshape(slopes, Dims{rows, classes}), compute);
    if (c.wants(0)) out[0] = mm(flat, map);
    if (c.wants(1)) out[1] = mm(transpose(flat, 0, 1), inputs);
    if (c.wants(3)) out[3] = sum(flat, Dims{0});
    return out;
  }
};

struct LinearCrossEntropy {
  static constexpr const char* name = "linear_cross_entropy";
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& given, const Tensor& bias,
                     const Tensor& weight, int64_t reduction, int64_t ignore, double smoothing,
                     int64_t chunk, std::optional<DType> dtype) {
    check_shape(x.dim() == 2 && w.dim() == 2, name,
                "expects an input (N, in_features) and a linear_weight (classes, in_features), got "
                "shapes ",
                x.sizes(), " and ", w.sizes());
    check_shape(x.sizes()[1] == w.sizes()[1], name, "input of shape ", x.sizes(), " has ",
                x.sizes()[1], " features, but linear_weight of shape ", w.sizes(),
                " takes in_features=", w.sizes()[1]);
    const int64_t classes = w.sizes()[0];
    check_shape(!bias.defined() || bias.sizes() == Dims{classes}, name,
                "linear_bias must have shape ", Dims{classes}, ", got ",
                bias.defined() ? bias.sizes() : Dims{});
    check_dtype(is_floating(x.dtype()), name, "expects a floating point input, got ", x.dtype());
    check_targets_and_weight(name, x, given, Dims{x.sizes()[0]}, weight, classes);
    rush::check(chunk >= 0, ErrorKind::Value, name, "chunk_size must not be negative, got ", chunk);
    common_device(name, {&x, &w, &given, &bias, &weight});
    // Inside autocast (which sets the option) the products are computed in its type, and the loss
    // is float32; weights are brought there without a copy that backward would keep.
    const bool lowers = dtype == DType::Float32 && autocast_enabled(x.device().type) &&
                        is_lowered(x) && is_lowered(w) && (!bias.defined() || is_lowered(bias));
    const DType compute = lowers ? autocast_dtype(x.device().type) : x.dtype();
    const DType result = lowers ? DType::Float32 : x.dtype();
    if (!lowers) {
      rush::check(w.dtype() == compute && (!bias.defined() || bias.dtype() == compute),
                  ErrorKind::Runtime, name,
                  "input, linear_weight and linear_bias must have the same dtype, got ", x.dtype(),
                  ", ", w.dtype(), bias.defined() ? concat(" and ", bias.dtype()) : std::string(),
                  ": convert with .to(dtype)");
    }
    const Tensor target = given.dtype() == DType::Int64 ? given : cast(given, DType::Int64);
    const auto wanted = [&](const Tensor& t) {
      return reduction != kNone && grad_enabled() && t.defined() && requires_grad(t);
    };
    const SnapshotScope
        scope;  // the logits would be kept, and so input and weight may be written to
    return std::get<0>(_linear_cross_entropy_chunks(x, w, target, bias, weight, reduction, ignore,
                                                    smoothing, chunk, compute, result, wanted(x),
                                                    wanted(w), wanted(bias)));
  }

 private:
  // float64 is left alone: whoever uses it wants it.
  static bool is_lowered(const Tensor& t) {
    return is_floating(t.dtype()) && t.dtype() != DType::Float64;
  }
};

}  // namespace rush

#include "ops/linear_cross_entropy.inc"
