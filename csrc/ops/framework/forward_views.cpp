// How tangents of views are read from and written to those of their base; see autograd/forward.h.
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

Tensor read_view(const Tensor& tangent, const Tensor& base, const Tensor& view) {
  const Tensor seen = as_seen(tangent, view.dtype());
  return view_by_geometry(seen, view.sizes(), view.strides(), start(seen, base, view),
                          seen.strides(), seen.offset());
}

Tensor write_view(const Tensor& tangent, const Tensor& base, const Tensor& view,
                  const Tensor& part) {
  // A copy: others may hold the old one.
  const bool of_part = part.defined() && (!tangent.defined() || part.is_batched());
  const Tensor out =
      new_empty_strided(of_part ? part : tangent, base.sizes(), base.strides(), base.dtype());
  tangent.defined() ? copy_(out, tangent) : zero_(out);
  const Tensor window = read_view(out, base, view);
  part.defined() ? copy_(window, part) : zero_(window);
  return out;
}

const bool g_filled = [] {
  forward_ops() = {lay_out, read_view, write_view};
  return true;
}();

}  // namespace
}  // namespace rush
