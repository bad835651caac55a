// snapshot.h: saved tensors that the program may overwrite before backward. Nothing is copied when
// they are saved: the first write to their memory finds them here and copies their values before it
// begins. So a block saves what costs least, and programs write where PyTorch lets them, which
// saves something else (relu6 its input, cross_entropy the log-probabilities).
#pragma once

#include <memory>

#include "autograd/saved_hooks.h"
#include "core/layout.h"

namespace rush {

// What this thread saves while one lives is such a tensor.
class RUSH_API SnapshotScope {
 public:
  SnapshotScope();
  ~SnapshotScope();
  SnapshotScope(const SnapshotScope&) = delete;
  SnapshotScope& operator=(const SnapshotScope&) = delete;
  static bool is_open();

 private:
  bool before_;
};

// One saved tensor, in place of the bytes in SavedTensor.
class Snapshot final : public PackedTensor {
 public:
  // Null where the memory cannot be found again by its storage: the tensor is then saved plainly.
  static Ref<PackedTensor> of(const Tensor& t);
  ~Snapshot() override;
  Tensor unpack() override;
  bool is_users() const override { return false; }
  bool was_overwritten() const;  // by somebody who did not ask before_write()

  struct State;

 private:
  explicit Snapshot(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};
// The snapshot behind what a SavedTensor holds, or null.
RUSH_API Snapshot* as_snapshot(const Ref<PackedTensor>& packed);

void take_snapshots(const Tensor& written);
// Whoever is about to write to t says so.
inline void before_write(const Tensor& t) {
  if (g_write_watchers.load(std::memory_order_relaxed)) [[unlikely]]
    take_snapshots(t);
}

}  // namespace rush
