// Complex numbers: their parts, conjugates and angles. Conjugates are written out, never lazy: a
// flag on every tensor would be in the way of every kernel, and complex tensors are rare.
#include "autograd/snapshot.h"
#include "ops/framework/data.h"
#include "ops/pointwise/pointwise.h"

namespace rush {
namespace {

// The parts of a complex tensor without history, for writing.
Tensor part_of(const Tensor& z, int64_t which) {
  Dims strides = z.strides();
  for (int64_t& s : strides) s *= 2;
  return make_tensor(z.storage(), z.sizes(), strides, 2 * z.offset() + which, to_real(z.dtype()));
}

bool has_complex_type(DType t) {
  return t == DType::Float32 || t == DType::Float64 || t == DType::Float16;
}

}  // namespace

struct ViewAsReal : Named<"view_as_real"> {
  static Geometry view(const Tensor& z) {
    check_dtype(z.is_complex(), name,
                "only complex tensors can be viewed as real ones, this one is ", z.dtype());
    Geometry g{z.sizes(), z.strides(), 2 * z.offset(), to_real(z.dtype())};
    for (int64_t& s : g.strides) s *= 2;
    g.sizes.push_back(2);
    g.strides.push_back(1);
    return g;
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) {
    return {view_as_complex(contiguous(g))};
  }
};

struct ViewAsComplex : Named<"view_as_complex"> {
  static Geometry view(const Tensor& x) {
    check_dtype(has_complex_type(x.dtype()), name,
                "only float16, float32 and float64 tensors have a complex view, this one is ",
                x.dtype());
    check_shape(x.dim() > 0 && x.sizes().back() == 2, name,
                "the last dimension must have size 2, the shape is ", x.sizes());
    check_shape(x.strides().back() == 1, name,
                "the last dimension must have stride 1, the strides are ", x.strides());
    check_shape(x.offset() % 2 == 0, name, "the storage offset must be even, it is ", x.offset());
    Geometry g{x.sizes(), x.strides(), x.offset() / 2, to_complex(x.dtype())};
    g.sizes.resize(g.sizes.size() - 1);
    g.strides.resize(g.strides.size() - 1);
    for (int64_t& s : g.strides) {
      check_shape(s % 2 == 0, name, "all strides but the last must be even, they are ",
                  x.strides());
      s /= 2;
    }
    return g;
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {view_as_real(g)}; }
};

struct Real : Named<"real"> {
  static Tensor call(const Tensor& z) {
    return z.is_complex() ? select(view_as_real(z), -1, 0) : z;
  }
};

struct Imag : Named<"imag"> {
  static Tensor call(const Tensor& z) {
    check_dtype(z.is_complex(), name, "a ", z.dtype(), " tensor has no imaginary part");
    return select(view_as_real(z), -1, 1);
  }
};

struct Conj : Named<"conj"> {
  static Tensor call(const Tensor& z) { return z.is_complex() ? conj_physical(z) : z; }
};

struct ConjPhysical : Named<"conj_physical"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& z) { return like(z); }
  static void run(const Tensor& z, const Tensor& out) {
    if (z.is_complex())
      map_unary(UnaryFn::Conj, z, out);
    else if (!out.is_same(z))
      copy_data(out, z);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {conj(g)}; }
  static Tensor jvp(const Jvp& j, const Tensor&) { return conj(j.tangent(0)); }
};

struct ResolveConj : Named<"resolve_conj"> {
  static Tensor call(const Tensor& z) { return z; }
};
struct ResolveNeg : Named<"resolve_neg"> {
  static Tensor call(const Tensor& z) { return z; }
};
struct IsConj : Named<"is_conj"> {
  static bool call(const Tensor&) { return false; }
};
struct IsNeg : Named<"is_neg"> {
  static bool call(const Tensor&) { return false; }
};

struct Angle : Named<"angle"> {
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& z) { return like(z, to_real(float_type(z.dtype()))); }
  static void run(const Tensor& z, const Tensor& out) {
    map_unary(UnaryFn::Angle, z, out, {}, compute_type(float_type(z.dtype())));
  }
  static constexpr uint32_t needs[] = {in(0)};
  // A step to the left of z turns it: i z / |z|^2.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor& z) {
    if (!z.is_complex()) return {zeros_like(g)};
    const Tensor turn = z / (square(real(z)) + square(imag(z))) * Scalar(complex<double>{0.0, 1.0});
    return {zero_where(eq(z, wrap_number(0)), g * turn)};
  }
};

namespace {

void check_parts(const char* op, const char* what, const Tensor& a, const Tensor& b) {
  check_dtype(has_complex_type(a.dtype()) && a.dtype() == b.dtype(), op, "both ", what,
              " must be float16, float32 or float64, they are ", a.dtype(), " and ", b.dtype());
}

}  // namespace

struct MakeComplex : Named<"complex"> {
  static Spec check(const Tensor& re, const Tensor& im) {
    check_parts(name, "parts", re, im);
    return pointwise(name, re, im, to_complex(re.dtype()));
  }
  static void run(const Tensor& re, const Tensor& im, const Tensor& out) {
    copy_data(part_of(out, 0), re);
    copy_data(part_of(out, 1), im);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor&) {
    return {c.wants(0) ? real(g) : Tensor(), c.wants(1) ? imag(g) : Tensor()};
  }
};

struct Polar : Named<"polar"> {
  static Tensor call(const Tensor& size, const Tensor& angle) {
    check_parts(name, "tensors", size, angle);
    const SnapshotScope scope;  // PyTorch keeps the result: programs may write to size and angle
    return make_complex(size * cos(angle), size * sin(angle));
  }
};

}  // namespace rush

#include "ops/complex_parts.inc"
