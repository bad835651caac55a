// Convolutions on GPUs, by cuDNN.
//
// cuDNN takes tensors that lie contiguous or channels-last, all three alike; what lies otherwise is
// copied first. Which algorithm serves a geometry comes from cuDNN's heuristics and is kept: no
// trial runs. Convolutions of each channel by itself, channels-last, have kernels of our own:
// cuDNN's took 7 times as long for MobileNet's. Types that cuDNN lacks (integers, complex) run on
// the host.
#include "cpu/convolution.h"

#include <cstring>
#include <memory>
#include <unordered_map>

#include "cpu/device_loops.h"
#include "cpu/pointwise.h"
#include "cuda/cudnn.h"
#include "cuda/depthwise.h"
#include "cuda/launch.h"
#include "cuda/loops.h"
#include "cuda/settings.h"

namespace rush::cuda {
namespace {

// Everything that a plan depends on, without padding between the fields.
struct Geometry {
  int32_t kind, dtype, dims, groups, device, channels_last, tf32, deterministic;
  int32_t x[5], w[5], y[5], padding[3], stride[3], dilation[3];
  bool operator==(const Geometry& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
struct GeometryHash {
  size_t operator()(const Geometry& g) const {
    uint64_t h = 1469598103934665603ull;
    const auto* words = reinterpret_cast<const uint32_t*>(&g);
    for (size_t i = 0; i < sizeof g / 4; ++i) {
      h = (h ^ words[i]) * 0x9E3779B97F4A7C15ull;
      h ^= h >> 29;
    }
    return size_t(h);
  }
};

// Two spatial dims at least: cuDNN knows no fewer.
int spatial(const ConvShape& s) { return std::max(s.dims, 2); }

// The descriptors of one geometry and the algorithm for it.
class Plan {
 public:
  explicit Plan(const Geometry& g) : g_(g) {
    const dnn::Library& l = dnn::library();
    const auto type = dnn::data_type(DType(g.dtype));
    dnn::done(l.CreateTensor(&x), "convolution");
    dnn::done(l.CreateTensor(&y), "convolution");
    dnn::done(l.CreateFilter(&w), "convolution");
    dnn::done(l.CreateConv(&conv), "convolution");
    const int rank = g.dims + 2;
    set_tensor(x, g.x, rank, type);
    set_tensor(y, g.y, rank, type);
    const auto format = g.channels_last ? dnn::kChannelsLast : dnn::kContiguous;
    dnn::done(l.SetFilter(w, type, format, rank, g.w), "convolution");
    const auto compute = type == dnn::kDouble ? dnn::kDouble : dnn::kFloat;
    dnn::done(
        l.SetConv(conv, g.dims, g.padding, g.stride, g.dilation, dnn::kCrossCorrelation, compute),
        "convolution");
    dnn::done(l.SetGroups(conv, g.groups), "convolution");
    math = type == dnn::kHalf || type == dnn::kBFloat16 ? dnn::kTensorOp
           : type == dnn::kFloat && !g.tf32             ? dnn::kFma
                                                        : dnn::kDefaultMath;
    dnn::done(l.SetMath(conv, math), "convolution");
    choose();
  }
  Plan(const Plan&) = delete;
  ~Plan() {
    const dnn::Library& l = dnn::library();
    if (x) l.DestroyTensor(x);
    if (y) l.DestroyTensor(y);
    if (w) l.DestroyFilter(w);
    if (conv) l.DestroyConv(conv);
    if (bias) l.DestroyTensor(bias);
  }

  // Whether the algorithm adds a bias by itself.
  bool takes_bias() const { return bias != nullptr; }

  dnn::TensorDesc x = nullptr, y = nullptr, bias = nullptr;
  dnn::FilterDesc w = nullptr;
  dnn::ConvDesc conv = nullptr;
  dnn::MathType math = dnn::kDefaultMath;
  int algorithm = 0;
  size_t workspace = 0;

 private:
  void set_tensor(dnn::TensorDesc desc, const int32_t* sizes, int rank, dnn::DataType type) const {
    int strides[5];
    int step = 1;
    if (g_.channels_last) {
      strides[1] = 1;
      step = sizes[1];
      for (int d = rank - 1; d >= 2; --d) strides[d] = step, step *= sizes[d];
      strides[0] = step;
    } else {
      for (int d = rank - 1; d >= 0; --d) strides[d] = step, step *= sizes[d];
    }
    dnn::done(dnn::library().SetTensor(desc, type, rank, sizes, strides), "convolution");
  }

  void choose() {
    const dnn::Library& l = dnn::library();
    const dnn::Handle handle = dnn::handle(g_.device);
    dnn::AlgorithmPerf found[16];
    int count = 0;
    switch (ConvKind(g_.kind)) {
      case ConvKind::Forward:
        dnn::done(l.ForwardAlgorithms(handle, x, w, conv, y, 16, &count, found), "convolution");
        break;
      case ConvKind::InputGrad:
        dnn::done(l.InputGradAlgorithms(handle, w, y, conv, x, 16, &count, found), "convolution");
        break;
      case ConvKind::WeightGrad:
        dnn::done(l.WeightGradAlgorithms(handle, x, y, conv, w, 16, &count, found), "convolution");
        break;
    }
    constexpr size_t kMostWorkspace = size_t(1) << 30;
    for (int i = 0; i < count; ++i) {
      if (found[i].status != 0 || found[i].memory > kMostWorkspace) continue;
      if (g_.deterministic && found[i].determinism == 0) continue;
      algorithm = found[i].algorithm;
      workspace = found[i].memory;
      // The heuristics may count on another kind of arithmetic than was asked for.
      if (found[i].math_type != int(math) && math != dnn::kFma)
        dnn::done(l.SetMath(conv, dnn::MathType(found[i].math_type)), "convolution");
      prepare_bias();
      return;
    }
    fail(ErrorKind::Runtime, "convolution", "cuDNN knows no way to compute it");
  }
  void prepare_bias() {
    if (ConvKind(g_.kind) != ConvKind::Forward || algorithm != dnn::kImplicitPrecomputedGemm ||
        DType(g_.dtype) == DType::Float64)
      return;
    dnn::done(dnn::library().CreateTensor(&bias), "convolution");
    int32_t sizes[5] = {1, g_.y[1], 1, 1, 1};
    set_tensor(bias, sizes, g_.dims + 2, dnn::data_type(DType(g_.dtype)));
  }
  Geometry g_;
};

// No activation: one serves everybody.
dnn::ActivationDesc identity() {
  static const dnn::ActivationDesc made = [] {
    dnn::ActivationDesc desc = nullptr;
    const dnn::Library& l = dnn::library();
    dnn::done(l.CreateActivation(&desc), "convolution");
    dnn::done(l.SetActivation(desc, dnn::kIdentity, dnn::kPropagateNan, 0), "convolution");
    return desc;
  }();
  return made;
}

// One a thread, as the handles are.
const Plan& plan_for(const Geometry& g) {
  constexpr size_t kMostPlans = 2048;
  using Plans = std::unordered_map<Geometry, std::unique_ptr<Plan>, GeometryHash>;
  thread_local std::unique_ptr<Plans> plans;
  if (!plans) plans = std::make_unique<Plans>();
  if (const auto found = plans->find(g); found != plans->end()) return *found->second;
  auto fresh = std::make_unique<Plan>(g);
  if (plans->size() >= kMostPlans) plans->clear();
  return *plans->emplace(g, std::move(fresh)).first->second;
}

bool lies_channels_last(const Tensor& t) {
  return (t.dim() == 4 || t.dim() == 5) && !t.is_contiguous() &&
         is_channels_last(t.sizes(), t.strides());
}

Tensor& written(ConvKind kind, ConvTensors& t) {
  return kind == ConvKind::Forward ? t.y : kind == ConvKind::InputGrad ? t.x : t.w;
}

bool lies_right(const Tensor& t, bool last) {
  return last ? is_channels_last(t.sizes(), t.strides()) : t.is_contiguous();
}
Tensor packed(const Tensor& t) {
  const Tensor out = make_tensor(t.sizes(), t.dtype(), t.device());
  copy(t, out, false);
  return out;
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

// On the host, over copies.
void convolve_on_host(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  note_wait("convolution");
  ConvTensors all = t;
  for (Tensor* x : {&all.x, &all.w, &all.bias, &all.y}) {
    if (!x->defined()) continue;
    const Tensor host = make_tensor(x->sizes(), x->dtype());
    copy(*x, host, false);
    *x = host;
  }
  rush::convolve(kind, shape, all);
  ConvTensors original = t;
  copy(written(kind, all), written(kind, original), false);
}

void convolve(ConvKind kind, const ConvShape& shape, const ConvTensors& given) {
  ConvTensors t = given;
  const Tensor result = written(kind, t);
  if (!dnn::has_type(t.x.dtype()) || !has_plain_sizes(shape) || !settings().cudnn_enabled.load() ||
      !dnn::library().missing.empty())
    return convolve_on_host(kind, shape, given);
  const bool last = lies_channels_last(t.x) || lies_channels_last(t.w) || lies_channels_last(t.y);
  for (Tensor* x : {&t.x, &t.w, &t.y}) {
    if (lies_right(*x, last)) continue;
    const Tensor moved = fresh_like(*x, last);
    if (!x->is_same(result)) copy(*x, moved, false);
    *x = moved;
  }
  const auto finish = [&] {
    if (!written(kind, t).is_same(result)) copy(written(kind, t), result, false);
  };
  if (last && is_depthwise(shape)) {
    if (t.bias.defined() && !t.bias.is_contiguous()) t.bias = packed(t.bias);
    convolve_depthwise(kind, shape, t);
    return finish();
  }
  const int device = t.x.device().index;
  const int dims = spatial(shape), first = 3 - dims;
  Geometry g{};
  g.kind = int32_t(kind);
  g.dtype = int32_t(t.x.dtype());
  g.dims = dims;
  g.groups = int32_t(shape.groups);
  g.device = device;
  g.channels_last = last;
  g.tf32 = settings().convolution_tf32.load();
  g.deterministic = settings().cudnn_deterministic.load();
  fill_sizes(t.x, dims, g.x);
  fill_sizes(t.w, dims, g.w);
  fill_sizes(t.y, dims, g.y);
  for (int d = 0; d < dims; ++d) {
    g.padding[d] = int32_t(shape.padding[size_t(first + d)]);
    g.stride[d] = int32_t(shape.stride[size_t(first + d)]);
    g.dilation[d] = int32_t(shape.dilation[size_t(first + d)]);
  }
  const Plan& plan = plan_for(g);
  const dnn::Library& l = dnn::library();
  const dnn::Handle handle = dnn::handle(device);
  Tensor workspace;
  if (plan.workspace)
    workspace = make_tensor(Dims{int64_t(plan.workspace)}, DType::UInt8, t.x.device());
  void* room = workspace.defined() ? workspace.data() : nullptr;
  const bool wide = t.x.dtype() == DType::Float64;
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const void *alpha = wide ? static_cast<const void*>(&wide_one) : &one,
             *beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
  bool needs_bias = kind == ConvKind::Forward && t.bias.defined();
  switch (kind) {
    case ConvKind::Forward:
      if (needs_bias && plan.takes_bias() && t.bias.is_contiguous()) {
        dnn::done(l.ForwardBias(handle, alpha, plan.x, t.x.data(), plan.w, t.w.data(), plan.conv,
                                plan.algorithm, room, plan.workspace, beta, plan.y, t.y.data(),
                                plan.bias, t.bias.data(), identity(), plan.y, t.y.data()),
                  "convolution");
        needs_bias = false;
        break;
      }
      dnn::done(l.Forward(handle, alpha, plan.x, t.x.data(), plan.w, t.w.data(), plan.conv,
                          plan.algorithm, room, plan.workspace, beta, plan.y, t.y.data()),
                "convolution");
      break;
    case ConvKind::InputGrad:
      dnn::done(l.InputGrad(handle, alpha, plan.w, t.w.data(), plan.y, t.y.data(), plan.conv,
                            plan.algorithm, room, plan.workspace, beta, plan.x, t.x.data()),
                "convolution");
      break;
    case ConvKind::WeightGrad:
      dnn::done(l.WeightGrad(handle, alpha, plan.x, t.x.data(), plan.y, t.y.data(), plan.conv,
                             plan.algorithm, room, plan.workspace, beta, plan.w, t.w.data()),
                "convolution");
      break;
  }
  if (needs_bias) {
    Dims sizes(uint32_t(t.y.dim()), 1), strides(uint32_t(t.y.dim()), 0);
    sizes[1] = t.bias.numel();
    strides[1] = t.bias.dim() ? t.bias.strides()[0] : 0;
    map_binary(BinaryFn::Add, t.y, t.bias.alias(sizes, strides, t.bias.offset()), t.y);
  }
  finish();
}

const bool registered = [] {
  device_loops(DeviceType::CUDA).convolve = convolve;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
