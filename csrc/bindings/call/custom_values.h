// custom_values.h: between Python objects and the Values of custom operators.
#pragma once

#include "bindings/call/carried_error.h"
#include "bindings/handle.h"
#include "ops/framework/custom_op.h"

namespace rush::py {

// A Value as Python sees it; None for none. bools: ints that are bools.
Handle python_value(const Value& v, bool bools);

// What a kernel written in Python is called with: the positional arguments, and a dict of those
// that are keyword-only (null where there are none).
struct CustomArguments {
  Handle positional, keywords;
};
CustomArguments custom_arguments(const CustomOp& op, const Value* args);
// What it returned, as the schema says; raises where it is something else.
void take_custom_results(const CustomOp& op, PyObject* returned, Value* results);
// The results of a call: None, one object or a tuple. They may be given away.
PyObject* give_custom_results(const CustomOp& op, Value* results);

}  // namespace rush::py
