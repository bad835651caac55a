// dispatch.cpp: the way of every op call from Python: pick the overload, run it, wrap the results.
#include "bindings/call/dispatch.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "autograd/forward.h"
#include "bindings/call/parse.h"
#include "bindings/call/torch_function.h"
#include "bindings/gil.h"
#include "bindings/handle.h"
#include "ops/framework/boxing.h"

namespace rush::py {
namespace {

// Interned argument names of all entries, entry after entry in the table's order.
std::vector<PyObject*> g_names;
std::vector<uint32_t> g_first_name;
const OpEntry* g_table = nullptr;

PyObject* const* names_of(const OpEntry& entry) {
  return g_names.data() + g_first_name[size_t(&entry - g_table)];
}

// The results of one call; only as many as there are get constructed.
class Results {
 public:
  explicit Results(int n) : n_(n) {
    for (int i = 0; i < n; ++i) new (get() + i) Value();
  }
  ~Results() {
    for (int i = 0; i < n_; ++i) get()[i].~Value();
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  Value* get() { return reinterpret_cast<Value*>(raw_); }

 private:
  int n_;
  alignas(Value) unsigned char raw_[kMaxResults * sizeof(Value)];
};

// Was `out` given, and not as None?
bool has_out(const PythonCall& call) {
  for (Py_ssize_t j = 0; j < call.num_keywords(); ++j) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(call.kwnames, j), "out") == 0) {
      return call.args[call.nargs + j] != Py_None;
    }
  }
  return false;
}

// Elements of what a call without tensors will make: the product of its sizes.
int64_t created_elements(const OpEntry& entry, Value* values) {
  int64_t most = 0;
  for (size_t i = 0; i < entry.args.size(); ++i) {
    if (values[i].tag() == Value::Tag::Int) most = std::max(most, values[i].integer());
    if (values[i].tag() != Value::Tag::Ints) continue;
    int64_t n = 1;
    for (const int64_t size : values[i].ints()) {
      if (__builtin_mul_overflow(n, size, &n)) return 0;  // the op will complain
    }
    most = std::max(most, n);
  }
  return most;
}

PyObject* return_given(const OpEntry& entry, PyObject* out) {
  if (entry.num_results == 1) return Py_NewRef(out);
  PyObject* items[kMaxResults];
  for (int i = 0; i < entry.num_results; ++i) {
    items[i] = Py_NewRef(PyTuple_Check(out) ? PyTuple_GET_ITEM(out, i) : PyList_GET_ITEM(out, i));
  }
  return make_named_tuple(entry, items);
}

// A factory fills the given tensor: its dtype and device are the tensor's, and may be said, but not
// otherwise.
void check_factory_out(const OpEntry& entry, Value* values) {
  const Tensor out = values[entry.args.size() - 1].tensor();
  for (size_t i = 0; i < entry.args.size(); ++i) {
    Value& v = values[i];
    if (entry.args[i].kind == ArgKind::DType) {
      check(v.tag() == Value::Tag::None || v.dtype() == out.dtype(), ErrorKind::DType, entry.name,
            "dtype is ", v.tag() == Value::Tag::None ? out.dtype() : v.dtype(), ", out is ",
            out.dtype());
      v.set(out.dtype());
    } else if (entry.args[i].kind == ArgKind::Device) {
      check(v.tag() == Value::Tag::None || v.device().type == out.device().type, ErrorKind::Device,
            entry.name, "device is not that of out, which is on ", out.device());
      v.set(out.device());
    }
  }
}

bool is_factory(const OpEntry& entry) {
  for (const ArgSpec& a : entry.args) {
    if (a.kind == ArgKind::Layout) return true;
  }
  return false;
}

void check_no_tangents(const OpEntry& entry, Value* values) {
  for (size_t i = 0; i < entry.args.size(); ++i) {
    check(values[i].tag() != Value::Tag::Tensor || !has_tangent(values[i].tensor()),
          ErrorKind::NotImplemented, entry.name,
          "out= does not support forward mode, but an argument has a tangent; use the result");
  }
}

void check_out(const OpEntry& entry, Value* values) {
  if (forward_active()) check_no_tangents(entry, values);
  if (entry.num_results == 1) {
    if (is_factory(entry)) check_factory_out(entry, values);
    return;
  }
  const size_t n = values[entry.args.size() - 1].tensors().size();
  check(n == entry.num_results, ErrorKind::Type, "",
        concat(entry.name, "(): argument 'out' must hold ", int(entry.num_results),
               " tensors, not ", n));
}

PyObject* run(const OpEntry& entry, Parser& parser) {
  Value* values = parser.values();
  Results results(entry.num_results);
  if (entry.form == Form::Out) check_out(entry, values);
  int64_t elements = parser.elements();
  if (elements == 0) elements = created_elements(entry, values);
  run_boxed(entry, values, results.get(), elements);
  switch (entry.form) {
    case Form::InPlace:
      return Py_NewRef(parser.given(entry.self_index));
    case Form::Out:
      return return_given(entry, parser.given(entry.args.size() - 1));
    default:
      return wrap_results(entry, results.get());
  }
}

// Of the entries of a name, those that this way of calling can mean.
bool reachable(const OpEntry& entry, const PythonCall& call, bool out) {
  if (call.self) return entry.is_method && entry.form != Form::Out;
  return entry.is_function && (entry.form == Form::Out) == out;
}

// An overload as users see it: with `out` where it has such a form.
std::string shown_signature(std::span<const OpEntry> overloads, const OpEntry& entry, bool method) {
  for (const OpEntry& e : overloads) {
    const bool sibling = std::strcmp(e.overload, entry.overload) == 0;
    if (!method && e.form == Form::Out && sibling) return signature_text(e, method);
  }
  return signature_text(entry, method);
}

[[noreturn]] void raise_no_fit(std::span<const OpEntry> overloads, const PythonCall& call,
                               bool out) {
  std::vector<const OpEntry*> candidates;
  for (const OpEntry& e : overloads) {
    if (!e.hidden && reachable(e, call, out)) candidates.push_back(&e);
  }
  const char* name = overloads.front().name;
  if (candidates.empty()) fail(ErrorKind::ArgumentType, "", name, "(): unexpected keyword 'out'");
  if (candidates.size() == 1) {
    Parser parser;
    std::string why;
    parser.parse(*candidates[0], names_of(*candidates[0]), call, &why);
    fail(ErrorKind::ArgumentType, "", name, "(): ", why,
         ". Accepted: ", shown_signature(overloads, *candidates[0], call.self));
  }
  std::string accepted;
  for (const OpEntry* e : candidates) {
    accepted += "\n  " + shown_signature(overloads, *e, call.self);
  }
  fail(ErrorKind::ArgumentType, "", name, "(): no signature fits ", given_text(call),
       ". Accepted:", accepted);
}

PyObject* call_overloads(std::span<const OpEntry> overloads, const PythonCall& call) {
  const bool out = call.kwnames && has_out(call);
  Parser parser;
  for (const OpEntry& entry : overloads) {
    if (!reachable(entry, call, out)) continue;
    if (parser.parse(entry, names_of(entry), call)) return run(entry, parser);
  }
  // A class that nobody told us of may still know what to do with the call.
  if (PyObject* result = last_resort_override(overloads, call)) return result;
  raise_no_fit(overloads, call, out);
}

}  // namespace

bool intern_names() {
  g_table = all_ops().data();
  for (const OpEntry& entry : all_ops()) {
    g_first_name.push_back(uint32_t(g_names.size()));
    for (const ArgSpec& a : entry.args) {
      PyObject* name = PyUnicode_InternFromString(a.name);
      if (!name) return false;
      g_names.push_back(name);
    }
  }
  return true;
}

void rethrow_named(const char* op, const Error& e) {
  const std::string& text = e.message();
  std::string_view base = op;  // in-place forms go by the name of the op
  if (base.size() > 1 && base.ends_with('_')) base.remove_suffix(1);
  if (base.size() > 1 && base.starts_with('_')) base.remove_prefix(1);  // ours, called by Python
  for (size_t at = text.find(base); at != std::string::npos; at = text.find(base, at + 1)) {
    size_t end = at + base.size();
    if (end < text.size() && text[end] == '_') ++end;
    const bool starts = at == 0 || !(std::isalnum(text[at - 1]) || text[at - 1] == '_');
    if (starts && end < text.size() && (text[end] == ':' || text[end] == '(')) throw Error(e);
  }
  // What Python calls by another name than the user did (_nll_loss for cross_entropy, grid_sampler
  // for grid_sample) says nothing beside the name that the text begins with.
  const std::string_view first = std::string_view(text).substr(0, text.find(": "));
  const bool is_name =
      !first.empty() && first.size() < text.size() &&
      std::all_of(first.begin(), first.end(), [](char c) { return c == '_' || std::isalnum(c); });
  if (is_name && (*op == '_' || base.starts_with(first))) throw Error(e);
  throw Error(e.kind(), concat(op, ": ", text));
}

void run_boxed(const OpEntry& entry, Value* args, Value* results, int64_t elements) {
  if (elements < kReleaseGilFrom) [[likely]]
    return entry.boxed(args, results);
  // Another thread may change a list while we run: hold its tensors ourselves.
  std::vector<Tensor> held;
  for (size_t i = 0; i < entry.args.size(); ++i) {
    if (args[i].tag() != Value::Tag::Tensors) continue;
    for (const Tensor& t : args[i].tensors()) held.push_back(t);
  }
  const ReleaseGil guard;
  entry.boxed(args, results);
}

PyObject* call_entry_of(std::span<const OpEntry> overloads, const PythonCall& call) {
  const bool out = call.kwnames && has_out(call);
  Parser parser;
  for (const OpEntry& entry : overloads) {
    if ((entry.form == Form::Out) != out) continue;
    if (parser.parse(entry, names_of(entry), call)) return run(entry, parser);
  }
  fail(ErrorKind::ArgumentType, "", overloads.front().name, "(): no signature fits ",
       given_text(call));
}

PyObject* wrap_results(const OpEntry& entry, Value* results) {
  if (entry.num_results > 1) {
    PyObject* items[kMaxResults];
    for (int i = 0; i < entry.num_results; ++i) {
      items[i] = wrap(results[i].tensor());
      if (!items[i]) {
        while (i-- > 0) Py_DECREF(items[i]);
        return nullptr;
      }
    }
    return make_named_tuple(entry, items);
  }
  switch (results[0].tag()) {
    case Value::Tag::None:
      return Py_NewRef(Py_None);
    case Value::Tag::Tensor:
      return wrap(results[0].take_tensor());
    case Value::Tag::Scalar:
      return wrap(results[0].scalar());
    case Value::Tag::Int:
      return PyLong_FromLongLong(results[0].integer());
    case Value::Tag::Float:
      return PyFloat_FromDouble(results[0].real());
    case Value::Tag::Bool:
      return PyBool_FromLong(results[0].boolean());
    case Value::Tag::DType:
      return wrap(results[0].dtype());
    case Value::Tag::Tensors: {
      const TensorList list = results[0].tensors();
      Handle tuple = Handle::steal(PyTuple_New(Py_ssize_t(list.size())));
      for (size_t i = 0; i < list.size(); ++i) {
        PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), Handle::steal(wrap(list[i])).release());
      }
      return tuple.release();
    }
    default:
      internal_assert(false, "an op returned something without a Python type");
  }
  return nullptr;
}

PyObject* call_op(std::span<const OpEntry> overloads, PyObject* self, PyObject* const* args,
                  Py_ssize_t nargs, PyObject* kwnames) noexcept {
  assert_gil("an op is called from Python without the GIL");
  return guarded([&]() -> PyObject* {
    const PythonCall call{self, args, nargs, kwnames};
    check(!overloads.empty(), ErrorKind::NotImplemented, "", "this operator is not implemented");
    if (PyObject* result = try_torch_function(overloads, call)) [[unlikely]]
      return result;
    try {
      return call_overloads(overloads, call);
    } catch (const Error& e) {
      rethrow_named(overloads.front().name, e);
    }
  });
}

}  // namespace rush::py
