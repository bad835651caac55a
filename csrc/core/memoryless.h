// memoryless.h: tensors without memory of their own.
//
// Note [Tensors without memory]
// A sparse tensor is made of ordinary tensors, its indices and values, which an object of a Python
// class holds (rushlight/sparse). To the core it is a tensor with sizes, a dtype and a device, but
// without storage: it can be a gradient, and be saved for backward, and whoever asks for its memory
// (Tensor::storage()) gets an error. So no dense loop reads what is not there, and none of them has
// to look: a tensor without storage is on the cold path of materialize() anyhow.
//
// - It is not a part of graphs; its values are.
// - It is never aliased: whoever keeps one keeps the tensor itself, and with it the Python object.
// - The engine adds it to other gradients by g_add_memoryless.
#pragma once

#include "core/tensor.h"

namespace rush {

inline constexpr auto kMemoryless = TensorImpl::Flag(128);

inline bool is_memoryless(const Tensor& t) { return t.impl()->has(kMemoryless); }
// How many elements sizes stand for. No memory holds them all, so they need only be countable.
RUSH_API int64_t memoryless_numel(IntList sizes);
RUSH_API Tensor make_memoryless(IntList sizes, DType dtype, Device device);

// The sum of two gradients of which at least one has no memory. In place: `a` has memory, and takes
// it. Set by the bindings.
extern RUSH_API Tensor (*g_add_memoryless)(const Tensor& a, const Tensor& b, bool in_place);
// Is there a NaN among the values?
extern RUSH_API bool (*g_any_nan_memoryless)(const Tensor& t);

}  // namespace rush
