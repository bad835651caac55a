// Views: each block computes a geometry; op::call_view makes the tensor, shares the version
// counter, records the gradient.
#include <algorithm>
#include <vector>

#include "device/runtime.h"
#include "functors/complex.h"
#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/index/index_steps.h"

namespace rush {
namespace {

// Gradients of views scatter g back into zeros of the input's shape.
Tensor zeros_for(const Ctx& c, const Tensor& g) { return new_zeros(g, c.sizes(0)); }

}  // namespace

struct Select {
  static constexpr const char* name = "select";
  static Geometry view(const Tensor& x, int64_t dim, int64_t index) {
    check_index(x.dim() > 0, name, "a 0-d tensor has no dim to select from");
    const auto d = uint32_t(wrap_dim(name, dim, x.dim()));
    const int64_t n = x.sizes()[d];
    check_index(index >= -n && index < n, name, "index ", index, " is out of range for dimension ",
                int64_t(d), " with size ", n);
    Geometry g{x.sizes(), x.strides(),
               x.offset() + (index < 0 ? index + n : index) * x.strides()[d]};
    g.sizes.erase(d);
    g.strides.erase(d);
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, int64_t index) {
    const Tensor whole = zeros_for(c, g);
    copy_(select(whole, dim, index), g);
    return {whole};
  }
};

struct Slice {
  static constexpr const char* name = "slice";
  static Geometry view(const Tensor& x, int64_t dim, std::optional<int64_t> start,
                       std::optional<int64_t> end, int64_t step) {
    check_index(x.dim() > 0, name, "a 0-d tensor cannot be sliced");
    check(step > 0, ErrorKind::Argument, name, "the step must be positive, got ", step,
          "; use flip() to reverse");
    const auto d = uint32_t(wrap_dim(name, dim, x.dim()));
    const int64_t n = x.sizes()[d];
    auto clamp = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
    const int64_t first = clamp(start.value_or(0)), last = std::max(first, clamp(end.value_or(n)));
    Geometry g{x.sizes(), x.strides(), x.offset() + first * x.strides()[d]};
    g.sizes[d] = (last - first) / step + ((last - first) % step != 0);
    g.strides[d] = stepped(g.strides[d], step);
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim,
                    std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
    const Tensor whole = zeros_for(c, g);
    copy_(slice(whole, dim, start, end, step), g);
    return {whole};
  }
};

struct Narrow {
  static constexpr const char* name = "narrow";
  static Tensor call(const Tensor& x, int64_t dim, const Tensor& start_tensor, int64_t length) {
    check(x.dim() > 0, ErrorKind::Runtime, name, "a 0-d tensor cannot be narrowed");
    check(start_tensor.dim() == 0 && is_integral(start_tensor.dtype()), ErrorKind::Runtime, name,
          "start must be an integer or a 0-d integer tensor");
    const int64_t d = wrap_dim(name, dim, x.dim()), n = x.sizes()[size_t(d)];
    int64_t start = start_tensor.item().to_int();
    check(length >= 0, ErrorKind::Runtime, name, "length must not be negative, got ", length);
    check_index(start >= -n && start <= n, name, "start ", start, " is out of range for dimension ",
                d, " with size ", n);
    if (start < 0) start += n;
    check(start <= n - length, ErrorKind::Runtime, name, "start ", start, " plus length ", length,
          " exceeds dimension ", d, " with size ", n);
    return slice(x, d, start, start + length, 1);
  }
};

struct AsStrided {
  static constexpr const char* name = "as_strided";
  static Tensor call(const Tensor& x, IntList size, IntList stride,
                     std::optional<int64_t> storage_offset) {
    check(size.size() == stride.size(), ErrorKind::Runtime, name, "size ", size, " and stride ",
          stride, " must have the same length");
    const int64_t n = checked_numel(name, size), offset = storage_offset.value_or(x.offset());
    check(offset >= 0, ErrorKind::Runtime, name, "storage_offset must not be negative, got ",
          offset);
    int64_t last = offset;
    for (size_t i = 0; i < size.size(); ++i) {
      check(stride[i] >= 0, ErrorKind::Runtime, name, "negative strides are not supported, got ",
            stride);
      int64_t span = 0;
      check(size[i] == 0 || (!__builtin_mul_overflow(size[i] - 1, stride[i], &span) &&
                             !__builtin_add_overflow(last, span, &last)),
            ErrorKind::Runtime, name, "size ", size, " with stride ", stride, " overflows");
    }
    const int64_t room = int64_t(x.storage()->nbytes()) / x.element_size();
    check(n == 0 || last < room, ErrorKind::Runtime, name, "size ", size, " with stride ", stride,
          " and offset ", offset, " reaches element ", last, " of a storage that holds ", room);
    return view_by_geometry(x, size, stride, offset, x.strides(), x.offset());
  }
};

// as_strided after its checks. It remembers the geometry it was taken from, so that the gradient
// can be laid out alike.
struct ViewByGeometry {
  static constexpr const char* name = "as_strided";
  static Geometry view(const Tensor&, IntList size, IntList stride, int64_t offset, IntList,
                       int64_t) {
    return {size, stride, offset};
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList size, IntList stride,
                    int64_t offset, IntList self_stride, int64_t self_offset) {
    return {as_strided_backward(g, c.sizes(0), self_stride, self_offset, size, stride, offset)};
  }
  // A tangent is contiguous, whatever its tensor is: lay it out alike first.
  static Tensor jvp(const Jvp& j, const Tensor& x, IntList size, IntList stride, int64_t offset,
                    IntList self_stride, int64_t self_offset) {
    return read_by_geometry(j.tangent(0), x.sizes(), self_stride, self_offset, size, stride,
                            offset);
  }
  // h, laid out in a buffer by one geometry, read by another.
  static Tensor read_by_geometry(const Tensor& h, IntList self_size, IntList self_stride,
                                 int64_t self_offset, IntList size, IntList stride,
                                 int64_t offset) {
    const Tensor buffer =
        new_zeros(h, Dims{reach(self_size, self_stride, self_offset, size, stride, offset)});
    copy_(as_strided(buffer, self_size, self_stride, self_offset), h);
    return as_strided(buffer, size, stride, offset);
  }
  // Elements of a buffer that both geometries fit into.
  static int64_t reach(IntList size_a, IntList stride_a, int64_t offset_a, IntList size_b,
                       IntList stride_b, int64_t offset_b) {
    auto last = [](IntList size, IntList stride, int64_t at) {
      for (size_t i = 0; i < size.size(); ++i)
        at += (std::max<int64_t>(size[i], 1) - 1) * stride[i];
      return at;
    };
    return std::max(last(size_a, stride_a, offset_a), last(size_b, stride_b, offset_b)) + 1;
  }
};

struct AsStridedBackward {
  static constexpr const char* name = "as_strided_backward";
  static constexpr bool any_device = true;
  static constexpr bool takes_float8 = true;
  static Spec check(const Tensor& g, IntList self_size, IntList, int64_t, IntList, IntList,
                    int64_t) {
    return {self_size, g.dtype(), g.device()};
  }
  static void run(const Tensor& g, IntList self_size, IntList self_stride, int64_t self_offset,
                  IntList size, IntList stride, int64_t offset, const Tensor& out) {
    const bool adds_up = !is_dense(size, stride) && may_repeat(size, stride);
    if (adds_up && is_float8(g.dtype())) {
      const Tensor sum = make_tensor(self_size, DType::Float32, g.device());
      run(convert_data(g, sum.dtype()), self_size, self_stride, self_offset, size, stride, offset,
          sum);
      return copy_data(out, sum);
    }
    const Tensor buffer = make_tensor(
        Dims{ViewByGeometry::reach(self_size, self_stride, self_offset, size, stride, offset)},
        g.dtype(), g.device());
    fill_data(buffer, 0);
    const Tensor window = buffer.alias(size, stride, offset);
    if (!adds_up)
      copy_data(window, g);
    else if (device_traits(g).separate_memory)
      accumulate_by_index(buffer, window, g);
    else
      accumulate(window, g);
    copy_data(out, buffer.alias(self_size, self_stride, self_offset));
  }
  static Grads grad(const Ctx&, const Tensor& h, const Tensor&, IntList self_size,
                    IntList self_stride, int64_t self_offset, IntList size, IntList stride,
                    int64_t offset) {
    return {ViewByGeometry::read_by_geometry(h, self_size, self_stride, self_offset, size, stride,
                                             offset)};
  }

  // Might two indices meet at one address? Sorted by stride, each must step over everything below
  // it.
  static bool may_repeat(IntList size, IntList stride) {
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (size_t i = 0; i < size.size(); ++i) {
      if (size[i] > 1) dims.emplace_back(stride[i], size[i]);
    }
    std::sort(dims.begin(), dims.end());
    int64_t below = 0;
    for (const auto& [step, n] : dims) {
      if (step <= below) return true;
      below += (n - 1) * step;
    }
    return false;
  }
  // The same where the host cannot: every element's address is spelled out.
  static void accumulate_by_index(const Tensor& buffer, const Tensor& window, const Tensor& g) {
    NoGradGuard no_grad;
    Tensor places =
        full(Dims(uint32_t(g.dim()), 1), window.offset(), DType::Int64, std::nullopt, g.device());
    for (int64_t d = 0; d < g.dim(); ++d) {
      Dims along(uint32_t(g.dim()), 1);
      along[size_t(d)] = g.sizes()[size_t(d)];
      const Tensor steps =
          arange(Scalar(g.sizes()[size_t(d)]), DType::Int64, std::nullopt, g.device());
      places = places + reshape(steps, along) * Scalar(window.strides()[size_t(d)]);
    }
    put_(buffer, places, contiguous_data(g), true);
  }
  // window += g where addresses repeat: element by element, in order. Rare: gradients of
  // overlapping as_strided views.
  static void accumulate(const Tensor& window, const Tensor& g) {
    const Tensor values = contiguous_data(g);
    Dims index(uint32_t(g.dim()), 0);
    dispatch_all(name, g.dtype(), [&]<typename T>() {
      if constexpr (!std::is_same_v<T, bool>) {
        const T* from = values.data<T>();
        for (int64_t i = 0; i < g.numel(); ++i) {
          int64_t at = 0;
          for (size_t d = 0; d < index.size(); ++d) at += index[d] * window.strides()[d];
          T& to = window.data<T>()[at];
          to = T(opmath<T>(to) + opmath<T>(from[i]));
          for (size_t d = index.size(); d-- > 0;) {
            if (++index[d] < g.sizes()[d]) break;
            index[d] = 0;
          }
        }
      }
    });
  }
};

struct Expand {
  static constexpr const char* name = "expand";
  static Geometry view(const Tensor& x, IntList size, bool) {
    check_shape(int64_t(size.size()) >= x.dim(), name, "the target ", size,
                " has fewer dimensions than shape ", x.sizes());
    Dims target(size);
    const size_t lead = size.size() - size_t(x.dim());
    for (size_t i = 0; i < size.size(); ++i) {
      if (size[i] != -1) {
        check(size[i] >= 0, ErrorKind::Runtime, name,
              "sizes must not be negative (-1 keeps a size), got ", size);
        continue;
      }
      check_shape(i >= lead, name, "-1 is not allowed for the new leading dimension ", int64_t(i),
                  " in ", size);
      target[i] = x.sizes()[i - lead];
    }
    return {target, expand_strides(name, x.sizes(), x.strides(), target), x.offset()};
  }
  // The engine sums over the repeated dims.
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, IntList, bool) { return {g}; }
};

struct ExpandAs {
  static constexpr const char* name = "expand_as";
  static Tensor call(const Tensor& x, const Tensor& other) { return expand(x, other.sizes()); }
};

struct BroadcastTo {
  static constexpr const char* name = "broadcast_to";
  static Tensor call(const Tensor& x, IntList size) { return expand(x, size); }
};

struct Transpose {
  static constexpr const char* name = "transpose";
  static Geometry view(const Tensor& x, int64_t dim0, int64_t dim1) {
    Geometry g{x.sizes(), x.strides(), x.offset()};
    const auto a = size_t(wrap_dim(name, dim0, x.dim())), b = size_t(wrap_dim(name, dim1, x.dim()));
    if (x.dim() == 0) return g;
    std::swap(g.sizes[a], g.sizes[b]);
    std::swap(g.strides[a], g.strides[b]);
    return g;
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t dim0, int64_t dim1) {
    return {transpose(g, dim0, dim1)};
  }
};

struct Swapaxes : Transpose {
  static constexpr const char* name = "swapaxes";
};

struct Permute {
  static constexpr const char* name = "permute";
  static Geometry view(const Tensor& x, IntList dims) {
    check_shape(int64_t(dims.size()) == x.dim(), name, "dims ", dims, " must name all ", x.dim(),
                " dimensions of shape ", x.sizes());
    Geometry g{x.sizes(), x.strides(), x.offset()};
    uint64_t seen = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto d = size_t(wrap_dim(name, dims[i], x.dim()));
      check(!(seen >> d & 1), ErrorKind::Runtime, name, "dim ", int64_t(d),
            " appears more than once in ", dims);
      seen |= uint64_t(1) << d;
      g.sizes[i] = x.sizes()[d];
      g.strides[i] = x.strides()[d];
    }
    return g;
  }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, IntList dims) {
    Dims back(uint32_t(dims.size()), 0);
    for (size_t i = 0; i < dims.size(); ++i)
      back[size_t(wrap_dim(name, dims[i], int64_t(dims.size())))] = int64_t(i);
    return {permute(g, back)};
  }
};

struct T {
  static constexpr const char* name = "t";
  static Tensor call(const Tensor& x) {
    check(x.dim() <= 2, ErrorKind::Runtime, name,
          "expects a tensor with at most 2 dimensions, got shape ", x.sizes(),
          "; use .mT or transpose()");
    return x.dim() < 2 ? alias(x) : transpose(x, 0, 1);
  }
};

struct View {
  static constexpr const char* name = "view";
  static Geometry view(const Tensor& x, IntList size) {
    Geometry g{infer_size(name, size, x.numel()), {}, x.offset()};
    check(view_strides(x.sizes(), x.strides(), g.sizes, g.strides), ErrorKind::Runtime, name,
          "shape ", size, " is not possible without a copy for shape ", x.sizes(), " with strides ",
          x.strides(), "; use reshape()");
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList) {
    return {reshape(g, c.sizes(0))};
  }
};

struct Reshape {
  static constexpr const char* name = "reshape";
  static Tensor call(const Tensor& x, IntList shape) {
    const Dims target = infer_size(name, shape, x.numel());
    Dims strides;
    if (view_strides(x.sizes(), x.strides(), target, strides)) return view(x, target);
    return view(clone(x, MemoryFormat::Contiguous), target);
  }
};

struct Unsqueeze {
  static constexpr const char* name = "unsqueeze";
  static Geometry view(const Tensor& x, int64_t dim) {
    const auto d = uint32_t(wrap_dim(name, dim, x.dim() + 1));
    Geometry g{x.sizes(), x.strides(), x.offset()};
    const int64_t stride = d < uint32_t(x.dim()) ? x.sizes()[d] * x.strides()[d] : 1;
    g.sizes.insert(d, 1);
    g.strides.insert(d, stride);
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t) {
    return {reshape(g, c.sizes(0))};
  }
};

struct Squeeze {
  static constexpr const char* name = "squeeze";
  static Geometry view(const Tensor& x) {
    Geometry g{{}, {}, x.offset()};
    for (int64_t d = 0; d < x.dim(); ++d) {
      if (x.sizes()[size_t(d)] == 1) continue;
      g.sizes.push_back(x.sizes()[size_t(d)]);
      g.strides.push_back(x.strides()[size_t(d)]);
    }
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&) {
    return {reshape(g, c.sizes(0))};
  }
};

struct SqueezeDim {
  static constexpr const char* name = "squeeze";
  static Geometry view(const Tensor& x, IntList dims) {
    uint64_t named = 0;
    for (int64_t d : dims) {
      const uint64_t bit = uint64_t(1) << wrap_dim(name, d, x.dim());
      check(!(named & bit), ErrorKind::Runtime, name, "dim ", d, " appears twice in ", dims);
      named |= bit;
    }
    Geometry g{{}, {}, x.offset()};
    for (int64_t d = 0; d < x.dim(); ++d) {
      if (x.sizes()[size_t(d)] == 1 && named >> d & 1) continue;
      g.sizes.push_back(x.sizes()[size_t(d)]);
      g.strides.push_back(x.strides()[size_t(d)]);
    }
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, IntList) {
    return {reshape(g, c.sizes(0))};
  }
};

struct Diagonal {
  static constexpr const char* name = "diagonal";
  static Geometry view(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
    const auto a = uint32_t(wrap_dim(name, dim1, x.dim())),
               b = uint32_t(wrap_dim(name, dim2, x.dim()));
    check(x.dim() >= 2, ErrorKind::Index, name, "needs at least 2 dimensions, got shape ",
          x.sizes());
    check(a != b, ErrorKind::Runtime, name, "dim1 and dim2 must differ, both are ", int64_t(a));
    const int64_t rows = x.sizes()[a], cols = x.sizes()[b];
    const int64_t n = std::max<int64_t>(
        0, offset >= 0 ? std::min(rows, cols - offset) : std::min(rows + offset, cols));
    const int64_t shift = n == 0        ? 0
                          : offset >= 0 ? offset * x.strides()[b]
                                        : -offset * x.strides()[a];
    Geometry g{x.sizes(), x.strides(), x.offset() + shift};
    const int64_t step = x.strides()[a] + x.strides()[b];
    g.sizes.erase(std::max(a, b)), g.sizes.erase(std::min(a, b));
    g.strides.erase(std::max(a, b)), g.strides.erase(std::min(a, b));
    g.sizes.push_back(n);
    g.strides.push_back(step);
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t offset, int64_t dim1,
                    int64_t dim2) {
    const Tensor whole = zeros_for(c, g);
    copy_(diagonal(whole, offset, dim1, dim2), g);
    return {whole};
  }
};

struct Unfold {
  static constexpr const char* name = "unfold";
  static Geometry view(const Tensor& x, int64_t dimension, int64_t size, int64_t step) {
    const auto d = uint32_t(wrap_dim(name, dimension, x.dim()));
    const int64_t n = x.dim() == 0 ? 1 : x.sizes()[d], stride = x.dim() == 0 ? 1 : x.strides()[d];
    check(size >= 0, ErrorKind::Runtime, name, "size must not be negative, got ", size);
    check(step > 0, ErrorKind::Runtime, name, "step must be positive, got ", step);
    check(size <= n, ErrorKind::Runtime, name, "size ", size, " is larger than dimension ",
          int64_t(d), " with size ", n);
    Geometry g{x.sizes(), x.strides(), x.offset()};
    if (x.dim() > 0) {
      g.sizes[d] = (n - size) / step + 1;
      g.strides[d] = stepped(stride, step);
    }
    g.sizes.push_back(size);
    g.strides.push_back(stride);
    return g;
  }
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dimension, int64_t size,
                    int64_t step) {
    // Windows may overlap: add them up one position of the window at a time.
    const Tensor whole = zeros_for(c, g);
    const int64_t d = wrap_dim(name, dimension, whole.dim());
    if (whole.dim() == 0) return {reshape(g, c.sizes(0))};
    const int64_t windows = g.sizes()[size_t(d)];
    for (int64_t i = 0; i < size; ++i)
      add_(slice(whole, d, i, i + (windows - 1) * step + 1, step), select(g, -1, i));
    return {whole};
  }
};

struct Detach {
  static constexpr const char* name = "detach";
  static Tensor call(const Tensor& x) {
    Tensor out = x.alias();
    if (is_tracked(x)) op::note_cut(std::span(&out, 1), requires_grad(x) ? name : nullptr, x);
    return out;
  }
};

struct Detach_ {
  static constexpr const char* name = "detach_";
  static Tensor call(const Tensor& x) {
    check(!x.impl()->base, ErrorKind::Runtime, name,
          "a view cannot be detached in place; use detach()");
    if (GradMeta* meta = grad_meta_or_null(x)) {
      meta->grad_fn = nullptr;
      meta->slot = 0;
      meta->requires_grad = false;
    }
    return x;
  }
};

struct Alias {
  static constexpr const char* name = "alias";
  static Geometry view(const Tensor& x) { return {x.sizes(), x.strides(), x.offset()}; }
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&) { return {g}; }
};

}  // namespace rush

#include "ops/views.inc"
