"""complex32: two halves per number. What PyTorch answers to single calls is in test_answers.py."""

import copy
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

NUMBERS = np.array([1 + 2j, -0.5j, 60000.0, 0.25 - 3j])


@pytest.fixture
def z():
    return rl.tensor(NUMBERS).chalf()


def test_the_dtype():
    assert rl.chalf is rl.complex32 and rl.complex32.itemsize == 4
    assert rl.complex32.is_complex and rl.complex32.to_real() == rl.float16
    assert rl.float16.to_complex() == rl.complex32
    assert rl.finfo(rl.chalf) == rl.finfo(rl.complex32)
    assert rl.finfo(rl.complex32).max == 65504
    assert rl.ones(2, dtype=rl.chalf).type() == "rushlight.ComplexHalfTensor"


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int32", "bool",
                                  "complex64", "complex128", "uint16"])  # fmt: skip
def test_conversions(z, name):
    dtype = getattr(rl, name)
    through = rl.tensor(NUMBERS).to(rl.complex64)
    assert rl.equal(z.to(dtype), through.to(dtype))
    assert rl.equal(z[1:].to(dtype).chalf(), through[1:].to(dtype).to(rl.complex32))
    strided = rl.stack([z, z], 1)[:, 0]
    assert rl.equal(strided.to(dtype), z.to(dtype))


def test_numbers_of_python(z):
    assert z.tolist() == NUMBERS.tolist() and z[3].item() == 0.25 - 3j
    assert complex(z[0]) == 1 + 2j and 1 + 2j in z
    assert rl.tensor([1j, 2], dtype=rl.chalf).tolist() == [1j, 2]
    assert rl.tensor([1e6j], dtype=rl.chalf).imag.item() == float("inf")
    assert repr(z[:2]) == "tensor([1.+2.0000j, -0.-0.5000j], dtype=rushlight.complex32)"


def test_parts_are_views(z):
    parts = rl.view_as_real(z)
    assert parts.dtype == rl.float16 and parts.data_ptr() == z.data_ptr()
    z.imag[0] = 7
    assert parts[0].tolist() == [1, 7] and rl.equal(rl.view_as_complex(parts), z)
    assert z.view(rl.float16).shape == (8,) and z.view(rl.int32).shape == (4,)


def test_saved_and_copied(z):
    file = io.BytesIO()
    rl.save({"z": z, "part": z[1:]}, file)
    file.seek(0)
    found = rl.load(file)
    assert rl.equal(found["z"], z) and found["part"].dtype == rl.complex32
    assert found["part"].untyped_storage().data_ptr() == found["z"].untyped_storage().data_ptr()
    for again in (pickle.loads(pickle.dumps(z)), copy.deepcopy(z), z.clone()):
        assert rl.equal(again, z) and again.dtype == rl.complex32
    assert rl.from_dlpack(z).tolist() == z.tolist()


def test_a_file_of_pytorch():
    found = rl.load(Path(__file__).parent / "data" / "complex32.pt")
    assert found.dtype == rl.complex32 and found.tolist() == [[1 + 2j, -0.5j], [3.0, -1 - 1j]]


def test_numpy_has_no_such_dtype(z):
    with pytest.raises(TypeError, match=r"convert with \.cfloat\(\)"):
        z.numpy()


def test_arithmetic_rounds_once():
    a = rl.tensor([1 + 2j, 0.3 - 0.7j, 100j]).chalf()
    b = rl.tensor([2 - 1j, 5 + 0.1j, 3.0]).chalf()
    wide_a, wide_b = a.cfloat(), b.cfloat()
    for f in (lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x - y * 2,
              lambda x, y: x.exp() if x.abs().max() < 9 else x, lambda x, y: x.conj() * y,
              lambda x, y: (x * y).abs(), lambda x, y: rl.cumsum(x, 0), lambda x, y: x.mean(),
              lambda x, y: rl.stack([x, y]).prod(0)):  # fmt: skip
        got, want = f(a, b), f(wide_a, wide_b)
        assert got.dtype == (rl.complex32 if want.is_complex() else rl.float16)
        scale = want.abs().max().item()
        assert (got.to(want.dtype) - want).abs().max().item() <= 2e-3 * scale


def test_gradients():
    x = rl.tensor([1 + 2j, -3j]).chalf().requires_grad_()
    (x * x.conj()).real.sum().backward()
    assert x.grad.dtype == rl.complex32 and x.grad.tolist() == [2 + 4j, -6j]
    w = rl.tensor([0.5, 2.0], dtype=rl.float16, requires_grad=True)
    (w * x.detach()).abs().sum().backward()
    assert w.grad.dtype == rl.float16
    np.testing.assert_allclose(w.grad.tolist(), [5**0.5, 3], rtol=1e-3)


def test_default_dtype_of_halves():
    rl.set_default_dtype(rl.float16)
    try:
        assert rl.tensor(1j).dtype == rl.tensor([1j, 2]).dtype == rl.complex32
        assert (rl.tensor([1, 2]) * 1j).dtype == rl.complex32
    finally:
        rl.set_default_dtype(rl.float32)


def test_what_is_not_computed_in_halves(z):
    square = z.reshape(2, 2)
    for f in (rl.fft.fft, rl.linalg.inv, lambda t: t @ t, rl.linalg.eigvals, lambda t: t.sort()):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            f(square)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions(dims, transposed):
    """Computed in as complex64, and rounded once."""
    rl.manual_seed(dims)
    name = f"conv{'_transpose' if transposed else ''}{dims}d"
    shapes = (2, 4, *[5] * dims), (4, 4, *[3] * dims), (4,)
    given = [rl.randn(shape, dtype=rl.complex64).chalf() for shape in shapes]
    narrow = [t.clone().requires_grad_() for t in given]
    wide = [t.cfloat().requires_grad_() for t in given]
    call = getattr(rl.nn.functional, name)
    found, expected = call(*narrow, padding=1), call(*wide, padding=1)
    assert found.dtype == rl.complex32 and rl.equal(found, expected.chalf())
    seed = rl.ones_like(found)
    for a, b in zip(
        rl.autograd.grad(found, narrow, seed),
        rl.autograd.grad(expected, wide, seed.cfloat()),
        strict=True,
    ):
        assert a.dtype == rl.complex32 and rl.equal(a, b.chalf())
