// Masks. Results whose shape depends on the values are composites: they look at the data before
// they know what to allocate.
#include "device/index.h"
#include "device/runtime.h"
#include "ops/framework/data.h"
#include "ops/framework/fits.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"
#include "ops/index/index_plan.h"

namespace rush {
namespace {

void check_mask(const char* op, const Tensor& self, const Tensor& mask) {
  check_dtype(mask.dtype() == DType::Bool, op, "the mask must be bool, got ", mask.dtype());
  check(mask.device() == self.device(), ErrorKind::Device, op, "the mask is on ", mask.device(),
        ", the tensor is on ", self.device());
}

void check_has_values(const char* op, const Tensor& x) {
  check(!x.is_meta(), ErrorKind::NotImplemented, op,
        "the result's shape depends on the values, and a meta tensor has none");
}

// As in PyTorch the result lies end to end, however self lies: programs call view() on it. Images
// with their channels last stay so: it is how results of convolutions lie that look contiguous.
Spec filled_spec(const char* op, const Tensor& self, const Tensor& mask) {
  Spec spec = pointwise(op, self, mask, self.dtype());
  if (!self.is_channels_last()) spec.strides = {};
  return spec;
}

Tensor coordinates(const char* op, const Tensor& self) {
  check_has_values(op, self);
  op::refuse_float8(op, self);
  const NonzeroCounts nonzero(contiguous_data(self));
  // Coordinates of one dim lie side by side, as in PyTorch.
  const int64_t total = nonzero.total();
  const Tensor out =
      make_tensor(Dims{total, self.dim()}, Dims{1, total}, DType::Int64, self.device());
  nonzero.write_coordinates(out, 1, total);
  return out;
}

}  // namespace

struct MaskedFill : RunsAnywhere {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "masked_fill";
  static constexpr bool in_place_safe = true;
  static Spec check(const Tensor& self, const Tensor& mask, const Tensor& value) {
    check_mask(name, self, mask);
    check_shape(value.dim() == 0, name, "the value must be a number or a 0-d tensor, got shape ",
                value.sizes());
    // A complex number is looked at wherever it is: whether it fits is not its type's alone to say.
    if (value.is_cpu() || (value.is_complex() && !self.is_complex() && !value.is_meta())) {
      const Scalar number = value.item();
      const bool is_real = number.is_complex() && number.to<complex<double>>().im == 0;
      check_fits(name, self.dtype(), is_real ? Scalar(number.to_double()) : number);
    }
    return filled_spec(name, self, mask);
  }
  static void run(const Tensor& self, const Tensor& mask, const Tensor& value, const Tensor& out) {
    index_loops(out).masked_fill(self, mask, value, out);
  }
  static constexpr uint32_t needs[] = {in(1), 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& mask,
                    const Tensor&) {
    return {c.wants(0) ? masked_fill(g, mask, wrap_number(0)) : Tensor(), Tensor(),
            c.wants(2) ? sum(g * mask) : Tensor()};
  }
};

struct MaskedSelect {
  static constexpr const char* name = "masked_select";
  static constexpr bool refuses_sharing = true;
  static Tensor call(const Tensor& self, const Tensor& mask) {
    check_mask(name, self, mask);
    check_has_values(name, self);
    Dims shape = broadcast_shapes(name, self.sizes(), mask.sizes());
    if (shape.empty()) shape = {1};
    const Tensor masks[] = {mask.sizes() == shape ? mask : expand(mask, shape)};
    const Tensor whole = self.sizes() == shape ? self : expand(self, shape);
    return has_gpu_mask(whole, masks) ? index_by_masks(whole, masks) : index(whole, masks);
  }
};

struct MaskedScatter {
  static constexpr bool takes_float8 = true;
  static constexpr const char* name = "masked_scatter";
  static constexpr bool any_device = true;
  static constexpr bool in_place_safe = true;
  static constexpr bool reads_across = true;
  static Spec check(const Tensor& self, const Tensor& mask, const Tensor& source) {
    check_mask(name, self, mask);
    check_source(name, self, source);
    return filled_spec(name, self, mask);
  }
  static void run(const Tensor& self, const Tensor& mask, const Tensor& source, const Tensor& out) {
    const Tensor whole =
        make_tensor(mask.storage(), out.sizes(),
                    expand_strides(name, mask.sizes(), mask.strides(), out.sizes()), mask.offset(),
                    mask.dtype());
    const NonzeroCounts places(contiguous_data(whole));
    if (!device_traits(out).asynchronous)  // total() would wait; such a device checks by itself
      rush::check(places.total() <= source.numel(), ErrorKind::Runtime, name,
                  "the mask is true in ", places.total(), " places, but the source has only ",
                  source.numel(), " elements");
    if (!out.is_same(self)) copy_data(out, self);
    const Tensor target = contiguous_data(out);
    places.place(name, contiguous_data(source), target);
    if (!target.is_same(out)) copy_data(out, target);
  }
  static constexpr uint32_t needs[] = {in(1), 0, in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor&, const Tensor& mask,
                    const Tensor&) {
    return {c.wants(0) ? masked_fill(g, mask, wrap_number(0)) : Tensor(), Tensor(),
            c.wants(2) ? source_grad(c, g, mask) : Tensor()};
  }

 private:
  // Elements of source that were not needed get zero.
  static Tensor source_grad(const Ctx& c, const Tensor& g, const Tensor& mask) {
    const Tensor picked = masked_select(g, mask);
    const int64_t unused = numel(c.sizes(2)) - picked.numel();
    const Tensor parts[] = {picked, zeros(Dims{unused}, g.dtype(), std::nullopt, g.device())};
    return reshape(unused == 0 ? picked : cat(parts), c.sizes(2));
  }
};

struct Nonzero {
  static constexpr const char* name = "nonzero";
  static Tensor call(const Tensor& self) { return coordinates(name, self); }
};

struct Argwhere {
  static constexpr const char* name = "argwhere";
  static Tensor call(const Tensor& self) { return coordinates(name, self); }
};

struct WhereNonzero {
  static constexpr const char* name = "where";
  static std::vector<Tensor> call(const Tensor& condition) {
    check_has_values(name, condition);
    // A 0-d tensor counts as one with a single element.
    const Tensor x =
        condition.dim() == 0 ? condition.alias(Dims{1}, Dims{1}, condition.offset()) : condition;
    const NonzeroCounts nonzero(contiguous_data(x));
    const int64_t n = nonzero.total();
    const Tensor columns = make_tensor(Dims{x.dim(), n}, DType::Int64, x.device());
    nonzero.write_coordinates(columns, 1, n);
    std::vector<Tensor> result;
    for (int64_t d = 0; d < x.dim(); ++d)
      result.push_back(make_tensor(columns.storage(), Dims{n}, Dims{1}, d * n, DType::Int64));
    return result;
  }
};

}  // namespace rush

#include "ops/masking.inc"
