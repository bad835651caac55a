#include "cpu/nn/weight_layouts.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "core/fork_locks.h"
#include "core/mutex.h"

namespace rush {

namespace {

constinit std::atomic<bool> g_keeps{true};
constinit std::atomic<int64_t> g_copies{0}, g_bytes{0}, g_hits{0}, g_fills{0};

struct Copy {
  WeightLayout layout;
  uint32_t writes;  // of the storage, when this was made
  int64_t offset;
  Dims strides;       // of the weight; the layout knows the sizes
  Ref<Storage> data;  // none: the layout was asked for once

  bool is_of(const Tensor& weight, const WeightLayout& in) const {
    return layout == in && offset == weight.offset() && strides == weight.strides();
  }
};

void count(const Copy& c, int64_t by) {
  if (!c.data) return;
  g_copies.fetch_add(by, std::memory_order_relaxed);
  g_bytes.fetch_add(by * int64_t(c.data->nbytes()), std::memory_order_relaxed);
}

struct Copies final : StorageExtra {
  std::vector<Copy> all;  // the oldest first
  ~Copies() override {
    for (const Copy& c : all) count(c, -1);
  }

  // The copies that go are moved to `gone`, to be freed without the lock.
  template <class Pred>
  void drop(Pred&& pred, std::vector<Copy>& gone) {
    const auto end =
        std::stable_partition(all.begin(), all.end(), [&](const Copy& c) { return !pred(c); });
    for (auto c = end; c != all.end(); ++c) {
      count(*c, -1);
      gone.push_back(std::move(*c));
    }
    all.erase(end, all.end());
  }

  size_t bytes() const {
    size_t sum = 0;
    for (const Copy& c : all) sum += c.data ? c.data->nbytes() : 0;
    return sum;
  }
};

// Guards the extras of all storages.
Mutex& mutex() {
  static constinit Mutex m{LockRank::WeightLayouts};
  // Held across a fork: the child takes over the copies, and a lock that nobody holds.
  static constexpr auto unlock = [] { m.unlock(); };
  static const ForkLock lock{LockRank::WeightLayouts, [] { m.lock(); }, unlock, unlock};
  [[maybe_unused]] static const bool registered = (hold_across_forks(lock), true);
  return m;
}

constexpr size_t kMostCopies = 64;

void keep(const Tensor& weight, Copy copy) {
  std::vector<Copy> gone;
  const std::lock_guard lock(mutex());
  Storage& storage = *weight.storage();
  if (!storage.extra) storage.extra = new Copies;
  auto& copies = static_cast<Copies&>(*storage.extra);
  copies.drop([&](const Copy& c) { return c.is_of(weight, copy.layout); }, gone);
  const size_t room = 2 * storage.nbytes(), own = copy.data ? copy.data->nbytes() : 0;
  while (!copies.all.empty() && (copies.bytes() + own > room || copies.all.size() >= kMostCopies)) {
    const Copy* first = copies.all.data();
    copies.drop([&](const Copy& c) { return &c == first; }, gone);
  }
  count(copy, 1);
  copies.all.push_back(std::move(copy));
}

// Of a storage that is not to have any: it was exposed, or the setting is off.
void forget(const Storage& storage) {
  std::vector<Copy> gone;
  const std::lock_guard lock(mutex());
  if (storage.extra)
    static_cast<Copies&>(*storage.extra).drop([](const Copy&) { return true; }, gone);
}

struct Found {
  Ref<Storage> data;
  bool seen = false;
};
Found find(const Tensor& weight, const WeightLayout& layout, uint32_t writes) {
  Found out;
  std::vector<Copy> gone;
  const std::lock_guard lock(mutex());
  auto* copies = static_cast<Copies*>(weight.storage()->extra);
  if (!copies) return out;
  copies->drop([&](const Copy& c) { return c.writes != writes; }, gone);
  for (const Copy& c : copies->all) {
    if (c.is_of(weight, layout)) out = {c.data, true};
  }
  return out;
}

}  // namespace

bool keeps_weight_layouts() { return g_keeps.load(std::memory_order_relaxed); }
void set_keeps_weight_layouts(bool on) { g_keeps.store(on, std::memory_order_relaxed); }

WeightLayoutStats weight_layout_stats() {
  return {g_copies.load(), g_bytes.load(), g_hits.load(), g_fills.load()};
}

Ref<Storage> weight_in_layout(const Tensor& weight, const WeightLayout& layout, size_t nbytes,
                              bool at_once, void (*fill)(void* memory, const void* context),
                              const void* context) {
  const bool kept = !layout.empty() && keeps_weight_layouts() && weight.storage()->can_be_watched();
  uint32_t writes = 0;
  bool again = at_once;
  if (kept) {
    writes = weight.storage()->watch();
    const Found found = find(weight, layout, writes);
    if (found.data) {
      g_hits.fetch_add(1, std::memory_order_relaxed);
      return found.data;
    }
    again = again || found.seen;
  } else {
    forget(*weight.storage());
  }
  Ref<Storage> copy = Storage::allocate({}, std::max<size_t>(nbytes, 1));
  fill(copy->data(), context);
  g_fills.fetch_add(1, std::memory_order_relaxed);
  if (kept)
    keep(weight, {layout, writes, weight.offset(), weight.strides(), again ? copy : nullptr});
  return copy;
}

}  // namespace rush
