#include "cpu/vendor/onednn/tensors.h"

namespace rush::onednn {

Handle<dnnl_memory_desc_t> with_strides(IntList sizes, IntList strides, dnnl_data_type_t type) {
  Handle<dnnl_memory_desc_t> out;
  check_status(library()->memory_desc_create_with_strides(&out.out(), int(sizes.size()),
                                                          sizes.data(), type, strides.data()),
               "describing a tensor");
  return out;
}

Handle<dnnl_memory_desc_t> any_layout(IntList sizes, dnnl_data_type_t type) {
  Handle<dnnl_memory_desc_t> out;
  check_status(library()->memory_desc_create_with_tag(&out.out(), int(sizes.size()), sizes.data(),
                                                      type, dnnl_format_tag_any),
               "describing a tensor");
  return out;
}

Handle<dnnl_primitive_attr_t> user_scratchpad() {
  Handle<dnnl_primitive_attr_t> attr;
  check_status(library()->primitive_attr_create(&attr.out()), "making attributes");
  check_status(library()->primitive_attr_set_scratchpad_mode(attr.get(), dnnl_scratchpad_mode_user),
               "setting the scratchpad's mode");
  return attr;
}

Handle<dnnl_memory_t> memory(const_dnnl_memory_desc_t desc, const void* data) {
  Handle<dnnl_memory_t> out;
  check_status(library()->memory_create(&out.out(), desc, engine(), const_cast<void*>(data)),
               "naming memory");
  return out;
}

WeightLayout described(const_dnnl_memory_desc_t desc) {
  const Library& dnn = *library();
  WeightLayout out;
  bool known = true;
  const auto ask = [&]<class V>(dnnl_query_t what, V value) {
    known = known && dnn.memory_desc_query(desc, what, &value) == dnnl_success;
    return value;
  };
  if (ask(dnnl_query_format_kind, dnnl_format_kind_undef) != dnnl_blocked || !known) return out;
  const int dims = ask(dnnl_query_ndims_s32, 0), blocks = ask(dnnl_query_inner_nblks_s32, 0);
  out = {dims, blocks, ask(dnnl_query_data_type, dnnl_data_type_undef),
         ask(dnnl_query_submemory_offset_s64, int64_t{0})};
  for (const auto what : {dnnl_query_dims, dnnl_query_padded_dims, dnnl_query_padded_offsets,
                          dnnl_query_strides, dnnl_query_inner_blks, dnnl_query_inner_idxs}) {
    const bool of_blocks = what == dnnl_query_inner_blks || what == dnnl_query_inner_idxs;
    const auto* numbers = ask(what, static_cast<const dnnl_dims_t*>(nullptr));
    if (!known || !numbers) return {};
    out.insert(out.end(), *numbers, *numbers + (of_blocks ? blocks : dims));
  }
  return out;
}

void Port::decide(const_dnnl_memory_desc_t as_wanted, bool written) {
  const Library& dnn = *library();
  wanted = as_wanted;
  if (dnn.memory_desc_equal(given.get(), wanted)) return;
  const auto attr = user_scratchpad();
  const_dnnl_memory_desc_t from = written ? wanted : given.get(),
                           to = written ? given.get() : wanted;
  check_status(dnn.reorder_primitive_desc_create(&reorder_desc.out(), from, engine(), to, engine(),
                                                 attr.get()),
               "describing a reorder");
  reorder_scratchpad = dnn.primitive_desc_query_md(reorder_desc.get(), dnnl_query_scratchpad_md, 0);
  check_status(dnn.primitive_create(&reorder.out(), reorder_desc.get()), "making a reorder");
}

void Port::run_reorder(const void* from, const void* to, bool written) const {
  const auto source = memory(written ? wanted : given.get(), from);
  const auto target = memory(written ? given.get() : wanted, to);
  const Ref<Storage> pad = scratch(reorder_scratchpad);
  const auto pad_memory = memory(reorder_scratchpad, pad->data());
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source.get()},
                                  {DNNL_ARG_TO, target.get()},
                                  {DNNL_ARG_SCRATCHPAD, pad_memory.get()}};
  check_status(library()->primitive_execute(reorder.get(), stream(), 3, args), "a reorder");
}

Ref<Storage> laid_out(const Port& port, const Tensor& weight, const WeightLayout& layout,
                      bool at_once) {
  if (!port.reorder) return {};
  struct Source {
    const Port& port;
    const void* data;
  } source{port, weight.data()};
  return weight_in_layout(
      weight, layout, bytes_of(port.wanted), at_once,
      [](void* to, const void* from) {
        const auto& s = *static_cast<const Source*>(from);
        s.port.run_reorder(s.data, to, false);
      },
      &source);
}

}  // namespace rush::onednn
