// lapack.h: LAPACK's routines for one matrix, by element type. They come from OpenBLAS, which is
// opened at first use and runs on the calling thread; batches are spread over threads by the
// callers.
//
// Matrices lie column by column, as in Fortran. Every function returns LAPACK's `info`: 0, or what
// went wrong. Workspace is the caller's, so that a batch allocates once per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "functors/complex.h"

namespace rush::lapack {

template <class T>
struct RealPart {
  using type = T;
};
template <class R>
struct RealPart<complex<R>> {
  using type = R;
};
template <class T>
using Real = typename RealPart<T>::type;

bool available();
// Raises when there is no LAPACK, and says how to get one.
void require(const char* op);

// What the routines below work in, kept from one matrix to the next.
template <class T>
struct Workspace {
  std::vector<T> work;
  std::vector<Real<T>> real;
  std::vector<int> ints;
};

// uplo: 'L' or 'U'; the other triangle is not touched.
template <class T>
int potrf(char uplo, int n, T* a, int lda);
template <class T>
int getrf(int m, int n, T* a, int lda, int* pivots);
// trans: 'N', 'T' or 'C'
template <class T>
int getrs(char trans, int n, int columns, const T* lu, int lda, const int* pivots, T* b, int ldb);
template <class T>
int getri(int n, T* lu, int lda, const int* pivots, Workspace<T>& w);
// b = op(a)^-1 b (side 'L') or b op(a)^-1 (side 'R')
template <class T>
void trsm(char side, char uplo, char trans, char diag, int m, int n, const T* a, int lda, T* b,
          int ldb);
template <class T>
int geqrf(int m, int n, T* a, int lda, T* tau, Workspace<T>& w);
template <class T>
int orgqr(int m, int n, int k, T* a, int lda, const T* tau, Workspace<T>& w);
template <class T>
int ormqr(char side, char trans, int m, int n, int k, const T* a, int lda, const T* tau, T* c,
          int ldc, Workspace<T>& w);
// jobz: 'A' all, 'S' the first min(m, n), 'N' no vectors. a is overwritten.
template <class T>
int gesdd(char jobz, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* vt, int ldvt,
          Workspace<T>& w);
template <class T>
int gesvd(char jobz, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* vt, int ldvt,
          Workspace<T>& w);
// a becomes the eigenvectors (jobz 'V').
template <class T>
int syevd(char jobz, char uplo, int n, T* a, int lda, Real<T>* values, Workspace<T>& w);
// jobz 'V' or 'N'. Values and vectors are complex, also those of a real matrix.
template <class T>
int geev(char jobz, int n, T* a, int lda, complex<Real<T>>* values, complex<Real<T>>* vectors,
         Workspace<T>& w);
enum class LeastSquares { Gels, Gelsy, Gelsd, Gelss };
// b has max(m, n) rows and becomes the solution (and, below it, what the residuals are made of).
template <class T>
int least_squares(LeastSquares driver, int m, int n, int columns, T* a, int lda, T* b, int ldb,
                  double rcond, Real<T>* singular, int* rank, Workspace<T>& w);
template <class T>
int sytrf(bool hermitian, char uplo, int n, T* a, int lda, int* pivots, Workspace<T>& w);
template <class T>
int sytrs(bool hermitian, char uplo, int n, int columns, const T* a, int lda, const int* pivots,
          T* b, int ldb);

}  // namespace rush::lapack
