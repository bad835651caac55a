"""C++ extensions: operators, gradients and modules that are compiled against the headers."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils import cpp_extension

HERE = Path(__file__).resolve().parent
pytest.importorskip("pybind11")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The extension, compiled once: whichever test comes first waits for it."""
    folder = tmp_path_factory.mktemp("extension")
    with pytest.raises(
        RuntimeError, match=r"tests_cpp::wrong: the C\+\+ function takes \(Tensor\)"
    ):
        cpp_extension.load("everything", HERE / "cpp" / "everything.cpp", ["-O0"],
                           build_directory=str(folder))  # fmt: skip
    module = cpp_extension.load("everything", [HERE / "cpp" / "everything.cpp"],
                                ["-O0", "-std=c++17"], build_directory=str(folder))  # fmt: skip
    return module


@pytest.mark.slow
def test_an_extension(built, tmp_path):
    check_module(built)
    check_operators()
    check_gradients(built)
    check_with_everything_else(tmp_path)


def check_module(built):
    x, h, c = rl.randn(4, 3), rl.randn(4, 2), rl.randn(4, 2)
    w, b = rl.randn(6, 5, requires_grad=True), rl.randn(1, 6, requires_grad=True)
    outputs = built.forward(x, w, b, h, c)
    gates = rl.cat([h, x], 1) @ w.T + b
    i, o, g = gates.chunk(3, 1)
    cell = c + rl.nn.functional.elu(g) * i.sigmoid()
    new_h = cell.tanh() * o.sigmoid()
    assert rl.allclose(outputs[0], new_h, atol=1e-6) and rl.allclose(outputs[1], cell, atol=1e-6)
    dw, db = rl.autograd.grad((new_h.sum() + cell.sum()), (w, b), retain_graph=True)
    one = rl.ones(4, 2)
    saved = [t.detach() for t in outputs[1:]]
    grads = built.backward(one, one, *saved, w.detach())
    assert rl.allclose(grads[2], dw, atol=1e-5) and rl.allclose(grads[3], db, atol=1e-5)
    assert rl.allclose(rl.autograd.grad(outputs[0].sum() + outputs[1].sum(), w)[0], dw, atol=1e-5)

    assert built.call_back(lambda t: t * 3, rl.ones(2)).tolist() == [4.0, 4.0]
    with pytest.raises(KeyError, match="mine"):
        built.call_back(lambda t: {}["mine"], rl.ones(2))
    with pytest.raises(rl.ShapeError, match="add"):
        built.call_back(lambda t: t, rl.ones(3))
    with pytest.raises(TypeError, match=r"rushlight\.Tensor"):
        built.call_back(lambda t: t, 3)
    text = built.describe(rl.ones(2, 3), rl.float64, rl.device("cpu"), 1.5)
    assert text == "[2, 3] float64 cpu 1.5 3"
    types = (rl.bool, rl.float16, rl.bfloat16, rl.float64, rl.int32, rl.complex64)
    assert [built.element_bytes(rl.ones(1, dtype=t)) for t in types] == [2, 4, 4, 16, 9, 17]
    with pytest.raises(rl.DTypeError, match="bytes: not implemented for complex128"):
        built.element_bytes(rl.ones(1, dtype=rl.complex128))

    x = rl.arange(6.0).view(2, 3)
    first, last, changed, blob, total, where, swapped = built.parts(x, 7)
    assert first.tolist() == [0.0, 3.0] and last.tolist() == [[2.0], [5.0]]
    assert changed.tolist() == [[0.0, 14.0, 14.0], [3.0, 4.0, 5.0]]
    assert blob.tolist() == [[1.0, 2.0], [3.0, 4.0]] and total.tolist() == [22.0]
    assert rl.equal(where, x.nonzero()) and rl.equal(swapped, x.flip(0))

    class Named(rl.Tensor):
        pass

    named = rl.ones(2).as_subclass(Named)
    assert built.call_back(lambda t: type(t) is Named and t, named).tolist() == [2.0, 2.0]


def check_operators():
    ops = rl.ops.tests_cpp
    for dtype in (rl.float32, rl.float64):
        a, b = rl.randn(3, 2000, dtype=dtype), rl.randn(3, 2000, dtype=dtype)
        expected = a.numpy() * b.numpy() + np.asarray(0.5, a.numpy().dtype)
        assert np.allclose(ops.mymuladd(a, b, 0.5).numpy(), expected, rtol=1e-6)
    for dtype in (rl.float16, rl.bfloat16):
        c, d = a.to(dtype), b.to(dtype)
        assert rl.equal(ops.mymuladd(c, d, 0.5), c * d + 0.5)
    assert rl.equal(ops.mymuladd(a.T, b.T), a.T * b.T + 1)
    for args, text in [
        ((a, b[0]), r"sizes differ: \[3, 2000\] and \[2000\]"),
        ((a, b.float()), r"Expected a.dtype\(\) == b.dtype\(\)"),
        ((a.long(), b.long()), "mymuladd"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            ops.mymuladd(*args)
    out = rl.zeros(2, 2)
    version = out._version
    assert ops.myadd_out(rl.ones(2, 2), rl.ones(2, 2), out) is None
    assert out.tolist() == [[2.0, 2.0]] * 2 and out._version > version
    x = rl.arange(4.0)
    y, n = ops.kinds(x, None, [2, 2], [x, x], "abc", [0.5], None, False, 2)
    assert y.tolist() == [[0.0, 2.0], [4.0, 6.0]] and n == 6
    y, n = ops.kinds(x, x, [4], [], "", [], rl.float64, True, 0.5)
    assert y.dtype == rl.float64 and n == 100
    assert ops.fill_(x, 3.0) is x and x.tolist() == [3.0] * 4
    assert ops.plus_one(x, None).tolist() == [4.0] * 4 and ops.plus_one(x, 2).tolist() == [5.0] * 4
    assert str(ops.plus_one.default._schema) == "tests_cpp::plus_one(Tensor _0, int? _1) -> Tensor"
    with pytest.raises(NotImplementedError, match="fake"):
        ops.mymuladd(a.to("meta"), b.to("meta"))


def check_gradients(built):
    cube = rl.ops.tests_cpp.cube
    x = rl.randn(3, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(cube, (x,)) and rl.autograd.gradgradcheck(cube, (x,))
    assert "Cube" in cube(x).grad_fn.name() and not cube(x.detach()).requires_grad
    y = cube(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()
    a, b = rl.ones(2, requires_grad=True), rl.ones(2)
    first, second = built.split([a, b], 3.0)
    (first.sum() + second.sum()).backward()
    assert a.grad.tolist() == [3.0, 3.0] and second.requires_grad
    # In Python, for an operator in C++.
    rl.library.register_autograd(
        "tests_cpp::mymuladd",
        lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:2]),
    )
    rl.library.register_fake("tests_cpp::mymuladd", lambda a, b, c: rl.empty_like(a))
    a = rl.randn(3, dtype=rl.float64, requires_grad=True)
    b = rl.randn(3, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(rl.ops.tests_cpp.mymuladd, (a, b))
    assert set(rl.library.opcheck(rl.ops.tests_cpp.mymuladd, (a, b, 2.0)).values()) == {"SUCCESS"}
    assert set(rl.library.opcheck(rl.ops.tests_cpp.cube, (a,)).values()) == {"SUCCESS"}


def check_with_everything_else(tmp_path):
    cube = rl.ops.tests_cpp.cube
    x = rl.randn(2, 3)
    assert rl.allclose(rl.vmap(cube)(x), x**3)
    per_sample = rl.vmap(rl.func.grad(lambda x: cube(x).sum()))(x)
    assert rl.allclose(per_sample, 3 * x**2, rtol=1e-5)
    rl.library.register_autocast("tests_cpp::cube", "cpu", rl.bfloat16)
    with rl.autocast("cpu"):
        assert cube(x).dtype == rl.bfloat16
    traced = rl.jit.trace(lambda x: cube(x) + 1, x)
    rl.jit.save(traced, tmp_path / "cube.rush")
    leaf = x.clone().requires_grad_()
    rl.jit.load(tmp_path / "cube.rush")(leaf).sum().backward()
    assert rl.allclose(leaf.grad, 3 * x**2, rtol=1e-5)
    with rl.profiler.profile() as prof:
        cube(x)
    assert "tests_cpp::cube" in {e.key for e in prof.key_averages()}
    # A process that has not loaded the library is told which it needs.
    code = f"import rushlight as rl; rl.jit.load({str(tmp_path / 'cube.rush')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the library that defines the operators of 'tests_cpp'" in done.stderr


@pytest.mark.slow
def test_a_program_without_python(tmp_path):
    lib = rl.library.Library("tests_program", "DEF")
    lib.define("scaled(Tensor x, float k=2.0) -> Tensor")
    lib.impl("scaled", lambda x, k: x * k)
    traced = rl.jit.trace(lambda x: rl.ops.tests_program.scaled(x, 5.0), rl.ones(2, 3))
    rl.jit.save(traced, tmp_path / "scaled.rush")
    lib._destroy()
    path = cpp_extension.load("program", [HERE / "cpp" / "program.cpp"], ["-O0"],
                              build_directory=str(tmp_path), is_standalone=True)  # fmt: skip
    done = subprocess.run([path, str(tmp_path / "scaled.rush")], capture_output=True, text=True,
                          env={"PATH": os.defpath})  # fmt: skip
    assert done.stdout.split() == ["12", "12", "30"], done.stderr


ITS_OWN_LIBRARY = """
#include <torch/extension.h>
double first(const torch::Tensor& x) {
  TORCH_CHECK(x.dim() == 1, "first: ", x.dim(), " dims of ", x.sizes(), ", ", 0.5, true);
  return x[0].item<double>();
}
int64_t second(const torch::Tensor& x) { return x.packed_accessor32<float, 2>().size(1); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("first", &first), m.def("second", &second); }
"""


@pytest.mark.slow
def test_errors_of_an_extension_with_a_standard_library_of_its_own(tmp_path):
    """As a compiler links that finds no other: two such libraries have two kinds of locales, and
    numbers in messages were lost, or the process with them."""
    source = tmp_path / "own.cpp"
    source.write_text(ITS_OWN_LIBRARY)
    module = cpp_extension.load("own_library", [source], ["-O0"], build_directory=str(tmp_path),
                                extra_ldflags=["-static-libstdc++"])  # fmt: skip
    assert module.first(rl.ones(2)) == 1 and module.second(rl.ones(2, 3)) == 3
    with pytest.raises(RuntimeError, match=r"first: 2 dims of \[2, 3\], 0\.5True"):
        module.first(rl.ones(2, 3))
    with pytest.raises(rl.ShapeError, match="expected 2 dimensions, got 1"):
        module.second(rl.ones(3))
