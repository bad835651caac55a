// dispatch.h: what generated bindings and hand-written ones share of the call path.
#pragma once

#include "bindings/python.h"

namespace rush::py {

// Generated (bindings/methods.cpp): the ops as functions and as methods; ends with a null name.
PyMethodDef* op_functions();
PyMethodDef* op_methods();
// Public functions that the package itself does not have, by the keys `python:` of their rows.
std::span<const char* const> ops_elsewhere();
// Finds the overloads of every generated name, once.
void resolve_ops();
// The interned names of each entry's arguments, once.
bool intern_names();

// Work on fewer elements than this is done before another thread could use the GIL.
inline constexpr int64_t kReleaseGilFrom = 32768;

// Calls entry.boxed without the GIL when there is enough to do. May throw.
void run_boxed(const OpEntry& entry, Value* args, Value* results, int64_t elements);

// Calls the op of the table that fits, whether or not Python has a function for it. May throw.
struct PythonCall;
PyObject* call_entry_of(std::span<const OpEntry> overloads, const PythonCall& call);

// Throws the error on, with the op's name in front where its text does not name the op: faults
// found by a helper (a device, an allocation, another op) are told of the call that led there.
[[noreturn]] void rethrow_named(const char* op, const Error& e);

// Results as Python objects: a tensor, a number, a tuple, a named tuple.
PyObject* wrap_results(const OpEntry& entry, Value* results);
bool init_return_types(PyObject* module);
bool init_custom_ops(PyObject* module);
bool init_extension_api(PyObject* module);
bool init_dispatch_modes(PyObject* module);
// Makes the named tuple of an entry from new references (taken over).
PyObject* make_named_tuple(const OpEntry& entry, PyObject* const* items);

}  // namespace rush::py
