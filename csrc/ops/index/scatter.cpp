// Writing along one dim. All of these are lines of writes (device/index.h); indices are checked
// before anything is written.
#include "ops/framework/data.h"
#include "ops/framework/fits.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"
#include "ops/index/index_plan.h"

namespace rush {
namespace {

void check_same_type(const char* op, const Tensor& self, const Tensor& src) {
  check_dtype(src.dtype() == self.dtype(), op, "the tensor is ", self.dtype(), ", the source is ",
              src.dtype(), ": they must be the same");
  check(src.device() == self.device(), ErrorKind::Device, op, "the source is on ", src.device(),
        ", the tensor is on ", self.device());
}

// ---- scatter: an index a place ----

Spec check_scatter(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                   const Tensor* src) {
  if (index.numel() > 0) check_index_type(op, self, index);  // an empty one points nowhere
  const int64_t d = wrap_dim(op, dim, self.dim());
  if (src) check_same_type(op, self, *src);
  const Spec spec{self.sizes(), self.dtype(), self.device()};
  if (index.numel() == 0) return spec;
  auto rank = [](const Tensor& t) { return std::max<int64_t>(t.dim(), 1); };
  check_shape(rank(index) == rank(self), op,
              "index must have as many dimensions as the tensor: shapes ", index.sizes(), " and ",
              self.sizes());
  check_shape(!src || rank(index) == rank(*src), op,
              "index must have as many dimensions as src: shapes ", index.sizes(), " and ",
              src ? src->sizes() : Dims());
  const Tensor i = at_least_1d(index), s = at_least_1d(self), from = src ? at_least_1d(*src) : i;
  for (int64_t k = 0; k < i.dim(); ++k) {
    const int64_t n = i.sizes()[size_t(k)];
    check_shape((k == d || n <= s.sizes()[size_t(k)]) && n <= from.sizes()[size_t(k)], op,
                "index of shape ", index.sizes(), " must not exceed shape ", self.sizes(),
                " except along dimension ", d, ", nor src in any dimension",
                src ? concat(" (shape ", src->sizes(), ")") : std::string());
  }
  return spec;
}

// Lines along dim of `out`; src may be a single element that is repeated.
ScatterLines scatter_lines(const char* op, const Tensor& out, int64_t dim,
                           const Tensor& index_tensor, const Tensor& src) {
  const Tensor to = at_least_1d(out), index = at_least_1d(as_index(op, index_tensor));
  const bool repeated = src.dim() == 0 && index.numel() != 1;
  const Tensor here = placed(src, out.device());  // a number may still be on the host
  const Tensor from =
      repeated ? window(here, index.sizes(), Dims(uint32_t(index.dim()), 0)) : at_least_1d(here);
  const auto d = size_t(wrap_dim(op, dim, to.dim()));
  Dims shape = index.sizes();
  shape[d] = 1;
  return {window(to, shape, to.strides()),
          window(index, shape, index.strides()),
          window(from, shape, from.strides()),
          index.sizes()[d],
          index.strides()[d],
          from.strides()[d],
          {op, to.sizes()[d], to.strides()[d], int64_t(d)}};
}

// out = self, then the writes.
void run_scatter(const char* op, ScatterFn fn, const Tensor& self, int64_t dim, const Tensor& index,
                 const Tensor& src, const Tensor& out) {
  if (index.numel() > 0) {
    const ScatterLines lines = scatter_lines(op, out, dim, index, src);
    check_indices(as_index(op, index), lines.range);
    if (!out.is_same(self)) copy_data(out, self);
    index_loops(out).scatter(fn, lines, 1);
  } else if (!out.is_same(self)) {
    copy_data(out, self);
  }
}

// The corner of src that index covers, as a view; and the gradient of src from that of the corner.
Tensor corner_of(const Tensor& src, const Dims& sizes) {
  Tensor corner = src;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != src.sizes()[d]) corner = slice(corner, int64_t(d), 0, sizes[d], 1);
  }
  return corner;
}
Tensor padded(const Tensor& part, const Dims& sizes) {
  if (part.sizes() == sizes) return part;
  const Tensor whole = new_zeros(part, sizes);
  copy_(corner_of(whole, part.sizes()), part);
  return whole;
}
Tensor gather_for_src(const Ctx& c, const Tensor& g, int64_t dim, const Tensor& index) {
  return padded(gather(g, dim, index), c.sizes(2));
}

template <OpName N, ScatterFn fn>
struct ScatterTensor : IndexWriter {
  static constexpr const char* name = N.text;
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
    return check_scatter(name, self, dim, index, &src);
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                  const Tensor& out) {
    run_scatter(name, fn, self, dim, index, src, out);
  }
};

}  // namespace

struct ScatterSrc : ScatterTensor<"scatter", ScatterFn::Set> {
  static constexpr uint32_t needs[] = {in(1), 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, const Tensor& index,
                    const Tensor&) {
    return {c.wants(0) ? scatter(g, dim, index, Scalar(0)) : Tensor(), Tensor(),
            c.wants(2) ? gather_for_src(c, g, dim, index) : Tensor()};
  }
};

struct ScatterValue : IndexWriter {
  static constexpr const char* name = "scatter";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
    check_fits(name, self.dtype(), value);
    return check_scatter(name, self, dim, index, nullptr);
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                  const Tensor& out) {
    run_scatter(name, ScatterFn::Set, self, dim, index, scalar_tensor(value, self.dtype()), out);
  }
  static constexpr uint32_t needs[] = {in(1)};
  static Grads grad(const Ctx&, const Tensor& g, const Tensor&, int64_t dim, const Tensor& index,
                    const Scalar&) {
    return {scatter(g, dim, index, Scalar(0)), Tensor()};
  }
};

struct ScatterAdd : ScatterTensor<"scatter_add", ScatterFn::Add> {
  static constexpr uint32_t needs[] = {0, 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, const Tensor& index,
                    const Tensor&) {
    return {g, Tensor(), c.wants(2) ? gather_for_src(c, g, dim, index) : Tensor()};
  }
};

namespace {

const char* long_name(const char* op, std::string_view reduce) {
  check(reduce == "add" || reduce == "multiply", ErrorKind::Runtime, op,
        "reduce must be 'add' or 'multiply', got '", reduce, "'");
  return reduce == "add" ? "sum" : "prod";
}

}  // namespace

struct ScatterReduceByName : IndexWriter {
  static constexpr const char* name = "scatter";
  static Tensor call(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                     std::string_view reduce) {
    return scatter_reduce(self, dim, index, src, long_name(name, reduce), true);
  }
};

struct ScatterValueReduce : IndexWriter {
  static constexpr const char* name = "scatter";
  static Tensor call(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                     std::string_view reduce) {
    const char* fn = long_name(name, reduce);
    check_fits(name, self.dtype(), value);
    const Tensor one = scalar_tensor(value, self.dtype(), self.device());
    return scatter_reduce(self, dim, index, index.dim() == 0 ? one : expand(one, index.sizes()), fn,
                          true);
  }
};

// ---- folding with a count: scatter_reduce and index_reduce ----

namespace {

struct Fold {
  ScatterFn fn;
  bool is_mean;
  Fold(const char* op, std::string_view reduce, DType t, bool has_sum) {
    is_mean = reduce == "mean";
    if (is_mean || (has_sum && reduce == "sum"))
      fn = ScatterFn::Add;
    else if (reduce == "prod")
      fn = ScatterFn::Mul;
    else if (reduce == "amax")
      fn = ScatterFn::Max;
    else if (reduce == "amin")
      fn = ScatterFn::Min;
    else
      fail(ErrorKind::Runtime, op, "reduce must be one of ", has_sum ? "'sum', " : "",
           "'prod', 'mean', 'amax', 'amin', got '", reduce, "'");
    if (t == DType::Bool)
      fn = fn == ScatterFn::Max ? ScatterFn::Add : fn == ScatterFn::Min ? ScatterFn::Mul : fn;
    check(!is_complex(t) || fn == ScatterFn::Add || fn == ScatterFn::Mul, ErrorKind::Runtime, op,
          "complex numbers have no order for '", reduce, "'");
  }
  // What changes nothing when folded in.
  Scalar identity(DType t) const {
    if (fn == ScatterFn::Add) return 0;
    if (fn == ScatterFn::Mul) return 1;
    const bool largest = fn == ScatterFn::Min;
    return dispatch_real("scatter_reduce", t, [&]<typename T>() -> Scalar {
      if constexpr (std::is_integral_v<T>)
        return largest ? Scalar(int64_t(limits<T>::max)) : Scalar(int64_t(limits<T>::lowest));
      else
        return largest ? Scalar(limits<double>::inf) : Scalar(-limits<double>::inf);
    });
  }
};

// Runs `lines` (over out, indices checked) as a fold of src into out.
void run_fold(const Fold& fold, ScatterLines lines, bool include_self, const Tensor& out) {
  const Tensor src = lines.src;
  const int64_t src_step = lines.src_step;
  auto repeat = [&](const Tensor& one) {
    lines.src = window(one, lines.dst.sizes(), Dims(uint32_t(lines.dst.dim()), 0));
    lines.src_step = 0;
  };
  if (!include_self) {
    repeat(scalar_tensor(fold.identity(out.dtype()), out.dtype(), out.device()));
    index_loops(out).scatter(ScatterFn::Set, lines, 1);
  }
  lines.src = src;
  lines.src_step = src_step;
  index_loops(out).scatter(fold.fn, lines, 1);
  if (!fold.is_mean) return;
  const Tensor count = like(out, DType::Int64).allocate();  // of what went into each place
  fill_data(count, include_self ? 1 : 0);
  repeat(scalar_tensor(1, DType::Int64, out.device()));
  lines.dst = make_tensor(count.storage(), lines.dst.sizes(),
                          count.dim() == 0 ? Dims{1} : count.strides(), 0, DType::Int64);
  const auto d = size_t(lines.range.dim);
  lines.range.stride = count.dim() == 0 ? 1 : count.strides()[d];
  index_loops(out).scatter(ScatterFn::Add, lines, 1);
  index_loops(out).divide_by_count(out, count);
}

// The gradients of self and of the part of src that index covers. Equal extremes share their
// gradient.
std::pair<Tensor, Tensor> fold_grads(const Tensor& g, const Tensor& self, int64_t dim,
                                     const Tensor& index, const Tensor& src,
                                     std::string_view reduce, bool include_self,
                                     const Tensor& result) {
  const Tensor zero = zeros_like(g);
  Tensor of_self, of_src;
  if (reduce == "sum") {
    of_self = g;
    of_src = gather(g, dim, index);
  } else if (reduce == "mean") {
    const Tensor n = scatter_add(include_self ? ones_like(g) : zero, dim, index, ones_like(src));
    of_self = g / masked_fill(n, eq(n, wrap_number(0)), wrap_number(1));
    of_src = gather(of_self, dim, index);
  } else if (reduce == "prod") {
    // Divides by the factor in question, or leaves it out where it is zero.
    const Tensor nonzero_self = masked_fill(self, eq(self, wrap_number(0)), wrap_number(1));
    of_self = g * conj(scatter_reduce(nonzero_self, dim, index, src, reduce, include_self) /
                       nonzero_self);
    const Tensor is_zero = eq(src, wrap_number(0));
    const Tensor zeros_there =
        gather(scatter_add(zero, dim, index, cast(is_zero, g.dtype())), dim, index);
    const Tensor only_zero = logical_and(is_zero, eq(zeros_there, wrap_number(1)));
    const Tensor others = scatter_reduce(
        self, dim, index, masked_fill(src, only_zero, wrap_number(1)), reduce, include_self);
    of_src = where(
        only_zero, gather(g * conj(others), dim, index),
        gather(g * conj(result), dim, index) / conj(masked_fill(src, is_zero, wrap_number(1))));
  } else {
    Tensor self_wins = cast(eq(self, result), g.dtype());
    if (!include_self) self_wins = scatter(self_wins, dim, index, Scalar(0));
    const Tensor src_wins = cast(eq(src, gather(result, dim, index)), g.dtype());
    const Tensor share = g / scatter_add(self_wins, dim, index, src_wins);
    of_self = self_wins * share;
    of_src = src_wins * gather(share, dim, index);
  }
  if (!include_self) of_self = scatter(of_self, dim, index, Scalar(0));
  return {of_self, of_src};
}

}  // namespace

struct ScatterReduce : IndexWriter {
  static constexpr const char* name = "scatter_reduce";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                    std::string_view reduce, bool) {
    Fold(name, reduce, self.dtype(), true);
    return check_scatter(name, self, dim, index, &src);
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                  std::string_view reduce, bool include_self, const Tensor& out) {
    if (index.numel() > 0)
      check_indices(as_index(name, index), scatter_lines(name, out, dim, index, src).range);
    if (!out.is_same(self)) copy_data(out, self);
    if (index.numel() == 0) return;
    run_fold(Fold(name, reduce, self.dtype(), true), scatter_lines(name, out, dim, index, src),
             include_self, out);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | in(2) | kOut, 0,
                                       in(0) | in(1) | in(2) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& self, int64_t dim,
                    const Tensor& index, const Tensor& src, std::string_view reduce,
                    bool include_self) {
    const auto [of_self, of_src] = fold_grads(g, self, dim, index, corner_of(src, index.sizes()),
                                              reduce, include_self, c.out());
    return {of_self, Tensor(), c.wants(2) ? padded(of_src, c.sizes(2)) : Tensor()};
  }
};

// ---- index_*: an index a slice ----

namespace {

void check_slices(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                  const Tensor& source) {
  check_index_type(op, self, index);
  check_same_type(op, self, source);
  check_index(index.dim() <= 1, op, "index must be a vector, got shape ", index.sizes());
  const auto d = size_t(wrap_dim(op, dim, self.dim()));
  const Tensor s = at_least_1d(self), from = at_least_1d(source);
  // PyTorch has an IndexError here for index_copy, and a RuntimeError for its kin.
  check(from.dim() == s.dim() || source.dim() == 0, ErrorKind::Range, op, "the source of shape ",
        source.sizes(), " must have as many dimensions as shape ", self.sizes());
  check(from.dim() == s.dim() && from.sizes()[d] == index.numel(), ErrorKind::Range, op,
        "the source of shape ", source.sizes(), " must have as many slices along dimension ",
        int64_t(d), " as the index has elements: ", index.numel());
  for (size_t k = 0; k < size_t(s.dim()); ++k) {
    check_shape(k == d || from.sizes()[k] == s.sizes()[k], op, "the source of shape ",
                source.sizes(), " must match shape ", self.sizes(), " except along dimension ",
                int64_t(d));
  }
}

ScatterLines slice_lines(const char* op, const Tensor& out, int64_t dim, const Tensor& index_tensor,
                         const Tensor& source) {
  const Tensor to = at_least_1d(out), index = at_least_1d(as_index(op, index_tensor));
  const auto d = size_t(wrap_dim(op, dim, to.dim()));
  const bool repeated = source.dim() == 0;
  const Tensor here = placed(source, out.device());
  const Tensor from = repeated ? window(here, to.sizes(), Dims(uint32_t(to.dim()), 0)) : here;
  Dims shape = to.sizes();
  shape[d] = 1;
  return {window(to, shape, to.strides()),
          window(index, shape, Dims(shape.size(), 0)),
          window(from, shape, from.strides()),
          index.numel(),
          index.strides()[0],
          from.strides()[d],
          {op, to.sizes()[d], to.strides()[d], int64_t(d)}};
}

void run_slices(const ScatterFn fn, const Tensor& self, ScatterLines lines, const Tensor& index,
                const Tensor& out, const Scalar& alpha = 1) {
  lines.checked = index.numel() != 1 || out.numel() == 0 || !index_loops(out).scatter_checks_one;
  if (lines.checked) check_indices(as_index(lines.range.op, index), lines.range);
  if (!out.is_same(self)) copy_data(out, self);
  index_loops(out).scatter(fn, lines, alpha);
}

}  // namespace

struct IndexAdd : IndexWriter {
  static constexpr const char* name = "index_add";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    const Scalar& alpha) {
    check_slices(name, self, dim, index, source);
    check_fits(name, self.dtype(), alpha);
    return {self.sizes(), self.dtype(), self.device()};
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                  const Scalar& alpha, const Tensor& out) {
    run_slices(ScatterFn::Add, self, slice_lines(name, out, dim, index, source), index, out, alpha);
  }
  static constexpr uint32_t needs[] = {0, 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, const Tensor& index,
                    const Tensor&, const Scalar& alpha) {
    return {g, Tensor(),
            c.wants(2) ? reshape(index_select(g, dim, index), c.sizes(2)) * alpha : Tensor()};
  }
};

struct IndexCopy : IndexWriter {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "index_copy";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
    check_slices(name, self, dim, index, source);
    return {self.sizes(), self.dtype(), self.device()};
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                  const Tensor& out) {
    run_slices(ScatterFn::Set, self, slice_lines(name, out, dim, index, source), index, out);
  }
  static constexpr uint32_t needs[] = {in(1), 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, const Tensor& index,
                    const Tensor&) {
    return {c.wants(0) ? index_fill(g, dim, index, wrap_number(0)) : Tensor(), Tensor(),
            c.wants(2) ? reshape(index_select(g, dim, index), c.sizes(2)) : Tensor()};
  }
};

struct IndexFill : IndexWriter {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "index_fill";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
    rush::check(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, ErrorKind::Range,
                name, "index must be int64 or int32, got ", index.dtype());
    check_index_type(name, self, index);
    rush::check(index.dim() <= 1, ErrorKind::Range, name, "index must be a vector, got shape ",
                index.sizes());
    wrap_dim(name, dim, self.dim());
    check_shape(value.dim() == 0, name, "the value must be a number or a 0-d tensor, got shape ",
                value.sizes());
    if (!value.is_meta()) check_fits(name, self.dtype(), value.item());
    return like(self);
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value,
                  const Tensor& out) {
    ScatterLines lines =
        slice_lines(name, out, dim, index, scalar_tensor(value.item(), self.dtype()));
    lines.range.wraps = true;
    run_slices(ScatterFn::Set, self, lines, index, out);
  }
  static constexpr uint32_t needs[] = {in(1), 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, int64_t dim, const Tensor& index,
                    const Tensor&) {
    return {c.wants(0) ? index_fill(g, dim, index, wrap_number(0)) : Tensor(), Tensor(),
            c.wants(2) ? sum(g * index_fill(zeros_like(g), dim, index, wrap_number(1))) : Tensor()};
  }
};

struct IndexReduce : IndexWriter {
  static constexpr const char* name = "index_reduce";
  static Spec check(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool) {
    check_slices(name, self, dim, index, source);
    Fold(name, reduce, self.dtype(), false);
    return {self.sizes(), self.dtype(), self.device()};
  }
  static void run(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce, bool include_self, const Tensor& out) {
    const ScatterLines lines = slice_lines(name, out, dim, index, source);
    check_indices(as_index(name, index), lines.range);
    if (!out.is_same(self)) copy_data(out, self);
    run_fold(Fold(name, reduce, self.dtype(), false), lines, include_self, out);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1) | in(2) | kOut, 0,
                                       in(0) | in(1) | in(2) | kOut};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& self, int64_t dim,
                    const Tensor& index, const Tensor& source, std::string_view reduce,
                    bool include_self) {
    // The same as scatter_reduce with the index repeated over the other dims.
    Dims shape(uint32_t(source.dim()), 1);
    if (source.dim() > 0) shape[size_t(wrap_dim(name, dim, source.dim()))] = index.numel();
    const Tensor places = expand(reshape(index, shape), source.sizes());
    const auto [of_self, of_source] =
        fold_grads(g, self, dim, places, source, reduce, include_self, c.out());
    return {of_self, Tensor(), of_source};
  }
};

}  // namespace rush

#include "ops/scatter.inc"
