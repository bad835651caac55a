#include "ops/optim/uses.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "core/error.h"
#include "core/misaligned.h"
#include "core/shape.h"

namespace rush {
namespace {

// Notices tensors that share a storage, at the cost of one hash per tensor.
class StorageSet {
 public:
  explicit StorageSet(size_t most) {
    size_t size = 16;
    while (size < 2 * most) size *= 2;
    slots_.assign(size, nullptr);
  }
  // False when it was there before.
  bool add(const Tensor& t) {
    if (t.numel() == 0) return true;
    const Storage* key = t.storage().get();
    size_t at = (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9e3779b97f4a7c15u >> 20;
    for (;; ++at) {
      const Storage*& slot = slots_[at & (slots_.size() - 1)];
      if (slot == key) return false;
      if (!slot) {
        slot = key;
        return true;
      }
    }
  }
  bool has(const Tensor& t) const {
    const Storage* key = t.storage().get();
    size_t at = (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9e3779b97f4a7c15u >> 20;
    for (;; ++at) {
      const Storage* slot = slots_[at & (slots_.size() - 1)];
      if (!slot || slot == key) return slot != nullptr;
    }
  }

 private:
  std::vector<const Storage*> slots_;
};

struct Use {
  const Tensor* tensor;
  bool written;
  const char *begin, *end;  // the bytes from the first to the last element
};

Use use_of(const Tensor& t, bool written) {
  int64_t low = 0, high = 0;
  for (int64_t d = 0; d < t.dim(); ++d) {
    const int64_t reach = (t.sizes()[size_t(d)] - 1) * t.strides()[size_t(d)];
    (reach < 0 ? low : high) += reach;
  }
  const char* data = t.data<char>();
  return {&t, written, data + low * t.element_size(), data + (high + 1) * t.element_size()};
}

// All that have elements, by where they begin.
class Uses {
 public:
  void add(TensorList list, bool written) {
    for (const Tensor& t : list)
      if (t.numel() != 0) all_.push_back(use_of(t, written));
  }
  // f(a, b) for all pairs whose stretches meet where one of them is written.
  template <class F>
  void for_each_clash(F&& f) {
    std::sort(all_.begin(), all_.end(),
              [](const Use& a, const Use& b) { return std::less<>()(a.begin, b.begin); });
    for (size_t i = 0; i < all_.size(); ++i) {
      for (size_t k = i + 1; k < all_.size() && all_[k].begin < all_[i].end; ++k)
        if (all_[i].written || all_[k].written) f(all_[i], all_[k]);
    }
  }

 private:
  std::vector<Use> all_;
};

// Is a storage that is written used twice? Then it must be seen whether memory is.
bool storages_meet(std::initializer_list<TensorList> written, TensorList read) {
  size_t count = 0;
  for (const TensorList& list : written) count += list.size();
  StorageSet storages(count);
  bool shared = false;
  for (const TensorList& list : written)
    for (const Tensor& t : list) shared |= !storages.add(t);
  for (const Tensor& t : read) shared = shared || (t.numel() != 0 && storages.has(t));
  return shared;
}

}  // namespace

bool is_flat(const Tensor& t) {
  return (t.is_contiguous() || is_dense(t.sizes(), t.strides())) && !is_misaligned(t);
}

bool check_uses(const char* op, TensorList params, TensorList grads, TensorList states) {
  if (!storages_meet({params, states}, grads)) return false;
  Uses uses;
  uses.add(params, true);
  uses.add(states, true);
  uses.add(grads, false);
  bool repeated = false;
  uses.for_each_clash([&](const Use& a, const Use& b) {
    if (a.written && b.written && a.tensor->is_same(*b.tensor)) {
      repeated = true;
      return;
    }
    rush::check(overlap(*a.tensor, *b.tensor) == Overlap::No, ErrorKind::Runtime, op,
                "two of the parameters, gradients and states (shapes ", a.tensor->sizes(), " and ",
                b.tensor->sizes(),
                ") share memory, so that a step of one would change the other; clone() one, or "
                "give only one of them to the optimiser");
  });
  return repeated;
}

bool share_memory(TensorList written, TensorList read) {
  if (!storages_meet({written}, read)) return false;
  Uses uses;
  uses.add(written, true);
  uses.add(read, false);
  bool clash = false;
  uses.for_each_clash([&](const Use&, const Use&) { clash = true; });
  return clash;
}

}  // namespace rush
