// convolution.cpp: oneDNN's convolution primitives.
//
// - Channels-last tensors are taken as they are. For contiguous ones oneDNN chooses a layout of its
//   own (blocked channels, mostly), and reorders carry the tensors there and back; weights always
//   take oneDNN's choice, and are kept in it (cpu/nn/weight_layouts.h).
// - Primitives and their reorders are compiled when made, so they are kept by shape.
#include "cpu/vendor/onednn_convolution.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "core/modes.h"
#include "core/storage.h"
#include "core/threads.h"
#include "cpu/nn/weight_layouts.h"
#include "cpu/vendor/onednn/library.h"
#include "cpu/vendor/onednn/tensors.h"
#include "cpu/vendor/onednn_matmul.h"
#include "cpu/vendor/primitive_cache.h"

namespace rush::onednn {

namespace {

PrimitiveKey key_of(ConvKind kind, const ConvShape& s, const ConvTensors& t, int threads) {
  PrimitiveKey key(PrimitiveKey::Convolution);
  for (int64_t v :
       {s.batch, s.channels, s.out_channels, s.groups, int64_t(s.dims), int64_t(kind),
        int64_t(t.x.dtype()), int64_t(t.bias.defined()), int64_t(threads),
        int64_t(t.x.is_channels_last() + 2 * t.w.is_channels_last() + 4 * t.y.is_channels_last())})
    key << v;
  for (const auto* list : {&s.input, &s.output, &s.kernel, &s.stride, &s.padding, &s.dilation}) {
    for (int64_t v : *list) key << v;
  }
  return key;
}

struct Convolution {
  Port x, w, bias, y;
  WeightLayout weight_layout;  // that w.reorder leads to
  Handle<dnnl_primitive_desc_t> desc;
  Handle<dnnl_primitive_t> primitive;  // none: oneDNN cannot do this one
  const_dnnl_memory_desc_t scratchpad = nullptr;
};

// The weight with its groups as a dim of their own.
void split_groups(const ConvShape& s, Dims& sizes, Dims& strides) {
  if (s.groups == 1) return;
  sizes[0] = s.group_out_channels();
  sizes.insert(0, s.groups);
  strides.insert(0, s.group_out_channels() * strides[0]);
}

// oneDNN counts some of these numbers in 32 bits.
constexpr int64_t kLargest = 1 << 20;

struct Maker {
  ConvKind kind;
  const ConvShape& s;
  const ConvTensors& t;
  dnnl_data_type_t type;
  Handle<dnnl_primitive_attr_t> attr = user_scratchpad();
  std::array<int64_t, 3> stride{}, dilation{}, before{}, after{};
  Handle<dnnl_memory_desc_t> x{}, w{}, bias{}, y{};

  Convolution make() {
    Convolution out;
    if (!fill_geometry()) return out;
    Dims w_sizes = t.w.sizes(), w_strides = t.w.strides();
    split_groups(s, w_sizes, w_strides);
    out.x.given = with_strides(t.x.sizes(), t.x.strides(), type);
    out.y.given = with_strides(t.y.sizes(), t.y.strides(), type);
    out.w.given = with_strides(w_sizes, w_strides, type);
    const bool as_is = t.x.is_channels_last() || t.y.is_channels_last();
    x = as_is ? last(t.x.sizes()) : any_layout(t.x.sizes(), type);
    y = as_is ? last(t.y.sizes()) : any_layout(t.y.sizes(), type);
    w = any_layout(w_sizes, type);
    if (t.bias.defined()) {
      bias = with_strides(t.bias.sizes(), Dims{1}, type);
      out.bias.given = with_strides(t.bias.sizes(), Dims{1}, type);
    }
    const dnnl_status_t status = describe(out);
    if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) return out;
    check_status(status, "describing a convolution");
    const auto md = [&](dnnl_query_t what) {
      return library()->primitive_desc_query_md(out.desc.get(), what, 0);
    };
    out.x.decide(md(kind == ConvKind::InputGrad ? dnnl_query_diff_src_md : dnnl_query_src_md),
                 kind == ConvKind::InputGrad);
    out.w.decide(
        md(kind == ConvKind::WeightGrad ? dnnl_query_diff_weights_md : dnnl_query_weights_md),
        kind == ConvKind::WeightGrad);
    out.y.decide(md(kind == ConvKind::Forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md),
                 kind == ConvKind::Forward);
    if (out.w.reorder && kind != ConvKind::WeightGrad) out.weight_layout = described(out.w.wanted);
    out.scratchpad = md(dnnl_query_scratchpad_md);
    check_status(library()->primitive_create(&out.primitive.out(), out.desc.get()),
                 "making a convolution");
    return out;
  }

 private:
  Handle<dnnl_memory_desc_t> last(const Dims& sizes) const {
    return with_strides(sizes, channels_last_strides(sizes), type);
  }

  // False where more is cut off at the end than oneDNN can express.
  bool fill_geometry() {
    const size_t skip = size_t(3 - s.dims);
    for (size_t i = skip; i < 3; ++i) {
      const int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
      stride[i - skip] = s.stride[i];
      dilation[i - skip] = s.dilation[i] - 1;
      before[i - skip] = s.padding[i];
      after[i - skip] = s.padding[i];
      if (std::max({s.stride[i], s.dilation[i], s.padding[i]}) > kLargest) return false;
      if ((s.input[i] + 2 * s.padding[i] - reach) / s.stride[i] + 1 != s.output[i]) return false;
    }
    return true;
  }

  dnnl_status_t describe(Convolution& out) {
    const Library& dnn = *library();
    Handle<dnnl_primitive_desc_t> forward;
    Handle<dnnl_primitive_desc_t>& target = kind == ConvKind::Forward ? out.desc : forward;
    const dnnl_status_t status = dnn.convolution_forward_primitive_desc_create(
        &target.out(), engine(), dnnl_forward_training, dnnl_convolution_direct, x.get(), w.get(),
        bias.get(), y.get(), stride.data(), dilation.data(), before.data(), after.data(),
        attr.get());
    if (kind == ConvKind::Forward || status != dnnl_success) return status;
    if (kind == ConvKind::InputGrad)
      return dnn.convolution_backward_data_primitive_desc_create(
          &out.desc.out(), engine(), dnnl_convolution_direct, x.get(), w.get(), y.get(),
          stride.data(), dilation.data(), before.data(), after.data(), forward.get(), attr.get());
    return dnn.convolution_backward_weights_primitive_desc_create(
        &out.desc.out(), engine(), dnnl_convolution_direct, x.get(), w.get(), nullptr, y.get(),
        stride.data(), dilation.data(), before.data(), after.data(), forward.get(), attr.get());
  }
};

// Data in the layout the primitive wants: the tensor's own, or a reordered copy.
class Operand {
 public:
  Operand(const Port& port, const Tensor& t, bool written)
      : port_(port), tensor_(t), written_(written) {
    data_ = t.data();
    if (port.reorder) {
      copy_ = scratch(port.wanted);
      data_ = copy_->data();
      if (!written) port.run_reorder(t.data(), data_, false);
    }
    memory_ = memory(port.wanted, data_);
  }
  // Only read, and in that layout already; null: it is as it was given.
  Operand(const Port& port, const Tensor& t, Ref<Storage> in_layout)
      : port_(port), tensor_(t), written_(false), copy_(std::move(in_layout)) {
    data_ = copy_ ? copy_->data() : t.data();
    memory_ = memory(port.wanted, data_);
  }
  dnnl_memory_t get() const { return memory_.get(); }
  void finish() const {
    if (written_ && port_.reorder) port_.run_reorder(data_, tensor_.data(), true);
  }

 private:
  const Port& port_;
  const Tensor& tensor_;
  bool written_;
  void* data_;
  Ref<Storage> copy_;
  Handle<dnnl_memory_t> memory_;
};

// A weight that is only read, in the layout that the primitive wants; null where it has it. It is
// kept in that layout where it will be asked for again: at once where nothing is recorded (but
// backward is not the place to begin).
Ref<Storage> laid_out(const Convolution& c, const Tensor& weight, ConvKind kind) {
  if (kind == ConvKind::WeightGrad) return {};
  return laid_out(c.w, weight, c.weight_layout, kind == ConvKind::Forward && !grad_enabled());
}

// weight: see laid_out.
void execute(ConvKind kind, const Convolution& c, const ConvTensors& t, Ref<Storage> weight) {
  const Operand x(c.x, t.x, kind == ConvKind::InputGrad);
  const Operand w =
      kind == ConvKind::WeightGrad ? Operand(c.w, t.w, true) : Operand(c.w, t.w, std::move(weight));
  const Operand y(c.y, t.y, kind == ConvKind::Forward);
  const Ref<Storage> pad = scratch(c.scratchpad);
  const auto pad_memory = memory(c.scratchpad, pad->data());
  dnnl_exec_arg_t args[5] = {
      {kind == ConvKind::InputGrad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, x.get()},
      {kind == ConvKind::WeightGrad ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, w.get()},
      {kind == ConvKind::Forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, y.get()},
      {DNNL_ARG_SCRATCHPAD, pad_memory.get()}};
  int count = 4;
  Handle<dnnl_memory_t> bias;
  if (t.bias.defined()) {
    bias = memory(c.bias.given.get(), t.bias.data());
    args[count++] = {DNNL_ARG_BIAS, bias.get()};
  }
  check_status(library()->primitive_execute(c.primitive.get(), stream(), count, args),
               "a convolution");
  x.finish(), w.finish(), y.finish();
}

// The primitive for as many threads as oneDNN is given here; null: oneDNN cannot do this one.
std::shared_ptr<const Convolution> primitive_of(ConvKind kind, const ConvShape& shape,
                                                const ConvTensors& t) {
  auto found = cached_primitive<Convolution>(key_of(kind, shape, t, prepare_threads()), [&] {
    const dnnl_data_type_t type = t.x.dtype() == DType::Float32 ? dnnl_f32 : dnnl_bf16;
    return Maker{kind, shape, t, type}.make();
  });
  return found->primitive ? found : nullptr;
}

bool convolve_whole(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  const auto found = primitive_of(kind, shape, t);
  if (found) execute(kind, *found, t, laid_out(*found, t.w, kind));
  return found != nullptr;
}

// Some images of the batch.
Tensor images(const Tensor& x, int64_t begin, int64_t end) {
  Dims sizes = x.sizes();
  sizes[0] = end - begin;
  return make_tensor(x.storage(), sizes, x.strides(), x.offset() + begin * x.strides()[0],
                     x.dtype());
}

Tensor like(const Tensor& x) { return make_tensor(x.sizes(), x.strides(), x.dtype(), {}); }

void add(const Tensor& part, const Tensor& to) {
  const auto* from = part.data<float>();
  auto* sum = to.data<float>();
  for (int64_t i = 0; i < part.numel(); ++i) sum[i] += from[i];  // both lie end to end
}

// A small convolution is cut into as many parts of the batch as there are threads, and each runs on
// one of them. So parallel_for decides whether the others are worth waiting for, see
// Note [Threads that do not run] in core/parallel.cpp, which oneDNN's own teams do not ask.
class Parts {
 public:
  Parts(ConvKind kind, const ConvShape& shape, const ConvTensors& t, int64_t count)
      : kind_(kind), shape_(shape), tensors_(t), count_(count) {}

  bool run() {
    {
      const OneThread as_in_parts;
      first_ = primitive_of(kind_, shape_of(0), tensors_of(0));
      if (!first_) return false;
      weight_ = laid_out(*first_, tensors_.w, kind_);
    }
    for (int64_t i = 1; i < count_ && kind_ == ConvKind::WeightGrad; ++i)
      sums_.push_back(like(tensors_.w));
    std::atomic<bool> done{true};
    parallel_for(count_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (!run_part(i)) done.store(false, std::memory_order_relaxed);
    });
    for (const Tensor& part : sums_) add(part, tensors_.w);
    return done;
  }

 private:
  int64_t bound(int64_t i) const { return i * shape_.batch / count_; }
  ConvShape shape_of(int64_t i) const {
    ConvShape shape = shape_;
    shape.batch = bound(i + 1) - bound(i);
    return shape;
  }
  ConvTensors tensors_of(int64_t i) const {
    ConvTensors t = tensors_;
    t.x = images(t.x, bound(i), bound(i + 1));
    t.y = images(t.y, bound(i), bound(i + 1));
    if (kind_ == ConvKind::WeightGrad && i > 0) t.w = sums_[size_t(i - 1)];
    return t;
  }
  bool run_part(int64_t i) const {
    const ConvTensors t = tensors_of(i);
    const auto found = i == 0 ? first_ : primitive_of(kind_, shape_of(i), t);
    if (!found) return false;
    // Parts differ by one image at most, but that may change what oneDNN prefers.
    const bool shared = found == first_ || (!found->weight_layout.empty() &&
                                            found->weight_layout == first_->weight_layout);
    execute(kind_, *found, t, shared ? weight_ : laid_out(*found, t.w, kind_));
    return true;
  }

  ConvKind kind_;
  const ConvShape& shape_;
  const ConvTensors& tensors_;
  int64_t count_;
  std::shared_ptr<const Convolution> first_;
  Ref<Storage> weight_;       // as the first part wants it
  std::vector<Tensor> sums_;  // of the weight's gradient, from the second part on
};

// In multiply-adds. A part should take longer than waking a thread does, and beyond a few
// milliseconds a wait is little beside the work.
constexpr double kLeastPart = 1e6, kSmall = 2e8;

// 0: it is for oneDNN to share the work.
int64_t parts_of(ConvKind kind, const ConvShape& s, const ConvTensors& t, int threads) {
  if (threads == 1 || (kind == ConvKind::WeightGrad && t.w.dtype() != DType::Float32)) return 0;
  const double work = double(s.batch) * double(s.output_points()) * double(s.out_channels) *
                      double(s.group_channels()) * double(s.kernel_points());
  if (work > kSmall) return 0;
  const auto worthwhile = int64_t(work / kLeastPart);
  if (worthwhile <= 1) return 1;
  const int64_t parts = std::min<int64_t>({worthwhile, threads, s.batch});
  // Three images are shared badly among two threads; oneDNN also cuts channels.
  const int64_t longest = (s.batch + parts - 1) / parts * parts;
  return 16 * (longest - s.batch) > s.batch || parts == 1 ? 0 : parts;
}

}  // namespace

bool run_convolution(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  if (!available() || shape.channels == 0 || shape.input_points() == 0) return false;
  const int64_t parts = parts_of(kind, shape, t, in_parallel_region() ? 1 : num_threads());
  if (parts > 1) return Parts(kind, shape, t, parts).run();
  std::optional<OneThread> serial;
  if (parts == 1) serial.emplace();
  return convolve_whole(kind, shape, t);
}

}  // namespace rush::onednn
