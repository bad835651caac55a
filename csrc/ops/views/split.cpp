// Splitting tensors: views of pieces that share one node.
#include <algorithm>

#include "ops/framework/op.h"
#include "ops/framework/op_name.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

int64_t extent(const Tensor& x, int64_t d) { return x.sizes()[size_t(d)]; }

// The gradient of a tensor that was cut into pieces along dim: theirs, joined. Each piece on its
// own would make one of the whole size, and n pieces n of them.
struct Cut {
  static constexpr const char* name = "split";
  static constexpr const char* arguments[] = {"self", "split_sizes", "dim"};  // it is no row
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor&, IntList extents, int64_t dim) {
    return {cat(filled(c, grads, extents, dim, true), dim)};
  }
  // Zeros where nothing came back.
  static std::vector<Tensor> filled(const Ctx& c, GradSpan grads, IntList extents, int64_t dim,
                                    bool keeps_dim) {
    std::vector<Tensor> out(grads.begin(), grads.end());
    const Tensor* some = nullptr;
    for (const Tensor& g : grads) some = g.defined() ? &g : some;
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i].defined()) continue;
      Dims sizes;
      for (size_t d = 0; d < c.sizes(0).size(); ++d) {
        if (int64_t(d) != dim)
          sizes.push_back(c.sizes(0)[d]);
        else if (keeps_dim)
          sizes.push_back(extents[i]);
      }
      out[i] = zeros(sizes, c.dtype(0), std::nullopt, some->device());
    }
    return out;
  }
};
struct CutApart {  // dim is gone
  static constexpr const char* name = "unbind";
  static constexpr const char* const* arguments = Cut::arguments;
  static Grads grad(const Ctx& c, GradSpan grads, const Tensor&, IntList extents, int64_t dim) {
    return {stack(Cut::filled(c, grads, extents, dim, false), dim)};
  }
};

template <class Op>
void share_history(const Tensor& x, std::vector<Tensor>& parts, IntList extents, int64_t dim) {
  if (parts.size() < 2 || !is_tracked(x) || !grad_enabled() || x.is_batched() || !requires_grad(x))
    return;
  const auto node = op::make_node<Op>(x, extents, dim);
  for (const Tensor& part : parts) {
    const uint32_t slot = node->add_result(part);
    set_history(part, Ref<Node>(Ref<Node>::share(node.get())), slot);
  }
}

// A list of so many tensors fits into memory? Asked before the first is made: pieces may be empty,
// so the tensor itself does not bound their number.
void check_pieces(const char* op, int64_t count, int64_t extent) {
  constexpr int64_t kMostEmpty = 1 << 24, kMost = int64_t(1) << 31;
  check(count <= kMost && count - extent <= kMostEmpty, ErrorKind::OutOfMemory, op, count,
        " pieces of a dimension of size ", extent, " need about ",
        double(count) * double(sizeof(TensorImpl)) / 1e9, " GB for their descriptions alone");
}

std::vector<Tensor> pieces(const Tensor& x, int64_t dim, IntList ends) {
  std::vector<Tensor> out;
  out.reserve(ends.size());
  std::vector<int64_t> extents;
  int64_t at = 0, sum = 0;
  for (int64_t end : ends) {
    out.push_back(slice(x, dim, at, std::max(at, end), 1));
    extents.push_back(extent(out.back(), dim));
    sum += extents.back();
    at = end;
  }
  // tensor_split may be given places that go back: such pieces overlap.
  if (sum == extent(x, dim)) share_history<Cut>(x, out, extents, dim);
  return out;
}

}  // namespace

namespace {

int64_t dim_to_split(const char* op, const Tensor& x, int64_t dim) {
  check(x.dim() > 0, ErrorKind::Runtime, op, "a 0-d tensor cannot be split");
  return wrap_dim(op, dim, x.dim());
}

}  // namespace

struct Split {
  static constexpr const char* name = "split";
  static std::vector<Tensor> call(const Tensor& x, int64_t split_size, int64_t dim) {
    check(x.dim() > 0, ErrorKind::Runtime, name, "a 0-d tensor cannot be split");
    check(split_size >= 0, ErrorKind::Runtime, name, "split_size must not be negative, got ",
          split_size);
    const int64_t d = wrap_dim(name, dim, x.dim()), n = extent(x, d);
    check(split_size > 0 || n == 0, ErrorKind::Runtime, name,
          "split_size 0 is only possible for a dimension of size 0, this one has ", n);
    Dims none{0};
    if (split_size == 0) return pieces(x, d, none);
    check_pieces(name, n / split_size, n);
    std::vector<int64_t> ends;
    for (int64_t left = n; left > split_size; left -= split_size)
      ends.push_back(n - left + split_size);
    ends.push_back(n);
    return pieces(x, d, ends);
  }
};

struct SplitWithSizes {
  static constexpr const char* name = "split_with_sizes";
  static std::vector<Tensor> call(const Tensor& x, IntList sizes, int64_t dim) {
    const int64_t d = dim_to_split(name, x, dim);
    std::vector<int64_t> ends;
    int64_t left = extent(x, d);
    for (int64_t s : sizes) {
      check(s >= 0, ErrorKind::Runtime, name, "sizes must not be negative, got ", sizes);
      check_shape(s <= left, name, "the sizes ", sizes, " add up to more than the ", extent(x, d),
                  " of dimension ", d);
      left -= s;
      ends.push_back(extent(x, d) - left);
    }
    check_shape(left == 0, name, "the sizes ", sizes, " add up to ", extent(x, d) - left,
                ", dimension ", d, " has size ", extent(x, d));
    return pieces(x, d, ends);
  }
};

struct SplitSizes : SplitWithSizes {
  static constexpr const char* name = "split";
};

struct Chunk {
  static constexpr const char* name = "chunk";
  static std::vector<Tensor> call(const Tensor& x, int64_t chunks, int64_t dim) {
    check(x.dim() > 0, ErrorKind::Runtime, name, "a 0-d tensor cannot be cut into chunks");
    check(chunks > 0, ErrorKind::Runtime, name, "chunks must be positive, got ", chunks);
    const int64_t n = extent(x, wrap_dim(name, dim, x.dim())),
                  size = n / chunks + (n % chunks != 0);
    if (size > 0) return split(x, size, dim);
    check_pieces(name, chunks, n);
    return split(x, std::vector<int64_t>(size_t(chunks), 0), dim);
  }
};

struct TensorSplit {
  static constexpr const char* name = "tensor_split";
  static std::vector<Tensor> call(const Tensor& x, int64_t sections, int64_t dim) {
    check(x.dim() > 0, ErrorKind::Runtime, name, "a 0-d tensor cannot be split");
    check(sections > 0, ErrorKind::Runtime, name, "sections must be positive, got ", sections);
    const int64_t d = wrap_dim(name, dim, x.dim()), n = extent(x, d);
    check_pieces(name, sections, n);
    std::vector<int64_t> ends;
    for (int64_t i = 1, at = 0; i <= sections; ++i)
      ends.push_back(at += n / sections + (i <= n % sections));
    return pieces(x, d, ends);
  }
};

struct TensorSplitIndices {
  static constexpr const char* name = "tensor_split";
  static std::vector<Tensor> call(const Tensor& x, IntList indices, int64_t dim) {
    const int64_t d = dim_to_split(name, x, dim);
    std::vector<Tensor> out;
    int64_t at = 0;
    for (int64_t end : indices) {
      out.push_back(slice(x, d, at, end, 1));
      at = end;
    }
    out.push_back(slice(x, d, at, extent(x, d), 1));
    return out;
  }
};

namespace {

// hsplit, vsplit and dsplit: tensor_split along a fixed dim of tensors with `rank` dims or more. A
// vector has no second dim: hsplit takes the first.
template <OpName N, int64_t rank, int64_t dim>
struct SplitAlong {
  static constexpr const char* name = N.text;
  static int64_t dim_of(const Tensor& x) {
    check(x.dim() >= rank, ErrorKind::Runtime, name, "needs at least ", rank,
          " dimensions, got shape ", x.sizes());
    return std::min(dim, x.dim() - 1);
  }
};
template <OpName N, int64_t rank, int64_t dim>
struct EqualPieces : SplitAlong<N, rank, dim> {
  static std::vector<Tensor> call(const Tensor& x, int64_t sections) {
    const int64_t d = SplitAlong<N, rank, dim>::dim_of(x);
    check(sections > 0 && extent(x, d) % sections == 0, ErrorKind::Runtime, N.text, "dimension ", d,
          " with size ", extent(x, d), " does not divide into ", sections, " equal pieces");
    return tensor_split(x, sections, d);
  }
};
template <OpName N, int64_t rank, int64_t dim>
struct PiecesAt : SplitAlong<N, rank, dim> {
  static std::vector<Tensor> call(const Tensor& x, IntList at) {
    return tensor_split(x, at, SplitAlong<N, rank, dim>::dim_of(x));
  }
};

}  // namespace

struct Hsplit : EqualPieces<"hsplit", 1, 1> {};
struct HsplitIndices : PiecesAt<"hsplit", 1, 1> {};
struct Vsplit : EqualPieces<"vsplit", 2, 0> {};
struct VsplitIndices : PiecesAt<"vsplit", 2, 0> {};
struct Dsplit : EqualPieces<"dsplit", 3, 2> {};
struct DsplitIndices : PiecesAt<"dsplit", 3, 2> {};

struct Unbind {
  static constexpr const char* name = "unbind";
  static std::vector<Tensor> call(const Tensor& x, int64_t dim) {
    check_index(x.dim() > 0, name, "a 0-d tensor has no dim to unbind");
    const int64_t d = wrap_dim(name, dim, x.dim()), n = extent(x, d);
    check_pieces(name, n, n);
    std::vector<Tensor> out;
    out.reserve(size_t(n));
    for (int64_t i = 0; i < n; ++i) out.push_back(select(x, d, i));
    share_history<CutApart>(x, out, IntList(), d);
    return out;
  }
};

}  // namespace rush

#include "ops/split.inc"
