// Shapes: ops made of views and copies.
#include <algorithm>

#include "device/runtime.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

IntList one(const int64_t& v) { return {&v, 1}; }
int64_t extent(const Tensor& x, int64_t d) { return x.sizes()[size_t(d)]; }

}  // namespace

struct Flatten {
  static constexpr const char* name = "flatten";
  static Tensor call(const Tensor& x, int64_t start_dim, int64_t end_dim) {
    const int64_t first = wrap_dim(name, start_dim, x.dim()),
                  last = wrap_dim(name, end_dim, x.dim());
    check(first <= last, ErrorKind::Runtime, name, "start_dim ", first, " comes after end_dim ",
          last);
    if (x.dim() == 0) return reshape(x, Dims{1});
    if (first == last) return x;
    Dims sizes;
    for (int64_t d = 0; d < first; ++d) sizes.push_back(extent(x, d));
    sizes.push_back(numel(IntList(x.sizes()).subspan(size_t(first), size_t(last - first + 1))));
    for (int64_t d = last + 1; d < x.dim(); ++d) sizes.push_back(extent(x, d));
    return reshape(x, sizes);
  }
};

struct Unflatten {
  static constexpr const char* name = "unflatten";
  static Tensor call(const Tensor& x, int64_t dim, IntList sizes) {
    check(!sizes.empty(), ErrorKind::Runtime, name, "sizes must not be empty");
    check_index(x.dim() > 0, name, "a 0-d tensor has no dim to cut");
    const int64_t d = wrap_dim(name, dim, x.dim());
    const Dims parts = infer_size(name, sizes, extent(x, d));
    Dims shape;
    for (int64_t i = 0; i < d; ++i) shape.push_back(extent(x, i));
    for (int64_t s : parts) shape.push_back(s);
    for (int64_t i = d + 1; i < x.dim(); ++i) shape.push_back(extent(x, i));
    return view(x, shape);
  }
};

struct Ravel {
  static constexpr const char* name = "ravel";
  static Tensor call(const Tensor& x) { return view(contiguous(x), Dims{x.numel()}); }
};

struct ViewAs {
  static constexpr const char* name = "view_as";
  static Tensor call(const Tensor& x, const Tensor& other) { return view(x, other.sizes()); }
};

struct ReshapeAs {
  static constexpr const char* name = "reshape_as";
  static Tensor call(const Tensor& x, const Tensor& other) { return reshape(x, other.sizes()); }
};

struct Movedim {
  static constexpr const char* name = "movedim";
  static Tensor call(const Tensor& x, IntList source, IntList destination) {
    check(source.size() == destination.size(), ErrorKind::Runtime, name, "source ", source,
          " and destination ", destination, " must have the same length");
    Dims order(uint32_t(x.dim()), -1);
    uint64_t moved = 0;
    for (size_t i = 0; i < source.size(); ++i) {
      const int64_t from = wrap_dim(name, source[i], x.dim()),
                    to = wrap_dim(name, destination[i], x.dim());
      if (x.dim() == 0) return x;
      check(!(moved >> from & 1), ErrorKind::Runtime, name,
            "a dim appears more than once in source ", source);
      check(order[size_t(to)] < 0, ErrorKind::Runtime, name,
            "a dim appears more than once in destination ", destination);
      moved |= uint64_t(1) << from;
      order[size_t(to)] = from;
    }
    int64_t next = 0;
    for (int64_t& slot : order) {
      if (slot >= 0) continue;
      while (moved >> next & 1) ++next;
      slot = next++;
    }
    return permute(x, order);
  }
};

struct Adjoint {
  static constexpr const char* name = "adjoint";
  static Tensor call(const Tensor& x) {
    if (x.dim() == 0) return conj(x);
    check(x.dim() >= 2, ErrorKind::Runtime, name,
          "expects a matrix or a batch of matrices, got shape ", x.sizes());
    return conj(transpose(x, -2, -1));
  }
};

struct ViewDtype {
  static constexpr const char* name = "view";
  static Tensor call(const Tensor& x, DType dtype) {
    if (dtype == x.dtype()) return alias(x);
    check(!requires_grad(x) || !grad_enabled(), ErrorKind::Runtime, name,
          "viewing as another dtype is not differentiable; detach() first");
    const int64_t from = x.element_size(), to = element_size(dtype);
    Dims sizes(x.sizes()), strides(x.strides());
    int64_t offset = x.offset();
    if (from != to) {
      check(x.dim() > 0, ErrorKind::Runtime, name, "a 0-d ", x.dtype(),
            " tensor cannot be viewed as ", dtype, ": the element sizes differ");
      const size_t last = sizes.size() - 1;
      check(strides[last] == 1 || sizes[last] <= 1, ErrorKind::Runtime, name,
            "the last dimension must be contiguous to be viewed as ", dtype, ", its stride is ",
            strides[last]);
      if (from > to) {
        const int64_t ratio = from / to;
        for (int64_t& s : strides) s *= ratio;
        strides[last] = 1;
        sizes[last] *= ratio;
        offset *= ratio;
      } else {
        const int64_t ratio = to / from;
        check(sizes[last] % ratio == 0, ErrorKind::Runtime, name, "the last dimension, ",
              sizes[last], ", must be divisible by ", ratio, " to be viewed as ", dtype);
        check(offset % ratio == 0, ErrorKind::Runtime, name, "the storage offset ", offset,
              " must be divisible by ", ratio);
        for (size_t d = 0; d < last; ++d) {
          check(strides[d] % ratio == 0 || sizes[d] <= 1, ErrorKind::Runtime, name, "strides ",
                x.strides(), " must be divisible by ", ratio);
          strides[d] /= ratio;
        }
        sizes[last] /= ratio;
        offset /= ratio;
      }
    }
    Tensor out = make_tensor(x.storage(), sizes, strides, offset, dtype);
    out.impl()->version = x.version_counter();
    return out;
  }
};

struct Flip {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "flip";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, IntList dims) {
    uint64_t seen = 0;
    for (int64_t d : dims) {
      const auto w = wrap_dim(name, d, x.dim());
      rush::check(!(seen >> w & 1), ErrorKind::Runtime, name, "dim ", w,
                  " appears more than once in ", dims);
      seen |= uint64_t(1) << w;
    }
    return like(x);
  }
  static void run(const Tensor& x, IntList dims, const Tensor& out) {
    if (x.numel() == 0 || x.dim() == 0) return copy_data(out, x);
    // The result, read backwards, is the input.
    Dims strides(out.strides());
    int64_t offset = out.offset();
    for (int64_t d : dims) {
      const auto w = size_t(wrap_dim(name, d, x.dim()));
      offset += (out.sizes()[w] - 1) * strides[w];
      strides[w] = -strides[w];
    }
    copy_data(out.alias(out.sizes(), strides, offset), x);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, IntList dims) {
    return {flip(g, dims)};
  }
};

struct Fliplr {
  static constexpr const char* name = "fliplr";
  static Tensor call(const Tensor& x) {
    check(x.dim() >= 2, ErrorKind::Runtime, name, "needs at least 2 dimensions, got shape ",
          x.sizes());
    return flip(x, Dims{1});
  }
};

struct Flipud {
  static constexpr const char* name = "flipud";
  static Tensor call(const Tensor& x) {
    check(x.dim() >= 1, ErrorKind::Runtime, name, "needs at least 1 dimension, got a 0-d tensor");
    return flip(x, Dims{0});
  }
};

struct Rot90 {
  static constexpr const char* name = "rot90";
  static Tensor call(const Tensor& x, int64_t k, IntList dims) {
    check(dims.size() == 2, ErrorKind::Runtime, name, "dims must name two dimensions, got ", dims);
    check(x.dim() >= 2, ErrorKind::Runtime, name, "needs at least 2 dimensions, got shape ",
          x.sizes());
    const int64_t a = wrap_dim(name, dims[0], x.dim()), b = wrap_dim(name, dims[1], x.dim());
    check(a != b, ErrorKind::Runtime, name, "the two dims must differ, got ", dims);
    switch (((k % 4) + 4) % 4) {
      case 1:
        return transpose(flip(x, one(b)), a, b);
      case 2:
        return flip(x, Dims{a, b});
      case 3:
        return transpose(flip(x, one(a)), a, b);
      default:
        return clone(x, MemoryFormat::Contiguous);
    }
  }
};

struct RollAlong {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "roll";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, int64_t, int64_t) {
    Spec spec{x.sizes(), x.dtype(), x.device()};
    if (x.suggest_memory_format() != MemoryFormat::Contiguous)
      spec.strides = channels_last_strides(x.sizes());
    return spec;
  }
  static void run(const Tensor& x, int64_t shift, int64_t dim, const Tensor& out) {
    const int64_t n = extent(x, dim);
    if (x.numel() == 0) return;
    const int64_t cut = ((n - shift % n) % n + n) % n;  // this one comes first
    copy_data(part(out, dim, 0, n - cut), part(x, dim, cut, n));
    if (cut > 0) copy_data(part(out, dim, n - cut, n), part(x, dim, 0, cut));
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t shift, int64_t dim) {
    return {_roll(g, -(shift % std::max<int64_t>(1, extent(g, dim))), dim)};
  }

 private:
  static Tensor part(const Tensor& t, int64_t dim, int64_t from, int64_t to) {
    Dims sizes(t.sizes());
    sizes[size_t(dim)] = to - from;
    return t.alias(sizes, t.strides(), t.offset() + from * t.strides()[size_t(dim)]);
  }
};

struct Roll {
  static constexpr const char* name = "roll";
  static Tensor call(const Tensor& x, IntList shifts, IntList dims) {
    check(!shifts.empty(), ErrorKind::Runtime, name, "shifts must not be empty");
    if (dims.empty()) {
      check(shifts.size() == 1, ErrorKind::Runtime, name, "several shifts need dims");
      return reshape(along(reshape(x, Dims{x.numel()}), shifts[0], 0), x.sizes());
    }
    check(shifts.size() == dims.size(), ErrorKind::Runtime, name, "shifts ", shifts, " and dims ",
          dims, " must have the same length");
    check(x.dim() > 0, ErrorKind::Range, name, "a 0-d tensor has no dims to roll along, got dims ",
          dims);
    Tensor out = x;
    for (size_t i = 0; i < dims.size(); ++i)
      out = along(out, shifts[i], wrap_dim(name, dims[i], x.dim()));
    return out;
  }

 private:
  static Tensor along(const Tensor& x, int64_t shift, int64_t dim) {
    if (x.numel() == 0 || x.dim() == 0) return clone(x);
    return _roll(x, shift, dim);
  }
};

struct Repeat {
  static constexpr const char* name = "repeat";
  static Tensor call(const Tensor& x, IntList repeats) {
    check(int64_t(repeats.size()) >= x.dim(), ErrorKind::Runtime, name, "the counts ", repeats,
          " must cover all ", x.dim(), " dimensions of shape ", x.sizes());
    const size_t lead = repeats.size() - size_t(x.dim());
    Dims apart, wide, joined;
    for (size_t i = 0; i < repeats.size(); ++i) {
      check(repeats[i] >= 0, ErrorKind::Runtime, name, "counts must not be negative, got ",
            repeats);
      const int64_t n = i < lead ? 1 : x.sizes()[i - lead];
      int64_t total = 0;
      check(!__builtin_mul_overflow(n, repeats[i], &total), ErrorKind::Runtime, name, "the counts ",
            repeats, " overflow for shape ", x.sizes());
      if (i >= lead && n != 1 && repeats[i] != 1) apart.push_back(1), wide.push_back(repeats[i]);
      apart.push_back(n);
      wide.push_back(i < lead || n == 1 ? total : n);
      joined.push_back(total);
    }
    checked_numel(name, joined);
    return reshape(clone(expand(reshape(x, apart), wide), MemoryFormat::Contiguous), joined);
  }
};

struct Tile {
  static constexpr const char* name = "tile";
  static Tensor call(const Tensor& x, IntList dims) {
    Dims counts;
    for (int64_t i = int64_t(dims.size()); i < x.dim(); ++i) counts.push_back(1);
    for (int64_t d : dims) counts.push_back(d);
    return repeat(x, counts);
  }
};

struct RepeatInterleave {
  static constexpr const char* name = "repeat_interleave";
  static Tensor call(const Tensor& x, int64_t repeats, std::optional<int64_t> dim,
                     std::optional<int64_t> output_size) {
    check(repeats >= 0, ErrorKind::Runtime, name, "repeats must not be negative, got ", repeats);
    const Tensor t = dim ? x : reshape(x, Dims{x.numel()});
    const int64_t d = wrap_dim(name, dim.value_or(0), t.dim());
    const Tensor source = t.dim() == 0 ? reshape(t, Dims{1}) : t;
    Dims wide(source.sizes()), joined(source.sizes());
    wide.insert(uint32_t(d + 1), repeats);
    joined[size_t(d)] *= repeats;
    check(!output_size || *output_size == joined[size_t(d)], ErrorKind::Runtime, name,
          "output_size ", output_size.value_or(0), " is not the result's size ", joined[size_t(d)]);
    return reshape(clone(expand(unsqueeze(source, d + 1), wide), MemoryFormat::Contiguous), joined);
  }
};

struct RepeatInterleaveCounts {
  static constexpr const char* name = "repeat_interleave";
  static Tensor call(const Tensor& repeats, std::optional<int64_t> output_size) {
    check(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32, ErrorKind::DType,
          name, "repeats must be int32 or int64, got ", repeats.dtype());
    check(repeats.dim() == 1, ErrorKind::Runtime, name, "repeats must be a vector, got shape ",
          repeats.sizes());
    check(!repeats.is_meta(), ErrorKind::NotImplemented, name,
          "the result's size depends on the counts, which a meta tensor does not hold");
    if (device_traits(repeats).asynchronous) return by_search(repeats, output_size);
    const Tensor counts = contiguous_data(
        repeats.dtype() == DType::Int64 ? repeats : convert_data(repeats, DType::Int64));
    const int64_t* c = counts.data<int64_t>();
    int64_t total = 0;
    for (int64_t i = 0; i < counts.numel(); ++i) {
      check(c[i] >= 0, ErrorKind::Runtime, name, "repeats must not be negative, got ", c[i],
            " at index ", i);
      check(!__builtin_add_overflow(total, c[i], &total), ErrorKind::Runtime, name,
            "the counts add up to too many elements");
    }
    check(!output_size || *output_size == total, ErrorKind::Runtime, name, "output_size ",
          output_size.value_or(0), " is not the sum of repeats, ", total);
    const Tensor out = make_tensor(Dims{total}, DType::Int64);
    int64_t* o = out.data<int64_t>();
    for (int64_t i = 0; i < counts.numel(); ++i) o = std::fill_n(o, c[i], i);
    return repeats.dtype() == DType::Int64 ? out : convert_data(out, repeats.dtype());
  }

 private:
  // Place p belongs to the first count whose running sum is above p. Only the size is waited for,
  // where it is not given.
  static Tensor by_search(const Tensor& repeats, std::optional<int64_t> output_size) {
    NoGradGuard no_grad;
    const Tensor ends = cumsum(repeats, 0);
    int64_t total = output_size.value_or(0);
    if (!output_size && repeats.numel() > 0) {
      const Tensor facts[] = {select(ends, 0, -1), cast(amin(repeats, IntList()), DType::Int64)};
      const Tensor host = host_data(stack(facts));
      total = host.data<int64_t>()[0];
      check(host.data<int64_t>()[1] >= 0, ErrorKind::Runtime, name,
            "repeats must not be negative, got ", host.data<int64_t>()[1]);
    }
    const Tensor places = arange(Scalar(total), DType::Int64, std::nullopt, repeats.device());
    return cast(searchsorted(ends, places, false, true), repeats.dtype());
  }
};

struct RepeatInterleaveEach {
  static constexpr const char* name = "repeat_interleave";
  static Tensor call(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim,
                     std::optional<int64_t> output_size) {
    const Tensor t = dim ? x : reshape(x, Dims{x.numel()});
    const int64_t d = wrap_dim(name, dim.value_or(0), t.dim());
    if (repeats.numel() == 1)
      return RepeatInterleave::call(t, repeats.item().to_int(), d, output_size);
    check(repeats.dim() == 1, ErrorKind::Runtime, name,
          "repeats must be a number or a vector, got shape ", repeats.sizes());
    check(repeats.numel() == extent(t, d), ErrorKind::Runtime, name, "repeats has ",
          repeats.numel(), " counts, dimension ", d, " has size ", extent(t, d));
    return index_select(t, d, RepeatInterleaveCounts::call(repeats, output_size));
  }
};

namespace {

// Tensors with at least this many dims, as NumPy's *stack functions see them.
std::vector<Tensor> at_least(TensorList tensors, int rank) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) {
    Tensor u = t;
    if (u.dim() == 0) u = reshape(u, Dims{1});
    if (rank >= 2 && u.dim() == 1) u = unsqueeze(u, 0);
    if (rank >= 3 && u.dim() == 2) u = unsqueeze(u, 2);
    out.push_back(u);
  }
  return out;
}

void check_some(const char* op, TensorList tensors) {
  check(!tensors.empty(), ErrorKind::Runtime, op, "expected a non-empty list of tensors");
}

}  // namespace

struct Hstack {
  static constexpr const char* name = "hstack";
  static constexpr bool refuses_sharing = true;
  static Tensor call(TensorList tensors) {
    check_some(name, tensors);
    const std::vector<Tensor> rows = at_least(tensors, 1);
    return cat(rows, rows[0].dim() == 1 ? 0 : 1);
  }
};
namespace {

template <OpName N, int rank, int64_t dim>
struct StackAlong {
  static constexpr const char* name = N.text;
  static constexpr bool refuses_sharing = true;
  static Tensor call(TensorList tensors) {
    check_some(name, tensors);
    return cat(at_least(tensors, rank), dim);
  }
};

}  // namespace

struct Vstack : StackAlong<"vstack", 2, 0> {};
struct Dstack : StackAlong<"dstack", 3, 2> {};
struct ColumnStack {
  static constexpr const char* name = "column_stack";
  static constexpr bool refuses_sharing = true;
  static Tensor call(TensorList tensors) {
    check_some(name, tensors);
    std::vector<Tensor> columns;
    for (const Tensor& t : tensors)
      columns.push_back(t.dim() <= 1 ? reshape(t, Dims{t.numel(), 1}) : t);
    return hstack(columns);
  }
};

struct Diff {
  static constexpr const char* name = "diff";
  static constexpr bool refuses_overlap = true;
  static Tensor call(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend,
                     const Tensor& append) {
    check(x.dim() > 0, ErrorKind::Runtime, name, "needs at least one dimension");
    check(n >= 0, ErrorKind::Runtime, name, "n must not be negative, got ", n);
    const int64_t d = wrap_dim(name, dim, x.dim());
    if (n == 0) return clone(x);
    std::vector<Tensor> parts;
    if (prepend.defined()) parts.push_back(prepend);
    parts.push_back(x);
    if (append.defined()) parts.push_back(append);
    Tensor out = parts.size() > 1 ? cat(parts, d) : x;
    n = std::min(n, extent(out, d));
    if (n == 0) return clone(out);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t size = extent(out, d);
      const Tensor late = slice(out, d, 1, size, 1), early = slice(out, d, 0, size - 1, 1);
      out = out.dtype() == DType::Bool
                ? cast(cast(late, DType::UInt8) - cast(early, DType::UInt8), DType::Bool)
                : late - early;
    }
    return out;
  }
};

namespace {

// No element is written, so several indices may share one, as after expand().
struct ChangesGeometry {
  static constexpr bool repeats_are_fine = true;
  static constexpr bool any_alignment = true;
};

// Takes over the geometry that a view op computes. Views cannot change their own shape while a
// graph watches their base.
void adopt(const char* op, const Tensor& self, const Geometry& g) {
  check(!(self.impl()->base && grad_enabled() && requires_grad(self)), ErrorKind::Runtime, op,
        "a view that requires grad cannot change its shape in place; use the out-of-place form");
  set_geometry(self, g.sizes, g.strides, g.offset);
}
Geometry geometry_of(const Tensor& t) { return {t.sizes(), t.strides(), t.offset()}; }
Geometry geometry_after(const Tensor& self, Tensor (*view)(const Tensor&, int64_t, int64_t),
                        int64_t a, int64_t b) {
  NoGradGuard no_grad;
  return geometry_of(view(self, a, b));
}

}  // namespace

struct Unsqueeze_ : ChangesGeometry {
  static constexpr const char* name = "unsqueeze_";
  static constexpr bool any_device = true;
  static void check(const Tensor& x, int64_t dim) { wrap_dim(name, dim, x.dim() + 1); }
  static void run(const Tensor& x, int64_t dim) {
    adopt(name, x,
          geometry_after(
              x, [](const Tensor& t, int64_t d, int64_t) { return unsqueeze(t, d); }, dim, 0));
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t) {
    return {reshape(g, c.sizes(0))};
  }
};

struct Squeeze_ : ChangesGeometry {
  static constexpr const char* name = "squeeze_";
  static constexpr bool any_device = true;
  static void check(const Tensor&) {}
  static void run(const Tensor& x) {
    adopt(name, x,
          geometry_after(x, [](const Tensor& t, int64_t, int64_t) { return squeeze(t); }, 0, 0));
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {reshape(g, c.sizes(0))};
  }
};

struct SqueezeDim_ : ChangesGeometry {
  static constexpr const char* name = "squeeze_";
  static constexpr bool any_device = true;
  static void check(const Tensor& x, IntList dims) {
    for (int64_t d : dims) wrap_dim(name, d, x.dim());
  }
  static void run(const Tensor& x, IntList dims) {
    NoGradGuard no_grad;
    const Geometry g = geometry_of(squeeze(x, dims));
    adopt(name, x, g);
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList) {
    return {reshape(g, c.sizes(0))};
  }
};

struct Transpose_ : ChangesGeometry {
  static constexpr const char* name = "transpose_";
  static constexpr bool any_device = true;
  static void check(const Tensor& x, int64_t a, int64_t b) {
    wrap_dim(name, a, x.dim()), wrap_dim(name, b, x.dim());
  }
  static void run(const Tensor& x, int64_t a, int64_t b) {
    adopt(name, x,
          geometry_after(
              x, [](const Tensor& t, int64_t i, int64_t j) { return transpose(t, i, j); }, a, b));
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t a, int64_t b) {
    return {transpose(g, a, b)};
  }
};

struct Swapaxes_ : Transpose_ {
  static constexpr const char* name = "swapaxes_";
};

struct T_ : ChangesGeometry {
  static constexpr const char* name = "t_";
  static constexpr bool any_device = true;
  static void check(const Tensor& x) {
    rush::check(x.dim() <= 2, ErrorKind::Runtime, name,
                "expects a tensor with at most 2 dimensions, got shape ", x.sizes());
  }
  static void run(const Tensor& x) {
    if (x.dim() == 2) Transpose_::run(x, 0, 1);
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {t(g)}; }
};

struct Resize_ {
  static constexpr const char* name = "resize_";
  static Tensor call(const Tensor& x, IntList size, std::optional<MemoryFormat> format) {
    check(!requires_grad(x), ErrorKind::Runtime, name,
          "a tensor that requires grad cannot be resized; use reshape() or detach() it first");
    checked_numel(name, size);
    resize(x, size, format.value_or(MemoryFormat::Contiguous));
    return x;
  }
};

struct ResizeAs_ {
  static constexpr const char* name = "resize_as_";
  static Tensor call(const Tensor& x, const Tensor& other, std::optional<MemoryFormat> format) {
    return Resize_::call(x, other.sizes(), format);
  }
};

struct AsStrided_ {
  static constexpr const char* name = "as_strided_";
  static Tensor call(const Tensor& x, IntList size, IntList stride,
                     std::optional<int64_t> storage_offset) {
    check(!(grad_enabled() && requires_grad(x)), ErrorKind::Runtime, name,
          "a tensor that requires grad cannot change its geometry in place; use as_strided()");
    NoGradGuard no_grad;
    adopt(name, x, geometry_of(as_strided(x, size, stride, storage_offset)));
    x.bump_version(name);
    return x;
  }
};

}  // namespace rush

#include "ops/shape.inc"
