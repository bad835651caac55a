#include "distributed/nccl/nccl_library.h"

#include "core/dynamic_library.h"

namespace rush::distributed::nccl {
namespace {

Library open() {
  Library l;
  void* opened = open_library({"libnccl.so.2"}, {"nvidia/nccl/lib", "nvidia/cu13/lib", ""});
  bool whole = opened != nullptr;
#define RUSH_LOAD(symbol, name, params)                                         \
  l.name = reinterpret_cast<decltype(l.name)>(library_symbol(opened, #symbol)); \
  whole = whole && l.name;
  RUSH_NCCL(RUSH_LOAD)
#undef RUSH_LOAD
  l.GetErrorString =
      reinterpret_cast<decltype(l.GetErrorString)>(library_symbol(opened, "ncclGetErrorString"));
  l.GetLastError =
      reinterpret_cast<decltype(l.GetLastError)>(library_symbol(opened, "ncclGetLastError"));
  if (!opened)
    l.missing = "NCCL (libnccl.so.2) was not found: pip install 'rushlight[cuda]' brings it";
  else if (!whole || !l.GetErrorString)
    l.missing = "the NCCL that was found is too old: Rushlight needs 2.14 or newer";
  return l;
}

const Library& found() {
  static const Library l = open();
  return l;
}

}  // namespace

bool is_available() { return found().missing.empty(); }

int version() {
  int number = 0;
  if (is_available()) found().GetVersion(&number);
  return number;
}

const Library& library() {
  if (!is_available()) throw BackendError("init_process_group: " + found().missing);
  return found();
}

DataType type_of(DType t) {
  switch (t) {
    case DType::Int8:
      return kInt8;
    case DType::UInt8:
      return kUint8;
    case DType::Int32:
      return kInt32;
    case DType::UInt32:
      return kUint32;
    case DType::Int64:
      return kInt64;
    case DType::UInt64:
      return kUint64;
    case DType::Float16:
      return kFloat16;
    case DType::BFloat16:
      return kBFloat16;
    case DType::Float32:
      return kFloat32;
    case DType::Float64:
      return kFloat64;
    default:
      return kNoType;
  }
}

bool reduces(ReduceOp op) { return op <= ReduceOp::Max; }

RedOp reduction_of(ReduceOp op) {
  constexpr RedOp ops[] = {kSum, kAvg, kProd, kMin, kMax};
  internal_assert(reduces(op), "a reduction that NCCL does not have");
  return ops[size_t(op)];
}

void check_nccl(Result result, const char* what, Comm comm) {
  if (result == kOk || result == kInProgress) return;
  const Library& l = library();
  std::string text = concat(what, ": NCCL: ", l.GetErrorString(result));
  if (l.GetLastError)
    if (const char* more = l.GetLastError(comm); more && *more) text += concat(" (", more, ")");
  throw BackendError(text);
}

}  // namespace rush::distributed::nccl
