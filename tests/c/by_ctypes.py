"""A binding without the package: functions of tensors made from ops.json, over ctypes alone. Run by
test_c_api.py in a process that imports nothing of Rushlight."""

import ctypes
import json
import sys
from ctypes import byref, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p

package = sys.argv[1]
rush = ctypes.CDLL(f"{package}/lib/librushlight.so")
rush.rush_last_error.restype = c_char_p
rush.rush_tensor_size.restype = rush.rush_tensor_numel.restype = c_int64
rush.rush_tensor_free.argtypes = rush.rush_tensor_numel.argtypes = [c_void_p]


class Content(ctypes.Union):
    _fields_ = [("integer", c_int64), ("real", c_double), ("pointer", c_void_p)]


class Value(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("count", c_int32), ("content", Content)]


NONE, TENSOR, TENSORS, INT, FLOAT, BOOL, STRING, INTS, FLOATS, DTYPE, DEVICE = range(11)


def checked(code):
    if code != 0:
        raise RuntimeError(rush.rush_last_error().decode())


class Tensor:
    def __init__(self, handle):
        self.handle = c_void_p(handle)

    def __del__(self):
        rush.rush_tensor_free(self.handle)

    @classmethod
    def of(cls, numbers, *sizes):
        out = c_void_p()
        data = (ctypes.c_float * len(numbers))(*numbers)
        checked(rush.rush_tensor_from_data(data, (c_int64 * len(sizes))(*sizes), len(sizes),
                                           b"float32", byref(out)))  # fmt: skip
        return cls(out.value)

    def list(self):
        out = (ctypes.c_float * rush.rush_tensor_numel(self.handle))()
        checked(rush.rush_tensor_copy_to(self.handle, out, ctypes.c_size_t(ctypes.sizeof(out))))
        return list(out)


def value_of(x, type_, kept):
    v = Value()
    if x is None:
        return v
    if isinstance(x, Tensor):
        v.kind, v.content.pointer = TENSOR, x.handle
    elif type_.startswith("Tensor["):
        array = (c_void_p * len(x))(*[t.handle for t in x])
        kept.append(array)
        v.kind, v.count, v.content.pointer = TENSORS, len(x), ctypes.cast(array, c_void_p)
    elif type_.startswith("int["):
        array = (c_int64 * len(x))(*x)
        kept.append(array)
        v.kind, v.count, v.content.pointer = INTS, len(x), ctypes.cast(array, c_void_p)
    elif isinstance(x, bool):
        v.kind, v.content.integer = BOOL, x
    elif isinstance(x, int) and type_ != "float":
        v.kind, v.content.integer = INT, x
    elif isinstance(x, (int, float)):
        v.kind, v.content.real = FLOAT, x
    else:
        raise TypeError(type(x))
    return v


def python_of(v):
    if v.kind == TENSOR:
        return Tensor(v.content.pointer)
    return v.content.real if v.kind == FLOAT else v.content.integer


def function(name, overloads):
    """Values by the types of the first overload that has as many arguments; the library looks
    which one fits."""

    def call(*given):
        kept = []
        types = next(o["args"] for o in overloads if len(o["args"]) >= len(given))
        args = (Value * len(given))(
            *[value_of(x, a["type"], kept) for x, a in zip(given, types, strict=False)]
        )
        results, count = (Value * 8)(), c_int()
        checked(rush.rush_call(name.encode(), args, len(given), results, 8, byref(count)))
        out = [python_of(v) for v in results[: count.value]]
        return out[0] if len(out) == 1 else out

    return call


with open(f"{package}/share/ops.json") as file:
    table = json.load(file)
overloads = {}
for op in table["ops"]:
    if op["form"] != "out":
        overloads.setdefault(op["name"], []).append(op)
ops = {name: function(name, found) for name, found in overloads.items()}

# A perceptron with one hidden layer learns xor.
rush.rush_manual_seed(ctypes.c_uint64(0))
x, y = Tensor.of([0, 0, 0, 1, 1, 0, 1, 1], 4, 2), Tensor.of([0, 1, 1, 0], 4, 1)
weights = [ops["mul"](ops["randn"]([8, 2]), 1.0), ops["mul"](ops["randn"]([8]), 0.5),
           ops["mul"](ops["randn"]([1, 8]), 0.5), ops["mul"](ops["randn"]([1]), 0.1)]  # fmt: skip
for w in weights:
    checked(rush.rush_set_requires_grad(w.handle, 1))
optimizer = c_void_p()
handles = (c_void_p * 4)(*[w.handle for w in weights])
checked(rush.rush_adam_new(handles, 4, c_double(0.05), c_double(0.9), c_double(0.999),
                           c_double(1e-8), c_double(0), 0, byref(optimizer)))  # fmt: skip
for _ in range(300):
    hidden = ops["tanh"](ops["linear"](x, weights[0], weights[1]))
    error = ops["sub"](ops["linear"](hidden, weights[2], weights[3]), y)
    loss = ops["mean"](ops["mul"](error, error))
    checked(rush.rush_optimizer_zero_grad(optimizer))
    checked(rush.rush_backward(loss.handle, 0))
    checked(rush.rush_optimizer_step(optimizer))
print("loss", loss.list()[0])

grad = c_void_p()
checked(rush.rush_grad(weights[3].handle, byref(grad)))
assert len(Tensor(grad.value).list()) == 1
assert ops["cat"]([x, x], 0).list() == x.list() * 2
values, indices = ops["max"](x, 0)
assert values.list() == [1.0, 1.0]

# By DLPack, there and back, over the same memory.
managed, again = c_void_p(), c_void_p()
checked(rush.rush_tensor_to_dlpack(x.handle, byref(managed)))
checked(rush.rush_tensor_from_dlpack(managed, byref(again)))
again = Tensor(again.value)
ops["add_"](again, 1)
assert x.list() == [1, 1, 1, 2, 2, 1, 2, 2], x.list()
for bad in (lambda: ops["linear"](x), lambda: ops["matmul"](x, x), lambda: ops["cat"]([], 0)):
    try:
        bad()
        raise AssertionError("no error")
    except RuntimeError as error:
        assert str(error)
assert "rushlight" not in sys.modules
print("ok", len(ops))
