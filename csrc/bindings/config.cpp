// config.cpp: settings and counters of the process: threads and CPU memory.
#include "bindings/handle.h"
#include "bindings/tensor/tensor_object.h"
#include "core/allocator.h"
#include "core/cpu_features.h"
#include "core/dynamic_library.h"
#include "core/layout.h"
#include "core/threads.h"
#include "core/user_allocator.h"
#include "cpu/nn/weight_layouts.h"
#include "cpu/nn/winograd.h"
#include "cpu/vendor/onednn_matmul.h"
#include "cpu/vendor/primitive_cache.h"
#include "device/nn/attention.h"
#include "jit/captured.h"

namespace rush::py {
namespace {

int64_t int_argument(const char* function, PyObject* o) {
  int64_t n;
  check(int_from_python(o, n), ErrorKind::ArgumentType, function, "expected an int, not ",
        type_name(o));
  return n;
}

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }
PyObject* get_num_interop_threads(PyObject*, PyObject*) {
  return PyLong_FromLong(num_interop_threads());
}

int thread_count(const char* function, PyObject* o) {
  const int64_t n = int_argument(function, o);
  check(n >= 1 && n <= 4096, ErrorKind::Argument, function,
        "the number of threads must be between 1 and 4096, not ", n);
  return int(n);
}

PyObject* set_num_threads_(PyObject*, PyObject* o) {
  return guarded([&] {
    set_num_threads(thread_count("set_num_threads", o));
    return Py_NewRef(Py_None);
  });
}
PyObject* set_num_interop_threads_(PyObject*, PyObject* o) {
  return guarded([&] {
    set_num_interop_threads(thread_count("set_num_interop_threads", o));
    return Py_NewRef(Py_None);
  });
}

using Counters = std::initializer_list<std::pair<const char*, int64_t>>;

PyObject* dict_of(Counters rows) {
  return guarded([&] {
    Handle dict = Handle::steal(PyDict_New());
    for (const auto& [name, value] : rows) {
      const Handle number = Handle::steal(PyLong_FromLongLong(value));
      check_status(PyDict_SetItemString(dict.get(), name, number.get()));
    }
    return dict.release();
  });
}

PyObject* memory_stats(PyObject*, PyObject*) {
  const MemoryStats s = cpu_memory_stats();
  return dict_of({
      {"allocated", s.allocated},
      {"reserved", s.reserved},
      {"peak", s.peak_allocated},
      {"peak_reserved", s.peak_reserved},
      {"live_blocks", s.live_blocks},
      {"allocations", s.allocations},
      {"frees", s.frees},
      {"cache_hits", s.cache_hits},
      {"system_reserves", s.system_reserves},
      {"system_releases", s.system_releases},
  });
}

PyObject* reset_peak(PyObject*, PyObject*) {
  reset_peak_memory_stats();
  return Py_NewRef(Py_None);
}
PyObject* empty_cache_(PyObject*, PyObject*) {
  empty_cache();
  return Py_NewRef(Py_None);
}
// _set_user_allocator(allocate, free): addresses of functions, (0, 0) for the library's own.
PyObject* user_allocator(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return guarded([&]() -> PyObject* {
    int64_t allocate, free;
    check(nargs == 2 && int_from_python(args[0], allocate) && int_from_python(args[1], free),
          ErrorKind::Type, "_set_user_allocator", "expected two addresses");
    set_user_allocator({reinterpret_cast<void* (*)(size_t)>(allocate),
                        reinterpret_cast<void (*)(void*, size_t)>(free)});
    return Py_NewRef(Py_None);
  });
}

// A switch of the core, read and written: _caching_enabled(), _set_caching_enabled(on).
template <bool (*read)()>
PyObject* read_switch(PyObject*, PyObject*) {
  return PyBool_FromLong(read());
}
template <void (*write)(bool)>
PyObject* write_switch(PyObject*, PyObject* o) {
  return guarded([&] {
    const int on = PyObject_IsTrue(o);
    check_status(on);
    write(on != 0);
    return Py_NewRef(Py_None);
  });
}

PyObject* primitive_stats(PyObject*, PyObject*) {
  const PrimitiveCacheStats s = primitive_cache_stats();
  return dict_of({{"entries", s.entries},
                  {"bytes", s.bytes},
                  {"hits", s.hits},
                  {"misses", s.misses},
                  {"evictions", s.evictions}});
}
PyObject* primitive_limit(PyObject*, PyObject*) {
  return PyLong_FromLongLong(primitive_cache_limit());
}
PyObject* set_primitive_limit(PyObject*, PyObject* o) {
  return guarded([&] {
    set_primitive_cache_limit(int_argument("_set_primitive_cache_limit", o));
    return Py_NewRef(Py_None);
  });
}

PyObject* weight_stats(PyObject*, PyObject*) {
  const WeightLayoutStats s = weight_layout_stats();
  return dict_of({{"copies", s.copies}, {"bytes", s.bytes}, {"hits", s.hits}, {"fills", s.fills}});
}

PyObject* isa(PyObject*, PyObject*) {
  return guarded([] { return PyUnicode_FromString(isa_name(isa_level())); });
}
PyObject* set_isa(PyObject*, PyObject* o) {
  const char* text = PyUnicode_AsUTF8(o);
  if (!text) return nullptr;
  return guarded([&] {
    for (const IsaLevel level : {IsaLevel::Baseline, IsaLevel::Avx2, IsaLevel::Avx512}) {
      if (std::string_view(text) != isa_name(level)) continue;
      set_isa_level(level);
      return Py_NewRef(Py_None);
    }
    fail(ErrorKind::Argument, "_set_isa_level", "expected baseline, avx2 or avx512, got '", text,
         "'");
  });
}
// The level that oneDNN was opened with; None while it is not open.
PyObject* onednn_isa(PyObject*, PyObject*) {
  const auto level = onednn::opened_level();
  return level ? PyUnicode_FromString(isa_name(*level)) : Py_NewRef(Py_None);
}
// How an arranged tensor's memory lies (core/layout.h); None for the others. For tests.
PyObject* arranged_strides(PyObject*, PyObject* o) {
  return guarded([&] {
    check(is_tensor(o), ErrorKind::ArgumentType, "_arranged_strides", "expected a tensor");
    const Tensor& t = unwrap(o);
    const Tensor form = arranged_form(t);
    if (form.is_same(t)) return Py_NewRef(Py_None);
    Handle list = Handle::steal(PyList_New(0));
    for (const int64_t step : form.strides()) {
      const Handle number = Handle::steal(PyLong_FromLongLong(step));
      check_status(PyList_Append(list.get(), number.get()));
    }
    return PyList_AsTuple(list.get());
  });
}
PyObject* fail_nth(PyObject*, PyObject* o) {
  return guarded([&] {
    fail_nth_allocation(std::max<int64_t>(int_argument("_fail_nth_allocation", o) + 1, 0));
    return Py_NewRef(Py_None);
  });
}

PyObject* get_attention_backends(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(attention_backends());
}
PyObject* set_attention_backends_(PyObject*, PyObject* o) {
  return guarded([&] {
    set_attention_backends(uint32_t(int_argument("_set_attention_backends", o)));
    return Py_NewRef(Py_None);
  });
}

// (query, value, plain, bits): would a fused kernel of those that the bits name take such a call?
PyObject* attention_takes_(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    check(count == 4 && is_tensor(args[0]) && is_tensor(args[1]), ErrorKind::ArgumentType,
          "_attention_takes", "expected two tensors, a bool and bits");
    const Tensor &q = unwrap(args[0]), &v = unwrap(args[1]);
    check(q.dim() > 1 && v.dim() > 1, ErrorKind::Shape, "_attention_takes",
          "query and value need two dims at least");
    const bool plain = PyObject_IsTrue(args[2]) == 1;
    const AttentionCase wanted{q.dtype(), q.sizes().back(), v.sizes().back(), plain,
                               uint32_t(int_argument("_attention_takes", args[3]))};
    return PyBool_FromLong(takes_attention(q, wanted));
  });
}

// Where wheels keep oneDNN and OpenBLAS; only stored, they are opened at first use.
PyObject* add_library_folder_(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (!text) return nullptr;
  return guarded([&] {
    add_library_folder(text);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_add_library_folder", add_library_folder_, METH_O, nullptr},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\n"
     "Threads that one op on the CPU may use.\n"
     "\n"
     "Example:\n"
     "    >>> rl.get_num_threads() >= 1\n"
     "    True"},
    {"set_num_threads", set_num_threads_, METH_O,
     "set_num_threads(n, /)\n--\n\n"
     "Sets how many threads one op on the CPU may use.\n"
     "\n"
     "Arguments:\n"
     "    n: how many, at least 1.\n"
     "\n"
     "Example:\n"
     "    >>> before = rl.get_num_threads()\n"
     "    >>> rl.set_num_threads(1); rl.get_num_threads()\n"
     "    1\n"
     "    >>> rl.set_num_threads(before)"},
    {"get_num_interop_threads", get_num_interop_threads, METH_NOARGS,
     "get_num_interop_threads()\n--\n\n"
     "Threads for independent pieces of work.\n"
     "\n"
     "Example:\n"
     "    >>> rl.get_num_interop_threads() >= 1\n"
     "    True"},
    {"set_num_interop_threads", set_num_interop_threads_, METH_O,
     "set_num_interop_threads(n, /)\n--\n\n"
     "Sets the threads for independent pieces of work.\n"
     "\n"
     "Arguments:\n"
     "    n: kept, and answered by `get_num_interop_threads`.\n"
     "\n"
     "Example:\n"
     "    >>> rl.set_num_interop_threads(rl.get_num_interop_threads())\n"
     "    >>> rl.get_num_interop_threads() >= 1\n"
     "    True"},
    {"memory_stats", memory_stats, METH_NOARGS,
     "memory_stats()\n--\n\n"
     "Counters of the CPU allocator, in bytes and calls.\n"
     "\n"
     "Example:\n"
     "    >>> isinstance(rl.memory_stats(), dict)\n"
     "    True"},
    {"reset_peak_memory_stats", reset_peak, METH_NOARGS,
     "reset_peak_memory_stats()\n--\n\n"
     "Starts the peaks of memory_stats anew.\n"
     "\n"
     "Example:\n"
     "    >>> rl.reset_peak_memory_stats() is None\n"
     "    True"},
    {"_empty_cpu_cache", empty_cache_, METH_NOARGS, "Gives cached CPU memory back to the system."},
    {"_caching_enabled", read_switch<caching_enabled>, METH_NOARGS, nullptr},
    {"_set_caching_enabled", write_switch<set_caching_enabled>, METH_O,
     "Off: every allocation is malloc's."},
    {"_set_user_allocator", as_method(user_allocator), METH_FASTCALL, nullptr},
    {"_huge_pages", read_switch<huge_pages>, METH_NOARGS, nullptr},
    {"_set_huge_pages", write_switch<set_huge_pages>, METH_O, nullptr},
    {"_onednn_wanted", read_switch<onednn::wanted>, METH_NOARGS, nullptr},
    {"_set_onednn_wanted", write_switch<onednn::set_wanted>, METH_O, nullptr},
    {"_onednn_level", onednn_isa, METH_NOARGS, nullptr},
    {"_isa_level", isa, METH_NOARGS, nullptr},
    {"_set_isa_level", set_isa, METH_O, nullptr},
    {"_primitive_cache_stats", primitive_stats, METH_NOARGS, nullptr},
    {"_primitive_cache_limit", primitive_limit, METH_NOARGS, nullptr},
    {"_set_primitive_cache_limit", set_primitive_limit, METH_O, nullptr},
    {"_weight_layouts", read_switch<keeps_weight_layouts>, METH_NOARGS, nullptr},
    {"_set_weight_layouts", write_switch<set_keeps_weight_layouts>, METH_O, nullptr},
    {"_weight_layout_stats", weight_stats, METH_NOARGS, nullptr},
    {"_winograd", read_switch<uses_winograd>, METH_NOARGS, nullptr},
    {"_set_winograd", write_switch<set_uses_winograd>, METH_O, nullptr},
    {"_frozen_graphs", read_switch<jit::frozen_graphs>, METH_NOARGS, nullptr},
    {"_set_frozen_graphs", write_switch<jit::set_frozen_graphs>, METH_O, nullptr},
    {"_automatic_layout", read_switch<automatic_layout>, METH_NOARGS, nullptr},
    {"_set_automatic_layout", write_switch<set_automatic_layout>, METH_O,
     "Whether convolutions choose how their results lie in memory."},
    {"_attention_backends", get_attention_backends, METH_NOARGS,
     "Which ways to compute attention are allowed, as bits: see device/nn/attention.h."},
    {"_set_attention_backends", set_attention_backends_, METH_O, nullptr},
    {"_attention_takes", as_method(attention_takes_), METH_FASTCALL, nullptr},
    {"_arranged_strides", arranged_strides, METH_O, nullptr},
    {"_fail_nth_allocation", fail_nth, METH_O,
     "The n-th allocation from now fails, once; 0 is the next one, -1 disarms."},
    {},
};

}  // namespace

bool init_config(PyObject* module) {
#if defined(RUSH_DEBUG)
  constexpr bool debug = true;
#else
  constexpr bool debug = false;
#endif
  return PyModule_AddFunctions(module, functions) == 0 &&
         PyModule_AddObjectRef(module, "_debug_build", debug ? Py_True : Py_False) == 0;
}

}  // namespace rush::py
