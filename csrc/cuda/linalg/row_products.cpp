#include "cuda/linalg/row_products.h"

#include <algorithm>

#include "cuda/kernels/few_rows_args.h"
#include "cuda/kernels/odd_rows_args.h"
#include "cuda/runtime/byte_range.h"
#include "cuda/runtime/launch.h"

namespace rush::cuda {

MatmulArgs matmul_arguments(const Tensor& a, const Tensor& b, const Tensor& out) {
  const size_t d = size_t(out.dim()) - 2;
  MatmulArgs args{};
  args.out = out.data();
  args.a = a.data();
  args.b = b.data();
  args.batches = d ? out.sizes()[0] : 1;
  args.m = out.sizes()[d];
  args.n = out.sizes()[d + 1];
  args.k = a.sizes()[d + 1];
  if (d)
    args.out_batch = out.strides()[0], args.a_batch = a.strides()[0], args.b_batch = b.strides()[0];
  args.out_row = out.strides()[d], args.out_col = out.strides()[d + 1];
  args.a_row = a.strides()[d], args.a_col = a.strides()[d + 1];
  args.b_row = b.strides()[d], args.b_col = b.strides()[d + 1];
  return args;
}

namespace {

constexpr int64_t kUnit = 8;  // elements of half types in 16 bytes

uintptr_t bytes_off(const Tensor& t, int64_t step) {
  return (reinterpret_cast<uintptr_t>(t.data()) | uintptr_t(step * t.element_size())) % 16;
}

// ---- few rows ----

constexpr int64_t kWarpsPerProcessor = 100;  // of which 64 run at a time; measured on an H200

// Key: rows, type.
std::string spell_few_rows(uint64_t key) {
  return concat("rush::few_rows<", kernel_type(DType(key & 15)), ", ", key >> 4, ">");
}
const KernelFamily kFewRows{"few_rows.cu", spell_few_rows};

// What the product reads besides a, and what it writes.
struct Touched {
  ByteRange b, bias, out;
  Touched(const FewRowsArgs& all, const FewRowsArgs::Factor& f)
      : b(f.b, (f.n - 1) * f.b_col + all.k - 1, 2),
        bias(f.bias, f.n - 1, 2),
        out(f.out, (all.rows - 1) * f.out_row + (f.n - 1) * f.out_col, 2) {}
  bool changes(const Touched& other) const {
    return out.meets(other.out) || out.meets(other.b) || out.meets(other.bias);
  }
};

// Queries, keys and values, or both halves of a gated layer: products of the same rows that are asked
// for one after the other share a launch, where none needs what another writes.
bool join_products(void* kept, LaunchShape& shape, const void* next, const LaunchShape& more) {
  FewRowsArgs& all = *static_cast<FewRowsArgs*>(kept);
  const FewRowsArgs& one = *static_cast<const FewRowsArgs*>(next);
  if (all.a != one.a || all.a_row != one.a_row || all.k != one.k || all.count == kMostFactors)
    return false;
  const ByteRange a(all.a, (all.rows - 1) * all.a_row + all.k - 1, 2);
  const Touched fresh(one, one.factors[0]);
  if (fresh.out.meets(a)) return false;
  for (int i = 0; i < all.count; ++i) {
    const Touched before(all, all.factors[i]);
    if (before.out.meets(a) || before.changes(fresh) || fresh.changes(before)) return false;
  }
  all.factors[all.count] = one.factors[0];
  all.factors[all.count++].first = shape.grid[0];
  shape.grid[0] += more.grid[0];
  return true;
}

// ---- odd rows ----

std::string spell_odd_rows(uint64_t key) {
  return concat("rush::copy_odd_rows<", kernel_bytes(int64_t(key)), ">");
}
const KernelFamily kOddRows{"odd_rows.cu", spell_odd_rows};

int64_t rounded(int64_t n) { return (n + kUnit - 1) / kUnit * kUnit; }

// A matrix whose elements lie end to end along one dim: its rows, wherever they are.
struct Rows {
  const void* data;
  int64_t count = 0, width = 0, step = 0;
  bool transposed = false, found = false;
  explicit Rows(const Tensor& t) : data(t.data()) {
    for (const size_t inner : {size_t(1), size_t(0)}) {
      if (found || t.strides()[inner] != 1) continue;
      count = t.sizes()[1 - inner];
      width = t.sizes()[inner];
      step = t.strides()[1 - inner];
      transposed = inner == 0;
      found = step >= width;
    }
  }
  Rows(const void* at, int64_t length)
      : data(at), count(1), width(length), step(length), found(true) {}

  // Bytes past a multiple of 16 at which rows begin.
  uintptr_t off() const {
    return (reinterpret_cast<uintptr_t>(data) | uintptr_t(count > 1 ? step * 2 : 0)) % 16;
  }
  bool is_odd() const { return off() || width % kUnit || count % kUnit; }
  // Whether a launch has enough blocks for it.
  bool fits() const {
    return width < int64_t(1) << 30 && rounded(count) * (rounded(width) / kThreads + 1) < int64_t(1)
                                                                                              << 31;
  }
};

// `count` rows of `width` are written, those of `from` among them; zeros elsewhere.
void copy_rows(const Rows& from, void* to, int64_t to_step, int64_t count, int64_t width,
               int device) {
  const int64_t read = std::min(from.width, width);
  OddRowsArgs args{from.data, to,        from.step, to_step, std::min(from.count, count),
                   i32(read), i32(width)};
  const uintptr_t odd = reinterpret_cast<uintptr_t>(from.data) / 2 |
                        reinterpret_cast<uintptr_t>(to) / 2 |
                        uintptr_t(from.step | to_step | read | width);
  uint64_t bytes = 2;
  if (odd % 2 == 0) {  // two at a time
    bytes = 4;
    args.from_step /= 2, args.to_step /= 2, args.width /= 2, args.written /= 2;
  }
  constexpr int64_t piece = kThreads * kOddRowsEach;
  const int64_t blocks = count * ((args.written + piece - 1) / piece);
  launch(kOddRows, bytes, device, {unsigned(blocks)}, {kThreads}, args);
}

// Seconds per operation that are lost by rows that begin at multiples of so many bytes only
// (measured on an H200, 4,096 x 768 by 768 x 50,257 and 8,192 x 768 by 768 x 30,522).
double lost(uintptr_t off) { return off % 4 ? 8e-15 : off % 8 ? 2.5e-15 : 1e-15; }

}  // namespace

bool multiply_few_rows(const Tensor& a, const Tensor& b, const Tensor& out, const void* bias) {
  if (out.dim() != 2 || out.sizes()[0] > 4 || !is_reduced_float(out.dtype()) ||
      a.dtype() != out.dtype() || b.dtype() != out.dtype())
    return false;
  const MatmulArgs args = matmul_arguments(a, b, out);
  if (args.b_row != 1 || (args.a_col != 1 && args.k > 1) || args.k % kUnit || args.k == 0 ||
      args.k >= int64_t(1) << 30 || bytes_off(b, args.n > 1 ? args.b_col : 0) ||
      bytes_off(a, args.m > 1 ? args.a_row : 0))
    return false;
  // One warp per column, and more where the GPU has room for them and a column is long enough.
  const int device = out.device().index;
  constexpr int64_t warps = kThreads / 32, kLeastEach = 512, kStep = 32 * kUnit;
  const int64_t room = int64_t(device_info(device).processors) * kWarpsPerProcessor;
  int shift = 0;
  while (warps >> shift > 1 && args.n << (shift + 1) <= room && args.k >= kLeastEach << (shift + 1))
    ++shift;
  const int64_t parts = int64_t(1) << shift;
  const int64_t each = ((args.k + parts - 1) / parts + kStep - 1) / kStep * kStep;
  const int64_t columns = warps / parts, blocks = (args.n + columns - 1) / columns;
  if (blocks == 0 || blocks >= int64_t(1) << 29)
    return false;  // as many for each of those that join
  FewRowsArgs all{
      .a = args.a, .a_row = args.a_row, .rows = args.m, .k = args.k, .count = 1, .factors = {}};
  all.factors[0] = {.b = args.b,
                    .bias = bias,
                    .out = args.out,
                    .n = args.n,
                    .b_col = args.b_col,
                    .out_row = args.out_row,
                    .out_col = args.out_col,
                    .each = int(each),
                    .shift = shift,
                    .first = 0};
  launch_joined(kFewRows, uint64_t(args.m) << 4 | uint64_t(out.dtype()), device, {unsigned(blocks)},
                {kThreads}, all, join_products);
  return true;
}

AlignedProduct::AlignedProduct(const Tensor& a, const Tensor& b, const Tensor& out, bool fresh) {
  if (out.dim() != 2 || !is_reduced_float(out.dtype()) || a.dtype() != out.dtype()) return;
  double moved = 0, saved = 0;
  const double work = 2.0 * double(out.numel()) * double(a.sizes()[1]);
  for (const Tensor* t : {&a, &b, &out}) {
    const Rows rows(*t);
    if (!rows.found || !rows.fits()) return;
    if (!rows.is_odd()) continue;
    if (t == &out && !fresh) return;
    moved += 2.0 * double(t->nbytes());
    if (rows.off()) saved = std::max(saved, work * lost(rows.off()));
  }
  constexpr double kBytesPerSecond = 3e12, kLaunch = 1e-5;
  pays_ = moved > 0 && saved > 1.5 * (moved / kBytesPerSecond + kLaunch);
}

Tensor AlignedProduct::result(const Tensor& t) const {
  const Rows rows(t);
  if (!rows.is_odd()) return t;
  const int64_t step = rounded(rows.width), count = rounded(rows.count);
  const Tensor room = make_tensor(Dims{count, step}, t.dtype(), t.device());
  if (!rows.transposed) return room;
  return make_tensor(room.storage(), Dims{step, count}, Dims{1, step}, room.offset(), t.dtype());
}

Tensor AlignedProduct::factor(const Tensor& t) const {
  Tensor out = result(t);
  if (out.is_same(t)) return out;
  const Rows rows(t);
  const int64_t step = rounded(rows.width);
  copy_rows(rows, out.data(), step, rounded(rows.count), step, t.device().index);
  return out;
}

void AlignedProduct::copy_back(const Tensor& from, const Tensor& t) const {
  if (from.is_same(t)) return;
  const Rows rows(t);
  copy_rows(Rows(from), t.data(), rows.step, rows.count, rows.width, t.device().index);
}

Tensor AlignedProduct::vector(const void* data, int64_t count, const Tensor& t) const {
  const Tensor out = make_tensor(Dims{rounded(count)}, t.dtype(), t.device());
  copy_rows(Rows(data, count), out.data(), count, 1, rounded(count), t.device().index);
  return out;
}

}  // namespace rush::cuda
