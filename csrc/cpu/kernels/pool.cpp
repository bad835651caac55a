#include <algorithm>
#include <limits>
#include <type_traits>

#include "cpu/kernels/pool_tables.h"

namespace rush {

namespace RUSH_ISA {
namespace {

// Averages of float32 add up in float32: windows are small.
template <class T>
struct Pool {
  static T lowest() {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::min();
  }

  // f(output place, z, y, x) for the outputs of one plane.
  template <class F>
  static void for_outputs(const PoolCall& c, F&& f) {
    int64_t at = 0;
    for (int64_t z = 0; z < c.axis[0].out; ++z)
      for (int64_t y = 0; y < c.axis[1].out; ++y)
        for (int64_t x = 0; x < c.axis[2].out; ++x) f(at++, z, y, x);
  }
  // f(start of a row of the plane, iz, iy) for the rows that a window sees.
  template <class F>
  static void for_rows(const PoolCall& c, int64_t z, int64_t y, F&& f) {
    const PoolAxis &a = c.axis[0], &b = c.axis[1];
    for (int64_t iz = a.first[z]; iz < a.last[z]; iz += a.step)
      for (int64_t iy = b.first[y]; iy < b.last[y]; iy += b.step)
        f((iz * b.in + iy) * c.axis[2].in);
  }
  static T factor(const PoolCall& c, int64_t z, int64_t y, int64_t x) {
    const int64_t n = c.axis[0].count[z] * c.axis[1].count[y] * c.axis[2].count[x];
    return T(c.divisor ? c.divisor : std::max<int64_t>(n, 1));
  }

  static void max(const PoolCall& c, const T* x, T* y, int64_t* indices, int64_t begin,
                  int64_t end) {
    if (c.channels_last) return max_last(c, x, y, indices, begin, end);
    const PoolAxis& row = c.axis[2];
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* from = x + plane * c.in_points();
      T* to = y + plane * c.out_points();
      int64_t* place = indices + plane * c.out_points();
      for_outputs(c, [&](int64_t at, int64_t oz, int64_t oy, int64_t ox) {
        T best = lowest();
        int64_t where =
            (c.axis[0].first[oz] * c.axis[1].in + c.axis[1].first[oy]) * row.in + row.first[ox];
        for_rows(c, oz, oy, [&](int64_t line) {
          for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; i += row.step) {
            const T v = from[i];
            const bool better = v > best || v != v;  // NaN wins, the last one of several
            best = better ? v : best;
            where = better ? i : where;
          }
        });
        to[at] = best;
        place[at] = where;
      });
    }
  }

  static void max_last(const PoolCall& c, const T* x, T* y, int64_t* indices, int64_t begin,
                       int64_t end) {
    const PoolAxis& row = c.axis[2];
    const int64_t rows = c.axis[0].out * c.axis[1].out, n = c.channels;
    for (int64_t job = begin; job < end; ++job) {
      const int64_t oz = job % rows / c.axis[1].out, oy = job % c.axis[1].out;
      const T* from = x + job / rows * c.in_points() * n;
      for (int64_t ox = 0; ox < row.out; ++ox) {
        T* to = y + (job * row.out + ox) * n;
        int64_t* place = indices + (job * row.out + ox) * n;
        const int64_t start =
            (c.axis[0].first[oz] * c.axis[1].in + c.axis[1].first[oy]) * row.in + row.first[ox];
        std::fill_n(to, n, lowest());
        std::fill_n(place, n, start);
        for_rows(c, oz, oy, [&](int64_t line) {
          for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; i += row.step) {
            const T* at = from + i * n;
#pragma omp simd
            for (int64_t k = 0; k < n; ++k) {
              const T v = at[k];
              const bool better = v > to[k] || v != v;
              to[k] = better ? v : to[k];
              place[k] = better ? i : place[k];
            }
          }
        });
      }
    }
  }

  static void average(const PoolCall& c, const T* x, T* y, int64_t begin, int64_t end) {
    if (c.channels_last) return average_last(c, x, y, begin, end);
    const PoolAxis& row = c.axis[2];
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* from = x + plane * c.in_points();
      T* to = y + plane * c.out_points();
      for_outputs(c, [&](int64_t at, int64_t oz, int64_t oy, int64_t ox) {
        T sum = 0;
        for_rows(c, oz, oy, [&](int64_t line) {
          const T* p = from + line;
          T part = 0;
#pragma omp simd reduction(+ : part)
          for (int64_t i = row.first[ox]; i < row.last[ox]; ++i) part += p[i];
          sum += part;
        });
        to[at] = sum / factor(c, oz, oy, ox);
      });
    }
  }

  static void average_last(const PoolCall& c, const T* x, T* y, int64_t begin, int64_t end) {
    const PoolAxis& row = c.axis[2];
    const int64_t rows = c.axis[0].out * c.axis[1].out, n = c.channels;
    for (int64_t job = begin; job < end; ++job) {
      const int64_t oz = job % rows / c.axis[1].out, oy = job % c.axis[1].out;
      const T* from = x + job / rows * c.in_points() * n;
      for (int64_t ox = 0; ox < row.out; ++ox) {
        T* to = y + (job * row.out + ox) * n;
        std::fill_n(to, n, T(0));
        for_rows(c, oz, oy, [&](int64_t line) {
          for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; ++i) {
            const T* at = from + i * n;
#pragma omp simd
            for (int64_t k = 0; k < n; ++k) to[k] += at[k];
          }
        });
        const T by = factor(c, oz, oy, ox);
        for (int64_t k = 0; k < n; ++k) to[k] = to[k] / by;
      }
    }
  }

  // The image, first channel and number of channels of a channels-last backward job.
  struct Block {
    int64_t image, channel, count;
    Block(const PoolCall& c, int64_t job) {
      const int64_t blocks = (c.channels + kPoolBlock - 1) / kPoolBlock;
      image = job / blocks;
      channel = job % blocks * kPoolBlock;
      count = std::min(kPoolBlock, c.channels - channel);
    }
  };

  static void max_backward(const PoolCall& c, const T* g, const int64_t* indices, T* gx,
                           int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      if (!c.channels_last) {
        const int64_t at = job * c.out_points();
        T* to = gx + job * c.in_points();
        for (int64_t i = 0; i < c.out_points(); ++i) to[indices[at + i]] += g[at + i];
        continue;
      }
      const Block b(c, job);
      T* to = gx + b.image * c.in_points() * c.channels + b.channel;
      for (int64_t i = 0; i < c.out_points(); ++i) {
        const int64_t at = (b.image * c.out_points() + i) * c.channels + b.channel;
        for (int64_t k = 0; k < b.count; ++k) to[indices[at + k] * c.channels + k] += g[at + k];
      }
    }
  }

  static void average_backward(const PoolCall& c, const T* g, T* gx, int64_t begin, int64_t end) {
    const PoolAxis& row = c.axis[2];
    for (int64_t job = begin; job < end; ++job) {
      if (!c.channels_last) {
        const T* from = g + job * c.out_points();
        T* to = gx + job * c.in_points();
        for_outputs(c, [&](int64_t at, int64_t oz, int64_t oy, int64_t ox) {
          const T share = from[at] / factor(c, oz, oy, ox);
          for_rows(c, oz, oy, [&](int64_t line) {
            for (int64_t i = row.first[ox]; i < row.last[ox]; ++i) to[line + i] += share;
          });
        });
        continue;
      }
      const Block b(c, job);
      const T* from = g + b.image * c.out_points() * c.channels + b.channel;
      T* to = gx + b.image * c.in_points() * c.channels + b.channel;
      for_outputs(c, [&](int64_t at, int64_t oz, int64_t oy, int64_t ox) {
        const T by = factor(c, oz, oy, ox);
        T share[kPoolBlock];
        for (int64_t k = 0; k < b.count; ++k) share[k] = from[at * c.channels + k] / by;
        for_rows(c, oz, oy, [&](int64_t line) {
          for (int64_t i = line + row.first[ox]; i < line + row.last[ox]; ++i)
#pragma omp simd
            for (int64_t k = 0; k < b.count; ++k) to[i * c.channels + k] += share[k];
        });
      });
    }
  }

  static constexpr PoolTable<T> table = {max, average, max_backward, average_backward};
};

}  // namespace
}  // namespace RUSH_ISA

template <>
const PoolTable<float>* pool_table<Isa::RUSH_ISA, float>() {
  return &RUSH_ISA::Pool<float>::table;
}
template <>
const PoolTable<double>* pool_table<Isa::RUSH_ISA, double>() {
  return &RUSH_ISA::Pool<double>::table;
}
template <>
const PoolTable<int64_t>* pool_table<Isa::RUSH_ISA, int64_t>() {
  return &RUSH_ISA::Pool<int64_t>::table;
}

}  // namespace rush
