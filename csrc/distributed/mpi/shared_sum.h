// shared_sum.h: sums of ranks on one host, in memory that MPI lets them share.
//
// MPI's own all_reduce copies each part several times, from process to process. Here each rank puts
// a piece of its tensor into its part of a window (MPI_Win_allocate_shared), adds one slice of all
// ranks' pieces, and takes the slices that the others have added. The memory is MPI's, and MPI's
// barriers say when all ranks are there; one per piece, since a rank fills one place for pieces
// while the others still read the other one.
#pragma once

#include "distributed/mpi/mpi_library.h"

namespace rush::distributed::mpi {

class SharedSum {
 public:
  // All ranks of the communicator call it; the store is theirs. Null on all of them unless rank 0
  // has RUSHLIGHT_SHARED_SUMS=1, and where they are few, on several hosts, or short of memory.
  static std::unique_ptr<SharedSum> make(Store& store, Handle communicator, int rank, int size,
                                         Milliseconds timeout);

  bool takes(const Operation& op) const;
  std::unique_ptr<Transfer> start(Operation& op);

 private:
  friend class SharedTransfer;
  SharedSum(Handle communicator, int rank, int size);
  bool allocate();

  std::byte* piece(int rank, int64_t number) const;  // of two places
  std::byte* slice(int rank, int64_t number) const;  // what the rank has added of a piece

  Handle communicator_, window_ = nullptr;
  const int rank_, size_;
  const int64_t piece_bytes_, slice_bytes_;
  std::vector<std::byte*> parts_;  // of the window, by rank
};

}  // namespace rush::distributed::mpi
