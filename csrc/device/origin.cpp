#include "device/origin.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "core/fork_locks.h"
#include "core/layout.h"
#include "device/runtime.h"

namespace rush::deferred {

namespace {

std::atomic<bool> g_leaves{true};

// A storage and what its number was.
struct Seen {
  const Storage* storage;
  uint64_t number;
};

struct Left final : Origin {
  std::vector<Seen> seen;  // x first, then y and the numbers of channels
  const void *x = nullptr, *y = nullptr;
  Dims sizes, strides;
  DType dtype{};
  int64_t stream = 0;
  const void* recording = nullptr;
  uint64_t epoch = 0;
};

// What hangs on the storages of a GPU. (Those of the CPU have other things there.)
struct Witness final : StorageExtra {
  uint64_t number = 0;
  std::shared_ptr<const Left> left;  // with the memory of y
};

struct Witnesses {
  Mutex mutex{LockRank::Origins};  // guards all of them
  uint64_t last = 0;               // number that was given
  uint64_t epoch = 0;              // counts the times that any memory could be written to
};
Witnesses& witnesses() { return shared_across_forks<Witnesses, LockRank::Origins>(); }

// Under the mutex.
Witness& witness_of(Storage& storage) {
  if (!storage.extra) {
    auto* made = new Witness;
    made->number = ++witnesses().last;
    storage.extra = made;
    storage.mark(Storage::kWitnessed);
  }
  return static_cast<Witness&>(*storage.extra);
}
bool is_unchanged(const Seen& seen) {
  return seen.storage->has(Storage::kWitnessed) &&
         static_cast<const Witness*>(seen.storage->extra)->number == seen.number;
}

Storage* memory_of(const Tensor& t) { return t.impl()->storage.load(); }

bool lies_as(const Left& left, const Tensor& t, const void* data) {
  return t.data() == data && t.dtype() == left.dtype && t.sizes() == left.sizes &&
         t.strides() == left.strides;
}

int64_t stream_of(const Tensor& t) {
  return device_runtime(t.device()).current_stream(t.device())->id;
}
const void* recording_of(const Tensor& t) {
  return g_recording ? g_recording(t.device()) : nullptr;
}

}  // namespace

// Writers have to say so as long as there is one.
Origin::Origin() { g_write_watchers.fetch_add(1, std::memory_order_relaxed); }
Origin::~Origin() { g_write_watchers.fetch_sub(1, std::memory_order_relaxed); }

bool leaves_origins() { return g_leaves.load(std::memory_order_relaxed); }
void set_leaves_origins(bool on) { g_leaves.store(on, std::memory_order_relaxed); }

void leave_origin(const Tensor& y, const Tensor& x, const RowStep& row,
                  const FusedStep& activation) {
  if (!leaves_origins() || !y.is_cuda()) return;
  const auto left = std::make_shared<Left>();
  left->row = row;
  std::vector<Storage*> storages{memory_of(x), memory_of(y)};
  for (Tensor& t : left->row.with) {
    if (!t.defined()) continue;
    storages.push_back(memory_of(t));
    t = make_tensor(Ref<Storage>(t.storage()), t.sizes(), t.strides(), t.offset(), t.dtype());
  }
  if (std::ranges::any_of(storages, [](const Storage* s) { return s->may_change_unseen(); }))
    return;
  left->activation = activation;
  left->x = x.data();
  left->y = y.data();
  left->sizes = y.sizes();
  left->strides = y.strides();
  left->dtype = y.dtype();
  left->stream = stream_of(y);
  left->recording = recording_of(y);
  std::shared_ptr<const Left> before;  // freed without the lock
  const std::lock_guard lock(witnesses().mutex);
  left->epoch = witnesses().epoch;
  for (Storage* s : storages) left->seen.push_back({s, witness_of(*s).number});
  before = std::exchange(witness_of(*storages[1]).left, left);
}

std::shared_ptr<const Origin> origin_of(const Tensor& y, const Tensor& x) {
  const Storage *made = memory_of(y), *from = memory_of(x);
  if (!made || !from || !made->has(Storage::kWitnessed)) return nullptr;
  const int64_t stream = stream_of(y);
  const void* recording = recording_of(y);
  std::shared_ptr<const Left> left;  // may be freed here, without the lock
  const std::lock_guard lock(witnesses().mutex);
  left = static_cast<const Witness*>(made->extra)->left;
  if (!left || left->seen[0].storage != from || left->epoch != witnesses().epoch) return nullptr;
  if (!lies_as(*left, x, left->x) || !lies_as(*left, y, left->y)) return nullptr;
  if (left->stream != stream || left->recording != recording) return nullptr;
  return std::ranges::all_of(left->seen, is_unchanged) ? left : nullptr;
}

void forget_origins(const Storage* written) {
  if (written && !written->has(Storage::kWitnessed)) return;
  std::shared_ptr<const Left> gone;  // freed without the lock
  const std::lock_guard lock(witnesses().mutex);
  if (!written) {
    ++witnesses().epoch;
    return;
  }
  auto& own = static_cast<Witness&>(*written->extra);
  own.number = ++witnesses().last;
  gone = std::move(own.left);
}

}  // namespace rush::deferred
