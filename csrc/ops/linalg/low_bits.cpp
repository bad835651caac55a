// Products with numbers of 4 and 8 bits: float8 by float8 with scales, int8 by int8, and floating
// inputs by weights that are integers with a scale.
#include "device/low_bits.h"

#include "device/linalg.h"
#include "device/pointwise.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"

namespace rush {
namespace {

void check_matrices(const char* op, const Tensor& a, const Tensor& b) {
  check_shape(a.dim() == 2 && b.dim() == 2, op, "expects two matrices, got shapes ", a.sizes(),
              " and ", b.sizes());
  check_shape(a.sizes()[1] == b.sizes()[0], op, "the shapes ", a.sizes(), " and ", b.sizes(),
              " do not fit together: a column of the first for each row of the second");
}

void check_device(const char* op, const Tensor& x, const char* what, const Tensor& t) {
  check(t.device() == x.device(), ErrorKind::Device, op, what, " is on ", t.device(),
        ", the input is on ", x.device());
}

// b with its columns end to end.
Tensor by_columns(const Tensor& b) {
  if (b.strides()[0] == 1 || b.numel() == 0) return b;
  const Dims turned{b.sizes()[1], b.sizes()[0]};
  const Tensor out = make_tensor(turned, b.dtype(), b.device());
  const Tensor seen = make_tensor(out.storage(), b.sizes(), Dims{1, turned[1]}, 0, b.dtype());
  copy_data(seen, b);
  return seen;
}

Tensor by_rows(const Tensor& a) { return a.strides()[1] == 1 ? a : contiguous_data(a); }

// Of numbers, not of the scales that float8_e8m0fnu is for.
constexpr bool is_factor(DType t) { return is_float8(t) && t != DType::Float8E8M0FNU; }

}  // namespace

struct ScaledMm {
  static constexpr const char* name = "_scaled_mm";
  static constexpr bool any_device = true;
  static constexpr bool takes_float8 = true;

  static bool has_row_scales(const Tensor& a, const Tensor& b, const Tensor& scale_a,
                             const Tensor& scale_b) {
    return scale_a.sizes() == Dims{a.sizes()[0], 1} && scale_b.sizes() == Dims{1, b.sizes()[1]};
  }
  static Spec check(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                    const Tensor& bias, const Tensor& scale_result, std::optional<DType> out_dtype,
                    bool) {
    check_matrices(name, a, b);
    const bool scalar = scale_a.numel() == 1 && scale_b.numel() == 1;
    rush::check(is_factor(a.dtype()) && is_factor(b.dtype()) && scale_a.dtype() == DType::Float32 &&
                    scale_b.dtype() == DType::Float32 &&
                    (scalar || has_row_scales(a, b, scale_a, scale_b)),
                ErrorKind::Value, name, "expects two float8 matrices and float32 scales, of one ",
                "number each or of shapes ", Dims{a.sizes()[0], 1}, " and ", Dims{1, b.sizes()[1]},
                "; got ", a.dtype(), " and ", b.dtype(), ", scales of ", scale_a.dtype(), " ",
                scale_a.sizes(), " and ", scale_b.dtype(), " ", scale_b.sizes());
    check_device(name, a, "mat2", b);
    check_device(name, a, "scale_a", scale_a);
    check_device(name, a, "scale_b", scale_b);
    if (bias.defined()) {
      check_shape(bias.dim() == 1 && bias.sizes()[0] == b.sizes()[1], name, "bias must have ",
                  b.sizes()[1], " elements, one for each column of the result, got shape ",
                  bias.sizes());
      check_device(name, a, "bias", bias);
      check_dtype(bias.is_floating() && !is_float8(bias.dtype()), name,
                  "bias must be floating, got ", bias.dtype());
    }
    if (scale_result.defined())
      check_shape(scale_result.numel() == 1, name, "scale_result must be one number, got shape ",
                  scale_result.sizes());
    const DType t = out_dtype.value_or(a.dtype());
    check_dtype(is_floating(t) && t != DType::Float64 && t != DType::Float8E8M0FNU, name,
                "out_dtype must be float32, bfloat16, float16 or a float8 type, got ", t);
    return {Dims{a.sizes()[0], b.sizes()[1]}, t, a.device()};
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                  const Tensor& bias, const Tensor& scale_result, std::optional<DType>, bool fast,
                  const Tensor& out) {
    if (out.numel() == 0) return;
    const bool rows = scale_a.numel() != 1 || scale_b.numel() != 1;
    // float8 results are made of float ones: only then is scale_result applied.
    const bool narrow = is_float8(out.dtype());
    const Tensor to =
        narrow || !out.is_contiguous()
            ? make_tensor(out.sizes(), narrow ? DType::Float32 : out.dtype(), out.device())
            : out;
    const auto product = low_bits_loops(out).byte_product;
    if (!product || !product(by_rows(a), by_columns(b), contiguous_data(scale_a),
                             contiguous_data(scale_b), bias, to, rows, fast))
      compose(a, b, scale_a, scale_b, bias, to);
    // cuBLASLt multiplies by it, PyTorch's CPUs divide: programs for each expect it so.
    if (narrow && scale_result.defined())
      map_binary(out.is_cpu() ? BinaryFn::Div : BinaryFn::Mul, to, scale_result, to, {},
                 DType::Float32);
    if (!to.is_same(out)) copy_data(out, to);
  }

 private:
  static void compose(const Tensor& a, const Tensor& b, const Tensor& scale_a,
                      const Tensor& scale_b, const Tensor& bias, const Tensor& out) {
    const Tensor sums = make_tensor(out.sizes(), DType::Float32, out.device());
    product_loops(out).gemm(convert_data(a, DType::Float32), convert_data(b, DType::Float32), sums,
                            1, 0);
    map_binary(BinaryFn::Mul, sums, scale_a, sums, {}, DType::Float32);
    map_binary(BinaryFn::Mul, sums, scale_b, sums, {}, DType::Float32);
    if (bias.defined()) map_binary(BinaryFn::Add, sums, bias, sums, {}, DType::Float32);
    copy_data(out, sums);
  }
};

struct IntMm {
  static constexpr const char* name = "_int_mm";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& a, const Tensor& b) {
    check_matrices(name, a, b);
    check_dtype(a.dtype() == DType::Int8 && b.dtype() == DType::Int8, name,
                "needs int8 matrices, got ", a.dtype(), " and ", b.dtype());
    check_device(name, a, "mat2", b);
    return {Dims{a.sizes()[0], b.sizes()[1]}, DType::Int32, a.device()};
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    if (out.numel() == 0) return;
    const auto product = low_bits_loops(out).byte_product;
    if (product && out.is_contiguous() &&
        product(by_rows(a), by_columns(b), {}, {}, {}, out, false, false))
      return;
    product_loops(out).gemm(convert_data(a, DType::Int32), convert_data(b, DType::Int32), out, 1,
                            0);
  }
};

namespace {

// The checks that all weight-only products share; k and n are those of the weights.
Spec weight_only_spec(const char* op, const Tensor& x, int64_t n, int64_t k, const Tensor& w,
                      const Tensor& scales) {
  check_shape(x.dim() == 2 && x.sizes()[1] == k, op, "the input must be a matrix with ", k,
              " columns, as the weights have them, got shape ", x.sizes());
  check_dtype(is_floating(x.dtype()) && !is_float8(x.dtype()) && x.dtype() != DType::Float64, op,
              "the input must be bfloat16, float16 or float32, got ", x.dtype());
  check_dtype(scales.dtype() == x.dtype(), op, "the scales must have the input's type, ", x.dtype(),
              ", got ", scales.dtype());
  check_device(op, x, "the weight", w);
  check_device(op, x, "the scales", scales);
  return {Dims{x.sizes()[0], n}, x.dtype(), x.device()};
}

void check_groups(const char* op, int64_t group, int64_t k, int64_t n, const Tensor& scales) {
  check_argument(group == 32 || group == 64 || group == 128 || group == 256, op,
                 "the group size must be 32, 64, 128 or 256, got ", group);
  check_shape(k % group == 0 && scales.sizes() == Dims{k / group, n, 2}, op,
              "scales and zeros must have the shape ", Dims{k / group, n, 2}, " (", k,
              " columns in groups of ", group, "), got ", scales.sizes());
}

}  // namespace

struct WeightInt8packMm {
  static constexpr const char* name = "_weight_int8pack_mm";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& w, const Tensor& scales) {
    check_shape(w.dim() == 2, name, "the weight must be a matrix, got shape ", w.sizes());
    check_dtype(w.dtype() == DType::Int8, name, "the weight must be int8, got ", w.dtype());
    rush::check(w.is_contiguous(), ErrorKind::Runtime, name,
                "the weight must be contiguous: use weight.contiguous()");
    check_shape(scales.dim() == 1 && scales.sizes()[0] == w.sizes()[0], name, "needs ",
                w.sizes()[0], " scales, one for each row of the weight, got shape ",
                scales.sizes());
    return weight_only_spec(name, x, w.sizes()[0], w.sizes()[1], w, scales);
  }
  static void run(const Tensor& x, const Tensor& w, const Tensor& scales, const Tensor& out) {
    if (out.numel() == 0) return;
    const auto rows = low_bits_loops(out).int8_rows;
    if (rows && rows(contiguous_data(x), w, contiguous_data(scales), out)) return;
    const Tensor wide = convert_data(w, x.dtype());
    const Tensor turned = make_tensor(wide.storage(), Dims{w.sizes()[1], w.sizes()[0]},
                                      Dims{1, w.sizes()[1]}, wide.offset(), wide.dtype());
    product_loops(out).gemm(x, turned, out, 1, 0);
    map_binary(BinaryFn::Mul, out, scales, out);
  }
};

struct Int4TilesMm {
  static constexpr const char* name = "_weight_int4pack_mm";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& packed, int64_t group, const Tensor& scales) {
    const bool tiles = packed.dim() == 4 && packed.sizes()[2] == 32 && packed.is_contiguous() &&
                       packed.dtype() == DType::Int32;
    const int64_t inner = tiles ? packed.sizes()[3] * 2 : 0;
    check_shape(inner == 2 || inner == 4 || inner == 8, name,
                "the weight must be the contiguous int32 tensor of _convert_weight_to_int4pack, ",
                "got ", packed.dtype(), " of shape ", packed.sizes());
    const int64_t n = packed.sizes()[0] * 8, k = packed.sizes()[1] * inner * 16;
    check_groups(name, group, k, n, scales);
    return weight_only_spec(name, x, n, k, packed, scales);
  }
  static void run(const Tensor& x, const Tensor& packed, int64_t group, const Tensor& scales,
                  const Tensor& out) {
    if (out.numel() == 0) return;
    const auto tiles = low_bits_loops(out).int4_tiles;
    rush::check(tiles && tiles(contiguous_data(x), packed, group, contiguous_data(scales), out),
                ErrorKind::NotImplemented, name, "there is no kernel for ", x.dtype(),
                " input of shape ", x.sizes(), " on ", x.device());
  }
};

struct WeightInt4packMmForCpu {
  static constexpr const char* name = "_weight_int4pack_mm_for_cpu";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& packed, int64_t group, const Tensor& scales) {
    check_shape(packed.dim() == 2 && packed.dtype() == DType::UInt8 && packed.is_contiguous() &&
                    packed.sizes()[0] % 16 == 0,
                name, "the weight must be the contiguous uint8 tensor of ",
                "_convert_weight_to_int4pack_for_cpu, got ", packed.dtype(), " of shape ",
                packed.sizes());
    rush::check(packed.is_cpu() || packed.is_meta(), ErrorKind::Device, name,
                "is for tensors on the CPU, the weight is on ", packed.device(),
                ": use _weight_int4pack_mm");
    const int64_t n = packed.sizes()[0], k = packed.sizes()[1] * 2;
    check_groups(name, group, k, n, scales);
    return weight_only_spec(name, x, n, k, packed, scales);
  }
  static void run(const Tensor& x, const Tensor& packed, int64_t group, const Tensor& scales,
                  const Tensor& out) {
    if (out.numel() == 0) return;
    low_bits_loops(out).int4_columns(contiguous_data(x), packed, group, contiguous_data(scales),
                                     out);
  }
};

}  // namespace rush

#include "ops/low_bits.inc"
