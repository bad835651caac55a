#include "distributed/nccl/nccl_engine.h"

#include <algorithm>
#include <map>
#include <thread>

#include "core/interrupt.h"
#include "core/mutex.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/memory.h"
#include "distributed/nccl/communicator.h"
#include "ops/ops.h"

namespace rush::distributed::nccl {
namespace {

// This thread's ops go to another stream meanwhile.
class InStream {
 public:
  explicit InStream(cuda::Stream* stream) : before_(cuda::current_stream(stream->device)) {
    cuda::set_current_stream(stream);
  }
  InStream(const InStream&) = delete;
  ~InStream() { cuda::set_current_stream(before_); }

 private:
  cuda::Stream* before_;
};

// A collective, or a batch of messages: a point in the stream behind it.
class Queued final : public QueuedTransfer {
 public:
  Queued(std::shared_ptr<Communicator> comm, bool captured)
      : comm_(std::move(comm)), captured_(captured) {
    end_.record(comm_->stream);
  }
  bool is_queued() override { return true; }
  void make_stream_wait() override { end_.make_wait(cuda::current_stream(comm_->device)); }
  bool done() override {
    if (captured_) return true;  // it runs when the graph is replayed
    comm_->check_error();
    return end_.done();
  }

 private:
  std::shared_ptr<Communicator> comm_;
  cuda::Event end_;
  const bool captured_;
};

// Messages from one rank to another, in order. They have a communicator and a stream of their own,
// so that two ranks may both send before they receive. Both directions are connected, and have
// carried a byte, before the first message: connecting may wait for kernels, and these for messages
// that are still to come.
struct Lane {
  std::shared_ptr<Communicator> comm, back;
  uint64_t given = 0, served = 0;
};

class Message;

// What waits for its ranks to be connected, in the program's order. Whoever queues a message queues
// those before it first, of all lanes that are connected: a program that has received goes on, to
// load a kernel for example, for which the driver waits until the GPU is idle and keeps all other
// threads from queueing. A message that came before could be what the sender waits for.
struct Messages {
  Mutex mutex{LockRank::Work};  // guards lanes and messages, too
  std::vector<Message*> waiting;
};

class Message final : public QueuedTransfer {
 public:
  Message(std::shared_ptr<Messages> all, std::shared_ptr<Lane> lane, Operation& op, int size)
      : all_(std::move(all)), lane_(std::move(lane)), op_(op), size_(size) {
    ready_.record(cuda::current_stream(op.device));
    const std::lock_guard lock(all_->mutex);
    ticket_ = lane_->given++;
    all_->waiting.push_back(this);
  }
  ~Message() override {
    const std::lock_guard lock(all_->mutex);
    std::erase(all_->waiting, this);
  }

  bool is_queued() override {
    const std::lock_guard lock(all_->mutex);
    if (queued_) return true;
    for (Message* m : all_->waiting) {
      if (m == this) break;
      try {
        m->queue_if_connected();
      } catch (const std::exception&) {  // raised again by whoever waits for that one
      }
    }
    queue_if_connected();
    std::erase_if(all_->waiting, [](const Message* m) { return m->queued_; });
    return queued_;
  }

  void make_stream_wait() override { end_.make_wait(cuda::current_stream(op_.device)); }

  bool done() override {
    if (!is_queued()) return false;
    lane_->comm->check_error();
    return end_.done();
  }

 private:
  void queue_if_connected() {
    if (queued_ || lane_->served != ticket_ || !lane_->comm->is_connected() ||
        !lane_->back->is_connected())
      return;
    cuda::Stream* stream = lane_->comm->stream;
    cuda::bind(stream->device);
    ready_.make_wait(stream);
    const Library& l = library();
    const Comm comm = lane_->comm->handle();
    if (op_.kind == Collective::Send)
      check_nccl(
          l.Send(op_.sent.data(), size_t(op_.sent.nbytes()), kInt8, 1, comm, stream->handle()),
          "send", comm);
    else
      check_nccl(l.Recv(op_.received.data(), size_t(op_.received.nbytes()), kInt8, 0, comm,
                        stream->handle()),
                 "recv", comm);
    {
      const InStream in(stream);
      complete(op_, size_);
    }
    end_.record(stream);
    ++lane_->served;
    queued_ = true;
  }

  const std::shared_ptr<Messages> all_;
  const std::shared_ptr<Lane> lane_;
  Operation& op_;
  const int size_;
  uint64_t ticket_ = 0;
  cuda::Event ready_, end_;
  bool queued_ = false;
};

class NcclEngine final : public DeviceEngine {
 public:
  NcclEngine(std::shared_ptr<Store> store, int rank, int size, Milliseconds timeout)
      : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {
    library();  // says now that there is none
  }
  ~NcclEngine() override { abort(); }

  void connect(int device, const Check& check) override {
    const std::shared_ptr<Communicator> comm = communicator(device);
    for (int turn = 0; !comm->is_connected(); ++turn) {
      if (turn == 0)
        cuda::refuse_capture("a collective", "its ranks are not connected yet: run one before");
      check();
      check_interrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::shared_ptr<QueuedTransfer> start(Operation& op) override {
    if (op.is_message()) {
      const auto message = std::make_shared<Message>(messages_, lane(op), op, size_);
      message->is_queued();
      return message;
    }
    const std::shared_ptr<Communicator> comm = communicator(op.device);
    if (op.kind == Collective::Barrier && !scratch_.defined()) {
      const int64_t one[] = {1};
      const Device place{DeviceType::CUDA, int8_t(op.device)};
      scratch_ = empty(one, DType::Float32, std::nullopt, place);
    }
    const bool captured = follow(*comm);
    if (captured) keep_for(*comm, op);
    begin(op, *comm);
    const InStream in(comm->stream);
    complete(op, size_);
    return std::make_shared<Queued>(comm, captured);
  }

  std::shared_ptr<QueuedTransfer> start_batch(std::span<Operation* const> ops) override {
    const std::shared_ptr<Communicator> comm = communicator(ops[0]->device);
    const bool captured = follow(*comm);
    const Library& l = library();
    const Comm handle = comm->handle();
    const cuda::CUstream stream = comm->stream->handle();
    in_group("batch_isend_irecv", handle, [&] {
      Result worst = kOk;
      for (Operation* op : ops) {
        const Result result = op->kind == Collective::Send
                                  ? l.Send(op->sent.data(), size_t(op->sent.nbytes()), kInt8,
                                           op->root, handle, stream)
                                  : l.Recv(op->received.data(), size_t(op->received.nbytes()),
                                           kInt8, op->root, handle, stream);
        if (result != kOk) worst = result;
      }
      return worst;
    });
    const InStream in(comm->stream);
    for (Operation* op : ops) complete(*op, size_);
    return std::make_shared<Queued>(comm, captured);
  }

  void abort() noexcept override {
    for (const auto& comm : all(true)) comm->abort();
  }
  void close() noexcept override {
    for (const auto& comm : all(true)) comm->destroy();
  }

 private:
  std::shared_ptr<Communicator> communicator(int device) {
    const std::lock_guard lock(mutex_);
    if (ended_) throw BackendError("the process group ended");
    if (!main_)
      main_ =
          std::make_shared<Communicator>(store_, Place{"nccl/all", rank_, size_, device, timeout_});
    check(main_->device == device, ErrorKind::Device, "process group",
          "a rank works with one GPU per group, which is cuda:", main_->device,
          ", got cuda:", device,
          "; choose it before (cuda.set_device, or device_id of init_process_group)");
    return main_;
  }

  std::shared_ptr<Lane> lane(const Operation& op) {
    const bool sends = op.kind == Collective::Send;
    const int from = sends ? rank_ : op.root, to = sends ? op.root : rank_;
    const std::lock_guard lock(mutex_);
    if (ended_) throw BackendError("the process group ended");
    std::shared_ptr<Lane>& found = lanes_[{from, to}];
    if (found) return found;
    found = std::make_shared<Lane>();
    const auto back = std::make_shared<Lane>();
    lanes_[{to, from}] = back;
    // One after the other, in one order on both ranks: their first messages run alone.
    const int low = std::min(from, to), high = std::max(from, to);
    const auto up = connected(low, high, op.device, nullptr);
    const auto down = connected(high, low, op.device, up);
    found->comm = back->back = from == low ? up : down;
    found->back = back->comm = from == low ? down : up;
    return found;
  }

  std::shared_ptr<Communicator> connected(int from, int to, int device,
                                          std::shared_ptr<Communicator> after) {
    const int rank = rank_ == from ? 0 : 1;
    return std::make_shared<Communicator>(store_, Place{concat("nccl/from/", from, "/to/", to),
                                                        rank, 2, device, timeout_, true, after});
  }

  std::vector<std::shared_ptr<Communicator>> all(bool end) {
    const std::lock_guard lock(mutex_);
    ended_ = ended_ || end;
    std::vector<std::shared_ptr<Communicator>> out;
    if (main_) out.push_back(main_);
    for (const auto& [ranks, lane] : lanes_) out.push_back(lane->comm);
    return out;
  }

  // The communicator's stream goes on behind this thread's. Is all of it captured into a graph?
  static bool follow(Communicator& comm) {
    cuda::bind(comm.device);
    cuda::Stream* current = cuda::current_stream(comm.device);
    cuda::Event ready;
    ready.record(current);
    ready.make_wait(comm.stream);
    return cuda::is_capturing(current);
  }

  // Nobody holds the buffers until a replay is done, as a Work does otherwise.
  static void keep_for(Communicator& comm, const Operation& op) {
    for (const Tensor* t : {&op.sent, &op.received})
      if (t->defined() && t->numel() != 0) cuda::record_stream(*t->storage(), comm.stream);
  }

  template <class F>
  static void in_group(const char* what, Comm comm, F calls) {
    const Library& l = library();
    check_nccl(l.GroupStart(), what, comm);
    const Result inside = calls(), end = l.GroupEnd();
    check_nccl(inside, what, comm);
    check_nccl(end, what, comm);
  }

  void begin(const Operation& op, Communicator& c) {
    const Library& l = library();
    const Comm comm = c.handle();
    const cuda::CUstream s = c.stream->handle();
    const Tensor &in = op.sent, &out = op.received;
    const char* what = name_of(op.kind);
    const DataType type = op.adds() ? type_of(in.dtype()) : kInt8;
    internal_assert(type != kNoType, "a dtype that NCCL does not add");
    const RedOp reduction = op.adds() ? reduction_of(op.engine_reduce) : kSum;
    switch (op.kind) {
      case Collective::Barrier:
        return check_nccl(l.AllReduce(scratch_.data(), scratch_.data(), 1, kFloat32, kMax, comm, s),
                          what, comm);
      case Collective::Broadcast:
        return check_nccl(
            l.Broadcast(out.data(), out.data(), size_t(out.nbytes()), kInt8, op.root, comm, s),
            what, comm);
      case Collective::AllReduce:
        return check_nccl(
            l.AllReduce(in.data(), out.data(), size_t(in.numel()), type, reduction, comm, s), what,
            comm);
      case Collective::Reduce:
        return check_nccl(l.Reduce(in.data(), op.at_root() ? out.data() : nullptr,
                                   size_t(in.numel()), type, reduction, op.root, comm, s),
                          what, comm);
      case Collective::AllGather:
        return check_nccl(l.AllGather(in.data(), out.data(), size_t(in.nbytes()), kInt8, comm, s),
                          what, comm);
      case Collective::ReduceScatter:
        return check_nccl(
            l.ReduceScatter(in.data(), out.data(), size_t(out.numel()), type, reduction, comm, s),
            what, comm);
      default:
        return in_group(what, comm, [&] { return exchange(op, comm, s); });
    }
  }

  // gather, scatter and all_to_all are messages to and from everybody, this rank too.
  Result exchange(const Operation& op, Comm comm, cuda::CUstream s) {
    const int64_t width = element_size(op.dtype());
    Result worst = kOk;
    const auto note = [&](Result result) { worst = result == kOk ? worst : result; };
    const auto send = [&](int to, int64_t first, int64_t bytes) {
      const auto* at = static_cast<const char*>(op.sent.data()) + first;
      if (bytes > 0) note(library().Send(at, size_t(bytes), kInt8, to, comm, s));
    };
    const auto receive = [&](int from, int64_t first, int64_t bytes) {
      auto* at = static_cast<char*>(op.received.data()) + first;
      if (bytes > 0) note(library().Recv(at, size_t(bytes), kInt8, from, comm, s));
    };
    int64_t in = 0, out = 0;
    for (int r = 0; r < size_; ++r) {
      if (op.kind == Collective::AllToAll) {
        const int64_t sent = op.input_counts[size_t(r)] * width;
        const int64_t received = op.output_counts[size_t(r)] * width;
        send(r, in, sent);
        receive(r, out, received);
        in += sent;
        out += received;
      } else if (op.at_root()) {
        const int64_t each =
            op.kind == Collective::Gather ? op.sent.nbytes() : op.received.nbytes();
        if (op.kind == Collective::Gather)
          receive(r, r * each, each);
        else
          send(r, r * each, each);
      }
    }
    if (op.kind == Collective::Gather) send(op.root, 0, op.sent.nbytes());
    if (op.kind == Collective::Scatter) receive(op.root, 0, op.received.nbytes());
    return worst;
  }

  const std::shared_ptr<Store> store_;
  const int rank_, size_;
  const Milliseconds timeout_;
  Mutex mutex_{LockRank::Work};  // guards what follows
  bool ended_ = false;
  std::shared_ptr<Communicator> main_;
  std::map<std::pair<int, int>, std::shared_ptr<Lane>> lanes_;
  const std::shared_ptr<Messages> messages_ = std::make_shared<Messages>();
  Tensor scratch_;  // of barriers; guarded by who starts
};

}  // namespace

std::unique_ptr<DeviceEngine> make_engine(std::shared_ptr<Store> store, int rank, int size,
                                          Milliseconds timeout) {
  return std::make_unique<NcclEngine>(std::move(store), rank, size, timeout);
}

}  // namespace rush::distributed::nccl
