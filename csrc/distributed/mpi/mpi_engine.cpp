#include "distributed/mpi/mpi_engine.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "distributed/pmi_server.h"

namespace rush::distributed::mpi {
namespace {

// Written and read by init_process_group alone, which no two threads call at once.
struct World {
  int rank = -1, size = 0;  // size 0: MPI is not started
  int process = 0;
};
World& world() {
  static auto* w = new World;
  return *w;
}

// MPICH names its shared memory in /dev/shm, and takes the names away when it ends in order. Once
// every rank has mapped it the names serve nobody; without them nothing is left behind by
// processes that are killed.
void unlink_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> names;
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find("/dev/shm/mpich_shm_");
    if (at != std::string::npos) names.insert(line.substr(at, line.find(' ', at) - at));
  }
  for (const std::string& name : names) unlink(name.c_str());
}

class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(Handle communicator) : communicator_(communicator) {}
  // The communicator is not freed: that would wait for ranks which may be gone.

  void start(const Operation& op) override {
    const Library& l = library();
    request_ = handle(kRequestNull);
    const Tensor& b = op.buffer;
    switch (op.kind) {
      case Collective::Barrier:
        return check_mpi(l.Ibarrier(communicator_, &request_), "MPI_Ibarrier");
      case Collective::Broadcast:
        return check_mpi(
            l.Ibcast_c(b.data(), b.nbytes(), handle(kByte), op.root, communicator_, &request_),
            "MPI_Ibcast");
      case Collective::AllReduce: {
        const uintptr_t type = type_of(b.dtype());
        internal_assert(type != 0, "a dtype that MPI cannot add");
        return check_mpi(
            l.Iallreduce_c(handle(kInPlace), b.data(), b.numel(), handle(type),
                           handle(operation_of(op.engine_reduce)), communicator_, &request_),
            "MPI_Iallreduce");
      }
      case Collective::AllGather:
        return check_mpi(l.Iallgather_c(b.data(), b.nbytes(), handle(kByte), op.gathered.data(),
                                        b.nbytes(), handle(kByte), communicator_, &request_),
                         "MPI_Iallgather");
    }
  }

  bool done() override {
    int flag = 0;
    check_mpi(library().Test(&request_, &flag, nullptr), "MPI_Test");
    return flag;
  }

 private:
  Handle communicator_;
  Handle request_ = nullptr;
};

}  // namespace

void initialize(const std::shared_ptr<Store>& store, int rank, int size, Milliseconds timeout) {
  World& w = world();
  if (w.size != 0) {
    if (w.process != getpid())
      throw BackendError(
          "init_process_group: MPI was started before this process was forked; start processes "
          "with \"spawn\", or fork before init_process_group");
    if (w.rank != rank || w.size != size)
      throw BackendError(
          concat("init_process_group: MPI can be started once per process, and this "
                 "one is rank ",
                 w.rank, " of ", w.size, ", not ", rank, " of ", size));
    return;
  }
  const Library& l = library();
  // MPI itself would wait for a missing rank for good; here the wait ends, with a reason.
  store_barrier(*store, "mpi/start", size, timeout);
  {
    const PmiServer server(store, rank, size, timeout);
    int provided = 0;
    const int status = l.Init_thread(nullptr, nullptr, kThreadMultiple, &provided);
    if (!server.failure().empty())
      throw BackendError("init_process_group: MPI did not start: " + server.failure());
    check_mpi(status, "MPI_Init_thread");
    int got_rank = -1, got_size = 0;
    l.Comm_rank(handle(kCommWorld), &got_rank);
    l.Comm_size(handle(kCommWorld), &got_size);
    if (got_rank != rank || got_size != size)
      throw BackendError(concat("init_process_group: MPI started as rank ", got_rank, " of ",
                                got_size, " in place of ", rank, " of ", size));
    check_mpi(l.Comm_set_errhandler(handle(kCommWorld), handle(kErrorsReturn)), "MPI_Init_thread");
  }
  w.rank = rank;
  w.size = size;
  w.process = getpid();
  store_barrier(*store, "mpi/started", size, timeout);
  unlink_shared_memory();
}

std::unique_ptr<Engine> make_engine(Store& store, std::span<const int> ranks,
                                    Milliseconds timeout) {
  const Library& l = library();
  store_barrier(store, "mpi/group", int(ranks.size()), timeout);  // creating a group waits for all
  Handle all = nullptr, group = nullptr, communicator = handle(kCommNull);
  check_mpi(l.Comm_group(handle(kCommWorld), &all), "MPI_Comm_group");
  check_mpi(l.Group_incl(all, int(ranks.size()), ranks.data(), &group), "MPI_Group_incl");
  check_mpi(l.Comm_create_group(handle(kCommWorld), group, 0, &communicator),
            "MPI_Comm_create_group");
  l.Group_free(&group);
  l.Group_free(&all);
  check_mpi(l.Comm_set_errhandler(communicator, handle(kErrorsReturn)), "MPI_Comm_set_errhandler");
  return std::make_unique<MpiEngine>(communicator);
}

}  // namespace rush::distributed::mpi
