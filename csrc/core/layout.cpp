#include "core/layout.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/mutex.h"
#include "core/spin_lock.h"

namespace rush {

Ref<Storage> (*g_contiguous_storage)(const Tensor& form) = nullptr;
const void* (*g_recording)(Device device) = nullptr;

namespace {

constinit std::atomic<bool> g_automatic{true};

// Guards the pointers to arranged forms.
SpinLock& lock_of(const TensorImpl* t) {
  static SpinLock locks[64];
  return locks[reinterpret_cast<uintptr_t>(t) / 64 % std::size(locks)];
}

struct Recorded {
  Mutex mutex{LockRank::Recorded};
  std::unordered_map<TensorImpl*, const void*> recording_of;
};
Recorded& recorded() {
  static auto* all = new Recorded;  // tensors may outlive static objects
  return *all;
}

Tensor over(Ref<TensorImpl> form) {
  TensorImpl* t = TensorImpl::create();
  Tensor out(Ref<TensorImpl>::adopt(t));
  t->sizes = form->sizes;
  t->strides = contiguous_strides(form->sizes);
  t->numel = form->numel;
  t->dtype = form->dtype;
  t->device = form->device;
  t->flags = TensorImpl::kContiguous | (form->flags & TensorImpl::kInference);
  if (const void* recording = g_recording && form->device.is_cuda() ? g_recording(form->device)
                                                                    : nullptr) [[unlikely]] {
    std::lock_guard lock(recorded().mutex);
    recorded().recording_of.emplace(t, recording);
    t->set(TensorImpl::kRecorded, true);
  }
  t->arranged = std::move(form);
  return out;
}

}  // namespace

bool automatic_layout() { return g_automatic.load(std::memory_order_relaxed); }
void set_automatic_layout(bool on) { g_automatic.store(on, std::memory_order_relaxed); }

Tensor arranged_form(const Tensor& t) {
  if (!is_arranged(t)) return t;
  Ref<TensorImpl> form;
  {
    std::lock_guard lock(lock_of(t.impl()));
    form = t.impl()->arranged;
  }
  return form ? Tensor(std::move(form)) : t;  // none: another thread has just materialized it
}

Tensor arrange(Tensor form) {
  if (!form.is_contiguous()) {
    form.storage()->expose();  // see Note [Watched storages]
    return over(form.ref());
  }
  form.impl()->strides = contiguous_strides(form.sizes());  // dims of size 1 had any
  return form;
}

Tensor alias_of(const Tensor& t) {
  const Tensor form = arranged_form(t);
  if (form.is_same(t)) return t.alias();
  Tensor out = over(form.ref());
  out.impl()->version = t.version_counter();
  out.impl()->set(TensorImpl::kInference, t.impl()->has(TensorImpl::kInference));
  return out;
}

bool owns_memory(const Tensor& t) {
  if (t.impl()->use_count() != 1) return false;
  const TensorImpl* p = t.impl();
  if (is_arranged(t)) {
    if (p->arranged->use_count() != 1) return false;
    p = p->arranged.get();
  }
  return p->storage->use_count() == 1 && !p->storage->read_only();
}

void materialize_recorded(const void* recording) {
  std::vector<Tensor> alive;
  {
    std::lock_guard lock(recorded().mutex);
    for (const auto& [t, made_in] : recorded().recording_of) {
      if (made_in == recording && t->try_retain()) alive.emplace_back(Ref<TensorImpl>::adopt(t));
    }
  }
  for (const Tensor& t : alive) materialize(t.impl());
}

void forget_recorded(TensorImpl* t) noexcept {
  std::lock_guard lock(recorded().mutex);
  recorded().recording_of.erase(t);
}

void materialize(TensorImpl* t) {
  const Tensor self(Ref<TensorImpl>::share(t)), form = arranged_form(self);
  if (form.is_same(self)) return;
  t->storage.install(g_contiguous_storage(form));
  Ref<TensorImpl> dropped;
  std::lock_guard lock(lock_of(t));
  std::swap(dropped, t->arranged);  // `form` keeps it until the lock is released
}

}  // namespace rush
