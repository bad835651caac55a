// mpi_engine.h: collectives by MPI.
#pragma once

#include <span>

#include "distributed/mpi/mpi_library.h"

namespace rush::distributed::mpi {

// Starts MPI in this process as one of `size` ranks, which find each other through the store. Once
// per process: later calls must say the same. Returns when all ranks have come.
RUSH_API void initialize(const std::shared_ptr<Store>& store, int rank, int size,
                         Milliseconds timeout);

// An engine for some ranks of the world, this one among them. All of them must call it; the store
// is theirs.
RUSH_API std::unique_ptr<Engine> make_engine(Store& store, std::span<const int> ranks,
                                             Milliseconds timeout);

}  // namespace rush::distributed::mpi
