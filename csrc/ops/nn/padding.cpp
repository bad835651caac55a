// Borders around the last dims: of a constant, or of what is inside.
#include <algorithm>

#include "device/nn/image.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

// Images whose channels lie innermost stay so.
Spec padded(const Tensor& x, const Dims& sizes) {
  Spec spec{sizes, x.dtype(), x.device()};
  if (x.suggest_memory_format() != MemoryFormat::Contiguous)
    spec.strides = channels_last_strides(sizes);
  return spec;
}

// The sizes of x with these borders around it, which may be negative.
Dims sizes_around(const char* op, const Tensor& x, IntList pad) {
  constexpr int64_t kWidest = int64_t(1) << 60;
  Dims sizes(x.sizes());
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = sizes.size() - 1 - i;
    for (const int64_t width : {pad[2 * i], pad[2 * i + 1]})
      check(width > -kWidest && width < kWidest && sizes[d] < kWidest, ErrorKind::Runtime, op,
            "pad ", pad, " makes dimension ", int64_t(d), " of shape ", x.sizes(),
            " too large to count");
    sizes[d] += pad[2 * i] + pad[2 * i + 1];
    // A border that is taken off must have been there: no end may pass the other.
    check(sizes[d] >= 0, ErrorKind::Runtime, op, "pad ", pad, " makes dimension ", int64_t(d),
          " of shape ", x.sizes(), " negative");
  }
  return sizes;
}

// The same memory with the channels as the last dim.
Tensor channels_behind(const Tensor& t) {
  Dims sizes{t.sizes()[0]}, strides{t.strides()[0]};
  for (size_t d = 2; d <= size_t(t.dim()); ++d) {
    const size_t from = d == size_t(t.dim()) ? 1 : d;
    sizes.push_back(t.sizes()[from]);
    strides.push_back(t.strides()[from]);
  }
  return t.alias(sizes, strides, t.offset());
}

}  // namespace

struct ConstantPadNd {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "constant_pad_nd";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, IntList pad, const Scalar&) {
    rush::check(pad.size() % 2 == 0, ErrorKind::Runtime, name, "pad needs pairs of widths, got ",
                pad);
    rush::check(int64_t(pad.size()) <= 2 * x.dim(), ErrorKind::Runtime, name, "pad ", pad,
                " names more dimensions than shape ", x.sizes(), " has");
    return padded(x, sizes_around(name, x, pad));
  }
  static void run(const Tensor& x, IntList pad, const Scalar& value, const Tensor& out) {
    Dims sizes(x.sizes());
    bool widens = false;
    for (size_t i = 0; i < pad.size() / 2; ++i) {
      int64_t& size = sizes[sizes.size() - 1 - i];
      const int64_t before = pad[2 * i], after = pad[2 * i + 1];
      widens |= before > 0 || after > 0;
      size =
          std::max<int64_t>(0, size + std::min<int64_t>(0, before) + std::min<int64_t>(0, after));
    }
    if (widens) fill_data(out, value);
    for (const int64_t n : sizes)
      if (n == 0) return;
    int64_t from = x.offset(), to = out.offset();
    for (size_t i = 0; i < pad.size() / 2; ++i) {
      const size_t d = sizes.size() - 1 - i;
      from += std::max<int64_t>(0, -pad[2 * i]) * x.strides()[d];
      to += std::max<int64_t>(0, pad[2 * i]) * out.strides()[d];
    }
    copy_data(out.alias(sizes, out.strides(), to), x.alias(sizes, x.strides(), from));
  }
  // Taking off what was put on, and the other way round with zeros.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, IntList pad, const Scalar&) {
    Dims back;
    for (const int64_t n : pad) back.push_back(-n);
    return {constant_pad_nd(g, back, 0)};
  }
};

// Reflected, replicated and circular borders on the CPU; on GPUs they are index_select
// (nn/functional/padding.py, which has checked the widths).
struct PadFromInside {
  static constexpr const char* name = "pad";
  static Spec check(const Tensor& x, IntList pad, int64_t mode) {
    const Dims sizes = sizes_around(name, x, pad);
    // PyTorch joins circular borders from slices, and images with channels to pad are no images.
    const bool images =
        PadMode(mode) != PadMode::Circular && int64_t(pad.size()) <= 2 * x.dim() - 4;
    return images ? padded(x, sizes) : Spec{sizes, x.dtype(), x.device()};
  }
  static void run(const Tensor& x, IntList pad, int64_t mode, const Tensor& out) {
    if (out.numel() == 0) return;
    const auto& loops = image_loops(out);
    if (out.is_contiguous())
      return loops.pad_from_inside(contiguous_data(x), pad, PadMode(mode), out);
    if (pad.size() > 4) {  // the loops know three dims, and the channels would be a fourth
      const Tensor plain = make_tensor(out.sizes(), out.dtype(), out.device());
      loops.pad_from_inside(contiguous_data(x), pad, PadMode(mode), plain);
      return copy_data(out, plain);
    }
    Dims widths{0, 0};  // of the channels, which come last here
    for (const int64_t n : pad) widths.push_back(n);
    loops.pad_from_inside(contiguous_data(channels_behind(x)), widths, PadMode(mode),
                          channels_behind(out));
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList pad, int64_t mode) {
    Tensor out = g;
    for (size_t i = 0; i < pad.size() / 2; ++i) {
      const size_t d = size_t(g.dim()) - 1 - i;
      const int64_t size = c.sizes(0)[d];
      Dims sizes(out.sizes());
      sizes[d] = size;
      const Tensor place = places(PadMode(mode), size, pad[2 * i], pad[2 * i + 1], g.device());
      out = index_add(new_zeros(out, sizes), int64_t(d), place, out);
    }
    return {out};
  }

 private:
  // Where the elements along a dim come from.
  static Tensor places(PadMode mode, int64_t size, int64_t before, int64_t after, Device device) {
    const Tensor host = make_tensor(Dims{size + before + after}, DType::Int64);
    for (int64_t i = 0; i < host.numel(); ++i)
      host.data<int64_t>()[i] = place_inside(mode, i - before, size);
    return placed(host, device);
  }
};

}  // namespace rush

#include "ops/padding.inc"
