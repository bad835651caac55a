#include "core/shape.h"

namespace rush {

void Dims::grow(uint32_t n) {
  check_shape(n <= uint32_t(kMaxDims), "shape", "a tensor has at most ", kMaxDims,
              " dimensions, got ", n);
  auto* heap = new int64_t[kMaxDims];
  std::copy_n(data(), n_, heap);
  free_heap();
  heap_ = heap;
  capacity_ = kMaxDims;
}

int64_t checked_numel(std::string_view op, IntList sizes) {
  int64_t n = 1;
  bool overflow = false, zero = false;
  for (int64_t s : sizes) {
    check(s >= 0, ErrorKind::Runtime, op, "sizes must not be negative, got ", sizes);
    zero |= s == 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  if (zero) return 0;
  // Sixteen bytes is the widest element: every byte count then fits as well.
  check(!overflow && n <= INT64_MAX / 16, ErrorKind::Runtime, op, "a tensor of shape ", sizes,
        " has too many elements to address");
  return n;
}

Dims contiguous_strides(IntList sizes) {
  Dims strides;
  strides.resize(uint32_t(sizes.size()));
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

Dims channels_last_strides(IntList sizes) {
  const size_t n = sizes.size();
  check_argument(n == 4 || n == 5, "memory_format",
                 "channels_last needs 4 dimensions and channels_last_3d needs 5, got shape ",
                 sizes);
  Dims strides;
  strides.resize(uint32_t(n));
  strides[1] = 1;
  int64_t step = std::max<int64_t>(sizes[1], 1);
  for (size_t i = n; i-- > 2;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  strides[0] = step;
  return strides;
}

Dims strides_for(IntList sizes, MemoryFormat format) {
  switch (format) {
    case MemoryFormat::ChannelsLast:
      check(sizes.size() == 4, ErrorKind::Runtime, "memory_format",
            "channels_last needs a 4-dimensional tensor, got shape ", sizes);
      return channels_last_strides(sizes);
    case MemoryFormat::ChannelsLast3d:
      check(sizes.size() == 5, ErrorKind::Runtime, "memory_format",
            "channels_last_3d needs a 5-dimensional tensor, got shape ", sizes);
      return channels_last_strides(sizes);
    default:
      return contiguous_strides(sizes);
  }
}

bool is_contiguous(IntList sizes, IntList strides) {
  int64_t step = 1;
  bool fits = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;  // whatever the strides: there is nothing to be out of place
    if (sizes[i] == 1 || !fits) continue;
    fits = strides[i] == step;
    step *= fits ? sizes[i] : 1;
  }
  return fits;
}

bool is_channels_last(IntList sizes, IntList strides) {
  const size_t n = sizes.size();
  if (n != 4 && n != 5) return false;
  int64_t step = 1;
  auto fits = [&](size_t i) {
    if (sizes[i] == 1) return true;
    if (strides[i] != step) return false;
    step *= sizes[i];
    return true;
  };
  if (!fits(1)) return false;
  for (size_t i = n; i-- > 2;) {
    if (!fits(i)) return false;
  }
  return fits(0);
}

bool is_dense(IntList sizes, IntList strides) {
  const size_t n = sizes.size();
  uint8_t order[kMaxDims];
  size_t m = 0;
  for (size_t i = 0; i < n; ++i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1) order[m++] = uint8_t(i);
  }
  std::sort(order, order + m, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t step = 1;
  for (size_t k = 0; k < m; ++k) {
    if (strides[order[k]] != step) return false;
    step *= sizes[order[k]];
  }
  return true;
}

Dims preserved_strides(IntList sizes, IntList strides) {
  const size_t n = sizes.size();
  if (is_contiguous(sizes, strides)) return contiguous_strides(sizes);
  // Slowest first; among equal strides (broadcast or size one) the earlier dim stays the slower
  // one.
  uint8_t order[kMaxDims];
  for (size_t i = 0; i < n; ++i) order[i] = uint8_t(i);
  std::stable_sort(order, order + n, [&](int a, int b) {
    if (strides[a] == 0 || strides[b] == 0) return false;
    return strides[a] > strides[b] || (strides[a] == strides[b] && sizes[a] > sizes[b]);
  });
  Dims result;
  result.resize(uint32_t(n));
  int64_t step = 1;
  for (size_t k = n; k-- > 0;) {
    result[order[k]] = step;
    step *= std::max<int64_t>(sizes[order[k]], 1);
  }
  return result;
}

int64_t wrap_dim(std::string_view op, int64_t dim, int64_t ndim) {
  const int64_t n = std::max<int64_t>(ndim, 1);
  if (dim >= -n && dim < n) [[likely]]
    return dim < 0 ? dim + n : dim;
  fail(ErrorKind::Index, op, "dim is out of range: expected ", -n, " to ", n - 1, " for a ", ndim,
       "-dimensional tensor, got ", dim);
}

Dims broadcast_shapes(std::string_view op, IntList a, IntList b) {
  if (equal(a, b)) return a;
  if (a.size() < b.size()) std::swap(a, b);
  Dims out(a);
  const size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    const int64_t x = a[lead + i], y = b[i];
    check_shape(x == y || x == 1 || y == 1, op, "shapes ", a, " and ", b,
                " do not broadcast: sizes ", x, " and ", y, " differ at dimension ",
                int64_t(lead + i), " and neither is 1");
    out[lead + i] = x == 1 ? y : x;
  }
  return out;
}

Dims expand_strides(std::string_view op, IntList sizes, IntList strides, IntList target) {
  check_shape(target.size() >= sizes.size(), op, "shape ", sizes,
              " has more dimensions than the target ", target);
  Dims out(uint32_t(target.size()), 0);
  const size_t lead = target.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == target[lead + i]) {
      out[lead + i] = strides[i];
    } else {
      check_shape(sizes[i] == 1, op, "shape ", sizes, " does not expand to ", target, ": size ",
                  sizes[i], " at dimension ", int64_t(i), " is neither 1 nor ", target[lead + i]);
    }
  }
  return out;
}

bool view_strides(IntList sizes, IntList strides, IntList target, Dims& out) {
  out.resize(uint32_t(target.size()));
  if (numel(sizes) == 0) {
    if (equal(sizes, target)) {
      out = strides;
    } else {
      out = contiguous_strides(target);
    }
    return true;
  }
  // Walk both shapes from the right: each run of dims that is contiguous in memory may be cut anew.
  int64_t t = int64_t(target.size()) - 1;
  int64_t run = 1, run_stride = sizes.empty() ? 1 : strides[sizes.size() - 1];
  for (int64_t d = int64_t(sizes.size()) - 1; d >= 0; --d) {
    run *= sizes[d];
    const bool ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != run * run_stride);
    if (!ends) continue;
    int64_t cut = 1;
    while (t >= 0 && (cut < run || target[t] == 1)) {
      out[t] = cut * run_stride;
      cut *= target[t--];
    }
    if (cut != run) return false;
    if (d > 0) {
      run = 1;
      run_stride = strides[d - 1];
    }
  }
  for (; t >= 0; --t) {
    if (target[t] != 1) return false;
    out[t] = t + 1 < int64_t(target.size()) ? out[t + 1] * target[t + 1] : 1;
  }
  return true;
}

Dims infer_size(std::string_view op, IntList shape, int64_t numel) {
  Dims out(shape);
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      check(unknown < 0, ErrorKind::Runtime, op, "only one size may be -1, got ", shape);
      unknown = int64_t(i);
    } else {
      check(shape[i] >= 0, ErrorKind::Runtime, op,
            "sizes must not be negative (one may be -1), got ", shape);
      check(!__builtin_mul_overflow(known, shape[i], &known), ErrorKind::Runtime, op, "shape ",
            shape, " overflows");
    }
  }
  if (unknown >= 0) {
    check(known != 0, ErrorKind::Runtime, op, "cannot tell the size at -1 in ", shape,
          ": the other sizes multiply to 0");
    check_shape(numel % known == 0, op, "shape ", shape, " is invalid for ", numel, " elements");
    out[size_t(unknown)] = numel / known;
  } else {
    check_shape(known == numel, op, "shape ", shape, " is invalid for ", numel, " elements");
  }
  return out;
}

}  // namespace rush
