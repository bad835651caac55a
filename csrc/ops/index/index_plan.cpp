#include "ops/index/index_plan.h"

#include <limits>

#include "device/index.h"
#include "ops/framework/data.h"

namespace rush {
namespace {

void append(Dims& to, IntList from) {
  for (int64_t v : from) to.push_back(v);
}

// One entry of the list of indices with the dims of self that it covers.
struct Entry {
  Tensor tensor;
  int64_t dim, dims;
};

void check_mask(const char* op, const Tensor& self, const Tensor& mask, int64_t at) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    check_index(at + d < self.dim() && mask.sizes()[size_t(d)] == self.sizes()[size_t(at + d)], op,
                "the mask of shape ", mask.sizes(), " does not fit shape ", self.sizes(),
                " from dimension ", at, " on");
  }
}

std::vector<Entry> entries_of(const char* op, const Tensor& self, TensorList indices) {
  std::vector<Entry> entries;
  int64_t dim = 0;
  for (const Tensor& t : indices) {
    if (!t.defined()) {
      ++dim;
      continue;
    }
    check_index(is_mask(t) || t.dtype() == DType::Int64 || t.dtype() == DType::Int32, op,
                "indices must be int64, int32, bool or uint8 tensors, got ", t.dtype());
    check(t.device() == self.device() || t.is_cpu(), ErrorKind::Device, op, "the indices are on ",
          t.device(), ", the tensor is on ", self.device());
    if (is_mask(t)) {
      check_index(t.dim() > 0, op, "a 0-d mask covers no dimension");
      check_mask(op, self, t, dim);
    }
    entries.push_back({t, dim, is_mask(t) ? t.dim() : 1});
    dim += entries.back().dims;
  }
  check_index(dim <= self.dim(), op, "too many indices: shape ", self.sizes(), " has ", self.dim(),
              " dimensions, ", dim, " were indexed");
  check(!entries.empty(), ErrorKind::Range, op, "at least one index must be a tensor, got ",
        indices.empty() ? "none" : "None only");
  return entries;
}

// The indexed dims stand where the first index does if nothing lies between the indices, else in
// front.
bool are_adjacent(const std::vector<Entry>& entries) {
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].dim != entries[i - 1].dim + entries[i - 1].dims) return false;
  }
  return true;
}

void join_shape(const char* op, Dims& shape, const Dims& other) {
  Dims out(std::max(shape.size(), other.size()), 1);
  for (uint32_t i = 1; i <= out.size(); ++i) {
    const int64_t a = i <= shape.size() ? shape[shape.size() - i] : 1,
                  b = i <= other.size() ? other[other.size() - i] : 1;
    check_index(a == b || a == 1 || b == 1, op, "the indices do not broadcast together: shapes ",
                shape, " and ", other);
    out[out.size() - i] = a == 1 ? b : a;
  }
  shape = out;
}

Dims index_shape(const char* op, const Entry& e, int64_t nonzeros) {
  check(nonzeros >= 0 || !is_mask(e.tensor), ErrorKind::NotImplemented, op,
        "a mask on the meta device has no values, so the result has no shape");
  return is_mask(e.tensor) ? Dims{nonzeros} : e.tensor.sizes();
}

// Splits the sizes (or strides) of self's unindexed dims into those before and after the indexed
// ones.
void kept_dims(const std::vector<Entry>& entries, const Dims& all, Dims& before, Dims& after) {
  const bool adjacent = are_adjacent(entries);
  size_t next = 0;
  for (int64_t d = 0; d < int64_t(all.size()); ++d) {
    if (next < entries.size() && d == entries[next].dim) {
      d += entries[next++].dims - 1;
      continue;
    }
    (adjacent && next == 0 ? before : after).push_back(all[size_t(d)]);
  }
}

// An index tensor for one dim of self.
struct Single {
  Tensor index;
  int64_t dim, size, stride;
};

// Masks become positions: in one flat dim where self's dims can be read as one, else one tensor a
// dim.
void resolve(const char* op, const Tensor& self, const Entry& e, std::vector<Single>& out) {
  if (!is_mask(e.tensor)) {
    out.push_back({placed(as_index(op, e.tensor), self.device()), e.dim,
                   self.sizes()[size_t(e.dim)], self.strides()[size_t(e.dim)]});
    return;
  }
  const NonzeroCounts nonzero(contiguous_data(placed(e.tensor, self.device())));
  const IntList sizes = IntList(self.sizes()).subspan(size_t(e.dim), size_t(e.dims)),
                strides = IntList(self.strides()).subspan(size_t(e.dim), size_t(e.dims));
  Dims flat;
  if (const int64_t n = numel(sizes); view_strides(sizes, strides, Dims{n}, flat)) {
    const Tensor positions = make_tensor(Dims{nonzero.total()}, DType::Int64, self.device());
    nonzero.write_positions(positions);
    out.push_back({positions, e.dim, n, flat[0]});
    return;
  }
  const Tensor columns = make_tensor(Dims{e.dims, nonzero.total()}, DType::Int64, self.device());
  nonzero.write_coordinates(columns, 1, nonzero.total());
  for (int64_t d = 0; d < e.dims; ++d) {
    const Tensor column = make_tensor(columns.storage(), Dims{nonzero.total()}, Dims{1},
                                      d * nonzero.total(), DType::Int64);
    out.push_back({column, e.dim + d, sizes[size_t(d)], strides[size_t(d)]});
  }
}

// Several indices fold into one offset (in elements) a place.
Tensor fold(const char* op, const std::vector<Single>& singles, const Dims& sizes) {
  const Tensor offsets = make_tensor(sizes, DType::Int64, singles[0].index.device());
  fill_data(offsets, 0);
  for (const Single& s : singles) {
    const IndexRange range{op, s.size, 1, s.dim, true};
    check_indices(s.index, range);
    index_loops(offsets).add_offsets(
        offsets,
        window(s.index, sizes, expand_strides(op, s.index.sizes(), s.index.strides(), sizes)),
        s.size, s.stride);
  }
  return offsets;
}

}  // namespace

Tensor as_index(const char* op, const Tensor& index) {
  if (index.dtype() == DType::Int64) return index;
  check_dtype(index.dtype() == DType::Int32, op, "indices must be int64 or int32, got ",
              index.dtype());
  return convert_data(index, DType::Int64);
}

Dims indexed_shape(const char* op, const Tensor& self, TensorList indices) {
  const std::vector<Entry> entries = entries_of(op, self, indices);
  Dims shape, before, after;
  for (const Entry& e : entries) {
    const bool countable = is_mask(e.tensor) && !e.tensor.is_meta();
    join_shape(
        op, shape,
        index_shape(op, e, countable ? NonzeroCounts(contiguous_data(e.tensor)).total() : -1));
  }
  kept_dims(entries, self.sizes(), before, after);
  append(before, shape);
  append(before, after);
  return before;
}

IndexPlan::IndexPlan(const char* op, const Tensor& self, TensorList indices) {
  const std::vector<Entry> entries = entries_of(op, self, indices);
  kept_dims(entries, self.sizes(), before_sizes, after_sizes);
  kept_dims(entries, self.strides(), before_strides, after_strides);
  std::vector<Single> singles;
  for (const Entry& e : entries) resolve(op, self, e, singles);
  for (const Single& s : singles) join_shape(op, index_sizes, s.index.sizes());
  // A GPU finds an index out of range behind the program; where no index is within it, there is
  // nothing that may be read meanwhile.
  const bool reads = !self.is_cpu() && !self.is_meta() && numel(index_sizes) > 0;
  for (const Single& s : singles)
    check_index(!reads || s.size > 0, op, "index is out of bounds for dimension ", s.dim,
                " with size 0");
  if (singles.size() == 1) {
    index = singles[0].index;
    range = {op, singles[0].size, singles[0].stride, singles[0].dim, true};
  } else {
    index = fold(op, singles, index_sizes);
    range = {op, std::numeric_limits<int64_t>::max(), 1, 0, false};
  }
}

Tensor IndexPlan::spread(const Tensor& self) const {
  Dims sizes = before_sizes, strides = before_strides;
  append(sizes, index_sizes);
  append(strides, Dims(index_sizes.size(), 0));
  append(sizes, after_sizes);
  append(strides, after_strides);
  return window(self, sizes, strides);
}

Tensor IndexPlan::spread_index() const {
  Dims sizes = before_sizes, strides(before_sizes.size(), 0);
  append(sizes, index_sizes);
  append(strides, index.strides());
  append(sizes, after_sizes);
  append(strides, Dims(after_sizes.size(), 0));
  return window(index, sizes, strides);
}

}  // namespace rush
