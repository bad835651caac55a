#include "distributed/mpi/mpi_library.h"

#include <memory>

#include "core/dynamic_library.h"

namespace rush::distributed::mpi {
namespace {

template <class Key>
struct Row {
  Key key;
  const char* name;
  uintptr_t value;
};

constexpr Row<DType> kTypes[] = {
    {DType::Int8, "MPI_INT8_T", 0x240},   {DType::UInt8, "MPI_UINT8_T", 0x241},
    {DType::Int16, "MPI_INT16_T", 0x248}, {DType::UInt16, "MPI_UINT16_T", 0x249},
    {DType::Int32, "MPI_INT32_T", 0x250}, {DType::UInt32, "MPI_UINT32_T", 0x251},
    {DType::Int64, "MPI_INT64_T", 0x258}, {DType::UInt64, "MPI_UINT64_T", 0x259},
    {DType::Float32, "MPI_FLOAT", 0x210}, {DType::Float64, "MPI_DOUBLE", 0x214},
};

constexpr Row<ReduceOp> kOperations[] = {
    {ReduceOp::Sum, "MPI_SUM", 0x21},     {ReduceOp::Min, "MPI_MIN", 0x22},
    {ReduceOp::Max, "MPI_MAX", 0x23},     {ReduceOp::Product, "MPI_PROD", 0x24},
    {ReduceOp::BitAnd, "MPI_BAND", 0x28}, {ReduceOp::BitOr, "MPI_BOR", 0x29},
    {ReduceOp::BitXor, "MPI_BXOR", 0x2a},
};

// Wheels put libraries of programs into lib/ of the environment, two folders above site-packages.
void* open_mpi() { return open_library({"libmpi_abi.so.1"}, {"../..", "mpich/lib"}); }

template <class F>
bool find(void* opened, const char* name, F*& function) {
  function = reinterpret_cast<F*>(library_symbol(opened, name));
  return function;
}

// Null when it cannot be opened, or lacks a function.
std::unique_ptr<Library> load() {
  void* opened = open_mpi();
  if (!opened) return nullptr;
  auto l = std::make_unique<Library>();
  const bool all =
      find(opened, "MPI_Init_thread", l->Init_thread) &&
      find(opened, "MPI_Comm_rank", l->Comm_rank) && find(opened, "MPI_Comm_size", l->Comm_size) &&
      find(opened, "MPI_Comm_group", l->Comm_group) &&
      find(opened, "MPI_Group_incl", l->Group_incl) &&
      find(opened, "MPI_Group_free", l->Group_free) &&
      find(opened, "MPI_Comm_create_group", l->Comm_create_group) &&
      find(opened, "MPI_Comm_set_errhandler", l->Comm_set_errhandler) &&
      find(opened, "MPI_Error_string", l->Error_string) && find(opened, "MPI_Test", l->Test) &&
      find(opened, "MPI_Ibarrier", l->Ibarrier) && find(opened, "MPI_Ibcast_c", l->Ibcast_c) &&
      find(opened, "MPI_Iallreduce_c", l->Iallreduce_c) &&
      find(opened, "MPI_Iallgather_c", l->Iallgather_c) &&
      find(opened, "MPI_Comm_get_attr", l->Comm_get_attr) &&
      find(opened, "MPI_Get_count_c", l->Get_count_c) &&
      find(opened, "MPI_Ireduce_c", l->Ireduce_c) && find(opened, "MPI_Igather_c", l->Igather_c) &&
      find(opened, "MPI_Iscatter_c", l->Iscatter_c) &&
      find(opened, "MPI_Ireduce_scatter_block_c", l->Ireduce_scatter_block_c) &&
      find(opened, "MPI_Ialltoallv_c", l->Ialltoallv_c) &&
      find(opened, "MPI_Isend_c", l->Isend_c) && find(opened, "MPI_Irecv_c", l->Irecv_c) &&
      find(opened, "MPI_Get_library_version", l->Get_library_version);
  find(opened, "MPI_Comm_split_type", l->Comm_split_type);
  find(opened, "MPI_Comm_free", l->Comm_free);
  find(opened, "MPI_Win_allocate_shared", l->Win_allocate_shared);
  find(opened, "MPI_Win_shared_query", l->Win_shared_query);
  find(opened, "MPI_Win_lock_all", l->Win_lock_all);
  return all ? std::move(l) : nullptr;
}

const Library* loaded() {
  static const Library* const found = load().release();  // stays open until the process ends
  return found;
}

}  // namespace

uintptr_t type_of(DType t) {
  for (const auto& row : kTypes)
    if (row.key == t) return row.value;
  return 0;
}

uintptr_t operation_of(ReduceOp op) {
  for (const auto& row : kOperations)
    if (row.key == op) return row.value;
  return 0;
}

std::vector<std::pair<std::string, int64_t>> constants() {
  std::vector<std::pair<std::string, int64_t>> out = {
      {"MPI_COMM_NULL", kCommNull},
      {"MPI_COMM_WORLD", kCommWorld},
      {"MPI_ERRORS_RETURN", kErrorsReturn},
      {"MPI_REQUEST_NULL", kRequestNull},
      {"MPI_BYTE", kByte},
      {"MPI_IN_PLACE", kInPlace},
      {"MPI_THREAD_MULTIPLE", kThreadMultiple},
      {"MPI_MAX_ERROR_STRING", kLongestErrorString},
      {"MPI_ANY_SOURCE", kAnyMpiSource},
      {"MPI_TAG_UB", kTagUpperBound},
      {"MPI_INFO_NULL", kInfoNull},
      {"MPI_COMM_TYPE_SHARED", kTypeShared},
      {"MPI_MODE_NOCHECK", kModeNoCheck},
  };
  for (const auto& row : kTypes) out.emplace_back(row.name, row.value);
  for (const auto& row : kOperations) out.emplace_back(row.name, row.value);
  return out;
}

bool is_available() { return loaded(); }

std::string library_version() {
  if (!loaded()) return "";
  std::string text(8192, '\0');
  int length = 0;
  loaded()->Get_library_version(text.data(), &length);
  return text.substr(0, std::min(text.find('\n'), size_t(length)));
}

const Library& library() {
  if (!loaded())
    throw BackendError(
        "init_process_group: processes talk through MPI, and no library with MPI's standard ABI "
        "(libmpi_abi.so.1) was found; `pip install mpich` brings one");
  return *loaded();
}

void check_mpi(int status, const char* what) {
  if (status == 0) return;
  char text[kLongestErrorString + 1] = "";
  int length = 0;
  library().Error_string(status, text, &length);
  throw BackendError(concat(what, ": ", text));
}

}  // namespace rush::distributed::mpi
