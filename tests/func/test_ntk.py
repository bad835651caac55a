"""The empirical neural tangent kernel, by two ways: vjp and jvp of a network nested in three vmaps,
and per-sample Jacobians. What samples share is not repeated for them."""

import pytest

import rushlight as rl
from rushlight import _C, nn
from rushlight.func import functional_call, grad, jacrev, jvp, vjp, vmap

F = nn.functional
OUTS = 10


class CNN(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 3)
        self.conv2 = nn.Conv2d(channels, channels, 3)
        self.conv3 = nn.Conv2d(channels, channels, 3)
        self.fc = nn.Linear(channels * (size - 6) ** 2, OUTS)

    def forward(self, x):
        x = self.conv2(self.conv1(x).relu()).relu()
        return self.fc(self.conv3(x).flatten(1))


def network(dtype, channels=4, size=9):
    rl.manual_seed(0)
    net = CNN(channels, size).to(dtype)
    params = {k: v.detach() for k, v in net.named_parameters()}

    def single(params, x):
        return functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)

    return single, params


def by_contraction(f, params, x1, x2, compute="full"):
    jac1, jac2 = (
        [j.flatten(2) for j in vmap(jacrev(f), (None, 0))(params, x).values()] for x in (x1, x2)
    )
    equation = {"full": "Naf,Mbf->NMab", "trace": "Naf,Maf->NM", "diagonal": "Naf,Maf->NMa"}
    return sum(rl.einsum(equation[compute], a, b) for a, b in zip(jac1, jac2, strict=True))


def kernel_of_pair(f, params):
    """A function of (x1, x2): J(x1) J(x2)^T, column by column."""

    def kernel(x1, x2):
        y, pull = vjp(lambda p: f(p, x1), params)

        def column(v):
            return jvp(lambda p: f(p, x2), (params,), pull(v))[1]

        return vmap(column)(rl.eye(y.numel(), dtype=y.dtype))

    return kernel


def by_products(f, params, x1, x2):
    return vmap(vmap(kernel_of_pair(f, params), (None, 0)), (0, None))(x1, x2)


def by_loops(f, params, x1, x2):
    """One backward pass for each output of each sample."""

    def jacobian(x):
        leaves = {k: v.clone().requires_grad_() for k, v in params.items()}
        rows = []
        for i in range(OUTS):
            grads = rl.autograd.grad(f(leaves, x)[i], list(leaves.values()))
            rows.append(rl.cat([g.flatten() for g in grads]))
        return rl.stack(rows)

    left, right = [jacobian(x) for x in x1], [jacobian(x) for x in x2]
    return rl.stack([rl.stack([a @ b.T for b in right]) for a in left])


def test_equals_loops():
    f, params = network(rl.float64)
    x1, x2 = rl.randn(3, 3, 9, 9, dtype=rl.float64), rl.randn(2, 3, 9, 9, dtype=rl.float64)
    expected = by_loops(f, params, x1, x2)
    _C._vmap_sample_loops()
    for got in (by_products(f, params, x1, x2), by_contraction(f, params, x1, x2)):
        rl.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    assert _C._vmap_sample_loops() == {}
    for compute, equation in (("trace", "NMKK->NM"), ("diagonal", "NMKK->NMK")):
        got = by_contraction(f, params, x1, x2, compute)
        rl.testing.assert_close(got, rl.einsum(equation, expected), rtol=1e-10, atol=1e-10)


def test_tangents_with_samples_of_two_levels():
    """x1 and x2 of one level, and inside of it tangents that have its samples and their own."""
    f, params = network(rl.float64)
    x1, x2 = rl.randn(2, 3, 3, 9, 9, dtype=rl.float64).unbind()
    expected = by_loops(f, params, x1, x2)
    got = vmap(kernel_of_pair(f, params))(x1, x2)
    rl.testing.assert_close(got, rl.einsum("NNab->Nab", expected), rtol=1e-10, atol=1e-10)


def test_linear_layer_is_known():
    """f(W, b) = W x + b has the kernel (x1 . x2 + 1) I."""
    params = {"w": rl.randn(4, 6, dtype=rl.float64), "b": rl.randn(4, dtype=rl.float64)}
    x1, x2 = rl.randn(3, 6, dtype=rl.float64), rl.randn(5, 6, dtype=rl.float64)

    def f(p, x):
        return F.linear(x, p["w"], p["b"])

    expected = (x1 @ x2.T + 1)[:, :, None, None] * rl.eye(4, dtype=rl.float64)
    for got in (by_products(f, params, x1, x2), by_contraction(f, params, x1, x2)):
        rl.testing.assert_close(got, expected)


def test_convolution_is_known():
    """f(w) = conv(x, w) has products of patches, between equal channels."""
    params = {"w": rl.randn(2, 3, 2, 2, dtype=rl.float64)}
    x1, x2 = rl.randn(3, 3, 4, 4, dtype=rl.float64), rl.randn(2, 3, 4, 4, dtype=rl.float64)

    def f(p, x):
        return F.conv2d(x, p["w"]).flatten()

    patches = rl.einsum("nfp,mfq->nmpq", F.unfold(x1, 2), F.unfold(x2, 2))
    expected = rl.einsum("oc,nmpq->nmopcq", rl.eye(2, dtype=rl.float64), patches)
    expected = expected.reshape(3, 2, 18, 18)
    for got in (by_products(f, params, x1, x2), by_contraction(f, params, x1, x2)):
        rl.testing.assert_close(got, expected)


def peak_bytes(f):
    f()  # fills caches
    before = rl.memory_stats()["allocated"]
    rl.reset_peak_memory_stats()
    f()
    return rl.memory_stats()["peak"] - before


@pytest.mark.skipif(not hasattr(rl, "memory_stats"), reason="memory_stats is Rushlight's own")
def test_memory():
    """Tangents of each pair and row are the largest tensors there are; gradients of the parameters
    have no samples of x2."""
    channels, size, n1, n2 = 8, 16, 3, 8
    f, params = network(rl.float32, channels, size)
    x1, x2 = rl.randn(n1, 3, size, size), rl.randn(n2, 3, size, size)
    tangents = n1 * n2 * OUTS * channels * (size - 2) ** 2 * 4  # after the first layer
    gradients = n1 * OUTS * sum(p.numel() for p in params.values()) * 4
    assert peak_bytes(lambda: by_products(f, params, x1, x2)) < 4 * tangents + 2 * gradients
    jacobians = (n1 + n2) * OUTS * sum(p.numel() for p in params.values()) * 4
    assert peak_bytes(lambda: by_contraction(f, params, x1, x2)) < 2 * jacobians


def test_work_that_samples_share_is_done_once():
    """What depends on shared inputs alone has no samples, and neither has its gradient."""
    seen = []

    def loss(w, x):
        v = (w * w).sin()
        seen.append(_C._batch_level(v))
        return (v * x).sum()

    w, x = rl.randn(4, dtype=rl.float64), rl.randn(3, 4, dtype=rl.float64)
    got = vmap(grad(loss), (None, 0))(w, x)
    assert seen == [0]
    rl.testing.assert_close(got, x * 2 * w * (w * w).cos())
    assert vmap(grad(lambda w, x: w.sin().sum()), (None, 0))(w, x).shape == (3, 4)


def test_shared_inputs_differentiated_from_outside_too():
    """The gradient for each sample, then of its sum by the same shared tensor, outside."""
    w, x = rl.randn(4, dtype=rl.float64), rl.randn(3, 4, dtype=rl.float64)

    def inner(w, x):
        return (w * x).sin().sum()

    def total(w):
        return vmap(grad(inner), (None, 0))(w, x).square().sum()

    expected = (2 * (x * (w * x).cos()) * -(x * x * (w * x).sin())).sum(0)
    rl.testing.assert_close(grad(total)(w), expected)
    leaf = w.clone().requires_grad_()
    total(leaf).backward()
    rl.testing.assert_close(leaf.grad, expected)


def test_outputs_with_and_without_samples():
    w, x = rl.randn(4, dtype=rl.float64), rl.randn(3, 4, dtype=rl.float64)
    g = rl.randn(3, 4, dtype=rl.float64)

    def f(w, x, g):
        _, pull = vjp(lambda w: (w.sin(), w * x), w)
        return pull((g, x))[0]

    rl.testing.assert_close(vmap(f, (None, 0, 0))(w, x, g), g * w.cos() + x * x)


def test_random_numbers_for_each_sample_of_a_shared_input():
    w, x = rl.ones(1000, dtype=rl.float64), rl.randn(3, dtype=rl.float64)

    def loss(w, x):
        return F.dropout(w, 0.5).sum() * x

    got = vmap(grad(loss), (None, 0), randomness="different")(w, x) / x[:, None]
    assert set(got.flatten().round().tolist()) == {0.0, 2.0}
    assert all(not rl.equal(got[i], got[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    got = vmap(grad(loss), (None, 0), randomness="same")(w, x) / x[:, None]
    rl.testing.assert_close(got[0], got[1])


def test_dropout_for_each_sample():
    """Of a tensor with samples and of one without, whole or by channels."""
    x = rl.ones(3, 2, 50, 4, dtype=rl.float64)
    for drop in (F.dropout, F.dropout1d, F.alpha_dropout):
        run = vmap(lambda x, drop=drop: drop(x, 0.5, True), randomness="different")
        ones = vmap(lambda x, d=drop: x * 0 + d(rl.ones(2, 50, 4), 0.5, True).double(),
                    randomness="different")  # fmt: skip
        for got in (run(x), ones(x)):
            assert got.shape == x.shape and not rl.equal(got[0], got[1])
            assert len(set(got.flatten().tolist())) == 2


def test_custom_function_is_refused():
    class Twice(rl.autograd.Function):
        @staticmethod
        def forward(ctx, w, x):
            return w * x

        @staticmethod
        def backward(ctx, g):
            return g, g

    with pytest.raises(NotImplementedError, match="inside vmap"):
        vmap(grad(lambda w, x: Twice.apply(w, x).sum()), (None, 0))(rl.ones(2), rl.ones(3, 2))
