// Note [Convolutions over tiles]
// Winograd's F(2 x 2, 3 x 3): the 2 by 2 results of a tile take 16 multiplications per pair of
// channels instead of 36. 4 by 4 points of the image and the kernel become 16 numbers each, by
// additions; the 16 products of images and kernels are products of matrices, tiles by channels;
// additions make 2 by 2 results of their sums. (Lavin and Gray, Fast Algorithms for Convolutional
// Neural Networks, 2015.) The kernels' gradient turns the same around: 4 by 4 sums over all tiles
// become 3 by 3 numbers. The image's gradient is a convolution with the kernels turned by 180
// degrees.
//
// - A block of tiles at a time, so that its matrices stay in the second-level cache.
// - The order of a sum depends on the shape alone, so the number of threads does not show in a
//   result; nor do other images, but in the kernels' gradient, and where they decide who computes.
// - Rounding errors are relative to the largest number of a tile, not of what a result reads. For
//   numbers of one size they are no larger than a direct sum's, which is nine times as long.
//   Infinities and numbers close to overflow may come out as NaN, so a call with any result that is
//   not finite is left to the direct way.
#include "cpu/nn/winograd.h"

#include <algorithm>
#include <atomic>

#include "core/modes.h"
#include "core/threads.h"
#include "cpu/isa_table.h"
#include "cpu/kernels/winograd_tables.h"
#include "cpu/nn/weight_layouts.h"
#include "cpu/scratch.h"

namespace rush {

namespace {

constinit std::atomic<bool> g_uses{true};

const WinogradTable& kernels() {
  return kernels_in_use([]<Isa isa>() { return winograd_table<isa>(); });
}

int64_t blocks_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

// A row of a matrix is filled up by as much, and so is a matrix: numbers of the same place in
// different matrices do not fall together in the first-level cache.
constexpr int64_t kGap = 16;

// Matrices of so many rows and columns.
struct Matrices {
  Matrices(int64_t rows, int64_t columns)
      : row(columns + kGap), apart(rows * row + kGap), memory(kTileNumbers * apart) {}
  TileMatrices all() const { return {memory.get(), row, apart}; }
  float* at(int number) const { return memory.get() + number * apart; }

  int64_t row, apart;
  Scratch<float> memory;
};

TiledImages<float> images(const Tensor& x) {
  const Dims &sizes = x.sizes(), &strides = x.strides();
  return {x.data<float>(), sizes[2], sizes[3], strides[0], strides[2], strides[3], sizes[1]};
}
TiledImages<const float> part(const TiledImages<float>& x, int64_t first, int64_t last) {
  return {x.data + first, x.rows, x.columns, x.image_step, x.row_step, x.column_step, last - first};
}

// Tiles cover results: what Forward and InputGrad write, or the gradients that WeightGrad reads.
TileRange grid_over(const Tensor& x) {
  const int64_t rows = blocks_of(x.sizes()[2], 2), columns = blocks_of(x.sizes()[3], 2);
  return {rows, columns, 0, x.sizes()[0] * rows * columns};
}
TileRange block_of(TileRange grid, int64_t block, int64_t size) {
  grid.first = block * size;
  grid.last = std::min(grid.first + size, grid.last);
  return grid;
}

// ---- images --------------------------------------------------------------------------------------

// `to` = a convolution of `from`: Forward, or InputGrad with the kernels turned.
class OverImages {
 public:
  OverImages(ConvKind kind, const ConvShape& s, const ConvTensors& t)
      : kind_(kind),
        weight_(t.w),
        from_(images(kind == ConvKind::Forward ? t.x : t.y)),
        to_(images(t.written(kind))),
        bias_(t.bias.defined() ? t.bias.data<float>() : nullptr),
        grid_(grid_over(t.written(kind))) {
    const bool turned = kind == ConvKind::InputGrad;
    for (int i = 0; i < 2; ++i)
      padding_[i] = turned ? 2 - s.padding[size_t(i) + 1] : s.padding[size_t(i) + 1];
    const Dims& w = t.w.strides();
    small_ = {t.w.data<float>(), w[1], w[0], w[2], w[3]};
    if (turned) small_ = {t.w.data<float>() + 2 * (w[2] + w[3]), w[0], w[1], -w[2], -w[3]};
    panels_ = blocks_of(to_.channels, 2 * table_.lanes);
  }

  bool run() {
    const Ref<Storage> kept = brought_kernels();
    const auto* u = static_cast<const float*>(kept->data());
    const int64_t size = block_size(), width = std::min(to_.channels, kWidth);
    std::atomic<bool> finite{true};
    parallel_for(blocks_of(grid_.last, size), 1, [&](int64_t begin, int64_t end) {
      const Matrices read(size, from_.channels), sums(size, width);
      for (int64_t block = begin; block < end; ++block) {
        if (!convolve_block(block_of(grid_, block, size), u, read, sums, width))
          finite.store(false, std::memory_order_relaxed);
      }
    });
    return finite;
  }

 private:
  // Channels that are written at a time, and bytes of what is read for a block.
  static constexpr int64_t kWidth = 64, kBlockBytes = 400 << 10;

  // As many blocks for each thread.
  int64_t block_size() const {
    const int64_t bytes = kTileNumbers * int64_t(sizeof(float)) * from_.channels;
    const int64_t most = std::clamp<int64_t>(kBlockBytes / bytes, 48, 192);
    const int64_t threads = in_parallel_region() ? 1 : num_threads();
    const int64_t rounds = blocks_of(grid_.last, most * threads);
    return std::max<int64_t>(blocks_of(grid_.last, rounds * threads), 12);
  }

  int64_t apart() const { return panels_ * from_.channels * 2 * table_.lanes; }

  void spread_kernels(float* u) const {
    const int64_t width = 2 * table_.lanes;
    parallel_for(panels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        SmallKernels<const float> from = small_;
        from.data += panel * width * from.out_step;
        const int64_t out = std::min(width, to_.channels - panel * width);
        table_.read_kernels(from, from_.channels, out, u + panel * from_.channels * width, apart());
      }
    });
  }

  // Kept for the next call where nothing is recorded, see Note [Weights in another layout].
  Ref<Storage> brought_kernels() const {
    const size_t nbytes = size_t(kTileNumbers * apart()) * sizeof(float);
    const auto fill = [](void* memory, const void* context) {
      static_cast<const OverImages*>(context)->spread_kernels(static_cast<float*>(memory));
    };
    WeightLayout layout;
    if (kind_ == ConvKind::Forward && !grad_enabled())
      layout = {kTag, table_.lanes, to_.channels, from_.channels};
    if (!layout.empty()) return weight_in_layout(weight_, layout, nbytes, true, fill, this);
    Ref<Storage> memory = Storage::allocate({}, nbytes);
    fill(memory->data(), this);
    return memory;
  }
  static constexpr int64_t kTag = -16;  // no layout of oneDNN's begins so

  bool convolve_block(const TileRange& tiles, const float* u, const Matrices& read,
                      const Matrices& sums, int64_t width) const {
    bool finite = true;
    table_.read(part(from_, 0, from_.channels), padding_, tiles, read.all());
    for (int64_t k = 0; k < to_.channels; k += width) {
      const int64_t columns = std::min(width, to_.channels - k);
      for (int number = 0; number < kTileNumbers; ++number) {
        const float* panel = u + number * apart() + k * from_.channels;
        table_.product({tiles.last - tiles.first, from_.channels, columns, read.at(number),
                        read.row, 1, panel, 2 * table_.lanes, from_.channels * 2 * table_.lanes,
                        sums.at(number), sums.row, false});
      }
      TiledImages<float> to = to_;
      to.data += k;
      to.channels = columns;
      finite = table_.write(sums.all(), bias_ ? bias_ + k : nullptr, tiles, to) && finite;
    }
    return finite;
  }

  const WinogradTable& table_ = kernels();
  const ConvKind kind_;
  const Tensor& weight_;
  const TiledImages<float> from_, to_;
  const float* const bias_;
  const TileRange grid_;
  int64_t padding_[2], panels_;
  SmallKernels<const float> small_;
};

// ---- kernels -------------------------------------------------------------------------------------

// WeightGrad. A cell is some input channels by some output channels; its sums over a part of the
// tiles are one job.
class OverKernels {
 public:
  OverKernels(const ConvShape& s, const ConvTensors& t)
      : x_(images(t.x)),
        y_(images(t.y)),
        w_(t.w),
        padding_{s.padding[1], s.padding[2]},
        grid_(grid_over(t.y)),
        cells_in_(blocks_of(x_.channels, kCell)),
        cells_out_(blocks_of(y_.channels, kCell)),
        in_(std::min(x_.channels, kCell)),
        out_(std::min(y_.channels, kCell)) {
    const int64_t blocks = blocks_of(grid_.last, kTiles);
    parts_ = std::clamp<int64_t>(kJobs / cells(), 1, std::max<int64_t>(blocks / 2, 1));
  }

  bool run() {
    const Scratch<float> sums(parts_ * cells() * job_numbers());
    parallel_for(parts_ * cells(), 1, [&](int64_t begin, int64_t end) {
      const Matrices read(kTiles, in_), grads(kTiles, out_);
      for (int64_t job = begin; job < end; ++job)
        add_up(job, sums.get() + job * job_numbers(), read, grads);
    });
    std::atomic<bool> finite{true};
    parallel_for(x_.channels, 8, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        if (!write(c, sums.get())) finite.store(false, std::memory_order_relaxed);
      }
    });
    return finite;
  }

 private:
  // Channels of a cell, tiles of a block, and how many jobs there should be at least.
  static constexpr int64_t kCell = 64, kTiles = 48, kJobs = 16;

  int64_t cells() const { return cells_in_ * cells_out_; }
  int64_t job_numbers() const { return kTileNumbers * in_ * out_; }

  void add_up(int64_t job, float* sums, const Matrices& read, const Matrices& grads) const {
    const int64_t cell = job % cells(), which = job / cells();
    const int64_t c = cell / cells_out_ * kCell, k = cell % cells_out_ * kCell;
    const auto x = part(x_, c, std::min(c + kCell, x_.channels));
    const auto y = part(y_, k, std::min(k + kCell, y_.channels));
    const int64_t blocks = blocks_of(grid_.last, kTiles);
    const int64_t first = blocks * which / parts_, last = blocks * (which + 1) / parts_;
    for (int64_t block = first; block < last; ++block) {
      const TileRange tiles = block_of(grid_, block, kTiles);
      table_.read(x, padding_, tiles, read.all());
      table_.read_grads(y, tiles, grads.all());
      for (int number = 0; number < kTileNumbers; ++number)
        table_.product({x.channels, tiles.last - tiles.first, y.channels, read.at(number), 1,
                        read.row, grads.at(number), grads.row, 2 * table_.lanes,
                        sums + number * in_ * out_, out_, block > first});
    }
  }

  // All kernels of an input channel.
  bool write(int64_t c, const float* sums) const {
    bool finite = true;
    const Dims& strides = w_.strides();
    for (int64_t k = 0; k < y_.channels; k += kCell) {
      const int64_t cell = c / kCell * cells_out_ + k / kCell;
      const SmallKernels<float> to{w_.data<float>() + c * strides[1] + k * strides[0], strides[1],
                                   strides[0], strides[2], strides[3]};
      finite =
          table_.write_kernels(sums + cell * job_numbers() + c % kCell * out_, in_ * out_, parts_,
                               cells() * job_numbers(), std::min(kCell, y_.channels - k), to) &&
          finite;
    }
    return finite;
  }

  const WinogradTable& table_ = kernels();
  const TiledImages<float> x_, y_;
  const Tensor& w_;
  const int64_t padding_[2];
  const TileRange grid_;
  const int64_t cells_in_, cells_out_, in_, out_;
  int64_t parts_;
};

// Kernels of 3 by 3 over neighbouring points, channels that fill vectors, and enough tiles to make
// up for what becomes of the kernels (see docs/decisions/winograd.md).
bool suits(const ConvShape& s, const ConvTensors& t) {
  constexpr int64_t kLeastChannels = 32, kLeastWork = 1'000'000;
  if (t.x.dtype() != DType::Float32 || s.dims != 2 || s.groups != 1) return false;
  for (size_t i = 1; i < 3; ++i) {
    if (s.kernel[i] != 3 || s.stride[i] != 1 || s.dilation[i] != 1 || s.padding[i] > 2 ||
        s.output[i] != s.input[i] + 2 * s.padding[i] - 2)
      return false;
  }
  if (t.x.strides()[1] != 1 || t.y.strides()[1] != 1) return false;
  const int64_t lanes = kernels().lanes;
  if (lanes < 8 || s.channels % lanes || s.out_channels % lanes ||
      std::min(s.channels, s.out_channels) < kLeastChannels)
    return false;
  // Per pair of channels, in hundredths of the time of 32 multiply-adds.
  const int64_t tiles = s.batch * blocks_of(s.output[1], 2) * blocks_of(s.output[2], 2);
  const int64_t direct = 28 * s.batch * s.output_points(), by_tiles = 66 * tiles + 4400;
  return direct > by_tiles && tiles * s.channels * s.out_channels >= kLeastWork;
}

}  // namespace

bool uses_winograd() { return g_uses.load(std::memory_order_relaxed); }
void set_uses_winograd(bool on) { g_uses.store(on, std::memory_order_relaxed); }

bool convolve_tiles(ConvKind kind, const ConvShape& shape, const ConvTensors& t) {
  if (!uses_winograd() || !suits(shape, t)) return false;
  if (kind == ConvKind::WeightGrad) return OverKernels(shape, t).run();
  return OverImages(kind, shape, t).run();
}

}  // namespace rush
