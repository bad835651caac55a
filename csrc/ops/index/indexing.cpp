// Reading and writing by tensors of indices. What self[indices] means stands in index_plan.h, the
// loops in device/index.h.
#include <algorithm>

#include "device/index.h"
#include "device/runtime.h"
#include "ops/framework/data.h"
#include "ops/framework/operators.h"
#include "ops/index/index_plan.h"

namespace rush {
namespace {

// The mask, if it is all there is to the indices.
const Tensor* only_mask(TensorList indices) {
  const Tensor* mask = nullptr;
  for (const Tensor& t : indices) {
    if (!t.defined()) continue;
    if (mask || !is_mask(t)) return nullptr;
    mask = &t;
  }
  return mask;
}

int64_t leading_holes(TensorList indices) {
  int64_t n = 0;
  while (n < int64_t(indices.size()) && !indices[size_t(n)].defined()) ++n;
  return n;
}

// The mask that covers dims [at, at + mask.dim()) of `like`, repeated over the other dims.
Tensor spread_mask(const Tensor& mask, const Tensor& like, int64_t at) {
  Dims strides(uint32_t(like.dim()), 0);
  for (int64_t d = 0; d < mask.dim(); ++d) strides[size_t(at + d)] = mask.strides()[size_t(d)];
  return window(mask, like.sizes(), strides);
}

}  // namespace

struct Index {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "index";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& self, TensorList indices) {
    return {indexed_shape(name, self, indices), self.dtype(), self.device()};
  }
  static void run(const Tensor& self, TensorList indices, const Tensor& out) {
    const Tensor* mask = only_mask(indices);
    if (mask && mask->dim() == self.dim())
      return NonzeroCounts(contiguous_data(placed(*mask, self.device())))
          .select(contiguous_data(self), out);
    const IndexPlan plan(name, self, indices);
    index_loops(out).read_at(out, plan.spread(self), plan.spread_index(), plan.range);
  }
  static constexpr uint32_t needs[] = {in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, TensorList indices) {
    const Tensor zero = new_zeros(g, c.sizes(0));
    Grads grads(c.inputs());
    grads[0] = index_put_(zero, indices, g, !only_mask(indices));
    return grads;
  }
};

struct IndexPut : IndexWriter {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "index_put";
  static Spec check(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
    if (accumulate) op::refuse_float8(name, self);
    check_dtype(values.dtype() == self.dtype(), name, "the values are ", values.dtype(),
                ", the tensor is ", self.dtype(), ": they must be the same");
    rush::check(values.device() == self.device() || (values.dim() == 0 && values.is_cpu()),
                ErrorKind::Device, name, "the values are on ", values.device(),
                ", the tensor is on ", self.device());
    // How many elements a mask without values picks is unknown; the result's shape is not.
    const bool unknown =
        self.is_meta() && std::any_of(indices.begin(), indices.end(),
                                      [](const Tensor& t) { return t.defined() && is_mask(t); });
    // One number fits everywhere; a device that would be waited for need not count for it.
    const bool fits = values.dim() == 0 && only_mask(indices) && device_traits(self).asynchronous;
    if (!unknown && !fits)
      expand_strides(name, values.sizes(), values.strides(), indexed_shape(name, self, indices));
    return like(self);
  }
  static void run(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate,
                  const Tensor& out) {
    if (const Tensor* mask = only_mask(indices); mask && values.numel() == 1 && !accumulate) {
      const Tensor whole = spread_mask(placed(*mask, self.device()), self, leading_holes(indices));
      return index_loops(out).masked_fill(self, whole, values, out);
    }
    const IndexPlan plan(name, out, indices);
    check_indices(plan.index, plan.range);
    if (!out.is_same(self)) copy_data(out, self);
    index_loops(out).scatter(accumulate ? ScatterFn::Add : ScatterFn::Set, lines(plan, values, out),
                             1);
  }
  static constexpr uint32_t needs[] = {in(1), in(1), in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, TensorList indices, const Tensor&,
                    bool accumulate) {
    Grads grads(c.inputs());
    const size_t values = c.inputs() - 1;
    if (c.wants(0))
      grads[0] =
          accumulate ? g : index_put(g, indices, zeros({}, g.dtype(), std::nullopt, g.device()));
    if (c.wants(values)) grads[values] = index(g, indices);
    return grads;
  }

 private:
  // One line a combination of kept dims, as long as there are indices.
  static ScatterLines lines(const IndexPlan& plan, const Tensor& values, const Tensor& out) {
    const int64_t n = numel(plan.index_sizes);
    const Tensor here = placed(values, out.device());
    Tensor source =
        window(here, plan.spread(out).sizes(),
               expand_strides(name, values.sizes(), values.strides(), plan.spread(out).sizes()));
    const size_t at = plan.before_sizes.size(), rank = plan.index_sizes.size();
    Dims step;
    if (!view_strides(plan.index_sizes, IntList(source.strides()).subspan(at, rank), Dims{n},
                      step)) {
      source = clone_data(source, MemoryFormat::Contiguous);
      view_strides(plan.index_sizes, IntList(source.strides()).subspan(at, rank), Dims{n}, step);
    }
    Dims sizes = plan.before_sizes, strides = plan.before_strides, source_strides;
    for (size_t i = 0; i < at; ++i) source_strides.push_back(source.strides()[i]);
    for (size_t i = 0; i < plan.after_sizes.size(); ++i) {
      sizes.push_back(plan.after_sizes[i]);
      strides.push_back(plan.after_strides[i]);
      source_strides.push_back(source.strides()[at + rank + i]);
    }
    const Tensor flat = contiguous_data(plan.index);
    return {window(out, sizes, strides),
            window(flat, sizes, Dims(sizes.size(), 0)),
            window(source, sizes, source_strides),
            n,
            1,
            step[0],
            plan.range};
  }
};

// The elements under a mask of self's shape, which have been counted.
struct MaskedPick {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "index";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& self, const Tensor&, const Tensor&, int64_t count) {
    return {Dims{count}, self.dtype(), self.device()};
  }
  static void run(const Tensor& self, const Tensor& mask, const Tensor& starts, int64_t,
                  const Tensor& out) {
    NonzeroCounts(contiguous_data(mask), starts).select(contiguous_data(self), out);
  }
  static constexpr uint32_t needs[] = {in(1), 0, 0};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& mask, const Tensor&,
                    int64_t) {
    return {masked_scatter(new_zeros(g, c.sizes(0)), mask, g), Tensor(), Tensor()};
  }
};

bool has_gpu_mask(const Tensor& self, TensorList indices) {
  if (!device_traits(self).asynchronous || self.is_batched())
    return false;  // inside vmap: the op's own way
  bool found = false;
  for (const Tensor& t : indices) {
    if (t.defined() && t.is_batched()) return false;
    found = found || (t.defined() && device_traits(t).asynchronous && is_mask(t) && t.dim() > 0);
  }
  return found;
}

std::vector<Tensor> without_masks(TensorList indices) {
  std::vector<Tensor> out;
  for (const Tensor& t : indices) {
    if (t.defined() && is_mask(t) && t.dim() > 0) {
      for (Tensor& column : where(t)) out.push_back(std::move(column));
    } else {
      out.push_back(t);
    }
  }
  return out;
}

Tensor index_by_masks(const Tensor& self, TensorList indices) {
  const Tensor* mask = only_mask(indices);
  if (!mask || mask->sizes() != self.sizes()) return index(self, without_masks(indices));
  const Tensor truth = mask->dtype() == DType::Bool ? *mask : ne(*mask, wrap_number(0));
  const NonzeroCounts counts(contiguous_data(truth));
  return masked_pick(self, truth, counts.counts(), counts.total());
}

namespace {

Tensor zeros_for(const Ctx& c, const Tensor& g) { return new_zeros(g, c.sizes(0)); }

}  // namespace

struct IndexSelect : IndexReader {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "index_select";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index) {
    check_index(index.dim() <= 1, name, "index must be a vector, got shape ", index.sizes());
    check_index_type(name, self, index);
    const auto d = size_t(wrap_dim(name, dim, self.dim()));
    rush::check(self.dim() > 0 || index.numel() == 1, ErrorKind::Range, name,
                "index into a 0-d tensor must have one element, got ", index.numel());
    Spec spec{self.sizes(), self.dtype(), self.device()};
    if (self.dim() > 0) spec.sizes[d] = index.numel();
    return spec;
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
    const auto d = size_t(wrap_dim(name, dim, self.dim()));
    const Tensor source = at_least_1d(self), to = at_least_1d(out),
                 i = at_least_1d(as_index(name, index));
    const IndexRange range{name, source.sizes()[d], source.strides()[d], int64_t(d)};
    if (source.is_contiguous() && to.is_contiguous() && i.is_contiguous()) {
      // By sizes: where a size is 1, a contiguous tensor may have any stride.
      int64_t outer = 1, inner = 1;
      for (size_t k = 0; k < d; ++k) outer *= source.sizes()[k];
      for (size_t k = d + 1; k < source.sizes().size(); ++k) inner *= source.sizes()[k];
      return index_loops(to).copy_slices(to, source, i, outer, inner * source.element_size(),
                                         range);
    }
    Dims source_strides = source.strides(), index_strides(uint32_t(source.dim()), 0);
    source_strides[d] = 0;
    index_strides[d] = i.strides()[0];
    index_loops(to).read_at(to, window(source, to.sizes(), source_strides),
                            window(i, to.sizes(), index_strides), range);
  }
  static constexpr uint32_t needs[] = {in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim,
                    const Tensor& index) {
    return {index_add_(zeros_for(c, g), dim, index, g), Tensor()};
  }
};

struct Gather : IndexReader {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "gather";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, bool) {
    if (index.numel() > 0) check_index_type(name, self, index);  // an empty one points nowhere
    const int64_t d = wrap_dim(name, dim, self.dim());
    check_shape(
        std::max<int64_t>(index.dim(), 1) == std::max<int64_t>(self.dim(), 1) || index.numel() == 0,
        name, "index must have as many dimensions as the tensor: shapes ", index.sizes(), " and ",
        self.sizes());
    for (int64_t i = 0; index.numel() > 0 && i < std::min(self.dim(), index.dim()); ++i) {
      check_shape(i == d || index.sizes()[size_t(i)] <= self.sizes()[size_t(i)], name,
                  "index of shape ", index.sizes(), " must not exceed shape ", self.sizes(),
                  " except along dimension ", d);
    }
    return {index.sizes(), self.dtype(), self.device()};
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, bool, const Tensor& out) {
    if (out.numel() == 0) return;
    const auto d = size_t(wrap_dim(name, dim, self.dim()));
    const Tensor source = at_least_1d(self), to = at_least_1d(out);
    Dims strides = source.strides();
    strides[d] = 0;
    index_loops(to).read_at(to, window(source, to.sizes(), strides),
                            at_least_1d(as_index(name, index)),
                            {name, source.sizes()[d], source.strides()[d], int64_t(d)});
  }
  static constexpr uint32_t needs[] = {in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, const Tensor& index,
                    bool) {
    return {scatter_add_(zeros_for(c, g), dim, index, g), Tensor()};
  }
};

struct Take : IndexReader {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "take";
  static Spec check(const Tensor& self, const Tensor& index) {
    check_index_type(name, self, index);
    return {index.sizes(), self.dtype(), self.device()};
  }
  static void run(const Tensor& self, const Tensor& index, const Tensor& out) {
    const Tensor flat = contiguous_data(self);
    index_loops(out).read_at(out, window(flat, out.sizes(), Dims(uint32_t(out.dim()), 0)),
                             as_index(name, index), {name, self.numel(), 1, 0, true});
  }
  static constexpr uint32_t needs[] = {in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& index) {
    return {put_(zeros_for(c, g), index, g, true), Tensor()};
  }
};

struct Put : IndexWriter {
  static constexpr const char* name = "put";
  static Spec check(const Tensor& self, const Tensor& index, const Tensor& source, bool) {
    check_index_type(name, self, index);
    check_source(name, self, source);
    rush::check(source.numel() == index.numel(), ErrorKind::Range, name,
                "source and index must have as many elements: ", source.numel(), " and ",
                index.numel());
    return like(self);
  }
  static void run(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate,
                  const Tensor& out) {
    const IndexRange range{name, self.numel(), 1, 0, true};
    const Tensor places = contiguous_data(as_index(name, index)), values = contiguous_data(source);
    check_indices(places, range);
    if (!out.is_same(self)) copy_data(out, self);
    const Tensor flat = contiguous_data(out);
    index_loops(flat).scatter(accumulate ? ScatterFn::Add : ScatterFn::Set,
                              {window(flat, {}, {}), window(places, {}, {}), window(values, {}, {}),
                               places.numel(), 1, 1, range},
                              1);
    if (!flat.is_same(out)) copy_data(out, flat);
  }
  static constexpr uint32_t needs[] = {in(1), 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& index,
                    const Tensor&, bool accumulate) {
    const bool clears = c.wants(0) && !accumulate;
    return {clears ? put(g, index, zeros(index.sizes(), g.dtype(), std::nullopt, g.device())) : g,
            Tensor(), c.wants(2) ? reshape(take(g, index), c.sizes(2)) : Tensor()};
  }
};

struct TakeAlongDim {
  static constexpr const char* name = "take_along_dim";
  static constexpr bool refuses_sharing = true;
  static Tensor call(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
    check_dtype(indices.dtype() == DType::Int64, name, "indices must be int64, got ",
                indices.dtype());
    if (!dim)
      return gather(reshape(self, Dims{-1}), 0,
                    counted_from_start(reshape(indices, Dims{-1}), self.numel()));
    check_shape(self.dim() == indices.dim(), name,
                "the tensor and indices must have as many dimensions: shapes ", self.sizes(),
                " and ", indices.sizes());
    const auto d = size_t(wrap_dim(name, *dim, self.dim()));
    if (self.dim() == 0) return gather(self, 0, indices);
    // Both broadcast in all dims but this one.
    Dims a = self.sizes(), b = indices.sizes();
    a[d] = b[d] = 1;
    const Dims common = broadcast_shapes(name, a, b);
    Dims self_sizes = common, index_sizes = common;
    self_sizes[d] = self.sizes()[d];
    index_sizes[d] = indices.sizes()[d];
    return gather(expand(self, self_sizes), *dim,
                  counted_from_start(expand(indices, index_sizes), self.sizes()[d]));
  }

 private:
  // Negative indices count from the end; most callers have none.
  static Tensor counted_from_start(const Tensor& indices, int64_t size) {
    // A device that would have to be waited for counts on its own.
    if (indices.is_meta() ||
        (!device_traits(indices).asynchronous && !any_negative(contiguous_data(indices))))
      return indices;
    return where(lt(indices, wrap_number(0)), indices + Scalar(size), indices);
  }
  static bool any_negative(const Tensor& t) {
    const int64_t *p = t.data<int64_t>(), *end = p + t.numel();
    return std::any_of(p, end, [](int64_t i) { return i < 0; });
  }
};

struct UnravelIndex {
  static constexpr const char* name = "unravel_index";
  static std::vector<Tensor> call(const Tensor& indices, IntList shape) {
    check_dtype(is_integral(indices.dtype()), name, "indices must be integers, got ",
                indices.dtype());
    for (int64_t s : shape)
      check(s >= 0, ErrorKind::Value, name, "sizes must not be negative, got ", shape);
    check(!indices.is_meta(), ErrorKind::NotImplemented, name, "a meta tensor has no values");
    std::vector<Tensor> coordinates(shape.size());
    Tensor rest = indices.dtype() == DType::Int64 ? indices : cast(indices, DType::Int64);
    for (size_t d = shape.size(); d-- > 0;) {
      check(shape[d] > 0 || rest.numel() == 0, ErrorKind::Value, name, "shape ", shape,
            " has no elements to index");
      if (rest.numel() == 0) {
        coordinates[d] = clone(rest);
        continue;
      }
      // Rounded towards minus infinity, so that negative positions count from the end.
      coordinates[d] = remainder(rest, wrap_number(shape[d]));
      rest = floor_divide(rest, wrap_number(shape[d]));
    }
    return coordinates;
  }
};

}  // namespace rush

#include "ops/indexing.inc"
