#include "distributed/mpi/shared_sum.h"

#include <sys/statvfs.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace rush::distributed::mpi {
namespace {

// Two ranks exchange halves, which MPI does with fewer copies; and a small tensor is there before
// two barriers are.
constexpr int kFewestRanks = 3;
constexpr int64_t kLeastBytes = 64 << 10;
// The pieces of all ranks together: they should stay in a cache. Slices begin at whole vectors.
constexpr int64_t kPiecesBytes = 8 << 20, kVector = 64, kPage = 4096;

int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Written in full when the window is made, so that there is no lack of memory later.
bool has_room(int64_t bytes) {
  struct statvfs found;
  return statvfs("/dev/shm", &found) == 0 &&
         int64_t(found.f_bavail) * int64_t(found.f_frsize) >= 4 * bytes;
}

bool is_wanted() {
  const char* text = std::getenv("RUSHLIGHT_SHARED_SUMS");
  return text && std::strcmp(text, "1") == 0;
}

bool has_functions() {
  const Library& l = library();
  return l.Comm_split_type && l.Win_allocate_shared && l.Win_shared_query && l.Win_lock_all &&
         l.Win_sync;
}

// In the order of ranks, whoever adds: all ranks get the same bits.
template <class T>
void add_all(T* out, const std::vector<const T*>& from, int64_t n) {
  typedef T Vector __attribute__((vector_size(kVector)));
  constexpr int64_t kLanes = kVector / sizeof(T);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vector sum, one;
    std::memcpy(&sum, from[0] + i, kVector);
    for (size_t r = 1; r < from.size(); ++r) {
      std::memcpy(&one, from[r] + i, kVector);
      sum += one;
    }
    std::memcpy(out + i, &sum, kVector);
  }
  for (; i < n; ++i) {
    T sum = from[0][i];
    for (size_t r = 1; r < from.size(); ++r) sum += from[r][i];
    out[i] = sum;
  }
}

}  // namespace

// Piece after piece, each behind a barrier: takes what was added of the last one, adds its slice of
// this one, and puts the next one in.
class SharedTransfer final : public Transfer {
 public:
  SharedTransfer(const SharedSum& shared, Operation& op)
      : shared_(shared),
        data_(static_cast<std::byte*>(op.received.data())),
        bytes_(op.received.nbytes()),
        pieces_((bytes_ - 1) / shared.piece_bytes_ + 1),
        is_double_(op.received.dtype() == DType::Float64) {
    put(0);
    begin_barrier();
  }

  bool done() override {
    if (done_) return true;
    const Library& l = library();
    int flag = 0;
    Status status{};
    check_mpi(l.Test(&barrier_, &flag, &status), "MPI_Test");
    if (!flag) return false;
    check_mpi(l.Win_sync(shared_.window_), "MPI_Win_sync");
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (next_ > 0) take(next_ - 1);
    done_ = next_ == pieces_;
    if (done_) return true;
    add(next_);
    if (++next_ < pieces_) put(next_);
    begin_barrier();
    return false;
  }

 private:
  void begin_barrier() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const Library& l = library();
    check_mpi(l.Win_sync(shared_.window_), "MPI_Win_sync");
    check_mpi(l.Ibarrier(shared_.communicator_, &barrier_), "MPI_Ibarrier");
  }

  int64_t length(int64_t number) const {
    return std::min(shared_.piece_bytes_, bytes_ - number * shared_.piece_bytes_);
  }
  std::byte* place(int64_t number) const { return data_ + number * shared_.piece_bytes_; }

  // Where the rank's slice of a piece begins and ends.
  std::pair<int64_t, int64_t> slice(int64_t number, int rank) const {
    const int64_t all = length(number);
    const int64_t each = rounded_up((all - 1) / shared_.size_ + 1, kVector);
    return {std::min(all, rank * each), std::min(all, (rank + 1) * each)};
  }

  void put(int64_t number) {
    std::memcpy(shared_.piece(shared_.rank_, number), place(number), size_t(length(number)));
  }

  void add(int64_t number) {
    if (is_double_)
      add_as<double>(number);
    else
      add_as<float>(number);
  }

  template <class T>
  void add_as(int64_t number) {
    const auto [begin, end] = slice(number, shared_.rank_);
    std::vector<const T*> from;
    for (int r = 0; r < shared_.size_; ++r)
      from.push_back(reinterpret_cast<const T*>(shared_.piece(r, number) + begin));
    add_all(reinterpret_cast<T*>(shared_.slice(shared_.rank_, number)), from,
            (end - begin) / int64_t(sizeof(T)));
  }

  void take(int64_t number) {
    for (int i = 0; i < shared_.size_; ++i) {  // each begins at another one
      const int r = (shared_.rank_ + i) % shared_.size_;
      const auto [begin, end] = slice(number, r);
      std::memcpy(place(number) + begin, shared_.slice(r, number), size_t(end - begin));
    }
  }

  const SharedSum& shared_;
  std::byte* const data_;
  const int64_t bytes_, pieces_;
  const bool is_double_;
  int64_t next_ = 0;  // the piece that the barrier is for
  bool done_ = false;
  Handle barrier_ = handle(kRequestNull);
};

SharedSum::SharedSum(Handle communicator, int rank, int size)
    : communicator_(communicator),
      rank_(rank),
      size_(size),
      piece_bytes_(rounded_up(kPiecesBytes / size, kPage)),
      slice_bytes_(rounded_up((piece_bytes_ - 1) / size + 1, kVector)) {}

std::unique_ptr<SharedSum> SharedSum::make(Store& store, Handle communicator, int rank, int size,
                                           Milliseconds timeout) {
  if (size < kFewestRanks) return nullptr;
  // One rank decides for all.
  if (rank == 0)
    store.set("mpi/shared",
              is_wanted() && has_functions() && has_room(2 * kPiecesBytes) ? "1" : "0");
  if (store.get("mpi/shared", timeout) != "1") return nullptr;
  std::unique_ptr<SharedSum> made(new SharedSum(communicator, rank, size));
  if (made->allocate()) store.add("mpi/shared/made", 1);
  store_barrier(store, "mpi/shared/tried", size, timeout);
  return store.add("mpi/shared/made", 0) == size ? std::move(made) : nullptr;
}

bool SharedSum::allocate() {
  const Library& l = library();
  Handle host = handle(kCommNull);
  if (l.Comm_split_type(communicator_, kTypeShared, rank_, handle(kInfoNull), &host) != 0)
    return false;
  int together = 0;
  l.Comm_set_errhandler(host, handle(kErrorsReturn));
  if (l.Comm_size(host, &together) != 0 || together != size_) return false;
  const int64_t own = rounded_up(2 * (piece_bytes_ + slice_bytes_), kPage);
  void* mine = nullptr;
  if (l.Win_allocate_shared(own, 1, handle(kInfoNull), host, &mine, &window_) != 0) return false;
  for (int r = 0; r < size_; ++r) {
    intptr_t bytes = 0;
    int unit = 0;
    void* part = nullptr;
    if (l.Win_shared_query(window_, r, &bytes, &unit, &part) != 0 || bytes < own) return false;
    parts_.push_back(static_cast<std::byte*>(part));
  }
  std::memset(mine, 0, size_t(own));
  return l.Win_lock_all(kModeNoCheck, window_) == 0;  // for good
}

std::byte* SharedSum::piece(int rank, int64_t number) const {
  return parts_[size_t(rank)] + number % 2 * piece_bytes_;
}

std::byte* SharedSum::slice(int rank, int64_t number) const {
  return parts_[size_t(rank)] + 2 * piece_bytes_ + number % 2 * slice_bytes_;
}

bool SharedSum::takes(const Operation& op) const {
  const bool sums = op.kind == Collective::AllReduce && op.engine_reduce == ReduceOp::Sum;
  if (!sums || op.received.nbytes() < kLeastBytes) return false;
  return op.received.dtype() == DType::Float32 || op.received.dtype() == DType::Float64;
}

std::unique_ptr<Transfer> SharedSum::start(Operation& op) {
  return std::make_unique<SharedTransfer>(*this, op);
}

}  // namespace rush::distributed::mpi
