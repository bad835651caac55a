// library.h: oneDNN through pointers, opened at first use: linking to it would cost 40 ms at
// import.
//
// - One table of the functions we call; the headers' own declarations give the types.
// - oneDNN is told at once which instructions it may use: AMX only where it really works, and never
//   more than isa_level() allows.
// - Its threads are OpenMP's; prepare_threads() tells OpenMP how many before each call.
// - Note [oneDNN and fork]: a primitive remembers the number of threads it was made for, so keys of
//   the cache (cpu/vendor/primitive_cache.h) have that number; a forked child, which must not use
//   OpenMP's lost pool, thus makes its own for one thread. oneDNN's own cache below ours is off: it
//   would keep what ours throws out.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <memory>
#include <string_view>

namespace rush::onednn {

struct Library {
  decltype(&dnnl_set_max_cpu_isa) set_max_cpu_isa;
  decltype(&dnnl_set_primitive_cache_capacity) set_primitive_cache_capacity;
  decltype(&dnnl_sgemm) sgemm;
  decltype(&dnnl_engine_create) engine_create;
  decltype(&dnnl_stream_create) stream_create;
  decltype(&dnnl_stream_destroy) stream_destroy;
  decltype(&dnnl_memory_desc_create_with_strides) memory_desc_create_with_strides;
  decltype(&dnnl_memory_desc_destroy) memory_desc_destroy;
  decltype(&dnnl_memory_desc_get_size) memory_desc_get_size;
  decltype(&dnnl_memory_create) memory_create;
  decltype(&dnnl_memory_destroy) memory_destroy;
  decltype(&dnnl_primitive_attr_create) primitive_attr_create;
  decltype(&dnnl_primitive_attr_destroy) primitive_attr_destroy;
  decltype(&dnnl_primitive_attr_set_scratchpad_mode) primitive_attr_set_scratchpad_mode;
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy;
  decltype(&dnnl_primitive_desc_query_md) primitive_desc_query_md;
  decltype(&dnnl_primitive_create) primitive_create;
  decltype(&dnnl_primitive_destroy) primitive_destroy;
  decltype(&dnnl_primitive_execute) primitive_execute;
  decltype(&dnnl_matmul_primitive_desc_create) matmul_primitive_desc_create;
  decltype(&dnnl_memory_desc_create_with_tag) memory_desc_create_with_tag;
  decltype(&dnnl_memory_desc_equal) memory_desc_equal;
  decltype(&dnnl_memory_desc_query) memory_desc_query;
  decltype(&dnnl_reorder_primitive_desc_create) reorder_primitive_desc_create;
  decltype(&dnnl_convolution_forward_primitive_desc_create)
      convolution_forward_primitive_desc_create;
  decltype(&dnnl_convolution_backward_data_primitive_desc_create)
      convolution_backward_data_primitive_desc_create;
  decltype(&dnnl_convolution_backward_weights_primitive_desc_create)
      convolution_backward_weights_primitive_desc_create;
  decltype(&dnnl_get_effective_cpu_isa) get_effective_cpu_isa;
  decltype(&dnnl_primitive_attr_set_scales_mask) primitive_attr_set_scales_mask;
  decltype(&dnnl_primitive_attr_set_zero_points_mask) primitive_attr_set_zero_points_mask;
  decltype(&dnnl_primitive_attr_set_post_ops) primitive_attr_set_post_ops;
  decltype(&dnnl_post_ops_create) post_ops_create;
  decltype(&dnnl_post_ops_append_eltwise) post_ops_append_eltwise;
  decltype(&dnnl_post_ops_append_sum) post_ops_append_sum;
  decltype(&dnnl_post_ops_destroy) post_ops_destroy;
  decltype(&dnnl_primitive_desc_query) primitive_desc_query;
  decltype(&dnnl_deconvolution_forward_primitive_desc_create)
      deconvolution_forward_primitive_desc_create;
};

// Null when there is no oneDNN, or one that lacks a function of the table.
const Library* library();

// The CPU engine, and this thread's stream. Only where library() is not null.
dnnl_engine_t engine();
dnnl_stream_t stream();

// How many threads the next call uses, after telling OpenMP so.
int prepare_threads();

// Raises when oneDNN reports a failure; `what` says during which call.
void check_status(dnnl_status_t status, std::string_view what);

// Handles that free themselves: `Handle<dnnl_memory_t> m; check_status(create(&m.out(), ...))`.
template <class H>
void destroy(H handle);

template <class H>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& o) noexcept : handle_(o.handle_) { o.handle_ = nullptr; }
  Handle& operator=(Handle&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_) destroy(handle_);
  }
  H get() const { return handle_; }
  H& out() { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  H handle_ = nullptr;
};

}  // namespace rush::onednn
