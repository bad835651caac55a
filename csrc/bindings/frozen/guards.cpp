#include "bindings/frozen/guards.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace rush::py {

using Kind = GuardEntry::Kind;

namespace {

// More values than this are not watched: walking over them would cost more than running Python.
constexpr size_t kMostEntries = 200'000;

uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
PyObject* names_of(PyObject* code) { return reinterpret_cast<PyCodeObject*>(code)->co_names; }
PyObject* code_of(PyObject* function) { return PyFunction_GET_CODE(function); }
uint32_t version_of(PyTypeObject* type) { return type->tp_version_tag; }
// A class gets its number when something is looked up in it.
uint32_t known_version(PyTypeObject* type) {
  const Handle name =
      Handle::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__doc__"));
  return version_of(type);
}

constexpr const char* kPartial[] = {"func", "args", "keywords"};

struct TooMuch {
  std::string why;
};

// The keys of a dict as a tuple; nothing where one is no plain str.
Handle text_keys(PyObject* dict) {
  Handle keys = Handle::steal(PyTuple_New(PyDict_GET_SIZE(dict)));
  PyObject *key, *value;
  Py_ssize_t n = 0;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    if (!PyUnicode_CheckExact(key)) return {};
    PyTuple_SET_ITEM(keys.get(), n++, Py_NewRef(key));
  }
  return keys;
}

// The order of items is that of a walk; f(key, item) says whether to go on. Keys of dicts are items
// as well, unless they are known.
template <class F>
bool each_item(PyObject* o, PyObject* known_keys, F&& f) {
  if (PyDict_Check(o)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) {
      if (!known_keys && !f(nullptr, key)) return false;
      if (!f(key, value)) return false;
    }
    return true;
  }
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      if (!f(nullptr, PySequence_Fast_GET_ITEM(o, i))) return false;
    }
    return true;
  }
  const Handle items = Handle::steal(PyObject_GetIter(o));  // a set
  while (const Handle item = Handle::maybe(PyIter_Next(items.get()))) {
    if (!f(nullptr, item.get())) return false;
  }
  return true;
}
Py_ssize_t size_of(PyObject* o) {
  if (PyDict_Check(o)) return PyDict_GET_SIZE(o);
  return PyTuple_Check(o) || PyList_Check(o) ? PySequence_Fast_GET_SIZE(o) : PySet_GET_SIZE(o);
}
bool is_container(PyObject* o) {
  return PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) || PyAnySet_Check(o);
}
bool holds_state(PyObject* dict) {
  return PyDict_GetItemString(dict, "_parameters") || PyDict_GetItemString(dict, "param_groups");
}

bool share_memory(const Tensor& a, const Tensor& b) {
  const Storage* storage = a.impl()->storage.load();
  return storage && storage == b.impl()->storage.load();
}
std::vector<uint8_t> memory_pattern(const std::vector<Tensor>& inputs) {
  const size_t n = std::min<size_t>(inputs.size(), 16);
  std::vector<uint8_t> pattern;
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) pattern.push_back(share_memory(inputs[i], inputs[k]));
  }
  return pattern;
}

}  // namespace

// Walks over everything for the first time.
class Walk {
 public:
  Walk(Guards& g, const ExecutedCode& executed) : g_(g), executed_(executed) {}

  void run(PyObject* function, PyObject* also, PyObject* args, PyObject* kwargs) {
    root(function, "the function");
    root(also, "settings");
    for (const ExecutedCode::Code& c : executed_.all) {
      if (!reached_.contains(c.code.get())) g_.loose_.push_back(c);
    }
    for (const ExecutedCode::Code& c : g_.loose_) {
      check_closure(c.code.get());
      globals(c.code.get(), c.globals.get(), g_.entries.size());
    }
    in_args_ = true;
    root(args, "args");
    if (kwargs) root(kwargs, "kwargs");
    g_.input_pattern_ = memory_pattern(g_.inputs);
  }

 private:
  GuardEntry& add(Kind kind) {
    if (g_.entries.size() >= kMostEntries)
      throw TooMuch{concat("more than ", kMostEntries, " Python values would have to be watched, ",
                           g_.path(parent_), " among them")};
    GuardEntry& e = g_.entries.emplace_back();
    e.kind = kind;
    g_.origins.push_back({parent_, std::exchange(step_, {})});
    return e;
  }
  void root(PyObject* o, const char* name) {
    step_ = name;
    parent_ = uint32_t(g_.entries.size());
    visit(o);
  }
  bool is_root(uint32_t entry) const { return g_.origins[entry].parent == entry; }
  void child(uint32_t parent, std::string step, PyObject* o) {
    parent_ = parent;
    step_ = std::move(step);
    visit(o);
  }

  void visit(PyObject* o) {
    if (o == Py_None || PyBool_Check(o)) {
      add(Kind::Same).address = o;
    } else if (PyLong_CheckExact(o)) {
      add(Kind::Int).value = Handle::borrow(o);
    } else if (PyFloat_Check(o)) {
      GuardEntry& e = add(Kind::Float);
      e.real = PyFloat_AS_DOUBLE(o);
      e.address = Py_TYPE(o);
      e.may_vary = in_groups_ || (in_args_ && is_root(parent_));
      g_.float_entries.push_back(uint32_t(g_.entries.size() - 1));
      g_.floats.push_back(e.real);
    } else if (PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyComplex_CheckExact(o)) {
      add(Kind::Text).value = Handle::borrow(o);
    } else if (is_tensor(o)) {
      tensor(o);
    } else if (PyType_Check(o)) {
      auto* type = reinterpret_cast<PyTypeObject*>(o);
      GuardEntry& e = add(Kind::Type);
      e.address = o;
      e.version = known_version(type);
      const auto self = uint32_t(g_.entries.size() - 1);
      if (types_.insert(type).second) g_.entries[self].number = methods(self, type);
    } else if (const auto seen = seen_.find(o); seen != seen_.end()) {
      add(Kind::Again).number = seen->second;
    } else if (is_container(o)) {
      container(o);
    } else if (PyFunction_Check(o)) {
      function(o);
    } else if (PyMethod_Check(o)) {
      pair(o, PyMethod_GET_FUNCTION(o), PyMethod_GET_SELF(o));
    } else if (is_partial(o)) {
      partial(o);
    } else if (PyModule_Check(o)) {
      module(o, nullptr);
    } else if (Py_TYPE(o)->tp_dictoffset != 0 && !is_of_the_library(Py_TYPE(o))) {
      object(o);
    } else {
      add(Kind::Same).address = o;
    }
  }

  uint32_t begin(Kind kind, PyObject* o) {
    seen_[o] = uint32_t(g_.entries.size());
    add(kind);
    return uint32_t(g_.entries.size() - 1);
  }
  // A bound method.
  void pair(PyObject* o, PyObject* one, PyObject* other) {
    const uint32_t self = begin(Kind::Container, o);
    g_.entries[self].address = Py_TYPE(o);
    g_.entries[self].number = 2;
    child(self, "", one);
    child(self, "", other);
  }
  void partial(PyObject* o) {
    const uint32_t self = begin(Kind::Container, o);
    g_.entries[self].address = Py_TYPE(o);
    for (const char* name : kPartial)
      child(self, concat(".", name), Handle::steal(PyObject_GetAttrString(o, name)).get());
  }
  void container(PyObject* o) {
    const uint32_t self = begin_items(o);
    Py_ssize_t index = 0;
    each_item(o, g_.entries[self].value.get(), [&](PyObject* key, PyObject* item) {
      child(self, step_to(o, key, index++), item);
      return true;
    });
  }
  uint32_t begin_items(PyObject* o) {
    const uint32_t self = begin(Kind::Container, o);
    g_.entries[self].address = Py_TYPE(o);
    g_.entries[self].number = size_of(o);
    if (PyDict_Check(o)) g_.entries[self].value = text_keys(o);
    return self;
  }
  static std::string step_to(PyObject* o, PyObject* key, Py_ssize_t index) {
    if (!key) return PyAnySet_Check(o) || PyDict_Check(o) ? "" : concat("[", int64_t(index), "]");
    if (PyUnicode_Check(key)) return concat("['", text_of(key), "']");
    return "[...]";
  }

  void tensor(PyObject* o) {
    const Tensor& t = unwrap(o);
    if (in_args_ && !in_state_ && !g_.reachable.contains(t.impl())) {
      const auto same =
          std::ranges::find_if(g_.inputs, [&](const Tensor& other) { return other.is_same(t); });
      GuardEntry& e = add(Kind::Input);
      e.address = Py_TYPE(o);
      e.number = same - g_.inputs.begin();
      e.slot = same == g_.inputs.end() ? -1 : 0;  // 0: it was there before
      if (same != g_.inputs.end()) return;
      g_.inputs.push_back(t);
    } else {
      GuardEntry& e = add(Kind::State);
      e.address = t.impl();
      e.number = int64_t(g_.facts.size());
      g_.reachable.insert(t.impl());
    }
    const auto self = uint32_t(g_.entries.size() - 1);
    if (g_.entries[self].kind == Kind::Input) g_.entries[self].version = uint32_t(g_.facts.size());
    g_.facts.push_back(jit::facts_of(t));
    PyObject* dict = reinterpret_cast<TensorObject*>(o)->dict;
    g_.entries[self].attributes = dict && PyDict_GET_SIZE(dict) > 0 && !seen_.contains(dict);
    if (g_.entries[self].attributes) attributes(self, dict);
  }

  void function(PyObject* o) {
    PyObject* code = code_of(o);
    const uint32_t self = begin(Kind::Function, o);
    g_.entries[self].value = Handle::borrow(code);
    g_.entries[self].address = o;
    const bool ran = executed_.set.contains(code);
    const bool looked_into = ran || !is_users_code(code);
    g_.entries[self].number = ran ? 2 : looked_into;
    if (!looked_into) return;
    reached_.insert(code);
    PyObject* closure = PyFunction_GET_CLOSURE(o);
    PyObject* free = closure ? PyTuple_GET_SIZE(closure) > 0 ? closure : nullptr : nullptr;
    for (Py_ssize_t i = 0; free && i < PyTuple_GET_SIZE(free); ++i) {
      PyObject* cell = PyCell_GET(PyTuple_GET_ITEM(free, i));
      if (cell)
        child(self, concat(", in its closure ", name_of_free(code, i)), cell);
      else
        parent_ = self, add(Kind::Missing);
    }
    for (PyObject* defaults : {PyFunction_GET_DEFAULTS(o), PyFunction_GET_KW_DEFAULTS(o)}) {
      if (defaults)
        child(self, "'s defaults", defaults);
      else
        parent_ = self, add(Kind::Missing);
    }
    if (ran) globals(code, PyFunction_GET_GLOBALS(o), self);
  }
  static std::string name_of_free(PyObject* code, Py_ssize_t i) {
    const Handle names = Handle::steal(PyObject_GetAttrString(code, "co_freevars"));
    if (i >= PyTuple_GET_SIZE(names.get())) return "";
    return std::string(text_of(PyTuple_GET_ITEM(names.get(), i)));
  }

  // The names of the code that are globals: a Module entry per dict, then their values.
  void globals(PyObject* code, PyObject* dict, uint32_t parent) {
    const Handle names = global_names(code);
    names_in(code, dict, names.get(), parent);
  }
  // Those of them that the dict has.
  void names_in(PyObject* code, PyObject* dict, PyObject* wanted, uint32_t parent) {
    parent_ = std::min<uint32_t>(parent, uint32_t(g_.entries.size()));
    step_.clear();
    add(Kind::Module).address = dict;
    const auto self = uint32_t(g_.entries.size() - 1);
    const Handle found = Handle::steal(PyList_New(0));
    const Handle names = Handle::steal(PySequence_List(wanted));
    check_status(PyList_Sort(names.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
      PyObject* name = PyList_GET_ITEM(names.get(), i);
      if (PyDict_GetItem(dict, name)) check_status(PyList_Append(found.get(), name));
    }
    g_.entries[self].value = Handle::steal(PyList_AsTuple(found.get()));
    g_.entries[self].number = PyList_GET_SIZE(found.get());
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(found.get()); ++i) {
      PyObject* name = PyList_GET_ITEM(found.get(), i);
      PyObject* value = PyDict_GetItem(dict, name);
      parent_ = self;
      step_ = text_of(name);
      if (PyModule_Check(value))
        module(value, code);
      else
        visit(value);
    }
  }
  // Of another Python module: those of its names that the code has.
  void module(PyObject* o, PyObject* code) {
    if (!code || is_library_module(o)) {
      add(Kind::Same).address = o;
      return;
    }
    const uint32_t parent = parent_;
    add(Kind::Same).address = o;
    names_in(code, PyModule_GetDict(o), names_of(code), parent);
  }

  void object(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    const bool first = types_.insert(type).second;
    const uint32_t self = begin(first ? Kind::Object : Kind::SeenObject, o);
    g_.entries[self].address = type;
    g_.entries[self].version = known_version(type);
    const Handle dict = Handle::steal(PyObject_GenericGetDict(o, nullptr));
    const bool was_state = in_state_;
    in_state_ = in_state_ || holds_state(dict.get());
    attributes(self, dict.get());
    in_state_ = was_state;
    if (first) g_.entries[self].number = methods(self, type);
  }
  void attributes(uint32_t self, PyObject* dict) {
    parent_ = self;
    step_.clear();
    const uint32_t own = begin_items(dict);
    each_item(dict, g_.entries[own].value.get(), [&](PyObject* key, PyObject* item) {
      const std::string_view name = key && PyUnicode_Check(key) ? text_of(key) : "";
      in_groups_ = in_state_ && name == "param_groups";
      child(own, key ? concat(".", name) : "", item);
      in_groups_ = false;
      return true;
    });
  }
  // The methods of a class that ran: how many there are.
  int64_t methods(uint32_t self, PyTypeObject* type) {
    int64_t n = 0;
    PyObject* mro = type->tp_mro;
    for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
      auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
      if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
      const Handle dict =
          Handle::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), "__dict__"));
      const Handle values = Handle::steal(PyMapping_Values(dict.get()));
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(values.get()); ++k) {
        PyObject* function = function_behind(PyList_GET_ITEM(values.get(), k));
        if (!function || !executed_.set.contains(code_of(function))) continue;
        child(self, "", function);
        g_.entries[entry_of(function)].address = function;
        ++n;
      }
    }
    return n;
  }
  uint32_t entry_of(PyObject* function) const { return seen_.at(function); }

  // A nested function finds its closure in the call that made it, if that was this one.
  void check_closure(PyObject* code) {
    const Handle names = Handle::steal(PyObject_GetAttrString(code, "co_freevars"));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
      const std::string_view name = text_of(PyTuple_GET_ITEM(names.get(), i));
      if (name == "__class__" || name.starts_with("__dataclass_")) continue;
      for (const ExecutedCode::Code& c : executed_.all) {
        if (holds_constant(c.code.get(), code)) return;
      }
      throw TooMuch{concat("the closure of ", shown_code(code), " cannot be found, so that its '",
                           name, "' cannot be watched")};
    }
  }

  Guards& g_;
  const ExecutedCode& executed_;
  std::unordered_map<PyObject*, uint32_t> seen_;
  std::unordered_set<PyTypeObject*> types_;
  std::unordered_set<PyObject*> reached_;
  uint32_t parent_ = 0;
  std::string step_;
  bool in_args_ = false, in_state_ = false;
  bool in_groups_ = false;  // the options of an optimiser
};

namespace {

// Walks the same way again.
class Check {
 public:
  using Leniency = Guards::Leniency;
  Check(Guards& g, const std::vector<ExecutedCode::Code>& loose, std::vector<PyObject*>& current,
        std::vector<Tensor>& inputs, std::vector<double>& floats, Leniency leniency)
      : g_(g), loose_(loose), current_(current), inputs_(inputs), floats_(floats) {
    any_float_ = leniency == Leniency::AnyFloat;
    any_grad_ = leniency == Leniency::AnyGrad;
    current_.resize(g.entries.size());
  }

  bool run(PyObject* function, PyObject* also, PyObject* args, PyObject* kwargs) {
    if (!visit(function) || !visit(also)) return false;
    for (const ExecutedCode::Code& c : loose_) {
      if (!globals(c.globals.get())) return false;
    }
    if (!visit(args) || (kwargs && !visit(kwargs))) return false;
    return at_ == g_.entries.size() || fail("other keyword arguments");
  }
  size_t failed_at() const { return failed_at_; }
  std::string failure() const { return failure_; }

 private:
  bool fail(std::string what) {
    if (failure_.empty()) {
      failed_at_ = at_ ? at_ - 1 : 0;
      failure_ = std::move(what);
    }
    return false;
  }
  bool expect(bool ok, const char* what) { return ok || fail(what); }

  bool visit(PyObject* o) {
    if (at_ >= g_.entries.size()) return fail("more values than before");
    const size_t self = at_++;
    const GuardEntry& e = g_.entries[self];
    current_[self] = o;  // for an Again
    if (!o) return expect(e.kind == Kind::Missing, "it is not there any more");
    switch (e.kind) {
      case Kind::Missing:
        return fail("it was not there before");
      case Kind::Same:
        return expect(o == e.address, "another object");
      case Kind::Int:
      case Kind::Text:
        return o == e.value.get() || equal(o, e.value.get());
      case Kind::Float:
        return real(o, e);
      case Kind::Type:
        return expect(o == e.address && version_of(reinterpret_cast<PyTypeObject*>(o)) == e.version,
                      "another class, or a class that was changed") &&
               methods(e);
      case Kind::Again:
        return expect(o == current_[size_t(e.number)], "another object");
      case Kind::Input:
        return input(o, e);
      case Kind::State:
        return state(o, e);
      case Kind::Container:
        return container(o, e);
      case Kind::Function:
        return function(o, e);
      case Kind::Object:
      case Kind::SeenObject:
        return object(o, e);
      case Kind::Module:
        return fail("another object");
    }
    return false;
  }

  bool equal(PyObject* o, PyObject* before) {
    if (Py_TYPE(o) == Py_TYPE(before)) {
      const int same = PyObject_RichCompareBool(o, before, Py_EQ);
      check_status(same);
      if (same) return true;
    }
    return fail(concat(shown_value(o), ", was ", shown_value(before)));
  }
  bool real(PyObject* o, const GuardEntry& e) {
    if (Py_TYPE(o) != e.address) return fail("another type");
    floats_.push_back(PyFloat_AS_DOUBLE(o));
    if (e.slot >= 0 || any_float_ || bits(floats_.back()) == bits(e.real)) return true;
    return fail(concat(floats_.back(), ", was ", e.real));
  }
  bool input(PyObject* o, const GuardEntry& e) {
    if (!is_tensor(o) || Py_TYPE(o) != e.address) return fail("another type");
    const Tensor& t = unwrap(o);
    if (e.slot == 0)
      return expect(t.is_same(inputs_[size_t(e.number)]), "two arguments were the same tensor");
    const auto& facts = g_.facts[e.version];
    const bool fits =
        any_grad_ ? t.sizes() == facts.sizes && t.dtype() == facts.dtype : jit::has_facts(t, facts);
    if (!fits) return fail(concat(jit::shown(jit::facts_of(t)), ", was ", jit::shown(facts)));
    for (const Tensor& other : inputs_) {
      if (other.is_same(t)) return fail("two arguments are the same tensor");
    }
    inputs_.push_back(t);
    return tensor_attributes(o, e);
  }
  bool tensor_attributes(PyObject* o, const GuardEntry& e) {
    PyObject* dict = reinterpret_cast<TensorObject*>(o)->dict;
    if (e.attributes) return visit(dict);
    return e.kind != Kind::Input || !dict || PyDict_GET_SIZE(dict) == 0 ||
           fail("a tensor that has attributes now");
  }
  bool state(PyObject* o, const GuardEntry& e) {
    if (!is_tensor(o)) return fail("it was a tensor");
    const Tensor& t = unwrap(o);
    if (t.impl() == e.address) return tensor_attributes(o, e);
    if (e.uses) return fail("another tensor");
    const auto& facts = g_.facts[size_t(e.number)];
    return expect(t.sizes() == facts.sizes && t.dtype() == facts.dtype,
                  "a tensor of another shape or dtype") &&
           tensor_attributes(o, e);
  }
  bool container(PyObject* o, const GuardEntry& e) {
    if (Py_TYPE(o) != e.address) return fail("another type");
    if (is_container(o)) {
      if (size_of(o) != e.number)
        return fail(concat(int64_t(size_of(o)), " items, were ", e.number));
      if (e.number == 0) return true;
      if (e.value) return items(o, e.value.get());
      return each_item(o, nullptr, [&](PyObject*, PyObject* item) { return visit(item); });
    }
    if (PyMethod_Check(o)) return visit(PyMethod_GET_FUNCTION(o)) && visit(PyMethod_GET_SELF(o));
    return std::ranges::all_of(kPartial, [&](const char* name) {
      return visit(Handle::steal(PyObject_GetAttrString(o, name)).get());
    });
  }
  // A dict whose keys are all strings; most values of most dicts are found at a glance.
  bool items(PyObject* dict, PyObject* keys) {
    PyObject *key, *value;
    Py_ssize_t n = 0;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); ++n) {
      PyObject* before = PyTuple_GET_ITEM(keys, n);
      if (key != before) {
        const int same = PyObject_RichCompareBool(key, before, Py_EQ);
        check_status(same);
        if (!same) return fail(concat(shown_value(key), " is new, or in another place"));
      }
      const GuardEntry& e = g_.entries[at_];
      const bool known = (e.kind == Kind::Same && value == e.address) ||
                         (e.kind == Kind::State && !e.attributes && is_tensor(value) &&
                          unwrap(value).impl() == e.address);
      if (known)
        ++at_;
      else if (!visit(value))
        return false;
    }
    return true;
  }
  bool function(PyObject* o, const GuardEntry& e) {
    if (!PyFunction_Check(o) || code_of(o) != e.value.get()) return fail("another function");
    if (e.number == 0) return true;
    PyObject* closure = PyFunction_GET_CLOSURE(o);
    for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
      if (!visit(PyCell_GET(PyTuple_GET_ITEM(closure, i)))) return false;
    }
    if (!visit(PyFunction_GET_DEFAULTS(o)) || !visit(PyFunction_GET_KW_DEFAULTS(o))) return false;
    return e.number < 2 || globals(PyFunction_GET_GLOBALS(o));
  }
  bool globals(PyObject* dict) {
    if (at_ >= g_.entries.size()) return fail("more values than before");
    const GuardEntry& e = g_.entries[at_++];
    if (e.kind != Kind::Module || e.address != dict) return fail("other globals");
    PyObject* names = e.value.get();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
      PyObject* value = PyDict_GetItem(dict, PyTuple_GET_ITEM(names, i));
      const bool is_module = value && PyModule_Check(value);
      if (!visit(value)) return false;
      const bool looked_into = is_module && at_ < g_.entries.size() &&
                               g_.entries[at_].kind == Kind::Module &&
                               g_.entries[at_].address == PyModule_GetDict(value);
      if (looked_into && !globals(PyModule_GetDict(value))) return false;
    }
    return true;
  }
  bool object(PyObject* o, const GuardEntry& e) {
    if (Py_TYPE(o) != e.address) return fail("an object of another class");
    if (version_of(Py_TYPE(o)) != e.version) return fail("its class was changed");
    const Handle dict = Handle::steal(PyObject_GenericGetDict(o, nullptr));
    return visit(dict.get()) && (e.kind != Kind::Object || methods(e));
  }
  // The class is as it was, and so these functions live.
  bool methods(const GuardEntry& e) {
    for (int64_t i = 0; i < e.number; ++i) {
      const GuardEntry& method = g_.entries[at_];
      const GuardEntry& first =
          method.kind == Kind::Again ? g_.entries[size_t(method.number)] : method;
      if (!visit(static_cast<PyObject*>(const_cast<void*>(first.address)))) return false;
    }
    return true;
  }

  Guards& g_;
  const std::vector<ExecutedCode::Code>& loose_;
  std::vector<PyObject*>& current_;
  std::vector<Tensor>& inputs_;
  std::vector<double>& floats_;
  bool any_float_ = false, any_grad_ = false;
  size_t at_ = 0, failed_at_ = 0;
  std::string failure_;
};

}  // namespace

void Guards::record(PyObject* function, PyObject* also, PyObject* args, PyObject* kwargs,
                    const ExecutedCode& executed) {
  try {
    Walk(*this, executed).run(function, also, args, kwargs);
  } catch (const TooMuch& e) {
    problem = e.why;
  }
}

bool Guards::check(PyObject* function, PyObject* also, PyObject* args, PyObject* kwargs,
                   std::vector<Tensor>& found, std::vector<double>& numbers, Leniency leniency) {
  found.clear();
  numbers.clear();
  Check check(*this, loose_, current_, found, numbers, leniency);
  const bool same = check.run(function, also, args, kwargs);
  if (!same) {
    failed_at_ = check.failed_at();
    failure_ = check.failure();
    return false;
  }
  if (memory_pattern(found) == input_pattern_) return true;
  failed_at_ = entries.size();
  failure_ = "arguments share memory otherwise than before";
  return false;
}

std::string Guards::path(size_t entry) const {
  if (entry >= entries.size()) return "the arguments";
  std::vector<const std::string*> steps;
  for (size_t i = entry;; i = origins[i].parent) {
    steps.push_back(&origins[i].step);
    if (origins[i].parent >= i) break;
  }
  std::string path;
  for (auto at = steps.rbegin(); at != steps.rend(); ++at) {
    const bool word = !path.empty() && !(*at)->empty() && std::isalpha((*at)->front());
    path += word ? ": " + **at : **at;
  }
  return path;
}

void Guards::keep_fixed(std::string_view argument) {
  for (GuardEntry& e : entries) {
    const GuardOrigin& from = origins[size_t(&e - entries.data())];
    if (e.kind == Kind::Float && from.step == argument &&
        origins[from.parent].parent == from.parent)
      e.may_vary = false;
  }
}

std::string Guards::difference() const { return concat(path(failed_at_), ": ", failure_); }

}  // namespace rush::py
