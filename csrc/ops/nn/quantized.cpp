// Layers over integers of 8 bits. Each asks the device for its loops (oneDNN's on the CPU); where
// these do not serve, and where calls are batched or looked at, it is composed of ops over floats.
#include "device/nn/quantized.h"

#include "core/misaligned.h"
#include "core/modes.h"
#include "device/pointwise.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/low_bits_ops.h"
#include "ops/nn/conv_shape.h"
#include "ops/nn/spread.h"
#include "ops/quantized_ops.h"

namespace rush {

namespace {

bool is_byte(DType t) { return t == DType::UInt8 || t == DType::Int8; }

void check_integers(const char* op, const char* what, const Tensor& x) {
  check_dtype(is_byte(x.dtype()), op, what, " must be uint8 or int8, got ", x.dtype());
}

// May the device's loops have the tensors' memory? Nothing is recorded, changed or batched then.
template <class... Each>
bool is_plain(const Each&... tensors) {
  if (t_modes & (kIntercept | kForward)) return false;
  const auto fine = [](const Tensor& x) {
    return !x.defined() ||
           !(x.is_batched() || (grad_enabled() && requires_grad(x)) || is_misaligned(x));
  };
  return (fine(tensors) && ...);
}

Tensor in_floats(const Tensor& x) { return to(x, DType::Float32, false, false, std::nullopt); }
// The numbers that integers stand for, in steps.
Tensor from_zero(const Tensor& x, Steps steps) {
  const Tensor wide = in_floats(x);
  return steps.zero == 0 ? wide : wide - Scalar(steps.zero);
}
Tensor numbers(const Tensor& x, Steps steps) {
  return _dequantize_steps(x, steps.scale, steps.zero);
}
Tensor integers(const Tensor& x, bool relu_first, Steps steps, DType dtype) {
  return _quantize_steps(relu_first ? relu(x) : x, steps.scale, steps.zero, dtype);
}

// The same memory where it lies as out does, else a copy that does: a loop has one way of rounding,
// whatever the layout.
Tensor lying_like(const Tensor& out, const Tensor& x) {
  if (x.strides() == out.strides()) return x;
  const Tensor copy = make_tensor(out.sizes(), out.strides(), x.dtype(), x.device());
  copy_data(copy, x);
  return copy;
}

Tensor number_like(const Tensor& x, double value) {
  const Tensor out = make_tensor(Dims{}, DType::Float32, x.device());
  fill_data(out, value);
  return out;
}

// The zero must be one of the integers, or loops that count in 32 bits would take another.
Steps checked_steps(const char* op, double scale, int64_t zero, DType dtype) {
  check_dtype(is_byte(dtype), op, "integers must be uint8 or int8, got ", dtype);
  const int64_t least = dtype == DType::Int8 ? -128 : 0;
  check_argument(zero >= least && zero <= least + 255, op, "a zero point of ", dtype,
                 " must be from ", least, " to ", least + 255, ", got ", zero);
  return {scale, zero};
}

// Both ends of a layer.
struct InAndOut {
  Steps in, out;
  InAndOut(const char* op, const Tensor& x, DType result, std::span<const double> scales,
           IntList zeros) {
    check_argument(scales.size() == 2 && zeros.size() == 2, op,
                   "needs a scale and a zero point for the input and for the result, got ",
                   scales.size(), " and ", zeros.size());
    in = checked_steps(op, scales[0], zeros[0], x.dtype());
    out = checked_steps(op, scales[1], zeros[1], result);
  }
};

void check_weight(const char* op, const Tensor& x, const IntegerWeight& w, int64_t outputs) {
  check_dtype(w.w.dtype() == DType::Int8, op, "the weight must be int8, got ", w.w.dtype());
  check_dtype(
      w.scales.dtype() == DType::Float32 && (!w.bias.defined() || w.bias.dtype() == DType::Float32),
      op, "scales and bias must be float32, got ", w.scales.dtype());
  check_shape(
      w.scales.sizes() == Dims{outputs} && (!w.bias.defined() || w.bias.sizes() == Dims{outputs}),
      op, "needs ", outputs, " scales, and as many numbers of a bias; got shapes ",
      w.scales.sizes(), " and ", w.bias.defined() ? w.bias.sizes() : Dims{});
  common_device(op, {&x, &w.w, &w.scales, &w.bias});
}

void check_linear(const char* op, const Tensor& x, const Tensor& w) {
  check_shape(w.dim() == 2 && x.dim() >= 1 && x.sizes().back() == w.sizes()[1], op,
              "the last dim of the input must have as many elements as the weight has columns; ",
              "got shapes ", x.sizes(), " and ", w.sizes());
}
IntegerWeight laid_end_to_end(const IntegerWeight& w) {
  return {contiguous_data(w.w), contiguous_data(w.scales),
          w.bias.defined() ? contiguous_data(w.bias) : w.bias};
}
Tensor as_rows(const Tensor& x, int64_t columns) {
  return make_tensor(x.storage(), Dims{x.numel() / columns, columns}, Dims{columns, 1}, x.offset(),
                     x.dtype());
}
// As many as there are, also of rows without columns.
int64_t count_rows(const Tensor& x) {
  return numel(IntList(x.sizes().data(), x.sizes().size() - 1));
}
Dims with_columns(const Tensor& x, int64_t columns) {
  Dims sizes = x.sizes();
  sizes[sizes.size() - 1] = columns;
  return sizes;
}

}  // namespace

struct QuantizeSteps : RunsAnywhere {
  static constexpr const char* name = "quantize_per_tensor";
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x, double, int64_t, DType dtype) {
    check_dtype(x.dtype() == DType::Float32 && is_byte(dtype), name,
                "makes uint8 or int8 of float32, got ", x.dtype(), " to ", dtype);
    return like(x, dtype);
  }
  static void run(const Tensor& x, double scale, int64_t zero, DType dtype, const Tensor& out) {
    if (out.numel() == 0) return;
    const auto loop = quantized_loops(out).quantize;
    if (loop && is_dense(out.sizes(), out.strides()))
      return loop(lying_like(out, x), {scale, zero}, out);
    const double least = dtype == DType::Int8 ? -128 : 0;
    const Tensor steps = make_tensor(x.sizes(), DType::Float32, x.device());
    map_binary(BinaryFn::Mul, x, number_like(x, double(1.0f / float(scale))), steps);
    map_binary(BinaryFn::Add, steps, number_like(x, double(zero)), steps);
    map_unary(UnaryFn::Round, steps, steps);
    map_unary(UnaryFn::Clamp, steps, steps, {Scalar(least), Scalar(least + 255)});
    map_unary(UnaryFn::NanToNum, steps, steps,
              {Scalar(least + 255), Scalar(least + 255), Scalar(least)});
    copy_data(out, steps);
  }
};

struct DequantizeSteps : RunsAnywhere {
  static constexpr const char* name = "dequantize";
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& x, double, int64_t) {
    check_integers(name, "the tensor", x);
    return like(x, DType::Float32);
  }
  static void run(const Tensor& x, double scale, int64_t zero, const Tensor& out) {
    if (out.numel() == 0) return;
    const auto loop = quantized_loops(out).dequantize;
    if (loop && is_dense(out.sizes(), out.strides()))
      return loop(lying_like(out, x), {scale, zero}, out);
    map_binary(BinaryFn::Sub, x, number_like(x, double(zero)), out, {}, DType::Float32);
    map_binary(BinaryFn::Mul, out, number_like(x, scale), out);
  }
};

struct QuantizedCombine {
  static constexpr const char* name = "quantized add";
  static Tensor call(const Tensor& a, const Tensor& b, std::span<const double> scales,
                     IntList zeros, bool multiply, bool with_relu) {
    check_argument(scales.size() == 3 && zeros.size() == 3, name,
                   "needs three scales and zero points, got ", scales.size(), " and ",
                   zeros.size());
    check_integers(name, "the first tensor", a);
    check_dtype(a.dtype() == b.dtype(), name, "both tensors must have one dtype, got ", a.dtype(),
                " and ", b.dtype());
    const Steps of_a = checked_steps(name, scales[0], zeros[0], a.dtype()),
                of_b = checked_steps(name, scales[1], zeros[1], a.dtype()),
                of_out = checked_steps(name, scales[2], zeros[2], a.dtype());
    const auto loop = quantized_loops(a).combine;
    if (loop && is_plain(a, b) && a.device() == b.device() && a.sizes() == b.sizes() &&
        a.strides() == b.strides() && is_dense(a.sizes(), a.strides())) {
      const Tensor out = make_tensor(a.sizes(), a.strides(), a.dtype(), a.device());
      loop(multiply, with_relu, a, of_a, b, of_b, out, of_out);
      return out;
    }
    const Tensor x = numbers(a, of_a), y = numbers(b, of_b);
    return integers(multiply ? x * y : x + y, with_relu, of_out, a.dtype());
  }
};

struct QuantizedLinear {
  static constexpr const char* name = "quantized linear";
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& scales, const Tensor& bias,
                     std::span<const double> steps, IntList zeros, bool with_relu, DType dtype) {
    check_linear(name, x, w);
    const InAndOut ends(name, x, dtype, steps, zeros);
    const int64_t k = w.sizes()[1], n = w.sizes()[0];
    check_weight(name, x, {w, scales, bias}, n);
    const Dims sizes = with_columns(x, n);
    if (const auto loop = quantized_loops(x).linear;
        loop && is_plain(x, w, scales, bias) && x.numel() > 0 && n > 0) {
      const Tensor out = make_tensor(sizes, dtype, x.device());
      if (loop(as_rows(contiguous_data(x), k), ends.in, laid_end_to_end({w, scales, bias}),
               with_relu, as_rows(out, n), ends.out))
        return out;
    }
    const Tensor rows = reshape(from_zero(x, ends.in), Dims{count_rows(x), k});
    Tensor sums = _weight_int8pack_mm(rows, contiguous(w), scales * Scalar(ends.in.scale));
    if (bias.defined()) sums = sums + bias;
    return integers(reshape(sums, sizes), with_relu, ends.out, dtype);
  }
};

struct DynamicLinear {
  static constexpr const char* name = "dynamic linear";

  // Numbers as integers less their zero, and the scale.
  static std::pair<Tensor, double> in_steps(const Tensor& x) {
    Steps steps{1, 0};
    if (x.numel() > 0 && !x.is_meta()) {
      const auto [low, high] = aminmax(x, std::nullopt, false);
      steps = steps_for(low.item().to<double>(), high.item().to<double>(), 127);
    }
    const Scalar zero(steps.zero);
    const Tensor whole = round(x * Scalar(double(1.0f / float(steps.scale)))) + zero;
    return {clamp(whole, Scalar(0), Scalar(127)) - zero, steps.scale};
  }

  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& scales, const Tensor& bias,
                     bool with_relu) {
    check_linear(name, x, w);
    check_dtype(x.dtype() == DType::Float32, name, "the input must be float32, got ", x.dtype());
    const int64_t k = w.sizes()[1], n = w.sizes()[0];
    check_weight(name, x, {w, scales, bias}, n);
    const Dims sizes = with_columns(x, n);
    if (const auto loop = quantized_loops(x).dynamic_linear;
        loop && is_plain(x, w, scales, bias) && x.numel() > 0 && n > 0) {
      const Tensor out = make_tensor(sizes, DType::Float32, x.device());
      if (loop(as_rows(contiguous_data(x), k), laid_end_to_end({w, scales, bias}), with_relu,
               as_rows(out, n)))
        return out;
    }
    const auto [steps, scale] = in_steps(reshape(x, Dims{count_rows(x), k}));
    Tensor out = _weight_int8pack_mm(steps, contiguous(w), scales * Scalar(scale));
    if (bias.defined()) out = out + bias;
    out = reshape(out, sizes);
    return with_relu ? relu(out) : out;
  }
};

struct QuantizedConvolution {
  static constexpr const char* name = "quantized convolution";
  static Tensor call(const Tensor& x, const Tensor& w, const Tensor& scales, const Tensor& bias,
                     IntList stride, IntList padding, IntList dilation, bool transposed,
                     IntList output_padding, int64_t groups, std::span<const double> steps,
                     IntList zeros, bool with_relu, DType dtype) {
    const InAndOut ends(name, x, dtype, steps, zeros);
    const int64_t dims = w.dim() - 2;
    check_shape(dims >= 1 && dims <= 3 && x.dim() == w.dim(), name, "needs a batch and a weight ",
                "of one to three spatial dims, got shapes ", x.sizes(), " and ", w.sizes());
    check_argument(groups > 0, name, "groups must be positive, got ", groups);
    const int64_t outputs = transposed ? w.sizes()[1] * groups : w.sizes()[0];
    check_weight(name, x, {w, scales, bias}, outputs);
    if (quantized_loops(x).convolve && is_plain(x, w, scales, bias) && x.numel() > 0 &&
        w.numel() > 0) {
      // What does not fit is told by the composed way.
      const Dims step = spread(name, "stride", stride, dims, 1),
                 pad = spread(name, "padding", padding, dims, 0),
                 gap = spread(name, "dilation", dilation, dims, 1),
                 extra = spread(name, "output_padding", output_padding, dims, 0);
      const Dims sizes = result_sizes(x, w, outputs, step, pad, gap, extra, transposed);
      if (fits(x, w, groups, transposed, sizes, extra, step, gap)) {
        const Tensor out = make_tensor(sizes, strides_of_last_channels(sizes), dtype, x.device());
        const ConvKind kind = transposed ? ConvKind::InputGrad : ConvKind::Forward;
        const ConvShape shape =
            transposed ? conv_shape(sizes, w.sizes(), x.sizes(), step, pad, gap, groups)
                       : conv_shape(x.sizes(), w.sizes(), sizes, step, pad, gap, groups);
        if (quantized_loops(x).convolve(kind, shape, x, ends.in, laid_end_to_end({w, scales, bias}),
                                        with_relu, out, ends.out))
          return out;
      }
    }
    Tensor sums = convolution(from_zero(x, ends.in), in_floats(w), Tensor(), stride, padding,
                              dilation, transposed, output_padding, groups);
    Dims by_channel(uint32_t(dims + 1), 1);
    by_channel[0] = outputs;
    sums = sums * reshape(scales * Scalar(ends.in.scale), by_channel);
    if (bias.defined()) sums = sums + reshape(bias, by_channel);
    return integers(sums, with_relu, ends.out, dtype);
  }

 private:
  static Dims result_sizes(const Tensor& x, const Tensor& w, int64_t outputs, const Dims& step,
                           const Dims& pad, const Dims& gap, const Dims& extra, bool transposed) {
    Dims out{x.sizes()[0], outputs};
    for (uint32_t d = 0; d + 2 < uint32_t(x.dim()); ++d) {
      const int64_t n = x.sizes()[d + 2], reach = gap[d] * (w.sizes()[d + 2] - 1) + 1;
      const int64_t room = n + 2 * pad[d] - reach;
      out.push_back(transposed  ? (n - 1) * step[d] - 2 * pad[d] + reach + extra[d]
                    : room >= 0 ? room / step[d] + 1
                                : 0);
    }
    return out;
  }
  static bool fits(const Tensor& x, const Tensor& w, int64_t groups, bool transposed,
                   const Dims& sizes, const Dims& extra, const Dims& step, const Dims& gap) {
    bool fine = w.sizes()[0] % groups == 0 &&
                x.sizes()[1] == (transposed ? w.sizes()[0] : w.sizes()[1] * groups);
    for (int64_t n : sizes) fine = fine && n > 0;
    for (uint32_t d = 0; d < extra.size(); ++d) fine = fine && extra[d] < std::max(step[d], gap[d]);
    return fine;
  }
};

struct DynamicLstm {
  static constexpr const char* name = "quantized LSTM";
  static std::tuple<Tensor, Tensor, Tensor> call(const Tensor& x, const Tensor& w_ih,
                                                 const Tensor& s_ih, const Tensor& w_hh,
                                                 const Tensor& s_hh, const Tensor& bias,
                                                 const Tensor& hx, const Tensor& cx, bool reverse) {
    const int64_t units = w_hh.dim() == 2 ? w_hh.sizes()[1] : 0;
    check_shape(x.dim() == 3 && w_ih.dim() == 2 && w_hh.dim() == 2 &&
                    w_ih.sizes() == Dims{4 * units, x.sizes()[2]} && w_hh.sizes()[0] == 4 * units &&
                    hx.sizes() == Dims{x.sizes()[1], units} && cx.sizes() == hx.sizes(),
                name, "the shapes do not fit together: input ", x.sizes(), ", weights ",
                w_ih.sizes(), " and ", w_hh.sizes(), ", states ", hx.sizes(), " and ", cx.sizes());
    check_dtype(
        x.dtype() == DType::Float32 && hx.dtype() == DType::Float32 && cx.dtype() == DType::Float32,
        name, "input and states must be float32, got ", x.dtype(), ", ", hx.dtype(), " and ",
        cx.dtype());
    check_weight(name, x, {w_ih, s_ih, bias}, 4 * units);
    check_weight(name, hx, {w_hh, s_hh, {}}, 4 * units);
    common_device(name, {&x, &hx, &cx});
    if (const auto loop = quantized_loops(x).recurrent_layer;
        loop && is_plain(x, w_ih, s_ih, w_hh, s_hh, bias, hx, cx) && x.numel() > 0 && units > 0) {
      const Tensor h = clone_data(contiguous_data(hx)), c = clone_data(contiguous_data(cx));
      const Tensor out = make_tensor(Dims{x.sizes()[0], x.sizes()[1], units}, DType::Float32);
      if (loop(contiguous_data(x), laid_end_to_end({w_ih, s_ih, bias}),
               laid_end_to_end({w_hh, s_hh, Tensor()}), reverse, h, c, out))
        return {out, h, c};
    }
    return composed(x, w_ih, s_ih, w_hh, s_hh, bias, hx, cx, reverse);
  }

 private:
  static std::tuple<Tensor, Tensor, Tensor> composed(const Tensor& x, const Tensor& w_ih,
                                                     const Tensor& s_ih, const Tensor& w_hh,
                                                     const Tensor& s_hh, const Tensor& bias,
                                                     Tensor h, Tensor c, bool reverse) {
    const Tensor inputs = _dynamic_linear(x, w_ih, s_ih, bias, false);
    const int64_t steps = x.sizes()[0], units = h.sizes()[1];
    std::vector<Tensor> outs(static_cast<size_t>(steps));
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = reverse ? steps - 1 - i : i;
      const Tensor sums = select(inputs, 0, t) + _dynamic_linear(h, w_hh, s_hh, Tensor(), false);
      const auto gate = [&](int64_t g) { return slice(sums, 1, g * units, (g + 1) * units, 1); };
      c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * tanh(gate(2));
      h = sigmoid(gate(3)) * tanh(c);
      outs[size_t(t)] = h;
    }
    const Tensor all = steps ? stack(outs, 0) : reshape(inputs, Dims{0, h.sizes()[0], units});
    return {all, h, c};
  }
};

}  // namespace rush

#include "ops/quantized.inc"
