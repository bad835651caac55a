// Patches whose points are moved, on the CPU.
#include <algorithm>
#include <array>
#include <vector>

#include "core/interrupt.h"
#include "core/threads.h"
#include "cpu/lines.h"
#include "cpu/prepare.h"
#include "device/nn/vision.h"

namespace rush {

namespace {

constexpr int64_t kBlock = 128;  // places whose neighbours are worked out at a time
constexpr int64_t kGrain = 8192;

template <class F>
void for_type(const Tensor& x, F&& f) {
  dispatch<DType::Float32, DType::Float64>("deform_conv2d", x.dtype(), std::forward<F>(f));
}

// One point of the kernel at a block of places of one sample, for one group of channels.
struct Job {
  int64_t sample, group, point, first, n;
};

// The four neighbours of a block of moved points: neighbour k is number k / 2 along y and k % 2
// along x.
template <class T>
struct Block {
  int32_t place[4 * kBlock];
  T weight[4 * kBlock];    // with the mask
  T along[2][2 * kBlock];  // the weights along y and x
  T mask[kBlock];

  void fill(const DeformShape& s, const Job& job, const T* offset, const T* masks) {
    offset += s.offset_at(job.sample, job.group, job.point, job.first);
    if (masks) masks += s.mask_at(job.sample, job.group, job.point, job.first);
    for (int64_t i = 0; i < job.n; ++i) {
      const DeformTap<T> y(s, 0, job.point, job.first + i, offset[i]);
      const DeformTap<T> x(s, 1, job.point, job.first + i, offset[s.places() + i]);
      mask[i] = masks ? masks[i] : T(1);
      for (int k = 0; k < 4; ++k) {
        const int64_t h = y.index[k / 2], w = x.index[k % 2];
        place[k * kBlock + i] = h >= 0 && w >= 0 ? int32_t(h * s.in[1] + w) : -1;
        weight[k * kBlock + i] = y.weight[k / 2] * x.weight[k % 2] * mask[i];
      }
      for (int k = 0; k < 2; ++k) {
        along[0][k * kBlock + i] = y.weight[k];
        along[1][k * kBlock + i] = x.weight[k];
      }
    }
  }
};

// Calls f(block, job) for all blocks, shared among threads.
template <class T, class F>
void each_block(const DeformShape& s, F f) {
  const int64_t blocks = (s.places() + kBlock - 1) / kBlock, points = s.points();
  const int64_t work = kBlock * (s.channels / s.groups + 8);
  parallel_for(s.batch * s.groups * points * blocks, std::max<int64_t>(1, kGrain / work),
               [&](int64_t n, int64_t end) {
                 std::vector<Block<T>> block(1);
                 for (; n < end; ++n) {
                   const int64_t first = n % blocks * kBlock, at = n / blocks;
                   f(block[0], Job{at / points / s.groups, at / points % s.groups, at % points,
                                   first, std::min(kBlock, s.places() - first)});
                 }
               });
}

void deform_patches_cpu(const DeformShape& s, const Tensor& given, const Tensor& moves,
                        const Tensor& masks, const Tensor& out) {
  const Tensor x = cpu::in_loop_type(given), offset = cpu::in_loop_type(moves);
  const Tensor mask = masks.defined() ? cpu::in_loop_type(masks) : masks;
  const int64_t share = s.channels / s.groups;
  cpu::into(out, [&](const Tensor& columns) {
    for_type(columns, [&]<class T>() {
      each_block<T>(s, [&](Block<T>& block, const Job& job) {
        block.fill(s, job, offset.data<T>(), mask.defined() ? mask.data<T>() : nullptr);
        for (int64_t c = job.group * share; c < (job.group + 1) * share; ++c)
          line_kernels<T>().gather(
              columns.data<T>() + s.column_at(job.sample, c, job.point, job.first),
              x.data<T>() + (job.sample * s.channels + c) * s.area(), block.place, block.weight, 4,
              kBlock, job.n);
      });
    });
  });
}

// Places share neighbours, so a thread owns whole planes.
template <class T>
void image_gradient(const DeformShape& s, const T* g, const T* offset, const T* mask, T* gx) {
  const int64_t share = s.channels / s.groups;
  parallel_for(s.batch * s.channels, 1, [&](int64_t plane, int64_t end) {
    std::vector<Block<T>> block(1);
    InterruptCounter interrupts(1 << 18);
    for (; plane < end;) {  // all planes of one sample and group at a time
      const int64_t sample = plane / s.channels, group = plane % s.channels / share;
      const int64_t last = std::min(end, sample * s.channels + (group + 1) * share);
      std::fill_n(gx + plane * s.area(), (last - plane) * s.area(), T(0));
      for (int64_t point = 0; point < s.points(); ++point) {
        for (int64_t first = 0; first < s.places(); first += kBlock) {
          const Job job{sample, group, point, first, std::min(kBlock, s.places() - first)};
          block[0].fill(s, job, offset, mask);
          interrupts.add(job.n * (last - plane));
          for (int64_t p = plane; p < last; ++p) {
            const T* from = g + s.column_at(sample, p % s.channels, point, first);
            T* to = gx + p * s.area();
            for (int k = 0; k < 4; ++k) {
              const int32_t* place = block[0].place + k * kBlock;
              const T* w = block[0].weight + k * kBlock;
              for (int64_t i = 0; i < job.n; ++i)
                if (place[i] >= 0) to[place[i]] += w[i] * from[i];
            }
          }
        }
      }
      plane = last;
    }
  });
}

template <class T>
void move_gradients(const DeformShape& s, const T* g, const T* x, const T* offset, const T* mask,
                    T* goffset, T* gmask) {
  const int64_t share = s.channels / s.groups;
  each_block<T>(s, [&](Block<T>& block, const Job& job) {
    block.fill(s, job, offset, mask);
    std::array<T, 4 * kBlock> total{};  // over the channels: gradient times what a neighbour holds
    for (int64_t c = job.group * share; c < (job.group + 1) * share; ++c) {
      const T* from = g + s.column_at(job.sample, c, job.point, job.first);
      const T* plane = x + (job.sample * s.channels + c) * s.area();
      for (int k = 0; k < 4; ++k)
        line_kernels<T>().gather_products(total.data() + k * kBlock, from, plane,
                                          block.place + k * kBlock, job.n);
    }
    const int64_t to = s.offset_at(job.sample, job.group, job.point, job.first);
    const int64_t to_mask = s.mask_at(job.sample, job.group, job.point, job.first);
    for (int64_t i = 0; i < job.n; ++i) {
      T by_y = 0, by_x = 0, by_mask = 0;
      for (int k = 0; k < 4; ++k) {
        const T held = total[size_t(k * kBlock + i)];
        const T wy = block.along[0][k / 2 * kBlock + i], wx = block.along[1][k % 2 * kBlock + i];
        by_y += (k / 2 ? wx : -wx) * held;
        by_x += (k % 2 ? wy : -wy) * held;
        by_mask += wy * wx * held;
      }
      if (goffset) {
        goffset[to + i] = by_y * block.mask[i];
        goffset[to + s.places() + i] = by_x * block.mask[i];
      }
      if (gmask) gmask[to_mask + i] = by_mask;
    }
  });
}

// A tensor like out in the loop's type; undefined where out is.
Tensor loop_result(const Tensor& out) {
  if (!out.defined() || out.dtype() == compute_type(out.dtype())) return out;
  return make_tensor(out.sizes(), compute_type(out.dtype()));
}

void deform_patches_backward_cpu(const DeformShape& s, const Tensor& grad, const Tensor& given,
                                 const Tensor& moves, const Tensor& masks, const Tensor& out_x,
                                 const Tensor& out_offset, const Tensor& out_mask) {
  const Tensor g = cpu::in_loop_type(grad), x = cpu::in_loop_type(given);
  const Tensor offset = cpu::in_loop_type(moves);
  const Tensor mask = masks.defined() ? cpu::in_loop_type(masks) : masks;
  const Tensor gx = loop_result(out_x), goffset = loop_result(out_offset),
               gmask = loop_result(out_mask);
  for_type(g, [&]<class T>() {
    const auto data = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
    if (gx.defined()) image_gradient<T>(s, g.data<T>(), offset.data<T>(), data(mask), gx.data<T>());
    if (goffset.defined() || gmask.defined())
      move_gradients<T>(s, g.data<T>(), x.data<T>(), offset.data<T>(), data(mask), data(goffset),
                        data(gmask));
  });
  if (gx.defined() && !gx.is_same(out_x)) copy_cpu(gx, out_x);
  if (goffset.defined() && !goffset.is_same(out_offset)) copy_cpu(goffset, out_offset);
  if (gmask.defined() && !gmask.is_same(out_mask)) copy_cpu(gmask, out_mask);
}

const bool registered = [] {
  deform_loops(DeviceType::CPU) = {deform_patches_cpu, deform_patches_backward_cpu};
  return true;
}();

}  // namespace
}  // namespace rush
