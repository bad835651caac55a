#include "cpu/vendor/onednn/library.h"

#include <omp.h>

#include <atomic>

#include "core/dynamic_library.h"
#include "core/error.h"
#include "core/openmp.h"
#include "core/signal_stack.h"
#include "core/threads.h"
#include "cpu/vendor/onednn_matmul.h"

namespace rush::onednn {

namespace {

template <class F>
bool get(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(library_symbol(library, name));
  return function != nullptr;
}

bool fill(void* from, Library& t) {
  return get(from, "dnnl_set_max_cpu_isa", t.set_max_cpu_isa) && get(from, "dnnl_sgemm", t.sgemm) &&
         get(from, "dnnl_set_primitive_cache_capacity", t.set_primitive_cache_capacity) &&
         get(from, "dnnl_engine_create", t.engine_create) &&
         get(from, "dnnl_stream_create", t.stream_create) &&
         get(from, "dnnl_stream_destroy", t.stream_destroy) &&
         get(from, "dnnl_memory_desc_create_with_strides", t.memory_desc_create_with_strides) &&
         get(from, "dnnl_memory_desc_destroy", t.memory_desc_destroy) &&
         get(from, "dnnl_memory_desc_get_size", t.memory_desc_get_size) &&
         get(from, "dnnl_memory_create", t.memory_create) &&
         get(from, "dnnl_memory_destroy", t.memory_destroy) &&
         get(from, "dnnl_primitive_attr_create", t.primitive_attr_create) &&
         get(from, "dnnl_primitive_attr_destroy", t.primitive_attr_destroy) &&
         get(from, "dnnl_primitive_attr_set_scratchpad_mode",
             t.primitive_attr_set_scratchpad_mode) &&
         get(from, "dnnl_primitive_desc_destroy", t.primitive_desc_destroy) &&
         get(from, "dnnl_primitive_desc_query_md", t.primitive_desc_query_md) &&
         get(from, "dnnl_primitive_create", t.primitive_create) &&
         get(from, "dnnl_primitive_destroy", t.primitive_destroy) &&
         get(from, "dnnl_primitive_execute", t.primitive_execute) &&
         get(from, "dnnl_matmul_primitive_desc_create", t.matmul_primitive_desc_create) &&
         get(from, "dnnl_memory_desc_create_with_tag", t.memory_desc_create_with_tag) &&
         get(from, "dnnl_memory_desc_equal", t.memory_desc_equal) &&
         get(from, "dnnl_memory_desc_query", t.memory_desc_query) &&
         get(from, "dnnl_reorder_primitive_desc_create", t.reorder_primitive_desc_create) &&
         get(from, "dnnl_convolution_forward_primitive_desc_create",
             t.convolution_forward_primitive_desc_create) &&
         get(from, "dnnl_convolution_backward_data_primitive_desc_create",
             t.convolution_backward_data_primitive_desc_create) &&
         get(from, "dnnl_convolution_backward_weights_primitive_desc_create",
             t.convolution_backward_weights_primitive_desc_create) &&
         get(from, "dnnl_get_effective_cpu_isa", t.get_effective_cpu_isa) &&
         get(from, "dnnl_primitive_attr_set_scales_mask", t.primitive_attr_set_scales_mask) &&
         get(from, "dnnl_primitive_attr_set_zero_points_mask",
             t.primitive_attr_set_zero_points_mask) &&
         get(from, "dnnl_primitive_attr_set_post_ops", t.primitive_attr_set_post_ops) &&
         get(from, "dnnl_post_ops_create", t.post_ops_create) &&
         get(from, "dnnl_post_ops_append_eltwise", t.post_ops_append_eltwise) &&
         get(from, "dnnl_post_ops_append_sum", t.post_ops_append_sum) &&
         get(from, "dnnl_post_ops_destroy", t.post_ops_destroy) &&
         get(from, "dnnl_primitive_desc_query", t.primitive_desc_query) &&
         get(from, "dnnl_deconvolution_forward_primitive_desc_create",
             t.deconvolution_forward_primitive_desc_create);
}

// Only lowers: where nothing is in the way, a user's own ONEDNN_MAX_CPU_ISA keeps its say.
void limit_instructions(const Library& t) {
  if (isa_level() == IsaLevel::Baseline)
    t.set_max_cpu_isa(dnnl_cpu_isa_sse41);
  else if (isa_level() == IsaLevel::Avx2)
    t.set_max_cpu_isa(dnnl_cpu_isa_avx2);
  else if (!amx_usable())
    t.set_max_cpu_isa(dnnl_cpu_isa_avx512_core_fp16);
}

}  // namespace

namespace {
constinit std::atomic<int> g_opened_level{-1};
}

std::optional<IsaLevel> opened_level() {
  const int level = g_opened_level.load();
  return level < 0 ? std::nullopt : std::optional(IsaLevel(level));
}

const Library* library() {
  static const Library* const opened = []() -> const Library* {
    static Library table{};
    // Our own wheel of it, which holds the library once; else the one that source builds use.
    if (!fill(open_library({"libdnnl.so.3"}, {"rushlight_onednn", "", "../.."}), table))
      return nullptr;
    limit_instructions(table);
    table.set_primitive_cache_capacity(0);
    g_opened_level.store(int(isa_level()));
    return &table;
  }();
  return opened;
}

void check_status(dnnl_status_t status, std::string_view what) {
  check(status == dnnl_success,
        status == dnnl_out_of_memory ? ErrorKind::OutOfMemory : ErrorKind::Internal, "oneDNN", what,
        " failed with status ", int(status));
}

dnnl_engine_t engine() {
  static const dnnl_engine_t cpu = [] {
    dnnl_engine_t made = nullptr;
    check_status(library()->engine_create(&made, dnnl_cpu, 0), "making the engine");
    return made;
  }();
  return cpu;
}

dnnl_stream_t stream() {
  thread_local Handle<dnnl_stream_t> mine;
  if (!mine)
    check_status(library()->stream_create(&mine.out(), engine(), dnnl_stream_default_flags),
                 "making a stream");
  return mine.get();
}

int prepare_threads() {
  ensure_signal_stack();
  const bool inside = in_parallel_region() || omp_in_parallel();
  const int wanted = inside ? 1 : num_threads();
  if (omp_get_max_threads() == wanted) return wanted;
  if (inside)
    omp_set_num_threads(1);  // for what is inside, and forgotten after it
  else
    detail::tell_openmp(wanted);
  return wanted;
}

template <>
void destroy(dnnl_stream_t handle) {
  library()->stream_destroy(handle);
}
template <>
void destroy(dnnl_memory_t handle) {
  library()->memory_destroy(handle);
}
template <>
void destroy(dnnl_memory_desc_t handle) {
  library()->memory_desc_destroy(handle);
}
template <>
void destroy(dnnl_primitive_t handle) {
  library()->primitive_destroy(handle);
}
template <>
void destroy(dnnl_primitive_desc_t handle) {
  library()->primitive_desc_destroy(handle);
}
template <>
void destroy(dnnl_primitive_attr_t handle) {
  library()->primitive_attr_destroy(handle);
}
template <>
void destroy(dnnl_post_ops_t handle) {
  library()->post_ops_destroy(handle);
}

}  // namespace rush::onednn
