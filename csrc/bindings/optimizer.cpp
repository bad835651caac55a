// optimizer.cpp: an optimiser's step from Python. Parameters, gradients and states are collected
// here, from the optimiser's own dicts and anew at every step: nothing is cached that a user could
// change behind our back, and it costs less than a microsecond for ten parameters.
#include <vector>

#include "autograd/meta.h"
#include "bindings/autograd/training.h"
#include "bindings/handle.h"
#include "core/memoryless.h"
#include "core/modes.h"
#include "cuda/runtime/capture.h"
#include "jit/recorder.h"
#include "ops/gradients_ops.h"
#include "ops/ops.h"
#include "ops/optim/optimizer_rules.h"

namespace rush::py {
namespace {

constexpr const char* kName = "optimizer step";
constexpr int64_t kReleaseGil = 32768;  // elements

std::vector<PyObject*> names_in(PyObject* tuple) {
  check(PyTuple_Check(tuple), ErrorKind::Type, kName, "names must come as a tuple");
  std::vector<PyObject*> names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    names.push_back(PyTuple_GET_ITEM(tuple, i));
  return names;
}

// A group's options. Those that a GPU holds are left there, so that nobody waits for them.
struct Options {
  std::vector<double> numbers;
  std::vector<OptimizerOption> on_device;

  explicit Options(PyObject* tuple) {
    check(PyTuple_Check(tuple), ErrorKind::Type, kName, "options must come as a tuple");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      PyObject* item = PyTuple_GET_ITEM(tuple, i);
      if (is_tensor(item) && unwrap(item).is_cuda()) {
        const NoGradGuard no_grad;
        on_device.push_back({int(i), cast(unwrap(item), DType::Float64)});
        numbers.push_back(0);
        continue;
      }
      numbers.push_back(PyFloat_AsDouble(item));
      if (numbers.back() == -1 && PyErr_Occurred()) throw PythonError{};
    }
  }
};

// Appends the named tensors of one parameter's state; false when one is not there yet.
bool collect(PyObject* state, const std::vector<PyObject*>& names, std::vector<Tensor>& to) {
  for (PyObject* name : names) {
    PyObject* item = PyDict_GetItemWithError(state, name);
    if (!item && PyErr_Occurred()) throw PythonError{};
    if (!item || item == Py_None) return false;
    check(is_tensor(item), ErrorKind::Type, kName, "the state '", text_of(name),
          "' of a parameter must be a tensor, not ", type_name(item));
    to.push_back(unwrap(item));
  }
  return true;
}

// _optimizer_step(rule, params, state, scalar_names, state_names, options): a step for all params
// that have a gradient; or, when some of them lack a state, nothing but a list of these; or, when
// some are sparse or have a sparse gradient, nothing but a tuple of these.
PyObject* step(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    constexpr const char* names[] = {"rule",         "params",      "state",
                                     "scalar_names", "state_names", "options"};
    PyObject* a[6];
    parse_arguments({kName, names, 6, 6}, args, nargs, kwnames, a);
    check(PyUnicode_Check(a[0]), ErrorKind::Type, kName, "the rule must be a str");
    check(PyDict_Check(a[2]), ErrorKind::Type, kName, "optimizer.state must be a dict, not ",
          type_name(a[2]));
    const auto scalar_names = names_in(a[3]), state_names = names_in(a[4]);
    const Handle list = Handle::steal(PySequence_Fast(a[1], "params must be a sequence"));
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(list.get());
    std::vector<Tensor> params, grads, scalars, states;
    params.reserve(size_t(n));
    grads.reserve(size_t(n));
    scalars.reserve(size_t(n) * scalar_names.size());
    states.reserve(size_t(n) * state_names.size());
    Handle missing, sparse;
    int64_t elements = 0;
    const bool recorded = jit::recorder_here() != nullptr;
    const bool capturing = cuda::any_capture() && cuda::is_capturing_on(Device{DeviceType::CUDA});
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* p = PySequence_Fast_GET_ITEM(list.get(), i);
      check(is_tensor(p), ErrorKind::Type, kName, "parameter ", int64_t(i), " is not a tensor but ",
            type_name(p));
      Tensor grad = recorded ? _read_grad(unwrap(p)) : grad_of(unwrap(p));
      const bool memoryless = is_memoryless(unwrap(p));  // then Python knows its gradient
      if (!grad.defined() && !memoryless) continue;
      if (memoryless || is_memoryless(grad)) [[unlikely]] {
        if (!sparse) sparse = Handle::steal(PyList_New(0));
        check_status(PyList_Append(sparse.get(), p));
        continue;
      }
      if (!scalar_names.empty() || !state_names.empty()) {
        PyObject* state = PyDict_GetItemWithError(a[2], p);
        if (!state && PyErr_Occurred()) throw PythonError{};
        check(!state || PyDict_Check(state), ErrorKind::Type, kName,
              "the state of a parameter must be a dict, not ", state ? type_name(state) : "");
        const bool complete =
            state && collect(state, scalar_names, scalars) && collect(state, state_names, states);
        // Step counts on the host do not move on when a captured graph is replayed.
        const bool left_behind = complete && capturing && !scalar_names.empty() &&
                                 unwrap(p).is_cuda() && scalars.back().is_cpu();
        if (!complete || left_behind) {
          if (!missing) missing = Handle::steal(PyList_New(0));
          check_status(PyList_Append(missing.get(), p));
          continue;
        }
      }
      params.push_back(unwrap(p));
      grads.push_back(std::move(grad));
      elements += params.back().numel();
    }
    if (sparse) return PySequence_Tuple(sparse.get());
    if (missing) return missing.release();
    const Options options(a[5]);
    if (params.empty()) return Py_NewRef(Py_None);
    const std::string_view rule = text_of(a[0]);
    if (recorded && !options.on_device.empty()) jit::end_recording("a learning rate on a GPU");
    const auto run = [&] {
      if (recorded && options.on_device.empty()) {
        optimizer_step(rule, params, grads, scalars, states, options.numbers);
        return;
      }
      optimizer_step_with(rule, params, grads, scalars, states, options.numbers, options.on_device);
    };
    if (elements >= kReleaseGil) {
      const ReleaseGil working;
      run();
    } else {
      run();
    }
    return Py_NewRef(Py_None);
  });
}

// _drop_grads(params): sets every .grad to None.
PyObject* drop_grads(PyObject*, PyObject* params) {
  return guarded([&] {
    const bool recorded = jit::recorder_here() != nullptr;
    const Handle list = Handle::steal(PySequence_Fast(params, "params must be a sequence"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
      PyObject* p = PySequence_Fast_GET_ITEM(list.get(), i);
      check(is_tensor(p), ErrorKind::Type, "zero_grad", "parameter ", int64_t(i),
            " is not a tensor but ", type_name(p));
      if (!grad_meta_or_null(unwrap(p))) continue;
      if (recorded)
        _put_grad(unwrap(p), {});
      else
        exchange_grad(unwrap(p), {});
    }
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_optimizer_step", as_method(step), kFastcall, nullptr},
    {"_drop_grads", drop_grads, METH_O, nullptr},
    {},
};

}  // namespace

bool init_optimizer(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
