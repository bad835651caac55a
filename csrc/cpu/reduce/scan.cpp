// Running sums, products, extremes and log-sum-exps along one dim.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/cpu_features.h"
#include "core/interrupt.h"
#include "cpu/copy/copy.h"
#include "cpu/kernels/scan_tables.h"
#include "cpu/loop_nest.h"
#include "cpu/reduce/driver.h"

namespace rush {

namespace {

constexpr int64_t kChunk = 1024;
constexpr int64_t kPerLook = 1 << 20;  // elements between looks for an interrupt

template <Isa isa>
void use(const ScanTable** t) {
  t[int(DType::Float32)] = scan_table<isa, float>();
  t[int(DType::Float64)] = scan_table<isa, double>();
  t[int(DType::Int64)] = scan_table<isa, int64_t>();
  t[int(DType::Complex64)] = scan_table<isa, complex<float>>();
  t[int(DType::Complex128)] = scan_table<isa, complex<double>>();
}

const ScanTable& scans_for(DType element) {
  static const PerIsa<std::array<const ScanTable*, kDTypeCount>> tables(
      []([[maybe_unused]] IsaLevel level) {
        std::array<const ScanTable*, kDTypeCount> t{};
        use<Isa::baseline>(t.data());
#ifdef __x86_64__
        if (level >= IsaLevel::Avx2) use<Isa::avx2>(t.data());
        if (level >= IsaLevel::Avx512) use<Isa::avx512>(t.data());
#endif
        return t;
      });
  return *tables.now()[size_t(element)];
}

struct ScanCall {
  const ScanKernel* kernel;
  ConvertFn bring, put;
  int64_t x_item, out_item, element;
  bool x_direct, out_direct, with_indices;
  int64_t length, x_stride, out_stride, index_stride;  // along the dim, in bytes
};

// A stretch of n elements (along the dim, or across it) at these strides, through buffers where
// needed.
template <class Kernel>
void stretch(const ScanCall& call, Kernel kernel, char* out, int64_t out_stride, const char* x,
             int64_t x_stride, char* indices, int64_t index_stride, int64_t n, char* acc,
             int64_t position) {
  alignas(64) char in_buffer[kChunk * 16], out_buffer[kChunk * 16];
  int64_t index_buffer[kChunk];
  const bool in_place = call.x_direct && x_stride == call.x_item;
  const bool out_place = call.out_direct && out_stride == call.out_item;
  if (!in_place) call.bring(in_buffer, call.element, x, x_stride, n);
  kernel(in_place ? x : in_buffer, out_place ? out : out_buffer,
         call.with_indices ? index_buffer : nullptr, n, acc, position);
  if (!out_place) call.put(out, out_stride, out_buffer, call.element, n);
  if (!call.with_indices) return;
  for (int64_t i = 0; i < n; ++i)
    *reinterpret_cast<int64_t*>(indices + i * index_stride) = index_buffer[i];
}

// A row of the nest {out, x, indices?} over the other dims.
void scan_lines(char* const* ptrs, const int64_t* strides, int64_t n, const void* context) {
  const auto& call = *static_cast<const ScanCall*>(context);
  const ScanKernel& k = *call.kernel;
  char* const indices = call.with_indices ? ptrs[2] : nullptr;
  const int64_t across = call.with_indices ? strides[2] : 0;
  alignas(64) char accs[kChunk * 32];
  InterruptCounter interrupts(kPerLook);
  if (n >= 4 && strides[1] == call.x_item && call.x_stride != call.x_item) {
    for (int64_t c = 0; c < n; c += kChunk) {
      const int64_t m = std::min(kChunk, n - c);
      for (int64_t j = 0; j < m; ++j)
        std::memcpy(accs + j * k.acc_size, k.blank, size_t(k.acc_size));
      for (int64_t r = 0; r < call.length; ++r) {
        stretch(call, k.columns, ptrs[0] + c * strides[0] + r * call.out_stride, strides[0],
                ptrs[1] + c * strides[1] + r * call.x_stride, strides[1],
                indices + c * across + r * call.index_stride, across, m, accs, r);
        interrupts.add(m);
      }
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(accs, k.blank, size_t(k.acc_size));
    for (int64_t p = 0; p < call.length; p += kChunk) {
      stretch(call, k.row, ptrs[0] + i * strides[0] + p * call.out_stride, call.out_stride,
              ptrs[1] + i * strides[1] + p * call.x_stride, call.x_stride,
              indices + i * across + p * call.index_stride, call.index_stride,
              std::min(kChunk, call.length - p), accs, p);
      interrupts.add(kChunk);
    }
  }
}

Tensor first_along(const Tensor& t, int64_t dim) {
  Dims sizes = t.sizes(), strides = t.strides();
  if (t.dim() > 0) sizes[size_t(dim)] = 1, strides[size_t(dim)] = 0;
  return make_tensor(t.storage(), sizes, strides, t.offset(), t.dtype());
}

int64_t step_along(const Tensor& t, int64_t dim) {
  return (t.dim() > 0 ? t.strides()[size_t(dim)] : 1) * t.element_size();
}

// Threads that share out the columns of one matrix go down its rows side by side. Where rows are
// not whole cache lines, both write to the line at the border, row after row, and it goes back and
// forth: 1000x1000 took 1.2 ms with two threads and 0.18 with one. Rows have to be long to be worth
// that.
int64_t columns_grain(const Tensor& out, int64_t dim) {
  constexpr int64_t kLine = 64, kWorthSharing = 16384, kManyMatrices = 8;
  if (!out.is_contiguous() || dim == out.dim() - 1 || out.dim() == 0) return 1;
  int64_t columns = 1;  // by sizes: the stride of a size of 1 may be anything, even 0
  for (int64_t d = dim + 1; d < out.dim(); ++d) columns *= out.sizes()[size_t(d)];
  const int64_t matrices = out.numel() / (columns * out.sizes()[size_t(dim)]);
  if (matrices >= kManyMatrices || columns * out.element_size() % kLine == 0) return 1;
  return kWorthSharing;
}

void cpu_scan(ScanFn fn, const Tensor& x, const Tensor& out, const Tensor* indices, int64_t dim) {
  if (out.numel() == 0) return;
  const bool sums = fn == ScanFn::Sum || fn == ScanFn::Prod;
  const DType element = wide_type(sums ? out.dtype() : x.dtype());
  ScanCall call;
  call.kernel = &scans_for(element).scans[int(fn)];
  // uint64 is scanned as int64: the same bits in sums, but not the same order.
  const bool ordered = sums || x.dtype() != DType::UInt64;
  check(call.kernel->row != nullptr && ordered, ErrorKind::DType, "", "scan not implemented for ",
        x.dtype(), " tensors");
  call.bring = convert_fn(x.dtype(), element);
  call.put = convert_fn(element, out.dtype());
  call.x_item = x.element_size();
  call.out_item = out.element_size();
  call.element = element_size(element);
  call.x_direct = x.dtype() == element;
  call.out_direct = out.dtype() == element;
  call.with_indices = indices != nullptr;
  call.length = x.dim() > 0 ? x.sizes()[size_t(dim)] : 1;
  call.x_stride = step_along(x, dim);
  call.out_stride = step_along(out, dim);
  call.index_stride = indices ? step_along(*indices, dim) : 0;
  const Tensor o = first_along(out, dim), i = first_along(x, dim);
  const int64_t grain = std::max({int64_t(1), kGrain / call.length, columns_grain(out, dim)});
  if (indices) {
    loop_lines({o, i, first_along(*indices, dim)}, scan_lines, &call, grain);
  } else {
    loop_lines({o, i}, scan_lines, &call, grain);
  }
}

const bool registered = [] {
  reduce_loops(DeviceType::CPU).scan = cpu_scan;
  return true;
}();

}  // namespace
}  // namespace rush
