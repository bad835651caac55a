#include "distributed/threads/thread_engine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <list>

namespace rush::distributed::threads {
namespace {

using State = std::atomic<int>;  // 0: on its way, 1: done, 2: the ranks disagree

// One collective: what each rank wants. Copies of the operations keep the memory.
struct Meeting {
  explicit Meeting(int size) : operations(size) {}
  std::vector<Operation> operations;
  int here = 0;
  State state{0};
};

struct Posted {  // one side of a message
  explicit Posted(Operation& operation) : op(&operation) {}
  Operation* op;
  State state{0};
};

char* bytes(const Tensor& t) { return static_cast<char*>(t.data()); }

void copy_bytes(char* to, const char* from, int64_t n) {
  if (n > 0) std::memmove(to, from, size_t(n));
}

template <class T>
void reduce_into(T* to, const T* from, int64_t n, ReduceOp op) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) to[i] = T(f(to[i], from[i]));
  };
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return each([](T a, T b) { return a + b; });
    case ReduceOp::Product:
      return each([](T a, T b) { return a * b; });
    case ReduceOp::Min:
      return each([](T a, T b) { return b < a ? b : a; });
    case ReduceOp::Max:
      return each([](T a, T b) { return a < b ? b : a; });
    default:
      if constexpr (std::is_integral_v<T>) {
        if (op == ReduceOp::BitAnd) return each([](T a, T b) { return a & b; });
        if (op == ReduceOp::BitOr) return each([](T a, T b) { return a | b; });
        return each([](T a, T b) { return a ^ b; });
      }
  }
}

// The reduction of all ranks' elements from `first` on, into memory of its own.
std::vector<char> reduced(const std::vector<Operation>& ops, int64_t first, int64_t n) {
  const Tensor& mine = ops[0].sent;
  const int64_t width = element_size(mine.dtype());
  std::vector<char> out(size_t(n * width));
  copy_bytes(out.data(), bytes(mine) + first * width, n * width);
  dispatch_storage("reduce", mine.dtype(), [&]<typename T>() {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
      for (size_t r = 1; r < ops.size(); ++r)
        reduce_into(reinterpret_cast<T*>(out.data()),
                    static_cast<const T*>(ops[r].sent.data()) + first, n, ops[0].engine_reduce);
  });
  return out;
}

// Do all want the same, with the same sizes?
bool agree(const std::vector<Operation>& ops) {
  const std::string first = describe(ops[0]);
  for (size_t r = 1; r < ops.size(); ++r)
    if (describe(ops[r]) != first) return false;
  if (ops[0].kind == Collective::AllToAll)
    for (size_t a = 0; a < ops.size(); ++a)
      for (size_t b = 0; b < ops.size(); ++b)
        if (ops[a].input_counts[b] != ops[b].output_counts[a])
          throw KnownFault(concat("rank ", a, " sends ", ops[a].input_counts[b],
                                  " elements to rank ", b, ", which expects ",
                                  ops[b].output_counts[a]));
  return true;
}

void exchange(const std::vector<Operation>& ops) {
  const int64_t width = element_size(ops[0].dtype());
  for (size_t to = 0; to < ops.size(); ++to) {
    char* at = bytes(ops[to].received);
    for (size_t from = 0; from < ops.size(); ++from) {
      const std::vector<int64_t>& counts = ops[from].input_counts;
      int64_t first = 0;
      for (size_t i = 0; i < to; ++i) first += counts[i];
      copy_bytes(at, bytes(ops[from].sent) + first * width, counts[to] * width);
      at += counts[to] * width;
    }
  }
}

void compute(const std::vector<Operation>& ops) {
  const Operation& op = ops[0];
  const Operation& root = ops[size_t(op.root)];
  const int64_t n = op.sent.defined() ? op.sent.numel() : 0;
  switch (op.kind) {
    case Collective::AllReduce:
    case Collective::Reduce: {
      const std::vector<char> sum = reduced(ops, 0, n);
      for (const Operation& to : ops)
        if (to.received.defined()) copy_bytes(bytes(to.received), sum.data(), int64_t(sum.size()));
      return;
    }
    case Collective::ReduceScatter: {
      const int64_t each = op.received.numel();
      for (size_t r = 0; r < ops.size(); ++r) {
        const std::vector<char> sum = reduced(ops, int64_t(r) * each, each);
        copy_bytes(bytes(ops[r].received), sum.data(), int64_t(sum.size()));
      }
      return;
    }
    case Collective::Broadcast:
      for (const Operation& to : ops)
        copy_bytes(bytes(to.received), bytes(root.sent), root.sent.nbytes());
      return;
    case Collective::AllGather:
    case Collective::Gather:
      for (const Operation& to : ops)
        for (size_t r = 0; to.received.defined() && r < ops.size(); ++r)
          copy_bytes(bytes(to.received) + int64_t(r) * op.sent.nbytes(), bytes(ops[r].sent),
                     op.sent.nbytes());
      return;
    case Collective::Scatter:
      for (size_t r = 0; r < ops.size(); ++r) {
        const int64_t each = ops[r].received.nbytes();
        copy_bytes(bytes(ops[r].received), bytes(root.sent) + int64_t(r) * each, each);
      }
      return;
    case Collective::AllToAll:
      return exchange(ops);
    default:
      return;
  }
}

}  // namespace

struct Room {
  explicit Room(int size) : size(size), first(size, 0) {}

  const int size;
  Mutex mutex{LockRank::Store};
  int64_t dropped = 0;  // meetings before those in the list
  std::deque<std::shared_ptr<Meeting>> meetings;
  std::vector<int64_t> first;  // by rank: its next meeting
  std::list<std::shared_ptr<Posted>> sends;
  std::list<std::shared_ptr<Posted>> receives;

  std::shared_ptr<Meeting> join(const Operation& op) {
    std::shared_ptr<Meeting> meeting;
    bool last = false;
    {
      const std::lock_guard lock(mutex);
      const int64_t number = first[size_t(op.rank)]++ - dropped;
      while (int64_t(meetings.size()) <= number)
        meetings.push_back(std::make_shared<Meeting>(size));
      meeting = meetings[size_t(number)];
      meeting->operations[size_t(op.rank)] = op;
      last = ++meeting->here == size;
      for (; !meetings.empty() && meetings.front()->here == size; ++dropped) meetings.pop_front();
    }
    if (last) {
      const bool same = agree(meeting->operations);
      if (same) compute(meeting->operations);
      meeting->operations.clear();
      meeting->state.store(same ? 1 : 2, std::memory_order_release);
    }
    return meeting;
  }

  static bool fit(const Operation& send, const Operation& receive) {
    return send.root == receive.rank && send.tag == receive.tag &&
           (receive.root == kAnySource || receive.root == send.rank);
  }

  static void hand_over(Posted& send, Posted& receive) {
    const Tensor &from = send.op->sent, &to = receive.op->received;
    const bool same = from.nbytes() == to.nbytes();
    if (same) copy_bytes(bytes(to), bytes(from), from.nbytes());
    receive.op->root = send.op->rank;
    send.state = receive.state = same ? 1 : 2;
  }

  std::shared_ptr<Posted> post(Operation& op) {
    auto mine = std::make_shared<Posted>(op);
    const bool sends_it = op.kind == Collective::Send;
    auto& others = sends_it ? receives : sends;
    const std::lock_guard lock(mutex);
    for (auto other = others.begin(); other != others.end(); ++other) {
      Posted& send = sends_it ? *mine : **other;
      Posted& receive = sends_it ? **other : *mine;
      if (!fit(*send.op, *receive.op)) continue;
      hand_over(send, receive);
      others.erase(other);
      return mine;
    }
    (sends_it ? sends : receives).push_back(mine);
    return mine;
  }

  void withdraw(const std::shared_ptr<Posted>& mine) {
    const std::lock_guard lock(mutex);
    sends.remove(mine);
    receives.remove(mine);
  }
};

namespace {

class InMeeting final : public Transfer {
 public:
  explicit InMeeting(std::shared_ptr<Meeting> meeting) : meeting_(std::move(meeting)) {}
  bool done() override {
    const int state = meeting_->state.load(std::memory_order_acquire);
    if (state == 2) throw BackendError("the ranks disagree");
    return state == 1;
  }

 private:
  std::shared_ptr<Meeting> meeting_;
};

class Handover final : public Transfer {
 public:
  Handover(std::shared_ptr<Room> room, Operation& op) : room_(std::move(room)) {
    mine_ = room_->post(op);
  }
  ~Handover() override { room_->withdraw(mine_); }
  bool done() override {
    const int state = mine_->state.load(std::memory_order_acquire);
    if (state == 2)
      throw KnownFault("the message and the tensor to receive into have different sizes");
    return state == 1;
  }

 private:
  std::shared_ptr<Room> room_;
  std::shared_ptr<Posted> mine_;
};

class ThreadEngine final : public Engine {
 public:
  explicit ThreadEngine(std::shared_ptr<Room> room) : room_(std::move(room)) {}
  std::unique_ptr<Transfer> start(Operation& op) override {
    if (op.is_message()) return std::make_unique<Handover>(room_, op);
    return std::make_unique<InMeeting>(room_->join(op));
  }

 private:
  std::shared_ptr<Room> room_;
};

}  // namespace

std::shared_ptr<Room> Hub::room(const std::string& name, int size) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Room>& found = rooms_[name];
  if (!found) found = std::make_shared<Room>(size);
  internal_assert(found->size == size, "a group of another size has this name");
  return found;
}

std::unique_ptr<Engine> make_engine(Hub& hub, const std::string& name, int size, int rank) {
  internal_assert(rank >= 0 && rank < size, "a rank outside of its group");
  return std::make_unique<ThreadEngine>(hub.room(name, size));
}

}  // namespace rush::distributed::threads
