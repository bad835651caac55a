// pair_reduce.h: all_reduce of two ranks on one host, in memory that MPI lets them share.
//
// MPI's own all_reduce moves each half back and forth through its queues, and combines it in loops
// of its own. Two ranks need neither: each puts its tensor into its part of a window
// (MPI_Win_allocate_shared), block by block, and combines the other's blocks with its own tensor as
// they come, so that each byte is written twice and read by the other processor once. The blocks
// are taken in turn, and stay in the caches; counters beside them say how many were put and taken.
#pragma once

#include "distributed/mpi/mpi_library.h"

namespace rush::distributed::mpi {

class PairReduce {
 public:
  // Both ranks of the communicator call it; the store is theirs. Null on both where they are on
  // different hosts, or short of memory.
  static std::unique_ptr<PairReduce> make(Store& store, Handle communicator, int rank,
                                          Milliseconds timeout);
  ~PairReduce();
  PairReduce(const PairReduce&) = delete;
  PairReduce& operator=(const PairReduce&) = delete;

  bool takes(const Operation& op) const;
  std::unique_ptr<Transfer> start(Operation& op);

 private:
  friend class PairTransfer;
  struct Part;
  explicit PairReduce(int rank);
  bool allocate(Handle communicator);
  void reclaim();

  const int rank_, process_;
  Part *own_ = nullptr, *other_ = nullptr;
  int64_t blocks_ = 0;  // of all calls that were started, on either side
  int64_t calls_ = 0;
  std::vector<int> free_;  // places for blocks
  int64_t reclaimed_ = 0;  // blocks whose places are free again
};

}  // namespace rush::distributed::mpi
