#include "bindings/extension_api.h"

#include "bindings/call/carried_error.h"
#include "bindings/call/dispatch.h"
#include "cuda/runtime/launch_batch.h"

namespace rush::py {
namespace {

bool raise_ours(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    raise_current();
  } catch (const CarriedError&) {
    raise_current();
  } catch (const PythonError&) {
    raise_current();
  } catch (...) {
    return false;
  }
  return true;
}

// A device that is none raises inside; here it is only no device.
bool read_device(PyObject* o, Device& device) {
  try {
    return device_from_python(o, device);
  } catch (const Error&) {
    return false;
  }
}

const ExtensionApi api = {
    kExtensionApi,
    [](const Tensor& t) { return wrap(t); },
    [](PyObject* o) -> const Tensor* {
      if (!is_tensor(o)) return nullptr;
      const Tensor& t = unwrap(o);
      if (t.device().is_cuda()) cuda::leave_batches("a tensor was given to an extension module");
      return &t;
    },
    [](DType t) { return wrap(t); },
    [](PyObject* o, DType& t) {
      if (!is_dtype(o)) return false;
      t = as_dtype(o);
      return true;
    },
    [](Device d) { return wrap(d); },
    read_device,
    [](const Scalar& s) { return wrap(s); },
    scalar_from_python,
    [] { return raise_ours(std::current_exception()); },
    raise_ours,
};

}  // namespace

bool init_extension_api(PyObject* module) {
  PyObject* capsule =
      PyCapsule_New(const_cast<ExtensionApi*>(&api), "rushlight._C._extension_api", nullptr);
  return capsule && PyModule_AddObject(module, "_extension_api", capsule) == 0;
}

}  // namespace rush::py
