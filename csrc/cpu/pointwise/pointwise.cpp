#include "device/pointwise.h"

#include <atomic>
#include <cstring>
#include <string>

#include "core/cpu_features.h"
#include "core/layout.h"
#include "cpu/copy/copy.h"
#include "cpu/pointwise/entries.h"
#include "cpu/rows.h"
#include "device/deferred.h"

namespace rush {

namespace {

struct TablesOf : EntryTables {
  template <Isa isa, class... Types>
  void use() {
    ((unary[int(dtype_of<Types>)] = kernel_table<isa, UnaryFn, Types>()), ...);
    ((binary[int(dtype_of<Types>)] = kernel_table<isa, BinaryFn, Types>()), ...);
    ((ternary[int(dtype_of<Types>)] = kernel_table<isa, TernaryFn, Types>()), ...);
  }
  template <Isa isa>
  void use_integers() {
    use<isa, bool, uint8_t, int8_t, int16_t, int32_t, int64_t>();
  }

  explicit TablesOf([[maybe_unused]] IsaLevel level) {
    use<Isa::baseline, float, double, complex<float>, complex<double>>();
    use<Isa::baseline, uint16_t, uint32_t, uint64_t>();
    use_integers<Isa::baseline>();
#ifdef __x86_64__
    if (level >= IsaLevel::Avx2) {
      use<Isa::avx2, float, double>();
      use_integers<Isa::avx2>();
    }
    if (level >= IsaLevel::Avx512) use<Isa::avx512, float, double>();
#endif
  }
};

// Apart from entry_tables, which each op calls: there it would cost a stack frame.
[[gnu::cold, gnu::noinline]] PerIsa<EntryTables> all_tables() {
  return PerIsa<EntryTables>([](IsaLevel level) -> EntryTables { return TablesOf(level); });
}

}  // namespace

const EntryTables& entry_tables() {
  static const PerIsa<EntryTables> picked = all_tables();
  return picked.now();
}

void fail_without_entry(const char* functor, DType compute) {
  fail(ErrorKind::DType, "", '"', op_name_of(functor), "\" not implemented for ", compute,
       " tensors");
}

bool lies_across(const Tensor& t, const Tensor& out) {
  constexpr int64_t kWorthTurning = 16384;
  if (t.is_contiguous() || t.numel() < kWorthTurning || !out.is_contiguous() || t.dim() < 2)
    return false;
  const size_t last = size_t(t.dim() - 1);
  if (t.strides()[last] <= 1 || t.sizes()[last] < 16) return false;
  for (size_t d = 0; d < last; ++d) {
    if (t.strides()[d] == 1 && t.sizes()[d] >= 16) return true;
  }
  return false;
}

namespace {

struct ZeroSearch {
  ConvertFn to_compute, to_bool;  // 256 is a zero among the uint8
  int64_t item;
  std::atomic<bool> found{false};

  static void row(char* const* ptrs, const int64_t* strides, int64_t n, const void* context) {
    auto* self = static_cast<ZeroSearch*>(const_cast<void*>(context));
    alignas(16) char numbers[1024 * 16], truths[1024];
    for (int64_t done = 0; done < n; done += 1024) {
      const int64_t m = std::min<int64_t>(1024, n - done);
      self->to_compute(numbers, self->item, ptrs[0] + done * strides[0], strides[0], m);
      self->to_bool(truths, 1, numbers, self->item, m);
      if (std::memchr(truths, 0, size_t(m))) self->found.store(true, std::memory_order_relaxed);
    }
  }
};

// Integers have no infinity; raises before anything is written. PyTorch's text, which programs
// test.
void check_divisor(const Tensor& divisor, DType compute) {
  ZeroSearch search{convert_fn(divisor.dtype(), compute), convert_fn(compute, DType::Bool),
                    element_size(compute)};
  loop({divisor}, ZeroSearch::row, &search);
  check(!search.found.load(), ErrorKind::Runtime, "",
        "ZeroDivisionError: an integer is divided by zero");
}

// Does t have out's last sizes, so that it is repeated as a whole?
bool is_last_part(const TensorImpl* t, const TensorImpl* out) {
  const size_t dims = t->sizes.size(), skipped = out->sizes.size() - dims;
  if (dims > out->sizes.size()) return false;
  for (size_t d = 0; d < dims; ++d) {
    if (t->sizes[d] != out->sizes[skipped + d]) return false;
  }
  return true;
}

// The common small case, without any of the machinery: everything end to end and of the right type,
// or one number, or a row, that is laid out for the few elements there are.
constexpr int64_t kFew = 64;
template <int Inputs>
bool run_small(const Entry& e, DType compute, const Tensor* const (&inputs)[Inputs],
               const Tensor& out, ParamSpan params) {
  const TensorImpl* o = out.impl();
  const int64_t n = o->numel;
  if (n > kGrain || !o->has(TensorImpl::kContiguous) || !params.empty() || e.checks_zero ||
      e.bool_condition || o->dtype != result_of(e, compute))
    return false;
  char* ptrs[Inputs + 1] = {static_cast<char*>(out.data())};
  alignas(64) char numbers[Inputs][kFew * 16];
  for (int i = 0; i < Inputs; ++i) {
    const TensorImpl* t = inputs[i]->impl();
    if (t->numel == 1 && n <= kFew) {
      const char* number = static_cast<const char*>(inputs[i]->data());
      convert_fn(t->dtype, compute)(numbers[i], element_size(compute), number, 0, n);
      ptrs[i + 1] = numbers[i];
      continue;
    }
    if (t->dtype != compute || !t->has(TensorImpl::kContiguous)) return false;
    if (t->numel < n && n <= kFew && is_last_part(t, o)) {
      const int64_t row = t->numel * element_size(compute), all = n * element_size(compute);
      for (int64_t at = 0; at < all; at += row)
        std::memcpy(numbers[i] + at, inputs[i]->data(), size_t(row));
      ptrs[i + 1] = numbers[i];
      continue;
    }
    if (t->numel != n) return false;
    ptrs[i + 1] = static_cast<char*>(inputs[i]->data());
  }
  e.fn(ptrs, n, nullptr);
  return true;
}

template <int Inputs>
void run_entry(const Entry& e, unsigned fn, DType compute, const Tensor* const (&inputs)[Inputs],
               const Tensor& out, ParamSpan params) {
  if (run_small(e, compute, inputs, out, params)) return;
  if (is_unborn(out)) [[unlikely]] {
    if (!e.checks_zero &&
        deferred::queue_step(FusedStep::Kind(Inputs), fn, inputs, out, params, compute))
      return;
    out.storage();
    return run_entry<Inputs>(e, fn, compute, inputs, out, params);
  }
  internal_assert(params.size() == e.params,
                  "a functor got another number of parameters than it has");
  if constexpr (Inputs == 2) {
    if (e.checks_zero) check_divisor(*inputs[1], compute);
  }
  Number numbers[4];
  for (size_t i = 0; i < params.size(); ++i) numbers[i] = to_number(params[i]);
  RowPlan plan{.fn = e.fn, .params = numbers, .operands = Inputs + 1, .given = {}, .wanted = {}};
  plan.given[0] = out.dtype();
  plan.wanted[0] = result_of(e, compute);
  Tensor in_order[Inputs];
  LoopOperand ops[Inputs + 1] = {out};
  for (int i = 0; i < Inputs; ++i) {
    plan.given[i + 1] = inputs[i]->dtype();
    plan.wanted[i + 1] = wanted_by(e, i, compute);
    if (lies_across(*inputs[i], out)) {
      in_order[i] = make_tensor(inputs[i]->sizes(), inputs[i]->dtype(), out.device());
      copy_cpu(*inputs[i], in_order[i]);
    }
    ops[i + 1] = in_order[i].defined() ? in_order[i] : *inputs[i];
  }
  run_plan(ops, plan);
}

void cpu_unary(UnaryFn fn, const Tensor& x, const Tensor& out, ParamSpan params, DType compute) {
  run_entry<1>(entry_of(entry_tables().unary, fn, compute), unsigned(fn), compute, {&x}, out,
               params);
}

void cpu_binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Tensor& out, ParamSpan params,
                DType compute) {
  run_entry<2>(entry_of(entry_tables().binary, fn, compute), unsigned(fn), compute, {&a, &b}, out,
               params);
}

void cpu_ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& out,
                 ParamSpan params, DType compute) {
  run_entry<3>(entry_of(entry_tables().ternary, fn, compute), unsigned(fn), compute, {&a, &b, &c},
               out, params);
}

const bool registered = [] {
  PointwiseLoops& cpu = pointwise_loops(DeviceType::CPU);
  cpu.unary = cpu_unary;
  cpu.binary = cpu_binary;
  cpu.ternary = cpu_ternary;
  return true;
}();

}  // namespace
}  // namespace rush
