// quantized.cpp: oneDNN's primitives over 8-bit integers.
//
//   out = round(relu(scale_x * scale_w[c] * sum((x - zero_x) * w) + bias[c]) / scale + zero)
//
// Sums are exact in int32, what follows is float32, rounded to nearest, ties to even. Scales and
// zeros are arguments of a call, so a primitive serves all layers of its shape. Weights lie as
// oneDNN wants them, with their sums beside them where x has a zero (cpu/nn/weight_layouts.h).
#include "cpu/vendor/onednn_quantized.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "core/threads.h"
#include "cpu/copy/copy.h"
#include "cpu/vendor/onednn/library.h"
#include "cpu/vendor/onednn/tensors.h"
#include "cpu/vendor/onednn_matmul.h"
#include "cpu/vendor/primitive_cache.h"

namespace rush::onednn {

namespace {

dnnl_data_type_t type_of(DType t) {
  return t == DType::UInt8 ? dnnl_u8 : t == DType::Int8 ? dnnl_s8 : dnnl_f32;
}

// What a primitive depends on beside its shape.
struct Form {
  dnnl_data_type_t x, out;
  bool has_zero, has_bias, relu, accumulate;

  bool narrows() const { return out != dnnl_f32; }
  friend PrimitiveKey& operator<<(PrimitiveKey& key, const Form& f) {
    return key << f.x << f.out << f.has_zero << f.has_bias << f.relu << f.accumulate;
  }
};

struct Primitive {
  Port weight;
  bool turns = false;   // the port is given a product's weight by its other dim
  WeightLayout layout;  // of the weight as it is wanted
  Handle<dnnl_memory_desc_t> x, bias, out, scales, number, zero;
  Handle<dnnl_primitive_desc_t> desc;
  Handle<dnnl_primitive_t> primitive;  // none: oneDNN cannot do this one, or only slowly
  const_dnnl_memory_desc_t scratchpad = nullptr;
};

// by_output: the bits of the weight's dims that have a scale for each index.
Handle<dnnl_primitive_attr_t> attributes(const Form& form, int by_output) {
  const Library& dnn = *library();
  auto attr = user_scratchpad();
  const auto scaled = [&](int argument, int mask) {
    check_status(dnn.primitive_attr_set_scales_mask(attr.get(), argument, mask), "scales");
  };
  scaled(DNNL_ARG_SRC, 0);
  scaled(DNNL_ARG_WEIGHTS, by_output);
  const auto moved = [&](int argument) {
    check_status(dnn.primitive_attr_set_zero_points_mask(attr.get(), argument, 0), "zero points");
  };
  if (form.has_zero) moved(DNNL_ARG_SRC);
  if (form.narrows()) scaled(DNNL_ARG_DST, 0), moved(DNNL_ARG_DST);
  if (!form.relu && !form.accumulate) return attr;
  Handle<dnnl_post_ops_t> after;
  check_status(dnn.post_ops_create(&after.out()), "making post-ops");
  if (form.accumulate)
    check_status(dnn.post_ops_append_sum(after.get(), 1.0f, 0, dnnl_data_type_undef), "a sum");
  if (form.relu)
    check_status(dnn.post_ops_append_eltwise(after.get(), dnnl_eltwise_relu, 0.0f, 0.0f), "a relu");
  check_status(dnn.primitive_attr_set_post_ops(attr.get(), after.get()), "setting post-ops");
  return attr;
}

// Fills in what all primitives have once they are described. by_columns: a weight that lies otherwise
// than wanted is brought into this form first, which oneDNN reorders 500 times faster.
void finish(Primitive& p, const Form& form, int64_t outputs, bool (*is_fast)(std::string_view),
            Handle<dnnl_memory_desc_t>* by_columns = nullptr) {
  const Library& dnn = *library();
  const char* made_by = "";
  check_status(dnn.primitive_desc_query(p.desc.get(), dnnl_query_impl_info_str, 0, &made_by),
               "asking for an implementation");
  if (!is_fast(made_by)) return;
  const auto wanted = dnn.primitive_desc_query_md(p.desc.get(), dnnl_query_weights_md, 0);
  if (by_columns && !dnn.memory_desc_equal(p.weight.given.get(), wanted)) {
    p.weight.given = std::move(*by_columns);
    p.turns = true;
  }
  p.weight.decide(wanted, false);
  // Sums that lie behind the weight do not show in its description.
  p.layout = described(p.weight.wanted);
  if (!p.layout.empty())
    for (int64_t v : {int64_t(form.x), int64_t(form.has_zero), int64_t(bytes_of(p.weight.wanted))})
      p.layout.push_back(v);
  p.scales = with_strides(Dims{outputs}, Dims{1}, dnnl_f32);
  p.number = with_strides(Dims{1}, Dims{1}, dnnl_f32);
  p.zero = with_strides(Dims{1}, Dims{1}, dnnl_s32);
  p.scratchpad = dnn.primitive_desc_query_md(p.desc.get(), dnnl_query_scratchpad_md, 0);
  check_status(dnn.primitive_create(&p.primitive.out(), p.desc.get()), "making a primitive");
}

// The rows of a product's weight as columns, and those in the layout that is wanted.
void turn(const Primitive& p, const Tensor& w, void* to) {
  const Dims sizes{w.sizes()[1], w.sizes()[0]};
  const Tensor turned = make_tensor(sizes, w.dtype());
  copy_cpu(make_tensor(w.storage(), sizes, Dims{1, sizes[0]}, w.offset(), w.dtype()), turned);
  if (p.weight.reorder)
    p.weight.run_reorder(turned.data(), to, false);
  else
    std::memcpy(to, turned.data(), size_t(turned.numel()));
}

Ref<Storage> prepared(const Primitive& p, const Tensor& weight) {
  if (!p.turns) return laid_out(p.weight, weight, p.layout, true);
  struct Source {
    const Primitive& primitive;
    const Tensor& weight;
  } source{p, weight};
  const auto fill = [](void* to, const void* from) {
    const auto& s = *static_cast<const Source*>(from);
    turn(s.primitive, s.weight, to);
  };
  return weight_in_layout(weight, p.layout, bytes_of(p.weight.wanted), true, fill, &source);
}

void execute(const Primitive& p, const Form& form, const void* x, Steps of_x,
             const IntegerWeight& w, void* out, Steps of_out) {
  const float scale_x = float(of_x.scale), scale_out = float(of_out.scale);
  const auto zero_x = int32_t(of_x.zero), zero_out = int32_t(of_out.zero);
  const Ref<Storage> weight = prepared(p, w.w), pad = scratch(p.scratchpad);
  Handle<dnnl_memory_t> held[11];
  dnnl_exec_arg_t args[11];
  int count = 0;
  const auto pass = [&](int name, const_dnnl_memory_desc_t desc, const void* data) {
    held[count] = memory(desc, data);
    args[count] = {name, held[count].get()};
    ++count;
  };
  pass(DNNL_ARG_SRC, p.x.get(), x);
  pass(DNNL_ARG_WEIGHTS, p.weight.wanted, weight ? weight->data() : w.w.data());
  if (form.has_bias) pass(DNNL_ARG_BIAS, p.bias.get(), w.bias.data());
  pass(DNNL_ARG_DST, p.out.get(), out);
  pass(DNNL_ARG_SCRATCHPAD, p.scratchpad, pad->data());
  pass(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, p.number.get(), &scale_x);
  pass(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, p.scales.get(), w.scales.data());
  if (form.has_zero) pass(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, p.zero.get(), &zero_x);
  if (form.narrows()) {
    pass(DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, p.number.get(), &scale_out);
    pass(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, p.zero.get(), &zero_out);
  }
  check_status(library()->primitive_execute(p.primitive.get(), stream(), count, args),
               "a product of integers");
}

bool is_refused(dnnl_status_t status) {
  if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) return true;
  check_status(status, "describing a product of integers");
  return false;
}

Primitive make_product(const IntegerProduct& p, const Form& form) {
  Primitive out;
  out.x = with_strides(Dims{p.m, p.k}, Dims{p.k, 1}, form.x);
  out.out = with_strides(Dims{p.m, p.n}, Dims{p.n, 1}, form.out);
  out.weight.given = with_strides(Dims{p.k, p.n}, Dims{1, p.k}, dnnl_s8);
  if (form.has_bias) out.bias = with_strides(Dims{1, p.n}, Dims{p.n, 1}, dnnl_f32);
  const auto weight = any_layout(Dims{p.k, p.n}, dnnl_s8);
  const auto attr = attributes(form, 1 << 1);
  const dnnl_status_t status =
      library()->matmul_primitive_desc_create(&out.desc.out(), engine(), out.x.get(), weight.get(),
                                              out.bias.get(), out.out.get(), attr.get());
  if (is_refused(status)) return out;
  // oneDNN's older way packs the weight at each call, which few rows do not repay.
  constexpr int64_t kFewRows = 16;
  const bool few = p.m < kFewRows;
  auto by_columns = with_strides(Dims{p.k, p.n}, Dims{p.n, 1}, dnnl_s8);
  finish(
      out, form, p.n,
      few ? [](std::string_view by) { return !by.starts_with("ref") && !by.starts_with("gemm"); }
          : [](std::string_view by) { return !by.starts_with("ref"); },
      &by_columns);
  return out;
}

// The geometry as oneDNN counts it, and the weight with its outputs first.
struct Geometry {
  std::array<int64_t, 3> stride{}, dilation{}, before{}, after{};
  Dims w_sizes, w_strides;
  bool fits = true;

  Geometry(ConvKind kind, const ConvShape& s, const Tensor& w) {
    const bool transposed = kind == ConvKind::InputGrad;
    const auto &from = transposed ? s.output : s.input, &to = transposed ? s.input : s.output;
    constexpr int64_t kLargest = 1 << 20;  // oneDNN counts some of these numbers in 32 bits
    for (size_t i = size_t(3 - s.dims), at = 0; i < 3; ++i, ++at) {
      const int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
      stride[at] = s.stride[i];
      dilation[at] = s.dilation[i] - 1;
      before[at] = s.padding[i];
      // What makes the sizes come out: a transposed one may have less, by its output padding.
      after[at] =
          transposed ? (from[i] - 1) * s.stride[i] + reach - s.padding[i] - to[i] : s.padding[i];
      fits = fits && std::max({s.stride[i], s.dilation[i], s.padding[i]}) <= kLargest &&
             (transposed || (from[i] + 2 * s.padding[i] - reach) / s.stride[i] + 1 == to[i]);
    }
    w_sizes = w.sizes(), w_strides = w.strides();
    if (s.groups > 1) {
      w_sizes[0] /= s.groups;
      w_sizes.insert(0, s.groups);
      w_strides.insert(0, w_sizes[1] * w_strides[0]);
    }
    if (transposed) {
      const size_t first = s.groups > 1 ? 1 : 0;
      std::swap(w_sizes[first], w_sizes[first + 1]);
      std::swap(w_strides[first], w_strides[first + 1]);
    }
  }
};

Primitive make_convolution(ConvKind kind, const ConvShape& s, const Tensor& x, const Tensor& w,
                           const Tensor& y, const Form& form) {
  const Library& dnn = *library();
  Primitive out;
  const Geometry g(kind, s, w);
  if (!g.fits) return out;
  out.x = with_strides(x.sizes(), strides_of_last_channels(x.sizes()), form.x);
  out.out = with_strides(y.sizes(), strides_of_last_channels(y.sizes()), form.out);
  out.weight.given = with_strides(g.w_sizes, g.w_strides, dnnl_s8);
  const int64_t outputs = y.sizes()[1];
  if (form.has_bias) out.bias = with_strides(Dims{outputs}, Dims{1}, dnnl_f32);
  const auto weight = any_layout(g.w_sizes, dnnl_s8);
  const auto attr = attributes(form, s.groups > 1 ? 3 : 1);
  const auto describe = [&](auto create, dnnl_alg_kind_t algorithm) {
    return create(&out.desc.out(), engine(), dnnl_forward_inference, algorithm, out.x.get(),
                  weight.get(), out.bias.get(), out.out.get(), g.stride.data(), g.dilation.data(),
                  g.before.data(), g.after.data(), attr.get());
  };
  const dnnl_status_t status =
      kind == ConvKind::Forward
          ? describe(dnn.convolution_forward_primitive_desc_create, dnnl_convolution_direct)
          : describe(dnn.deconvolution_forward_primitive_desc_create, dnnl_deconvolution_direct);
  if (is_refused(status)) return out;
  finish(out, form, outputs, [](std::string_view by) { return !by.starts_with("ref"); });
  return out;
}

// A team of threads is not worth waking for some microseconds' work, least of all in a loop over
// time. In multiply-adds.
constexpr double kLeastShared = 2e6;
struct Alone {
  std::optional<OneThread> scope;
  explicit Alone(double work) {
    if (work < kLeastShared) scope.emplace();
  }
};

}  // namespace

bool adds_bytes_exactly() {
  static const bool exact = [] {
    constexpr int kAvxVnni = 0x08, kAvx512Vnni = 0x40;
    return (int(library()->get_effective_cpu_isa()) & (kAvxVnni | kAvx512Vnni)) != 0;
  }();
  return exact;
}

bool multiply_integers(const IntegerProduct& p) {
  if (!available()) return false;
  const Alone serial(double(p.m) * double(p.n) * double(p.k));
  // Float results are those of steps that change from call to call; the weight's layout should not.
  const bool has_zero = p.of_x.zero != 0 || p.out_type == DType::Float32;
  const Form form{p.is_signed ? dnnl_s8 : dnnl_u8,
                  type_of(p.out_type),
                  has_zero,
                  p.w.bias.defined() && !p.accumulate,
                  p.relu,
                  p.accumulate};
  PrimitiveKey key(PrimitiveKey::IntegerProduct);
  key << p.m << p.n << p.k << prepare_threads() << form;
  const auto found = cached_primitive<Primitive>(key, [&] { return make_product(p, form); });
  if (!found->primitive) return false;
  execute(*found, form, p.x, p.of_x, p.w, p.out, p.of_out);
  return true;
}

bool convolve_integers(ConvKind kind, const ConvShape& s, const Tensor& x, Steps of_x,
                       const IntegerWeight& w, bool relu, const Tensor& out, Steps of_out) {
  if (!available()) return false;
  const Alone serial(double(s.batch) * double(s.output_points()) * double(s.out_channels) *
                     double(s.group_channels()) * double(s.kernel_points()));
  const Form form{
      type_of(x.dtype()), type_of(out.dtype()), of_x.zero != 0, w.bias.defined(), relu, false};
  PrimitiveKey key(PrimitiveKey::IntegerConvolution);
  for (int64_t v : {s.batch, s.channels, s.out_channels, s.groups, int64_t(s.dims), int64_t(kind),
                    int64_t(prepare_threads())})
    key << v;
  for (const auto* list : {&s.input, &s.output, &s.kernel, &s.stride, &s.padding, &s.dilation})
    for (int64_t v : *list) key << v;
  key << form;
  const auto found = cached_primitive<Primitive>(
      key, [&] { return make_convolution(kind, s, x, w.w, out, form); });
  if (!found->primitive) return false;
  execute(*found, form, x.data(), of_x, w, out.data(), of_out);
  return true;
}

}  // namespace rush::onednn
