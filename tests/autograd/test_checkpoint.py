"""utils.checkpoint: the same gradients with less memory."""

import contextlib
import gc
import importlib
import threading

import pytest

import rushlight as rl
from rushlight.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

both = pytest.mark.parametrize("use_reentrant", [True, False])


def test_importable():
    assert importlib.import_module("rushlight.utils.checkpoint").checkpoint is checkpoint
    assert rl.utils.checkpoint.checkpoint is checkpoint


def leaf(*shape, seed=0):
    rl.manual_seed(seed)
    return rl.randn(*shape, dtype=rl.float64).requires_grad_()


def gradients(run, *inputs):
    for x in inputs:
        x.grad = None
    out = run(*inputs)
    outs = out if isinstance(out, tuple) else (out,)
    sum((o * (i + 1)).sum() for i, o in enumerate(outs) if o.requires_grad).backward()
    return [None if x.grad is None else x.grad.tolist() for x in inputs]


def block(x, w):
    return (x @ w).tanh().exp() * x.sin()


@both
def test_same_gradients(use_reentrant):
    x, w = leaf(4, 4), leaf(4, 4, seed=1)
    plain = gradients(block, x, w)
    assert (
        gradients(lambda x, w: checkpoint(block, x, w, use_reentrant=use_reentrant), x, w) == plain
    )


@both
def test_several_outputs(use_reentrant):
    def f(x):
        return x.sin(), x.exp() * 2, x.detach()

    x = leaf(5)
    plain = gradients(f, x)
    assert gradients(lambda x: checkpoint(f, x, use_reentrant=use_reentrant), x) == plain


@both
def test_random_numbers_are_replayed(use_reentrant):
    def f(x):
        mask = rl.bernoulli(rl.full_like(x, 0.5))
        return (x * mask).sin() * rl.rand(x.shape, dtype=x.dtype)

    x = leaf(50)
    rl.manual_seed(3)
    plain = gradients(f, x)
    after = rl.rand(1).item()
    rl.manual_seed(3)
    assert gradients(lambda x: checkpoint(f, x, use_reentrant=use_reentrant), x) == plain
    assert rl.rand(1).item() == after  # the generator goes on where forward left it


@both
def test_random_numbers_drawn_anew(use_reentrant):
    drawn = []

    def f(x):
        drawn.append(rl.rand(1).item())
        return x.exp()

    x = leaf(2)
    gradients(lambda x: checkpoint(f, x, use_reentrant=use_reentrant, preserve_rng_state=False), x)
    assert drawn[0] != drawn[1]
    gradients(lambda x: checkpoint(f, x, use_reentrant=use_reentrant), x)
    assert drawn[2] == drawn[3]


@both
def test_arguments_that_are_no_tensors(use_reentrant):
    def f(scale, x, options):
        return x.exp() * scale * options["k"]

    x = leaf(3)
    plain = gradients(lambda x: f(2.0, x, {"k": 3}), x)
    got = gradients(lambda x: checkpoint(f, 2.0, x, {"k": 3}, use_reentrant=use_reentrant), x)
    assert got == plain


def test_keyword_arguments():
    def f(x, *, scale, other=None):
        return x.exp() * scale * other

    x, y = leaf(3), leaf(3, seed=1)
    plain = gradients(lambda x, y: f(x, scale=2, other=y), x, y)
    got = gradients(lambda x, y: checkpoint(f, x, use_reentrant=False, scale=2, other=y), x, y)
    assert got == plain
    with pytest.raises(ValueError, match="scale"):
        checkpoint(f, x, use_reentrant=True, scale=2)


def test_closures_and_nested_structures():
    w = leaf(3)

    def f(pair):
        return {"out": (pair[0] * w).exp()}

    x = leaf(3, seed=1)
    plain = gradients(lambda x, w: f((x, 1))["out"], x, w)
    got = gradients(lambda x, w: checkpoint(f, (x, 1), use_reentrant=False)["out"], x, w)
    assert got == plain


@both
def test_under_no_grad(use_reentrant):
    x = leaf(3)
    with rl.no_grad():
        y = checkpoint(lambda x: x.exp(), x, use_reentrant=use_reentrant)
    assert not y.requires_grad and y.tolist() == x.exp().tolist()


def test_inputs_without_gradient():
    w = leaf(3)
    x = rl.ones(3, dtype=rl.float64)
    y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False)
    y.sum().backward()
    assert w.grad is not None
    with pytest.warns(UserWarning, match="requires.grad|requires a gradient"):
        y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=True)
    assert not y.requires_grad


def test_grad_and_inputs_work_without_reentry_only():
    x = leaf(3)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=False)
    (g,) = rl.autograd.grad(y.sum(), x)
    assert g.tolist() == x.exp().tolist()
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="use_reentrant"):
        rl.autograd.grad(y.sum(), x)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="use_reentrant"):
        y.sum().backward(inputs=[x])


def test_second_derivatives():
    x = leaf(3)

    def f(x):
        return (x.sin() * x).exp()

    def second(run):
        (g,) = rl.autograd.grad(run(x).sum(), x, create_graph=True)
        (gg,) = rl.autograd.grad(g.sum(), x)
        return gg.tolist()

    assert second(lambda x: checkpoint(f, x, use_reentrant=False)) == second(f)


def test_retain_graph():
    runs = []

    def f(x):
        runs.append(1)
        return x.exp().sin()

    x = leaf(3)
    y = checkpoint(f, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert len(runs) == 3
    once = gradients(lambda x: x.exp().sin(), leaf(3))[0]
    assert x.grad.tolist() == [2 * g for g in once]


def test_function_runs_once_a_backward():
    runs = []

    def f(x):
        runs.append(1)
        return x.exp().sin().exp()

    x = leaf(3)
    checkpoint(f, x, use_reentrant=False).sum().backward()
    assert len(runs) == 2


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("outer", [True, False])
def test_nested(outer, inner):
    def f(x):
        return (x.sin() * x).exp()

    def g(x):
        return checkpoint(f, x * 2, use_reentrant=inner).cos() * x

    def h(x):
        return checkpoint(f, checkpoint(g, x, use_reentrant=inner), use_reentrant=inner)

    x = leaf(4)
    plain = gradients(lambda x: f(f(x * 2).cos() * x), x)
    assert gradients(lambda x: checkpoint(h, x, use_reentrant=outer), x) == plain


def test_two_checkpoints_of_one_function():
    def f(x):
        return x.sin().exp()

    x = leaf(4)
    plain = gradients(lambda x: f(f(x)) + f(x), x)

    def run(x):
        def c(x):
            return checkpoint(f, x, use_reentrant=False)

        return c(c(x)) + c(x)

    assert gradients(run, x) == plain


def test_early_stop():
    ends = []

    def f(x):
        y = x.exp().sin()
        ends.append(1)
        return y

    x = leaf(3)
    checkpoint(f, x, use_reentrant=False).sum().backward()
    assert len(ends) == 1
    with set_checkpoint_early_stop(False):
        checkpoint(f, x, use_reentrant=False).sum().backward()
    assert len(ends) == 3
    checkpoint(f, x, use_reentrant=False, early_stop=False).sum().backward()
    assert len(ends) == 5


def test_contexts():
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(name)
        yield

    x = leaf(3)
    y = checkpoint(
        lambda x: x.exp(),
        x,
        use_reentrant=False,
        context_fn=lambda: (noted("first"), noted("second")),
    )
    assert log == ["first"]
    y.sum().backward()
    assert log == ["first", "second"]


def runs_differently(change, **options):
    runs = []

    def f(x):
        runs.append(1)
        return change(x, len(runs) == 1)

    checkpoint(f, leaf(3), use_reentrant=False, **options).sum().backward()


def test_another_number_of_tensors():
    with pytest.raises(CheckpointError, match="number of tensors"):
        runs_differently(lambda x, first: x.sin().exp() if first else x.sin())


def test_other_tensors():
    def change(x, first):
        return x.sin().exp() if first else x.sin()[:2].exp()

    with pytest.raises(CheckpointError, match="meta|differ"):
        runs_differently(change)
    with pytest.raises(CheckpointError, match="test_checkpoint.py"):
        runs_differently(change, debug=True)
    with set_checkpoint_debug_enabled(True), pytest.raises(CheckpointError, match="test_checkp"):
        runs_differently(change)
    with pytest.raises(RuntimeError) as info:
        runs_differently(change, determinism_check="none")
    assert not isinstance(info.value, CheckpointError)


def test_bad_arguments():
    x = leaf(3)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(rl.exp, x, use_reentrant=False, determinism_check="some")
    with pytest.raises(ValueError, match="use_reentrant"):
        checkpoint(rl.exp, x, use_reentrant=True, debug=True)
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(rl.exp, x)
    y = checkpoint(lambda x: x.detach(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of (the )?output"):
        y.sum().backward()


@both
def test_exceptions_pass_through(use_reentrant):
    runs = []

    def f(x):
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("second run")
        return x.exp()

    y = checkpoint(f, leaf(3), use_reentrant=use_reentrant)
    with pytest.raises(KeyError, match="second run"):
        y.sum().backward()


@both
def test_sequential(use_reentrant):
    functions = [rl.sin, rl.exp, lambda x: x * 2, rl.cos, rl.tanh]

    def plain(x):
        for f in functions:
            x = f(x)
        return x

    x = leaf(4)
    expected = gradients(plain, x)
    for segments in (1, 2, 3, 5):
        got = gradients(
            lambda x, n=segments: checkpoint_sequential(
                functions, n, x, use_reentrant=use_reentrant
            ),
            x,
        )
        assert got == expected


def peak(run):
    """Bytes in use at the end of forward, above what was there."""
    gc.collect()
    before = rl.memory_stats()["allocated"]
    out = run()
    after = rl.memory_stats()["allocated"]
    out.sum().backward()
    return after - before


@pytest.mark.skipif(rl.__name__ != "rushlight", reason="memory_stats is Rushlight's")
@both
def test_memory(use_reentrant):
    n = 10_000

    def f(x):
        for _ in range(10):
            x = x.sin().exp()
        return x

    x = rl.ones(n, requires_grad=True)
    assert peak(lambda: f(x)) > 8 * 4 * n
    assert peak(lambda: checkpoint(f, x, use_reentrant=use_reentrant)) < 3 * 4 * n
    # Nested: neither the inner inputs nor the second graph stay behind.
    both_levels = peak(
        lambda: checkpoint(
            lambda x: checkpoint(f, f(x), use_reentrant=use_reentrant),
            x,
            use_reentrant=use_reentrant,
        )
    )
    assert both_levels < 4 * 4 * n


@both
def test_no_leak(use_reentrant):
    x = rl.ones(1000, requires_grad=True)

    def step():
        y = checkpoint(lambda x: x.exp().sin(), x * 1, use_reentrant=use_reentrant)
        y.sum().backward()
        checkpoint(lambda x: x.exp().sin(), x * 1, use_reentrant=use_reentrant)

    step()
    gc.collect()
    before = rl.memory_stats()["allocated"]
    for _ in range(10):
        step()
    gc.collect()
    assert rl.memory_stats()["allocated"] == before


@pytest.mark.threads
def test_threads():
    errors = []

    def work(seed):
        try:
            x = leaf(10, seed=0)
            for _ in range(20):
                y = checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
                (g,) = rl.autograd.grad(y.sum(), x)
                assert rl.allclose(g, x.cos() * x.sin().exp())
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_second_run_has_the_autocast_of_the_first(reentrant):
    w = rl.randn(4, 4, requires_grad=True)
    x = rl.randn(2, 4, requires_grad=True)
    dtypes = []

    def function(x):
        y = x @ w
        dtypes.append(y.dtype)
        return y.tanh()

    with rl.autocast("cpu", dtype=rl.bfloat16):
        inside = checkpoint(function, x, use_reentrant=reentrant)
    inside.sum().backward()
    outside = checkpoint(function, x, use_reentrant=reentrant)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        outside.sum().backward()
    assert dtypes == [rl.bfloat16, rl.bfloat16, rl.float32, rl.float32]
