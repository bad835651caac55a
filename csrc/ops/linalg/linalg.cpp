// Factors of matrices by elimination and reflections, the systems they solve, and determinants.
#include "ops/linalg/linalg.h"

#include <string>

#include "device/index.h"
#include "device/runtime.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/op_name.h"
#include "ops/linalg_ops.h"
#include "ops/linalg_spectral_ops.h"

namespace rush {

void check_matrices(const char* op, const Tensor& a, const char* argument) {
  check(a.dtype() == DType::Float32 || a.dtype() == DType::Float64 || is_complex(a.dtype()),
        ErrorKind::DType, op, argument, " must be float32, float64, complex64 or complex128, got ",
        a.dtype(), is_floating(a.dtype()) ? ": convert with .float()" : "");
  check_shape(a.dim() >= 2, op, argument, " must have at least 2 dimensions, got shape ",
              a.sizes());
}
void check_square_matrices(const char* op, const Tensor& a, const char* argument) {
  check_matrices(op, a, argument);
  check_shape(a.size(-1) == a.size(-2), op, argument,
              " must be made of square matrices, got shape ", a.sizes());
}
void check_same_batch(const char* op, const Tensor& a, const Tensor& b, int64_t matrix_dims) {
  check(a.dtype() == b.dtype(), ErrorKind::DType, op, "the dtypes differ: ", a.dtype(), " and ",
        b.dtype());
  common_device(op, {&a, &b});
  const bool same = a.dim() == b.dim() &&
                    std::equal(a.sizes().begin(), a.sizes().end() - matrix_dims, b.sizes().begin());
  check_shape(same, op, "the batch sizes differ: shapes are ", a.sizes(), " and ", b.sizes());
}

Tensor readable_matrices(const Tensor& a) { return is_matrix_batch(a) ? a : contiguous_data(a); }

FiniteMatrices::FiniteMatrices(const Tensor& given) : a(given) {
  const NoGradGuard no_grad;
  const Tensor lost = logical_not(all(isfinite(given), Dims{-2, -1}, false));
  a = masked_fill(given, as_column(as_column(lost)), wrap_number(0));
  bad = neg(to(lost, DType::Int32));
}

// Raising is left to Python, whose LinAlgError it is. Inside vmap all samples are looked at.
struct FirstFailure {
  static constexpr const char* name = "_first_failure";
  static int64_t call(const Tensor& info) {
    Tensor all = info;
    while (all.is_batched()) all = Tensor(all.impl()->physical);
    if (all.is_meta()) return 0;
    const Tensor host = contiguous_data(host_data(all));
    const int32_t* p = host.data<int32_t>();
    for (int64_t i = 0; i < host.numel(); ++i)
      if (p[i] != 0) return i << 32 | int64_t(uint32_t(p[i]));
    return 0;
  }
};

namespace {

void factor_lu(const char* op, const Tensor& A, bool pivot, const Tensor& LU, const Tensor& pivots,
               const Tensor& info) {
  if (A.numel() == 0) return fill_data(info, 0);
  matrix_loops(LU).lu_factor(op, readable_matrices(A), pivot, LU, pivots, info);
}
void solve_lu(const char* op, const Tensor& LU, const Tensor& pivots, const Tensor& B, bool adjoint,
              const Tensor& X) {
  if (X.numel() != 0) matrix_loops(X).lu_solve(op, LU, pivots, readable_matrices(B), adjoint, X);
}

// The rows of x go back to where the pivots took them from: P x.
Tensor put_back(const Tensor& x, const Tensor& pivots) {
  const Tensor from = argsort(_pivots_to_permutation(pivots, x.size(-2)), -1);
  return gather(x, -2, expand(as_column(from), x.sizes()));
}
// P^H x.
Tensor take_out(const Tensor& x, const Tensor& pivots) {
  const Tensor from = _pivots_to_permutation(pivots, x.size(-2));
  return gather(x, -2, expand(as_column(from), x.sizes()));
}

// The square unit lower triangle of LU.
Tensor unit_lower(const Tensor& LU) {
  return tril(LU, -1) + eye(LU.size(-2), LU.size(-1), LU.dtype(), {}, LU.device());
}

}  // namespace

struct LuFactor {
  static constexpr const char* name = "linalg.lu_factor";
  static constexpr bool any_device = true;
  static std::array<Spec, 3> check(const Tensor& A, bool) {
    check_matrices(name, A);
    const int64_t k = std::min(A.size(-1), A.size(-2));
    return {by_columns(A, A.size(-2), A.size(-1)), a_vector(A, k, DType::Int32),
            a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, bool pivot, const Tensor& LU, const Tensor& pivots,
                  const Tensor& info) {
    factor_lu(name, A, pivot, ByColumns(LU), pivots, info);
  }
  static constexpr uint32_t non_differentiable = 1u << 1 | 1u << 2;
  static constexpr uint32_t needs[] = {result(0) | result(1)};
  // A = P L U. Square: P L^-H (strictly lower of L^H gL + upper of gU U^H) U^-H. What a tall L or a
  // wide U has beyond the square takes its own share, and leaves a correction in the square.
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, bool) {
    if (!g[0].defined()) return {Tensor()};
    const Tensor LU = c.out(0);
    const int64_t m = LU.size(-2), n = LU.size(-1), k = std::min(m, n);
    const Tensor square = rows(columns(LU, 0, k), 0, k);
    const Tensor L = unit_lower(square), U = triu(square, 0);
    const Tensor g_square = rows(columns(g[0], 0, k), 0, k);
    const Tensor gL = tril(g_square, -1), gU = triu(g_square, 0);
    Tensor lower = matmul(mH(L), gL), upper = matmul(gU, mH(U)), rest;
    if (m < n) {
      const Tensor gU2 = columns(g[0], k, n);
      lower = lower - matmul(gU2, mH(columns(LU, k, n)));
      rest = _solve_triangular(mH(L), gU2, true, true);
    } else if (m > n) {
      const Tensor gL2 = rows(g[0], k, m);
      upper = upper - matmul(mH(rows(LU, k, m)), gL2);
      rest = solve_from_right(mH(U), gL2, false);
    }
    const Tensor inner = tril(lower, -1) + triu(upper, 0);
    const Tensor top = solve_from_right(mH(U), _solve_triangular(mH(L), inner, true, true), false);
    const Tensor parts[] = {top, rest};
    const Tensor whole = rest.defined() ? cat(TensorList(parts), m < n ? -1 : -2) : top;
    return {put_back(whole, c.out(1))};
  }
};

struct PivotsToPermutation {
  static constexpr const char* name = "_pivots_to_permutation";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& pivots, int64_t rows) {
    rush::check(pivots.dtype() == DType::Int32, ErrorKind::DType, "lu_unpack",
                "LU_pivots must be int32, got ", pivots.dtype());
    check_shape(pivots.dim() >= 1 && pivots.size(-1) <= rows, "lu_unpack", "LU_pivots has shape ",
                pivots.sizes(), " for matrices of ", rows, " rows");
    Dims sizes = batch_of(pivots, 1);
    sizes.push_back(rows);
    return {sizes, DType::Int64, pivots.device()};
  }
  static constexpr bool may_fail = true;
  static void run(const Tensor& pivots, int64_t rows, const Tensor& out) {
    if (out.numel() == 0) return;
    const Tensor to =
        out.is_contiguous() ? out : make_tensor(out.sizes(), out.dtype(), out.device());
    matrix_loops(out).permutation("lu_unpack", contiguous_data(pivots), rows, to);
    if (!to.is_same(out)) copy_data(out, to);
  }
};

namespace {

// A system whose matrices are given as factors, `what`, with pivots beside them.
template <OpName N, OpName What>
struct FactoredSolve {
  static constexpr const char* name = N.text;
  static constexpr bool any_device = true;
  static constexpr bool may_fail = true;
  static Spec check(const Tensor& factors, const Tensor& pivots, const Tensor& B, bool) {
    constexpr const char* what = What.text;
    check_square_matrices(name, factors, what);
    check_matrices(name, B, "B");
    check_same_batch(name, factors, B, 2);
    check_shape(factors.size(-1) == B.size(-2), name, what,
                " and B do not go together: shapes are ", factors.sizes(), " and ", B.sizes());
    check_dtype(pivots.dtype() == DType::Int32, name, "pivots must be int32, got ", pivots.dtype());
    check_shape(
        pivots.dim() == factors.dim() - 1 && pivots.size(-1) == factors.size(-1) &&
            std::equal(pivots.sizes().begin(), pivots.sizes().end(), factors.sizes().begin()),
        name, "pivots of shape ", pivots.sizes(), " do not fit ", what, " of shape ",
        factors.sizes());
    return by_columns(B, B.size(-2), B.size(-1));
  }
};

}  // namespace

struct LuSolve : FactoredSolve<"linalg.lu_solve", "LU"> {
  static void run(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool adjoint,
                  const Tensor& out) {
    Tensor p = contiguous_data(pivots);
    const int64_t n = LU.size(-1);
    if (device_traits(out).asynchronous) {  // found out later, and harmless until then
      index_loops(p).check_between(p, 1, double(n), name,
                                   "pivots must lie between 1 and the number of rows");
      const NoGradGuard no_grad;
      p = clamp(p, Scalar(1), Scalar(n));
    } else {
      for (int64_t i = 0; i < p.numel(); ++i)
        rush::check(p.data<int32_t>()[i] >= 1 && p.data<int32_t>()[i] <= n, ErrorKind::Runtime,
                    name, "pivots must lie between 1 and ", n, ", got ", p.data<int32_t>()[i]);
    }
    Tensor by_col = LU;
    if (!is_matrix_batch(LU) || !lies_by_columns(LU)) {
      by_col = make_tensor(LU.sizes(), by_column_strides(LU.sizes()), LU.dtype(), LU.device());
      copy_data(by_col, LU);
    }
    solve_lu(name, by_col, p, B, adjoint, ByColumns(out));
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | kOut, 0, in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& LU, const Tensor& pivots,
                    const Tensor&, bool adjoint) {
    const Tensor for_b = _lu_solve(LU, pivots, g, !adjoint);
    Tensor for_lu;
    if (c.wants(0)) {
      // gA of the system, then what dA = P (dL U + L dU) makes of it.
      const Tensor gA = adjoint ? neg(matmul(c.out(), mH(for_b))) : neg(matmul(for_b, mH(c.out())));
      const Tensor inner = take_out(gA, pivots);
      for_lu =
          tril(matmul(inner, mH(triu(LU, 0))), -1) + triu(matmul(mH(unit_lower(LU)), inner), 0);
    }
    return {for_lu, Tensor(), for_b};
  }
};

namespace {

// A^-H b, from the factors, or by a new system where the result is to be differentiated.
Tensor adjoint_solve(const Tensor& A, const Tensor& LU, const Tensor& pivots, const Tensor& b) {
  if (is_differentiated(A, b)) return std::get<0>(_solve_ex(mH(A), b));
  return _lu_solve(LU, pivots, b, true);
}

}  // namespace

struct SolveEx {
  static constexpr const char* name = "linalg.solve";
  static constexpr bool any_device = true;
  static std::array<Spec, 4> check(const Tensor& A, const Tensor& B) {
    check_square_matrices(name, A);
    check_matrices(name, B, "B");
    check_same_batch(name, A, B, 2);
    check_shape(A.size(-1) == B.size(-2), name, "A has ", A.size(-1), " columns and B ", B.size(-2),
                " rows: shapes are ", A.sizes(), " and ", B.sizes());
    return {by_columns(B, B.size(-2), B.size(-1)), by_columns(A, A.size(-2), A.size(-1)),
            a_vector(A, A.size(-1), DType::Int32), a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& B, const Tensor& X, const Tensor& LU,
                  const Tensor& pivots, const Tensor& info) {
    const ByColumns x(X), factors(LU);
    if (const auto solve = matrix_loops(X).solve)
      return solve(name, readable_matrices(A), readable_matrices(B), x, factors, pivots, info);
    factor_lu(name, A, true, factors, pivots, info);
    solve_lu(name, factors, pivots, B, false, x);
  }
  static constexpr uint32_t non_differentiable = 1u << 1 | 1u << 2 | 1u << 3;
  static constexpr uint32_t kFactors = in(0) | result(1) | result(2);
  static constexpr uint32_t needs[] = {kFactors | result(0), kFactors};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor& A, const Tensor&) {
    if (!g[0].defined()) return {Tensor(), Tensor()};
    const Tensor for_b = adjoint_solve(A, c.out(1), c.out(2), g[0]);
    return {c.wants(0) ? neg(matmul(for_b, mH(c.out(0)))) : Tensor(), for_b};
  }
};

struct InvEx {
  static constexpr const char* name = "linalg.inv";
  static constexpr bool any_device = true;
  static std::array<Spec, 2> check(const Tensor& A) {
    check_square_matrices(name, A);
    return {by_columns(A, A.size(-2), A.size(-1)), a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& inverse, const Tensor& info) {
    const ByColumns out(inverse);
    if (const auto invert = matrix_loops(inverse).inverse)
      return invert(name, readable_matrices(A), out, info);
    const int64_t n = A.size(-1);
    const Tensor factors = by_columns(A, n, n).allocate();
    const Tensor pivots = a_vector(A, n, DType::Int32).allocate();
    factor_lu(name, A, true, factors, pivots, info);
    const Tensor one = eye(n, n, A.dtype(), {}, A.device());
    solve_lu(name, factors, pivots, expand(one, A.sizes()), false, out);
  }
  static constexpr uint32_t non_differentiable = 1u << 1;
  static constexpr uint32_t needs[] = {result(0)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&) {
    if (!g[0].defined()) return {Tensor()};
    const Tensor adjoint_inverse = mH(c.out(0));
    return {neg(matmul(adjoint_inverse, matmul(g[0], adjoint_inverse)))};
  }
};

namespace {

// The diagonals of the LU factors, of which the first is negated where rows were
// exchanged an odd number of times.
Tensor signed_diagonals(const char* op, const Tensor& A, const Tensor& LU, const Tensor& pivots) {
  const Tensor info = a_number(A, DType::Int32).allocate();
  {
    const ByColumns factors(LU);
    factor_lu(op, A, true, factors, pivots, info);
  }
  const int64_t n = A.size(-1);
  const Tensor d = main_diagonal(LU);
  if (n == 0) return d;
  const Tensor places = arange(Scalar(1), Scalar(n + 1), Scalar(1), DType::Int32, {}, A.device());
  const Tensor odd =
      remainder(sum(ne(pivots, places), Dims{-1}, true, DType::Int64), wrap_number(2));
  const Tensor first = columns(d, 0, 1) * (1 - odd * 2);
  const Tensor parts[] = {first, columns(d, 1, n)};
  return cat(TensorList(parts), -1);
}

// The adjugate's adjoint, U diag(products of the other singular values) V^H det(U V^H): what the
// gradient of det is where A has no inverse.
Tensor cofactors(const Tensor& A) {
  const auto [U, S, Vh, info] = _svd(A, true, "");
  const int64_t n = A.size(-1);
  const Tensor others = expand(as_row(S), with_matrix(batch_of(A), n, n));
  const Tensor one = eye(n, n, DType::Bool, {}, A.device());
  const Tensor products = prod(masked_fill(others, one, wrap_number(1)), -1, false);
  const Tensor sign = std::get<0>(_det(matmul(U, Vh)));
  return matmul(U * as_row(products), Vh) * as_column(as_column(sign));
}

}  // namespace

struct DetLu {
  static constexpr const char* name = "linalg.det";
  static constexpr bool any_device = true;
  static std::array<Spec, 3> check(const Tensor& A) {
    check_square_matrices(name, A);
    return {a_number(A, A.dtype()), by_columns(A, A.size(-2), A.size(-1)),
            a_vector(A, A.size(-1), DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& det, const Tensor& LU, const Tensor& pivots) {
    if (const auto find = matrix_loops(det).det)
      return find(name, readable_matrices(A), det, ByColumns(LU), pivots);
    const NoGradGuard no_grad;
    copy_data(det, prod(signed_diagonals(name, A, LU, pivots), -1, false));
  }
  static constexpr uint32_t non_differentiable = 1u << 1 | 1u << 2;
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor& A) {
    if (!g[0].defined()) return {Tensor()};
    if (A.size(-1) == 0) return {mul(A, wrap_number(0))};
    const Tensor factor = as_column(as_column(g[0]));
    const bool known = !A.is_batched() && !A.is_meta();
    if (known && any(eq(c.out(0), wrap_number(0)), std::nullopt, false).item().to<bool>())
      return {factor * cofactors(A)};
    const Tensor scaled = as_diagonal(expand(as_column(g[0] * conj(c.out(0))), [&] {
      Dims d(c.out(0).sizes());
      d.push_back(A.size(-1));
      return d;
    }()));
    return {adjoint_solve(A, c.out(1), c.out(2), scaled)};
  }
};

struct SlogdetLu {
  static constexpr const char* name = "linalg.slogdet";
  static constexpr bool any_device = true;
  static std::array<Spec, 4> check(const Tensor& A) {
    check_square_matrices(name, A);
    return {a_number(A, A.dtype()), a_number(A, to_real(A.dtype())),
            by_columns(A, A.size(-2), A.size(-1)), a_vector(A, A.size(-1), DType::Int32)};
  }
  static void run(const Tensor& A, const Tensor& sign, const Tensor& logabs, const Tensor& LU,
                  const Tensor& pivots) {
    if (const auto find = matrix_loops(sign).slogdet)
      return find(name, readable_matrices(A), sign, logabs, ByColumns(LU), pivots);
    const NoGradGuard no_grad;
    const Tensor d = signed_diagonals(name, A, LU, pivots);
    const Tensor directions = A.is_complex() ? sgn(d) : where(isnan(d), d, sgn(d));
    copy_data(sign, prod(directions, -1, false));
    copy_data(logabs, sum(log(abs(d)), Dims{-1}, false, std::nullopt));
  }
  static constexpr uint32_t non_differentiable = 1u << 2 | 1u << 3;
  static constexpr uint32_t needs[] = {in(0) | result(0) | result(2) | result(3)};
  // With w = tr(A^-1 dA): d logabsdet = Re w, d sign = i Im(w) sign.
  static Grads grad(const Ctx& c, GradSpan g, const Tensor& A) {
    Tensor h = g[1];
    if (A.is_complex()) {
      if (h.defined()) h = make_complex(h, mul(h, wrap_number(0)));
      if (g[0].defined()) {
        const Tensor turn = times_i(neg(imag(conj(g[0]) * c.out(0))));
        h = h.defined() ? h + turn : turn;
      }
    }
    if (!h.defined()) return {Tensor()};
    if (A.size(-1) == 0) return {mul(A, wrap_number(0))};
    Dims sizes(h.sizes());
    sizes.push_back(A.size(-1));
    return {adjoint_solve(A, c.out(2), c.out(3), as_diagonal(expand(as_column(h), sizes)))};
  }
};

namespace {

// X + X^H with the diagonal halved, of X's upper triangle.
Tensor hermitian_of_upper(const Tensor& x) {
  const Tensor upper = triu(x, 0);
  const Tensor both = upper + mH(upper);
  return both - as_diagonal(main_diagonal(both)) * 0.5;
}

// gA of A = Q R with a square R.
Tensor qr_gradient(const Tensor& Q, const Tensor& R, const Tensor& gQ, const Tensor& gR) {
  Tensor inner;
  if (gR.defined()) inner = matmul(gR, mH(R));
  if (gQ.defined()) inner = inner.defined() ? inner - matmul(mH(Q), gQ) : neg(matmul(mH(Q), gQ));
  Tensor sum = matmul(Q, hermitian_of_upper(inner));
  if (gQ.defined()) sum = sum + gQ;
  return solve_from_right(mH(R), sum, false);
}

}  // namespace

namespace {

// R, and Q where it is defined; composed of reflections where the device has nothing better.
void factor_qr(const char* op, const Tensor& A, const Tensor& Q, const Tensor& R) {
  const MatrixLoops& loops = matrix_loops(R);
  if (loops.qr) return loops.qr(op, readable_matrices(A), Q, R);
  const NoGradGuard no_grad;
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  const bool none = A.numel() == 0;
  const Tensor a = by_columns(A, m, n).allocate(), tau = a_vector(A, k, A.dtype()).allocate();
  if (!none) loops.geqrf(op, readable_matrices(A), a, tau);
  if (R.numel() != 0) {
    if (none)
      fill_data(R, 0);
    else
      copy_data(rows(R, 0, std::min(m, R.size(-2))), triu(rows(a, 0, R.size(-2)), 0));
  }
  if (!Q.defined() || Q.numel() == 0) return;
  const int64_t width = Q.size(-1);
  if (width <= n) return loops.orgqr(op, columns(a, 0, width), tau, Q);
  // More columns than A has: their beginning does not matter.
  const Tensor wide = by_columns(A, m, width).allocate();
  fill_data(wide, 0);
  if (!none) copy_data(columns(wide, 0, n), a);
  loops.orgqr(op, wide, tau, Q);
}

}  // namespace

struct QrFactor {
  static constexpr const char* name = "linalg.qr";
  static constexpr bool any_device = true;
  static std::array<Spec, 2> check(const Tensor& A, bool complete) {
    check_matrices(name, A);
    const int64_t m = A.size(-2), n = A.size(-1), k = complete ? m : std::min(m, n);
    return {by_columns(A, m, k), by_columns(A, k, n)};
  }
  static void run(const Tensor& A, bool, const Tensor& Q, const Tensor& R) {
    factor_qr(name, A, ByColumns(Q), ByColumns(R));
  }
  static constexpr uint32_t needs[] = {kOut};
  // A = [X Y] with a square or tall X: Q R1 = X, and R2 = Q^H Y.
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, bool complete) {
    const Tensor &Q = c.out(0), &R = c.out(1), &gQ = g[0], &gR = g[1];
    if (!gQ.defined() && !gR.defined()) return {Tensor()};
    const int64_t m = Q.size(-2), n = R.size(-1);
    rush::check(!complete || m <= n, ErrorKind::Runtime, name,
                "mode='complete' has a gradient only for matrices without more rows than columns; "
                "use mode='reduced'");
    if (m >= n) return {qr_gradient(Q, R, gQ, gR)};
    const Tensor R1 = columns(R, 0, m), R2 = columns(R, m, n);
    const Tensor gR1 = gR.defined() ? columns(gR, 0, m) : Tensor();
    Tensor for_q = gQ, gY;
    if (gR.defined()) {
      const Tensor gR2 = columns(gR, m, n), Y = matmul(Q, R2);
      const Tensor more = matmul(Y, mH(gR2));
      for_q = gQ.defined() ? gQ + more : more;
      gY = matmul(Q, gR2);
    } else {
      gY = mul(matmul(Q, R2), wrap_number(0));
    }
    const Tensor parts[] = {qr_gradient(Q, R1, for_q, gR1), gY};
    return {cat(TensorList(parts), -1)};
  }
};

struct QrR {
  static constexpr const char* name = "linalg.qr";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& A) {
    check_matrices(name, A);
    return by_columns(A, std::min(A.size(-1), A.size(-2)), A.size(-1));
  }
  static void run(const Tensor& A, const Tensor& R) { factor_qr(name, A, Tensor(), ByColumns(R)); }
  static Grads grad(const Ctx&, const Tensor&, const Tensor&) {
    fail(ErrorKind::Runtime, name,
         "mode='r' keeps no Q and so has no gradient; use mode='reduced' or 'complete'");
  }
};

struct Geqrf {
  static constexpr const char* name = "geqrf";
  static constexpr bool any_device = true;
  static std::array<Spec, 2> check(const Tensor& A) {
    check_matrices(name, A, "input");
    return {by_columns(A, A.size(-2), A.size(-1)),
            a_vector(A, std::min(A.size(-1), A.size(-2)), A.dtype())};
  }
  static void run(const Tensor& A, const Tensor& a, const Tensor& tau) {
    if (A.numel() != 0) matrix_loops(a).geqrf(name, readable_matrices(A), ByColumns(a), tau);
  }
};

struct Orgqr {
  static constexpr const char* name = "linalg.householder_product";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static Spec check(const Tensor& A, const Tensor& tau) {
    check_matrices(name, A);
    common_device(name, {&A, &tau});
    return by_columns(A, A.size(-2), A.size(-1));
  }
  static void run(const Tensor& A, const Tensor& tau, const Tensor& out) {
    if (out.numel() != 0)
      matrix_loops(out).orgqr(name, readable_matrices(A), contiguous_data(tau), ByColumns(out));
  }
};

struct Ormqr {
  static constexpr const char* name = "ormqr";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static Spec check(const Tensor& A, const Tensor& tau, const Tensor& other, bool, bool) {
    check_matrices(name, A, "input");
    common_device(name, {&A, &tau, &other});
    return by_columns(other, other.size(-2), other.size(-1));
  }
  static void run(const Tensor& A, const Tensor& tau, const Tensor& other, bool left,
                  bool transpose, const Tensor& out) {
    if (out.numel() != 0)
      matrix_loops(out).ormqr(name, readable_matrices(A), contiguous_data(tau),
                              readable_matrices(other), left, transpose, ByColumns(out));
  }
};

struct LdlFactor {
  static constexpr const char* name = "linalg.ldl_factor";
  static constexpr bool any_device = true;
  static std::array<Spec, 3> check(const Tensor& A, bool) {
    check_square_matrices(name, A);
    return {by_columns(A, A.size(-2), A.size(-1)), a_vector(A, A.size(-1), DType::Int32),
            a_number(A, DType::Int32)};
  }
  static void run(const Tensor& A, bool hermitian, const Tensor& LD, const Tensor& pivots,
                  const Tensor& info) {
    const MatrixLoops& loops = matrix_loops(LD);
    if (hermitian && A.is_complex() && !loops.ldl_takes_hermitian)
      return run_on_host<LdlFactor, 3>(A, hermitian, LD, pivots, info);
    if (A.numel() == 0) return fill_data(info, 0);
    loops.ldl_factor(name, readable_matrices(A), hermitian, ByColumns(LD), pivots, info);
  }
};

struct LdlSolve : FactoredSolve<"linalg.ldl_solve", "LD"> {
  static void run(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian,
                  const Tensor& out) {
    const MatrixLoops& loops = matrix_loops(out);
    if (hermitian && B.is_complex() && !loops.ldl_takes_hermitian)
      return run_on_host<LdlSolve, 1>(LD, pivots, B, hermitian, out);
    const Tensor p = checked_pivots(contiguous_data(pivots), LD.size(-1));
    if (out.numel() == 0) return;
    loops.ldl_solve(name, readable_matrices(LD), p, readable_matrices(B), hermitian,
                    ByColumns(out));
  }
  static Tensor checked_pivots(const Tensor& p, int64_t n) {
    if (device_traits(p).asynchronous) {
      if (p.numel() == 0) return p;
      const NoGradGuard no_grad;
      const Tensor size = abs(p);
      index_loops(size).check_between(size, 1, double(n), name,
                                      "pivots must lie between 1 and the number of rows, in size");
      const Tensor within = clamp(size, Scalar(1), Scalar(n));  // harmless until that is told
      return where(lt(p, wrap_number(0)), neg(within), within);
    }
    for (int64_t i = 0; i < p.numel(); ++i) {
      const int64_t v = std::abs(int64_t(p.data<int32_t>()[i]));
      rush::check(v >= 1 && v <= n, ErrorKind::Runtime, name, "pivots must lie between 1 and ", n,
                  " in size, got ", v);
    }
    return p;
  }
  static constexpr uint32_t needs[] = {0, 0, in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& LD, const Tensor& pivots,
                    const Tensor&, bool hermitian) {
    rush::check(!c.wants(0), ErrorKind::NotImplemented, name,
                "there is no gradient with respect to LD; detach() it");
    // A^-H g; a symmetric complex A has A^H = conj(A)
    if (!g.is_complex() || hermitian)
      return {Tensor(), Tensor(), _ldl_solve(LD, pivots, g, hermitian)};
    return {Tensor(), Tensor(), conj(_ldl_solve(LD, pivots, conj(g), false))};
  }
};

}  // namespace rush

#include "ops/linalg.inc"
