// Products of float8 and of int8 matrices on GPUs, by cuBLASLt.
//
// It takes them in one form: the first factor transposed, both with the depth end to end. As in
// matmul.cpp, out^T = b^T @ a^T is asked for, so that b (whose columns lie end to end) is the first.
#include <array>
#include <cstring>
#include <memory>

#include "cuda/runtime/launch.h"
#include "cuda/runtime/loops.h"
#include "cuda/vendor/cublas.h"
#include "cuda/vendor/plan_cache.h"
#include "device/low_bits.h"
#include "device/pointwise.h"

namespace rush::cuda {
namespace {

struct Geometry {
  int64_t m, n, k, ld_a, ld_b;
  int32_t a, b, out, bias, by_rows, fast, device, padding;
  bool operator==(const Geometry& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};

lt::DataType data_type(DType t) {
  switch (t) {
    case DType::Int8:
      return lt::kR8I;
    case DType::Int32:
      return lt::kR32I;
    case DType::Float8E4M3FN:
      return lt::kR8FE4M3;
    case DType::Float8E5M2:
      return lt::kR8FE5M2;
    case DType::Float16:
      return lt::kR16F;
    case DType::BFloat16:
      return lt::kR16BF;
    default:
      return lt::kR32F;
  }
}

// A product of one geometry; `usable` unless this GPU or this library has no way to do it.
struct Plan {
  lt::MatmulDesc desc = nullptr;
  lt::Layout first = nullptr, second = nullptr, result = nullptr;
  lt::Heuristic best{};
  bool usable = false;

  explicit Plan(const Geometry& g) {
    const lt::Library& l = lt::library();
    const bool whole = DType(g.a) == DType::Int8;
    bool fine =
        l.DescCreate(&desc, whole ? lt::k32I : lt::k32F, whole ? lt::kR32I : lt::kR32F) == 0;
    const auto set = [&](lt::DescAttribute which, auto value) {
      fine = fine && l.DescSet(desc, which, &value, sizeof value) == 0;
    };
    set(lt::kTransA, int32_t(lt::kTranspose));
    set(lt::kTransB, int32_t(lt::kNone));
    if (!whole) set(lt::kFastAccumulation, int8_t(g.fast));
    if (g.by_rows) {
      set(lt::kScaleModeA, int32_t(lt::kScaleOfRow));
      set(lt::kScaleModeB, int32_t(lt::kScaleOfRow));
    }
    if (g.bias) {
      set(lt::kEpilogue, int32_t(lt::kBiasEpilogue));
      set(lt::kBiasType, int32_t(data_type(DType(g.out))));
    }
    const auto layout = [&](lt::Layout& to, int32_t type, int64_t rows, int64_t cols, int64_t ld) {
      fine = fine &&
             l.LayoutCreate(&to, data_type(DType(type)), uint64_t(rows), uint64_t(cols), ld) == 0;
    };
    layout(first, g.b, g.k, g.n, g.ld_b);
    layout(second, g.a, g.k, g.m, g.ld_a);
    layout(result, g.out, g.n, g.m, g.n);
    if (fine) choose(g);
  }
  Plan(const Plan&) = delete;
  ~Plan() {
    const lt::Library& l = lt::library();
    if (desc) l.DescDestroy(desc);
    for (lt::Layout x : {first, second, result})
      if (x) l.LayoutDestroy(x);
  }

 private:
  void choose(const Geometry& g) {
    const lt::Library& l = lt::library();
    lt::Preference preference = nullptr;
    if (l.PreferenceCreate(&preference)) return;
    const size_t room = size_t(32) << 20;
    l.PreferenceSet(preference, lt::kWorkspaceBytes, &room, sizeof room);
    int found = 0;
    const int status = l.GetHeuristic(lt::handle(g.device), desc, first, second, result, result,
                                      preference, 1, &best, &found);
    l.PreferenceDestroy(preference);
    usable = status == 0 && found > 0;
  }
};

bool is_aligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data()) % 16 == 0; }

// What the library asks of rows: 16 bytes for float8, 4 for int8.
bool suits(const Tensor& a, const Tensor& b, const Tensor& out) {
  const int64_t unit = a.dtype() == DType::Int8 ? 4 : 16;
  const int64_t k = a.sizes()[1], n = b.sizes()[1];
  if (k % unit || n % unit || !is_aligned(a) || !is_aligned(b) || !is_aligned(out)) return false;
  const bool columns = b.strides()[0] == 1 && b.strides()[1] >= k && b.strides()[1] % unit == 0;
  const bool rows = a.strides()[1] == 1 && a.strides()[0] >= k && a.strides()[0] % unit == 0;
  if (!columns || !rows || a.numel() == 0 || out.numel() == 0) return false;
  if (a.dtype() == DType::Int8) return device_info(out.device().index).arch() >= 75;
  const bool known = a.dtype() == DType::Float8E4M3FN || b.dtype() == DType::Float8E4M3FN;
  const auto fnuz = [](DType t) {
    return t == DType::Float8E4M3FNUZ || t == DType::Float8E5M2FNUZ;
  };
  return known && !fnuz(a.dtype()) && !fnuz(b.dtype()) &&
         device_info(out.device().index).arch() >= 89;
}

bool run(const Geometry& g, const Tensor& a, const Tensor& b, const Tensor& scale_a,
         const Tensor& scale_b, const Tensor& bias, const Tensor& out) {
  bind(g.device);
  const Plan& plan = kept_plan<Plan>(g, [&] { return std::make_unique<Plan>(g); });
  if (!plan.usable) return false;
  const lt::Library& l = lt::library();
  const auto point = [&](lt::DescAttribute which, const Tensor& t) {
    const void* p = t.defined() ? t.data() : nullptr;
    return l.DescSet(plan.desc, which, &p, sizeof p) == 0;
  };
  bool fine = true;
  if (DType(g.a) != DType::Int8)
    fine = point(lt::kScalePointerA, scale_b) && point(lt::kScalePointerB, scale_a);
  if (g.bias) fine = fine && point(lt::kBiasPointer, bias);
  if (!fine) return false;
  Tensor workspace;
  if (plan.best.workspace)
    workspace = make_tensor(Dims{int64_t(plan.best.workspace)}, DType::UInt8, out.device());
  const float one = 1, zero = 0;
  const int32_t whole_one = 1, whole_zero = 0;
  const bool whole = DType(g.a) == DType::Int8;
  const void* alpha = whole ? static_cast<const void*>(&whole_one) : &one;
  const void* beta = whole ? static_cast<const void*>(&whole_zero) : &zero;
  const int status =
      l.Matmul(lt::handle(g.device), plan.desc, alpha, b.data(), plan.first, a.data(), plan.second,
               beta, out.data(), plan.result, out.data(), plan.result, &plan.best.algorithm,
               workspace.defined() ? workspace.data() : nullptr, plan.best.workspace,
               current_stream(g.device)->handle());
  if (status != 0) return false;
  after_launch(current_stream(g.device));
  return true;
}

// out = sums * scale_a * scale_b + bias, in float.
void finish(const Tensor& sums, const Tensor& scale_a, const Tensor& scale_b, const Tensor& bias,
            const Tensor& out) {
  map_binary(BinaryFn::Mul, sums, scale_a, sums, {}, DType::Float32);
  map_binary(BinaryFn::Mul, sums, scale_b, bias.defined() ? sums : out, {}, DType::Float32);
  if (bias.defined()) map_binary(BinaryFn::Add, sums, bias, out, {}, DType::Float32);
}

bool byte_product(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                  const Tensor& bias, const Tensor& out, bool by_rows, bool fast) {
  if (!lt::library().missing.empty() || !suits(a, b, out)) return false;
  Geometry g{.m = a.sizes()[0],
             .n = b.sizes()[1],
             .k = a.sizes()[1],
             .ld_a = a.strides()[0],
             .ld_b = b.strides()[1],
             .a = int32_t(a.dtype()),
             .b = int32_t(b.dtype()),
             .out = int32_t(out.dtype()),
             .bias = bias.defined(),
             .by_rows = by_rows,
             .fast = fast,
             .device = out.device().index,
             .padding = 0};
  const bool half = is_reduced_float(out.dtype());
  const bool direct = out.dtype() == DType::Int32 || half || !bias.defined();
  const bool own_bias = !bias.defined() || (half && bias.dtype() == out.dtype());
  if (direct && own_bias && !is_float8(out.dtype()) && run(g, a, b, scale_a, scale_b, bias, out))
    return true;
  if (out.dtype() == DType::Int32) return false;
  // The library does not have it in one step (scales by rows before CUDA 12.9): sums first.
  g.out = int32_t(DType::Float32), g.bias = g.by_rows = 0;
  const Tensor sums = make_tensor(out.sizes(), DType::Float32, out.device());
  if (!run(g, a, b, {}, {}, {}, sums)) return false;
  finish(sums, scale_a, scale_b, bias, out);
  return true;
}

const bool registered = [] {
  low_bits_loops(DeviceType::CUDA).byte_product = byte_product;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
