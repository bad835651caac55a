#include "distributed/nccl/communicator.h"

#include <condition_variable>
#include <cstring>
#include <thread>

#include "core/mutex.h"
#include "cuda/runtime/device.h"
#include "ops/ops.h"

namespace rush::distributed::nccl {
namespace {

constexpr int kHighPriority = -1;  // small kernels that others wait for
constexpr auto kDestroyTime = std::chrono::seconds(5);

}  // namespace

struct Communicator::State {
  Mutex mutex{LockRank::Work};
  std::condition_variable_any changed;
  Comm comm = nullptr;
  bool connected = false, dropped = false;
  std::string error;

  // The first of the ranks makes the id; the others wait for it, and look up now and then.
  bool find_id(Store& store, const std::string& key, int rank, Milliseconds timeout, UniqueId& id) {
    if (rank == 0) {
      check_nccl(library().GetUniqueId(&id), "ncclGetUniqueId");
      store.set(key, std::string(id.bytes, sizeof id.bytes));
      return true;
    }
    const auto deadline = Clock::now() + timeout;
    while (!store.check({key})) {
      {
        std::unique_lock lock(mutex);
        if (changed.wait_for(lock, std::chrono::milliseconds(5), [&] { return dropped; }))
          return false;
      }
      if (Clock::now() > deadline) throw BackendError("the other ranks did not come");
    }
    const std::string bytes = store.get(key, std::chrono::seconds(30));
    if (bytes.size() != sizeof id.bytes) throw BackendError("the store has no id of NCCL's");
    std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
    return true;
  }

  bool is_connected() {
    const std::lock_guard lock(mutex);
    return connected;
  }

  bool is_dropped() {
    const std::lock_guard lock(mutex);
    return dropped;
  }

  // A message of one byte. The first one between two ranks keeps the host in ncclSend and ncclRecv
  // until the other rank has called, too: with this behind them, two ranks may both send first.
  void greet(int rank, int device, cuda::Stream* stream) {
    const Library& l = library();
    const int64_t one[] = {1};
    const Tensor byte =
        empty(one, DType::Int8, std::nullopt, Device{DeviceType::CUDA, int8_t(device)});
    cuda::Event ready, end;
    ready.record(cuda::current_stream(device));
    ready.make_wait(stream);
    check_nccl(rank == 0 ? l.Send(byte.data(), 1, kInt8, 1, comm, stream->handle())
                         : l.Recv(byte.data(), 1, kInt8, 0, comm, stream->handle()),
               "the first message", comm);
    end.record(stream);
    while (!end.done() && !is_dropped()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  // False when it was dropped meanwhile.
  bool join(Store& store, const Place& at) {
    UniqueId id{};
    Comm made = nullptr;
    if (!find_id(store, at.key, at.rank, at.timeout, id)) return false;
    cuda::bind(at.device);
    check_nccl(library().CommInitRank(&made, at.size, id, at.rank), "ncclCommInitRank");
    const std::lock_guard lock(mutex);
    if (dropped) {
      library().CommAbort(made);
      return false;
    }
    comm = made;
    return true;
  }

  void connect(Store& store, const Place& at, cuda::Stream* stream) {
    std::string failed;
    try {
      if (at.after)
        while (!at.after->is_connected()) {
          if (is_dropped()) return;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      if (!join(store, at)) return;
      if (at.for_messages) greet(at.rank, at.device, stream);
    } catch (const std::exception& e) {
      failed = e.what();
    }
    const std::lock_guard lock(mutex);
    if (dropped) return;
    error = failed;
    connected = failed.empty();
    changed.notify_all();
  }

  // What there is to end, once.
  Comm drop() {
    const std::lock_guard lock(mutex);
    const Comm left = dropped ? nullptr : comm;
    dropped = true;
    changed.notify_all();
    return left;
  }
};

Communicator::Communicator(std::shared_ptr<Store> store, Place at)
    : device(at.device),
      stream(cuda::stream_from_set(at.device, kHighPriority)),
      state_(std::make_shared<State>()) {
  std::thread([store = std::move(store), at = std::move(at), state = state_, stream = stream] {
    state->connect(*store, at, stream);
  }).detach();
}

Communicator::~Communicator() { abort(); }

bool Communicator::is_connected() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->error.empty()) throw BackendError(state_->error);
  if (state_->dropped) throw BackendError("the communicator was given up");
  return state_->connected;
}

Comm Communicator::handle() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->dropped || !state_->connected) throw BackendError("the communicator was given up");
  return state_->comm;
}

void Communicator::check_error() const {
  Result error = kOk;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->dropped || !state_->connected) return;
    check_nccl(library().CommGetAsyncError(state_->comm, &error), "ncclCommGetAsyncError");
  }
  check_nccl(error, "a collective on the GPU");
}

void Communicator::abort() noexcept {
  const Comm comm = state_->drop();
  if (!comm) return;
  cuda::bind(device);
  library().CommAbort(comm);
}

void Communicator::destroy() noexcept {
  const bool in_order = state_->is_connected();
  const Comm comm = state_->drop();
  if (!comm) return;
  if (!in_order) {  // its first message is still under way
    cuda::bind(device);
    library().CommAbort(comm);
    return;
  }
  // It waits for the others, who may be gone.
  struct Ended {
    Mutex mutex{LockRank::Work};
    std::condition_variable_any changed;
    bool yes = false;
  };
  const auto ended = std::make_shared<Ended>();
  std::thread([comm, ended, device = device] {
    cuda::bind(device);
    library().CommFinalize(comm);
    library().CommDestroy(comm);
    const std::lock_guard lock(ended->mutex);
    ended->yes = true;
    ended->changed.notify_all();
  }).detach();
  std::unique_lock lock(ended->mutex);
  ended->changed.wait_for(lock, kDestroyTime, [&] { return ended->yes; });
}

}  // namespace rush::distributed::nccl
