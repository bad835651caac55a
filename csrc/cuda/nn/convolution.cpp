// Convolutions on GPUs, by cuDNN.
//
// cuDNN takes tensors that lie contiguous or channels-last, all three alike; what lies otherwise is
// copied first. Which engine serves a geometry comes from cuDNN's heuristics and is kept: no trial
// runs. Convolutions of each channel by itself, channels-last, have kernels of our own: cuDNN's
// took 7 times as long for MobileNet's. Types that cuDNN lacks (integers, complex) are left to the
// host.
#include "device/nn/convolution.h"

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "cuda/nn/depthwise.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/settings.h"
#include "cuda/vendor/cudnn.h"
#include "cuda/vendor/cudnn_graph.h"
#include "cuda/vendor/plan_cache.h"
#include "cuda/vendor/relu_trial.h"
#include "device/pointwise.h"

namespace rush::cuda {
namespace {

// Everything that a plan depends on, without padding between the fields.
struct Geometry {
  int32_t kind, dtype, dims, groups, device, channels_last, tf32, deterministic, alignment,
      benchmark;
  int32_t x[5], w[5], y[5], padding[3], stride[3], dilation[3];
  bool operator==(const Geometry& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
// Two spatial dims at least: cuDNN knows no fewer.
int spatial(const ConvShape& s) { return std::max(s.dims, 2); }

constexpr int64_t kMostWorkspace = int64_t(1) << 30;
constexpr int64_t kWorthOneCall = int64_t(1) << 22;  // elements of a result with a bias

template <class I>
std::array<I, 5> strides_of(const Geometry& g, const int32_t* sizes) {
  std::array<I, 5> strides{};
  const size_t rank = size_t(g.dims) + 2;
  I step = 1;
  if (g.channels_last) {
    strides[1] = 1;
    step = I(sizes[1]);
    for (size_t d = rank - 1; d >= 2; --d) strides[d] = step, step *= I(sizes[d]);
    strides[0] = step;
  } else {
    for (size_t d = rank; d-- > 0;) strides[d] = step, step *= I(sizes[d]);
  }
  return strides;
}

// ---- all but the bias: a graph of one operation ----

enum TensorId : int64_t { kX = 1, kW, kY };

dnn::Descriptor describe_tensor(const Geometry& g, TensorId id, const int32_t* sizes) {
  const size_t rank = size_t(g.dims) + 2;
  const std::array<int64_t, 5> wide{sizes[0], sizes[1], sizes[2], sizes[3],
                                    rank > 4 ? sizes[4] : 1};
  const auto strides = strides_of<int64_t>(g, sizes);
  return dnn::tensor_descriptor(id, dnn::data_type(DType(g.dtype)), std::span(wide).first(rank),
                                std::span(strides).first(rank), g.alignment);
}

dnn::Descriptor describe_convolution(const Geometry& g) {
  const dnn::DataType compute = DType(g.dtype) == DType::Float64 ? dnn::kDouble : dnn::kFloat;
  const int mode = dnn::kCrossCorrelation;
  std::array<int64_t, 3> padding, stride, dilation;
  for (size_t d = 0; d < 3; ++d)
    padding[d] = g.padding[d], stride[d] = g.stride[d], dilation[d] = g.dilation[d];
  const auto n = size_t(g.dims);
  dnn::Descriptor conv(dnn::kConvolution);
  conv.set(dnn::kConvCompute, dnn::kDataTypeValue, 1, &compute);
  conv.set(dnn::kConvMode, dnn::kConvModeValue, 1, &mode);
  conv.set(dnn::kConvSpatialDims, int64_t(n));
  conv.set(dnn::kConvPrePadding, std::span(padding).first(n));
  conv.set(dnn::kConvPostPadding, std::span(padding).first(n));
  conv.set(dnn::kConvStrides, std::span(stride).first(n));
  conv.set(dnn::kConvDilations, std::span(dilation).first(n));
  conv.finish();
  return conv;
}

std::vector<dnn::Plan> make_plans(const Geometry& g, size_t wanted) {
  const dnn::Descriptor x = describe_tensor(g, kX, g.x), w = describe_tensor(g, kW, g.w),
                        y = describe_tensor(g, kY, g.y), conv = describe_convolution(g);
  struct Kind {
    dnn::DescriptorKind descriptor;
    dnn::Attribute first;
  };
  constexpr Kind kinds[] = {{dnn::kConvolutionForward, dnn::kForwardFirst},
                            {dnn::kConvolutionBackwardData, dnn::kBackwardDataFirst},
                            {dnn::kConvolutionBackwardFilter, dnn::kBackwardFilterFirst}};
  const Kind kind = kinds[g.kind];
  const auto attribute = [&](int i) { return dnn::Attribute(kind.first + i); };
  dnn::Descriptor op(kind.descriptor);
  const bool wide = DType(g.dtype) == DType::Float64;
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const dnn::ValueType scalar = wide ? dnn::kDoubleValue : dnn::kFloatValue;
  op.set(attribute(0), scalar, 1, wide ? static_cast<const void*>(&wide_one) : &one);
  op.set(attribute(1), scalar, 1, wide ? static_cast<const void*>(&wide_zero) : &zero);
  op.set(attribute(2), conv);
  op.set(attribute(3), w);
  op.set(attribute(4), x);
  op.set(attribute(5), y);
  op.finish();
  const dnn::Conditions conditions{
      .no_tensor_cores = DType(g.dtype) == DType::Float32 && !g.tf32,
      .deterministic = g.deterministic != 0,
      .most_workspace = kMostWorkspace,
  };
  return dnn::find_plans(dnn::handle(g.device), {&op, 1}, conditions, wanted);
}

// ---- with a bias: the older call that adds it in the same pass ----

class BiasPlan {
 public:
  explicit BiasPlan(const Geometry& g) : g_(g) {
    const dnn::Library& l = dnn::library();
    const auto type = dnn::data_type(DType(g.dtype));
    const int rank = g.dims + 2;
    dnn::done(l.CreateFilter(&w), "convolution");
    dnn::done(l.CreateConv(&conv), "convolution");
    x = tensor(g.x, rank, type);
    y = tensor(g.y, rank, type);
    const int32_t sizes[5] = {1, g.y[1], 1, 1, 1};
    bias = tensor(sizes, rank, type);
    const auto format = g.channels_last ? dnn::kChannelsLast : dnn::kContiguous;
    dnn::done(l.SetFilter(w, type, format, rank, g.w), "convolution");
    dnn::done(l.SetConv(conv, g.dims, g.padding, g.stride, g.dilation, dnn::kCrossCorrelation,
                        dnn::kFloat),
              "convolution");
    dnn::done(l.SetGroups(conv, g.groups), "convolution");
    const dnn::MathType math = type != dnn::kFloat ? dnn::kTensorOp
                               : g.tf32            ? dnn::kDefaultMath
                                                   : dnn::kFma;
    dnn::done(l.SetMath(conv, math), "convolution");
    choose(math);
  }
  BiasPlan(const BiasPlan&) = delete;
  ~BiasPlan() {
    const dnn::Library& l = dnn::library();
    for (const dnn::TensorDesc t : {x, y, bias})
      if (t) l.DestroyTensor(t);
    if (w) l.DestroyFilter(w);
    if (conv) l.DestroyConv(conv);
  }

  bool found = false;  // else the bias is added afterwards
  dnn::TensorDesc x = nullptr, y = nullptr, bias = nullptr;
  dnn::FilterDesc w = nullptr;
  dnn::ConvDesc conv = nullptr;
  size_t workspace = 0;
  const uint64_t number = next_plan_number(), number_with_relu = next_plan_number();
  const ReluTrial relu{};

 private:
  dnn::TensorDesc tensor(const int32_t* sizes, int rank, dnn::DataType type) const {
    dnn::TensorDesc desc = nullptr;
    dnn::done(dnn::library().CreateTensor(&desc), "convolution");
    const auto strides = strides_of<int>(g_, sizes);
    dnn::done(dnn::library().SetTensor(desc, type, rank, sizes, strides.data()), "convolution");
    return desc;
  }

  void choose(dnn::MathType math) {
    const dnn::Library& l = dnn::library();
    dnn::AlgorithmPerf all[16];
    int count = 0;
    dnn::done(l.ForwardAlgorithms(dnn::handle(g_.device), x, w, conv, y, 16, &count, all),
              "convolution");
    for (int i = 0; i < count; ++i) {
      if (all[i].status != 0 || int64_t(all[i].memory) > kMostWorkspace) continue;
      if (all[i].algorithm != dnn::kImplicitPrecomputedGemm) return;
      // The heuristics may count on another kind of arithmetic than was asked for.
      if (all[i].math_type != int(math) && math != dnn::kFma)
        dnn::done(l.SetMath(conv, dnn::MathType(all[i].math_type)), "convolution");
      workspace = all[i].memory;
      found = true;
      return;
    }
  }
  Geometry g_;
};

// None, or relu: one of each serves everybody.
dnn::ActivationDesc activation(bool relu) {
  const auto make = [](int kind) {
    dnn::ActivationDesc desc = nullptr;
    const dnn::Library& l = dnn::library();
    dnn::done(l.CreateActivation(&desc), "convolution");
    dnn::done(l.SetActivation(desc, kind, dnn::kPropagateNan, 0), "convolution");
    return desc;
  };
  static const dnn::ActivationDesc none = make(dnn::kIdentity), positive = make(dnn::kRelu);
  return relu ? positive : none;
}

const BiasPlan& bias_plan_for(const Geometry& g) {
  return kept_plan<BiasPlan>(g, [&] { return std::make_unique<BiasPlan>(g); });
}

bool lies_right(const Tensor& t, bool last) {
  return last ? is_channels_last(t.sizes(), t.strides()) : t.is_contiguous();
}
Tensor fresh_like(const Tensor& t, bool last) {
  return last ? make_tensor(t.sizes(), channels_last_strides(t.sizes()), t.dtype(), t.device())
              : make_tensor(t.sizes(), t.dtype(), t.device());
}

void fill_sizes(const Tensor& t, int dims, int32_t* out) {
  const int missing = dims + 2 - int(t.dim());
  for (int d = 0; d < dims + 2; ++d) {
    const int own = d < 2 ? d : d - missing;
    const int64_t n = d >= 2 && d < 2 + missing ? 1 : t.sizes()[size_t(own)];
    check(n < int64_t(1) << 31, ErrorKind::NotImplemented, "convolution", "a size of ", n,
          " is too large for cuDNN");
    out[d] = int32_t(n);
  }
}

// cuDNN works out the output's size itself; padding that differs before and after, and outputs of
// transposed convolutions that nothing reaches, do not fit its formula.
bool has_plain_sizes(const ConvShape& s) {
  for (size_t d = 0; d < 3; ++d) {
    const int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    if (s.output[d] != (s.input[d] + 2 * s.padding[d] - reach) / s.stride[d] + 1) return false;
  }
  return true;
}

Geometry geometry_of(ConvKind kind, const ConvShape& shape, const ConvTensors& t, bool last) {
  const int dims = spatial(shape);
  const auto first = size_t(3 - dims);
  Geometry g{};
  g.kind = int32_t(kind);
  g.dtype = int32_t(t.x.dtype());
  g.dims = dims;
  g.groups = int32_t(shape.groups);
  g.device = t.x.device().index;
  g.channels_last = last;
  g.tf32 = settings().convolution_tf32.load();
  g.deterministic = settings().wants_repeatable();
  g.benchmark = settings().cudnn_benchmark.load();
  g.alignment = 16;
  for (const Tensor* x : {&t.x, &t.w, &t.y})
    while (reinterpret_cast<uintptr_t>(x->data()) % uintptr_t(g.alignment)) g.alignment /= 2;
  fill_sizes(t.x, dims, g.x);
  fill_sizes(t.w, dims, g.w);
  fill_sizes(t.y, dims, g.y);
  for (size_t d = 0; d < size_t(dims); ++d) {
    g.padding[d] = int32_t(shape.padding[first + d]);
    g.stride[d] = int32_t(shape.stride[first + d]);
    g.dilation[d] = int32_t(shape.dilation[first + d]);
  }
  return g;
}

Tensor workspace_for(int64_t nbytes, Device device) {
  return nbytes ? make_tensor(Dims{nbytes}, DType::UInt8, device) : Tensor();
}

void add_bias(const Tensor& y, const Tensor& bias) {
  Dims sizes(uint32_t(y.dim()), 1), strides(uint32_t(y.dim()), 0);
  sizes[1] = bias.numel();
  strides[1] = bias.dim() ? bias.strides()[0] : 0;
  map_binary(BinaryFn::Add, y, bias.alias(sizes, strides, bias.offset()), y);
}

// The convolution and its bias in one pass, and relu where it is asked for; false: there is no such way. The call
// costs the host more than a plan's, so it is for images whose second pass would cost the GPU more.
bool convolve_with_bias(const Geometry& g, const ConvTensors& t, bool relu) {
  if (t.y.numel() < kWorthOneCall || DType(g.dtype) == DType::Float64 || !t.bias.is_contiguous())
    return false;
  const BiasPlan& plan = bias_plan_for(g);
  if (!plan.found) return false;
  const Tensor workspace = workspace_for(int64_t(plan.workspace), t.x.device());
  void* const room = workspace.defined() ? workspace.data() : nullptr;
  const auto run = [&](const void* bias, CUstream stream) {
    const float one = 1, zero = 0;
    return dnn::library().ForwardBias(dnn::handle(g.device, stream), &one, plan.x, t.x.data(),
                                      plan.w, t.w.data(), plan.conv, dnn::kImplicitPrecomputedGemm,
                                      room, plan.workspace, &zero, plan.y, t.y.data(), plan.bias,
                                      bias, activation(relu), plan.y, t.y.data());
  };
  Stream* const stream = current_stream(g.device);
  if (relu && !plan.relu.keeps_nan(t.bias.numel(), t.y, [&](const void* bias) {
        return run(bias, stream->handle()) == 0;
      }))
    return false;
  CallKey key(relu ? plan.number_with_relu : plan.number);
  for (const void* place : {t.x.data(), t.w.data(), t.y.data(), t.bias.data(), room})
    key.add(place);
  queue_call(stream, key, [&](CUstream on) { dnn::done(run(t.bias.data(), on), "convolution"); });
  return true;
}

void run_plan(const dnn::Plan& plan, const Geometry& g, const ConvTensors& t) {
  const Tensor workspace = workspace_for(plan.workspace(), t.x.device());
  constexpr int64_t ids[] = {kX, kW, kY};
  void* const data[] = {t.x.data(), t.w.data(), t.y.data()};
  void* const room = workspace.defined() ? workspace.data() : nullptr;
  CallKey key(plan.number());
  for (const void* place : {t.x.data(), t.w.data(), t.y.data(), room}) key.add(place);
  queue_call(current_stream(g.device), key,
             [&](CUstream stream) { plan.run(dnn::handle(g.device, stream), ids, data, room); });
}

// backends.cudnn.benchmark: the first of its kind is run by several engines, and the fastest stays.
size_t fastest(const std::vector<dnn::Plan>& plans, const Geometry& g, const ConvTensors& t) {
  note_wait("cudnn.benchmark");
  const SingleLaunches single;  // each call is timed
  Stream* stream = current_stream(g.device);
  size_t best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < plans.size(); ++i) {
    run_plan(plans[i], g, t);  // loads its kernels
    for (int turn = 0; turn < 2; ++turn) {
      Event begin(true), end(true);
      begin.record(stream);
      run_plan(plans[i], g, t);
      end.record(stream);
      end.wait();
      const float time = begin.milliseconds_until(end);
      if (time < least) least = time, best = i;
    }
  }
  return best;
}

// One plan, or none where cuDNN has no engine for it.
const std::vector<dnn::Plan>& plans_for(const Geometry& g, const ConvTensors& t) {
  return kept_plan<std::vector<dnn::Plan>>(g, [&] {
    constexpr size_t kCandidates = 6;
    auto plans = make_plans(g, g.benchmark ? kCandidates : 1);
    if (plans.size() > 1) std::swap(plans[0], plans[fastest(plans, g, t)]);
    if (plans.size() > 1) plans.erase(plans.begin() + 1, plans.end());
    return std::make_unique<std::vector<dnn::Plan>>(std::move(plans));
  });
}

// Of the depthwise ones. (On an H200, MobileNetV2's: half the time of our kernel; forward and input
// gradients, and all in half types, take cuDNN four to seven times as long as ours.)
bool is_faster_by_cudnn(ConvKind kind, const ConvShape& s, DType type) {
  return kind == ConvKind::WeightGrad && type == DType::Float32 && s.kernel[1] == 3 &&
         s.kernel[2] == 3 && s.dilation[1] == 1 && s.dilation[2] == 1 && s.stride[1] <= 2 &&
         s.stride[2] <= 2;
}

// With relu, by one launch or not at all.
bool convolve(ConvKind kind, const ConvShape& shape, const ConvTensors& given, bool relu) {
  ConvTensors t = given;
  const Tensor result = t.written(kind);
  if (!dnn::has_type(t.x.dtype()) || !has_plain_sizes(shape) || !settings().cudnn_enabled.load() ||
      !dnn::library().missing.empty())
    return false;
  // (For doubles cuDNN has no engines that read channels-last.)
  const bool last = (t.x.is_channels_last() || t.w.is_channels_last() || t.y.is_channels_last()) &&
                    (t.x.dtype() != DType::Float64 || is_depthwise(shape));
  for (Tensor* x : {&t.x, &t.w, &t.y}) {
    if (lies_right(*x, last)) continue;
    const Tensor moved = fresh_like(*x, last);
    if (!x->is_same(result)) copy(*x, moved, false);
    *x = moved;
  }
  const auto finish = [&] {
    if (!t.written(kind).is_same(result)) copy(t.written(kind), result, false);
    return true;
  };
  if (last && is_depthwise(shape) && !is_faster_by_cudnn(kind, shape, t.x.dtype())) {
    if (relu) return false;
    if (t.bias.defined()) t.bias = contiguous(t.bias);
    convolve_depthwise(kind, shape, t);
    return finish();
  }
  const Geometry g = geometry_of(kind, shape, t, last);
  const bool adds = kind == ConvKind::Forward && t.bias.defined();
  if (adds && convolve_with_bias(g, t, relu)) return finish();
  if (relu) return false;
  const std::vector<dnn::Plan>& plans = plans_for(g, t);
  if (plans.empty()) return false;
  run_plan(plans[0], g, t);
  if (adds) add_bias(t.y, t.bias);
  return finish();
}

bool convolve_by_cudnn(ConvKind kind, const ConvShape& shape, const ConvTensors& given) {
  return convolve(kind, shape, given, false);
}
bool convolve_with_relu(const ConvShape& shape, const ConvTensors& given) {
  // (Before layouts are changed in vain.)
  return given.y.numel() >= kWorthOneCall && convolve(ConvKind::Forward, shape, given, true);
}

bool prefers_channels_last(IntList sizes) { return sizes.size() == 4 || sizes.size() == 5; }

const bool registered = [] {
  convolution_loops(DeviceType::CUDA) = {convolve_by_cudnn, prefers_channels_last,
                                         convolve_with_relu};
  return true;
}();

}  // namespace
}  // namespace rush::cuda
