#include "autograd/snapshot.h"

#include <mutex>
#include <unordered_map>
#include <vector>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "core/fork_locks.h"
#include "core/layout.h"
#include "core/modes.h"
#include "core/mutex.h"

namespace rush {

struct Snapshot::State {
  Tensor tensor;
  const Storage* storage;  // that it is found by
  uint32_t version;
  bool copied = false;
};

namespace {

thread_local bool t_open = false;

// All that may still have to be copied, by the memory that they share with the program. A copy is
// made without the lock: it may free tensors, and with them other snapshots.
struct Registry {
  Mutex mutex{LockRank::Hooks};
  std::unordered_map<const Storage*, std::vector<std::weak_ptr<Snapshot::State>>> by_storage;
};
Registry& registry() { return shared_across_forks<Registry, LockRank::Hooks>(); }

void forget(const Snapshot::State& state) {
  auto& all = registry().by_storage;
  const auto found = all.find(state.storage);
  if (found == all.end()) return;
  // (the one that is forgotten is expired, or found by its address)
  const size_t gone = std::erase_if(found->second, [&](const auto& weak) {
    const auto other = weak.lock();
    return !other || other.get() == &state;
  });
  g_write_watchers.fetch_sub(int(gone), std::memory_order_relaxed);
  if (found->second.empty()) all.erase(found);
}

}  // namespace

SnapshotScope::SnapshotScope() : before_(t_open) { t_open = true; }
SnapshotScope::~SnapshotScope() { t_open = before_; }
bool SnapshotScope::is_open() { return t_open; }

Ref<PackedTensor> Snapshot::of(const Tensor& t) {
  if (t.is_meta() || t.is_batched() || is_arranged(t)) return nullptr;
  auto state = std::make_shared<State>(State{t, t.storage().get(), t.version()});
  const std::lock_guard lock(registry().mutex);
  registry().by_storage[state->storage].push_back(state);
  g_write_watchers.fetch_add(1, std::memory_order_relaxed);
  return Ref<PackedTensor>::adopt(new Snapshot(std::move(state)));
}

Snapshot::~Snapshot() {
  Tensor dies_last;
  const std::lock_guard lock(registry().mutex);
  if (!state_->copied) forget(*state_);
  dies_last = std::move(state_->tensor);
}

Tensor Snapshot::unpack() {
  const std::lock_guard lock(registry().mutex);
  return state_->tensor;
}

bool Snapshot::was_overwritten() const {
  const std::lock_guard lock(registry().mutex);
  return !state_->copied && state_->tensor.version() != state_->version;
}

Snapshot* as_snapshot(const Ref<PackedTensor>& packed) {
  return dynamic_cast<Snapshot*>(packed.get());
}

void take_snapshots(const Tensor& written) {
  if (written.is_meta()) return;
  if (const Storage* s = arranged_form(written).impl()->storage.load()) g_before_write(s);
  if (is_arranged(written)) return;
  std::vector<std::shared_ptr<Snapshot::State>> found;
  {
    const std::lock_guard lock(registry().mutex);
    const auto entry = registry().by_storage.find(written.storage().get());
    if (entry == registry().by_storage.end()) return;
    for (const auto& weak : entry->second) {
      if (auto state = weak.lock()) found.push_back(std::move(state));
    }
  }
  for (const auto& state : found) {
    Tensor old;
    {
      const std::lock_guard lock(registry().mutex);
      old = state->tensor;
    }
    // A formula of backward may write over what its own node saved, for the last time.
    if (!old.defined() || old.is_same(written) || old.version() != state->version) continue;
    const ModeGuard no_grad(kNoGrad, true);
    Tensor copy = engine_ops().clone(alias_of(old));
    if (forward_active()) carry_tangents(old, copy);
    const std::lock_guard lock(registry().mutex);
    if (!state->tensor.defined() || state->copied) continue;  // gone, or done, in the meantime
    forget(*state);
    state->copied = true;
    std::swap(state->tensor, copy);  // what it was is freed after the lock
  }
}

}  // namespace rush
