"""Python's data model: operators, conversions, containers, copying, pickling, subclassing."""

import copy
import math
import operator
import pickle

import numpy as np
import pytest

import rushlight as rl

A, B = np.array([5, 3, -2]), np.array([2, 4, 3])
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift",
          "rshift", "eq", "ne", "lt", "le", "gt", "ge"]  # fmt: skip


def plain(x):
    return x.tolist() if isinstance(x, (rl.Tensor, np.ndarray, np.generic)) else x


@pytest.mark.parametrize("name", BINARY)
def test_operators(name):
    op = getattr(operator, name)
    a, b = rl.from_numpy(A), rl.from_numpy(B)
    np.testing.assert_allclose(op(a, b).numpy(), op(A, B), rtol=1e-6)
    np.testing.assert_allclose(op(a, 3).numpy(), op(A, 3), rtol=1e-6)
    positive = rl.tensor([1, 2, 3])
    np.testing.assert_allclose(op(7, positive).numpy(), op(7, np.array([1, 2, 3])), rtol=1e-6)


@pytest.mark.parametrize(
    "name", [n for n in BINARY if n not in ("eq", "ne", "lt", "le", "gt", "ge")]
)
def test_in_place_operators(name):
    op = getattr(operator, "i" + name.strip("_"))
    a = rl.from_numpy(A.copy()) if name != "truediv" else rl.from_numpy(A.astype("f8"))
    same = a
    a = op(a, 2)
    assert a is same
    np.testing.assert_allclose(a.numpy(), getattr(operator, name)(A, 2))


def test_reflected_with_floats():
    x = rl.tensor([1.0, 2.0])
    assert (1 - x).tolist() == [0, -1] and (1 / x).tolist() == [1, 0.5]
    assert (2**x).tolist() == [2, 4] and (5 // x).tolist() == [5, 2] and (5 % x).tolist() == [0, 1]
    assert rl.equal(True + rl.tensor([1]), rl.tensor([2]))
    assert rl.equal(rl.ones(2, 2) @ rl.ones(2), rl.tensor([2.0, 2.0]))


def test_unary():
    x = rl.tensor([-1.5, 2.0])
    assert (
        (-x).tolist() == [1.5, -2] and (+x).tolist() == x.tolist() and abs(x).tolist() == [1.5, 2]
    )
    assert (~rl.tensor([True, False])).tolist() == [False, True]
    assert (~rl.tensor([0, 5])).tolist() == [-1, -6]
    assert math.floor(rl.tensor(1.7)) == 1 and math.ceil(rl.tensor(1.2)) == 2


def test_unknown_operands():
    x = rl.ones(2)
    for op in (operator.add, operator.sub, operator.mul, operator.lt):
        with pytest.raises(TypeError):
            op(x, object())
        with pytest.raises(TypeError):
            op(object(), x)
    assert (x == object()) is False or not (x == object())
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True


class Friend:
    def __radd__(self, other):
        return "radd"

    def __rmul__(self, other):
        return "rmul"


def test_other_classes_may_answer():
    assert rl.ones(2) + Friend() == "radd" and rl.ones(2) * Friend() == "rmul"


def test_len_iter_and_unpacking():
    x = rl.arange(6).reshape(3, 2)
    assert len(x) == 3 and [r.tolist() for r in x] == [[0, 1], [2, 3], [4, 5]]
    _, b, _ = x
    assert b.tolist() == [2, 3] and list(reversed(rl.arange(3))) == [2, 1, 0]
    assert len(rl.zeros(0, 2)) == 0 and list(rl.zeros(0)) == []
    for bad in (len, iter):
        with pytest.raises(TypeError):
            bad(rl.tensor(1.0))
    assert dict(zip("ab", rl.tensor([1, 2]), strict=False))["b"] == 2
    assert max(rl.tensor([1, 5, 2])) == 5 and sum(rl.tensor([1.0, 2.0])) == 3


def test_conversions():
    assert (
        int(rl.tensor([3.9])) == 3 and float(rl.tensor(2)) == 2.0 and complex(rl.tensor(1.0)) == 1
    )
    assert bool(rl.tensor([[0.5]])) is True and bool(rl.tensor(0)) is False
    assert [10, 20, 30][rl.tensor(1)] == 20 and list(range(rl.tensor(3))) == [0, 1, 2]
    assert operator.index(rl.tensor([2])) == 2 and hex(rl.tensor(255)) == "0xff"
    for call, bad in ((bool, rl.ones(2)), (int, rl.ones(2)), (float, rl.ones(0)),
                      (operator.index, rl.tensor(1.0)), (range, rl.tensor(1.5))):  # fmt: skip
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            call(bad)
    for value, dtype in ((3, rl.int8), (2.5, rl.float16), (True, rl.bool), (1 + 2j, rl.complex64)):
        item = rl.tensor(value, dtype=dtype).item()
        assert item == value and type(item) is type(value)
    assert (
        rl.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]] and rl.tensor(1.5).tolist() == 1.5
    )


def test_contains():
    x = rl.tensor([1.0, 2.0])
    assert 1 in x and 3 not in x and rl.tensor(2.0) in x
    with pytest.raises((TypeError, RuntimeError)):
        "a" in x  # noqa: B015


def test_hash_is_identity():
    x, y = rl.ones(2), rl.ones(2)
    assert hash(x) == hash(x) and len({x, y, x}) == 2 and {x: 1}[x] == 1
    assert hash(rl.float32) == hash(rl.float32) and hash(rl.Size([1])) == hash(rl.Size([1]))
    assert rl.device("cpu") == rl.device("cpu") and hash(rl.device("cpu")) == hash(rl.device("cpu"))


def test_same_object_comes_back():
    x = rl.ones(2)
    x.note = "kept"
    assert x.add_(1) is x and x.note == "kept"
    holder = [x]
    del x
    assert holder[0].note == "kept"


def test_copies():
    x = rl.arange(6.0).reshape(2, 3)
    x.note = [1]
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow.data_ptr() == x.data_ptr() and deep.data_ptr() != x.data_ptr()
    assert rl.equal(deep, x) and deep.note == [1] and deep.note is not x.note
    pair = copy.deepcopy([x, x[0]])
    pair[0][0, 0] = 9
    assert pair[1][0].item() == 9  # views still share after a deep copy
    assert copy.deepcopy(x.t()).stride() == x.t().stride()
    p = rl.ones(2, requires_grad=True)
    assert copy.deepcopy(p).requires_grad
    with pytest.raises(RuntimeError):
        copy.deepcopy(p * 2)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    x = rl.arange(6.0).reshape(2, 3)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert rl.equal(x, y) and y.dtype == x.dtype and y.stride() == x.stride()
    things = [x.t(), x[1:], rl.tensor(3), rl.zeros(0, 2), rl.tensor([1 + 1j]), rl.tensor([True]),
              x.bfloat16(), rl.float32, rl.Size([2, 3]), rl.device("cpu"),
                  rl.ones(2, requires_grad=True)]  # fmt: skip
    for thing in things:
        back = pickle.loads(pickle.dumps(thing, protocol))
        assert type(back) is type(thing)
        if isinstance(thing, rl.Tensor):
            assert rl.equal(back, thing) and back.requires_grad == thing.requires_grad
            assert back.dtype == thing.dtype
        else:
            assert back == thing


class Sub(rl.Tensor):
    def double_it(self):
        return self * 2


def test_subclasses():
    s = rl.ones(2).as_subclass(Sub)
    assert isinstance(s, Sub) and isinstance(s, rl.Tensor)
    assert s.double_it().tolist() == [2, 2]
    assert type(s + 1) is Sub and type(s[0]) is Sub and type(s.clone()) is Sub
    assert type(Sub([1.0, 2.0])) is Sub
    assert isinstance(rl.ones(2), rl.Tensor) and not isinstance(rl.ones(2), Sub)


def test_size():
    s = rl.zeros(2, 3).shape
    assert isinstance(s, tuple) and isinstance(s, rl.Size) and s == (2, 3) and s.numel() == 6
    assert s[0] == 2 and s[1:] == (3,) and isinstance(s[1:], rl.Size) and (*s, 4) == (2, 3, 4)
    assert isinstance(s + rl.Size([4]), rl.Size) and isinstance(s * 2, rl.Size)
    assert rl.zeros(2, 3).size(-1) == 3 and rl.zeros(s).shape == s and [*s] == [2, 3]
    assert rl.Size([]).numel() == 1 and rl.Size() == ()


def test_attributes():
    x = rl.zeros(2, 3, dtype=rl.float64)
    assert (x.ndim, x.dim(), x.numel(), x.nelement(), x.element_size(), x.itemsize) == (
        2,
        2,
        6,
        6,
        8,
        8,
    )
    assert x.nbytes == 48 and x.dtype is rl.float64 and x.device == rl.device("cpu")
    assert x.layout is rl.strided and not x.is_cuda and not x.is_sparse and x.is_leaf
    assert x.T.shape == (3, 2) and x.mT.shape == (3, 2) and rl.zeros(2, 3).H.shape == (3, 2)
    assert x.is_floating_point() and not x.is_complex() and rl.is_tensor(x) and x.is_signed()
    assert x.type() == f"{rl.__name__}.DoubleTensor" and not x.requires_grad and x.grad is None
    z = rl.tensor([1 + 2j])
    assert z.real.tolist() == [1] and z.imag.tolist() == [2]
    with pytest.raises(AttributeError):
        x.shape = (3, 2)
    with pytest.raises(AttributeError):
        x.nothing  # noqa: B018


def test_dtype_objects():
    assert rl.float32.itemsize == 4 and rl.float32.is_floating_point and rl.complex64.is_complex
    assert rl.float is rl.float32 and rl.long is rl.int64 and rl.double is rl.float64
    assert rl.half is rl.float16 and rl.int is rl.int32 and rl.short is rl.int16
    assert rl.cfloat is rl.complex64 and rl.uint8.is_signed is False and rl.int8.is_signed
    assert rl.complex64.to_real() is rl.float32 and rl.float64.to_complex() is rl.complex128
    assert isinstance(rl.float32, rl.dtype) and rl.int64 != rl.int32


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_finfo_and_iinfo(name):
    ours, theirs = rl.finfo(getattr(rl, name)), np.finfo(name)
    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
        assert float(getattr(ours, field)) == float(getattr(theirs, field)), field
    for i in ("int8", "int16", "int32", "int64", "uint8"):
        a, b = rl.iinfo(getattr(rl, i)), np.iinfo(i)
        assert (a.bits, a.max, a.min) == (b.bits, b.max, b.min)
    assert rl.finfo().bits == 32 and rl.finfo(rl.bfloat16).eps == 2**-7


def test_devices():
    assert rl.device("cpu").type == "cpu" and rl.device("cpu").index is None
    assert rl.device("cuda:1").index == 1 and rl.device("cuda", 1) == rl.device("cuda:1")
    assert rl.zeros(1, device="cpu").device.type == "cpu"
    assert rl.zeros(1, device=rl.device("meta")).is_meta


def test_old_constructors():
    assert rl.Tensor([1, 2]).dtype == rl.float32 and rl.Tensor(2, 3).shape == (2, 3)
    assert rl.FloatTensor([1.5]).tolist() == [1.5] and rl.LongTensor([1]).dtype == rl.int64
    assert rl.Tensor().shape == (0,) and rl.IntTensor(2).shape == (2,)
    assert rl.BoolTensor([True]).dtype == rl.bool and rl.DoubleTensor([1]).dtype == rl.float64
    assert rl.ones(2).new([1.0]).tolist() == [1] and rl.ones(2).new(3, 2).shape == (3, 2)


def test_constants():
    assert (rl.pi, rl.e, rl.inf) == (math.pi, math.e, math.inf) and rl.nan != rl.nan
    assert rl.newaxis is None and isinstance(rl.__version__, str)


def test_to():
    x = rl.ones(2)
    assert x.to(rl.float32) is x and x.to("cpu") is x and x.to(rl.zeros(1)) is x
    assert (
        x.to("cpu", rl.int32).dtype == rl.int32
        and x.to(rl.zeros(1, dtype=rl.int8)).dtype == rl.int8
    )
    assert x.to(rl.float32, copy=True) is not x and x.to(dtype=rl.half).dtype == rl.float16
    assert x.type(rl.int64).dtype == rl.int64 and x.type_as(rl.ones(1).double()).dtype == rl.float64


def test_numbers_of_uint64_above_the_largest_int64():
    t = rl.tensor(np.array([2**64 - 1], np.uint64))
    assert int(t) == t.item() == t.tolist()[0] == t[0].__index__() == 2**64 - 1
    assert float(t) == 2.0**64
