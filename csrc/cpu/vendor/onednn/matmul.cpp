// matmul.cpp: float32 through oneDNN's gemm call, which needs no preparation; bfloat16 through
// matmul primitives, which oneDNN compiles when they are made, so they are kept.
#include "cpu/vendor/onednn_matmul.h"

#include <atomic>

#include "core/cpu_features.h"
#include "cpu/vendor/onednn/library.h"
#include "cpu/vendor/onednn/tensors.h"
#include "cpu/vendor/primitive_cache.h"

namespace rush::onednn {

namespace {

constinit std::atomic<bool> g_wanted{true};

// A primitive, with what an execution needs to name its memory.
struct Matmul {
  Handle<dnnl_memory_desc_t> a, b, c;
  Handle<dnnl_primitive_desc_t> desc;
  Handle<dnnl_primitive_t> primitive;
  const_dnnl_memory_desc_t scratchpad = nullptr;  // owned by desc
};

template <class T>
Handle<dnnl_memory_desc_t> describe(int64_t rows, int64_t cols, const Matrix<T>& x,
                                    dnnl_data_type_t type) {
  const dnnl_dims_t dims = {rows, cols}, strides = {x.row, x.col};
  Handle<dnnl_memory_desc_t> out;
  check_status(library()->memory_desc_create_with_strides(&out.out(), 2, dims, type, strides),
               "describing a matrix");
  return out;
}

template <class T>
constexpr dnnl_data_type_t type_of = std::is_same_v<T, float> ? dnnl_f32 : dnnl_bf16;

// An empty primitive means that oneDNN has no implementation for this case.
template <class C>
Matmul make(int64_t m, int64_t n, int64_t k, const Matrix<const bfloat16>& a,
            const Matrix<const bfloat16>& b, const Matrix<C>& c) {
  const Library& dnn = *library();
  Matmul out;
  out.a = describe(m, k, a, dnnl_bf16);
  out.b = describe(k, n, b, dnnl_bf16);
  out.c = describe(m, n, c, type_of<C>);
  const auto attr = user_scratchpad();
  const dnnl_status_t status = dnn.matmul_primitive_desc_create(
      &out.desc.out(), engine(), out.a.get(), out.b.get(), nullptr, out.c.get(), attr.get());
  if (status == dnnl_unimplemented) return out;
  check_status(status, "describing a product");
  out.scratchpad = dnn.primitive_desc_query_md(out.desc.get(), dnnl_query_scratchpad_md, 0);
  check_status(dnn.primitive_create(&out.primitive.out(), out.desc.get()), "making a product");
  return out;
}

template <class C>
bool run(int64_t m, int64_t n, int64_t k, const Matrix<const bfloat16>& a,
         const Matrix<const bfloat16>& b, const Matrix<C>& c) {
  if (!available()) return false;
  const int threads = prepare_threads();
  PrimitiveKey key(PrimitiveKey::Matmul);
  for (int64_t v :
       {m, n, k, a.row, a.col, b.row, b.col, c.row, c.col, int64_t(type_of<C>), int64_t(threads)})
    key << v;
  const auto found = cached_primitive<Matmul>(key, [&] { return make(m, n, k, a, b, c); });
  const Matmul& matmul = *found;
  if (!matmul.primitive) return false;

  const Library& dnn = *library();
  const Ref<Storage> pad = scratch(matmul.scratchpad);
  const auto a_memory = memory(matmul.a.get(), a.data), b_memory = memory(matmul.b.get(), b.data);
  const auto c_memory = memory(matmul.c.get(), c.data);
  const auto scratch_memory = memory(matmul.scratchpad, pad->data());
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, a_memory.get()},
                                  {DNNL_ARG_WEIGHTS, b_memory.get()},
                                  {DNNL_ARG_DST, c_memory.get()},
                                  {DNNL_ARG_SCRATCHPAD, scratch_memory.get()}};
  check_status(dnn.primitive_execute(matmul.primitive.get(), stream(), 4, args), "a product");
  return true;
}

}  // namespace

bool available() { return wanted() && library() != nullptr; }

void set_wanted(bool on) { g_wanted.store(on, std::memory_order_relaxed); }

bool wanted() { return g_wanted.load(std::memory_order_relaxed); }

bool has_bfloat16() { return available() && (has_avx512_bf16() || amx_usable()); }

bool gemm(const Product<float>& p) {
  if (!available()) return false;
  prepare_threads();
  const bool a_as_is = p.a.col == 1, b_as_is = p.b.col == 1;
  check_status(library()->sgemm(a_as_is ? 'N' : 'T', b_as_is ? 'N' : 'T', p.m, p.n, p.k, p.alpha,
                                p.a.data, a_as_is ? p.a.row : p.a.col, p.b.data,
                                b_as_is ? p.b.row : p.b.col, p.beta, p.c.data, p.c.row),
               "sgemm");
  return true;
}

bool gemm(int64_t m, int64_t n, int64_t k, Matrix<const bfloat16> a, Matrix<const bfloat16> b,
          Matrix<bfloat16> c) {
  return run(m, n, k, a, b, c);
}
bool gemm(int64_t m, int64_t n, int64_t k, Matrix<const bfloat16> a, Matrix<const bfloat16> b,
          Matrix<float> c) {
  return run(m, n, k, a, b, c);
}

}  // namespace rush::onednn
