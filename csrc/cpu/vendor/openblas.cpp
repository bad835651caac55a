#include "cpu/vendor/openblas.h"

#include <initializer_list>
#include <limits>
#include <string>

#include "core/dynamic_library.h"
#include "core/error.h"

namespace rush {

namespace {

// CBLAS's enumerations; the wheel's integers are 32 bits wide.
enum Order : int { kRowMajor = 101 };
enum Transpose : int { kAsIs = 111, kTransposed = 112 };

template <class T, class Factor>
using Gemm = void (*)(Order, Transpose, Transpose, int m, int n, int k, Factor alpha, const T* a,
                      int lda, const T* b, int ldb, Factor beta, T* c, int ldc);

struct OpenBlas {
  Gemm<float, float> sgemm = nullptr;
  Gemm<double, double> dgemm = nullptr;
  Gemm<complex<float>, const void*> cgemm = nullptr;
  Gemm<complex<double>, const void*> zgemm = nullptr;
  void* library = nullptr;
  std::string prefix;  // of every name in it
};

template <class F>
bool get(void* library, const std::string& prefix, const char* name, F& function) {
  function = reinterpret_cast<F>(library_symbol(library, (prefix + name).c_str()));
  return function != nullptr;
}

OpenBlas open() {
  void* library = open_library({"libscipy_openblas.so"}, {"", "scipy_openblas32/lib"});
  if (library == nullptr) library = open_library({"libopenblas.so.0", "libopenblas.so"}, {""});
  if (library == nullptr) library = open_library_like("scipy.libs", "libscipy_openblas-");
  for (const char* prefix : {"scipy_", ""}) {
    OpenBlas blas;
    void (*set_threads)(int) = nullptr;
    if (get(library, prefix, "cblas_sgemm", blas.sgemm) &&
        get(library, prefix, "cblas_dgemm", blas.dgemm) &&
        get(library, prefix, "cblas_cgemm", blas.cgemm) &&
        get(library, prefix, "cblas_zgemm", blas.zgemm) &&
        get(library, prefix, "openblas_set_num_threads", set_threads)) {
      set_threads(1);
      blas.library = library;
      blas.prefix = prefix;
      return blas;
    }
  }
  return {};
}

const OpenBlas& openblas() {
  static const OpenBlas blas = open();
  return blas;
}

int to_int(int64_t v) {
  internal_assert(v <= std::numeric_limits<int>::max(), "a product too large for OpenBLAS");
  return int(v);
}

template <class T, class Factor>
void call(Gemm<T, Factor> gemm, const Product<T>& p, Factor alpha, Factor beta) {
  const bool a_as_is = p.a.col == 1, b_as_is = p.b.col == 1;
  gemm(kRowMajor, a_as_is ? kAsIs : kTransposed, b_as_is ? kAsIs : kTransposed, to_int(p.m),
       to_int(p.n), to_int(p.k), alpha, p.a.data, to_int(a_as_is ? p.a.row : p.a.col), p.b.data,
       to_int(b_as_is ? p.b.row : p.b.col), beta, p.c.data, to_int(p.c.row));
}

}  // namespace

bool has_openblas() { return openblas().sgemm != nullptr; }

void* fortran_routine(const std::string& name) {
  const OpenBlas& blas = openblas();
  return library_symbol(blas.library, (blas.prefix + name + "_").c_str());
}

void openblas_gemm(const Product<float>& p) { call(openblas().sgemm, p, p.alpha, p.beta); }
void openblas_gemm(const Product<double>& p) { call(openblas().dgemm, p, p.alpha, p.beta); }
void openblas_gemm(const Product<complex<float>>& p) {
  call<complex<float>, const void*>(openblas().cgemm, p, &p.alpha, &p.beta);
}
void openblas_gemm(const Product<complex<double>>& p) {
  call<complex<double>, const void*>(openblas().zgemm, p, &p.alpha, &p.beta);
}

}  // namespace rush
