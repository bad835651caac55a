// How tangents of views are read from and written to those of their base; see autograd/forward.h.
#include <algorithm>
#include <utility>

#include "autograd/forward.h"
#include "ops/framework/operators.h"

namespace rush {
namespace {

// Of what a real view of a complex tensor, or the reverse, is a part.
Tensor as_seen(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  return t.is_complex() ? view_as_real(t) : view_as_complex(t);
}

Tensor lay_out(const Tensor& tangent, const Tensor& base) {
  Tensor out = new_empty_strided(tangent, base.sizes(), base.strides());
  copy_(out, tangent);
  return out;
}

// Where `view` starts in the base's tangent: its place in the base, from the tangent's own start.
int64_t start(const Tensor& seen, const Tensor& base, const Tensor& view) {
  return view.offset() - base.offset() * base.element_size() / view.element_size() + seen.offset();
}

// The bytes of the storage that a tensor reaches: from, and up to.
std::pair<int64_t, int64_t> reach(const Tensor& t) {
  int64_t last = t.offset();
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.sizes()[d] == 0) return {t.offset() * t.element_size(), t.offset() * t.element_size()};
    last += (t.sizes()[d] - 1) * t.strides()[d];
  }
  return {t.offset() * t.element_size(), (last + 1) * t.element_size()};
}

// as_strided may reach beyond its base, where tangents are 0: a tangent of the base, not yet filled,
// in memory that has room for both. Undefined where the base's own will do.
Tensor with_room(const Tensor& like, const Tensor& base, const Tensor& view) {
  const auto [begin, end] = reach(base);
  const auto [first, last] = reach(view);
  if (first == last || (begin <= first && last <= end)) return {};
  const int64_t size = base.element_size(), from = std::min(begin, first) / size;
  const int64_t count = (std::max(end, last) + size - 1) / size - from;
  const Tensor room = new_zeros(like, Dims{count}, base.dtype());
  return as_strided(room, base.sizes(), base.strides(), base.offset() - from);
}

// The view's part of a tangent that has room for it.
Tensor window_in(const Tensor& tangent, const Tensor& base, const Tensor& view) {
  const Tensor seen = as_seen(tangent, view.dtype());
  return view_by_geometry(seen, view.sizes(), view.strides(), start(seen, base, view),
                          seen.strides(), seen.offset());
}

Tensor read_view(const Tensor& tangent, const Tensor& base, const Tensor& view) {
  const Tensor room = with_room(tangent, base, view);
  if (!room.defined()) return window_in(tangent, base, view);
  copy_(room, tangent);
  return window_in(room, base, view);
}

Tensor write_view(const Tensor& tangent, const Tensor& base, const Tensor& view,
                  const Tensor& part) {
  // A copy: others may hold the old one.
  const bool of_part = part.defined() && (!tangent.defined() || part.is_batched());
  const Tensor& like = of_part ? part : tangent;
  Tensor out = with_room(like, base, view);
  if (!out.defined()) out = new_empty_strided(like, base.sizes(), base.strides(), base.dtype());
  tangent.defined() ? copy_(out, tangent) : zero_(out);
  const Tensor window = window_in(out, base, view);
  part.defined() ? copy_(window, part) : zero_(window);
  return out;
}

const bool g_filled = [] {
  forward_ops() = {lay_out, read_view, write_view};
  return true;
}();

}  // namespace
}  // namespace rush
