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
#pragma once

#include "core/tensor.h"

namespace rush {

// Whether convolutions choose their layout: config.automatic_layout.
RUSH_API bool automatic_layout();
RUSH_API void set_automatic_layout(bool on);

inline bool is_arranged(const Tensor& t) { return !t.impl()->storage.load(); }

// The memory of t as it lies: its arranged form, or t itself where it has none.
RUSH_API Tensor arranged_form(const Tensor& t);
// A contiguous tensor that keeps its values in `form`, which is fresh and dense, and which nobody
// else holds. Where the form happens to be contiguous, it is returned itself.
RUSH_API Tensor arrange(Tensor form);
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

// Contiguous storage with the values of a strided tensor; set by the ops, which can copy.
extern RUSH_API Ref<Storage> (*g_contiguous_storage)(const Tensor& form);

}  // namespace rush
