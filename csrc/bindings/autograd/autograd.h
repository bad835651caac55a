// autograd.h: the properties and methods of a tensor that concern gradients.
#pragma once

#include "bindings/python.h"

namespace rush::py {

PyObject* get_requires_grad(PyObject* o, void*);
int set_requires_grad_(PyObject* o, PyObject* value, void*);
PyObject* get_grad(PyObject* o, void*);
int set_grad(PyObject* o, PyObject* value, void*);
PyObject* get_grad_fn(PyObject* o, void*);
PyObject* get_is_leaf(PyObject* o, void*);
PyObject* get_data(PyObject* o, void*);
int set_data(PyObject* o, PyObject* value, void*);
PyObject* get_output_nr(PyObject* o, void*);
PyObject* get_retains_grad(PyObject* o, void*);

// Tensor.requires_grad_(requires_grad=True), Tensor.backward(...), Tensor.retain_grad().
PyObject* tensor_requires_grad_(PyObject* o, PyObject* const* args, Py_ssize_t n,
                                PyObject* kwnames);
PyObject* tensor_backward(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
PyObject* tensor_retain_grad(PyObject* o, PyObject*);
PyObject* tensor_register_hook(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
PyObject* tensor_register_accumulation_hook(PyObject* o, PyObject* const* args, Py_ssize_t n,
                                            PyObject* kwnames);

}  // namespace rush::py
