// Cholesky's factorisation and triangular systems.
#include "ops/linalg/linalg.h"

namespace rush {

struct CholeskyEx {
  static constexpr const char* name = "linalg.cholesky";
  static constexpr bool any_device = true;
  static std::array<Spec, 2> check(const Tensor& self) {
    check_square_matrices(name, self);
    return {Spec{self.sizes(), self.dtype(), self.device()}, a_number(self, DType::Int32)};
  }
  static void run(const Tensor& self, const Tensor& L, const Tensor& info) {
    const Tensor out = L.is_contiguous() ? L : make_tensor(L.sizes(), L.dtype(), L.device());
    if (L.numel() == 0)
      fill_data(info, 0);
    else
      matrix_loops(L).cholesky(name, readable_matrices(self), false, out, info);
    if (!out.is_same(L)) copy_data(L, out);
  }
  static constexpr uint32_t non_differentiable = 1u << 1;
  static constexpr uint32_t needs[] = {result(0)};
  // With P the lower triangle, its diagonal halved: L^-H P(L^H g) L^-1, made Hermitian.
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&) {
    if (!g[0].defined()) return {Tensor()};
    const Tensor& L = c.out(0);
    const Tensor product = matmul(mH(L), tril(g[0], 0));
    const Tensor half = tril(product, 0) - as_diagonal(main_diagonal(product)) * 0.5;
    const Tensor both = solve_from_right(L, _solve_triangular(mH(L), half, true, false), false);
    return {(both + mH(both)) * 0.5};
  }
};

struct SolveTriangular {
  static constexpr const char* name = "linalg.solve_triangular";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& A, const Tensor& B, bool, bool) {
    check_square_matrices(name, A);
    check_matrices(name, B, "B");
    check_same_batch(name, A, B, 2);
    check_shape(A.size(-1) == B.size(-2), name, "A has ", A.size(-1), " columns and B ", B.size(-2),
                " rows: shapes are ", A.sizes(), " and ", B.sizes());
    return {B.sizes(), B.dtype(), B.device()};
  }
  static void run(const Tensor& A, const Tensor& B, bool upper, bool unit, const Tensor& out) {
    const Tensor x =
        out.is_contiguous() ? out : make_tensor(out.sizes(), out.dtype(), out.device());
    copy_data(x, B);
    if (x.numel() != 0)
      matrix_loops(x).solve_triangular(name, readable_matrices(A), upper, unit, x);
    if (!x.is_same(out)) copy_data(out, x);
  }
  static constexpr uint32_t needs[] = {in(0) | kOut, in(0)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& A, const Tensor&, bool upper,
                    bool unit) {
    const Tensor for_b = _solve_triangular(mH(A), g, !upper, unit);
    Tensor for_a;
    if (c.wants(0)) {
      const Tensor whole = neg(matmul(for_b, mH(c.out())));
      for_a = upper ? triu(whole, unit ? 1 : 0) : tril(whole, unit ? -1 : 0);
    }
    return {for_a, for_b};
  }
};

}  // namespace rush

#include "ops/triangular.inc"
