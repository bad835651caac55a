// ipc.cpp: GPU memory between processes, for rushlight/multiprocessing/_cuda_sharing.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <atomic>

#include "bindings/call/carried_error.h"
#include "bindings/cuda/memory.h"
#include "bindings/data/processes.h"
#include "bindings/handle.h"
#include "bindings/python.h"
#include "cuda/runtime/ipc.h"
#include "cuda/runtime/memory.h"

namespace rush::py {
namespace {

namespace nb = nanobind;
using namespace rush::cuda;

nb::bytes as_bytes(const std::string& s) { return nb::bytes(s.data(), s.size()); }
std::string text(nb::handle h) {
  const auto b = nb::cast<nb::bytes>(h);
  return {b.c_str(), b.size()};
}

// (process, range, range_size, offset, nbytes, device, handle, event, pieces)
nb::tuple share(nb::handle storage) {
  const SharedBlock b = share_block(*storage_from_python(storage.ptr()));
  nb::list pieces;
  for (const SharedPiece& p : b.pieces)
    pieces.append(nb::make_tuple(p.serial, p.place, p.nbytes, p.descriptor));
  return nb::make_tuple(b.process, b.range, b.range_size, b.offset, b.nbytes, b.device,
                        as_bytes(b.handle), as_bytes(b.event), nb::tuple(pieces));
}

// Calls a Python function when the memory is let go, from whatever thread.
void call_released(void* context) {
  with_gil([&] {
    auto* function = static_cast<PyObject*>(context);
    PyObject* result = PyObject_CallNoArgs(function);
    if (!result) PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
    Py_DECREF(function);
  });
}

// Called when an allocation is about to fail: memory that no receiver holds any more is freed.
PyObject* g_collect = nullptr;
void collect_sent() {
  with_gil([] {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject* result = PyObject_CallNoArgs(g_collect);
    if (!result) PyErr_WriteUnraisable(g_collect);
    Py_XDECREF(result);
    PyErr_Restore(kind, value, trace);
  });
}

nb::object receive(nb::tuple place, nb::handle released) {
  SharedBlock b{};
  b.process = nb::cast<uint64_t>(place[0]);
  b.range = nb::cast<uint64_t>(place[1]);
  b.range_size = nb::cast<uint64_t>(place[2]);
  b.offset = nb::cast<uint64_t>(place[3]);
  b.nbytes = nb::cast<uint64_t>(place[4]);
  b.device = nb::cast<int>(place[5]);
  b.handle = text(place[6]);
  b.event = text(place[7]);
  for (nb::handle item : nb::cast<nb::tuple>(place[8])) {
    const auto piece = nb::cast<nb::tuple>(item);
    b.pieces.push_back({nb::cast<uint64_t>(piece[0]), nb::cast<uint64_t>(piece[1]),
                        nb::cast<uint64_t>(piece[2]), nb::cast<int>(piece[3])});
  }
  Ref<Storage> storage = open_block(b, call_released, released.ptr());
  Py_INCREF(released.ptr());
  return nb::steal(wrap(std::move(storage)));
}

// ---- numbers that processes share: a CPU tensor of int64 ----

std::atomic_ref<int64_t> cell(nb::handle o, int64_t i) {
  const Tensor& t = unwrap(o.ptr());
  check(t.is_cpu() && t.dtype() == DType::Int64 && t.is_contiguous() && i >= 0 && i < t.numel(),
        ErrorKind::Value, "shared counts", "expected a CPU tensor of int64 with more than ", i,
        " elements");
  return std::atomic_ref<int64_t>(t.data<int64_t>()[i]);
}

}  // namespace

void add_cuda_ipc(nb::module_& m) {
  m.def("share", share);
  m.def("receive", receive);
  m.def("has_piece", has_piece);
  m.def("collect_with", [](nb::handle function) {
    if (!g_collect) g_collect = Py_NewRef(function.ptr());
    set_reclaimer(collect_sent);
  });
  m.def("is_received", [](nb::handle s) { return is_received(*storage_from_python(s.ptr())); });
  m.def("cell_add", [](nb::handle t, int64_t i, int64_t n) { return cell(t, i).fetch_add(n) + n; });
  m.def("cell_swap", [](nb::handle t, int64_t i, int64_t from, int64_t to) {
    return cell(t, i).compare_exchange_strong(from, to);
  });
}

}  // namespace rush::py
