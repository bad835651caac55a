// math.h: the seam between linear algebra, Fourier transforms, special functions and
// devices (see device_loops.h). The CPU's own loops are called by their names.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace rush {

enum class SpecialFn : uint8_t;  // cpu/pointwise/special.h

// Tensors may lie in any way. Dims are not negative, and none is there twice.
struct FourierLoops {
  // out = scale * transform of x along dims; both have one shape. forward: the exponent is
  // negative.
  void (*complex)(const Tensor& x, const Tensor& out, IntList dims, double scale,
                  bool forward) = nullptr;
  // Real numbers to the first half of their transform along the last one of dims.
  void (*real)(const Tensor& x, const Tensor& out, IntList dims, double scale) = nullptr;
  // The first half, along the last one of dims, of a Hermitian transform to real numbers.
  void (*hermitian)(const Tensor& x, const Tensor& out, IntList dims, double scale) = nullptr;
};

// What the functions mean is said in cpu/linalg/factorizations.h and cpu/linalg/spectral.h. Inputs
// satisfy is_matrix_batch and hold at least one element; outputs lie as these say.
struct MatrixLoops {
  void (*cholesky)(const char* op, const Tensor& a, bool upper, const Tensor& out,
                   const Tensor& info) = nullptr;
  void (*solve_triangular)(const char* op, const Tensor& a, bool upper, bool unit,
                           const Tensor& b) = nullptr;
  void (*lu_factor)(const char* op, const Tensor& a, bool pivot, const Tensor& lu,
                    const Tensor& pivots, const Tensor& info) = nullptr;
  void (*lu_solve)(const char* op, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                   bool adjoint, const Tensor& x) = nullptr;
  // Where rows went that were exchanged one after the other; pivots count from 1.
  void (*permutation)(const char* op, const Tensor& pivots, int64_t rows,
                      const Tensor& out) = nullptr;
  // Of symmetric matrices. ld holds them, by columns, and becomes their factors.
  void (*ldl_factor)(const char* op, const Tensor& ld, const Tensor& pivots,
                     const Tensor& info) = nullptr;
  void (*ldl_solve)(const char* op, const Tensor& ld, const Tensor& pivots, const Tensor& b,
                    const Tensor& x) = nullptr;
  void (*geqrf)(const char* op, const Tensor& a, const Tensor& out, const Tensor& tau) = nullptr;
  void (*orgqr)(const char* op, const Tensor& a, const Tensor& tau, const Tensor& out) = nullptr;
  void (*ormqr)(const char* op, const Tensor& a, const Tensor& tau, const Tensor& c, bool left,
                bool transpose, const Tensor& out) = nullptr;
  // Matrices are finite from here on. u and vh may be undefined, or both full, or both thin.
  void (*svd)(const char* op, const Tensor& a, std::string_view driver, const Tensor& u,
              const Tensor& s, const Tensor& vh, const Tensor& info) = nullptr;
  // v holds the matrices, of which one triangle is read; it becomes their vectors, or is lost.
  void (*eigh)(const char* op, const Tensor& v, bool upper, bool vectors, const Tensor& values,
               const Tensor& info) = nullptr;
  // a is lost. v has a's dtype: of a real matrix's two conjugate vectors the first column holds the
  // real parts, the second the imaginary ones (values come in that order). False: there is none.
  bool (*eig)(const char* op, const Tensor& a, const Tensor& values, const Tensor& v,
              const Tensor& info) = nullptr;
};

struct MathLoops {
  FourierLoops fourier;
  MatrixLoops matrices;
  // As special_cpu (cpu/pointwise/special.h); functions of one argument do not look at y.
  void (*special)(SpecialFn, const Tensor& x, const Tensor& y, const Tensor& out, double first,
                  double second) = nullptr;
};

namespace detail {
extern MathLoops g_cuda_math_loops;
}
inline MathLoops& cuda_math_loops() { return detail::g_cuda_math_loops; }

}  // namespace rush
