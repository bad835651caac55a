// literal.h: data written in Python (numbers, nested sequences, arrays) on its way into a tensor.
#pragma once

#include "bindings/handle.h"

namespace rush::py {

// The shape and the natural dtype of Python data, found in one walk over all of it.
struct Literal {
  Dims sizes;
  DType dtype;
};
// Raises for ragged or foreign data, with the place: "tensor: item [1][0] ...".
Literal inspect_literal(const char* function, PyObject* data);
// Writes the data into a fresh contiguous CPU tensor of the inspected shape, converting on the way.
void fill_literal(const char* function, PyObject* data, const Tensor& out);

// NumPy (numpy.cpp), never imported on its own account: false while nobody else has imported it.
bool is_numpy_array(PyObject* o);
bool is_numpy_scalar(PyObject* o);
std::optional<DType> dtype_from_numpy(PyObject* numpy_dtype);
// An array as it is, and whatever shows itself as one (a pandas Series, an image) as its array.
// Null where there is none, or one of elements that no dtype fits: such data may still be a
// sequence.
Handle array_of(PyObject* o);
// A tensor over the array's memory. `warn`: say so when the array is read-only.
Tensor tensor_from_array(PyObject* array, bool warn);
// A new array over the tensor's memory (which must be on the CPU and free of gradients).
PyObject* array_from_tensor(const Tensor& t);

// The buffer protocol (buffer.cpp).
Tensor tensor_over_buffer(const char* function, PyObject* o, DType t, int64_t count,
                          int64_t offset);
bool init_buffer(PyObject* module);
// storage_object.cpp; called by init_construct.
bool init_storage(PyObject* module);
bool is_storage(PyObject* o);
// All of a storage, read as `dtype`; without one as int64, or as the default where it is empty.
Tensor tensor_over_storage(const char* function, PyObject* storage, std::optional<DType> dtype);

// Others: construct.cpp, dlpack.cpp.
PyObject* tensor_to_list(const Tensor& t);
Tensor tensor_from_dlpack(PyObject* o, std::optional<Device> device, std::optional<bool> copy);

}  // namespace rush::py
