#include "distributed/mpi/mpi_engine.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "distributed/mpi/pair_reduce.h"
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

class MpiTransfer final : public Transfer {
 public:
  explicit MpiTransfer(Operation& op) : op_(op) {}
  ~MpiTransfer() override {
    if (!done_) static_cast<void>(counts.release());  // the library may still read them
  }

  bool done() override {
    if (done_) return true;
    int flag = 0;
    Status status{};
    check_mpi(library().Test(&request, &flag, &status), "MPI_Test");
    if (!flag) return false;
    done_ = true;
    if (op_.kind == Collective::Recv) check_received(status);
    return true;
  }

  Handle request = handle(kRequestNull);
  // all_to_all: how many bytes, and where, sent and received.
  struct Counts {
    std::vector<Count> sent, received;
    std::vector<intptr_t> sent_at, received_at;
  };
  std::unique_ptr<Counts> counts;

 private:
  // A message that is too long is an error of the library's own.
  void check_received(const Status& status) {
    op_.root = status.source;
    Count bytes = 0;
    check_mpi(library().Get_count_c(&status, handle(kByte), &bytes), "MPI_Get_count");
    if (bytes != op_.received.nbytes())
      throw KnownFault(concat("rank ", status.source, " sent ", bytes,
                              " bytes, and the tensor to receive into has ",
                              op_.received.nbytes()));
  }

  Operation& op_;
  bool done_ = false;
};

class MpiEngine final : public Engine {
 public:
  MpiEngine(Handle communicator, std::unique_ptr<PairReduce> pair)
      : communicator_(communicator), pair_(std::move(pair)) {
    int flag = 0, *value = nullptr;
    const int status = library().Comm_get_attr(handle(kCommWorld), kTagUpperBound, &value, &flag);
    largest_tag_ = status == 0 && flag && value ? *value : 32767;  // the least that MPI promises
  }
  // The communicator is not freed: that would wait for ranks which may be gone.

  std::unique_ptr<Transfer> start(Operation& op) override {
    if (pair_ && pair_->takes(op)) return pair_->start(op);
    auto transfer = std::make_unique<MpiTransfer>(op);
    check_mpi(begin(op, *transfer), name_of(op.kind));
    return transfer;
  }

 private:
  int begin(const Operation& op, MpiTransfer& t) {
    const Library& l = library();
    Handle* const request = &t.request;
    const Handle comm = communicator_, byte = handle(kByte);
    const Tensor &s = op.sent, &r = op.received;
    const auto type = [&] {
      const uintptr_t found = type_of(s.dtype());
      internal_assert(found != 0, "a dtype that MPI cannot add");
      return handle(found);
    };
    const Handle reduction = handle(operation_of(op.engine_reduce));
    switch (op.kind) {
      case Collective::Barrier:
        return l.Ibarrier(comm, request);
      case Collective::Broadcast:
        return l.Ibcast_c(r.data(), r.nbytes(), byte, op.root, comm, request);
      case Collective::AllReduce:
        return l.Iallreduce_c(handle(kInPlace), r.data(), r.numel(), type(), reduction, comm,
                              request);
      case Collective::Reduce:
        if (op.at_root())
          return l.Ireduce_c(handle(kInPlace), r.data(), r.numel(), type(), reduction, op.root,
                             comm, request);
        return l.Ireduce_c(s.data(), nullptr, s.numel(), type(), reduction, op.root, comm, request);
      case Collective::AllGather:
        return l.Iallgather_c(s.data(), s.nbytes(), byte, r.data(), s.nbytes(), byte, comm,
                              request);
      case Collective::Gather:
        return l.Igather_c(s.data(), s.nbytes(), byte, op.at_root() ? r.data() : nullptr,
                           s.nbytes(), byte, op.root, comm, request);
      case Collective::Scatter:
        return l.Iscatter_c(op.at_root() ? s.data() : nullptr, r.nbytes(), byte, r.data(),
                            r.nbytes(), byte, op.root, comm, request);
      case Collective::ReduceScatter:
        return l.Ireduce_scatter_block_c(s.data(), r.data(), r.numel(), type(), reduction, comm,
                                         request);
      case Collective::AllToAll:
        return all_to_all(op, t);
      case Collective::Send:
        check_tag(op);
        return l.Isend_c(s.data(), s.nbytes(), byte, op.root, op.tag, comm, request);
      case Collective::Recv:
        check_tag(op);
        return l.Irecv_c(r.data(), r.nbytes(), byte,
                         op.root == kAnySource ? kAnyMpiSource : op.root, op.tag, comm, request);
    }
    return 0;
  }

  int all_to_all(const Operation& op, MpiTransfer& t) {
    t.counts = std::make_unique<MpiTransfer::Counts>();
    MpiTransfer::Counts& c = *t.counts;
    const auto fill = [&](const std::vector<int64_t>& elements, std::vector<Count>& bytes,
                          std::vector<intptr_t>& at) {
      const int64_t width = element_size(op.dtype());
      intptr_t next = 0;
      for (const int64_t n : elements) {
        bytes.push_back(n * width);
        at.push_back(next);
        next += intptr_t(n * width);
      }
    };
    fill(op.input_counts, c.sent, c.sent_at);
    fill(op.output_counts, c.received, c.received_at);
    return library().Ialltoallv_c(op.sent.data(), c.sent.data(), c.sent_at.data(), handle(kByte),
                                  op.received.data(), c.received.data(), c.received_at.data(),
                                  handle(kByte), communicator_, &t.request);
  }

  void check_tag(const Operation& op) const {
    check(op.tag >= 0 && op.tag <= largest_tag_, ErrorKind::Value, name_of(op.kind),
          "the tag must be from 0 to ", largest_tag_, ", got ", op.tag);
  }

  Handle communicator_;
  std::unique_ptr<PairReduce> pair_;  // null: not two ranks on one host
  int largest_tag_ = 0;
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
  std::unique_ptr<PairReduce> pair;
  if (ranks.size() == 2) {
    int rank = 0;
    check_mpi(l.Comm_rank(communicator, &rank), "MPI_Comm_rank");
    pair = PairReduce::make(store, communicator, rank, timeout);
    unlink_shared_memory();
  }
  return std::make_unique<MpiEngine>(communicator, std::move(pair));
}

}  // namespace rush::distributed::mpi
