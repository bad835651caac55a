"""Views: what shares memory, with which strides, through chains; memory formats."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl

SETTINGS = settings(max_examples=150, deadline=None)
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)

STEPS = {
    "transpose": lambda d, x: ("transpose", *[d.draw(st.integers(0, x.ndim - 1)) for _ in "ab"]),
    "permute": lambda d, x: ("permute", *d.draw(st.permutations(range(x.ndim)))),
    "narrow": lambda d, x: narrow(d, x),
    "unsqueeze": lambda d, x: ("unsqueeze", d.draw(st.integers(0, x.ndim))),
    "squeeze": lambda d, x: ("squeeze",),
    "select": lambda d, x: ("select", 0, d.draw(st.integers(0, x.shape[0] - 1))),
    "slice": lambda d, x: ("slice", d.draw(st.integers(0, 2)), d.draw(st.integers(1, 3))),
    "flatten": lambda d, x: ("reshape", -1),
}  # fmt: skip


def narrow(d, x):
    dim = d.draw(st.integers(0, x.ndim - 1))
    start = d.draw(st.integers(0, x.shape[dim] - 1))
    return ("narrow", dim, start, d.draw(st.integers(1, x.shape[dim] - start)))


def apply_numpy(x, step):
    op, *a = step
    if op == "transpose":
        return np.swapaxes(x, *a)
    if op == "permute":
        return np.transpose(x, a)
    if op == "narrow":
        return x[(slice(None),) * a[0] + (slice(a[1], a[1] + a[2]),)]
    if op == "unsqueeze":
        return np.expand_dims(x, a[0])
    if op == "squeeze":
        return x.squeeze()
    if op == "select":
        return x[a[1], ...]
    if op == "slice":
        return x[a[0] :: a[1]]
    return x.reshape(-1)


def apply_ours(x, step):
    op, *a = step
    return x[a[0] :: a[1]] if op == "slice" else getattr(x, op)(*a)


@given(SHAPES, st.data())
@SETTINGS
def test_chains(shape, data):
    """Any chain of views agrees with NumPy in values and strides, and writes reach the base."""
    a = np.arange(int(np.prod(shape)), dtype="f4").reshape(shape)
    base = rl.from_numpy(a.copy())
    x, t = a, base
    for _ in range(data.draw(st.integers(1, 5))):
        if x.ndim == 0 or x.size == 0:
            break
        step = STEPS[data.draw(st.sampled_from(sorted(STEPS)))](data, x)
        x, t = apply_numpy(x, step), apply_ours(t, step)
        np.testing.assert_array_equal(t.numpy(), x)
    shares = t.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    assert shares == np.shares_memory(x, a) or x.size <= 1
    big = [i for i, n in enumerate(x.shape) if n > 1]
    if x.size:
        assert [t.stride(i) for i in big] == [x.strides[i] // 4 for i in big]
    if shares and x.size:
        t.zero_()
        x[...] = 0
        np.testing.assert_array_equal(base.numpy(), a)


LAYOUT = {
    "x": rl.arange(24.0).reshape(2, 3, 4),
    "m": rl.arange(6.0).reshape(3, 2).t(),  # (2, 3), strides (1, 2)
    "y": rl.arange(24.0).reshape(4, 3, 2).transpose(0, 2),  # (2, 3, 4), strides (1, 2, 6)
    "e": rl.arange(3.0).expand(2, 3),
    "rl": rl,
}


# Strides that PyTorch 2.13 gives its results.
@pytest.mark.parametrize("text, stride", [
    ("y + y", (1, 2, 6)), ("y + x", (1, 2, 6)), ("x + y", (12, 4, 1)), ("y.exp()", (1, 2, 6)),
    ("x[..., ::2] * 2", (6, 2, 1)), ("e + m", (1, 2)), ("m + e", (1, 2)), ("e + e", (3, 1)),
    ("m + rl.zeros(2, 1, 3)", (6, 1, 2)), ("rl.zeros(2, 1, 3) + m", (6, 1, 2)),
    ("rl.where(m > 0, m, rl.zeros(2, 2, 3))", (6, 1, 2)), ("y + rl.zeros(4)", (1, 2, 6)),
    ("m.cumsum(0)", (3, 1)), ("m.cummax(1)[0]", (3, 1)), ("m.tril()", (3, 1)),
    ("m.scatter(0, rl.zeros(1, 3, dtype=rl.int64), m)", (3, 1)),
    ("m.index_copy(0, rl.tensor([0]), m[:1])", (3, 1)), ("m.ravel()", (1,)),
    ("x[0, 0, ::2].ravel()", (1,)), ("x[0, 0, ::2].flatten()", (2,)),
])  # fmt: skip
def test_layout_of_results(text, stride):
    assert eval(text, LAYOUT).stride() == stride


def test_nothing_is_always_in_order():
    x = rl.zeros(3, 0, 2).transpose(0, 2)
    assert x.is_contiguous() and x.contiguous() is x
    assert rl.zeros(4, 0, 2)[::2].is_contiguous()


def test_geometry_of_an_expanded_tensor_changes_in_place():
    x = rl.arange(3.0).expand(2, 3)
    assert x.unsqueeze_(0).shape == (1, 2, 3) and x.squeeze_().shape == (2, 3)
    assert x.transpose_(0, 1).shape == (3, 2) and x.t_().swapaxes_(axis0=0, axis1=1).shape == (3, 2)
    with pytest.raises(RuntimeError, match="expand"):
        x.zero_().add_(1)


@given(SHAPES, st.data())
@SETTINGS
def test_view_or_error(shape, data):
    """view succeeds exactly when NumPy could reshape without a copy."""
    a = np.arange(int(np.prod(shape)), dtype="f4").reshape(shape)
    order = data.draw(st.permutations(range(len(shape))))
    x, t = a.transpose(order), rl.from_numpy(a).permute(*order)
    n = a.size
    divisor = data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
    target = (divisor, n // divisor)
    copies = not np.shares_memory(x.reshape(target), a)
    if copies:
        with pytest.raises(RuntimeError):
            t.view(target)
        assert t.reshape(target).data_ptr() != t.data_ptr()
    else:
        assert t.view(target).data_ptr() == t.data_ptr()
    np.testing.assert_array_equal(t.reshape(target).numpy(), x.reshape(target))


X = rl.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("text, stride, offset", [
    ("x", (12, 4, 1), 0), ("x[1]", (4, 1), 12), ("x[:, 1]", (12, 1), 4), ("x[..., ::2]",
    (12, 4, 2), 0),
    ("x.transpose(0, 2)", (1, 4, 12), 0), ("x.permute(2, 0, 1)", (1, 12, 4), 0),
    ("x.unsqueeze(1)", (12, 12, 4, 1), 0), ("x.unsqueeze(-1)", (12, 4, 1, 1), 0),
    ("x[None]", (24, 12, 4, 1), 0), ("x.view(6, 4)", (4, 1), 0), ("x.view(2, 12)", (12, 1), 0),
    ("x.expand(5, 2, 3, 4)", (0, 12, 4, 1), 0), ("x.diagonal(0, 1, 2)", (12, 5), 0),
    ("x.diagonal(1, 1, 2)", (12, 5), 1), ("x.unfold(2, 2, 1)", (12, 4, 1, 1), 0),
    ("x.as_strided((2, 2), (1, 3), 5)", (1, 3), 5), ("x.narrow(1, 1, 2)", (12, 4, 1), 4),
    ("x.select(2, 3)", (12, 4), 3), ("x.movedim(0, -1)", (4, 1, 12), 0), ("x[1].t()", (1, 4), 12),
    ("x.mT", (12, 1, 4), 0), ("x[0].T", (1, 4), 0), ("x.flatten(1)", (12, 1), 0),
    ("x.chunk(2, 1)[1]", (12, 4, 1), 8), ("x.split(2, 2)[1]", (12, 4, 1), 2),
    ("x.unbind(1)[2]", (12, 1), 8), ("x.squeeze()", (12, 4, 1), 0), ("x[:, :0]", (12, 4, 1), 0),
    ("x.view(2, 3, 2, 2)", (12, 4, 2, 1), 0), ("x.swapaxes(0, 1)", (4, 12, 1), 0),
    ("x.tensor_split(2, 2)[1]", (12, 4, 1), 2), ("x.unflatten(2, (2, 2))", (12, 4, 2, 1), 0),
])  # fmt: skip
def test_strides_and_offsets(text, stride, offset):
    y = eval(text, {"x": X})
    assert (y.stride(), y.storage_offset()) == (stride, offset)
    assert y.untyped_storage().data_ptr() == X.untyped_storage().data_ptr()


@pytest.mark.parametrize("text", [
    "x.contiguous()", "x.view_as(x)", "x.reshape(24)", "x.detach()", "x.data", "x.ravel()",
    "x.expand_as(x)", "x.to(rl.float32)", "x.squeeze(0)", "x.cpu()", "x.type_as(x)", "x.real",
    "x.resolve_conj()", "x.requires_grad_(False)", "x.view(rl.int32)",
])  # fmt: skip
def test_same_memory(text):
    assert eval(text, {"x": X, "rl": rl}).data_ptr() == X.data_ptr()


@pytest.mark.parametrize("text", [
    "x.clone()", "x + 0", "x.t().contiguous()", "x.t().reshape(-1)", "x.to(rl.float64)",
    "x[[0, 1]]", "x.repeat(1, 1)", "x.flip(0)", "x.roll(0)", "x.tril()", "rl.cat([x])",
    "rl.tensor(x)",
    "x.new_tensor(x)",
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_other_memory(text):
    x = rl.arange(9.0).reshape(3, 3)
    assert eval(text, {"x": x, "rl": rl}).data_ptr() != x.data_ptr()


CONTIGUOUS, LAST = (60, 20, 5, 1), (60, 1, 15, 3)


@pytest.mark.parametrize("text, stride", [
    ("x", CONTIGUOUS), ("x.to(memory_format=rl.channels_last)", LAST), ("c.contiguous()",
    CONTIGUOUS),
    ("c.clone()", LAST), ("rl.empty_like(c)", LAST), ("c + 1", LAST), ("c + c", LAST),
    ("c.exp()", LAST), ("c + x", LAST), ("x + c", CONTIGUOUS), ("c.double()", LAST),
    ("rl.where(c > 0, c, c)", LAST), ("c.contiguous(memory_format=rl.channels_last)", LAST),
    ("rl.empty_like(c, memory_format=rl.contiguous_format)", CONTIGUOUS),
    ("c.clone(memory_format=rl.contiguous_format)", CONTIGUOUS),
    ("rl.empty(2, 3, 4, 5, memory_format=rl.channels_last)", LAST),
    ("x.permute(3, 2, 1, 0).exp()", (1, 5, 20, 60)), ("x.transpose(1, 2) + 1", (60, 5, 20, 1)),
    ("x[:, :, ::2] + 1", (30, 10, 5, 1)), ("x[:, ::2, :, ::2].exp()", (24, 12, 3, 1)),
    ("x[:1].expand(2, 3, 4, 5) + 1", CONTIGUOUS), ("c * x[:, :, :1]", LAST),
])  # fmt: skip
def test_memory_formats(text, stride):
    x = rl.ones(2, 3, 4, 5)
    c = x.contiguous(memory_format=rl.channels_last)
    assert eval(text, {"x": x, "c": c, "rl": rl}).stride() == stride


def test_is_contiguous():
    x = rl.ones(2, 3, 4, 5)
    c = x.contiguous(memory_format=rl.channels_last)
    assert x.is_contiguous() and not c.is_contiguous()
    assert c.is_contiguous(memory_format=rl.channels_last)
    assert not x.is_contiguous(memory_format=rl.channels_last)
    d = rl.ones(1, 2, 2, 2, 2).contiguous(memory_format=rl.channels_last_3d)
    assert d.stride() == (16, 1, 8, 4, 2)
    assert rl.ones(0, 3).t().is_contiguous() and rl.ones(1, 3).t().is_contiguous()


def test_view_to_another_dtype():
    x = rl.tensor([1.0, -2.0])
    assert x.view(rl.int32).tolist() == [1065353216, -1073741824]
    assert x.view(rl.uint8).shape == (8,) and x.view(rl.float64).shape == (1,)
    with pytest.raises(RuntimeError):
        rl.ones(3).view(rl.float64)


def test_views_keep_their_base_alive():
    v = rl.arange(1000.0)[10:12]
    assert v.tolist() == [10, 11] and v._base is not None and v._is_view()


def test_version_counts_writes_through_views():
    x = rl.zeros(4)
    before = x._version
    x[1:3].add_(1)
    assert x._version == before + 1
    x.detach().add_(1)
    assert x._version == before + 2
    x.data.add_(1)
    assert x._version == before + 2


def test_set_and_resize():
    x = rl.arange(6.0)
    x.resize_(2, 2)
    assert x.tolist() == [[0, 1], [2, 3]]
    y = rl.empty(0)
    y.set_(x)
    assert y.data_ptr() == x.data_ptr() and y.is_set_to(x)
    assert rl.zeros(3).resize_as_(rl.zeros(2, 1)).shape == (2, 1)


def test_sixty_four_dimensions():
    x = rl.ones((1,) * 64)
    assert x.dim() == 64 and x.sum().item() == 1
    assert x.permute(*reversed(range(64))).shape == (1,) * 64


def test_set_takes_tensors_and_storages():
    x = rl.arange(6.0)
    y = rl.empty(0).set_(x, 1, (2, 2), (1, 2))
    assert y.tolist() == [[1, 3], [2, 4]] and not y.is_set_to(x)
    assert rl.empty(0).set_(x.untyped_storage(), 2, (3,)).tolist() == [2, 3, 4]
    assert x.set_().shape == (0,)
    with pytest.raises(RuntimeError):
        rl.empty(0).set_(rl.arange(3))
    with pytest.raises(RuntimeError):
        rl.empty(0).set_(y.untyped_storage(), 0, (100,))


def test_geometry_in_place():
    x = rl.arange(6.0)
    assert x.as_strided_((2, 2), (1, 3)) is x and x.tolist() == [[0, 3], [1, 4]]
    with pytest.raises(RuntimeError, match="as_strided"):
        x.as_strided_((100,), (1,))
    y = rl.ones(2, requires_grad=True) * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="detach"):
        (rl.ones(2, requires_grad=True) * 2)[0].detach_()


def test_elements_through_python():
    assert rl.arange(3).apply_(lambda v: v * v).tolist() == [0, 1, 4]
    assert rl.ones(2).map_(rl.arange(2.0), lambda a, b: a + 2 * b).tolist() == [1, 3]
    assert rl.ones(2, 1).new(2, 3).shape == (2, 3) and rl.ones(1).new([1, 2]).tolist() == [1, 2]


@pytest.mark.skipif(rl.cuda.is_available(), reason="there is a GPU")
def test_without_a_cuda_device():
    x = rl.ones(2)
    for call in (x.cuda, x.pin_memory, lambda: x.record_stream(None)):
        with pytest.raises((RuntimeError, AssertionError)):
            call()
    assert not x.is_pinned() and x.to_dense() is x and not x.is_sparse
