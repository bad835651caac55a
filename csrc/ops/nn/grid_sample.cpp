// Sampling of images. Where the backward pass is itself differentiated, the same sum over
// neighbours is written out over ops.
#include <vector>

#include "device/nn/image.h"
#include "ops/framework/data.h"
#include "ops/framework/differentiated.h"
#include "ops/framework/op.h"
#include "ops/framework/operators.h"

namespace rush {

namespace {

Sampling sampling(int64_t mode, int64_t padding, bool align) {
  return {SampleMode(mode), SamplePadding(padding), align};
}

// One dim of the written-out sum: for each neighbour its index, and its weight and that weight's
// derivative as functions of the grid. All are (batch, points).
struct Axis {
  std::vector<Tensor> index, weight, slope;
};

Axis axis_of(const Tensor& grid, const Tensor& places, const Tensor& slopes, int64_t size,
             int64_t mode, int64_t padding, bool align) {
  // places as a function of the grid: linear between the points where it bends.
  const Tensor at = grid * slopes + detach(places - grid * slopes);
  Axis axis;
  auto put = [&](int64_t offset, const Tensor& weight, const Tensor& slope) {
    axis.index.push_back(_grid_neighbour(places, size, offset, mode, padding, align));
    axis.weight.push_back(weight);
    axis.slope.push_back(slope * slopes);
  };
  const Tensor t = at - floor(places), one = ones_like(t);
  if (mode == 0) {
    put(0, Scalar(1) - t, -one);
    put(1, t, one);
    return axis;
  }
  constexpr double a = -0.75;
  auto near = [&](const Tensor& x) {
    return (x * Scalar(a + 2) - Scalar(a + 3)) * x * x + Scalar(1);
  };
  auto far = [&](const Tensor& x) {
    return ((x * Scalar(a) - Scalar(5 * a)) * x + Scalar(8 * a)) * x - Scalar(4 * a);
  };
  auto near_slope = [&](const Tensor& x) {
    return (x * Scalar(3 * (a + 2)) - Scalar(2 * (a + 3))) * x;
  };
  auto far_slope = [&](const Tensor& x) {
    return (x * Scalar(3 * a) - Scalar(10 * a)) * x + Scalar(8 * a);
  };
  put(-1, far(t + Scalar(1)), far_slope(t + Scalar(1)));
  put(0, near(t), near_slope(t));
  put(1, near(Scalar(1) - t), -near_slope(Scalar(1) - t));
  put(2, far(Scalar(2) - t), -far_slope(Scalar(2) - t));
  return axis;
}

// The gradients of grid_sampler over ops.
class WrittenOut {
 public:
  WrittenOut(const Tensor& g, const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding,
             bool align)
      : x_(x), grid_(grid), sizes_(IntList(x.sizes()).subspan(2)) {
    const int64_t dims = int64_t(sizes_.size());
    g_ = flatten(g, 2, -1);
    flat_ = flatten(x, 2, -1);
    const auto [places, slopes] = _grid_places(detach(grid), sizes_, mode, padding, align);
    for (int64_t d = 0; d < dims && mode != 1; ++d) {
      auto part = [&](const Tensor& t) { return flatten(select(t, -1, dims - 1 - d), 1, -1); };
      axes_.push_back(
          axis_of(part(grid), part(places), part(slopes), sizes_[size_t(d)], mode, padding, align));
    }
    if (mode == 1) {  // constant between its jumps
      for (int64_t d = 0; d < dims; ++d) {
        const Tensor p = flatten(select(places, -1, dims - 1 - d), 1, -1);
        axes_.push_back({{_grid_neighbour(p, sizes_[size_t(d)], 0, mode, padding, align)},
                         {ones_like(p)},
                         {zeros_like(p)}});
      }
    }
  }

  Grads gradients(bool for_x, bool for_grid) {
    grad_x_ = for_x ? zeros_like(detach(flat_)) : Tensor();
    grad_places_.assign(for_grid ? axes_.size() : 0, Tensor());
    std::vector<size_t> choice;
    visit(choice);
    Grads out(2);
    if (for_x) out[0] = reshape(grad_x_, x_.sizes());
    if (for_grid) {
      std::vector<Tensor> columns(grad_places_.rbegin(), grad_places_.rend());  // x first
      out[1] = reshape(stack(columns, -1), grid_.sizes());
    }
    return out;
  }

 private:
  // One neighbour a dim: all choices.
  void visit(std::vector<size_t>& choice) {
    if (choice.size() < axes_.size()) {
      for (size_t k = 0; k < axes_[choice.size()].index.size(); ++k) {
        choice.push_back(k);
        visit(choice);
        choice.pop_back();
      }
      return;
    }
    Tensor index, inside;
    for (size_t d = 0; d < axes_.size(); ++d) {
      const Tensor& i = axes_[d].index[choice[d]];
      const Tensor valid = ge(i, wrap_number(0));
      index = d == 0 ? i : index * Scalar(sizes_[d]) + i;
      inside = d == 0 ? valid : logical_and(inside, valid);
    }
    const Tensor outside = unsqueeze(logical_not(inside), 1);
    const Tensor at =
        expand(unsqueeze(masked_fill(index, logical_not(inside), wrap_number(0)), 1), g_.sizes());
    const Tensor kept = masked_fill(g_, outside, wrap_number(0));
    if (grad_x_.defined())
      grad_x_ = scatter_add(grad_x_, 2, at, kept * unsqueeze(weight(choice, axes_.size()), 1));
    if (grad_places_.empty()) return;
    const Tensor found = masked_fill(gather(flat_, 2, at), outside, wrap_number(0));
    const Tensor total = sum(kept * found, Dims{1});
    for (size_t d = 0; d < axes_.size(); ++d) {
      const Tensor part = total * weight(choice, d);
      grad_places_[d] = grad_places_[d].defined() ? grad_places_[d] + part : part;
    }
  }
  // The product of the weights, with the derivative in place of that of dim d.
  Tensor weight(const std::vector<size_t>& choice, size_t derived) const {
    Tensor w;
    for (size_t d = 0; d < axes_.size(); ++d) {
      const Tensor& f = (d == derived ? axes_[d].slope : axes_[d].weight)[choice[d]];
      w = d == 0 ? f : w * f;
    }
    return w;
  }

  Tensor x_, grid_, g_, flat_, grad_x_;
  Dims sizes_;
  std::vector<Axis> axes_;
  std::vector<Tensor> grad_places_;
};

}  // namespace

struct GridSampler {
  static constexpr const char* name = "grid_sample";
  static constexpr bool any_device = true;
  static Spec check(const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding, bool) {
    const int64_t dims = x.dim() - 2;
    check_shape((dims == 2 || dims == 3) && grid.dim() == x.dim() && grid.sizes().back() == dims &&
                    grid.sizes()[0] == x.sizes()[0],
                name,
                "an input (N, C, H, W) takes a grid (N, h, w, 2), and (N, C, D, H, W) a grid (N, "
                "d, h, w, 3); got ",
                x.sizes(), " and ", grid.sizes());
    rush::check(grid.dtype() == x.dtype(), ErrorKind::Runtime, name,
                "input and grid must have the same dtype, got ", x.dtype(), " and ", grid.dtype());
    check_dtype(is_floating(x.dtype()), name, "not implemented for ", x.dtype(), " tensors");
    check_argument(mode >= 0 && mode <= 2 && padding >= 0 && padding <= 2, name,
                   "interpolation_mode and padding_mode run from 0 to 2, got ", mode, " and ",
                   padding);
    rush::check(mode != 2 || dims == 2, ErrorKind::Runtime, name,
                "cubic interpolation takes (N, C, H, W) only, got ", x.sizes());
    Dims sizes{x.sizes()[0], x.sizes()[1]};
    int64_t area = 1;
    for (int64_t d = 0; d < dims; ++d) {
      sizes.push_back(grid.sizes()[size_t(1 + d)]);
      area *= x.sizes()[size_t(2 + d)];
    }
    rush::check(area > 0, ErrorKind::Runtime, name, "the image is empty, its shape is ", x.sizes());
    check_argument(area < (int64_t(1) << 31), name, "the image has ", area,
                   " elements per channel, more than 2^31");
    return {sizes, x.dtype(), common_device(name, {&x, &grid})};
  }
  static void run(const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding, bool align,
                  const Tensor& out) {
    if (out.numel() == 0) return;
    image_loops(out).grid_sample(contiguous_data(x), contiguous_data(grid),
                                 sampling(mode, padding, align), out);
  }
  static constexpr uint32_t needs[] = {in(0) | in(1), in(0) | in(1)};
  static Grads grad(const Ctx& c, const Tensor& g, const Tensor& x, const Tensor& grid,
                    int64_t mode, int64_t padding, bool align) {
    if (is_differentiated(g, x, grid))
      return WrittenOut(g, x, grid, mode, padding, align).gradients(c.wants(0), c.wants(1));
    auto [gx, gg] =
        _grid_sampler_backward(g, x, grid, mode, padding, align, c.wants(0), c.wants(1));
    return {c.wants(0) ? gx : Tensor(), c.wants(1) ? gg : Tensor()};
  }
};

struct GridSamplerBackward {
  static constexpr const char* name = "grid_sample_backward";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;  // only called where no graph is wanted
  static std::array<Spec, 2> check(const Tensor&, const Tensor& x, const Tensor& grid, int64_t,
                                   int64_t, bool, bool for_x, bool for_grid) {
    return {Spec{for_x ? x.sizes() : Dims{0}, x.dtype(), x.device()},
            Spec{for_grid ? grid.sizes() : Dims{0}, x.dtype(), x.device()}};
  }
  static void run(const Tensor& g, const Tensor& x, const Tensor& grid, int64_t mode,
                  int64_t padding, bool align, bool for_x, bool for_grid, const Tensor& out_x,
                  const Tensor& out_grid) {
    if (g.numel() == 0) return fill_data(out_x, 0), fill_data(out_grid, 0);
    image_loops(g).grid_sample_backward(contiguous_data(g), contiguous_data(x),
                                        contiguous_data(grid), sampling(mode, padding, align),
                                        for_x ? out_x : Tensor(), for_grid ? out_grid : Tensor());
  }
};

struct GridPlaces {
  static constexpr const char* name = "grid_sample";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static std::array<Spec, 2> check(const Tensor& grid, IntList, int64_t, int64_t, bool) {
    const Spec spec{grid.sizes(), grid.dtype(), grid.device()};
    return {spec, spec};
  }
  static void run(const Tensor& grid, IntList sizes, int64_t mode, int64_t padding, bool align,
                  const Tensor& places, const Tensor& slopes) {
    if (places.numel() == 0) return;
    image_loops(places).grid_places(contiguous_data(grid), sizes, sampling(mode, padding, align),
                                    places, slopes);
  }
};

struct GridNeighbour {
  static constexpr const char* name = "grid_sample";
  static constexpr bool any_device = true;
  static constexpr bool differentiable = false;
  static Spec check(const Tensor& places, int64_t, int64_t, int64_t, int64_t, bool) {
    return {places.sizes(), DType::Int64, places.device()};
  }
  static void run(const Tensor& places, int64_t size, int64_t offset, int64_t mode, int64_t padding,
                  bool align, const Tensor& out) {
    if (out.numel() == 0) return;
    image_loops(out).grid_neighbours(contiguous_data(places), size, offset,
                                     sampling(mode, padding, align), out);
  }
};

}  // namespace rush

#include "ops/grid_sample.inc"
