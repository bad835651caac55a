#include "cuda/linalg/row_products.h"

#include <algorithm>

#include "cuda/kernels/odd_rows_args.h"
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

// Key: rows, type.
std::string spell_few_rows(uint64_t key) {
  return concat("rush::few_rows<", kernel_type(DType(key & 15)), ", ", key >> 4, ">");
}
const KernelFamily kFewRows{"few_rows.cu", spell_few_rows};

// ---- odd rows ----

std::string spell_odd_rows(uint64_t key) {
  return concat("rush::copy_odd_rows<", kernel_bytes(int64_t(key)), ">");
}
const KernelFamily kOddRows{"odd_rows.cu", spell_odd_rows};

// A matrix whose elements lie end to end along one dim: its rows, wherever they are, and their step.
struct Rows {
  int64_t count, width, step;
  bool transposed;
  bool found = false;
  explicit Rows(const Tensor& t) {
    const int64_t rows = t.sizes()[0], cols = t.sizes()[1];
    for (const bool across : {false, true}) {
      const size_t inner = across ? 0 : 1;
      if (found || t.strides()[inner] != 1) continue;
      count = across ? cols : rows;
      width = across ? rows : cols;
      step = t.strides()[1 - inner];
      transposed = across;
      found = step >= width;
    }
  }
  int64_t aligned_step() const { return (width + kUnit - 1) / kUnit * kUnit; }
};

bool is_odd(const Tensor& t) {
  const Rows rows(t);
  return rows.found && rows.count > 1 && bytes_off(t, rows.step) != 0;
}

void copy_rows(const void* from, int64_t from_step, void* to, int64_t to_step, const Rows& rows,
               int64_t written, int device) {
  OddRowsArgs args{from, to, from_step, to_step, rows.count, i32(rows.width), i32(written)};
  const uintptr_t odd = reinterpret_cast<uintptr_t>(from) / 2 | reinterpret_cast<uintptr_t>(to) / 2 |
                        uintptr_t(from_step | to_step | rows.width | written);
  uint64_t bytes = 2;
  if (odd % 2 == 0) {  // two at a time
    bytes = 4;
    args.from_step /= 2, args.to_step /= 2, args.width /= 2, args.written /= 2;
  }
  constexpr int64_t piece = kThreads * kOddRowsEach;
  const int64_t blocks = rows.count * ((args.written + piece - 1) / piece);
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
  MatmulArgs args = matmul_arguments(a, b, out);
  if (args.b_row != 1 || (args.a_col != 1 && args.k > 1) || args.k % kUnit || args.k == 0 ||
      bytes_off(b, args.n > 1 ? args.b_col : 0) || bytes_off(a, args.m > 1 ? args.a_row : 0))
    return false;
  args.bias = bias;
  constexpr int64_t warps = kThreads / 32;
  const int64_t blocks = (args.n + warps - 1) / warps;
  if (blocks == 0 || blocks >= int64_t(1) << 31) return false;
  launch(kFewRows, uint64_t(args.m) << 4 | uint64_t(out.dtype()), out.device().index,
         {unsigned(blocks)}, {kThreads}, args);
  return true;
}

AlignedRows::AlignedRows(const Tensor& a, const Tensor& b, const Tensor& out, bool fresh) {
  if (out.dim() != 2 || !is_reduced_float(out.dtype()) || a.dtype() != out.dtype()) return;
  double moved = 0, saved = 0;
  const double work = 2.0 * double(out.numel()) * double(a.sizes()[1]);
  for (const Tensor* t : {&a, &b, &out}) {
    if (!is_odd(*t)) continue;
    const Rows rows(*t);
    // As many blocks as a launch takes.
    if ((t == &out && !fresh) || rows.width >= int64_t(1) << 30 ||
        rows.count * (rows.width / kThreads + 1) >= int64_t(1) << 31)
      return;
    moved += 2.0 * double(t->nbytes());
    saved = std::max(saved, work * lost(bytes_off(*t, rows.step)));
  }
  constexpr double kBytesPerSecond = 3e12, kLaunch = 1e-5;
  pays_ = moved > 0 && saved > 1.5 * (moved / kBytesPerSecond + kLaunch);
}

Tensor AlignedRows::result(const Tensor& t) const {
  if (!is_odd(t)) return t;
  const Rows rows(t);
  const int64_t step = rows.aligned_step();
  const Tensor room = make_tensor(Dims{rows.count, step}, t.dtype(), t.device());
  return make_tensor(room.storage(), t.sizes(), rows.transposed ? Dims{1, step} : Dims{step, 1},
                     room.offset(), t.dtype());
}

Tensor AlignedRows::factor(const Tensor& t) const {
  Tensor out = result(t);
  if (out.is_same(t)) return out;
  const Rows rows(t);
  const int64_t step = rows.aligned_step();
  copy_rows(t.data(), rows.step, out.data(), step, rows, step, t.device().index);
  return out;
}

void AlignedRows::copy_back(const Tensor& t, const Tensor& out) const {
  if (t.is_same(out)) return;
  const Rows rows(out);
  copy_rows(t.data(), rows.aligned_step(), out.data(), rows.step, rows, rows.width,
            out.device().index);
}

}  // namespace rush::cuda
