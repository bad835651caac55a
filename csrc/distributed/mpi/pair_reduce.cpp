#include "distributed/mpi/pair_reduce.h"

#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "cpu/pointwise/entries.h"

namespace rush::distributed::mpi {
namespace {

// A block is small enough for a first-level cache. There are many, since on a busy machine the other
// rank may not look at the counters for a while: what waits then is put aside.
constexpr int64_t kBlockBytes = 32 << 10, kBlocks = 32;
constexpr int64_t kTwoLines = 128;

// The window is written in full when it is made, so that there is no lack of memory later.
bool has_room(int64_t bytes) {
  struct statvfs found;
  return statvfs("/dev/shm", &found) == 0 &&
         int64_t(found.f_bavail) * int64_t(found.f_frsize) >= 4 * bytes;
}

bool has_functions() {
  const Library& l = library();
  return l.Comm_split_type && l.Comm_free && l.Win_allocate_shared && l.Win_shared_query &&
         l.Win_lock_all;
}

// What a block belongs to: ranks that do not call the same would add what does not belong together.
struct Label {
  int64_t call, bytes;
  DType dtype;
  ReduceOp reduce;
  bool operator==(const Label&) const = default;
};

// Null: MPI does it.
ElementFn combining(ReduceOp reduce, DType type) {
  const Entry* const entries = entry_tables().binary[int(type)];
  if (!entries) return nullptr;
  switch (reduce) {
    case ReduceOp::Sum:
      return entries[int(BinaryFn::Add)].fn;
    case ReduceOp::Product:
      return entries[int(BinaryFn::Mul)].fn;
    case ReduceOp::Min:
      return entries[int(BinaryFn::Minimum)].fn;
    case ReduceOp::Max:
      return entries[int(BinaryFn::Maximum)].fn;
    default:
      return nullptr;
  }
}

}  // namespace

// One rank's part of the window. Counters only grow; each is written by this rank alone.
struct PairReduce::Part {
  alignas(kTwoLines) std::atomic<int64_t> put;    // blocks of this rank
  alignas(kTwoLines) std::atomic<int64_t> taken;  // blocks of the other one
  alignas(kTwoLines) Label labels[kBlocks];
  alignas(kTwoLines) char blocks[kBlocks][kBlockBytes];
};

class PairTransfer final : public Transfer {
 public:
  PairTransfer(PairReduce& pair, Operation& op)
      : own_(*pair.own_),
        other_(*pair.other_),
        data_(static_cast<char*>(op.received.data())),
        label_{++pair.calls_, op.received.nbytes(), op.received.dtype(), op.engine_reduce},
        combine_(combining(label_.reduce, label_.dtype)),
        is_first_(pair.rank_ == 0),
        first_(pair.blocks_),
        blocks_((label_.bytes - 1) / kBlockBytes + 1) {
    pair.blocks_ += blocks_;
  }

  bool done() override {
    while (taken_ < blocks_) {
      const bool moved = put();
      if (!take() && !moved) return false;
    }
    return true;
  }

 private:
  int64_t length(int64_t number) const {
    return std::min(kBlockBytes, label_.bytes - number * kBlockBytes);
  }
  size_t place(int64_t number) const { return size_t((first_ + number) % kBlocks); }

  bool put() {
    if (put_ == blocks_) return false;
    // The other rank has taken what was in that place before.
    if (other_.taken.load(std::memory_order_acquire) + kBlocks <= first_ + put_) return false;
    own_.labels[place(put_)] = label_;
    std::memcpy(own_.blocks[place(put_)], data_ + put_ * kBlockBytes, size_t(length(put_)));
    own_.put.store(first_ + ++put_, std::memory_order_release);
    return true;
  }

  bool take() {
    if (other_.put.load(std::memory_order_acquire) <= first_ + taken_) return false;
    // What it put is gone from our tensor as soon as the two are combined.
    if (taken_ == put_) return false;
    if (other_.labels[place(taken_)] != label_)
      throw BackendError("the other rank combines another tensor, or in another way");
    char *const own = data_ + taken_ * kBlockBytes, *const other = other_.blocks[place(taken_)];
    // Rank 0's first on both: the order decides which of two NaNs is left.
    char* const ptrs[] = {own, is_first_ ? own : other, is_first_ ? other : own};
    combine_(ptrs, length(taken_) / element_size(label_.dtype), nullptr);
    own_.taken.store(first_ + ++taken_, std::memory_order_release);
    return true;
  }

  PairReduce::Part &own_, &other_;
  char* const data_;
  const Label label_;
  const ElementFn combine_;
  const bool is_first_;
  const int64_t first_, blocks_;  // counted from the making of the window on, and of this call
  int64_t put_ = 0, taken_ = 0;
};

PairReduce::PairReduce(int rank) : rank_(rank), process_(getpid()) {}

std::unique_ptr<PairReduce> PairReduce::make(Store& store, Handle communicator, int rank,
                                             Milliseconds timeout) {
  // One rank decides for both.
  if (rank == 0)
    store.set("mpi/pair", has_functions() && has_room(2 * int64_t(sizeof(Part))) ? "1" : "0");
  if (store.get("mpi/pair", timeout) != "1") return nullptr;
  std::unique_ptr<PairReduce> made(new PairReduce(rank));
  if (made->allocate(communicator)) store.add("mpi/pair/made", 1);
  store_barrier(store, "mpi/pair/tried", 2, timeout);
  return store.add("mpi/pair/made", 0) == 2 ? std::move(made) : nullptr;
}

bool PairReduce::allocate(Handle communicator) {
  const Library& l = library();
  Handle host = handle(kCommNull), window = nullptr;
  if (l.Comm_split_type(communicator, kTypeShared, rank_, handle(kInfoNull), &host) != 0)
    return false;
  l.Comm_set_errhandler(host, handle(kErrorsReturn));
  int together = 0;
  void* mine = nullptr;
  const bool made =
      l.Comm_size(host, &together) == 0 && together == 2 &&
      l.Win_allocate_shared(sizeof(Part), 1, handle(kInfoNull), host, &mine, &window) == 0;
  l.Comm_free(&host);  // the window keeps what it needs
  if (!made) return false;
  intptr_t bytes = 0;
  int unit = 0;
  void* other = nullptr;
  if (l.Win_shared_query(window, 1 - rank_, &bytes, &unit, &other) != 0 ||
      bytes < intptr_t(sizeof(Part)))
    return false;
  for (void* part : {mine, other})
    if (reinterpret_cast<uintptr_t>(part) % alignof(Part) != 0) return false;
  own_ = new (mine) Part{};
  other_ = static_cast<Part*>(other);
  return l.Win_lock_all(kModeNoCheck, window) == 0;  // for good
}

// Freeing a window waits for the other rank, which may be gone; its memory can go before, once the
// other rank has taken all. The counters stay, for that rank asks the same of them.
PairReduce::~PairReduce() {
  if (!own_ || process_ != getpid()) return;
  if (other_->taken.load(std::memory_order_acquire) < blocks_) return;
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(own_->blocks) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(own_ + 1) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_REMOVE);
}

bool PairReduce::takes(const Operation& op) const {
  return op.kind == Collective::AllReduce && op.received.nbytes() != 0 &&
         combining(op.engine_reduce, op.received.dtype());
}

std::unique_ptr<Transfer> PairReduce::start(Operation& op) {
  return std::make_unique<PairTransfer>(*this, op);
}

}  // namespace rush::distributed::mpi
