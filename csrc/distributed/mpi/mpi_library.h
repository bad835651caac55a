// mpi_library.h: the functions of an MPI library that we call, found by dlopen when first needed.
//
// Types and constants are those of the standard ABI of MPI 5, which libmpi_abi.so.1 of MPICH 5
// offers; the wheel `mpich` brings it. tests/distributed checks them against its header.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "distributed/operation.h"

namespace rush::distributed::mpi {

using Handle = void*;  // of a communicator, a type, an operation, ...
using Count = int64_t;

// As in the standard's table of constants.
inline constexpr uintptr_t kCommNull = 0x100, kCommWorld = 0x101;
inline constexpr uintptr_t kErrorsReturn = 0x143, kRequestNull = 0x180;
inline constexpr uintptr_t kByte = 0x247;
inline constexpr uintptr_t kInPlace = 1;
inline constexpr int kThreadMultiple = 4096;
inline constexpr int kLongestErrorString = 512;
inline constexpr int kAnyMpiSource = -1;
inline constexpr int kTagUpperBound = 501;
inline constexpr uintptr_t kInfoNull = 0x130;
inline constexpr int kTypeShared = 221, kModeNoCheck = 1024;

inline Handle handle(uintptr_t constant) { return reinterpret_cast<Handle>(constant); }
uintptr_t type_of(DType t);  // 0: the library has none
uintptr_t operation_of(ReduceOp op);

struct Status {  // MPI_Status
  int source, tag, error, internal[5];
};

struct Library {
  int (*Init_thread)(int*, char***, int, int*);
  int (*Comm_rank)(Handle, int*);
  int (*Comm_size)(Handle, int*);
  int (*Comm_group)(Handle, Handle*);
  int (*Group_incl)(Handle, int, const int*, Handle*);
  int (*Group_free)(Handle*);
  int (*Comm_create_group)(Handle, Handle, int, Handle*);
  int (*Comm_set_errhandler)(Handle, Handle);
  int (*Error_string)(int, char*, int*);
  int (*Comm_get_attr)(Handle, int, void*, int*);
  int (*Test)(Handle*, int*, Status*);
  int (*Get_count_c)(const Status*, Handle, Count*);
  int (*Ibarrier)(Handle, Handle*);
  int (*Ibcast_c)(void*, Count, Handle, int, Handle, Handle*);
  int (*Iallreduce_c)(const void*, void*, Count, Handle, Handle, Handle, Handle*);
  int (*Iallgather_c)(const void*, Count, Handle, void*, Count, Handle, Handle, Handle*);
  int (*Ireduce_c)(const void*, void*, Count, Handle, Handle, int, Handle, Handle*);
  int (*Igather_c)(const void*, Count, Handle, void*, Count, Handle, int, Handle, Handle*);
  int (*Iscatter_c)(const void*, Count, Handle, void*, Count, Handle, int, Handle, Handle*);
  int (*Ireduce_scatter_block_c)(const void*, void*, Count, Handle, Handle, Handle, Handle*);
  int (*Ialltoallv_c)(const void*, const Count*, const intptr_t*, Handle, void*, const Count*,
                      const intptr_t*, Handle, Handle, Handle*);
  int (*Isend_c)(const void*, Count, Handle, int, int, Handle, Handle*);
  int (*Irecv_c)(void*, Count, Handle, int, int, Handle, Handle*);
  int (*Get_library_version)(char*, int*);
  // For pair_reduce.h, which does without where one of them is null.
  int (*Comm_split_type)(Handle, int, int, Handle, Handle*);
  int (*Comm_free)(Handle*);
  int (*Win_allocate_shared)(intptr_t, int, Handle, Handle, void*, Handle*);
  int (*Win_shared_query)(Handle, int, intptr_t*, int*, void*);
  int (*Win_lock_all)(int, Handle);
};

// Those of the constants above and of type_of and operation_of, by the standard's names: for tests.
RUSH_API std::vector<std::pair<std::string, int64_t>> constants();

RUSH_API bool is_available();
RUSH_API std::string library_version();  // its first line, or "" when there is none
const Library& library();                // throws BackendError when there is none
void check_mpi(int status, const char* what);

}  // namespace rush::distributed::mpi
