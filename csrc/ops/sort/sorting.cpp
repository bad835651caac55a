// Ordering. The kernels (device/sort.h) want rows: here the dim is brought to the end, results
// are brought back.
#include "device/sort.h"

#include "ops/framework/data.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

// t with dim d last, over the same memory.
Tensor dim_last(const Tensor& t, int64_t d) {
  Dims sizes = t.sizes(), strides = t.strides();
  if (t.dim() > 0) {
    sizes.push_back(sizes[size_t(d)]);
    strides.push_back(strides[size_t(d)]);
    sizes.erase(uint32_t(d));
    strides.erase(uint32_t(d));
  }
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}

// A result as the kernels write it: rows, contiguous; brought to its place at the end.
class RowResult {
 public:
  RowResult(const Tensor& out, int64_t dim)
      : place_(dim_last(out, dim)),
        rows_(place_.is_contiguous() ? place_
                                     : make_tensor(place_.sizes(), out.dtype(), out.device())) {}
  const Tensor& rows() const { return rows_; }
  void finish() const {
    if (!rows_.is_same(place_)) copy_data(place_, rows_);
  }

 private:
  Tensor place_, rows_;
};

Tensor rows_of(const Tensor& x, int64_t dim) { return contiguous_data(dim_last(x, dim)); }

int64_t length_of(const Tensor& x, int64_t d) { return x.dim() == 0 ? 1 : x.sizes()[size_t(d)]; }

void check_ordered(const char* op, const Tensor& x) {
  check_dtype(!x.is_complex(), op, "complex numbers have no order");
}

Dims without_dim(const Tensor& x, int64_t d, bool keepdim) {
  Dims sizes = x.sizes();
  if (x.dim() == 0) return sizes;
  if (keepdim)
    sizes[size_t(d)] = 1;
  else
    sizes.erase(uint32_t(d));
  return sizes;
}

// The gradient of values picked along dim: each goes back to where the value stood.
Grads scatter_back(const Ctx& c, const Tensor& g, int64_t dim, bool restore_dim = false) {
  Tensor at = c.out(1), part = g;
  if (restore_dim && c.sizes(0).size() > 0) {
    at = unsqueeze(at, dim);
    part = unsqueeze(part, dim);
  }
  return {scatter_add(zeros(c.sizes(0), g.dtype(), std::nullopt, g.device()), dim, at, part)};
}

}  // namespace

struct Sort {
  static constexpr const char* name = "sort";
  static constexpr bool any_device = true;
  static constexpr bool refuses_overlap = true;
  static std::array<Spec, 2> check(const Tensor& self, int64_t dim, bool, std::optional<bool>) {
    check_ordered(name, self);
    wrap_dim(name, dim, self.dim());
    return {like(self), like(self, DType::Int64)};
  }
  static void run(const Tensor& self, int64_t dim, bool descending, std::optional<bool>,
                  const Tensor& values, const Tensor& indices) {
    const int64_t d = wrap_dim(name, dim, self.dim());
    const RowResult v(values, d), i(indices, d);
    sort_loops(self).sort(name, rows_of(self, d), descending, v.rows(), i.rows());
    v.finish(), i.finish();
  }
  static constexpr uint32_t non_differentiable = 2;
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, int64_t dim, bool,
                    std::optional<bool>) {
    return scatter_back(c, g[0], dim);
  }
};

struct Argsort {
  static constexpr const char* name = "argsort";
  static Tensor call(const Tensor& self, int64_t dim, bool descending, bool) {
    check_ordered(name, self);
    op::refuse_float8(name, self);
    const int64_t d = wrap_dim(name, dim, self.dim());
    const Tensor indices = like(self, DType::Int64).allocate();
    if (self.is_meta()) return indices;
    const RowResult i(indices, d);
    sort_loops(self).sort(name, rows_of(self, d), descending, Tensor(), i.rows());
    i.finish();
    return indices;
  }
};

struct Msort {
  static constexpr const char* name = "msort";
  static constexpr bool refuses_overlap = true;
  static Tensor call(const Tensor& self) { return std::get<0>(sort(self, 0)); }
};

struct Topk {
  static constexpr const char* name = "topk";
  static constexpr bool any_device = true;
  static constexpr bool refuses_overlap = true;
  static std::array<Spec, 2> check(const Tensor& self, int64_t k, int64_t dim, bool, bool) {
    check_ordered(name, self);
    const int64_t d = wrap_dim(name, dim, self.dim());
    rush::check(k >= 0 && k <= length_of(self, d), ErrorKind::Runtime, name, "k = ", k,
                " is out of range for dimension ", d, " with size ", length_of(self, d));
    Dims sizes = self.sizes();
    if (self.dim() > 0) sizes[size_t(d)] = k;
    return {Spec{sizes, self.dtype(), self.device()}, Spec{sizes, DType::Int64, self.device()}};
  }
  static void run(const Tensor& self, int64_t k, int64_t dim, bool largest, bool,
                  const Tensor& values, const Tensor& indices) {
    const int64_t d = wrap_dim(name, dim, self.dim());
    const RowResult v(values, d), i(indices, d);
    const int64_t most = self.dim() > 0 ? k : 1;  // a 0-d result has its element, whatever k is
    sort_loops(self).topk(name, rows_of(self, d), most, largest, v.rows(), i.rows());
    v.finish(), i.finish();
  }
  static constexpr uint32_t non_differentiable = 2;
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, int64_t, int64_t dim, bool, bool) {
    return scatter_back(c, g[0], dim);
  }
};

namespace {

// kthvalue, median, nanmedian, mode: one element of each row.
std::array<Spec, 2> check_pick(const char* op, const Tensor& self, int64_t dim, bool keepdim) {
  check_ordered(op, self);
  const int64_t d = wrap_dim(op, dim, self.dim());
  check_index(length_of(self, d) > 0, op, "dimension ", d, " has size 0 and no element to pick");
  const Dims sizes = without_dim(self, d, keepdim);
  return {Spec{sizes, self.dtype(), self.device()}, Spec{sizes, DType::Int64, self.device()}};
}

template <class F>
void run_pick(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices, F&& f) {
  if (values.numel() == 0) return;
  const Tensor v = values.is_contiguous()
                       ? values
                       : make_tensor(values.sizes(), values.dtype(), values.device());
  const Tensor i = indices.is_contiguous()
                       ? indices
                       : make_tensor(indices.sizes(), DType::Int64, indices.device());
  f(rows_of(self, dim), v, i);
  if (!v.is_same(values)) copy_data(values, v);
  if (!i.is_same(indices)) copy_data(indices, i);
}

template <class Block>
struct PickByDim {
  static constexpr bool any_device = true;
  static constexpr bool refuses_overlap = true;
  static std::array<Spec, 2> check(const Tensor& self, int64_t dim, bool keepdim) {
    return check_pick(Block::name, self, dim, keepdim);
  }
  static void run(const Tensor& self, int64_t dim, bool, const Tensor& values,
                  const Tensor& indices) {
    run_pick(self, wrap_dim(Block::name, dim, self.dim()), values, indices, Block::pick);
  }
  static constexpr uint32_t non_differentiable = 2;
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, int64_t dim, bool keepdim) {
    return scatter_back(c, g[0], dim, !keepdim);
  }
};

// The median of all elements; its gradient is shared by all that equal it.
template <class Block>
struct PickOfAll {
  static constexpr bool any_device = true;
  static Spec check(const Tensor& self) {
    check_ordered(Block::name, self);
    rush::check(self.numel() > 0 || self.is_floating(), ErrorKind::Runtime, Block::name,
                "a tensor without elements has no median");
    return {{}, self.dtype(), self.device()};
  }
  static void run(const Tensor& self, const Tensor& out) {
    if (self.numel() == 0) return fill_data(out, limits<double>::nan);
    const Tensor flat = contiguous_data(self);
    sort_loops(self).select(
        Block::name,
        make_tensor(flat.storage(), Dims{flat.numel()}, Dims{1}, flat.offset(), flat.dtype()),
        Block::rank, 0, out, Tensor());
  }
  static constexpr uint32_t needs[] = {in(0) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& self) {
    const Tensor& m = c.out();
    const Tensor same =
        cast(logical_or(eq(self, m), logical_and(isnan(self), isnan(m))), g.dtype());
    return {g / sum(same) * same};
  }
};

}  // namespace

struct Kthvalue {
  static constexpr const char* name = "kthvalue";
  static constexpr bool any_device = true;
  static constexpr bool refuses_sharing = true;
  static std::array<Spec, 2> check(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
    const std::array<Spec, 2> specs = check_pick(name, self, dim, keepdim);
    const int64_t d = wrap_dim(name, dim, self.dim());
    rush::check(k >= 1 && k <= length_of(self, d), ErrorKind::Runtime, name, "k = ", k,
                " is out of range for dimension ", d, " with size ", length_of(self, d));
    return specs;
  }
  static void run(const Tensor& self, int64_t k, int64_t dim, bool, const Tensor& values,
                  const Tensor& indices) {
    run_pick(self, wrap_dim(name, dim, self.dim()), values, indices,
             [&](const Tensor& x, const Tensor& v, const Tensor& i) {
               sort_loops(x).select(name, x, Rank::Kth, k - 1, v, i);
             });
  }
  static constexpr uint32_t non_differentiable = 2;
  static constexpr uint32_t needs[] = {result(1)};
  static Grads grad(const Ctx& c, GradSpan g, const Tensor&, int64_t, int64_t dim, bool keepdim) {
    return scatter_back(c, g[0], dim, !keepdim);
  }
};

struct Median : PickOfAll<Median> {
  static constexpr const char* name = "median";
  static constexpr Rank rank = Rank::Median;
};

struct Nanmedian : PickOfAll<Nanmedian> {
  static constexpr const char* name = "nanmedian";
  static constexpr Rank rank = Rank::NanMedian;
};

struct MedianDim : PickByDim<MedianDim> {
  static constexpr const char* name = "median";
  static void pick(const Tensor& x, const Tensor& v, const Tensor& i) {
    sort_loops(x).select(name, x, Rank::Median, 0, v, i);
  }
};

struct NanmedianDim : PickByDim<NanmedianDim> {
  static constexpr const char* name = "nanmedian";
  static void pick(const Tensor& x, const Tensor& v, const Tensor& i) {
    sort_loops(x).select(name, x, Rank::NanMedian, 0, v, i);
  }
};

struct ModeDim : PickByDim<ModeDim> {
  static constexpr const char* name = "mode";
  static void pick(const Tensor& x, const Tensor& v, const Tensor& i) {
    sort_loops(x).mode(name, x, v, i);
  }
};

}  // namespace rush

#include "ops/sorting.inc"
