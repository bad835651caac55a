// layout.h: tensors whose memory lies as the library likes it.
//
// Note [Layout is ours]
// Convolutions, and what surrounds them, are fast with the channels last in memory; programs expect
// results to be contiguous. So a fresh result may be *arranged*: it has no storage of its own yet,
// and its values lie in `TensorImpl::arranged`, a plain tensor with another order of dims that no
// program can reach. Its sizes, strides and flags are those of a contiguous tensor, and so is
// everything that can be asked of it.
//
// - Ops that say `any_layout` (ops/framework/op.h) read, write and return arranged forms, so
//   the layout flows from one convolution to the next and back again.
// - Whoever else asks for the memory (Tensor::storage(), Tensor::data()) materializes the tensor:
//   fresh contiguous storage gets the values, and the arranged form is let go. This happens before any
//   alias or address escapes, so a tensor with an arranged form never has an alias: views,
//   detach(), NumPy, DLPack, pickling need not know.
// - Tensors saved for backward are aliases: tensors of their own over the same arranged form and
//   version counter. They keep the form when the tensor is materialized; writes to either are seen
//   by the counter that both share.
// - Threads: storage is installed once, by an atomic exchange, when it holds all values. The
//   pointer to the arranged form is copied and dropped under a lock, and the form never changes
//   after it was filled except by in-place ops. So any number of threads may read one tensor.
//
// Note [Pending results]
// Inside a compiled function (kDefer) the result of a pointwise op is *pending*: an arranged tensor
// whose form has no storage either, only a recipe in the queue of its thread (device/deferred.h).
// The form may lie as the tensor does. Whoever asks for the memory makes the queue run; the form gets
// its storage, and a tensor that lies alike shares it. Until then ops that are given the form
// can go on with it, aliases for backward share it, and a program cannot tell.
#pragma once

#include <atomic>

#include "core/tensor.h"

namespace rush {

// Whether convolutions choose their layout: config.automatic_layout.
RUSH_API bool automatic_layout();
RUSH_API void set_automatic_layout(bool on);

// Has t no storage, but a form? (Arranged, or pending.)
inline bool is_arranged(const Tensor& t) { return !t.impl()->storage.load(); }
// Has t a form that waits to be computed?
inline bool is_pending(const Tensor& t) {
  return is_arranged(t) && t.impl()->arranged && !t.impl()->arranged->storage.load();
}
// Has t a form in another order of dims than its own?
RUSH_API bool is_laid_out_otherwise(const Tensor& t);

// The memory of t as it lies: its arranged form, or t itself where it has none.
RUSH_API Tensor arranged_form(const Tensor& t);
// A contiguous tensor that keeps its values in `form`, which is fresh and dense, and which nobody
// else holds. Where the form happens to be contiguous, it is returned itself.
RUSH_API Tensor arrange(Tensor form);
// A form without storage and recipe, of these dense strides (empty: contiguous). Until it has one of
// them it does not count as contiguous: loops with a short way for that find out that there is
// something to ask first.
RUSH_API Tensor make_pending(IntList sizes, const Dims& strides, DType dtype, Device device);
// A tensor over a form that is or was pending, of these strides (empty: contiguous).
RUSH_API Tensor over_pending(const Tensor& form, const Dims& strides);
// t, which is pending, is to have the values of another form, which lies as its own does.
RUSH_API void exchange_form(const Tensor& t, const Tensor& form);
inline bool is_unborn(const Tensor& form) {
  return !form.impl()->storage.load() && !form.impl()->arranged;
}
RUSH_API void give_storage(TensorImpl* form);
// Another tensor over t's values and version counter: like a view, but arranged as t is.
RUSH_API Tensor alias_of(const Tensor& t);

// Is `t`, of which the caller holds the only reference, also the only one to see its memory?
RUSH_API bool owns_memory(const Tensor& t);

// Note [Arranged tensors and CUDA graphs]
// A tensor that is made while a graph is recorded gets new values with each replay. Materialized
// after the recording, it would keep those of one moment: the copy would not be part of the graph. So
// whatever is still arranged when a recording ends is materialized as its last act.
//
// Which recording the work of this thread on a device goes into, null for none; set by the GPU's
// side.
extern RUSH_API const void* (*g_recording)(Device device);
RUSH_API void materialize_recorded(const void* recording);
void forget_recorded(TensorImpl* t) noexcept;

// How often recipes of this thread refer to a pending form.
extern RUSH_API uint32_t (*g_references_to_pending)(const TensorImpl* form);
// Runs what waits on this thread, before something happens that it must not see: "why", for reports.
extern RUSH_API void (*g_flush_pending)(const char* why);
inline void flush_pending(const char* why) { g_flush_pending(why); }
// How many are to be told before memory is written to: snapshots (autograd/snapshot.h), and what is
// made again in backward (device/again.h).
extern RUSH_API std::atomic<int> g_write_watchers;
// Tells the latter; null: any memory may be written to.
extern RUSH_API void (*g_before_write)(const Storage* storage);
inline void before_write_to(const Storage* storage) {
  if (g_write_watchers.load(std::memory_order_relaxed)) [[unlikely]]
    g_before_write(storage);
}
// Computes a pending form, or gives an unborn one its storage; set by device/deferred.cpp.
extern RUSH_API void (*g_compute_pending)(TensorImpl* form);
// Contiguous storage with the values of a strided tensor; set by the ops, which can copy.
extern RUSH_API Ref<Storage> (*g_contiguous_storage)(const Tensor& form);

}  // namespace rush
