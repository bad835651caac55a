#include "cuda/linalg/split_product.h"

#include <algorithm>

#include "cuda/kernels/split_product_args.h"
#include "cuda/linalg/row_products.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/settings.h"

namespace rush::cuda {
namespace {

// Key: are the left matrix's rows, and the right one's, end to end?
enum Key : uint64_t { kLeftRows = 1, kRightRows = 2, kJoin = 4 };
std::string spell(uint64_t key) {
  if (key == kJoin) return "rush::join_parts";
  return concat("rush::piece_product<", key & kLeftRows ? "true" : "false",
                key & kRightRows ? ", rush::RightByRows>" : ", rush::RightByColumns>");
}
const KernelFamily kSplit{"split_product_hopper.cu", spell};

// A factor whose rows or columns lie end to end, read by 16 bytes.
struct Lines {
  bool by_rows;
  int64_t step;  // from line to line

  // False: it does not lie like that.
  bool find(const void* data, int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t batch) {
    by_rows = col == 1;
    step = by_rows ? row : col;
    const int64_t inner = by_rows ? cols : rows;
    return (by_rows || row == 1) && step >= inner && (inner | step | batch) % 4 == 0 &&
           reinterpret_cast<uintptr_t>(data) % 16 == 0;
  }
};

// How k is divided so that all processors have work, and what the product takes then.
struct Division {
  int64_t parts = 1, deep = 0;  // deep: of k, in a part
  double seconds = 0;
};

// Measured on an H200: a block takes 42 ns for a step of k and 2 us for a unit, and 3 us to begin; cuBLASLt's float32
// does 0.38 x 10^12 operations per second and processor. What lies in parts is written, read and joined by one more launch.
Division divide(const SplitProductArgs& args, int64_t batches, int64_t processors) {
  constexpr double kStep = 42e-9, kUnit = 2e-6, kBegin = 3e-6, kJoinLaunch = 3e-6;
  constexpr double kBytesPerSecond = 3e12;
  constexpr int64_t kLeastDeep = 256;
  const int64_t tiles = int64_t(args.row_tiles) * args.column_tiles * batches;
  Division best;
  for (int64_t parts = 1; parts <= processors; ++parts) {
    const int64_t deep = ((args.k + parts - 1) / parts + 31) / 32 * 32;
    if (parts > 1 && (deep < kLeastDeep || tiles * (parts - 1) >= 2 * processors)) break;
    if ((args.k + deep - 1) / deep != parts) continue;
    const int64_t rounds = (tiles * parts + processors - 1) / processors;
    double seconds = kBegin + double(rounds) * (double(deep) * kStep + kUnit);
    if (parts > 1)
      seconds +=
          kJoinLaunch + double(args.m) * args.n * double(batches * parts) * 8 / kBytesPerSecond;
    if (best.deep == 0 || seconds < best.seconds) best = {parts, deep, seconds};
  }
  return best;
}

// Is it faster than cuBLASLt? Not where it is nearly so: the estimate is rough.
bool pays(const SplitProductArgs& args, int64_t batches, int64_t processors,
          const Division& division) {
  const double library = 0.38e12 * double(processors);
  return division.seconds <
         0.9 * 2 * double(args.m) * args.n * double(args.k) * double(batches) / library;
}

Tensor transposed(const Tensor& t) {
  Dims sizes(t.sizes()), strides(t.strides());
  const size_t d = size_t(t.dim()) - 2;
  std::swap(sizes[d], sizes[d + 1]);
  std::swap(strides[d], strides[d + 1]);
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}

}  // namespace

bool multiply_split(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
                    const Scalar& beta, const float* bias, bool relu) {
  const int device = out.device().index;
  if (out.dtype() != DType::Float32 || a.dtype() != DType::Float32 ||
      device_info(device).arch() != 90 || !settings().split_float32.load(std::memory_order_relaxed))
    return false;
  const MatmulArgs from = matmul_arguments(a, b, out);
  constexpr int64_t kMost = int64_t(1) << 30;
  constexpr double kLeastWork = 1e8;  // below, it cannot pay, and nothing is estimated
  if (from.k < 64 || from.m < 32 || from.n < 32 || std::max({from.m, from.n, from.k}) > kMost ||
      from.batches > kMost ||
      double(from.m) * double(from.n) * double(from.k) * double(from.batches) < kLeastWork)
    return false;
  if (from.out_col != 1) {  // its columns lie end to end: out^T = b^T @ a^T
    if (from.out_row != 1 || bias) return false;
    return multiply_split(transposed(b), transposed(a), transposed(out), alpha, beta, nullptr,
                          relu);
  }
  Lines left, right;
  if (!left.find(from.a, from.m, from.k, from.a_row, from.a_col, from.a_batch) ||
      !right.find(from.b, from.k, from.n, from.b_row, from.b_col, from.b_batch))
    return false;
  SplitProductArgs args{};
  args.out = static_cast<float*>(from.out);
  args.a = static_cast<const float*>(from.a);
  args.b = static_cast<const float*>(from.b);
  args.bias = bias;
  args.out_row = from.out_row, args.a_step = left.step, args.b_step = right.step;
  args.out_batch = from.out_batch, args.a_batch = from.a_batch, args.b_batch = from.b_batch;
  args.m = i32(from.m), args.n = i32(from.n), args.k = i32(from.k);
  args.row_tiles = i32((from.m + kSplitRows - 1) / kSplitRows);
  args.column_tiles = i32((from.n + kSplitColumns - 1) / kSplitColumns);
  args.relu = relu;
  args.alpha = alpha.to<float>(), args.beta = beta.to<float>();
  const int64_t processors = device_info(device).processors;
  const Division division = divide(args, from.batches, processors);
  const int64_t units = int64_t(args.row_tiles) * args.column_tiles * division.parts * from.batches;
  if (units > kMost || !pays(args, from.batches, processors, division)) return false;
  args.part = i32(division.deep);
  args.parts_of_k = i32(division.parts);
  args.batches = i32(from.batches);
  args.units = i32(units);
  Tensor parts;
  if (division.parts > 1) {
    parts = make_tensor(Dims{division.parts * from.batches * from.m * from.n}, DType::Float32,
                        out.device());
    args.parts = parts.data<float>();
  }
  const uint64_t key =
      (left.by_rows ? uint64_t(kLeftRows) : 0) | (right.by_rows ? uint64_t(kRightRows) : 0);
  const int64_t blocks = std::min<int64_t>(args.units, processors);
  launch(kSplit, key, device, {unsigned(blocks)}, {kThreads}, args);
  if (args.parts) launch_each(kSplit, kJoin, device, from.batches * from.m * from.n, args);
  return true;
}

}  // namespace rush::cuda
