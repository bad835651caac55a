#include "distributed/mpi/pair_reduce.h"

#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/threads.h"
#include "cpu/pointwise/entries.h"

namespace rush::distributed::mpi {
namespace {

// A block is small enough for a first-level cache, and few are used while both ranks are at it.
// There are more, since on a busy machine the other one may not look at the counters for a while.
constexpr int64_t kBlockBytes = 32 << 10, kBlocks = 32, kAhead = 4, kBlocksPerThread = 4;
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
  // Of the block with a number, at that number's remainder: the label and the place.
  alignas(kTwoLines) Label labels[kBlocks];
  int places[kBlocks];
  alignas(kTwoLines) char blocks[kBlocks][kBlockBytes];
};

class PairTransfer final : public Transfer {
 public:
  PairTransfer(PairReduce& pair, Operation& op)
      : pair_(pair),
        own_(*pair.own_),
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
      const bool took = take();
      if (!put(took ? kAhead : kBlocks) && !took) return false;
    }
    return true;
  }

 private:
  int64_t length(int64_t number) const {
    return std::min(kBlockBytes, label_.bytes - number * kBlockBytes);
  }
  size_t row(int64_t number) const { return size_t((first_ + number) % kBlocks); }

  // How many blocks at once: one, so that the other rank can go on with it, unless threads share
  // them. They are the caller's, who waits; the group's own thread has none (OneThread).
  static int64_t share(int64_t ready) {
    const int threads = in_parallel_region() ? 1 : num_threads();
    return threads == 1 ? 1 : std::min<int64_t>(ready, kBlocksPerThread * threads);
  }

  // So that no more than `most` lie there.
  bool put(int64_t most) {
    pair_.reclaim();
    const int64_t free = int64_t(pair_.free_.size()) - (kBlocks - most);
    const int64_t ready = std::min(free, blocks_ - put_);
    if (ready <= 0) return false;
    const int64_t count = share(ready);
    for (int64_t number = put_; number < put_ + count; ++number) {
      own_.labels[row(number)] = label_;
      own_.places[row(number)] = pair_.free_.back();
      pair_.free_.pop_back();
    }
    parallel_for_whole(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t number = put_ + begin; number < put_ + end; ++number)
        std::memcpy(own_.blocks[own_.places[row(number)]], data_ + number * kBlockBytes,
                    size_t(length(number)));
    });
    put_ += count;
    own_.put.store(first_ + put_, std::memory_order_release);
    return true;
  }

  bool take() {
    // What was not put yet would be gone from our tensor as soon as the two are combined.
    const int64_t there = other_.put.load(std::memory_order_acquire) - first_;
    const int64_t ready = std::min(there, put_) - taken_;
    if (ready <= 0) return false;
    const int64_t count = share(ready);
    for (int64_t number = taken_; number < taken_ + count; ++number)
      if (other_.labels[row(number)] != label_)
        throw BackendError("the other rank combines another tensor, or in another way");
    parallel_for_whole(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t number = taken_ + begin; number < taken_ + end; ++number) combine(number);
    });
    taken_ += count;
    own_.taken.store(first_ + taken_, std::memory_order_release);
    return true;
  }

  void combine(int64_t number) const {
    char* const own = data_ + number * kBlockBytes;
    char* const other = other_.blocks[other_.places[row(number)]];
    // Rank 0's first on both: the order decides which of two NaNs is left.
    char* const ptrs[] = {own, is_first_ ? own : other, is_first_ ? other : own};
    combine_(ptrs, length(number) / element_size(label_.dtype), nullptr);
  }

  PairReduce& pair_;
  PairReduce::Part &own_, &other_;
  char* const data_;
  const Label label_;
  const ElementFn combine_;
  const bool is_first_;
  const int64_t first_, blocks_;  // counted from the making of the window on, and of this call
  int64_t put_ = 0, taken_ = 0;
};

PairReduce::PairReduce(int rank) : rank_(rank), process_(getpid()) {
  for (int place = 0; place < kBlocks; ++place) free_.push_back(place);
}

// Places that the other rank has taken from. The last of them is used first: it is in a cache.
void PairReduce::reclaim() {
  const int64_t taken = other_->taken.load(std::memory_order_acquire);
  for (; reclaimed_ < taken; ++reclaimed_)
    free_.push_back(own_->places[size_t(reclaimed_ % kBlocks)]);
}

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
