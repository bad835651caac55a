"""Backward called inside backward: by a Function, by a hook, deep, on one graph, and failing."""

import gc
import traceback

import pytest

import rushlight as rl


class Again(rl.autograd.Function):
    """The identity; its backward runs backward through a chain of `levels` more of itself."""

    @staticmethod
    def forward(ctx, x, levels, error=None):
        ctx.levels, ctx.error = levels, error
        with rl.enable_grad():
            ctx.inner = x.detach().requires_grad_()
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        if ctx.levels <= 0:
            if ctx.error:
                raise ctx.error
            return g * 2, None, None
        with rl.enable_grad():
            Again.apply(ctx.inner, ctx.levels - 1, ctx.error).sum().backward()
        return g * ctx.inner.grad, None, None


@pytest.mark.parametrize("levels", [1, 47, 48, 49, 200, 1000, 3000])
def test_depth(levels):
    x = rl.ones(2, requires_grad=True)
    Again.apply(x, levels).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("levels", [0, 1, 60, 500])
def test_an_exception_comes_up_as_it_was(levels):
    class Special(Exception):
        pass

    x = rl.ones(2, requires_grad=True)
    error = Special("from below")
    with pytest.raises(Special, match="from below") as caught:
        Again.apply(x, levels, error).sum().backward()
    assert caught.value is error
    lines = [f.line for f in traceback.extract_tb(caught.value.__traceback__)]
    assert "raise ctx.error" in lines
    # Nothing is left behind, and the engine works.
    assert x.grad is None and rl.is_grad_enabled()
    Again.apply(x, levels).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_failing_leaks_nothing():
    if not hasattr(rl, "memory_stats"):
        pytest.skip("memory_stats is Rushlight's own")

    def fail():
        x = rl.ones(1000, requires_grad=True)
        with pytest.raises(ZeroDivisionError):
            (Again.apply(x * 2, 100, ZeroDivisionError()) * x).sum().backward()

    fail()
    gc.collect()
    before = rl.memory_stats()["allocated"]
    for _ in range(5):
        fail()
    gc.collect()
    assert rl.memory_stats()["allocated"] == before


def test_endless_nesting_raises():
    class Endless(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            with rl.enable_grad():
                x = rl.ones(1, requires_grad=True)
                Endless.apply(x).backward()
            return g

    x = rl.ones(1, requires_grad=True)
    with pytest.raises((RuntimeError, RecursionError)):
        Endless.apply(x).backward()
    (x * 2).backward()
    assert x.grad.item() == 2.0


def test_a_hook_walks_its_own_graph():
    x = rl.full((2,), 3.0, requires_grad=True)
    y = x * x
    loss = (y * y).sum()
    calls = []

    def hook(g):
        calls.append(g)
        if len(calls) == 1:
            loss.backward(retain_graph=True)

    y.register_hook(hook)
    loss.backward(retain_graph=True)
    assert len(calls) == 2
    assert x.grad.tolist() == [2 * 4 * 27.0] * 2


def test_a_hook_walks_its_own_graph_on_another_thread_of_the_engine():
    x = rl.full((2,), 3.0, requires_grad=True)
    y = x * x
    loss = (y * y).sum()
    depth = [0]

    def hook(g):
        depth[0] += 1
        if depth[0] < 120:
            loss.backward(retain_graph=True)

    y.register_hook(hook)
    loss.backward(retain_graph=True)
    assert x.grad.tolist() == [120 * 4 * 27.0] * 2


def test_grad_inside_backward():
    class Slope(rl.autograd.Function):
        """x**3 whose gradient is found by differentiating the forward anew."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with rl.enable_grad():
                x = x.detach().requires_grad_()
                (slope,) = rl.autograd.grad((x**3).sum(), x)
            return g * slope

    x = rl.full((3,), 2.0, requires_grad=True)
    Slope.apply(x).sum().backward()
    assert x.grad.tolist() == [12.0] * 3


def test_modes_inside_deep_levels():
    """The engine's own threads record, or do not, as the calling thread would."""
    seen = []

    class Watch(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.levels = levels
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append(rl.is_grad_enabled())
            if ctx.levels:
                with rl.enable_grad():
                    x = rl.ones(1, requires_grad=True)
                    y = Watch.apply(x, ctx.levels - 1)
                y.backward()
            return g, None

    x = rl.ones(1, requires_grad=True)
    Watch.apply(x, 130).backward()
    assert seen == [False] * 131
    assert rl.is_grad_enabled()
