// solver_api.h: cuSOLVER, and what cuBLAS has for batches of matrices, as far as we use them;
// opened at first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "cuda/runtime/driver.h"
#include "functors/types.h"

namespace rush::cuda::solver {

using Blas = struct BlasContext*;
using Handle = struct SolverContext*;
using Params = struct SolverParams*;
using Jacobi = struct JacobiInfo*;

enum DataType : int { kR32F = 0, kR64F = 1, kC32F = 4, kC64F = 5 };
enum Side : int { kLeft = 0, kRight = 1 };
enum Triangle : int { kLower = 0, kUpper = 1 };
enum Operation : int { kNone = 0, kTranspose = 1, kAdjoint = 2 };
enum Diagonal : int { kNonUnit = 0, kUnit = 1 };
enum Vectors : int { kNoVectors = 0, kWithVectors = 1 };

// X(symbol, name here, parameters); all return a status, 0 is success.
#define RUSH_CUBLAS(X)                                             \
  X(cublasCreate_v2, Create, (Blas * handle))                      \
  X(cublasDestroy_v2, Destroy, (Blas handle))                      \
  X(cublasSetStream_v2, SetStream, (Blas handle, CUstream stream)) \
  X(cublasSetWorkspace_v2, SetWorkspace, (Blas handle, void* memory, size_t nbytes))

// L: the letter of the type T.
#define RUSH_CUBLAS_TYPED(X, L, T)                                                                 \
  X(cublas##L##trsm_v2, Trsm,                                                                      \
    (Blas handle, Side side, Triangle uplo, Operation trans, Diagonal diag, int m, int n,          \
     const T* alpha, const T* a, int lda, T* b, int ldb))                                          \
  X(cublas##L##trsmBatched, TrsmBatched,                                                           \
    (Blas handle, Side side, Triangle uplo, Operation trans, Diagonal diag, int m, int n,          \
     const T* alpha, const T* const* a, int lda, T* const* b, int ldb, int count))                 \
  X(cublas##L##getrfBatched, GetrfBatched,                                                         \
    (Blas handle, int n, T* const* a, int lda, int* pivots, int* info, int count))                 \
  X(cublas##L##getrsBatched, GetrsBatched,                                                         \
    (Blas handle, Operation trans, int n, int cols, const T* const* a, int lda, const int* pivots, \
     T* const* b, int ldb, int* info, int count))                                                  \
  X(cublas##L##geqrfBatched, GeqrfBatched,                                                         \
    (Blas handle, int m, int n, T* const* a, int lda, T* const* tau, int* info, int count))

#define RUSH_CUSOLVER(X)                                                                           \
  X(cusolverDnCreate, Create, (Handle * handle))                                                   \
  X(cusolverDnDestroy, Destroy, (Handle handle))                                                   \
  X(cusolverDnSetStream, SetStream, (Handle handle, CUstream stream))                              \
  X(cusolverDnCreateParams, CreateParams, (Params * params))                                       \
  X(cusolverDnCreateGesvdjInfo, CreateJacobi, (Jacobi * info))                                     \
  X(cusolverDnXpotrf_bufferSize, PotrfSize,                                                        \
    (Handle handle, Params params, Triangle uplo, int64_t n, DataType type, const void* a,         \
     int64_t lda, DataType compute, size_t* device, size_t* host))                                 \
  X(cusolverDnXpotrf, Potrf,                                                                       \
    (Handle handle, Params params, Triangle uplo, int64_t n, DataType type, void* a, int64_t lda,  \
     DataType compute, void* device, size_t device_bytes, void* host, size_t host_bytes,           \
     int* info))                                                                                   \
  X(cusolverDnXgetrf_bufferSize, GetrfSize,                                                        \
    (Handle handle, Params params, int64_t m, int64_t n, DataType type, const void* a,             \
     int64_t lda, DataType compute, size_t* device, size_t* host))                                 \
  X(cusolverDnXgetrf, Getrf,                                                                       \
    (Handle handle, Params params, int64_t m, int64_t n, DataType type, void* a, int64_t lda,      \
     int64_t* pivots, DataType compute, void* device, size_t device_bytes, void* host,             \
     size_t host_bytes, int* info))                                                                \
  X(cusolverDnXgetrs, Getrs,                                                                       \
    (Handle handle, Params params, Operation trans, int64_t n, int64_t cols, DataType type,        \
     const void* a, int64_t lda, const int64_t* pivots, DataType b_type, void* b, int64_t ldb,     \
     int* info))                                                                                   \
  X(cusolverDnXgeqrf_bufferSize, GeqrfSize,                                                        \
    (Handle handle, Params params, int64_t m, int64_t n, DataType type, const void* a,             \
     int64_t lda, DataType tau_type, const void* tau, DataType compute, size_t* device,            \
     size_t* host))                                                                                \
  X(cusolverDnXgeqrf, Geqrf,                                                                       \
    (Handle handle, Params params, int64_t m, int64_t n, DataType type, void* a, int64_t lda,      \
     DataType tau_type, void* tau, DataType compute, void* device, size_t device_bytes,            \
     void* host, size_t host_bytes, int* info))                                                    \
  X(cusolverDnXsyevd_bufferSize, SyevdSize,                                                        \
    (Handle handle, Params params, Vectors job, Triangle uplo, int64_t n, DataType type,           \
     const void* a, int64_t lda, DataType w_type, const void* w, DataType compute, size_t* device, \
     size_t* host))                                                                                \
  X(cusolverDnXsyevd, Syevd,                                                                       \
    (Handle handle, Params params, Vectors job, Triangle uplo, int64_t n, DataType type, void* a,  \
     int64_t lda, DataType w_type, void* w, DataType compute, void* device, size_t device_bytes,   \
     void* host, size_t host_bytes, int* info))                                                    \
  X(cusolverDnXgesvd_bufferSize, GesvdSize,                                                        \
    (Handle handle, Params params, signed char u_job, signed char v_job, int64_t m, int64_t n,     \
     DataType type, const void* a, int64_t lda, DataType s_type, const void* s, DataType u_type,   \
     const void* u, int64_t ldu, DataType v_type, const void* vh, int64_t ldv, DataType compute,   \
     size_t* device, size_t* host))                                                                \
  X(cusolverDnXgesvd, Gesvd,                                                                       \
    (Handle handle, Params params, signed char u_job, signed char v_job, int64_t m, int64_t n,     \
     DataType type, void* a, int64_t lda, DataType s_type, void* s, DataType u_type, void* u,      \
     int64_t ldu, DataType v_type, void* vh, int64_t ldv, DataType compute, void* device,          \
     size_t device_bytes, void* host, size_t host_bytes, int* info))                               \
  X(cusolverDnXsytrs_bufferSize, SytrsSize,                                                        \
    (Handle handle, Triangle uplo, int64_t n, int64_t cols, DataType type, const void* a,          \
     int64_t lda, const int64_t* pivots, DataType b_type, void* b, int64_t ldb, size_t* device,    \
     size_t* host))                                                                                \
  X(cusolverDnXsytrs, Sytrs,                                                                       \
    (Handle handle, Triangle uplo, int64_t n, int64_t cols, DataType type, const void* a,          \
     int64_t lda, const int64_t* pivots, DataType b_type, void* b, int64_t ldb, void* device,      \
     size_t device_bytes, void* host, size_t host_bytes, int* info))

// Those that older versions do not have: null there.
#define RUSH_CUSOLVER_NEW(X)                                                                       \
  X(cusolverDnXsyevBatched_bufferSize, SyevBatchedSize,                                            \
    (Handle handle, Params params, Vectors job, Triangle uplo, int64_t n, DataType type,           \
     const void* a, int64_t lda, DataType w_type, const void* w, DataType compute, size_t* device, \
     size_t* host, int64_t count))                                                                 \
  X(cusolverDnXsyevBatched, SyevBatched,                                                           \
    (Handle handle, Params params, Vectors job, Triangle uplo, int64_t n, DataType type, void* a,  \
     int64_t lda, DataType w_type, void* w, DataType compute, void* device, size_t device_bytes,   \
     void* host, size_t host_bytes, int* info, int64_t count))                                     \
  X(cusolverDnXgeev_bufferSize, GeevSize,                                                          \
    (Handle handle, Params params, Vectors left, Vectors right, int64_t n, DataType type,          \
     const void* a, int64_t lda, DataType w_type, const void* w, DataType l_type, const void* l,   \
     int64_t ldl, DataType r_type, const void* r, int64_t ldr, DataType compute, size_t* device,   \
     size_t* host))                                                                                \
  X(cusolverDnXgeev, Geev,                                                                         \
    (Handle handle, Params params, Vectors left, Vectors right, int64_t n, DataType type, void* a, \
     int64_t lda, DataType w_type, void* w, DataType l_type, void* l, int64_t ldl,                 \
     DataType r_type, void* r, int64_t ldr, DataType compute, void* device, size_t device_bytes,   \
     void* host, size_t host_bytes, int* info))

// R: the real type of T.
#define RUSH_CUSOLVER_TYPED(X, L, T, R, ORGQR, ORMQR)                                              \
  X(cusolverDn##L##potrfBatched, PotrfBatched,                                                     \
    (Handle handle, Triangle uplo, int n, T** a, int lda, int* info, int count))                   \
  X(cusolverDn##L##ORGQR##_bufferSize, OrgqrSize,                                                  \
    (Handle handle, int m, int n, int k, const T* a, int lda, const T* tau, int* size))            \
  X(cusolverDn##L##ORGQR, Orgqr,                                                                   \
    (Handle handle, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size,           \
     int* info))                                                                                   \
  X(cusolverDn##L##ORMQR##_bufferSize, OrmqrSize,                                                  \
    (Handle handle, Side side, Operation trans, int m, int n, int k, const T* a, int lda,          \
     const T* tau, const T* c, int ldc, int* size))                                                \
  X(cusolverDn##L##ORMQR, Ormqr,                                                                   \
    (Handle handle, Side side, Operation trans, int m, int n, int k, const T* a, int lda,          \
     const T* tau, T* c, int ldc, T* work, int size, int* info))                                   \
  X(cusolverDn##L##sytrf_bufferSize, SytrfSize, (Handle handle, int n, T* a, int lda, int* size))  \
  X(cusolverDn##L##sytrf, Sytrf,                                                                   \
    (Handle handle, Triangle uplo, int n, T* a, int lda, int* pivots, T* work, int size,           \
     int* info))                                                                                   \
  X(cusolverDn##L##gesvdj_bufferSize, GesvdjSize,                                                  \
    (Handle handle, Vectors job, int thin, int m, int n, const T* a, int lda, const R* s,          \
     const T* u, int ldu, const T* v, int ldv, int* size, Jacobi how))                             \
  X(cusolverDn##L##gesvdj, Gesvdj,                                                                 \
    (Handle handle, Vectors job, int thin, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* v, \
     int ldv, T* work, int size, int* info, Jacobi how))                                           \
  X(cusolverDn##L##gesvdjBatched_bufferSize, GesvdjBatchedSize,                                    \
    (Handle handle, Vectors job, int m, int n, const T* a, int lda, const R* s, const T* u,        \
     int ldu, const T* v, int ldv, int* size, Jacobi how, int count))                              \
  X(cusolverDn##L##gesvdjBatched, GesvdjBatched,                                                   \
    (Handle handle, Vectors job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* v, int ldv,  \
     T* work, int size, int* info, Jacobi how, int count))

// Y(list of one library's functions of a type, type)
#define RUSH_CUBLAS_S(X) RUSH_CUBLAS_TYPED(X, S, float)
#define RUSH_CUBLAS_D(X) RUSH_CUBLAS_TYPED(X, D, double)
#define RUSH_CUBLAS_C(X) RUSH_CUBLAS_TYPED(X, C, complex<float>)
#define RUSH_CUBLAS_Z(X) RUSH_CUBLAS_TYPED(X, Z, complex<double>)
#define RUSH_CUSOLVER_S(X) RUSH_CUSOLVER_TYPED(X, S, float, float, orgqr, ormqr)
#define RUSH_CUSOLVER_D(X) RUSH_CUSOLVER_TYPED(X, D, double, double, orgqr, ormqr)
#define RUSH_CUSOLVER_C(X) RUSH_CUSOLVER_TYPED(X, C, complex<float>, float, ungqr, unmqr)
#define RUSH_CUSOLVER_Z(X) RUSH_CUSOLVER_TYPED(X, Z, complex<double>, double, ungqr, unmqr)

#define RUSH_MEMBER(symbol, name, params) int(*name) params = nullptr;
template <class T>
struct Typed;
template <>
struct Typed<float> {
  RUSH_CUBLAS_S(RUSH_MEMBER)
  RUSH_CUSOLVER_S(RUSH_MEMBER)
};
template <>
struct Typed<double> {
  RUSH_CUBLAS_D(RUSH_MEMBER)
  RUSH_CUSOLVER_D(RUSH_MEMBER)
};
template <>
struct Typed<complex<float>> {
  RUSH_CUBLAS_C(RUSH_MEMBER)
  RUSH_CUSOLVER_C(RUSH_MEMBER)
};
template <>
struct Typed<complex<double>> {
  RUSH_CUBLAS_Z(RUSH_MEMBER)
  RUSH_CUSOLVER_Z(RUSH_MEMBER)
};

struct BlasLibrary {
  RUSH_CUBLAS(RUSH_MEMBER)
};
struct Library : Typed<float>, Typed<double>, Typed<complex<float>>, Typed<complex<double>> {
  RUSH_CUSOLVER(RUSH_MEMBER)
  RUSH_CUSOLVER_NEW(RUSH_MEMBER)
  BlasLibrary blas;
  std::string missing;

  template <class T>
  const Typed<T>& of() const {
    return *this;
  }
};
#undef RUSH_MEMBER

// Opened when first asked for; look at `missing` before use.
const Library& library();

DataType data_type(DType t);

// What a thread has on a device, set to its current stream. Raises when the libraries are missing,
// and while a graph is captured: cuSOLVER may wait for the GPU.
struct Session {
  Handle handle = nullptr;
  Params params = nullptr;
  Jacobi jacobi = nullptr;
  Blas blas = nullptr;
};
const Session& session(const char* op, int device);
// Its cuBLAS alone, which can be captured.
Blas blas_handle(const char* op, int device);
// Raises what the status says.
void done(const char* op, int status, const char* what);

}  // namespace rush::cuda::solver
