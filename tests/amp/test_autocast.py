"""autocast: which ops change their dtype, nesting, the cache of weights, gradients."""

import threading

import pytest

import rushlight as rl
from rushlight import amp


def pair():
    return rl.randn(4, 4, requires_grad=True), rl.randn(4, 4)


# What PyTorch 2.13 gives on the CPU, by op; "low" is the region's dtype.
RESULTS = {
    "matmul": ("low", lambda a, b: a @ b),
    "mm": ("low", lambda a, b: rl.mm(a, b)),
    "bmm": ("low", lambda a, b: rl.bmm(a[None], b[None])),
    "addmm": ("low", lambda a, b: rl.addmm(a, a, b)),
    "baddbmm": ("low", lambda a, b: rl.baddbmm(a[None], a[None], b[None])),
    "addbmm": ("low", lambda a, b: rl.addbmm(a, a[None], b[None])),
    "einsum": ("low", lambda a, b: rl.einsum("ij,jk->ik", a, b)),
    "tensordot": ("low", lambda a, b: rl.tensordot(a, b, 1)),
    "inner": ("low", lambda a, b: rl.inner(a, b)),
    "mv": ("float32", lambda a, b: rl.mv(a, b[0])),
    "dot": ("float32", lambda a, b: rl.dot(a[0], b[0])),
    "outer": ("float32", lambda a, b: rl.outer(a[0], b[0])),
    "exp": ("low", lambda a, b: (a @ b).exp()),
    "softmax": ("low", lambda a, b: (a @ b).softmax(0)),
    "sum": ("low", lambda a, b: (a @ b).sum()),
    "pow": ("low", lambda a, b: (a @ b) ** 2),
    "prod": ("float32", lambda a, b: (a @ b).prod()),
    "trace": ("float32", lambda a, b: rl.trace(a @ b)),
    "cat": ("float32", lambda a, b: rl.cat([a, a @ b])),
    "cat_low": ("low", lambda a, b: rl.cat([a @ b, a @ b])),
    "stack": ("float32", lambda a, b: rl.stack([a, a @ b])),
    "add": ("float32", lambda a, b: a + (a @ b)),
    "float64": ("float64", lambda a, b: a.double() @ b.double()),
    "int": ("int64", lambda a, b: rl.ones(2, 2, dtype=rl.int64) @ rl.ones(2, 2, dtype=rl.int64)),
    "out": ("float32", lambda a, b: rl.mm(a.detach(), b, out=rl.empty(4, 4))),
    "in place": ("float32", lambda a, b: a.detach().clone().addmm_(a.detach(), b)),
    "mse_loss": ("float32", lambda a, b: rl.nn.functional.mse_loss(a @ b, a)),
    "cross_entropy": ("float32", lambda a, b: rl.nn.functional.cross_entropy(a @ b, rl.arange(4))),
    "nll_loss": ("float32", lambda a, b: rl.nn.functional.nll_loss(a @ b, rl.arange(4))),
    "quantile": ("float32", lambda a, b: rl.quantile(a @ b, 0.5)),
    "linear": ("low", lambda a, b: rl.nn.functional.linear(a, b, b[0])),
}


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize("op", RESULTS)
def test_result_dtype(op, dtype):
    expected, run = RESULTS[op]
    with rl.autocast("cpu", dtype=dtype):
        result = run(*pair())
    assert result.dtype == (dtype if expected == "low" else getattr(rl, expected))


def test_values_are_those_of_the_cast_arguments():
    a, b = pair()
    with rl.autocast("cpu"):
        got = a @ b
    assert rl.equal(got, a.bfloat16() @ b.bfloat16())


def test_gradients_come_back_in_the_weights_dtype():
    a, b = pair()
    with rl.autocast("cpu"):
        loss = (a @ b).float().sum()
    loss.backward()
    assert a.grad.dtype == rl.float32
    assert rl.allclose(a.grad, b.sum(1).expand(4, 4), atol=0.05)


def test_state_and_nesting():
    a, b = pair()
    assert not rl.is_autocast_enabled("cpu")
    with rl.autocast("cpu"):
        assert rl.is_autocast_enabled("cpu")
        assert not rl.is_autocast_enabled("cuda")
        assert rl.get_autocast_dtype("cpu") == rl.bfloat16
        with rl.autocast("cpu", enabled=False):
            assert (a @ b).dtype == rl.float32
            with rl.autocast("cpu", dtype=rl.float16):
                assert (a @ b).dtype == rl.float16
            assert not rl.is_autocast_enabled("cpu")
        assert (a @ b).dtype == rl.bfloat16
        with pytest.raises(RuntimeError, match="stop"), rl.autocast("cpu", dtype=rl.float16):
            raise RuntimeError("stop")
        assert rl.get_autocast_dtype("cpu") == rl.bfloat16
    assert not rl.is_autocast_enabled("cpu")
    assert (a @ b).dtype == rl.float32


def test_decorator_and_reuse():
    a, b = pair()
    region = rl.autocast("cpu")

    @region
    def product(depth=0):
        """Doc."""
        return product(depth - 1) if depth else a @ b

    assert product(2).dtype == rl.bfloat16
    assert product.__doc__ == "Doc."
    assert (a @ b).dtype == rl.float32
    with pytest.raises(TypeError, match="decorate"):
        region(3)


def test_weights_are_cast_once_a_region():
    a, b = pair()
    counts = []
    for cache in (True, False):
        with rl.autocast("cpu", cache_enabled=cache):
            first, second = a @ b, a @ b
        nodes = {
            next(iter(n for n, _ in t.grad_fn.next_functions if n is not None))
            for t in (first, second)
        }
        counts.append(len(nodes))
    assert counts == [1, 2]


def test_cache_sees_changed_weights_and_grad_mode():
    a, b = pair()
    with rl.autocast("cpu"):
        with rl.no_grad():
            first = a @ b
            a.add_(1.0)
            second = a @ b
        third = a @ b
    assert not rl.equal(first, second)
    assert rl.equal(second, a.detach().bfloat16() @ b.bfloat16())
    assert third.requires_grad


@pytest.mark.threads
def test_threads_have_their_own():
    a, b = pair()
    seen = []
    with rl.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((a @ b).dtype))
        thread.start()
        thread.join()
    assert seen == [rl.float32]


@pytest.mark.skipif(rl.cuda.is_available(), reason="there is a GPU")
def test_arguments_are_checked():
    with pytest.raises(ValueError, match="device_type"):
        rl.autocast(3)
    with pytest.raises(RuntimeError, match="'tpu'"):
        rl.autocast("tpu")
    with pytest.warns(UserWarning, match="bfloat16 or float16"):
        region = rl.autocast("cpu", dtype=rl.float32)
    with region:
        assert not rl.is_autocast_enabled("cpu")
    with pytest.warns(UserWarning, match="CUDA"):
        rl.autocast("cuda")
    assert amp.is_autocast_available("cpu")
    assert not amp.is_autocast_available("tpu")


def test_old_spellings():
    a, b = pair()
    with pytest.warns(FutureWarning, match="deprecated"):
        region = rl.cpu.amp.autocast()
    with region:
        assert (a @ b).dtype == rl.bfloat16
    with pytest.warns(FutureWarning, match="deprecated"):
        rl.cuda.amp.autocast(enabled=False)


@pytest.mark.parametrize("cast_inputs", [None, rl.float32])
def test_custom_function(cast_inputs):
    seen = []

    class Product(rl.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append(((a @ b).dtype, a.dtype))
            return a @ b

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            product = grad @ b.t()
            seen.append(product.dtype)
            return product.to(a.dtype), (a.t() @ grad).to(b.dtype)

    a, b = rl.randn(3, 3, requires_grad=True), rl.randn(3, 3, requires_grad=True)
    with rl.autocast("cpu"):
        out = Product.apply(a, b)
    out.sum().backward()
    low = rl.bfloat16 if cast_inputs is None else rl.float32
    assert seen == [(low, rl.float32), low]
    assert a.grad is not None


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize("training", [True, False])
def test_every_norm_hands_the_gradient_on(dtype, training):
    """A cast at a norm's end that nobody recorded would cut the graph without a word."""
    nn = rl.nn
    norms = [nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True),
             nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
             nn.LayerNorm((4, 6, 6)), nn.RMSNorm((4, 6, 6))]  # fmt: skip
    for norm in norms:
        norm.train(training)
        conv = nn.Conv2d(3, 4, 3)
        with rl.autocast("cpu", dtype=dtype):
            out = norm(conv(rl.randn(2, 3, 8, 8)))
        assert out.requires_grad, norm
        (out.float() * rl.randn(2, 4, 6, 6)).sum().backward()
        for p in (*conv.parameters(), *norm.parameters()):
            assert p.grad is not None and p.grad.isfinite().all(), norm
        assert norm.weight.grad.abs().sum() > 0 and conv.weight.grad.abs().sum() > 0, norm


def test_an_autocast_step_of_every_model_reaches_every_parameter():
    import sys
    from pathlib import Path

    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        from table1_models import TASKS, Training
    finally:
        sys.path.remove(folder)
    for name in TASKS:
        training = Training(rl, name, batch=2, small=True, autocast=rl.bfloat16)
        training.loss().backward()
        for key, p in training.model.named_parameters():
            assert p.grad is not None and p.grad.isfinite().all(), f"{name}: {key}"
