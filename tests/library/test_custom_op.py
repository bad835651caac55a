"""custom_op: schemas, kernels, gradients, vmap, autocast, fakes, and what else sees an operator."""

import gc
import threading
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

import rushlight as rl
from rushlight import Tensor, library
from rushlight.library import custom_op


@pytest.fixture
def sine():
    """sin by NumPy, with its gradient as an operator of its own, so that it can be repeated."""

    @custom_op("tests::sine", mutates_args=())
    def sine(x: Tensor, scale: float = 1.0) -> Tensor:
        return rl.tensor(np.sin(x.numpy()) * scale, dtype=x.dtype)

    @sine.register_fake
    def _(x, scale=1.0):
        return rl.empty_like(x)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * sine(x + np.pi / 2, ctx.scale), None

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    sine.register_autograd(backward, setup_context=setup)
    return sine


def test_calls_and_defaults(sine):
    x = rl.linspace(0, 1, 5, dtype=rl.float64)
    assert np.allclose(sine(x).numpy(), np.sin(x.numpy()), rtol=1e-15)
    assert np.allclose(rl.ops.tests.sine(x, 2.0).numpy(), 2 * np.sin(x.numpy()), rtol=1e-15)
    assert rl.equal(rl.ops.tests.sine.default(x, scale=2), sine(x=x, scale=2.0))
    assert sine(x.to("meta")).is_meta and sine(rl.empty(0)).shape == (0,)
    assert sine(rl.tensor(0.5)).shape == ()


def test_gradients_of_gradients(sine):
    x = rl.linspace(0.1, 1, 4, dtype=rl.float64).requires_grad_()
    assert rl.autograd.gradcheck(lambda x: sine(x, 3.0), (x,))
    assert rl.autograd.gradgradcheck(lambda x: sine(x, 3.0), (x,))
    (g,) = rl.autograd.grad(sine(x).sum(), x, create_graph=True)
    (gg,) = rl.autograd.grad(g.sum(), x, create_graph=True)
    (ggg,) = rl.autograd.grad(gg.sum(), x)
    assert np.allclose(ggg.numpy(), -np.cos(x.detach().numpy()))
    with rl.no_grad():
        assert not sine(x).requires_grad


def test_without_a_formula():
    @custom_op("tests::bare", mutates_args=())
    def bare(x: Tensor) -> Tensor:
        return x.clone()

    x = rl.ones(2, requires_grad=True)
    y = bare(x)
    assert (
        y.requires_grad
        and type(y.grad_fn).__name__ == "GeneratedBackwardFor_tests_bare_defaultBackward"
    )
    with pytest.raises(RuntimeError, match="has no gradient"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="register_fake"):
        bare(x.detach().to("meta"))
    bare.register_autograd(lambda ctx, g: 7 * g)
    bare(x).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_lists_keywords_and_several_results():
    seen = {}

    @custom_op("tests::scale_all", mutates_args=())
    def scale_all(xs: Sequence[Tensor], k: float, *, w: int = 2) -> list[Tensor]:
        return [x * k * w for x in xs]

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen["setup"] = (len(inputs[0]), inputs[1], dict(keyword_only_inputs), len(output))
        ctx.k = inputs[1] * keyword_only_inputs["w"]

    def backward(ctx, grads):
        seen["needs"] = ctx.needs_input_grad
        return [g * ctx.k for g in grads], None

    scale_all.register_autograd(backward, setup_context=setup)
    a, b = rl.ones(2, requires_grad=True), rl.ones(3)
    outputs = scale_all([a, b], 2.0, w=3)
    assert [o.tolist() for o in outputs] == [[6.0, 6.0], [6.0, 6.0, 6.0]]
    outputs[0].sum().backward()
    assert a.grad.tolist() == [6.0, 6.0] and seen["needs"] == ([True, False], False)
    assert seen["setup"] == (2, 2.0, {"w": 3}, 2)

    @custom_op("tests::stats", mutates_args=())
    def stats(x: Tensor, flags: list[bool]) -> tuple[Tensor, int, bool]:
        assert all(isinstance(f, bool) for f in flags)
        return x.sum(), x.numel(), all(flags)

    total, count, every = stats(b, [True, False])
    assert (total.item(), count, every) == (3.0, 3, False) and type(count) is int


def test_other_kinds_of_arguments():
    @custom_op("tests::kinds", mutates_args=())
    def kinds(
        x: Tensor,
        o: Tensor | None,
        sizes: list[int],
        floats: Sequence[float],
        name: str = "a b",
        dtype: rl.dtype = rl.float64,
        device: rl.device | None = None,
        number: rl.types.Number = 2.5,
    ) -> Tensor:
        assert o is None and sizes == [2, -1] and floats == [1.0, 2.5] and name == "a b"
        assert device is None or device.type == "cpu"
        return x.reshape(sizes).to(dtype, copy=True) * number

    y = kinds(rl.ones(4), None, (2, -1), [1, 2.5])
    assert y.dtype == rl.float64 and y.tolist() == [[2.5, 2.5], [2.5, 2.5]]
    assert kinds(rl.ones(4), None, [2, -1], [1, 2.5], device="cpu", number=1j).is_complex()


def test_writing_to_arguments():
    @custom_op("tests::add_one", mutates_args={"x"})
    def add_one(x: Tensor, other: Tensor) -> None:
        x.numpy()[...] += other.numpy()

    x = rl.zeros(3)
    version = x._version
    assert add_one(x, rl.ones(3)) is None
    assert x.tolist() == [1.0, 1.0, 1.0] and x._version > version
    assert (
        str(rl.ops.tests.add_one.default._schema)
        == "tests::add_one(Tensor(a0!) x, Tensor other) -> ()"
    )
    # What backward kept is known to have changed.
    w = rl.ones(3, requires_grad=True)
    kept = x.clone()
    y = (w * kept).sum()
    add_one(kept, rl.ones(3))
    with pytest.raises(RuntimeError, match="add_one"):
        y.backward()
    with pytest.raises(RuntimeError, match="writes to 'x', which requires a gradient"):
        add_one(w, rl.ones(3))
    with rl.no_grad():
        add_one(w, rl.ones(3))
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        add_one.register_autograd(lambda ctx, g: g)
    # Each sample of vmap has its own x, or the call is refused.
    batch = rl.zeros(2, 3)
    rl.vmap(lambda x, y: add_one(x, y) or x)(batch, rl.tensor([[1.0] * 3, [2.0] * 3]))
    assert batch.tolist() == [[1.0] * 3, [2.0] * 3]
    with pytest.raises(RuntimeError, match="all samples share"):
        rl.vmap(lambda y: add_one(x, y) or y)(rl.ones(2, 3))


def test_vmap(sine):
    x = rl.linspace(0, 1, 6, dtype=rl.float64).reshape(2, 3)
    assert np.allclose(rl.vmap(sine)(x).numpy(), np.sin(x.numpy()))
    assert np.allclose(rl.vmap(rl.vmap(sine))(x).numpy(), np.sin(x.numpy()))
    per_sample = rl.vmap(rl.func.grad(lambda x: sine(x).sum()))(x)
    assert np.allclose(per_sample.numpy(), np.cos(x.numpy()))
    calls = []

    @sine.register_vmap
    def _(info, in_dims, x, scale):
        calls.append((info.batch_size, in_dims))
        return sine(x, scale).movedim(0, -1), x.dim() - 1

    assert np.allclose(rl.vmap(sine, in_dims=1)(x).numpy(), np.sin(x.numpy().T))
    assert calls == [(3, (0, None))]

    @sine.register_vmap
    def _(info, in_dims, x, scale):
        return x[:1], 0

    with pytest.raises(RuntimeError, match="rule for vmap says that result 0 has 2 samples"):
        rl.vmap(sine)(x)


def test_autocast(sine):
    seen = []

    @custom_op("tests::typed", mutates_args=())
    def typed(x: Tensor, n: Tensor) -> Tensor:
        seen.append((x.dtype, n.dtype, rl.is_autocast_enabled("cpu")))
        return x.clone()

    typed.register_autocast("cpu", rl.bfloat16)
    n = rl.ones(1, dtype=rl.int64)
    with rl.autocast("cpu", dtype=rl.float16):
        assert typed(rl.ones(2), n).dtype == rl.bfloat16
    assert typed(rl.ones(2), n).dtype == rl.float32
    assert seen[0][:2] == (rl.bfloat16, rl.int64) and seen[1][0] == rl.float32


def test_profiling_names_it(sine):
    with rl.profiler.profile(activities=[rl.profiler.ProfilerActivity.CPU]) as prof:
        sine(rl.ones(2))
    assert "tests::sine" in {e.key for e in prof.key_averages()}


def test_compile(sine):
    x = rl.linspace(0, 1, 5, dtype=rl.float64).requires_grad_()

    def f(x):
        return (sine(x * 2) + 1).exp().sum()

    a = rl.autograd.grad(f(x), x)[0]
    b = rl.autograd.grad(rl.compile(f)(x), x)[0]
    assert np.allclose(a.numpy(), b.numpy(), rtol=1e-14)

    @custom_op("tests::fill_seven", mutates_args={"x"})
    def fill_seven(x: Tensor) -> None:
        x.fill_(7)

    def g(x):
        y = x + 1
        z = y * 2  # waits, and reads y
        fill_seven(y)
        return y, z

    y, z = rl.compile(g)(rl.ones(3))
    assert y.tolist() == [7.0] * 3 and z.tolist() == [4.0] * 3


def test_programs(sine, tmp_path):
    traced = rl.jit.trace(lambda x: sine(x * 2, 3.0) + 1, rl.ones(3))
    assert "tests::sine(%1, 3" in traced.code
    x = rl.linspace(0, 1, 3).requires_grad_()
    traced(x).sum().backward()
    assert np.allclose(x.grad.numpy(), 6 * np.cos(2 * x.detach().numpy()), rtol=1e-6)
    rl.jit.save(traced, tmp_path / "m.rush")
    loaded = rl.jit.load(tmp_path / "m.rush")
    assert rl.equal(loaded(x), traced(x))
    library._forget("tests::sine")
    assert rl.equal(loaded(x), traced(x))  # what is loaded keeps its operators
    with pytest.raises(
        RuntimeError, match="no operator 'tests::sine'; load the library .* 'tests'"
    ):
        rl.jit.load(tmp_path / "m.rush")


def test_kernels_by_device(sine):
    @custom_op("tests::where_am_i", mutates_args=(), device_types="cpu")
    def where_am_i(x: Tensor) -> int:
        return 1

    assert where_am_i(rl.ones(1)) == 1
    where_am_i.register_kernel("cpu", lambda x: 2)
    assert where_am_i(rl.ones(1)) == 2
    with where_am_i.set_kernel_enabled("cpu", False):
        assert where_am_i(rl.ones(1)) == 1
    with pytest.raises(RuntimeError, match="device type: tpu"):
        where_am_i.register_kernel("tpu", lambda x: 2)
    assert library.get_kernel("tests::where_am_i", "CPU")(rl.ones(1)) == 2
    with pytest.raises(RuntimeError, match="no kernel for CUDA"):
        library.get_kernel("tests::where_am_i", "CUDA")


def wrong(value):
    return lambda x: value


@pytest.mark.parametrize(
    "schema, value, text",
    [
        ("(Tensor x) -> Tensor", 3, "must return Tensor, not int"),
        ("(Tensor x) -> Tensor", None, "must return Tensor, not NoneType"),
        ("(Tensor x) -> Tensor[]", [1], "must return Tensor"),
        ("(Tensor x) -> int", 2.5, "must return int, not float"),
        ("(Tensor x) -> bool", 1, "must return bool, not int"),
        ("(Tensor x) -> (Tensor, Tensor)", (1,), "must return a tuple of 2"),
        ("(Tensor x) -> ()", 1, "must return nothing, not int"),
    ],
)
def test_wrong_results(schema, value, text):
    op = custom_op("tests::wrong", wrong(value), mutates_args=(), schema=schema)
    with pytest.raises(TypeError, match=text):
        op(rl.ones(1))


def test_results_are_nobody_elses():
    first = custom_op("tests::same", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    view = custom_op("tests::view", lambda x: x[1:], mutates_args=(), schema="(Tensor x) -> Tensor")

    def twice(x):
        y = x.clone()
        return y, y.view(-1)

    both = custom_op("tests::both", twice, mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)")
    for op in (first, view, both):
        with pytest.raises(RuntimeError, match="must not be one of its inputs"):
            op(rl.ones(3))


def test_bad_calls(sine):
    for args, kwargs, text in [
        (("a",), {}, "argument 'x' must be Tensor, not str"),
        ((), {}, "missing argument 'x'"),
        ((rl.ones(1), "b"), {}, "argument 'scale' must be float"),
        ((rl.ones(1),), {"zz": 1}, "unexpected keyword 'zz'"),
        ((rl.ones(1), 1.0, 2), {}, "takes 2 positional arguments"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            sine(*args, **kwargs)
    with pytest.raises(ValueError, match="'mylib::name'"):
        custom_op("sine", lambda x: x, mutates_args=())
    with pytest.raises(NotImplementedError, match="no formula for forward mode"):
        rl.func.jvp(sine, (rl.ones(2),), (rl.ones(2),))


def test_errors_of_the_function_arrive_as_they_are():
    class OwnError(Exception):
        pass

    def fails(x):
        raise OwnError("because")

    op = custom_op("tests::fails", fails, mutates_args=(), schema="(Tensor x) -> Tensor")
    for x in (rl.ones(2), rl.ones(100_000)):  # with and without the GIL
        with pytest.raises(OwnError, match="because"):
            op(x)
    with pytest.raises(OwnError):
        op(rl.ones(2, requires_grad=True))


@pytest.mark.threads
def test_subclasses_and_threads(sine):
    class Meter(Tensor):
        pass

    m = rl.linspace(0, 1, 3).as_subclass(Meter)
    assert type(sine(m)) is Meter
    seen = []

    class Watch(rl.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Watch():
        sine(m)
    assert seen[0] is rl.ops.tests.sine.default
    results = [None] * 4

    def work(i):
        results[i] = sine(rl.full((50_000,), float(i)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all(np.allclose(r.numpy(), np.sin(float(i))) for i, r in enumerate(results))


def test_graphs_are_freed(sine):
    x = rl.ones(2, requires_grad=True)
    y = sine(x)
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert node() is None


def test_defining_again_replaces():
    def make(k):
        @custom_op("tests::again", mutates_args=())
        def again(x: Tensor) -> Tensor:
            return x * k

        return again

    first = make(1)
    second = make(2)
    assert second(rl.ones(1)).item() == first(rl.ones(1)).item() == 2
    assert rl.ops.tests.again(rl.ones(1)).item() == 2


def test_triton_op():
    @library.triton_op("tests::triton", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return x + 1

    assert op(rl.ones(1)).item() == 2
    assert library.wrap_triton(test_triton_op) is test_triton_op
