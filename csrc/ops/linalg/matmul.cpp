// Products of matrices and vectors. The loops are behind device/linalg.h; einsum stands in
// einsum.cpp.
#include "ops/linalg/matmul.h"

#include <algorithm>
#include <cmath>

#include "device/linalg.h"
#include "ops/framework/data.h"
#include "ops/framework/operators.h"
#include "ops/linalg/einsum.h"

namespace rush {

void check_product(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), ErrorKind::Runtime, op,
        "both tensors must have the same dtype, got ", a.dtype(), " and ", b.dtype(),
        ": convert one with .to(dtype)");
  check(a.dtype() != DType::Bool, ErrorKind::DType, op, "not implemented for bool tensors");
  common_device(op, {&a, &b});
}

namespace {

void check_matrices(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dim() == 2 && b.dim() == 2, ErrorKind::Runtime, op, "expects two matrices, got shapes ",
        a.sizes(), " and ", b.sizes());
  check_shape(a.sizes()[1] == b.sizes()[0], op, "inner sizes differ: self is ", a.sizes(),
              ", mat2 is ", b.sizes());
  check_product(op, a, b);
}

void check_batches(const char* op, const Tensor& a, const Tensor& b,
                   ErrorKind kind = ErrorKind::Runtime) {
  check(a.dim() == 3 && b.dim() == 3, kind, op,
        "expects two batches of matrices (3 dimensions), got shapes ", a.sizes(), " and ",
        b.sizes());
  check_shape(a.sizes()[0] == b.sizes()[0], op, "batch sizes differ: ", a.sizes(), " and ",
              b.sizes());
  check_shape(a.sizes()[2] == b.sizes()[1], op, "inner sizes differ: ", a.sizes(), " and ",
              b.sizes());
  check_product(op, a, b);
}

// Integers are scaled by whole numbers: addr refuses fractions, the products of matrices cut them.
bool is_exact(DType t) { return category(t) <= Category::Integer; }

void check_scales(const char* op, DType t, const Scalar& beta, const Scalar& alpha) {
  if (!is_exact(t)) return;
  check(!beta.is_complex() && !alpha.is_complex(), ErrorKind::Runtime, op,
        "beta and alpha must not be complex for ", t, " tensors");
  check(std::isfinite(beta.to_double()) && std::isfinite(alpha.to_double()), ErrorKind::Runtime, op,
        "beta and alpha must be finite for ", t, " tensors, got ", beta, " and ", alpha);
}

Scalar scale_for(DType t, const Scalar& scale) {
  return is_exact(t) && scale.is_floating() ? Scalar(scale.to_int()) : scale;
}

Tensor scaled(const Tensor& g, const Scalar& s) { return s.equals(1) ? g : g * s; }
Scalar conjugate(const Scalar& s) {
  if (!s.is_complex()) return s;
  const auto z = s.to<complex<double>>();
  return Scalar(complex<double>{z.re, -z.im});
}

// out = self, unless beta says that it does not count.
void start_from(const Tensor& self, const Scalar& beta, const Tensor& out) {
  if (!beta.equals(0) && !self.is_same(out)) copy_data(out, self);
}

}  // namespace

namespace {

// The gradient of either factor needs the other one.
struct Product {
  static constexpr bool any_device = true;
  static constexpr uint32_t needs[] = {in(1), in(0)};
};

// What mm and bmm share, but the checks: `times` is the op itself.
template <Tensor (*times)(const Tensor&, const Tensor&)>
struct MatrixProduct : Product {
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    product_loops(out).gemm(a, b, out, 1, 0);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {c.wants(0) ? times(g, adjoint(b)) : Tensor(),
            c.wants(1) ? times(adjoint(a), g) : Tensor()};
  }
};

}  // namespace

struct Mm : MatrixProduct<mm> {
  static constexpr const char* name = "mm";
  static Spec check(const Tensor& a, const Tensor& b) {
    check_matrices(name, a, b);
    return {Dims{a.sizes()[0], b.sizes()[1]}, a.dtype(), a.device()};
  }
};

struct Bmm : MatrixProduct<bmm> {
  static constexpr const char* name = "bmm";
  static Spec check(const Tensor& a, const Tensor& b) {
    check_batches(name, a, b);
    return {Dims{a.sizes()[0], a.sizes()[1], b.sizes()[2]}, a.dtype(), a.device()};
  }
};

struct Mv : Product {
  static constexpr const char* name = "mv";
  static Spec check(const Tensor& a, const Tensor& x) {
    rush::check(a.dim() == 2 && x.dim() == 1, ErrorKind::Runtime, name,
                "expects a matrix and a vector, got shapes ", a.sizes(), " and ", x.sizes());
    check_shape(a.sizes()[1] == x.sizes()[0], name, "inner sizes differ: the matrix is ", a.sizes(),
                ", the vector ", x.sizes());
    check_product(name, a, x);
    return {Dims{a.sizes()[0]}, a.dtype(), a.device()};
  }
  static void run(const Tensor& a, const Tensor& x, const Tensor& out) {
    product_loops(out).gemv(a, x, out, 1, 0);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& x) {
    return {c.wants(0) ? outer(g, conj(x)) : Tensor(), c.wants(1) ? mv(adjoint(a), g) : Tensor()};
  }
};

struct Dot : Product {
  static constexpr const char* name = "dot";
  static Spec check(const Tensor& a, const Tensor& b) {
    rush::check(a.dim() == 1 && b.dim() == 1, ErrorKind::Runtime, name,
                "expects two vectors, got shapes ", a.sizes(), " and ", b.sizes());
    check_shape(a.sizes() == b.sizes(), name, "the vectors must have equal lengths, got ",
                a.sizes()[0], " and ", b.sizes()[0]);
    check_product(name, a, b);
    return {Dims{}, a.dtype(), a.device()};
  }
  static void run(const Tensor& a, const Tensor& b, const Tensor& out) {
    product_loops(out).dot(a, b, out);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& a, const Tensor& b) {
    return {c.wants(0) ? g * conj(b) : Tensor(), c.wants(1) ? g * conj(a) : Tensor()};
  }
};

struct Vdot {
  static constexpr const char* name = "vdot";
  static Tensor call(const Tensor& a, const Tensor& b) { return dot(conj(a), b); }
};

struct Inner {
  static constexpr const char* name = "inner";
  static constexpr bool refuses_overlap = true;
  static Tensor call(const Tensor& a, const Tensor& b) {
    if (a.dim() == 0 || b.dim() == 0) return a * b;
    check_shape(a.sizes().back() == b.sizes().back(), name,
                "the last dimensions must agree, got shapes ", a.sizes(), " and ", b.sizes());
    return _tensordot(a, b, Dims{-1}, Dims{-1});
  }
};

struct Outer {
  static constexpr const char* name = "outer";
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& a, const Tensor& b) {
    check(a.dim() == 1 && b.dim() == 1, ErrorKind::Runtime, name,
          "expects two vectors, got shapes ", a.sizes(), " and ", b.sizes());
    return unsqueeze(a, 1) * b;
  }
};

struct Matmul {
  static constexpr const char* name = "matmul";
  static Tensor call(const Tensor& a, const Tensor& b) {
    const int64_t da = a.dim(), db = b.dim();
    check(da > 0 && db > 0, ErrorKind::Runtime, name,
          "both tensors need at least one dimension, got shapes ", a.sizes(), " and ", b.sizes());
    check_product(name, a, b);
    const int64_t inner_b = b.sizes()[size_t(db == 1 ? 0 : db - 2)];
    check_shape(a.sizes().back() == inner_b, name, "inner sizes differ: self is ", a.sizes(),
                ", other is ", b.sizes());
    if (da == 2 && db == 2) return mm(a, b);
    if (da == 1 && db == 1) return dot(a, b);
    if (da == 2 && db == 1) return mv(a, b);
    if (da == 1) return squeeze(call(unsqueeze(a, 0), b), IntList(Dims{-2}));
    if (db == 1) return squeeze(call(a, unsqueeze(b, 1)), IntList(Dims{-1}));
    // One matrix on the right serves all rows of a batch: a single large product.
    if (db == 2) {
      Dims sizes(a.sizes());
      sizes[sizes.size() - 1] = b.sizes()[1];
      return reshape(mm(reshape(a, Dims{numel(leading(a)), a.sizes().back()}), b), sizes);
    }
    return batched(a, b);
  }

 private:
  static IntList leading(const Tensor& x) { return IntList(x.sizes()).first(size_t(x.dim() - 1)); }
  static IntList batch(const Tensor& x) { return IntList(x.sizes()).first(size_t(x.dim() - 2)); }

  static Tensor batched(const Tensor& a, const Tensor& b) {
    const Dims shape = broadcast_shapes(name, batch(a), batch(b));
    const int64_t n = a.sizes()[size_t(a.dim() - 2)], k = a.sizes().back(), m = b.sizes().back(),
                  count = numel(shape);
    Dims sizes_a(shape), sizes_b(shape), sizes(shape);
    sizes_a.push_back(n), sizes_a.push_back(k);
    sizes_b.push_back(k), sizes_b.push_back(m);
    sizes.push_back(n), sizes.push_back(m);
    return reshape(bmm(reshape(expand(a, sizes_a), Dims{count, n, k}),
                       reshape(expand(b, sizes_b), Dims{count, k, m})),
                   sizes);
  }
};

namespace {

// Ops that add to self may write over it, but not over the factors.
struct AddsToSelf {
  static constexpr bool any_device = true;
  static constexpr bool in_place_safe = true;
  static constexpr bool reads_across = true;
};

// addmm and baddbmm: beta * self + alpha * times(a, b).
template <Tensor (*times)(const Tensor&, const Tensor&)>
struct AddedProduct : AddsToSelf {
  static void check_added(const char* op, const Spec& product, const Tensor& self, const Tensor& a,
                          const Scalar& beta, const Scalar& alpha) {
    check_product(op, self, a);
    check_scales(op, a.dtype(), beta, alpha);
    expand_strides(op, self.sizes(), self.strides(), product.sizes);
  }
  static void run(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                  const Scalar& alpha, const Tensor& out) {
    start_from(self, beta, out);
    product_loops(out).gemm(a, b, out, scale_for(a.dtype(), alpha), scale_for(a.dtype(), beta));
  }
  static constexpr uint32_t needs[] = {0, in(2), in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& a, const Tensor& b,
                    const Scalar& beta, const Scalar& alpha) {
    return {c.wants(0) ? scaled(g, conjugate(beta)) : Tensor(),
            c.wants(1) ? scaled(times(g, adjoint(b)), conjugate(alpha)) : Tensor(),
            c.wants(2) ? scaled(times(adjoint(a), g), conjugate(alpha)) : Tensor()};
  }
};

}  // namespace

struct Addmm : AddedProduct<mm> {
  static constexpr const char* name = "addmm";
  static Spec check(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                    const Scalar& alpha) {
    check_matrices(name, a, b);
    Spec spec{Dims{a.sizes()[0], b.sizes()[1]}, a.dtype(), a.device()};
    check_added(name, spec, self, a, beta, alpha);
    return spec;
  }
};

struct Baddbmm : AddedProduct<bmm> {
  static constexpr const char* name = "baddbmm";
  static Spec check(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                    const Scalar& alpha) {
    // PyTorch looks the third dim up first, and has an IndexError for it.
    check_batches(name, a, b, ErrorKind::Range);
    Spec spec{Dims{a.sizes()[0], a.sizes()[1], b.sizes()[2]}, a.dtype(), a.device()};
    check_added(name, spec, self, a, beta, alpha);
    return spec;
  }
};

namespace {

// beta * self + alpha * product; beta 0 ignores self, NaN included.
Tensor blend(const char* op, const Tensor& self, const Tensor& product, const Scalar& beta,
             const Scalar& alpha) {
  check_product(op, self, product);
  check_scales(op, product.dtype(), beta, alpha);
  expand_strides(op, self.sizes(), self.strides(), product.sizes());
  const Scalar old = scale_for(self.dtype(), beta);
  const Tensor scaled_product = scaled(product, scale_for(product.dtype(), alpha));
  return old.equals(0) ? scaled_product : scaled(self, old) + scaled_product;
}

}  // namespace

struct Addmv : AddsToSelf {
  static constexpr const char* name = "addmv";
  static Tensor call(const Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta,
                     const Scalar& alpha) {
    return blend(name, self, mv(a, x), beta, alpha);
  }
};

struct Addr {
  static constexpr const char* name = "addr";
  static constexpr bool in_place_safe = true;
  static Tensor call(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                     const Scalar& alpha) {
    if (self.dtype() != a.dtype() || self.dtype() != b.dtype()) {
      const DType type = promote(self.dtype(), promote(a.dtype(), b.dtype()));
      return call(cast(self, type), cast(a, type), cast(b, type), beta, alpha);
    }
    if (self.dtype() == DType::Bool && a.dtype() == DType::Bool && b.dtype() == DType::Bool) {
      const Tensor product = outer(a, alpha.to<bool>() ? b : zeros_like(b));
      return beta.to<bool>() ? logical_or(self, product) : product;
    }
    check(!is_exact(promote(a.dtype(), b.dtype())) || !(beta.is_floating() || alpha.is_floating()),
          ErrorKind::Runtime, name, "beta and alpha must be integers for ", a.dtype(), " tensors");
    return blend(name, self, outer(a, b), beta, alpha);
  }
};

struct Addbmm : AddsToSelf {
  static constexpr const char* name = "addbmm";
  static Tensor call(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                     const Scalar& alpha) {
    return blend(name, self, sum(bmm(a, b), Dims{0}, false, self.dtype()), beta, alpha);
  }
};

struct Tensordot {
  static constexpr const char* name = "tensordot";
  static Tensor call(const Tensor& a, const Tensor& b, IntList dims_a, IntList dims_b) {
    check(dims_a.size() == dims_b.size(), ErrorKind::Runtime, name,
          "both lists of dims must have the same length, got ", dims_a, " and ", dims_b);
    check_product(name, a, b);
    Dims contracted_a, contracted_b;
    for (size_t i = 0; i < dims_a.size(); ++i) {
      contracted_a.push_back(wrap_dim(name, dims_a[i], a.dim()));
      contracted_b.push_back(wrap_dim(name, dims_b[i], b.dim()));
      const int64_t na = a.sizes()[size_t(contracted_a.back())],
                    nb = b.sizes()[size_t(contracted_b.back())];
      check_shape(na == nb, name, "contracted dims need equal sizes: dim ", dims_a[i], " of shape ",
                  a.sizes(), " and dim ", dims_b[i], " of shape ", b.sizes());
    }
    Dims order_a, order_b, shape;
    int64_t rows = 1, columns = 1, depth = 1;
    auto has = [](const Dims& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); };
    for (int64_t d = 0; d < a.dim(); ++d) {
      if (has(contracted_a, d)) continue;
      order_a.push_back(d), shape.push_back(a.sizes()[size_t(d)]);
      rows *= shape.back();
    }
    for (int64_t d : contracted_a) order_a.push_back(d), depth *= a.sizes()[size_t(d)];
    check(order_a.size() == size_t(a.dim()), ErrorKind::Runtime, name,
          "a dim appears more than once in ", dims_a);
    for (int64_t d : contracted_b) order_b.push_back(d);
    for (int64_t d = 0; d < b.dim(); ++d) {
      if (has(contracted_b, d)) continue;
      order_b.push_back(d), shape.push_back(b.sizes()[size_t(d)]);
      columns *= shape.back();
    }
    check(order_b.size() == size_t(b.dim()), ErrorKind::Runtime, name,
          "a dim appears more than once in ", dims_b);
    return reshape(mm(reshape(permute(a, order_a), Dims{rows, depth}),
                      reshape(permute(b, order_b), Dims{depth, columns})),
                   shape);
  }
};

struct Einsum {
  static constexpr const char* name = "einsum";
  static Tensor call(std::string_view equation, TensorList tensors) {
    return run_einsum(equation, tensors);
  }
};

struct Kron {
  static constexpr const char* name = "kron";
  static constexpr bool refuses_sharing = true;
  static Tensor call(const Tensor& a, const Tensor& b) {
    const int64_t rank = std::max(a.dim(), b.dim());
    Dims shape_a, shape_b, shape;
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t na = d < rank - a.dim() ? 1 : a.sizes()[size_t(d - (rank - a.dim()))];
      const int64_t nb = d < rank - b.dim() ? 1 : b.sizes()[size_t(d - (rank - b.dim()))];
      shape_a.push_back(na), shape_a.push_back(1);
      shape_b.push_back(1), shape_b.push_back(nb);
      shape.push_back(na * nb);
    }
    return reshape(reshape(a, shape_a) * reshape(b, shape_b), shape);
  }
};

}  // namespace rush

#include "ops/matmul.inc"
