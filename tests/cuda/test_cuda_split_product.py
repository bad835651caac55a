"""Float32 products by tensor cores (Note [Split products]): how precise, and which products."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.backends.cuda import matmul

pytestmark = pytest.mark.skipif(
    not rl.cuda.is_available() or rl.cuda.get_device_capability() != (9, 0),
    reason="these kernels are for GPUs of capability 9.0",
)


@pytest.fixture(autouse=True)
def default_precision():
    before = matmul.fp32_precision
    matmul.fp32_precision = "none"
    yield
    matmul.fp32_precision = before


def kernels_of(f):
    from rushlight.profiler import ProfilerActivity, profile

    f()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        f()
    return [e.name for e in seen.events() if e.activity == "kernel"]


def is_split(f):
    return any("piece_product" in name for name in kernels_of(f))


def factors(kind, m, n, k, seed=0):
    random = np.random.default_rng(seed)
    a, b = random.standard_normal((m, k)), random.standard_normal((k, n))
    if kind == "positive":
        a, b = np.abs(a), np.abs(b)
    elif kind == "far apart":
        a, b = (
            a * 2.0 ** random.integers(-40, 40, a.shape),
            b * 2.0 ** random.integers(-40, 40, b.shape),
        )
    elif kind == "tiny":  # a has no more than seventeen bits left
        a, b = a * 1e-40, b * 1e30
    return a.astype(np.float32), b.astype(np.float32)


def worst_error(got, a, b):
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    sizes = np.abs(wide_a) @ np.abs(wide_b)
    return np.max(np.abs(got.cpu().numpy().astype(np.float64) - wide_a @ wide_b) / sizes)


@pytest.mark.parametrize("kind", ["normal", "positive", "far apart", "tiny"])
@pytest.mark.parametrize("k", [256, 1024, 8192])
def test_errors_are_those_of_float32(kind, k):
    a, b = factors(kind, 1024, 2048, k)
    x, y = rl.tensor(a, device="cuda"), rl.tensor(b, device="cuda")
    assert is_split(lambda: x @ y)
    error = worst_error(x @ y, a, b)
    matmul.fp32_precision = "ieee"
    assert not is_split(lambda: x @ y)
    # What is cut off in a sum of sixteen products counts where a few of them are all of it.
    assert error <= max((3 if kind == "far apart" else 1.5) * worst_error(x @ y, a, b), 2**-22)


@pytest.mark.parametrize("left", ["rows", "columns"])
@pytest.mark.parametrize("right", ["rows", "columns"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(2048, 1536, 512), (2052, 1540, 516), (1028, 4100, 1028), (252, 380, 32768)]
)
def test_layouts_and_edges(left, right, m, n, k):
    a, b = factors("normal", m, n, k)
    x = rl.tensor(a, device="cuda") if left == "rows" else rl.tensor(a.T.copy(), device="cuda").T
    y = rl.tensor(b, device="cuda") if right == "rows" else rl.tensor(b.T.copy(), device="cuda").T
    assert is_split(lambda: x @ y)
    got = x @ y
    assert worst_error(got, a, b) < 2**-22
    # Into a result whose columns lie end to end.
    out = rl.empty(n, m, device="cuda").T
    rl.mm(x, y, out=out)
    assert worst_error(out, a, b) < 2**-22
    assert all((x @ y).equal(got) for _ in range(3))  # the same bits every time


def test_what_follows_the_sum():
    a, b = factors("normal", 2048, 1024, 512)
    x, w, bias = (
        rl.tensor(a, device="cuda"),
        rl.tensor(b.T.copy(), device="cuda"),
        rl.randn(1024, device="cuda"),
    )
    plain = x @ w.T
    assert is_split(lambda: rl.nn.functional.linear(x, w, bias))
    assert rl.nn.functional.linear(x, w, bias).equal(plain + bias)
    old = rl.randn(2048, 1024, device="cuda")
    want = -2 * old.double() + 0.5 * (x.double() @ w.double().T)
    rl.testing.assert_close(
        rl.addmm(old, x, w.T, beta=-2, alpha=0.5).double(), want, rtol=1e-5, atol=1e-4
    )
    f = rl.compile(
        lambda: rl.nn.functional.relu(rl.nn.functional.linear(x, w, bias)),
        options={"wait_for_code": True},
    )
    for _ in range(3):
        assert f().equal(rl.nn.functional.relu(plain + bias))


def test_batches():
    a, b = rl.randn(4, 1024, 512, device="cuda"), rl.randn(4, 512, 1024, device="cuda")
    assert is_split(lambda: a @ b)
    want = np.matmul(a.cpu().numpy().astype(np.float64), b.cpu().numpy().astype(np.float64))
    np.testing.assert_allclose((a @ b).cpu().numpy(), want, rtol=1e-5, atol=1e-4)


def test_numbers_without_pieces():
    inf, nan = float("inf"), float("nan")
    x, y = rl.ones(2048, 512, device="cuda"), rl.ones(512, 1024, device="cuda")
    x[3, 7], x[200, 8], x[700, 9], y[11, 900] = inf, nan, 3.4e38, -inf
    assert is_split(lambda: x @ y)
    got, matmul.fp32_precision = x @ y, "ieee"
    want = x @ y
    assert got.isnan().equal(want.isnan()) and got.isinf().equal(want.isinf())
    assert (
        got[3, 0] == inf and got[3, 900].isnan() and got[200].isnan().all() and got[0, 900] == -inf
    )
    assert got[700, 0] == 3.4e38


def test_gradients():
    layer = rl.nn.Linear(1024, 2048).cuda()
    x = rl.randn(1536, 1024, device="cuda", requires_grad=True)
    grad = rl.randn(1536, 2048, device="cuda")
    names = kernels_of(lambda: layer(x).backward(grad))
    assert sum("piece_product" in name for name in names) == 3
    layer.zero_grad()
    x.grad = None
    layer(x).backward(grad)
    wide = grad.double()
    rl.testing.assert_close(x.grad.double(), wide @ layer.weight.double(), rtol=1e-5, atol=1e-3)
    rl.testing.assert_close(layer.weight.grad.double(), wide.T @ x.double(), rtol=1e-5, atol=1e-3)


def test_small_and_odd_products_are_left_to_the_library():
    for m, n, k in [(64, 64, 64), (4096, 4096, 30), (4096, 4095, 1023)]:
        x, y = rl.randn(m, k, device="cuda"), rl.randn(k, n, device="cuda")
        assert not is_split(lambda x=x, y=y: x @ y)


@pytest.mark.parametrize("mode", [None, "frozen"])
def test_compiled_steps_equal_eager_ones(mode):
    nn, data = rl.nn, rl.randn(2048, 512, device="cuda")

    def trained(compiled):
        rl.manual_seed(0)
        model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda()
        optimizer = rl.optim.Adam(model.parameters(), lr=1e-3)

        def step():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(data), data)
            loss.backward()
            optimizer.step()
            return loss

        run = rl.compile(step, mode=mode) if compiled else step
        assert is_split(lambda: model(data))
        return [float(run()) for _ in range(6)], [p.detach().cpu() for p in model.parameters()]

    (losses, parameters), (same, others) = trained(False), trained(True)
    assert losses == same and losses[-1] < losses[0]
    assert all(a.equal(b) for a, b in zip(parameters, others, strict=True))
