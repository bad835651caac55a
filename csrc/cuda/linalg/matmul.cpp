// Matrix products on GPUs: cuBLASLt for floating types, kernels/matmul.cu for integers and for what
// is small, row_products.h for some in half precision, split_product.h for large ones of float32 on Hopper.
//
// cuBLASLt counts columns first. A matrix whose rows lie end to end is, column by column, its
// transpose; so out = a @ b is asked for as out^T = b^T @ a^T, and each factor is passed as it
// lies, transposed or not. Only what has no unit stride at all is copied first.
//
// What a product of some geometry needs (descriptors, the algorithm that the heuristics pick) is
// kept: asking costs several times the launch.
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "cuda/linalg/matmul.h"
#include "cuda/linalg/row_products.h"
#include "cuda/linalg/split_product.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/library_call.h"
#include "cuda/runtime/loops.h"
#include "cuda/runtime/settings.h"
#include "cuda/vendor/cublas.h"
#include "cuda/vendor/plan_cache.h"
#include "cuda/vendor/relu_trial.h"
#include "device/linalg.h"
#include "device/pointwise.h"

namespace rush::cuda {
namespace {

// A matrix column by column: ld elements from one column to the next.
struct Columns {
  const void* data;
  int64_t ld, batch_step;
  bool transposed;  // the matrix that is meant lies here transposed
};

struct Geometry {
  int64_t m, n, k, batches, ld_a, ld_b, ld_c, step_a, step_b, step_c;
  int32_t dtype, out_dtype, trans_a, trans_b, align_a, align_b, align_c, device, tf32, epilogue;
  bool operator==(const Geometry& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
static_assert(std::has_unique_object_representations_v<Geometry>);

lt::DataType data_type(DType t) {
  switch (t) {
    case DType::Float32:
      return lt::kR32F;
    case DType::Float64:
      return lt::kR64F;
    case DType::Float16:
      return lt::kR16F;
    case DType::BFloat16:
      return lt::kR16BF;
    case DType::Complex64:
      return lt::kC32F;
    default:
      return lt::kC64F;
  }
}
lt::DataType scale_type(DType t) { return is_reduced_float(t) ? lt::kR32F : data_type(t); }

void done(int status, const char* what) {
  check(status == 0, ErrorKind::Runtime, "matmul", what, " failed with status ", status,
        status == 13 ? " (the GPU could not run it)" : "");
}

// A product of one geometry, ready to run.
struct Plan {
  lt::MatmulDesc desc = nullptr;
  lt::Layout a = nullptr, b = nullptr, c = nullptr;
  lt::Heuristic best{};
  const uint64_t number = next_plan_number();
  const ReluTrial relu{};

  explicit Plan(const Geometry& g) {
    const lt::Library& l = lt::library();
    const auto dtype = DType(g.dtype);
    const lt::ComputeType compute = dtype == DType::Float64 || dtype == DType::Complex128 ? lt::k64F
                                    : g.tf32 && dtype == DType::Float32 ? lt::k32FFastTF32
                                                                        : lt::k32F;
    done(l.DescCreate(&desc, compute, scale_type(dtype)), "cublasLtMatmulDescCreate");
    const int32_t trans_a = g.trans_a ? lt::kTranspose : lt::kNone;
    const int32_t trans_b = g.trans_b ? lt::kTranspose : lt::kNone;
    done(l.DescSet(desc, lt::kTransA, &trans_a, 4), "transa");
    done(l.DescSet(desc, lt::kTransB, &trans_b, 4), "transb");
    // With relu, the algorithm is that of the product without: the sums are to be the same.
    const int32_t chosen_for = g.epilogue == lt::kReluBiasEpilogue ? lt::kBiasEpilogue : g.epilogue;
    if (chosen_for != lt::kDefaultEpilogue)
      done(l.DescSet(desc, lt::kEpilogue, &chosen_for, 4), "epilogue");
    a = layout(g, g.dtype, g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, g.ld_a, g.step_a);
    b = layout(g, g.dtype, g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, g.ld_b, g.step_b);
    c = layout(g, g.out_dtype, g.m, g.n, g.ld_c, g.step_c);
    lt::Preference preference = nullptr;
    done(l.PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const size_t room = workspace_limit();
    l.PreferenceSet(preference, lt::kWorkspaceBytes, &room, sizeof room);
    const uint32_t aligned[] = {uint32_t(g.align_a), uint32_t(g.align_b), uint32_t(g.align_c)};
    l.PreferenceSet(preference, lt::kAlignmentA, &aligned[0], 4);
    l.PreferenceSet(preference, lt::kAlignmentB, &aligned[1], 4);
    l.PreferenceSet(preference, lt::kAlignmentC, &aligned[2], 4);
    l.PreferenceSet(preference, lt::kAlignmentD, &aligned[2], 4);
    int found = 0;
    const int status =
        l.GetHeuristic(lt::handle(g.device), desc, a, b, c, c, preference, 1, &best, &found);
    l.PreferenceDestroy(preference);
    done(status, "cublasLtMatmulAlgoGetHeuristic");
    check(found > 0, ErrorKind::Runtime, "matmul", "cuBLASLt knows no way to multiply ", g.m, "x",
          g.k, " by ", g.k, "x", g.n, " matrices of ", dtype);
    if (g.epilogue != chosen_for) done(l.DescSet(desc, lt::kEpilogue, &g.epilogue, 4), "epilogue");
  }
  Plan(const Plan&) = delete;
  ~Plan() {
    queue_batch();  // a call that is kept back may launch what belongs to the plan
    const lt::Library& l = lt::library();
    if (desc) l.DescDestroy(desc);
    for (lt::Layout x : {a, b, c})
      if (x) l.LayoutDestroy(x);
  }

 private:
  static size_t workspace_limit() { return size_t(32) << 20; }
  static lt::Layout layout(const Geometry& g, int32_t dtype, int64_t rows, int64_t cols, int64_t ld,
                           int64_t step) {
    const lt::Library& l = lt::library();
    lt::Layout out = nullptr;
    done(l.LayoutCreate(&out, data_type(DType(dtype)), uint64_t(rows), uint64_t(cols), ld),
         "cublasLtMatrixLayoutCreate");
    if (g.batches > 1) {
      const auto count = int32_t(g.batches);
      done(l.LayoutSet(out, lt::kBatchCount, &count, 4), "batch count");
      done(l.LayoutSet(out, lt::kBatchStride, &step, 8), "batch stride");
    }
    return out;
  }
};

// One a thread: a plan's bias pointer is set for each call, and nothing is locked.
const Plan& plan_for(const Geometry& g) {
  constexpr size_t kMostPlans = 2048;
  thread_local std::unique_ptr<std::unordered_map<Geometry, std::unique_ptr<Plan>, PlanHash>> plans;
  if (!plans)
    plans = std::make_unique<std::unordered_map<Geometry, std::unique_ptr<Plan>, PlanHash>>();
  if (const auto found = plans->find(g); found != plans->end()) return *found->second;
  auto fresh = std::make_unique<Plan>(g);
  if (plans->size() >= kMostPlans) plans->clear();
  return *plans->emplace(g, std::move(fresh)).first->second;
}

int alignment(const void* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  int bytes = 256;
  while (bytes > 1 && at % uintptr_t(bytes)) bytes /= 2;
  return bytes;
}

// A number of the scale's type.
struct ScaleValue {
  alignas(16) char bytes[16] = {};
  ScaleValue(const Scalar& s, DType t) {
    switch (scale_type(t)) {
      case lt::kR32F:
        store(s.to<float>());
        break;
      case lt::kR64F:
        store(s.to<double>());
        break;
      case lt::kC32F:
        store(s.to<complex<float>>());
        break;
      default:
        store(s.to<complex<double>>());
    }
  }
  template <class T>
  void store(T v) {
    std::memcpy(bytes, &v, sizeof v);
  }
};

// The last two dims of t, seen as columns; false when neither has unit stride.
bool as_columns(const Tensor& t, bool meant_transposed, Columns& out) {
  const size_t d = size_t(t.dim()) - 2;
  const int64_t rows = t.sizes()[d], cols = t.sizes()[d + 1];
  const int64_t row = t.strides()[d], col = t.strides()[d + 1];
  out.data = t.data();
  out.batch_step = d ? t.strides()[0] : 0;
  // Rows end to end: column by column, it is the transpose.
  if ((col == 1 || cols == 1) && (row >= std::max<int64_t>(cols, 1) || rows == 1)) {
    out.ld = rows == 1 ? std::max<int64_t>(cols, 1) : row;
    out.transposed = !meant_transposed;
    return true;
  }
  if ((row == 1 || rows == 1) && (col >= std::max<int64_t>(rows, 1) || cols == 1)) {
    out.ld = cols == 1 ? std::max<int64_t>(rows, 1) : col;
    out.transposed = meant_transposed;
    return true;
  }
  return false;
}

Tensor packed(const Tensor& t) {
  Tensor out = make_tensor(t.sizes(), t.dtype(), t.device());
  copy(t, out, false);
  return out;
}

// What follows the sum: bias (n), if any, is added to every row, then comes relu if asked for.
struct After {
  const void* bias = nullptr;
  bool relu = false;  // only with a bias

  lt::Epilogue epilogue() const {
    return !bias ? lt::kDefaultEpilogue : relu ? lt::kReluBiasEpilogue : lt::kBiasEpilogue;
  }
};

// out = beta * out + alpha * a @ b for floating types; of half types, out may be float32. False, with
// relu only: there is no such launch, and out holds nothing.
bool multiply(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
              const Scalar& beta, const After& after = {},
              bool tf32 = settings().matmul_tf32.load(std::memory_order_relaxed)) {
  if (const AlignedProduct aligned(a, b, out, beta.equals(0)); aligned.pays()) {
    const Tensor to = aligned.result(out);
    Tensor bias;
    if (after.bias) bias = aligned.vector(after.bias, out.sizes()[1], out);
    if (!multiply(aligned.factor(a), aligned.factor(b), to, alpha, beta,
                  {after.bias ? bias.data() : nullptr, after.relu}, tf32))
      return false;
    aligned.copy_back(to, out);
    return true;
  }
  if (!tf32 &&
      multiply_split(a, b, out, alpha, beta, static_cast<const float*>(after.bias), after.relu))
    return true;
  Columns c;
  as_columns(out, true, c);
  const bool swapped = !c.transposed;  // out's rows lie end to end: compute out^T = b^T @ a^T
  const size_t d = size_t(out.dim()) - 2;
  Tensor held[2];
  Columns left, right;
  const Tensor &first = swapped ? b : a, &second = swapped ? a : b;
  if (!as_columns(first, swapped, left)) as_columns(held[0] = packed(first), swapped, left);
  if (!as_columns(second, swapped, right)) as_columns(held[1] = packed(second), swapped, right);
  const int device = out.device().index;
  const Geometry g{
      .m = out.sizes()[swapped ? d + 1 : d],
      .n = out.sizes()[swapped ? d : d + 1],
      .k = a.sizes()[d + 1],
      .batches = d ? out.sizes()[0] : 1,
      .ld_a = left.ld,
      .ld_b = right.ld,
      .ld_c = c.ld,
      .step_a = left.batch_step,
      .step_b = right.batch_step,
      .step_c = c.batch_step,
      .dtype = int32_t(a.dtype()),
      .out_dtype = int32_t(out.dtype()),
      .trans_a = left.transposed,
      .trans_b = right.transposed,
      .align_a = alignment(left.data),
      .align_b = alignment(right.data),
      .align_c = alignment(c.data),
      .device = device,
      .tf32 = tf32,
      .epilogue = after.epilogue(),
  };
  bind(device);
  const Plan& plan = plan_for(g);
  const lt::Library& l = lt::library();
  Tensor workspace;
  if (plan.best.workspace)
    workspace = make_tensor(Dims{int64_t(plan.best.workspace)}, DType::UInt8, out.device());
  void* const room = workspace.defined() ? workspace.data() : nullptr;
  const ScaleValue one(alpha, out.dtype()), other(beta, out.dtype());
  const auto run = [&](const void* bias, CUstream stream) {
    if (bias) done(l.DescSet(plan.desc, lt::kBiasPointer, &bias, sizeof bias), "bias");
    return l.Matmul(lt::handle(device), plan.desc, one.bytes, left.data, plan.a, right.data, plan.b,
                    other.bytes, c.data, plan.c, const_cast<void*>(c.data), plan.c,
                    &plan.best.algorithm, room, plan.best.workspace, stream);
  };
  Stream* const stream = current_stream(device);
  if (after.relu && !plan.relu.keeps_nan(g.m, out, [&](const void* bias) {
        return run(bias, stream->handle()) == 0;
      }))
    return false;
  CallKey key(plan.number);
  for (const void* place : {left.data, right.data, c.data, after.bias, (const void*)room})
    key.add(place);
  for (const ScaleValue* scale : {&one, &other}) key.add_bytes(scale->bytes, sizeof scale->bytes);
  queue_call(stream, key, [&](CUstream on) { done(run(after.bias, on), "cublasLtMatmul"); });
  return true;
}

constexpr uint64_t kSmall = 16;  // beside the type
std::string spell_matmul(uint64_t key) {
  return concat("rush::matmul", key & kSmall ? "_small<" : "<", kernel_type(DType(key % kSmall)),
                ">");
}
const KernelFamily kMatmul{"matmul.cu", spell_matmul};

Grid tiles(const MatmulArgs& args, int64_t side) {
  return {unsigned((args.n + side - 1) / side), unsigned((args.m + side - 1) / side),
          unsigned(std::min<int64_t>(args.batches, 65535))};
}

void multiply_ourselves(const Tensor& a, const Tensor& b, const Tensor& out) {
  const MatmulArgs args = matmul_arguments(a, b, out);
  launch(kMatmul, uint64_t(out.dtype()), out.device().index, tiles(args, 64), {kThreads}, args);
}

// False unless it is so small that it costs less than what cuBLASLt would for finding and
// launching.
bool multiply_small(const Tensor& a, const Tensor& b, const Tensor& out, const After& after = {}) {
  constexpr int64_t kMostTiles = 128;
  if (!is_floating(out.dtype()) || a.sizes().back() > kSmallDepth) return false;
  MatmulArgs args = matmul_arguments(a, b, out);
  args.bias = after.bias;
  args.relu = after.relu;
  if (args.batches > kMostTiles || args.m > kMostTiles * 16 || args.n > kMostTiles * 16)
    return false;
  const Grid grid = tiles(args, 16);
  if (int64_t(grid.x) * grid.y * grid.z > kMostTiles) return false;
  launch(kMatmul, uint64_t(out.dtype()) | kSmall, out.device().index, grid, {kThreads}, args);
  return true;
}

// out = beta * out, when there is nothing to add up.
void scale(const Tensor& out, const Scalar& beta) {
  if (beta.equals(0))
    fill(out, 0);
  else if (!beta.equals(1))
    map_binary(BinaryFn::Mul, out, wrap_number(beta), out, {}, out.dtype());
}

void product(const Tensor& a, const Tensor& b, const Tensor& out, const Scalar& alpha,
             const Scalar& beta) {
  check(out.dtype() != DType::Complex32, ErrorKind::DType, "matmul",
        "not implemented for complex32 tensors");
  if (out.numel() == 0) return;
  if (a.sizes()[size_t(a.dim()) - 1] == 0 || alpha.equals(0)) return scale(out, beta);
  const bool ours = category(out.dtype()) <= Category::Integer || !lt::library().missing.empty();
  Columns ignored;
  if (alpha.equals(1) && beta.equals(0) &&
      (multiply_small(a, b, out) || multiply_few_rows(a, b, out, nullptr)))
    return;
  if (!ours && as_columns(out, true, ignored)) {
    multiply(a, b, out, alpha, beta);
    return;
  }
  if (ours && alpha.equals(1) && beta.equals(0)) return multiply_ourselves(a, b, out);
  // Into a fresh result, then joined with the old one.
  const Tensor fresh = make_tensor(out.sizes(), out.dtype(), out.device());
  if (ours)
    multiply_ourselves(a, b, fresh);
  else
    multiply(a, b, fresh, alpha, 0);
  if (ours && !alpha.equals(1))
    map_binary(BinaryFn::Mul, fresh, wrap_number(alpha), fresh, {}, out.dtype());
  if (beta.equals(0)) return copy(fresh, out, false);
  scale(out, beta);
  map_binary(BinaryFn::Add, out, fresh, out);
}

bool linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& out, bool relu) {
  const bool served = out.dtype() == DType::Float32 || is_reduced_float(out.dtype());
  if (!served || bias.dtype() != out.dtype() || !bias.is_contiguous() ||
      bias.numel() != w.sizes()[0])
    return false;
  const Tensor transposed =
      make_tensor(w.storage(), Dims{w.sizes()[1], w.sizes()[0]},
                  Dims{w.strides()[1], w.strides()[0]}, w.offset(), w.dtype());
  const After after{bias.data(), relu};
  if (multiply_small(x, transposed, out, after)) return true;
  if (multiply_few_rows(x, transposed, out, bias.data())) {
    if (relu) map_unary(UnaryFn::Relu, out, out);
    return true;
  }
  if (!lt::library().missing.empty() || alignment(bias.data()) < 16) return false;
  return multiply(x, transposed, out, 1, 0, after);
}

// A vector as a matrix of one column (or row).
Tensor as_matrix(const Tensor& v, bool column) {
  const int64_t n = v.numel(), step = n == 1 ? 1 : v.strides()[0];
  return column ? make_tensor(v.storage(), Dims{n, 1}, Dims{step, 1}, v.offset(), v.dtype())
                : make_tensor(v.storage(), Dims{1, n}, Dims{n, step}, v.offset(), v.dtype());
}

void product_with_vector(const Tensor& a, const Tensor& x, const Tensor& out, const Scalar& alpha,
                         const Scalar& beta) {
  product(a, as_matrix(x, true), as_matrix(out, true), alpha, beta);
}

void inner_product(const Tensor& a, const Tensor& b, const Tensor& out) {
  const Tensor one = make_tensor(out.storage(), Dims{1, 1}, Dims{1, 1}, out.offset(), out.dtype());
  product(as_matrix(a, false), as_matrix(b, true), one, 1, 0);
}

void add_wide(const Tensor& a, const Tensor& b, const Tensor& out) {
  if (out.numel() == 0 || a.sizes()[1] == 0) return;
  if (lt::library().missing.empty()) {
    multiply(a, b, out, 1, 1);
    return;
  }
  const auto widened = [](const Tensor& t) {
    Tensor wide = make_tensor(t.sizes(), DType::Float32, t.device());
    copy(t, wide, false);
    return wide;
  };
  product(widened(a), widened(b), out, 1, 1);
}

const bool registered = [] {
  product_loops(DeviceType::CUDA) = {product, product_with_vector, inner_product, linear, add_wide};
  return true;
}();

}  // namespace

void multiply_matrices(const Tensor& a, const Tensor& b, const Tensor& out, bool add, bool tf32) {
  multiply(a, b, out, 1, add ? 1 : 0, {}, tf32);
}

}  // namespace rush::cuda
