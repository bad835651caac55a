"""Operators over lists of tensors: values, one pass or tensor by tensor, gradients, errors."""

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight import _C, optim
from rushlight._functions import foreach
from rushlight.nn import utils

FLOATS = [rl.float16, rl.bfloat16, rl.float32, rl.float64]
UNARY = {
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "erfc": np.vectorize(math.erfc, otypes=[float]),
    "frac": lambda x: x - np.trunc(x),
    "lgamma": np.vectorize(math.lgamma, otypes=[float]),
    "neg": np.negative,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
BINARY = {
    "add": np.add,
    "clamp_max": np.minimum,
    "clamp_min": np.maximum,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "pow": np.power,
    "sub": np.subtract,
}


def tensors(dtype=rl.float32, seed=0, low=0.1, high=0.9):
    """Of several shapes, one of them without elements."""
    r = np.random.default_rng(seed)
    arrays = [r.uniform(low, high, s) for s in ((3,), (2, 5), (), (0, 2), (40, 30))]
    return [rl.tensor(a, dtype=dtype) for a in arrays]


def run(op, *args, **kwargs):
    return getattr(rl, f"_foreach_{op}")(*args, **kwargs)


def equal(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert rl.equal(a, b)


def both_ways(op, self, *args, expected, **kwargs):
    """The function leaves its arguments alone, the form with _ writes what it returns."""
    before = [t.clone() for t in self]
    found = run(op, self, *args, **kwargs)
    assert isinstance(found, tuple)
    equal(found, expected)
    equal(self, before)
    assert run(op + "_", self, *args, **kwargs) is self
    equal(self, expected)


@pytest.mark.parametrize("op", foreach._OF_ONE)
def test_unary_values(op):
    reference = UNARY[op] if op in UNARY else getattr(np, op, None)
    assert reference is not None
    x = tensors(rl.float64)
    for found, t in zip(run(op, x), x, strict=True):
        np.testing.assert_allclose(found.numpy(), reference(t.numpy()), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", foreach._OF_ONE)
def test_unary_is_one_pass_with_the_bits_of_the_op(op, dtype):
    x = tensors(dtype)
    assert _C._list_map(op, x, [], [], [], [])
    both_ways(op, x, expected=[getattr(rl, op)(t) for t in x])


@pytest.mark.parametrize("op", foreach._OF_TWO)
def test_binary_values(op):
    x, y = tensors(rl.float64), tensors(rl.float64, 1)
    for found, a, b in zip(run(op, x, y), x, y, strict=True):
        np.testing.assert_allclose(found.numpy(), BINARY[op](a.numpy(), b.numpy()), rtol=1e-13)
    for found, a in zip(run(op, x, 0.3), x, strict=True):
        np.testing.assert_allclose(found.numpy(), BINARY[op](a.numpy(), 0.3), rtol=1e-13)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", foreach._OF_TWO)
def test_binary_is_one_pass_with_the_bits_of_the_op(op, dtype):
    of_one = foreach._method(op, False)
    others = [
        tensors(dtype, 1),
        0.3,
        2,
        0.5,
        [0.25, 0.3, -1, 2.0, 0.5],
        [0.25, 0.3, -1, 3, 0.75],
        rl.tensor(0.3, dtype=dtype),
    ]
    for other in others:
        x = tensors(dtype)
        items = other if isinstance(other, list) else [other] * len(x)
        both_ways(op, x, other, expected=[of_one(t, o) for t, o in zip(x, items, strict=True)])
    served = [_C._list_map(op, tensors(dtype), [], [], n, []) for n in ([0.3], [2.0], [0.5])]
    assert all(served) and _C._list_map(op, tensors(dtype), others[0], [], [], [])


def test_alpha():
    x, y = tensors(), tensors(seed=1)
    for op in ("add", "sub"):
        one = getattr(rl, op)
        expected = [one(a, b, alpha=0.7) for a, b in zip(x, y, strict=True)]
        equal(run(op, x, y, alpha=0.7), expected)
        assert _C._list_map(op, x, y, [], [], [0.7])
    equal(run("add", x, rl.tensor(2.0), alpha=3), [t + 6 for t in x])
    with pytest.raises(TypeError, match="_foreach_mul: alpha"):
        run("mul", x, y, alpha=2)
    with pytest.raises(TypeError, match="_foreach_add: alpha"):
        run("add", x, 1.0, alpha=2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ternary_is_one_pass_with_the_bits_of_the_op(dtype):
    a, b = tensors(dtype, 1), tensors(dtype, 2)
    values = [0.5, -1.0, 2.0, 3.0, 0.25]
    for op in ("addcmul", "addcdiv"):
        one = getattr(rl, op)
        for given in (1, 0.7, values, rl.tensor(values)):
            x = tensors(dtype)
            each = given.tolist() if isinstance(given, rl.Tensor) else given
            each = each if isinstance(each, list) else [each] * len(x)
            rows = zip(x, a, b, each, strict=True)
            both_ways(op, x, a, b, given, expected=[one(p, q, r, value=v) for p, q, r, v in rows])
        assert _C._list_map(op, tensors(dtype), a, b, [], values)
    for weight in (0.3, [0.1, 0.6, 0.2, 0.9, 0.7], tensors(dtype, 3), rl.tensor(0.6, dtype=dtype)):
        x = tensors(dtype)
        weights = weight if isinstance(weight, list) else [weight] * len(x)
        rows = zip(x, a, weights, strict=True)
        both_ways("lerp", x, a, weight, expected=[rl.lerp(p, q, w) for p, q, w in rows])
    assert _C._list_map("lerp", tensors(dtype), a, [], [0.3], [])


def test_ternary_values():
    x, a, b = tensors(rl.float64), tensors(rl.float64, 1), tensors(rl.float64, 2)
    for op, reference in (("addcmul", np.multiply), ("addcdiv", np.divide)):
        for found, p, q, r in zip(run(op, x, a, b, value=2), x, a, b, strict=True):
            expected = p.numpy() + 2 * reference(q.numpy(), r.numpy())
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)


def test_names_of_arguments():
    x = tensors()
    equal(run("add", x, scalar=1), run("add", x, 1))
    equal(run("mul", x, scalars=[1, 2, 3, 4, 5]), run("mul", x, [1, 2, 3, 4, 5]))
    equal(run("pow", x, exponent=3), [t**3 for t in x])
    equal(run("lerp", x, tensors1=x, weights=x), x)
    equal(
        run("addcmul", x, x, x, scalars=[1, 2, 3, 4, 5]), run("addcmul", x, x, x, [1, 2, 3, 4, 5])
    )
    with pytest.raises(TypeError, match="_foreach_add: unexpected keyword argument 'number'"):
        run("add", x, number=1)
    with pytest.raises(TypeError, match="_foreach_add: the argument 'other' is missing"):
        run("add", x)


def mixed():
    base = rl.arange(12.0).reshape(3, 4)
    return {
        "types": [rl.ones(2), rl.ones(2, dtype=rl.float64), rl.ones(2, dtype=rl.int32)],
        "gaps": [base.clone()[:, ::2], base.clone().t()],
        "integers": [rl.arange(3), rl.arange(4)],
        "complex": [rl.tensor([1 + 2j]), rl.tensor([3 + 0j, 1j])],
        "repeated": [rl.ones(1).expand(3)],
    }


@pytest.mark.parametrize("kind", mixed())
def test_other_lists_go_tensor_by_tensor(kind):
    x = mixed()[kind]
    expected = [t * 2 + 1 for t in x]
    equal(run("add", run("mul", x, 2), 1), expected)
    equal(run("mul", x, x), [t * t for t in x])
    if kind != "repeated":
        assert run("mul_", x, 2) is x
        run("add_", x, 1)
        equal(x, expected)
        run("zero_", x)
        equal(x, [rl.zeros_like(t) for t in x])


def test_transposed_tensors_are_one_pass():
    x = [rl.arange(12.0).reshape(3, 4).t(), rl.ones(2, 3, 4, 5).to(memory_format=rl.channels_last)]
    y = [t.clone() for t in x]
    assert all(a.stride() == b.stride() for a, b in zip(x, y, strict=True))
    found = _C._list_map("add", x, y, [], [], [])
    equal(found, [t + t for t in x])
    assert [t.stride() for t in found] == [t.stride() for t in x]
    # What lies otherwise does not go through at once, and comes out all the same.
    other = [t.contiguous() for t in y]
    assert not _C._list_map("add", x, other, [], [], [])
    equal(run("add", x, other), [t + t for t in x])


@pytest.mark.parametrize("name", ["norm", "sqrt", "zero_", "powsum"])
def test_items_that_are_no_tensors(name):
    with pytest.raises(
        TypeError, match=f"_foreach_{name}: item 1 of the list is no tensor, but None"
    ):
        getattr(rl, f"_foreach_{name}")([rl.ones(2), None])


def test_shapes_that_broadcast():
    equal(run("add", [rl.ones(2, 1)], [rl.ones(1, 3)]), [rl.full((2, 3), 2.0)])
    x = [rl.zeros(2, 3), rl.zeros(2)]
    run("add_", x, [rl.ones(3), rl.tensor(2.0)])
    equal(x, [rl.ones(2, 3), rl.full((2,), 2.0)])


def test_a_number_of_another_type():
    half = [rl.ones(3, dtype=rl.float16), rl.ones(2, dtype=rl.float16)]
    assert [t.dtype for t in run("mul", half, rl.tensor(0.5))] == [rl.float16] * 2
    assert _C._list_map("mul", half, [rl.tensor(0.5)], [], [], [])
    point = [rl.tensor(1.0, dtype=rl.float16)]  # no more than a number itself
    assert not _C._list_map("mul", point, [rl.tensor(0.5)], [], [], [])
    assert run("mul", point, rl.tensor(0.5))[0].dtype == rl.float32
    assert run("add", half, 1j)[0].dtype == (half[0] + 1j).dtype
    assert run("add", half, True)[0].tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="bool"):  # which have no difference
        run("sub", half, True)


def test_what_a_pass_does_not_take():
    x = tensors()
    for op in ("elu", "bitwise_not", "add_alpha", "isnan", "nothing"):
        assert not _C._list_map(op, x, [], [], [], [])
        assert not _C._list_map(op, x, x, [], [], [])
    assert not _C._list_map("clamp", x, [], [], [0.1, math.nan], [])
    assert not _C._list_map("lerp", x, [], [], [], [])
    wide = rl.tensor(1.0, dtype=rl.float64)
    with pytest.raises(TypeError, match="dtype of self"):  # as the op of one tensor says
        run("lerp", [rl.ones(3)], [wide], 0.5)


def test_shared_memory_goes_in_turn():
    x = rl.zeros(3)
    run("add_", [x, x], 1)
    assert x.tolist() == [2, 2, 2]
    x = rl.arange(4.0)
    run("add_", [x[:2], x[2:]], [x[2:].clone(), x[:2].clone()])
    assert x.tolist() == [2, 4, 2, 4]
    x = rl.ones(4)
    run("add_", [x[:2], x[2:]], [x[2:], x[:2]])
    assert x.tolist() == [2, 2, 3, 3]
    x = rl.arange(3.0)
    run("mul_", [x], [x])
    assert x.tolist() == [0, 1, 4]
    whole = rl.zeros(10)
    assert _C._list_fill_([whole[:5], whole[5:]], 1.0) and whole.sum() == 10
    assert not _C._list_fill_([whole[:6], whole[5:]], 1.0)


def test_copies():
    x, source = tensors(), tensors(rl.float64, 5)
    assert run("copy_", x, source) is x
    equal(x, [t.float() for t in source])
    assert _C._list_copy_(x, source)
    run("copy_", x, [rl.tensor(1), rl.ones(5), rl.tensor(2.0), rl.zeros(2), rl.ones(40, 1)])
    assert [t.sum().item() for t in x] == [3, 10, 2, 0, 1200]
    copies = run("clone", x)
    equal(copies, x)
    assert all(a.data_ptr() != b.data_ptr() for a, b in zip(copies, x, strict=True) if a.numel())
    assert run("clone", [rl.ones(2, 3).t()])[0].stride() == (1, 3)
    contiguous = run("clone", [rl.ones(2, 3).t()], memory_format=rl.contiguous_format)
    assert contiguous[0].is_contiguous()
    equal(run("mm", [rl.eye(2)], mat2=[rl.ones(2, 2)]), [rl.ones(2, 2)])


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.complex64], ids=str)
@pytest.mark.parametrize("ord", [0, 0.5, 1, 2, 3, math.inf, -math.inf])
def test_norms(ord, dtype):
    x = [t.to(dtype) - 0.5 for t in tensors() if t.numel()]
    for found, t in zip(run("norm", x, ord), x, strict=True):
        assert found.dtype == t.abs().dtype and found.shape == ()
        expected = np.linalg.norm(t.numpy().reshape(-1), ord)
        np.testing.assert_allclose(found.item(), expected, rtol=1e-5)
    assert run("norm", x, ord, dtype=rl.complex128 if x[0].is_complex() else rl.float64)[
        0
    ].dtype == (rl.float64)


def test_norms_of_lists_that_go_tensor_by_tensor():
    x = rl.ones(2, 2, requires_grad=True)
    found = run("norm", [x, x * 2])
    rl.stack(found).sum().backward()
    assert rl.allclose(x.grad, rl.full((2, 2), 0.5 + 1.0))
    assert run("norm", [rl.ones(0), rl.ones(4)])[1] == 2
    with pytest.raises(RuntimeError):
        run("norm", [rl.ones(0)], math.inf)
    with pytest.raises(RuntimeError, match="int64"):
        run("norm", [rl.arange(3)])


def test_powsum_and_max():
    x = tensors()
    for found, t in zip(run("powsum", x, 3), x, strict=True):
        np.testing.assert_allclose(found.item(), (np.abs(t.numpy()) ** 3).sum(), rtol=1e-5)
    assert run("powsum", [rl.tensor([1 + 1j, 2])])[0].item() == 6
    assert run("powsum", [rl.ones(2)], 2, rl.float64)[0].dtype == rl.float64
    many = rl.full((3000,), 1.0, dtype=rl.float16)
    found = run("powsum", [many])[0]
    assert found.dtype == rl.float16 and found.item() == 3000
    with pytest.raises(NotImplementedError, match="_foreach_powsum"):
        run("powsum", [rl.arange(3)])
    assert [t.item() for t in run("max", [rl.arange(3.0), rl.tensor(4.0)])] == [2, 4]
    with pytest.raises(RuntimeError):
        run("max", [rl.ones(0)])
    assert [t.item() for t in run("pow", 2, [rl.tensor(3.0), rl.tensor(-1.0)])] == [8, 0.5]


def test_errors():
    x = [rl.ones(2), rl.ones(3)]
    for call in (
        lambda: run("exp", []),
        lambda: run("zero_", []),
        lambda: run("add", [], []),
        lambda: run("norm", []),
    ):
        with pytest.raises(RuntimeError, match="at least one tensor"):
            call()
    for other in ([1], [rl.ones(2)], [1, 2, 3], []):
        with pytest.raises(RuntimeError, match="one item for each of the 2 tensors"):
            run("add_", x, other)
    with pytest.raises(RuntimeError, match="one item for each"):
        run("addcmul", x, x[:1], x)
    with pytest.raises(RuntimeError, match="one item for each"):
        run("copy_", x, x[:1])
    with pytest.raises(RuntimeError, match="no dimensions"):
        run("mul", x, rl.ones(1))
    for bad in (rl.ones(3), rl.tensor(1.0), rl.ones(4)[::2], rl.ones(1, 2)):
        with pytest.raises(RuntimeError, match="contiguous vector of 2"):
            run("addcdiv", x, x, x, bad)
    for bad in (rl.ones(2), (t for t in x), 3):
        with pytest.raises(TypeError, match="expected a list of tensors"):
            run("exp", bad)
    with pytest.raises(TypeError):
        run("add", x, "1")
    with pytest.raises(RuntimeError):
        run("add_", [rl.arange(3)], 0.5)
    with pytest.raises(RuntimeError):
        run("add", x, [rl.ones(3), rl.ones(2)])
    assert all((t == 1).all() for t in x)


# ---- autograd ----


def test_gradients():
    x = [rl.tensor([0.3, 0.6], dtype=rl.float64, requires_grad=True) for _ in range(2)]
    y = [rl.tensor([0.5, 0.2], dtype=rl.float64, requires_grad=True) for _ in range(2)]

    def f(a, b, c, d):
        z = run("mul", run("exp", [a, b]), [c, d])
        z = run("addcdiv", run("lerp", z, [c, d], 0.3), [a, b], [c, d], value=2)
        return tuple(run("add", z, run("sqrt", [c, d]), alpha=0.5))

    assert rl.autograd.gradcheck(f, (*x, *y))


def test_writes_are_seen():
    x = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        run("mul_", [x], 2)
    w = rl.ones(2)
    y = x * w
    run("mul_", [w], 2)
    with pytest.raises(RuntimeError, match="_foreach_mul_"):
        y.sum().backward()
    for write in (lambda: run("zero_", [w]), lambda: run("copy_", [w], [rl.ones(2)])):
        before = w._version
        write()
        assert w._version == before + 1
    with rl.no_grad():
        run("add_", [x], 1)
    assert x.tolist() == [2, 2] and x.is_leaf
    # In place on what has a history.
    z = x * 1
    run("mul_", [z], 3)
    z.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_other_modes():
    x = [rl.ones(2), rl.ones(3)]
    with rl.autocast("cpu", dtype=rl.bfloat16):
        low = [t.bfloat16() for t in x]
        assert [t.dtype for t in run("exp", low)] == [rl.bfloat16] * 2
        assert (
            run("pow", [rl.ones(2, dtype=rl.bfloat16).requires_grad_()], 3)[0].dtype == rl.bfloat16
        )
        assert rl.is_autocast_enabled("cpu")
    compiled = rl.compile(lambda a, b: run("mul", run("add", [a, b], 1), 2))
    equal(compiled(*x), [rl.full((2,), 4.0), rl.full((3,), 4.0)])
    with rl.autograd.forward_ad.dual_level():
        dual = rl.autograd.forward_ad.make_dual(x[0], rl.tensor([1.0, 2.0]))
        found = run("mul", [dual, x[1]], 3)[0]
        assert rl.autograd.forward_ad.unpack_dual(found).tangent.tolist() == [3, 6]
    batched = rl.vmap(lambda a: run("mul", [a], 2)[0])(rl.ones(3, 2))
    assert batched.tolist() == [[2, 2]] * 3
    meta = run("add", [rl.ones(2, device="meta")], 1)[0]
    assert meta.device.type == "meta" and meta.shape == (2,)
    with rl.inference_mode():
        run("add_", x, 1)
    assert x[0].tolist() == [2, 2]


def test_programs_see_the_operators():
    def f(x):
        a, b = run("mul", [x, x + 1], 2.0)
        run("add_", [a, b], [1.0, 2.0])
        norm = run("norm", [a])[0]
        run("copy_", [b], run("clone", [a]))
        return a + b + norm

    x = rl.tensor([1.0, 2.0], requires_grad=True)
    program = rl.jit.trace(f, (x.detach(),))
    assert rl.allclose(program(x), f(x))
    assert rl.equal(*(rl.autograd.grad(g(x).sum(), x)[0] for g in (f, program)))


# ---- who uses them ----


def parameters(dtype=rl.float32):
    found = []
    for t in tensors(seed=7):
        p = rl.nn.Parameter(rl.zeros_like(t, dtype=dtype))
        p.grad = (t * 2 - 1).to(dtype)
        found.append(p)
    return found


def flat(ps):
    return np.concatenate([p.grad.double().numpy().reshape(-1) for p in ps])


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("ord", [1.0, 2.0, 2.5, math.inf])
def test_clip_grad_norm(ord, foreach):
    ps = parameters()
    before = flat(ps)
    total = utils.clip_grad_norm_(ps, 0.5, ord, foreach=foreach)
    np.testing.assert_allclose(total.item(), np.linalg.norm(before, ord), rtol=1e-5)
    np.testing.assert_allclose(flat(ps), before * 0.5 / (total.item() + 1e-6), rtol=1e-5)
    version = [p.grad._version for p in ps]
    utils.clip_grad_norm_(ps, 10.0, ord, foreach=foreach)
    assert [p.grad._version for p in ps] == [v + 1 for v in version]
    np.testing.assert_allclose(np.linalg.norm(flat(ps), ord), 0.5, rtol=1e-5)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_clip_grad_norm_of_what_is_not_finite(bad):
    ps = parameters()
    ps[0].grad[0] = bad
    utils.clip_grad_norm_(ps, 1.0)
    # A factor of 0 or nan, as PyTorch has it: nothing is left out.
    assert all(p.grad.eq(0).logical_or(p.grad.isnan()).all() for p in ps)
    with pytest.raises(RuntimeError, match="error_if_nonfinite"):
        utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)


def test_clip_on_other_devices():
    p = rl.ones(2, device="meta", requires_grad=True)
    p.grad = rl.ones(2, device="meta")
    assert utils.get_total_norm([p.grad]).device.type == "meta"
    for call in (
        lambda: utils.get_total_norm([p.grad], foreach=True),
        lambda: utils.clip_grads_with_norm_([p], 1.0, rl.tensor(1.0), foreach=True),
        lambda: utils.clip_grad_value_([p], 1.0, foreach=True),
    ):
        with pytest.raises(RuntimeError, match="foreach=True"):
            call()


def test_clip_grad_value():
    ps = [*parameters(), *parameters(rl.float16)]
    ps[0].grad[0] = math.nan
    before = flat(ps)
    utils.clip_grad_value_(ps, 0.25)
    np.testing.assert_allclose(flat(ps), np.clip(before, -0.25, 0.25), rtol=1e-3)
    view = rl.ones(4, requires_grad=True)
    view.grad = rl.arange(8.0)[::2]
    utils.clip_grad_value_(view, 3)
    assert view.grad.tolist() == [0, 2, 3, 3]


def test_unscale():
    grads = [t - 0.5 for t in tensors()] + [t.half() for t in tensors()]
    expected = [t * 0.5 for t in grads]
    found = rl.zeros(1)
    rl._amp_foreach_non_finite_check_and_unscale_(grads, found, rl.tensor(0.5))
    equal(grads, expected)
    assert found.item() == 0
    grads[-1][3, 4] = -math.inf
    rl._amp_foreach_non_finite_check_and_unscale_(grads, found, rl.tensor(1.0))
    assert found.item() == 1
    with pytest.raises(RuntimeError, match="found_inf must have one element"):
        rl._amp_foreach_non_finite_check_and_unscale_(grads, rl.zeros(2), rl.tensor(1.0))
    # Numbers of another type go another way to the same end.
    wide = rl.zeros((), dtype=rl.float64)
    rl._amp_foreach_non_finite_check_and_unscale_([rl.tensor([math.nan])], wide, rl.tensor(0.5))
    assert wide.item() == 1


def test_updates_of_the_scale_agree():
    """The formula that does not look at the numbers, with the one that does."""
    from rushlight._functions.gradient_scaling import _update_without_waiting

    for start, count, bad in ((8.0, 0, 0.0), (8.0, 1, 0.0), (8.0, 1, 1.0), (3e38, 1, 0.0)):
        scale, tracker, found = rl.tensor(start), rl.tensor(count, dtype=rl.int32), rl.tensor(bad)
        ours = scale.clone(), tracker.clone()
        rl._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 2)
        assert _update_without_waiting(*ours, found != 0, 2.0, 0.5, 2) is ours[0]
        assert ours[0].item() == scale.item() and ours[1].item() == tracker.item()
        assert ours[1].dtype == rl.int32


def test_zero_grad():
    for owner in (lambda ps: optim.SGD(ps, lr=0.1), rl.nn.ParameterList):
        ps = [*parameters(), rl.nn.Parameter(rl.zeros(4)), *parameters(rl.float64)]
        ps[0].grad = ps[0].grad.clone().requires_grad_() * 2  # has a history
        ps[1].grad.requires_grad_()
        grads = [p.grad for p in ps]
        owner(ps).zero_grad(set_to_none=False)
        for p, grad in zip(ps, grads, strict=True):
            assert p.grad is grad
            if grad is not None:
                assert not grad.requires_grad and grad.eq(0).all()


def test_averages():
    from rushlight.optim import swa_utils

    model = rl.nn.Sequential(rl.nn.Linear(3, 2), rl.nn.BatchNorm1d(2)).double()
    kept = {}
    for name, kwargs in (
        ("mean", {}),
        ("moving", {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)}),
        ("buffers", {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9), "use_buffers": True}),
    ):
        kept[name] = swa_utils.AveragedModel(model, **kwargs)
    values = []
    for step in range(4):
        with rl.no_grad():
            for p in model.parameters():
                p.normal_()
            model[1].running_mean.fill_(step)
            model[1].num_batches_tracked.fill_(step)
        for average in kept.values():
            average.update_parameters(model)
        values.append([p.detach().numpy().copy() for p in model.parameters()])
    for i, p in enumerate(kept["mean"].module.parameters()):
        np.testing.assert_allclose(
            p.detach().numpy(), np.mean([v[i] for v in values], 0), rtol=1e-12
        )
    for i, p in enumerate(kept["moving"].module.parameters()):
        expected = values[0][i]
        for v in values[1:]:
            expected = 0.9 * expected + 0.1 * v[i]
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-10)
    assert kept["mean"].module[1].running_mean.tolist() == [3, 3]
    assert kept["mean"].module[1].num_batches_tracked.item() == 3
    assert 0 < kept["buffers"].module[1].running_mean[0] < 3
    assert all(int(average.n_averaged) == 4 for average in kept.values())
    # Whoever sets the number back begins anew.
    kept["mean"].n_averaged.zero_()
    kept["mean"].update_parameters(model)
    for p, q in zip(kept["mean"].module.parameters(), model.parameters(), strict=True):
        assert rl.equal(p, q)
