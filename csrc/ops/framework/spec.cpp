#include "ops/framework/spec.h"

#include "core/small_vector.h"
#include "device/deferred.h"
#include "ops/framework/arranged.h"

namespace rush {
namespace {

// Strides of t as seen from the whole shape: 0 along dims that it is repeated over.
Dims spread_strides(const Tensor& t, const Dims& sizes) {
  Dims strides(uint32_t(sizes.size()), 0);
  const size_t skip = sizes.size() - size_t(t.dim());
  for (size_t d = skip; d < sizes.size(); ++d)
    if (t.sizes()[d - skip] == sizes[d]) strides[d] = t.strides()[d - skip];
  return strides;
}

// Does dim a lie inside dim b? The first input decides that has steps along both.
bool lies_inside(size_t a, size_t b, const Dims& sizes, std::span<const Dims> strides,
                 bool& known) {
  known = true;
  for (const Dims& s : strides) {
    if (s[a] == 0 || s[b] == 0) continue;
    if (s[a] != s[b]) return s[a] < s[b];
    if (sizes[b] > sizes[a]) return true;
  }
  known = false;
  return false;
}

// The layout of a fresh pointwise result: dense, with the dims in the order in which the inputs
// have them in memory. Dims that no input orders stay row-major.
void choose_layout(Spec& spec, std::initializer_list<const Tensor*> inputs) {
  SmallVector<Dims, 3> strides;
  bool row_major = true;
  for (const Tensor* t : inputs) {
    if (t->dim() == 0) continue;
    row_major = row_major && t->is_contiguous();
    strides.push_back(spread_strides(*t, spec.sizes));
  }
  if (row_major) return;
  const size_t n = spec.sizes.size();
  Dims order;  // from the innermost dim outwards
  for (size_t d = n; d-- > 0;) order.push_back(int64_t(d));
  for (size_t i = 1; i < n; ++i) {
    for (size_t at = i, before = i; before-- > 0;) {
      bool known = false;
      const bool swap = lies_inside(size_t(order[at]), size_t(order[before]), spec.sizes,
                                    {strides.data(), strides.size()}, known);
      if (swap) {
        std::swap(order[at], order[before]);
        at = before;
      } else if (known) {
        break;
      }
    }
  }
  Dims result(uint32_t(n), 0);
  int64_t step = 1;  // too large a product is found by whoever allocates
  for (const int64_t d : order) {
    result[size_t(d)] = step;
    step = int64_t(uint64_t(step) * uint64_t(std::max<int64_t>(spec.sizes[size_t(d)], 1)));
  }
  if (!is_contiguous(spec.sizes, result)) spec.strides = result;
}

}  // namespace

Device common_device(std::string_view op, std::initializer_list<const Tensor*> tensors) {
  const Tensor* decisive = nullptr;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (!decisive) {
      decisive = t;
    } else if (!(t->device() == decisive->device())) {
      if (decisive->dim() == 0 && decisive->is_cpu()) {
        decisive = t;
      } else if (!(t->dim() == 0 && t->is_cpu())) {
        fail(ErrorKind::Device, op, "all tensors must be on one device, got ", decisive->device(),
             " and ", t->device(), ": move them with .to(device)");
      }
    }
  }
  return decisive ? decisive->device() : Device{};
}

Spec like(const Tensor& x, DType dtype) {
  Spec spec{x.sizes(), dtype, x.device()};
  if (!x.is_contiguous()) spec.strides = preserved_strides(x.sizes(), x.strides());
  return spec;
}

Spec pointwise(std::string_view op, const Tensor& a, const Tensor& b, DType dtype) {
  const Device device = a.device() == b.device() ? a.device() : common_device(op, {&a, &b});
  if (a.is_contiguous() && (b.dim() == 0 || (b.is_contiguous() && a.sizes() == b.sizes())))
      [[likely]] {
    return {a.sizes(), dtype, device};
  }
  Spec spec{broadcast_shapes(op, a.sizes(), b.sizes()), dtype, device};
  choose_layout(spec, {&a, &b});
  return spec;
}

Spec pointwise(std::string_view op, const Tensor& a, const Tensor& b, const Tensor& c,
               DType dtype) {
  Spec spec{broadcast_shapes(op, broadcast_shapes(op, a.sizes(), b.sizes()), c.sizes()), dtype,
            common_device(op, {&a, &b, &c})};
  choose_layout(spec, {&a, &b, &c});
  return spec;
}

Tensor op::allocate_form(const Spec& seen, const Dims& strides) {
  if (!seen.strides.empty() || strides.empty()) return seen.allocate();
  return make_tensor(seen.sizes, strides, seen.dtype, seen.device);
}

Tensor op::pending_form(const Spec& seen, const Dims& strides) {
  if (!deferred::pays(seen.sizes, seen.device)) return allocate_form(seen, strides);
  return make_pending(seen.sizes, seen.strides.empty() ? strides : seen.strides, seen.dtype,
                      seen.device);
}

}  // namespace rush
