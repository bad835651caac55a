#include "cuda/vendor/solver_api.h"

#include <array>
#include <memory>

#include "core/dynamic_library.h"
#include "core/error.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda::solver {
namespace {

Library open() {
  Library l;
  // cuBLAS first: cuSOLVER wants it, and finds the one that is there.
  void* blas = open_library({"libcublas.so.13", "libcublas.so.12"},
                            {"nvidia/cu13/lib", "nvidia/cublas/lib", ""});
  void* solver = open_library({"libcusolver.so.12", "libcusolver.so.11"},
                              {"nvidia/cu13/lib", "nvidia/cusolver/lib", ""});
  bool has_blas = blas != nullptr, has_solver = solver != nullptr;
#define RUSH_LOAD_INTO(place, found, library, symbol)                          \
  place = reinterpret_cast<decltype(place)>(library_symbol(library, #symbol)); \
  found = found && place;
#define RUSH_LOAD(symbol, name, params) RUSH_LOAD_INTO(l.blas.name, has_blas, blas, symbol)
  RUSH_CUBLAS(RUSH_LOAD)
#undef RUSH_LOAD
#define RUSH_LOAD(symbol, name, params) RUSH_LOAD_INTO(typed.name, has_blas, blas, symbol)
  {
    auto& typed = static_cast<Typed<float>&>(l);
    RUSH_CUBLAS_S(RUSH_LOAD)
  }
  {
    auto& typed = static_cast<Typed<double>&>(l);
    RUSH_CUBLAS_D(RUSH_LOAD)
  }
  {
    auto& typed = static_cast<Typed<complex<float>>&>(l);
    RUSH_CUBLAS_C(RUSH_LOAD)
  }
  {
    auto& typed = static_cast<Typed<complex<double>>&>(l);
    RUSH_CUBLAS_Z(RUSH_LOAD)
  }
#undef RUSH_LOAD
#define RUSH_LOAD(symbol, name, params) RUSH_LOAD_INTO(l.name, has_solver, solver, symbol)
  RUSH_CUSOLVER(RUSH_LOAD)
#undef RUSH_LOAD
#define RUSH_LOAD(symbol, name, params) RUSH_LOAD_INTO(typed.name, has_solver, solver, symbol)
  {
    auto& typed = static_cast<Typed<float>&>(l);
    RUSH_CUSOLVER_S(RUSH_LOAD)
  }
  {
    auto& typed = static_cast<Typed<double>&>(l);
    RUSH_CUSOLVER_D(RUSH_LOAD)
  }
  {
    auto& typed = static_cast<Typed<complex<float>>&>(l);
    RUSH_CUSOLVER_C(RUSH_LOAD)
  }
  {
    auto& typed = static_cast<Typed<complex<double>>&>(l);
    RUSH_CUSOLVER_Z(RUSH_LOAD)
  }
#undef RUSH_LOAD
  bool is_new = true;
#define RUSH_LOAD(symbol, name, params) RUSH_LOAD_INTO(l.name, is_new, solver, symbol)
  RUSH_CUSOLVER_NEW(RUSH_LOAD)
#undef RUSH_LOAD
#undef RUSH_LOAD_INTO
  if (!has_blas)
    l.missing = "cuBLAS was not found: pip install 'rushlight[cuda]'";
  else if (!has_solver)
    l.missing = "cuSOLVER was not found: pip install 'rushlight[cuda]'";
  return l;
}

// A handle belongs to one thread.
struct Sessions {
  std::array<Session, kMaxDevices> all{};
  std::array<CUstream, kMaxDevices> streams{};
  ~Sessions() {
    for (const Session& s : all) {
      if (s.handle) library().Destroy(s.handle);
      if (s.blas) library().blas.Destroy(s.blas);
    }
  }
};

const char* meaning(int status) {
  switch (status) {
    case 1:
      return " (the library could not be initialised)";
    case 2:
      return " (out of memory)";
    case 3:
    case 7:
      return " (a value that the library does not take)";
    case 6:
    case 13:
      return " (the GPU could not run it)";
    case 9:
    case 15:
      return " (not supported)";
    default:
      return "";
  }
}

}  // namespace

const Library& library() {
  static const Library found = open();
  return found;
}

DataType data_type(DType t) {
  switch (t) {
    case DType::Float32:
      return kR32F;
    case DType::Float64:
      return kR64F;
    case DType::Complex64:
      return kC32F;
    default:
      return kC64F;
  }
}

void done(const char* op, int status, const char* what) {
  if (status != 0) [[unlikely]]
    fail(ErrorKind::Runtime, op, what, " failed with status ", status, meaning(status));
}

namespace {

Session& open_session(const char* op, int device) {
  thread_local std::unique_ptr<Sessions> sessions;
  const Library& l = library();
  check(l.missing.empty(), ErrorKind::Runtime, op, l.missing);
  bind(device);
  if (!sessions) sessions = std::make_unique<Sessions>();
  Session& mine = sessions->all[size_t(device)];
  CUstream& its = sessions->streams[size_t(device)];
  const CUstream now = current_stream(device)->handle();
  const bool fresh = mine.jacobi == nullptr;
  if (fresh) {
    const RelaxedCapture relaxed;
    if (!mine.blas) done(op, l.blas.Create(&mine.blas), "cublasCreate");
    if (!mine.handle) done(op, l.Create(&mine.handle), "cusolverDnCreate");
    if (!mine.params) done(op, l.CreateParams(&mine.params), "cusolverDnCreateParams");
    done(op, l.CreateJacobi(&mine.jacobi), "cusolverDnCreateGesvdjInfo");
  }
  if (fresh || now != its) {
    done(op, l.SetStream(mine.handle, now), "cusolverDnSetStream");
    done(op, l.blas.SetStream(mine.blas, now), "cublasSetStream");
    its = now;
  }
  return mine;
}

}  // namespace

const Session& session(const char* op, int device) {
  refuse_capture(op, "cuSOLVER may wait for the GPU");
  return open_session(op, device);
}
Blas blas_handle(const char* op, int device) { return open_session(op, device).blas; }

}  // namespace rush::cuda::solver
