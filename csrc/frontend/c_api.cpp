// c_api.cpp: the functions of frontend/c/rushlight.h. Each runs in `guarded`, which lets no
// exception out.
#include <dlfcn.h>
#include <pthread.h>

#include <cstring>

#include "autograd/engine.h"
#include "core/dlpack.h"
#include "core/modes.h"
#include "core/version.h"
#include "frontend/library.h"
#include "frontend/optim.h"
#include "frontend/random.h"
#include "jit/program.h"
#include "jit/recorder.h"
#include "ops/ops.h"

#pragma GCC visibility push(default)
#include "frontend/c/rushlight.h"
#pragma GCC visibility pop

struct rush_tensor {
  rush::Tensor tensor;
};
struct rush_program {
  rush::Program program;
};
struct rush_optimizer {
  std::unique_ptr<rush::optim::Optimizer> optimizer;
};

namespace {

using rush::check;
using rush::ErrorKind;
using rush::Tensor;
using rush::Value;

// The last message of a thread, behind a key: static thread-local memory is scarce (see
// cmake/flags.cmake).
std::string& message() {
  static const pthread_key_t key = [] {
    pthread_key_t k;
    pthread_key_create(&k, [](void* p) { delete static_cast<std::string*>(p); });
    return k;
  }();
  auto* text = static_cast<std::string*>(pthread_getspecific(key));
  if (!text) {
    text = new std::string;
    pthread_setspecific(key, text);
  }
  return *text;
}

template <class F>
int guarded(F&& f) noexcept {
  try {
    message().clear();
    f();
    return 0;
  } catch (const std::exception& e) {
    message() = e.what();
  } catch (...) {
    message() = "an unknown C++ exception";
  }
  return 1;
}

template <class T>
const T& given(const T* p, const char* what) {
  check(p != nullptr, ErrorKind::Value, "", what, " is null");
  return *p;
}
const Tensor& tensor(const rush_tensor* t) { return given(t, "a tensor").tensor; }
rush_tensor* handle(Tensor t) { return new rush_tensor{std::move(t)}; }
template <class T>
void give(T** out, T* value) {
  given(out, "the place for the result");
  *out = value;
}

std::vector<Tensor> tensors(rush_tensor* const* list, int count) {
  check(count >= 0 && (list || count == 0), ErrorKind::Value, "", "a list of tensors is null");
  std::vector<Tensor> out;
  for (int i = 0; i < count; ++i) out.push_back(tensor(list[i]));
  return out;
}

rush::DType dtype(const char* name) {
  given(name, "a dtype");
  for (size_t i = 0; i < std::size(rush::kDTypes); ++i) {
    if (rush::kDTypes[i].name == name) return rush::DType(i);
  }
  rush::fail(ErrorKind::Value, "", "there is no dtype '", name, "'");
}
rush::Device device(const char* name) { return name ? rush::parse_device(name) : rush::Device(); }
rush::Dims dims(const int64_t* sizes, int ndim) {
  check(ndim >= 0 && ndim <= rush::kMaxDims && (sizes || ndim == 0), ErrorKind::Value, "",
        "there are ", ndim, " sizes");
  return rush::Dims(rush::IntList(sizes, size_t(ndim)));
}

// Fills up to `capacity` places; `count` says how many there are.
void give_all(const std::vector<Tensor>& list, rush_tensor** out, int capacity, int* count) {
  given(count, "the place for the count");
  *count = int(list.size());
  check(int(list.size()) <= capacity && (out || list.empty()), ErrorKind::Value, "", "there are ",
        list.size(), " results, and room for ", capacity);
  for (size_t i = 0; i < list.size(); ++i) out[i] = handle(list[i]);
}

void flatten(const rush::jit::IValue& v, std::vector<Tensor>& out) {
  if (v.isTensor()) out.push_back(v.toTensor());
  if (v.kind() >= rush::jit::IValue::Kind::Tuple) {
    for (const auto& item : v.elements()) flatten(item, out);
  }
}

void read(const rush_value& v, Value& to) {
  const auto count = size_t(v.count);
  switch (v.kind) {
    case RUSH_NONE:
      return;
    case RUSH_TENSOR:
      return to.borrow(tensor(static_cast<const rush_tensor*>(v.as.pointer)).impl());
    case RUSH_TENSORS:
      return to.own(tensors(static_cast<rush_tensor* const*>(v.as.pointer), v.count));
    case RUSH_INT:
      return to.set(v.as.integer);
    case RUSH_FLOAT:
      return to.set(v.as.real);
    case RUSH_BOOL:
      return to.set(v.as.integer != 0);
    case RUSH_STRING:
      return to.borrow(
          std::string_view(&given(static_cast<const char*>(v.as.pointer), "a string")));
    case RUSH_INTS:
      return to.borrow(rush::IntList(static_cast<const int64_t*>(v.as.pointer), count));
    case RUSH_FLOATS:
      return to.borrow(std::span<const double>(static_cast<const double*>(v.as.pointer), count));
    case RUSH_DTYPE:
      return to.set(dtype(static_cast<const char*>(v.as.pointer)));
    case RUSH_DEVICE:
      return to.set(device(static_cast<const char*>(v.as.pointer)));
    default:
      rush::fail(ErrorKind::Value, "", "there is no kind of value ", v.kind);
  }
}

rush_value written(const Value& v) {
  rush_value out{};
  switch (v.tag()) {
    case Value::Tag::Tensor:
      out.kind = RUSH_TENSOR;
      out.as.pointer = handle(v.tensor());
      break;
    case Value::Tag::Tensors: {
      auto* list = new rush_tensor*[v.tensors().size()];
      for (size_t i = 0; i < v.tensors().size(); ++i) list[i] = handle(v.tensors()[i]);
      out.kind = RUSH_TENSORS;
      out.count = int32_t(v.tensors().size());
      out.as.pointer = list;
      break;
    }
    case Value::Tag::Scalar:
      check(!v.scalar().is_complex(), ErrorKind::NotImplemented, "", "the result is complex");
      out.kind = v.scalar().is_bool() ? RUSH_BOOL : v.scalar().is_integer() ? RUSH_INT : RUSH_FLOAT;
      if (out.kind == RUSH_FLOAT)
        out.as.real = v.scalar().to_double();
      else
        out.as.integer = v.scalar().to_int();
      break;
    case Value::Tag::Int:
    case Value::Tag::Bool:
      out.kind = v.tag() == Value::Tag::Int ? RUSH_INT : RUSH_BOOL;
      out.as.integer = v.integer();
      break;
    case Value::Tag::Float:
      out = {RUSH_FLOAT, 0, {.real = v.real()}};
      break;
    case Value::Tag::DType:
      out.kind = RUSH_DTYPE;
      out.as.pointer = rush::name(v.dtype()).data();
      break;
    default:
      break;
  }
  return out;
}

Tensor on_host(const Tensor& t) {
  const rush::NoGradGuard no_grad;
  return rush::contiguous(rush::to(t, std::optional(rush::Device())));
}

}  // namespace

int rush_abi_version(void) { return RUSH_ABI_VERSION; }
const char* rush_version(void) { return rush::version(); }
const char* rush_last_error(void) { return message().c_str(); }

int rush_tensor_new(const int64_t* sizes, int ndim, const char* type, const char* place,
                    rush_tensor** out) {
  return guarded([&] {
    give(out, handle(rush::zeros(dims(sizes, ndim), dtype(type), std::nullopt, device(place))));
  });
}
int rush_tensor_from_data(const void* data, const int64_t* sizes, int ndim, const char* type,
                          rush_tensor** out) {
  return guarded([&] {
    const Tensor t = rush::make_tensor(dims(sizes, ndim), dtype(type));
    check(data || t.numel() == 0, ErrorKind::Value, "", "the data is null");
    if (t.nbytes() > 0) std::memcpy(t.data(), data, size_t(t.nbytes()));
    give(out, handle(t));
  });
}
int rush_tensor_copy_to(const rush_tensor* t, void* data, size_t bytes) {
  return guarded([&] {
    const Tensor host = on_host(tensor(t));
    check(size_t(host.nbytes()) == bytes && (data || bytes == 0), ErrorKind::Value, "",
          "the tensor has ", host.nbytes(), " bytes, there is room for ", bytes);
    if (bytes > 0) std::memcpy(data, host.data(), bytes);
  });
}
int rush_tensor_from_dlpack(struct DLManagedTensor* given_managed, rush_tensor** out) {
  return guarded([&] {
    auto* managed = reinterpret_cast<rush::dl::Managed*>(given_managed);
    given(managed, "the DLPack tensor");
    give(out, handle(rush::dl::tensor_over(
                  managed->array,
                  [](void* context) noexcept {
                    auto* m = static_cast<rush::dl::Managed*>(context);
                    if (m->deleter) m->deleter(m);
                  },
                  managed, false)));
  });
}
int rush_tensor_to_dlpack(const rush_tensor* t, struct DLManagedTensor** out) {
  return guarded([&] {
    check(!rush::requires_grad(tensor(t)), ErrorKind::Runtime, "",
          "a tensor that requires a gradient cannot be handed out; use detach first");
    rush::jit::end_recording("a tensor's memory in other hands");
    auto made = std::make_unique<rush::dl::Export<rush::dl::Managed>>();
    auto* managed = rush::dl::fill_export(made.get(), tensor(t));
    give(out, reinterpret_cast<struct DLManagedTensor*>(managed));
    made.release();
  });
}
int rush_tensor_share(const rush_tensor* t, rush_tensor** out) {
  return guarded([&] { give(out, handle(tensor(t))); });
}
void rush_tensor_free(rush_tensor* t) { delete t; }
int rush_tensor_ndim(const rush_tensor* t) { return t ? int(t->tensor.dim()) : -1; }
int64_t rush_tensor_size(const rush_tensor* t, int dim) {
  return t && dim >= 0 && dim < t->tensor.dim() ? t->tensor.sizes()[size_t(dim)] : -1;
}
int64_t rush_tensor_numel(const rush_tensor* t) { return t ? t->tensor.numel() : -1; }
const char* rush_tensor_dtype(const rush_tensor* t) {
  return t ? rush::name(t->tensor.dtype()).data() : "";
}

int rush_call(const char* op, const rush_value* args, int nargs, rush_value* results, int capacity,
              int* nresults) {
  return guarded([&] {
    given(op, "the operator's name");
    given(nresults, "the place for the count");
    check(nargs >= 0 && (args || nargs == 0), ErrorKind::Value, op, "the arguments are null");
    std::vector<Value> values(static_cast<size_t>(nargs));
    for (int i = 0; i < nargs; ++i) read(args[i], values[size_t(i)]);
    const std::vector<Value> out = rush::call_by_name(op, values);
    *nresults = int(out.size());
    check(int(out.size()) <= capacity && (results || out.empty()), ErrorKind::Value, op,
          "there are ", out.size(), " results, and room for ", capacity);
    for (size_t i = 0; i < out.size(); ++i) results[i] = written(out[i]);
  });
}
void rush_value_free(rush_value* v) {
  if (!v) return;
  if (v->kind == RUSH_TENSOR) delete static_cast<const rush_tensor*>(v->as.pointer);
  if (v->kind == RUSH_TENSORS) {
    auto* list = static_cast<rush_tensor* const*>(v->as.pointer);
    for (int32_t i = 0; i < v->count; ++i) delete list[i];
    delete[] list;
  }
  *v = rush_value{};
}
int rush_load_library(const char* path) {
  return guarded([&] {
    given(path, "the path");
    const bool opened = dlopen(path, RTLD_NOW | RTLD_LOCAL) != nullptr;
    if (!opened) rush::fail(ErrorKind::Runtime, "", dlerror());
    const std::string errors = rush::take_library_errors();
    check(errors.empty(), ErrorKind::Runtime, path, "operators could not be registered:\n", errors);
  });
}

int rush_set_requires_grad(rush_tensor* t, int on) {
  return guarded([&] { rush::set_requires_grad(tensor(t), on != 0); });
}
int rush_requires_grad(const rush_tensor* t) { return t && rush::requires_grad(t->tensor); }
int rush_set_grad_enabled(int on) {
  const int before = !(rush::t_modes & rush::kNoGrad);
  rush::set_mode(rush::kNoGrad, !on);
  return before;
}
int rush_backward(const rush_tensor* loss, int retain_graph) {
  return guarded([&] {
    const Tensor roots[] = {tensor(loss)}, ones[] = {Tensor()};
    rush::BackwardOptions options;
    options.retain_graph = retain_graph != 0;
    rush::backward(roots, ones, options);
  });
}
int rush_grad(const rush_tensor* t, rush_tensor** out) {
  return guarded([&] {
    const Tensor g = rush::grad_meta_or_null(tensor(t)) ? rush::grad_of(tensor(t)) : Tensor();
    give(out, g.defined() ? handle(g) : nullptr);
  });
}

int rush_program_load(const char* path, const char* place, rush_program** out) {
  return guarded([&] {
    given(path, "the path");
    std::optional<rush::Device> where;
    if (place) where = rush::parse_device(place);
    give(out, new rush_program{rush::Program::load(path, where)});
  });
}
int rush_program_save(const rush_program* p, const char* path) {
  return guarded([&] { given(p, "the program").program.save(&given(path, "the path")); });
}
int rush_program_run(const rush_program* p, const char* method, rush_tensor* const* inputs,
                     int ninputs, rush_tensor** outputs, int capacity, int* noutputs) {
  return guarded([&] {
    std::vector<rush::jit::IValue> in;
    for (Tensor& t : tensors(inputs, ninputs)) in.emplace_back(t);
    std::vector<Tensor> out;
    flatten(given(p, "the program").program.run_method(method ? method : "forward", in), out);
    give_all(out, outputs, capacity, noutputs);
  });
}
int rush_program_parameters(const rush_program* p, rush_tensor** out, int capacity, int* count) {
  return guarded(
      [&] { give_all(given(p, "the program").program.parameters(), out, capacity, count); });
}
void rush_program_free(rush_program* p) { delete p; }

int rush_sgd_new(rush_tensor* const* parameters, int count, double lr, double momentum,
                 double weight_decay, rush_optimizer** out) {
  return guarded([&] {
    const auto options = rush::optim::SGDOptions(lr).momentum(momentum).weight_decay(weight_decay);
    give(out, new rush_optimizer{
                  std::make_unique<rush::optim::SGD>(tensors(parameters, count), options)});
  });
}
int rush_adam_new(rush_tensor* const* parameters, int count, double lr, double beta1, double beta2,
                  double eps, double weight_decay, int decoupled, rush_optimizer** out) {
  return guarded([&] {
    const auto make = [&]<class Optimizer, class Options>(std::type_identity<Optimizer>,
                                                          Options options) {
      options.betas({beta1, beta2}).eps(eps).weight_decay(weight_decay);
      give(out,
           new rush_optimizer{std::make_unique<Optimizer>(tensors(parameters, count), options)});
    };
    if (decoupled)
      make(std::type_identity<rush::optim::AdamW>(), rush::optim::AdamWOptions(lr));
    else
      make(std::type_identity<rush::optim::Adam>(), rush::optim::AdamOptions(lr));
  });
}
int rush_optimizer_step(rush_optimizer* o) {
  return guarded([&] {
    given(o, "the optimiser");
    o->optimizer->step();
  });
}
int rush_optimizer_zero_grad(rush_optimizer* o) {
  return guarded([&] {
    given(o, "the optimiser");
    o->optimizer->zero_grad();
  });
}
void rush_optimizer_free(rush_optimizer* o) { delete o; }

int rush_manual_seed(uint64_t seed) {
  return guarded([&] { rush::manual_seed(seed); });
}
