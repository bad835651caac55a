// arg.cpp: max and min with their positions.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/interrupt.h"
#include "cpu/copy/copy.h"
#include "cpu/loop_nest.h"
#include "cpu/reduce/driver.h"

namespace rush {

namespace {

constexpr int64_t kChunk = 4096;     // elements looked through at a time
constexpr int64_t kSegment = 65536;  // see Note [Segments do not depend on threads]
constexpr int64_t kColumnChunk = 1024;
constexpr int64_t kPerLook = 1 << 20;  // elements between looks for an interrupt

struct Best {
  alignas(8) char value[8];
  int64_t index = 0;
};

struct ArgCall {
  const ArgKernel* kernel;
  ConvertFn bring, put_value = nullptr;
  int64_t item, element;  // bytes, in x and in the kernel
  bool direct;
  int64_t length, stride;  // along the dim, stride in bytes

  // The best of [begin, end) of the row at x.
  void search(const char* x, int64_t begin, int64_t end, Best& best) const {
    alignas(64) char buffer[kChunk * 8];
    InterruptCounter interrupts(kPerLook);
    for (int64_t i = begin; i < end; i += kChunk) {
      interrupts.add(kChunk);
      const int64_t m = std::min(kChunk, end - i);
      const char* from = x + i * stride;
      if (!direct || stride != item) {
        bring(buffer, element, from, stride, m);
        from = buffer;
      }
      alignas(8) char top[8];
      kernel->extreme(from, m, top);
      if (i != begin && !kernel->beats(top, best.value)) continue;
      std::memcpy(best.value, top, size_t(element));
      best.index = i + kernel->find(from, m, top);
    }
  }

  // One winner for each of n columns that lie end to end in x.
  void search_columns(const char* x, int64_t n, char* values, int64_t* indices) const {
    alignas(64) char buffer[kColumnChunk * 8];
    bring(values, element, x, item, n);
    std::fill_n(indices, n, 0);
    InterruptCounter interrupts(kPerLook);
    if (direct) {
      in_steps(length, std::max<int64_t>(1, kPerLook / n), [&](int64_t begin, int64_t end) {
        kernel->columns(x + begin * stride, stride, end - begin, n, values, indices, begin);
      });
      return;
    }
    for (int64_t r = 1; r < length; ++r) {
      interrupts.add(n);
      bring(buffer, element, x + r * stride, item, n);
      kernel->columns(buffer, 0, 1, n, values, indices, r);
    }
  }
};

// A row of the nest {indices, x, values?} over the kept dims.
void arg_row(char* const* ptrs, const int64_t* strides, int64_t n, const void* context) {
  const auto& call = *static_cast<const ArgCall*>(context);
  const bool with_values = call.put_value != nullptr;
  if (strides[1] == call.item && call.stride != call.item && n >= 4) {
    alignas(64) char values[kColumnChunk * 8];
    int64_t indices[kColumnChunk];
    for (int64_t c = 0; c < n; c += kColumnChunk) {
      const int64_t m = std::min(kColumnChunk, n - c);
      call.search_columns(ptrs[1] + c * call.item, m, values, indices);
      for (int64_t j = 0; j < m; ++j)
        *reinterpret_cast<int64_t*>(ptrs[0] + (c + j) * strides[0]) = indices[j];
      if (with_values)
        call.put_value(ptrs[2] + c * strides[2], strides[2], values, call.element, m);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    Best best;
    call.search(ptrs[1] + i * strides[1], 0, call.length, best);
    *reinterpret_cast<int64_t*>(ptrs[0] + i * strides[0]) = best.index;
    if (with_values) call.put_value(ptrs[2] + i * strides[2], 0, best.value, call.element, 1);
  }
}

// One long row: its segments are searched side by side.
void arg_long_row(const ArgCall& call, const Tensor& x, const Tensor& values,
                  const Tensor& indices) {
  const int64_t segments = (call.length + kSegment - 1) / kSegment;
  std::vector<Best> found(static_cast<size_t>(segments));
  parallel_for(segments, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t last = std::min(call.length, (s + 1) * kSegment);
      call.search(x.data<char>(), s * kSegment, last, found[size_t(s)]);
    }
  });
  const Best* best = &found[0];
  for (const Best& other : found) {
    if (call.kernel->beats(other.value, best->value)) best = &other;
  }
  *indices.data<int64_t>() = best->index;
  if (call.put_value) call.put_value(values.data<char>(), 0, best->value, call.element, 1);
}

Tensor without_dim(const Tensor& t, int64_t dim) {
  Dims sizes = t.sizes(), strides = t.strides();
  if (dim < t.dim()) sizes[size_t(dim)] = 1, strides[size_t(dim)] = 0;
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}

}  // namespace

void cpu_reduce_arg(ReduceFn fn, const Tensor& x, const Tensor& values, const Tensor& indices,
                    int64_t dim) {
  if (indices.numel() == 0) return;
  const DType element = ordered_type(x.dtype());
  const FoldTable& table = folds_for(element);
  const bool largest = fn == ReduceFn::Max || fn == ReduceFn::ArgMax;
  ArgCall call;
  call.kernel = largest ? &table.arg_max : &table.arg_min;
  check(call.kernel->find != nullptr, ErrorKind::DType, "", largest ? "\"max\"" : "\"min\"",
        " not implemented for ", x.dtype(), " tensors");
  call.bring = convert_fn(x.dtype(), element);
  if (values.defined()) call.put_value = convert_fn(element, values.dtype());
  call.item = x.element_size();
  call.element = element_size(element);
  call.direct = x.dtype() == element;
  call.length = x.dim() ? x.sizes()[size_t(dim)] : 1;
  call.stride = x.dim() ? x.strides()[size_t(dim)] * call.item : call.item;
  if (indices.numel() == 1) {
    arg_long_row(call, x, values, indices);
    return;
  }
  const Tensor rest = without_dim(x, dim);
  const int64_t grain = std::max<int64_t>(1, kGrain / call.length);
  if (values.defined()) {
    loop_lines({indices, rest, values}, arg_row, &call, grain);
  } else {
    loop_lines({indices, rest}, arg_row, &call, grain);
  }
}

void reduce_arg_all(ReduceFn fn, const Tensor& x, const Tensor& out) {
  int64_t dim = -1, single = 0;  // single: a dim of size 1, which is as good as none
  bool several = false;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (x.sizes()[size_t(d)] == 1) single = d;
    if (x.sizes()[size_t(d)] == 1 || out.sizes()[size_t(d)] != 1) continue;
    several = dim >= 0;
    dim = d;
    if (several) break;
  }
  if (!several) {
    cpu_reduce_arg(fn, x, Tensor(), out, dim >= 0 ? dim : single);
    return;
  }
  internal_assert(out.numel() == 1, "argmax over several dims but not all");
  Tensor flat = x;
  if (!x.is_contiguous()) {  // positions count in row-major order
    flat = make_tensor(x.sizes(), x.dtype(), x.device());
    copy_cpu(x, flat);
  }
  const int64_t n = x.numel(), one = 1;
  flat = make_tensor(flat.storage(), IntList(&n, 1), IntList(&one, 1), flat.offset(), flat.dtype());
  cpu_reduce_arg(fn, flat, Tensor(), out, 0);
}

}  // namespace rush
