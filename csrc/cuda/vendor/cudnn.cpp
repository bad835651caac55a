#include "cuda/vendor/cudnn.h"

#include <array>
#include <memory>

#include "core/dynamic_library.h"
#include "core/error.h"
#include "cuda/runtime/settings.h"
#include "cuda/runtime/stream.h"

namespace rush::cuda::dnn {
namespace {

Library open() {
  Library l;
  void* library = open_library({"libcudnn.so.9"}, {"nvidia/cudnn/lib", "nvidia/cu13/lib", ""});
  bool whole = library != nullptr;
#define RUSH_LOAD(symbol, name, params)                                          \
  l.name = reinterpret_cast<decltype(l.name)>(library_symbol(library, #symbol)); \
  whole = whole && l.name;
  RUSH_CUDNN(RUSH_LOAD)
#undef RUSH_LOAD
  l.ErrorString =
      reinterpret_cast<const char* (*)(int)>(library_symbol(library, "cudnnGetErrorString"));
  l.Version = reinterpret_cast<size_t (*)()>(library_symbol(library, "cudnnGetVersion"));
  if (!whole || !l.ErrorString || !l.Version)
    l.missing = "cuDNN 9 was not found: pip install 'rushlight[cuda]'";
  return l;
}

// A handle belongs to one thread.
struct Handles {
  std::array<Handle, kMaxDevices> all{};
  std::array<CUstream, kMaxDevices> streams{};
  ~Handles() {
    for (Handle h : all)
      if (h) library().Destroy(h);
  }
};

}  // namespace

const Library& library() {
  static const Library found = open();
  return found;
}

Handle handle(int device) { return handle(device, current_stream(device)->handle()); }

Handle handle(int device, CUstream stream) {
  thread_local std::unique_ptr<Handles> handles;
  const Library& l = library();
  check(l.missing.empty(), ErrorKind::Runtime, "cudnn", l.missing);
  bind(device);
  if (!handles) handles = std::make_unique<Handles>();
  Handle& mine = handles->all[size_t(device)];
  CUstream& its = handles->streams[size_t(device)];
  if (!mine) done(l.Create(&mine), "cudnnCreate");  // on the default stream
  if (stream != its) {
    done(l.SetStream(mine, stream), "cudnnSetStream");
    its = stream;
  }
  return mine;
}

void done(int status, const char* what) {
  if (status != 0) [[unlikely]]
    fail(ErrorKind::Runtime, what, "cuDNN error: ", library().ErrorString(status));
}

DataType data_type(DType t) {
  switch (t) {
    case DType::Float32:
      return kFloat;
    case DType::Float64:
      return kDouble;
    case DType::Float16:
      return kHalf;
    default:
      return kBFloat16;
  }
}

}  // namespace rush::cuda::dnn

namespace rush::cuda {

int64_t cudnn_version() {
  const dnn::Library& l = dnn::library();
  return l.missing.empty() ? int64_t(l.Version()) : 0;
}

}  // namespace rush::cuda
