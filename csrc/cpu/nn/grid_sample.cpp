// Sampling of images on the CPU.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/lines.h"
#include "cpu/prepare.h"
#include "device/nn/image.h"

namespace rush {

namespace {

constexpr int64_t kBlock = 128;  // points whose neighbours are worked out at a time
constexpr int64_t kGrain = 8192;

template <class T>
using Neighbours = SampleNeighbours<T>;

// The neighbours of a block of points, as places in the flattened image.
template <class T>
struct Block {
  int taps;
  bool inside;  // all of them
  int32_t place[16 * kBlock];
  T weight[16 * kBlock];
  T slope[3][16 * kBlock];  // of the weight, by each dim of the grid

  // Grid dims run x first, image dims x last.
  void fill(const T* grid, int64_t n, IntList sizes, const Sampling& how, bool slopes) {
    const int dims = int(sizes.size());
    const int a_dim = how.mode == SampleMode::Nearest ? 1 : how.mode == SampleMode::Linear ? 2 : 4;
    taps = dims == 3 ? a_dim * a_dim * a_dim : a_dim * a_dim;
    inside = true;
    for (int64_t i = 0; i < n; ++i, grid += dims) {
      const Neighbours<T> x(grid[0], sizes[size_t(dims - 1)], how);
      const Neighbours<T> y(grid[1], sizes[size_t(dims - 2)], how);
      int k = 0;
      auto plane = [&](int64_t z, T wz) {
        for (int b = 0; b < a_dim; ++b) {
          for (int a = 0; a < a_dim; ++a, ++k) {
            const bool here = z >= 0 && y.place[b] >= 0 && x.place[a] >= 0;
            const int64_t at = (z * sizes[size_t(dims - 2)] + y.place[b]) * sizes.back();
            place[k * kBlock + i] = here ? int32_t(at + x.place[a]) : -1;
            inside &= here;
            weight[k * kBlock + i] = wz * y.weight[b] * x.weight[a];
            if (!slopes) continue;
            slope[0][k * kBlock + i] = wz * y.weight[b] * x.slope[a];
            slope[1][k * kBlock + i] = wz * y.slope[b] * x.weight[a];
          }
        }
      };
      if (dims == 2) {
        plane(0, T(1));
        continue;
      }
      const Neighbours<T> z(grid[2], sizes[0], how);
      for (int c = 0; c < a_dim; ++c) {
        const int from = k;
        plane(z.place[c], z.weight[c]);
        for (int j = from; j < k && slopes; ++j) {
          const int b = (j - from) / a_dim, a = (j - from) % a_dim;
          slope[2][j * kBlock + i] = z.slope[c] * y.weight[b] * x.weight[a];
        }
      }
    }
  }
};

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("grid_sample", x.dtype(), std::forward<F>(f));
}

struct Shape {
  int64_t batch, channels, points, area, dims;
  Dims sizes;
  Shape(const Tensor& x, const Tensor& grid)
      : batch(x.sizes()[0]),
        channels(x.sizes()[1]),
        points(grid.numel() / std::max<int64_t>(1, batch * grid.sizes().back())),
        area(x.numel() / std::max<int64_t>(1, batch * channels)),
        dims(grid.sizes().back()),
        sizes(IntList(x.sizes()).subspan(2)) {}
};

// Calls f(taps, sample, first point, number of points) for blocks of points, shared among threads.
template <class T, class F>
void each_block(const Shape& s, F f) {
  const int64_t blocks = (s.points + kBlock - 1) / kBlock;
  parallel_for(s.batch * blocks, std::max<int64_t>(1, kGrain / (kBlock * (s.channels + 4))),
               [&](int64_t job, int64_t end) {
                 std::vector<Block<T>> taps(1);
                 for (; job < end; ++job) {
                   const int64_t first = job % blocks * kBlock;
                   f(taps[0], job / blocks, first, std::min(kBlock, s.points - first));
                 }
               });
}

void sample(const Tensor& x, const Tensor& grid, const Sampling& how, const Tensor& y) {
  const Shape s(x, grid);
  for_type(x, [&]<class T>() {
    each_block<T>(s, [&](Block<T>& taps, int64_t b, int64_t first, int64_t n) {
      taps.fill(grid.data<T>() + (b * s.points + first) * s.dims, n, s.sizes, how, false);
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t plane = b * s.channels + c;
        const auto gather =
            taps.inside ? line_kernels<T>().gather_inside : line_kernels<T>().gather;
        gather(y.data<T>() + plane * s.points + first, x.data<T>() + plane * s.area, taps.place,
               taps.weight, taps.taps, kBlock, n);
      }
    });
  });
}

template <class T>
void image_gradient(const Shape& s, const T* g, const T* grid, const Sampling& how, T* gx) {
  // Points may share neighbours, so a thread owns whole planes: some channels of a sample.
  const int64_t share = std::max<int64_t>(1, (s.channels + num_threads() - 1) / num_threads());
  const int64_t parts = (s.channels + share - 1) / share;
  parallel_for(s.batch * parts, 1, [&](int64_t job, int64_t end) {
    std::vector<Block<T>> taps(1);
    for (; job < end; ++job) {
      const int64_t b = job / parts, c0 = job % parts * share;
      const int64_t c1 = std::min(c0 + share, s.channels);
      std::fill_n(gx + (b * s.channels + c0) * s.area, (c1 - c0) * s.area, T(0));
      InterruptCounter interrupts(1 << 18);
      for (int64_t first = 0; first < s.points; first += kBlock) {
        const int64_t n = std::min(kBlock, s.points - first);
        interrupts.add(n * (c1 - c0));
        taps[0].fill(grid + (b * s.points + first) * s.dims, n, s.sizes, how, false);
        for (int64_t c = c0; c < c1; ++c) {
          const T* from = g + (b * s.channels + c) * s.points + first;
          T* to = gx + (b * s.channels + c) * s.area;
          for (int k = 0; k < taps[0].taps; ++k) {
            const int32_t* place = taps[0].place + k * kBlock;
            const T* w = taps[0].weight + k * kBlock;
            for (int64_t i = 0; i < n; ++i) {
              if (place[i] >= 0) to[place[i]] += w[i] * from[i];
            }
          }
        }
      }
    }
  });
}

template <class T>
void grid_gradient(const Shape& s, const T* g, const T* x, const T* grid, const Sampling& how,
                   T* ggrid) {
  each_block<T>(s, [&](Block<T>& taps, int64_t b, int64_t first, int64_t n) {
    T* out = ggrid + (b * s.points + first) * s.dims;
    std::fill_n(out, n * s.dims, T(0));
    if (how.mode == SampleMode::Nearest) return;
    taps.fill(grid + (b * s.points + first) * s.dims, n, s.sizes, how, true);
    for (int k = 0; k < taps.taps; ++k) {
      T total[kBlock] = {};  // over the channels: gradient times what the neighbour holds
      for (int64_t c = 0; c < s.channels; ++c)
        line_kernels<T>().gather_products(total, g + (b * s.channels + c) * s.points + first,
                                          x + (b * s.channels + c) * s.area,
                                          taps.place + k * kBlock, n);
      for (int64_t d = 0; d < s.dims; ++d) {
        const T* slope = taps.slope[d] + k * kBlock;
        for (int64_t i = 0; i < n; ++i) out[i * s.dims + d] += total[i] * slope[i];
      }
    }
  });
}

void grid_sample_cpu(const Tensor& x, const Tensor& grid, const Sampling& how, const Tensor& out) {
  cpu::into(
      out, [&](const Tensor& y) { sample(cpu::in_loop_type(x), cpu::in_loop_type(grid), how, y); });
}

// Runs f on a tensor like out in the loop's type, or on an undefined one; then fills out.
template <class F>
void into_wanted(const Tensor& out, F&& f) {
  if (out.defined())
    cpu::into(out, f);
  else
    f(out);
}

void sample_backward(const Tensor& g, const Tensor& x, const Tensor& grid, const Sampling& how,
                     const Tensor& gx, const Tensor& ggrid) {
  const Shape s(x, grid);
  for_type(x, [&]<class T>() {
    if (gx.defined()) image_gradient(s, g.data<T>(), grid.data<T>(), how, gx.data<T>());
    if (ggrid.defined())
      grid_gradient(s, g.data<T>(), x.data<T>(), grid.data<T>(), how, ggrid.data<T>());
  });
}

void grid_sample_backward_cpu(const Tensor& g, const Tensor& x, const Tensor& grid,
                              const Sampling& how, const Tensor& out_x, const Tensor& out_grid) {
  into_wanted(out_x, [&](const Tensor& gx) {
    into_wanted(out_grid, [&](const Tensor& ggrid) {
      sample_backward(cpu::in_loop_type(g), cpu::in_loop_type(x), cpu::in_loop_type(grid), how, gx,
                      ggrid);
    });
  });
}

void find_places(const Tensor& grid, IntList sizes, const Sampling& how, const Tensor& places,
                 const Tensor& slopes) {
  const int64_t dims = grid.sizes().back();
  for_type(grid, [&]<class T>() {
    for (int64_t i = 0; i < grid.numel(); ++i) {
      const SamplePlace<T> p =
          sample_place(grid.data<T>()[i], sizes[size_t(dims - 1 - i % dims)], how);
      places.data<T>()[i] = p.at;
      slopes.data<T>()[i] = p.slope;
    }
  });
}

void grid_places_cpu(const Tensor& grid, IntList sizes, const Sampling& how, const Tensor& places,
                     const Tensor& slopes) {
  cpu::into(places, [&](const Tensor& p) {
    cpu::into(slopes,
              [&](const Tensor& s) { find_places(cpu::in_loop_type(grid), sizes, how, p, s); });
  });
}

void grid_neighbours_cpu(const Tensor& given, int64_t size, int64_t offset, const Sampling& how,
                         const Tensor& out) {
  const Tensor places = cpu::in_loop_type(given);
  for_type(places, [&]<class T>() {
    for (int64_t i = 0; i < places.numel(); ++i) {
      const T at = places.data<T>()[i];
      const T whole = how.mode == SampleMode::Nearest ? std::nearbyint(at) : std::floor(at);
      int64_t found = -1;
      if (std::abs(whole) < T(int64_t(1) << 40)) {
        found = int64_t(whole) + offset;
        if (how.mode == SampleMode::Cubic)
          found = padded_whole_place(found, size, how);
        else if (found < 0 || found >= size)
          found = -1;
      }
      out.data<int64_t>()[i] = found;
    }
  });
}

const bool registered = [] {
  ImageLoops& loops = image_loops(DeviceType::CPU);
  loops.grid_sample = grid_sample_cpu;
  loops.grid_sample_backward = grid_sample_backward_cpu;
  loops.grid_places = grid_places_cpu;
  loops.grid_neighbours = grid_neighbours_cpu;
  return true;
}();

}  // namespace
}  // namespace rush
