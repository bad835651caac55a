#include "core/layout.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/memoryless.h"
#include "core/modes.h"
#include "core/mutex.h"
#include "core/spin_lock.h"

namespace rush {

Ref<Storage> (*g_contiguous_storage)(const Tensor& form) = nullptr;
void (*g_compute_pending)(TensorImpl* form) = nullptr;
void (*g_flush_pending)(const char* why) = nullptr;
uint32_t (*g_references_to_pending)(const TensorImpl* form) = nullptr;
const void* (*g_recording)(Device device) = nullptr;
constinit std::atomic<int> g_write_watchers{0};
void (*g_before_write)(const Storage* storage) = nullptr;

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

// `strides`: as the program sees it; empty for contiguous ones.
Tensor over(Ref<TensorImpl> form, const Dims& strides = {}) {
  TensorImpl* t = TensorImpl::create();
  Tensor out(Ref<TensorImpl>::adopt(t));
  t->sizes = form->sizes;
  t->strides = strides.empty() ? contiguous_strides(form->sizes) : strides;
  t->numel = form->numel;
  t->dtype = form->dtype;
  t->device = form->device;
  t->flags = form->flags & TensorImpl::kInference;
  t->set(TensorImpl::kContiguous, strides.empty() || is_contiguous(t->sizes, strides));
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

bool is_laid_out_otherwise(const Tensor& t) {
  return is_arranged(t) && arranged_form(t).strides() != t.strides();
}

Tensor make_pending(IntList sizes, const Dims& strides, DType dtype, Device device) {
  TensorImpl* t = TensorImpl::create();
  Tensor form(Ref<TensorImpl>::adopt(t));
  t->sizes = Dims(sizes);
  t->strides = strides.empty() ? contiguous_strides(t->sizes) : strides;
  t->numel = numel(sizes);
  t->dtype = dtype;
  t->device = device;
  t->set(TensorImpl::kInference, t_modes & kInferenceMode);
  return form;
}

Tensor over_pending(const Tensor& form, const Dims& strides) { return over(form.ref(), strides); }

void exchange_form(const Tensor& t, const Tensor& form) {
  Ref<TensorImpl> fresh = form.ref();  // takes the old one out of the lock
  std::lock_guard lock(lock_of(t.impl()));
  std::swap(fresh, t.impl()->arranged);
}

void give_storage(TensorImpl* t) {
  if (t->storage.load()) return;
  t->storage.install(
      Storage::allocate(t->device, size_t(t->numel * element_size(t->dtype))));  // it is dense
  t->set(TensorImpl::kContiguous, is_contiguous(t->sizes, t->strides));
}

Tensor arrange(Tensor form) {
  if (!form.is_contiguous()) {
    form.storage()->hide();  // see Note [Watched storages]
    return over(form.ref());
  }
  form.impl()->strides = contiguous_strides(form.sizes());  // dims of size 1 had any
  return form;
}

Tensor alias_of(const Tensor& t) {
  if (is_memoryless(t)) [[unlikely]]
    return t;
  const Tensor form = arranged_form(t);
  if (form.is_same(t)) return t.alias();
  Tensor out = over(form.ref(), t.strides());
  out.impl()->version = t.version_counter();
  out.impl()->set(TensorImpl::kInference, t.impl()->has(TensorImpl::kInference));
  return out;
}

bool owns_memory(const Tensor& t) {
  if (t.impl()->use_count() != 1 || is_memoryless(t)) return false;
  const TensorImpl* p = t.impl();
  if (is_arranged(t)) {
    const TensorImpl* form = p->arranged.get();
    const bool waits = !form->storage.load();
    if (form->use_count() != 1 + (waits ? g_references_to_pending(form) : 0)) return false;
    if (waits) return true;
    p = form;
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
  check(!t->has(kMemoryless), ErrorKind::NotImplemented, "",
        "a sparse or nested tensor has no memory that a dense operation could read; to_dense() or "
        "to_padded_tensor() gives one that has");
  const Tensor self(Ref<TensorImpl>::share(t)), form = arranged_form(self);
  if (!form.impl()->storage.load()) g_compute_pending(form.impl());
  if (form.is_same(self)) return;
  t->storage.install(form.strides() == self.strides() ? Ref<Storage>(form.impl()->storage)
                                                      : g_contiguous_storage(form));
  Ref<TensorImpl> dropped;
  std::lock_guard lock(lock_of(t));
  std::swap(dropped, t->arranged);  // `form` keeps it until the lock is released
}

}  // namespace rush
