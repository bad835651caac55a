#include "cpu/vendor/lapack.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "cpu/vendor/openblas.h"

namespace rush::lapack {
namespace {

// By their names for real matrices, and for complex ones where these differ.
enum Routine {
  kPotrf,
  kGetrf,
  kGetrs,
  kGetri,
  kTrsm,
  kGeqrf,
  kOrgqr,
  kOrmqr,
  kGesdd,
  kGesvd,
  kSyevd,
  kGeev,
  kGels,
  kGelsy,
  kGelsd,
  kGelss,
  kSytrf,
  kSytrs,
  kHetrf,
  kHetrs,
  kRoutines
};  // clang-format: one list
constexpr const char* kNames[kRoutines][2] = {
    {"potrf", "potrf"}, {"getrf", "getrf"}, {"getrs", "getrs"}, {"getri", "getri"},
    {"trsm", "trsm"},   {"geqrf", "geqrf"}, {"orgqr", "ungqr"}, {"ormqr", "unmqr"},
    {"gesdd", "gesdd"}, {"gesvd", "gesvd"}, {"syevd", "heevd"}, {"geev", "geev"},
    {"gels", "gels"},   {"gelsy", "gelsy"}, {"gelsd", "gelsd"}, {"gelss", "gelss"},
    {"sytrf", "sytrf"}, {"sytrs", "sytrs"}, {"sytrf", "hetrf"}, {"sytrs", "hetrs"}};

template <class T>
constexpr bool is_complex_type = is_complex_v<T>;
template <class T>
constexpr char kLetter = 's';
template <>
constexpr char kLetter<double> = 'd';
template <>
constexpr char kLetter<complex<float>> = 'c';
template <>
constexpr char kLetter<complex<double>> = 'z';

template <class T>
void* routine(Routine r) {
  static const std::array<void*, kRoutines> found = [] {
    std::array<void*, kRoutines> all{};
    for (int i = 0; i < kRoutines; ++i)
      all[size_t(i)] = fortran_routine(std::string(1, kLetter<T>) + kNames[i][is_complex_type<T>]);
    return all;
  }();
  void* f = found[r];
  check(f != nullptr, ErrorKind::Runtime, "linalg",
        "the OpenBLAS that was found has no LAPACK routine ", kLetter<T>,
        kNames[r][is_complex_type<T>], "; pip install scipy-openblas32 brings one that has");
  return f;
}

// Fortran takes everything by address, and at the end the length of each text.
template <class... A>
void call(void* f, A... args) {
  reinterpret_cast<void (*)(A...)>(f)(args...);
}
constexpr size_t kOne = 1;

// What a routine answers when it is asked how much workspace it wants.
template <class T>
int asked(const T& answer) {
  if constexpr (is_complex_type<T>)
    return std::max(1, int(answer.re));
  else
    return std::max(1, int(answer));
}
template <class T>
T* room(std::vector<T>& v, int64_t n) {
  if (int64_t(v.size()) < n) v.resize(size_t(n));
  return v.data();
}

}  // namespace

bool available() { return has_openblas() && fortran_routine("dgetrf") != nullptr; }

void require(const char* op) {
  check(available(), ErrorKind::Runtime, op,
        "needs LAPACK, and no OpenBLAS was found: pip install scipy-openblas32, or put "
        "libopenblas.so where the loader finds it");
}

template <class T>
int potrf(char uplo, int n, T* a, int lda) {
  int info = 0;
  call(routine<T>(kPotrf), &uplo, &n, a, &lda, &info, kOne);
  return info;
}

template <class T>
int getrf(int m, int n, T* a, int lda, int* pivots) {
  int info = 0;
  call(routine<T>(kGetrf), &m, &n, a, &lda, pivots, &info);
  return info;
}

template <class T>
int getrs(char trans, int n, int columns, const T* lu, int lda, const int* pivots, T* b, int ldb) {
  int info = 0;
  call(routine<T>(kGetrs), &trans, &n, &columns, lu, &lda, pivots, b, &ldb, &info, kOne);
  return info;
}

template <class T>
int getri(int n, T* lu, int lda, const int* pivots, Workspace<T>& w) {
  int info = 0, size = -1;
  T answer{};
  void* f = routine<T>(kGetri);
  call(f, &n, lu, &lda, pivots, &answer, &size, &info);
  size = asked(answer);
  call(f, &n, lu, &lda, pivots, room(w.work, size), &size, &info);
  return info;
}

template <class T>
void trsm(char side, char uplo, char trans, char diag, int m, int n, const T* a, int lda, T* b,
          int ldb) {
  const T one = T(1);
  call(routine<T>(kTrsm), &side, &uplo, &trans, &diag, &m, &n, &one, a, &lda, b, &ldb, kOne, kOne,
       kOne, kOne);
}

template <class T>
int geqrf(int m, int n, T* a, int lda, T* tau, Workspace<T>& w) {
  int info = 0, size = -1;
  T answer{};
  void* f = routine<T>(kGeqrf);
  call(f, &m, &n, a, &lda, tau, &answer, &size, &info);
  size = asked(answer);
  call(f, &m, &n, a, &lda, tau, room(w.work, size), &size, &info);
  return info;
}

template <class T>
int orgqr(int m, int n, int k, T* a, int lda, const T* tau, Workspace<T>& w) {
  int info = 0, size = -1;
  T answer{};
  void* f = routine<T>(kOrgqr);
  call(f, &m, &n, &k, a, &lda, tau, &answer, &size, &info);
  size = asked(answer);
  call(f, &m, &n, &k, a, &lda, tau, room(w.work, size), &size, &info);
  return info;
}

template <class T>
int ormqr(char side, char trans, int m, int n, int k, const T* a, int lda, const T* tau, T* c,
          int ldc, Workspace<T>& w) {
  int info = 0, size = -1;
  T answer{};
  void* f = routine<T>(kOrmqr);
  call(f, &side, &trans, &m, &n, &k, a, &lda, tau, c, &ldc, &answer, &size, &info, kOne, kOne);
  size = asked(answer);
  call(f, &side, &trans, &m, &n, &k, a, &lda, tau, c, &ldc, room(w.work, size), &size, &info, kOne,
       kOne);
  return info;
}

template <class T>
int gesdd(char jobz, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* vt, int ldvt,
          Workspace<T>& w) {
  int info = 0, size = -1;
  T answer{};
  void* f = routine<T>(kGesdd);
  const int64_t k = std::min(m, n), big = std::max(m, n);
  int* ints = room(w.ints, 8 * k);
  if constexpr (is_complex_type<T>) {
    Real<T>* real = room(
        w.real, jobz == 'N' ? 7 * k : std::max(5 * k * k + 5 * k, 2 * big * k + 2 * k * k + k));
    call(f, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, &answer, &size, real, ints, &info, kOne);
    size = asked(answer);
    call(f, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, room(w.work, size), &size, real, ints,
         &info, kOne);
  } else {
    call(f, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, &answer, &size, ints, &info, kOne);
    size = asked(answer);
    call(f, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, room(w.work, size), &size, ints, &info,
         kOne);
  }
  return info;
}

template <class T>
int gesvd(char jobz, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* vt, int ldvt,
          Workspace<T>& w) {
  int info = 0, size = -1;
  T answer{};
  void* f = routine<T>(kGesvd);
  const int64_t k = std::min(m, n);
  if constexpr (is_complex_type<T>) {
    Real<T>* real = room(w.real, 5 * k);
    call(f, &jobz, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, &answer, &size, real, &info, kOne,
         kOne);
    size = asked(answer);
    call(f, &jobz, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, room(w.work, size), &size, real,
         &info, kOne, kOne);
  } else {
    call(f, &jobz, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, &answer, &size, &info, kOne,
         kOne);
    size = asked(answer);
    call(f, &jobz, &jobz, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, room(w.work, size), &size, &info,
         kOne, kOne);
  }
  return info;
}

template <class T>
int syevd(char jobz, char uplo, int n, T* a, int lda, Real<T>* values, Workspace<T>& w) {
  int info = 0, size = -1, ints = -1, ints_answer = 0;
  T answer{};
  void* f = routine<T>(kSyevd);
  if constexpr (is_complex_type<T>) {
    int reals = -1;
    Real<T> reals_answer = 0;
    call(f, &jobz, &uplo, &n, a, &lda, values, &answer, &size, &reals_answer, &reals, &ints_answer,
         &ints, &info, kOne, kOne);
    size = asked(answer), reals = asked(reals_answer), ints = std::max(1, ints_answer);
    call(f, &jobz, &uplo, &n, a, &lda, values, room(w.work, size), &size, room(w.real, reals),
         &reals, room(w.ints, ints), &ints, &info, kOne, kOne);
  } else {
    call(f, &jobz, &uplo, &n, a, &lda, values, &answer, &size, &ints_answer, &ints, &info, kOne,
         kOne);
    size = asked(answer), ints = std::max(1, ints_answer);
    call(f, &jobz, &uplo, &n, a, &lda, values, room(w.work, size), &size, room(w.ints, ints), &ints,
         &info, kOne, kOne);
  }
  return info;
}

namespace {

// A pair of conjugate eigenvectors comes as its real part and its imaginary part.
template <class R>
void spread_pairs(int n, const R* imaginary, const R* v, complex<R>* vectors) {
  for (int j = 0; j < n; ++j) {
    const R* re = v + int64_t(j) * n;
    complex<R>* to = vectors + int64_t(j) * n;
    if (imaginary[j] == 0 || j + 1 == n) {
      for (int i = 0; i < n; ++i) to[i] = {re[i], R(0)};
      continue;
    }
    const R* im = re + n;
    for (int i = 0; i < n; ++i) {
      to[i] = {re[i], im[i]};
      to[i + n] = {re[i], -im[i]};
    }
    ++j;
  }
}

}  // namespace

template <class T>
int geev(char jobz, int n, T* a, int lda, complex<Real<T>>* values, complex<Real<T>>* vectors,
         Workspace<T>& w) {
  using R = Real<T>;
  int info = 0, size = -1;
  const int none = 1, ldv = std::max(1, n);
  const char no = 'N';
  T answer{};
  void* f = routine<T>(kGeev);
  if constexpr (is_complex_type<T>) {
    R* real = room(w.real, 2 * n);
    call(f, &no, &jobz, &n, a, &lda, values, static_cast<T*>(nullptr), &none, vectors, &ldv,
         &answer, &size, real, &info, kOne, kOne);
    size = asked(answer);
    call(f, &no, &jobz, &n, a, &lda, values, static_cast<T*>(nullptr), &none, vectors, &ldv,
         room(w.work, size), &size, real, &info, kOne, kOne);
  } else {
    R* re = room(w.real, 2 * int64_t(n) + int64_t(n) * n);
    R *im = re + n, *v = im + n;
    call(f, &no, &jobz, &n, a, &lda, re, im, static_cast<T*>(nullptr), &none, v, &ldv, &answer,
         &size, &info, kOne, kOne);
    size = asked(answer);
    call(f, &no, &jobz, &n, a, &lda, re, im, static_cast<T*>(nullptr), &none, v, &ldv,
         room(w.work, size), &size, &info, kOne, kOne);
    for (int i = 0; i < n; ++i) values[i] = {re[i], im[i]};
    if (jobz == 'V') spread_pairs(n, im, v, vectors);
  }
  return info;
}

template <class T>
int least_squares(LeastSquares driver, int m, int n, int columns, T* a, int lda, T* b, int ldb,
                  double rcond, Real<T>* singular, int* rank, Workspace<T>& w) {
  using R = Real<T>;
  int info = 0, size = -1;
  R limit = R(rcond);
  T answer{};
  const int64_t k = std::min(m, n);
  if (driver == LeastSquares::Gels) {
    const char trans = 'N';
    void* f = routine<T>(kGels);
    call(f, &trans, &m, &n, &columns, a, &lda, b, &ldb, &answer, &size, &info, kOne);
    size = asked(answer);
    call(f, &trans, &m, &n, &columns, a, &lda, b, &ldb, room(w.work, size), &size, &info, kOne);
    *rank = int(k);
    return info;
  }
  if (driver == LeastSquares::Gelsy) {
    void* f = routine<T>(kGelsy);
    int* order = room(w.ints, n);
    std::fill_n(order, n, 0);
    const auto run = [&](T* work) {
      if constexpr (is_complex_type<T>)
        call(f, &m, &n, &columns, a, &lda, b, &ldb, order, &limit, rank, work, &size,
             room(w.real, 2 * n), &info);
      else
        call(f, &m, &n, &columns, a, &lda, b, &ldb, order, &limit, rank, work, &size, &info);
    };
    run(&answer);
    size = asked(answer);
    run(room(w.work, size));
    return info;
  }
  if (driver == LeastSquares::Gelss) {
    void* f = routine<T>(kGelss);
    const auto run = [&](T* work) {
      if constexpr (is_complex_type<T>)
        call(f, &m, &n, &columns, a, &lda, b, &ldb, singular, &limit, rank, work, &size,
             room(w.real, 5 * k + 1), &info);
      else
        call(f, &m, &n, &columns, a, &lda, b, &ldb, singular, &limit, rank, work, &size, &info);
    };
    run(&answer);
    size = asked(answer);
    run(room(w.work, size));
    return info;
  }
  void* f = routine<T>(kGelsd);
  int ints_answer = 0;
  if constexpr (is_complex_type<T>) {
    R reals_answer = 0;
    call(f, &m, &n, &columns, a, &lda, b, &ldb, singular, &limit, rank, &answer, &size,
         &reals_answer, &ints_answer, &info);
    size = asked(answer);
    call(f, &m, &n, &columns, a, &lda, b, &ldb, singular, &limit, rank, room(w.work, size), &size,
         room(w.real, asked(reals_answer)), room(w.ints, std::max(1, ints_answer)), &info);
  } else {
    call(f, &m, &n, &columns, a, &lda, b, &ldb, singular, &limit, rank, &answer, &size,
         &ints_answer, &info);
    size = asked(answer);
    call(f, &m, &n, &columns, a, &lda, b, &ldb, singular, &limit, rank, room(w.work, size), &size,
         room(w.ints, std::max(1, ints_answer)), &info);
  }
  return info;
}

template <class T>
int sytrf(bool hermitian, char uplo, int n, T* a, int lda, int* pivots, Workspace<T>& w) {
  int info = 0, size = -1;
  T answer{};
  void* f = routine<T>(hermitian ? kHetrf : kSytrf);
  call(f, &uplo, &n, a, &lda, pivots, &answer, &size, &info, kOne);
  size = asked(answer);
  call(f, &uplo, &n, a, &lda, pivots, room(w.work, size), &size, &info, kOne);
  return info;
}

template <class T>
int sytrs(bool hermitian, char uplo, int n, int columns, const T* a, int lda, const int* pivots,
          T* b, int ldb) {
  int info = 0;
  call(routine<T>(hermitian ? kHetrs : kSytrs), &uplo, &n, &columns, a, &lda, pivots, b, &ldb,
       &info, kOne);
  return info;
}

#define RUSH_LAPACK(T)                                                                            \
  template int potrf(char, int, T*, int);                                                         \
  template int getrf(int, int, T*, int, int*);                                                    \
  template int getrs(char, int, int, const T*, int, const int*, T*, int);                         \
  template int getri(int, T*, int, const int*, Workspace<T>&);                                    \
  template void trsm(char, char, char, char, int, int, const T*, int, T*, int);                   \
  template int geqrf(int, int, T*, int, T*, Workspace<T>&);                                       \
  template int orgqr(int, int, int, T*, int, const T*, Workspace<T>&);                            \
  template int ormqr(char, char, int, int, int, const T*, int, const T*, T*, int, Workspace<T>&); \
  template int gesdd(char, int, int, T*, int, Real<T>*, T*, int, T*, int, Workspace<T>&);         \
  template int gesvd(char, int, int, T*, int, Real<T>*, T*, int, T*, int, Workspace<T>&);         \
  template int syevd(char, char, int, T*, int, Real<T>*, Workspace<T>&);                          \
  template int geev(char, int, T*, int, complex<Real<T>>*, complex<Real<T>>*, Workspace<T>&);     \
  template int least_squares(LeastSquares, int, int, int, T*, int, T*, int, double, Real<T>*,     \
                             int*, Workspace<T>&);                                                \
  template int sytrf(bool, char, int, T*, int, int*, Workspace<T>&);                              \
  template int sytrs(bool, char, int, int, const T*, int, const int*, T*, int);
RUSH_LAPACK(float)
RUSH_LAPACK(double)
RUSH_LAPACK(complex<float>)
RUSH_LAPACK(complex<double>)
#undef RUSH_LAPACK

}  // namespace rush::lapack
