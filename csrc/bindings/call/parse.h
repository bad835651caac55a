// parse.h: from Python's arguments to Values, for one overload at a time.
//
// - Nothing is allocated and no string is compared on the good path: keyword names are interned and
//   compared by address, Values and short lists live in the Parser on the stack.
// - A Value borrows; what it borrows from stays alive because the caller holds the arguments.
#pragma once

#include <memory>
#include <new>

#include "bindings/python.h"

namespace rush::py {

inline constexpr int kMaxArgs = 32;

// The arguments of one fastcall; `self` is null for functions.
struct PythonCall {
  PyObject* self;
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;
  Py_ssize_t num_keywords() const { return kwnames ? PyTuple_GET_SIZE(kwnames) : 0; }
};

// Memory for the lists of one call: 8-byte cells, on the heap only for long ones.
class Arena {
 public:
  void* cells(size_t n) {
    if (used_ + n <= kInline) {
      void* p = inline_ + used_;
      used_ += n;
      return p;
    }
    return more(n);
  }
  void clear() { used_ = 0, heap_.clear(); }

 private:
  static constexpr size_t kInline = 80;
  void* more(size_t n) {
    heap_.push_back(std::make_unique_for_overwrite<uint64_t[]>(n));
    return heap_.back().get();
  }
  uint64_t inline_[kInline];
  size_t used_ = 0;
  std::vector<std::unique_ptr<uint64_t[]>> heap_;
};

class Parser {
 public:
  Parser() = default;
  ~Parser() { clear(); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  // Tries one overload; `names` are its interned argument names. False: it does not fit, and `why`
  // (where given) says so. Throws what converting an argument throws (an int that overflows).
  bool parse(const OpEntry& entry, PyObject* const* names, const PythonCall& call,
             std::string* why = nullptr);

  Value* values() { return reinterpret_cast<Value*>(raw_); }
  PyObject* given(size_t i) const { return given_[i]; }  // borrowed; null for a default
  int64_t elements() const { return elements_; }         // of the largest tensor, or of a new one

 private:
  void clear();
  bool place_positional(const OpEntry& entry, const PythonCall& call, std::string* why);
  bool place_keywords(const OpEntry& entry, PyObject* const* names, const PythonCall& call,
                      std::string* why);
  bool convert(const ArgSpec& spec, PyObject* o, Value& v);
  bool convert_operand(PyObject* o, Value& v);
  bool convert_scalar(PyObject* o, Scalar& s);
  bool convert_ints(const ArgSpec& spec, PyObject* o, Value& v);
  bool convert_int_items(PyObject* const* items, Py_ssize_t n, Value& v, bool bools = false);
  bool convert_floats(PyObject* o, Value& v);
  bool convert_tensors(const ArgSpec& spec, PyObject* o, Value& v);
  void count(const Tensor& t) { elements_ = std::max(elements_, t.numel()); }

  alignas(Value) unsigned char raw_[kMaxArgs * sizeof(Value)];
  PyObject* given_[kMaxArgs];
  int made_ = 0;     // Values constructed so far
  int vararg_ = -1;  // the argument that takes the rest of the positional ones
  PyObject* const* vararg_items_ = nullptr;
  Py_ssize_t vararg_count_ = 0;
  int64_t elements_ = 0;
  Arena arena_;
};

// Is this keyword another spelling of the argument: axis for dim, keepdims for keepdim, input for
// self?
bool is_synonym(PyObject* keyword, const char* argument);

// Texts for TypeErrors (parse_errors.cpp).
std::string signature_text(const OpEntry& entry, bool method);
std::string kind_text(const ArgSpec& spec);
std::string type_text(PyObject* o);  // of an argument; for sequences also what is in them
std::string given_text(const PythonCall& call);
std::string unexpected_keyword_text(const OpEntry& entry, PyObject* keyword);

}  // namespace rush::py
