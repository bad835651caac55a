// Singular values, eigenvalues, least squares and pseudo-inverses.
#include "ops/framework/snapshot_node.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg_ops.h"
#include "ops/linalg_spectral_ops.h"

namespace rush {
namespace {

// 1 / (b_j - b_i), with 0 on the diagonal.
Tensor inverse_differences(const Tensor& b) {
  const Tensor difference = as_row(b) - as_column(b);
  const Tensor one = eye(b.size(-1), b.size(-1), DType::Bool, {}, b.device());
  return masked_fill(reciprocal(masked_fill(difference, one, wrap_number(1))), one, wrap_number(0));
}

Tensor skew(const Tensor& x) { return x - mH(x); }

void check_driver(const char* op, std::string_view driver) {
  check(driver.empty() || driver == "gesdd" || driver == "gesvd" || driver == "gesvdj" ||
            driver == "gesvda",
        ErrorKind::Runtime, op, "driver must be None, 'gesvd', 'gesvdj' or 'gesvda', got '", driver,
        "'");
}

void add_data(const Tensor& to, const Tensor& more) {
  const NoGradGuard no_grad;
  copy_data(to, to + more);
}

// U and Vh lie by columns, or are undefined.
void factor_svd(const char* op, const Tensor& A, std::string_view driver, const Tensor& U,
                const Tensor& S, const Tensor& Vh, const Tensor& info) {
  const MatrixLoops& loops = matrix_loops(S);
  if (loops.spectral_takes_any) return loops.svd(op, readable_matrices(A), driver, U, S, Vh, info);
  fill_data(info, 0);
  if (A.numel() == 0) {  // no singular values; all vectors are those of the identity
    for (const Tensor* t : {&U, &Vh})
      if (t->defined() && t->numel() != 0)
        copy_data(*t, eye(t->size(-2), t->size(-1), A.dtype(), {}, A.device()));
    return;
  }
  const FiniteMatrices finite(A);
  loops.svd(op, readable_matrices(finite.a), driver, U, S, Vh, info);
  add_data(info, finite.bad);
}

// Vectors lie by columns, or are undefined.
void factor_eigh(const char* op, const Tensor& A, bool upper, const Tensor& values,
                 const Tensor& vectors, const Tensor& info) {
  const MatrixLoops& loops = matrix_loops(values);
  if (loops.spectral_takes_any)
    return loops.eigh(op, readable_matrices(A), upper, values, vectors, info);
  fill_data(info, 0);
  if (A.numel() == 0) return;
  const NoGradGuard no_grad;
  const FiniteMatrices finite(upper ? triu(A, 0) : tril(A, 0));  // only one triangle is read
  loops.eigh(op, readable_matrices(finite.a), upper, values, vectors, info);
  add_data(info, finite.bad);
}

// False: the device cannot.
bool factor_eig(const char* op, const Tensor& A, const Tensor& values, const Tensor& vectors,
                const Tensor& info) {
  const MatrixLoops& loops = matrix_loops(values);
  if (loops.eig) return loops.eig(op, readable_matrices(A), values, vectors, info), true;
  fill_data(info, 0);
  if (A.numel() == 0) return true;
  const NoGradGuard no_grad;
  const FiniteMatrices finite(A);
  const int64_t n = A.size(-1);
  const Tensor a = by_columns(A, n, n).allocate();
  copy_data(a, finite.a);
  const bool real_vectors = vectors.defined() && !A.is_complex();
  const Tensor v = real_vectors ? by_columns(A, n, n).allocate() : vectors;
  if (!loops.eig_in_pairs(op, a, values, v, info)) return false;
  add_data(info, finite.bad);
  if (!real_vectors) return true;
  // Two columns for two conjugate vectors: the real parts and the imaginary ones.
  const Tensor zero = mul(columns(v, 0, 1), wrap_number(0));
  const Tensor before[] = {zero, columns(v, 0, n - 1)}, after[] = {columns(v, 1, n), zero};
  const Tensor sign = as_row(imag(values));
  const Tensor first = gt(sign, wrap_number(0)), second = lt(sign, wrap_number(0));
  const Tensor re = where(second, cat(TensorList(before), -1), v);
  const Tensor im =
      where(first, cat(TensorList(after), -1), where(second, neg(v), mul(v, wrap_number(0))));
  copy_data(vectors, make_complex(re, im));
  return true;
}

// For matrices of full rank. X has rows for both sides; below the solution stands what of B is
// outside of A's range.
void solve_least_squares(const char* op, const Tensor& A, const Tensor& B, const Tensor& X,
                         const Tensor& info) {
  const NoGradGuard no_grad;
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  const Tensor given = m >= n ? A : mH(A);
  const Tensor a = by_columns(A, given.size(-2), k).allocate();
  const Tensor tau = a_vector(A, k, A.dtype()).allocate();
  const FiniteMatrices finite(given), right(B);
  const MatrixLoops& loops = matrix_loops(X);
  loops.geqrf(op, readable_matrices(finite.a), a, tau);
  const Tensor R = triu(rows(a, 0, k), 0);
  const Tensor y = by_columns(X, X.size(-2), X.size(-1)).allocate();
  if (m >= n) {  // A = Q R: R x is the upper part of Q^H B
    loops.ormqr(op, a, tau, readable_matrices(right.a), true, true, y);
    copy_data(X, y);
    copy_data(rows(X, 0, n), _solve_triangular(R, rows(y, 0, n), true, false));
  } else {  // A^H = Q R: x = Q R^-H B is the shortest
    fill_data(y, 0);
    copy_data(rows(y, 0, m), _solve_triangular(mH(R), right.a, false, false));
    loops.ormqr(op, a, tau, y, true, false, ByColumns(X));
  }
  // The first zero on the diagonal, as LAPACK says it.
  const Tensor zeros = eq(main_diagonal(R), wrap_number(0));
  const Tensor place = argmax(to(zeros, DType::Int32), -1, false) + 1;
  const Tensor found = where(any(zeros, Dims{-1}, false), place, wrap_number(0));
  const Tensor bad = minimum(finite.bad, right.bad);
  copy_data(info, where(lt(bad, wrap_number(0)), to(bad, found.dtype()), found));
}

}  // namespace

struct SvdFactor {
  static constexpr const char* name = "linalg.svd";
  static constexpr bool any_device = true;
  static std::array<Spec, 4> check(const Tensor& A, bool full, std::string_view driver) {
    check_matrices(name, A);
    check_driver(name, driver);
    const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
    return {by_columns(A, m, full ? m : k), a_vector(A, k, to_real(A.dtype())),
            by_columns(A, full ? n : k, n), a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, bool, std::string_view driver, const Tensor& U, const Tensor& S,
                  const Tensor& Vh, const Tensor& info) {
    factor_svd(name, A, driver, ByColumns(U), S, ByColumns(Vh), info);
  }
  static constexpr uint32_t non_differentiable = 1u << 3;
  static constexpr uint32_t needs[] = {result(0) | result(1) | result(2)};
  // U [((skew(U^H gU) S + S skew(V^H gV)) / (s_j^2 - s_i^2) + diag(gS)] V^H, and what gU and gV
  // have outside of the spaces of U and V. Vectors beyond the first min(m, n) are not unique: their
  // gradients are left out, as PyTorch does.
  static Grads grad(const Ctx& c, GradSpan g, const Tensor& A, bool, std::string_view) {
    if (!g[0].defined() && !g[1].defined() && !g[2].defined()) return {Tensor()};
    (void)A;
    const Tensor& S = c.out(1);
    const int64_t k = S.size(-1), m = c.out(0).size(-2), n = c.out(2).size(-1);
    const Tensor U = columns(c.out(0), 0, k), Vh = rows(c.out(2), 0, k);
    const Tensor gU = g[0].defined() ? columns(g[0], 0, k) : Tensor();
    const Tensor gVh = g[2].defined() ? rows(g[2], 0, k) : Tensor();
    if (!gU.defined() && !gVh.defined()) return {matmul(U * as_row(g[1]), Vh)};
    const Tensor for_u = gU.defined() ? skew(matmul(mH(U), gU)) : Tensor();
    const Tensor for_v = gVh.defined() ? skew(matmul(Vh, mH(gVh))) : Tensor();
    if (U.is_complex()) check_phases(for_u, for_v);
    Tensor inner;
    if (for_u.defined()) inner = for_u * as_row(S);
    if (for_v.defined()) {
      const Tensor term = as_column(S) * for_v;
      inner = inner.defined() ? inner + term : term;
    }
    inner = inner * inverse_differences(S * S);
    if (g[1].defined()) inner = inner + as_diagonal(g[1]);
    if (U.is_complex() && for_u.defined() && for_v.defined())
      inner = inner + as_diagonal(main_diagonal(for_u) / (S * 2));
    Tensor result = matmul(U, inner);
    if (m > k && gU.defined()) {
      const Tensor scaled = gU / as_row(S);
      result = result + scaled - matmul(U, matmul(mH(U), scaled));
    }
    result = matmul(result, Vh);
    if (n > k && gVh.defined()) {
      const Tensor scaled = gVh / as_column(S);
      result = result + matmul(U, scaled - matmul(matmul(scaled, mH(Vh)), Vh));
    }
    return {result};
  }

 private:
  // u_i and v_i may both turn by one phase; a loss that sees it has no gradient.
  static void check_phases(const Tensor& for_u, const Tensor& for_v) {
    const Tensor sum = for_u.defined() && for_v.defined() ? for_u + for_v
                       : for_u.defined()                  ? for_u
                                                          : for_v;
    const Tensor turn = abs(imag(main_diagonal(sum)));
    if (turn.is_batched() || turn.is_meta() || turn.numel() == 0) return;
    rush::check(max(detach(turn)).item().to<double>() <= 1e-2, ErrorKind::Runtime, name,
                "the singular vectors of complex matrices are unique only up to a phase, and the "
                "loss depends on it, so it has no gradient");
  }
};

struct SvdValues {
  static constexpr const char* name = "linalg.svdvals";
  static constexpr bool any_device = true;
  static std::array<Spec, 2> check(const Tensor& A, std::string_view driver) {
    check_matrices(name, A);
    check_driver(name, driver);
    return {a_vector(A, std::min(A.size(-1), A.size(-2)), to_real(A.dtype())),
            a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, std::string_view driver, const Tensor& S, const Tensor& info) {
    factor_svd(name, A, driver, Tensor(), S, Tensor(), info);
  }
  static constexpr uint32_t non_differentiable = 1u << 1;
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, GradSpan g, const Tensor& A, std::string_view) {
    if (!g[0].defined()) return {Tensor()};
    const auto [U, S, Vh, info] = _svd(A, false, "");
    return {matmul(U * as_row(g[0]), Vh)};
  }
};

// PyTorch keeps the vectors: programs may write to A.
template <>
auto op::make_node<SvdValues>(const Tensor& A, const std::string_view& driver)
    -> Ref<OpNode<SvdValues, Tensor, std::string_view>> {
  return make_snapshot_node<SvdValues>(A, driver);
}

struct EighFactor {
  static constexpr const char* name = "linalg.eigh";
  static constexpr bool any_device = true;
  static std::array<Spec, 3> check(const Tensor& A, bool) {
    check_square_matrices(name, A);
    return {a_vector(A, A.size(-1), to_real(A.dtype())), by_columns(A, A.size(-2), A.size(-1)),
            a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, bool upper, const Tensor& values, const Tensor& vectors,
                  const Tensor& info) {
    factor_eigh(name, A, upper, values, ByColumns(vectors), info);
  }
  static constexpr uint32_t non_differentiable = 1u << 2;
  static constexpr uint32_t needs[] = {result(0) | result(1)};
  // V (diag(gL) + (V^H gV) / (l_j - l_i)) V^H
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, bool) {
    const Tensor &L = c.out(0), &V = c.out(1), &gL = g[0], &gV = g[1];
    if (!gL.defined() && !gV.defined()) return {Tensor()};
    if (!gV.defined()) return {matmul(V * as_row(gL), mH(V))};
    const Tensor product = matmul(mH(V), gV);
    if (V.is_complex()) {
      const Tensor turn = abs(imag(main_diagonal(product)));
      if (!turn.is_batched() && !turn.is_meta() && turn.numel() != 0)
        rush::check(max(detach(turn)).item().to<double>() <= 1e-2, ErrorKind::Runtime, name,
                    "the eigenvectors of complex matrices are unique only up to a phase, and the "
                    "loss depends on it, so it has no gradient");
    }
    Tensor inner = product * inverse_differences(L);
    if (gL.defined()) inner = inner + as_diagonal(gL);
    return {matmul(V, matmul(inner, mH(V)))};
  }
};

struct EighValues {
  static constexpr const char* name = "linalg.eigvalsh";
  static constexpr bool any_device = true;
  static std::array<Spec, 2> check(const Tensor& A, bool) {
    check_square_matrices(name, A);
    return {a_vector(A, A.size(-1), to_real(A.dtype())), a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, bool upper, const Tensor& values, const Tensor& info) {
    factor_eigh(name, A, upper, values, Tensor(), info);
  }
  static constexpr uint32_t non_differentiable = 1u << 1;
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, GradSpan g, const Tensor& A, bool upper) {
    if (!g[0].defined()) return {Tensor()};
    const Tensor V = std::get<1>(_eigh(A, upper));
    return {matmul(V * as_row(g[0]), mH(V))};
  }
};

namespace {

// The gradient of the eigenvalues, and of the vectors where gV is there.
Tensor eig_gradient(const char* op, const Tensor& A, const Tensor& L, const Tensor& V,
                    const Tensor& gL, const Tensor& gV) {
  Tensor inner;
  if (gV.defined()) {
    const Tensor product = matmul(mH(V), gV), d = main_diagonal(product);
    const Tensor turn = abs(imag(d));
    if (!turn.is_batched() && !turn.is_meta() && turn.numel() != 0)
      check(max(detach(turn)).item().to<double>() <= 1e-2, ErrorKind::Runtime, op,
            "eigenvectors are unique only up to a phase, and the loss depends on it, so it has no "
            "gradient");
    // Vectors are kept at length one.
    const Tensor along = matmul(mH(V), V * as_row(real(d)));
    inner = (product - along) * inverse_differences(conj(L));
  }
  if (gL.defined()) inner = inner.defined() ? inner + as_diagonal(gL) : as_diagonal(gL);
  const Tensor result = std::get<0>(_solve_ex(mH(V), matmul(inner, mH(V))));
  return A.is_complex() ? result : real(result);
}

}  // namespace

struct EigFactor {
  static constexpr const char* name = "linalg.eig";
  static constexpr bool any_device = true;
  static std::array<Spec, 3> check(const Tensor& A) {
    check_square_matrices(name, A);
    const DType t = to_complex(A.dtype());
    return {a_vector(A, A.size(-1), t), by_columns(A, A.size(-2), A.size(-1), t),
            a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& values, const Tensor& vectors,
                  const Tensor& info) {
    const ByColumns v(vectors);
    if (!factor_eig(name, A, values, v, info)) run_on_host<EigFactor, 3>(A, values, vectors, info);
  }
  static constexpr uint32_t non_differentiable = 1u << 2;
  static constexpr uint32_t needs[] = {in(0) | result(0) | result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor& A) {
    if (!g[0].defined() && !g[1].defined()) return {Tensor()};
    return {eig_gradient(name, A, c.out(0), c.out(1), g[0], g[1])};
  }
};

struct EigValues {
  static constexpr const char* name = "linalg.eigvals";
  static constexpr bool any_device = true;
  static std::array<Spec, 2> check(const Tensor& A) {
    check_square_matrices(name, A);
    return {a_vector(A, A.size(-1), to_complex(A.dtype())), a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& values, const Tensor& info) {
    if (!factor_eig(name, A, values, Tensor(), info)) run_on_host<EigValues, 2>(A, values, info);
  }
  static constexpr uint32_t non_differentiable = 1u << 1;
  static constexpr uint32_t needs[] = {in(0)};
  static Grads grad(const Ctx&, GradSpan g, const Tensor& A) {
    if (!g[0].defined()) return {Tensor()};
    const auto [L, V, info] = _eig(A);
    return {eig_gradient(name, A, L, V, g[0], Tensor())};
  }
};

struct LeastSquaresFactor {
  static constexpr const char* name = "linalg.lstsq";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static std::array<Spec, 4> check(const Tensor& A, const Tensor& B, double, std::string_view d) {
    check_matrices(name, A);
    check_matrices(name, B, "B");
    check_same_batch(name, A, B, 2);
    check_shape(A.size(-2) == B.size(-2), name, "A has ", A.size(-2), " rows and B ", B.size(-2),
                ": shapes are ", A.sizes(), " and ", B.sizes());
    const int64_t m = A.size(-2), n = A.size(-1);
    const bool has_values = d == "gelsd" || d == "gelss";
    return {by_columns(B, std::max(m, n), B.size(-1)), a_number(A, DType::Int64),
            a_vector(A, has_values ? std::min(m, n) : 0, to_real(A.dtype())),
            a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& B, double rcond, std::string_view driver,
                  const Tensor& X, const Tensor& rank, const Tensor& singular, const Tensor& info) {
    const auto least_squares = matrix_loops(X).least_squares;
    if (!least_squares && (driver != "gels" || A.numel() == 0 || B.numel() == 0))
      return run_on_host<LeastSquaresFactor, 4>(A, B, rcond, driver, X, rank, singular, info);
    const ByColumns x(X);
    if (!least_squares) {
      fill_data(rank, std::min(A.size(-2), A.size(-1)));
      return solve_least_squares(name, A, B, x, info);
    }
    copy_data(slice(x, -2, 0, B.size(-2)), B);
    least_squares(name, readable_matrices(A), x, rcond, driver, rank, singular, info);
  }
};

struct PseudoInverse {
  static constexpr const char* name = "linalg.pinv";
  static constexpr bool any_device = true;  // made of others
  static std::array<Spec, 2> check(const Tensor& A, const Tensor&, const Tensor&, bool hermitian) {
    if (hermitian)
      check_square_matrices(name, A);
    else
      check_matrices(name, A);
    return {Spec{with_matrix(batch_of(A), A.size(-1), A.size(-2)), A.dtype(), A.device()},
            a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian,
                  const Tensor& out, const Tensor& failed) {
    fill_data(failed, 0);
    if (out.numel() == 0) return;
    const NoGradGuard no_grad;
    Tensor left, sizes, right, info;
    if (hermitian)
      std::tie(sizes, left, info) = _eigh(A, false);
    else
      std::tie(left, sizes, right, info) = _svd(A, false, "");
    if (hermitian) right = mH(left);
    copy_data(failed, info);
    const Tensor most = amax(abs(sizes), Dims{-1}, true);
    const Tensor limit = maximum(as_column(atol), as_column(rtol) * most);
    const Tensor kept = gt(abs(sizes), limit);
    const Tensor inverse = where(kept, reciprocal(sizes), wrap_number(0));
    copy_data(out, matmul(mH(right) * as_row(inverse), mH(left)));
  }
  static constexpr uint32_t non_differentiable = 1u << 1;
  static constexpr uint32_t needs[] = {in(0) | result(0), 0, 0};
  // dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P
  static Grads grad(const Ctx& c, GradSpan g, const Tensor& A, const Tensor&, const Tensor&, bool) {
    if (!g[0].defined() || !c.wants(0)) return {Tensor(), Tensor(), Tensor()};
    const Tensor& P = c.out(0);
    const Tensor Ph = mH(P), gh = mH(g[0]);
    const Tensor first = matmul(Ph, matmul(g[0], Ph));
    const Tensor second = matmul(matmul(gh, P), Ph), third = matmul(Ph, matmul(P, gh));
    return {neg(first) + (second - matmul(A, matmul(P, second))) +
                (third - matmul(matmul(third, P), A)),
            Tensor(), Tensor()};
  }
};

}  // namespace rush

#include "ops/linalg_spectral.inc"
