// Cholesky's factorisation and triangular systems, computed in float64.
#include "cpu/triangular.h"

#include "ops/data.h"
#include "ops/op.h"
#include "ops/operators.h"

namespace rush {
namespace {

void check_matrices(const char* op, const Tensor& a) {
  check(a.dtype() == DType::Float32 || a.dtype() == DType::Float64, ErrorKind::DType, op,
        "needs float32 or float64, got ", a.dtype());
  check(a.device().is_cpu() || a.is_meta(), ErrorKind::Device, op,
        "runs on the CPU only, the tensor is on ", a.device());
  check_shape(a.dim() >= 2, op, "needs at least 2 dimensions, got shape ", a.sizes());
  check_shape(a.sizes()[size_t(a.dim()) - 1] == a.sizes()[size_t(a.dim()) - 2], op,
              "needs square matrices, got shape ", a.sizes());
}

Tensor as_doubles(const Tensor& t) {
  return clone_data(convert_data(t, DType::Float64), MemoryFormat::Contiguous);
}

Tensor turned(const Tensor& t) { return transpose(t, -2, -1); }

}  // namespace

struct CholeskyEx {
  static constexpr const char* name = "linalg.cholesky";
  static std::array<Spec, 2> check(const Tensor& self) {
    check_matrices(name, self);
    Dims batch = self.sizes();
    for (int i = 0; i < 2; ++i) batch.erase(uint32_t(batch.size() - 1));
    return {Spec{self.sizes(), self.dtype(), self.device()},
            Spec{batch, DType::Int32, self.device()}};
  }
  static void run(const Tensor& self, const Tensor& L, const Tensor& info) {
    const Tensor a = as_doubles(self);
    cholesky_cpu(a, info);
    copy_data(L, a);
  }
  static constexpr uint32_t non_differentiable = 1u << 1;
  static constexpr uint32_t needs[] = {kOut};
  // With P the lower triangle, its diagonal halved: L^-T P(L^T g) L^-1, made symmetric.
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&) {
    if (!g[0].defined()) return {Tensor()};
    const Tensor L = c.out(0);
    const Tensor product = matmul(turned(L), tril(g[0], 0));
    const Tensor half =
        tril(product, 0) - wrap_number(0.5) * diag_embed(diagonal(product, 0, -2, -1), 0, -2, -1);
    const Tensor left = _solve_triangular(turned(L), half, true, false);
    const Tensor both = turned(_solve_triangular(turned(L), turned(left), true, false));
    return {wrap_number(0.5) * (both + turned(both))};
  }
};

struct SolveTriangular {
  static constexpr const char* name = "linalg.solve_triangular";
  static Spec check(const Tensor& A, const Tensor& B, bool, bool) {
    check_matrices(name, A);
    rush::check(A.dtype() == B.dtype(), ErrorKind::DType, name, "A is ", A.dtype(), ", B is ",
                B.dtype());
    check_shape(B.dim() == A.dim(), name, "A and B must have as many dimensions, got shapes ",
                A.sizes(), " and ", B.sizes());
    for (size_t d = 0; d + 1 < size_t(A.dim()); ++d)
      check_shape(A.sizes()[d] == B.sizes()[d], name, "sizes differ in dimension ", d,
                  ": A has shape ", A.sizes(), ", B ", B.sizes());
    return {B.sizes(), B.dtype(), B.device()};
  }
  static void run(const Tensor& A, const Tensor& B, bool upper, bool unit, const Tensor& out) {
    const Tensor x = as_doubles(B);
    solve_triangular_cpu(contiguous_data(convert_data(A, DType::Float64)), upper, unit, x);
    copy_data(out, x);
  }
  static constexpr uint32_t needs[] = {in(0) | kOut, in(0)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& A, const Tensor&, bool upper,
                    bool unit) {
    const Tensor for_b = _solve_triangular(turned(A), g, !upper, unit);
    Tensor for_a;
    if (c.wants(0)) {
      const Tensor whole = neg(matmul(for_b, turned(c.out())));
      for_a = upper ? triu(whole, unit ? 1 : 0) : tril(whole, unit ? -1 : 0);
    }
    return {for_a, for_b};
  }
};

}  // namespace rush

#include "ops/triangular.inc"
