#include "distributed/nccl/communicator.h"

#include <condition_variable>
#include <cstring>
#include <thread>

#include "core/mutex.h"
#include "cuda/runtime/device.h"

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

  void connect(Store& store, const std::string& key, int rank, int size, int device,
               Milliseconds timeout) {
    Comm made = nullptr;
    std::string failed;
    try {
      UniqueId id{};
      if (!find_id(store, key, rank, timeout, id)) return;
      cuda::bind(device);
      check_nccl(library().CommInitRank(&made, size, id, rank), "ncclCommInitRank");
    } catch (const std::exception& e) {
      failed = e.what();
    }
    const std::lock_guard lock(mutex);
    if (dropped) {
      if (made && failed.empty()) library().CommAbort(made);
      return;
    }
    comm = made;
    error = failed;
    connected = failed.empty();
    changed.notify_all();
  }
};

Communicator::Communicator(std::shared_ptr<Store> store, std::string key, int rank, int size,
                           int device, Milliseconds timeout)
    : device(device),
      stream(cuda::stream_from_set(device, kHighPriority)),
      state_(std::make_shared<State>()) {
  std::thread([=, state = state_] {
    state->connect(*store, key, rank, size, device, timeout);
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
  Comm comm = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->dropped && state_->connected) comm = state_->comm;
    state_->dropped = true;
    state_->changed.notify_all();
  }
  if (!comm) return;
  cuda::bind(device);
  library().CommAbort(comm);
}

void Communicator::destroy() noexcept {
  Comm comm = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->dropped && state_->connected) comm = state_->comm;
    state_->dropped = true;
    state_->changed.notify_all();
  }
  if (!comm) return;
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
