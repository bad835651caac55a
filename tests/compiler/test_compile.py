"""compile: what a program may do inside a compiled function, and what it is told about it."""

import copy
import gc
import os
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

SMALL = {"least_elements": 1}


def same(a, b):
    return a.dtype == b.dtype and a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def both(f, *args):
    """Results of f as it is and compiled, from copies of the arguments."""
    want = f(*(a.clone() if isinstance(a, rl.Tensor) else a for a in args))
    got = rl.compile(f, options=SMALL)(
        *(a.clone() if isinstance(a, rl.Tensor) else a for a in args)
    )
    return want, got


def test_a_chain_is_one_pass_and_only_results_go_to_memory():
    def f(x, y):
        a = x * 2 + y
        return a.relu().exp() - a

    x, y = rl.randn(100, 50), rl.randn(50)
    told = rl.compiler.explain(f)(x, y)
    (one,) = told.passes
    assert one.fused and [s.name for s in one.steps] == ["mul", "add", "relu", "exp", "sub"]
    assert [s.kept for s in one.steps] == [False] * 4 + [True]
    assert one.shape == (100, 50) and one.steps[0].text == "a = x * 2 + y"
    assert same(told.result, f(x, y))
    assert "5 ops in 1 pass," in str(told) and "the compiled function returns" in str(told)


def peak(f, x):
    before = rl.memory_stats()["allocated"]
    rl.reset_peak_memory_stats()
    result = f(x)
    return rl.memory_stats()["peak"] - before, result


def test_memory_of_a_chain():
    x = rl.randn(1 << 20)

    def f(x):
        for _ in range(8):
            x = x * 1.5 + 1
        return x

    (eager, want), (fused, got) = peak(f, x), peak(rl.compile(f), x)
    assert same(want, got)
    assert fused < 1.1 * x.nbytes < 2 * x.nbytes <= eager


def test_what_waits_is_computed_before_a_result_gets_memory():
    """Else the result could not get the memory, still in a cache, of what that was made of."""
    F, nn = rl.nn.functional, rl.nn
    conv, norm, last = nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.Conv2d(16, 1, 1)
    x = rl.randn(4, 16, 64, 64, requires_grad=True)

    @rl.no_grad()
    def pooled(x):
        return F.max_pool2d(conv(x) + 1, 3, 1, 1)

    def grad(f):
        y = f(x).sum()
        return peak(lambda y: rl.autograd.grad(y, x)[0], y)

    def normed(x):
        return last(norm(x).clamp(0, 6))

    for fused, eager in [
        (peak(rl.compile(pooled), x), peak(pooled, x)),
        (grad(rl.compile(normed)), grad(normed)),
    ]:
        assert fused[0] < 2.2 * x.nbytes and fused[0] < 1.1 * eager[0]
        assert same(eager[1], fused[1])


def test_what_nobody_holds_is_not_computed():
    def f(x):
        (x * 3).exp()
        return x + 1

    told = rl.compiler.explain(f)(rl.randn(5000))
    assert [s.name for s in told.flushes[0].dropped] == ["mul", "exp"]
    assert len(told.passes) == 1


class TestPrograms:
    """Programs that other compilers break, freeze or refuse."""

    x = rl.randn(20, 30)

    def test_branch_on_a_value(self):
        def f(x):
            y = x * 2
            return y + 1 if y.sum() > 0 else y - 1

        for x in (self.x.abs(), -self.x.abs()):
            assert same(*both(f, x))

    def test_item_and_print(self, capsys):
        def f(x):
            y = x * 2
            print(y[0, 0].item(), y.shape)
            return y + y[0, 0].item()

        assert same(*both(f, self.x))
        first, second = capsys.readouterr().out.splitlines()
        assert first == second

    def test_list_global_and_closure(self):
        seen, scale = [], [2.0]

        @rl.compile(options=SMALL)
        def f(x):
            y = x * scale[0]
            seen.append(y)
            return y + 1

        a = f(self.x)
        scale[0] = 5.0
        b = f(self.x)
        assert same(a, self.x * 2 + 1) and same(b, self.x * 5.0 + 1)
        assert same(seen[0], self.x * 2) and same(seen[1], self.x * 5.0)

    def test_kept_outputs_stay(self):
        f = rl.compile(lambda x, k: (x * k).tanh(), options=SMALL)
        outs = [f(self.x, k) for k in range(5)]
        for k, out in enumerate(outs):
            assert same(out, (self.x * k).tanh())

    def test_inputs_that_are_written_to(self):
        def f(x):
            y = x * 2
            x.add_(1)
            z = y + x
            x.zero_()
            return y, z, x + 0

        for a, b in zip(*both(f, self.x), strict=True):
            assert same(a, b)

    def test_writes_through_views_and_data(self):
        def f(x):
            y = x.exp()
            x[2:5].mul_(3)
            z = x + 1
            x.data = rl.ones(20, 30)
            w = x * 4
            x.t_()
            return y, z, w, x * 1

        for a, b in zip(*both(f, self.x), strict=True):
            assert a.shape == b.shape and same(a, b)

    def test_writes_that_only_numpy_sees(self):
        def f(x):
            view = x.numpy()
            y = x * 2
            view[:] = 7
            return y, x + 1

        for a, b in zip(*both(f, self.x), strict=True):
            assert same(a, b)

        def late(x):
            y = x * 2
            x.numpy()[:] = 7
            return y

        assert same(*both(late, self.x))

    def test_in_place_on_pending_results(self):
        def f(x):
            y = x * 2
            before = y + 1
            y += x
            y.relu_().mul_(3)
            return before, y

        for a, b in zip(*both(f, self.x), strict=True):
            assert same(a, b)
        told = rl.compiler.explain(f, options=SMALL)(self.x)
        assert len(told.flushes) == 1, str(told)

    def test_in_place_on_saved_values_raises_as_it_does(self):
        def f(x):
            y = x.requires_grad_().exp()
            y.mul_(2)
            y.sum().backward()

        for g in (f, rl.compile(f, options=SMALL)):
            with pytest.raises(RuntimeError, match="exp"):
                g(self.x.clone())

    def test_new_shapes_and_dtypes(self):
        f = rl.compile(lambda x: (x * 2 + 1).relu(), options=SMALL)
        for n in range(1, 60):
            x = rl.randn(n, n + 1)
            assert same(f(x), (x * 2 + 1).relu())
        for dtype in (rl.float64, rl.int32, rl.int64):
            x = rl.arange(-50, 50).to(dtype)
            assert same(f(x), (x * 2 + 1).relu())

    def test_exceptions_leave_everything_usable(self):
        kept = []

        @rl.compile(options=SMALL)
        def f(x):
            kept.append(x * 2)
            return kept[0] + rl.ones(3)

        with pytest.raises(RuntimeError, match="add"):
            f(self.x)
        assert not rl._C._is_deferring()
        assert same(kept[0], self.x * 2)

    def test_aliased_inputs(self):
        def f(x, y):
            z = x + y
            y.mul_(2)
            return z, x + y

        x = self.x.clone()
        want = f(x, x)
        x = self.x.clone()
        for a, b in zip(want, rl.compile(f, options=SMALL)(x, x), strict=True):
            assert same(a, b)

    def test_random_numbers_follow_the_seed(self):
        def f(x):
            return nn.functional.dropout(x * 2, 0.5) + rl.rand(20, 30)

        rl.manual_seed(3)
        want = f(self.x), f(self.x)
        rl.manual_seed(3)
        g = rl.compile(f, options=SMALL)
        for a, b in zip(want, (g(self.x), g(self.x)), strict=True):
            assert same(a, b)

    def test_data_dependent_shapes(self):
        assert same(*both(lambda x: (x * 2)[x > 0] + 1, self.x))
        assert same(*both(lambda x: rl.nonzero((x * 2).relu()) * 3, self.x))

    def test_integer_division_by_zero_raises_at_its_line(self):
        f = rl.compile(lambda x: (x * 2) // (x * 0), options=SMALL)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f(rl.arange(10))

    def test_disabled_parts(self):
        @rl.compiler.disable
        def part(x):
            assert not rl._C._is_deferring()
            return x * 3

        f = rl.compile(lambda x: part(x + 1) - 2, options=SMALL)
        assert same(f(self.x), (self.x + 1) * 3 - 2)

    def test_stance(self):
        f = rl.compile(lambda x: rl._C._is_deferring())
        assert f(0)
        with rl.compiler.set_stance("force_eager"):
            assert not f(0)
        assert f(0)


class TestThreadsAndProcesses:
    @pytest.mark.threads
    def test_pending_results_in_other_threads(self):
        got = {}

        @rl.compile(options=SMALL)
        def f(x):
            y = (x * 2).exp()
            z = y + 1

            def other():
                got["sum"] = (y + z).sum().item()

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return y, z

        x = rl.randn(300, 20)
        y, z = f(x)
        assert same(y, (x * 2).exp()) and got["sum"] == (y + z).sum().item()

    @pytest.mark.threads
    def test_many_threads(self):
        x, faults = rl.randn(64, 64), []
        f = rl.compile(lambda x, k: (x * k + 1).tanh() - x, options=SMALL)

        def work(k):
            for _ in range(50):
                if not same(f(x, k), (x * k + 1).tanh() - x):
                    faults.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not faults

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_fork(self):
        @rl.compile(options=SMALL)
        def f(x):
            y = x * 2
            child = os.fork()
            if child == 0:
                os._exit(0 if bool((y == x + x).all()) else 3)
            return y, os.waitpid(child, 0)[1]

        y, status = f(rl.randn(50, 50))
        assert status == 0 and y.shape == (50, 50)

    def test_nothing_is_kept(self):
        f = rl.compile(lambda x: (x * 2 + 1).exp(), options=SMALL)
        x = rl.randn(1000)
        f(x)
        gc.collect()
        before = rl.memory_stats()["allocated"]
        for _ in range(20):
            f(x)
        assert rl.memory_stats()["allocated"] == before


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.up, self.down = nn.Linear(8 * 64, 128), nn.Linear(128, 10)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        x = nn.functional.silu(self.norm(self.conv(x))) * 0.5
        h = self.up(x.flatten(1))
        return self.down(self.drop(nn.functional.gelu(h) * rl.sigmoid(h)))


def train(make, steps=3):
    rl.manual_seed(0)
    net = Net()
    model = make(net)
    optimizer = rl.optim.AdamW(net.parameters(), lr=1e-2)
    x, y = rl.randn(16, 3, 8, 8), rl.randint(0, 10, (16,))
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *net.state_dict().values()]


def compiled_in_place(net):
    net.compile(options=SMALL)
    return net


class TestModules:
    @pytest.mark.parametrize(
        "make",
        [
            lambda net: rl.compile(net),
            lambda net: rl.compile(net, options=SMALL),
            compiled_in_place,
        ],
        ids=["compile", "every size", "Module.compile"],
    )
    def test_training_gives_the_same_bits(self, make):
        for a, b in zip(train(lambda net: net), train(make), strict=True):
            assert same(a, b)

    def test_a_whole_step_inside(self):
        def step(net, optimizer, x, y):
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def run(step):
            rl.manual_seed(0)
            net = Net()
            optimizer = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            x, y = rl.randn(16, 3, 8, 8), rl.randint(0, 10, (16,))
            return [*(step(net, optimizer, x, y) for _ in range(3)), *net.state_dict().values()]

        for a, b in zip(run(step), run(rl.compile(step, options=SMALL)), strict=True):
            assert same(a, b)

    def test_autocast_checkpoint_and_hooks(self):
        seen = []

        def f(x, w):
            with rl.autocast("cpu", dtype=rl.bfloat16):
                h = (x @ w).relu() * 2
            h = rl.utils.checkpoint.checkpoint(
                lambda h: h.float().tanh() * 3, h, use_reentrant=False
            )
            h.register_hook(lambda g: seen.append(g.sum()))
            return h.sum()

        def gradients(f):
            rl.manual_seed(0)
            x, w = rl.randn(64, 32, requires_grad=True), rl.randn(32, 16, requires_grad=True)
            f(x, w).backward()
            return x.grad, w.grad

        for a, b in zip(gradients(f), gradients(rl.compile(f, options=SMALL)), strict=True):
            assert same(a, b)
        assert len(seen) == 2 and same(*seen)

    def test_vmap_and_grad(self):
        def loss(w, x):
            return ((x * w).tanh() * 2).sum()

        def gradients(w, x):
            return rl.func.vmap(rl.func.grad(loss), (None, 0))(w, x)

        assert same(*both(gradients, rl.randn(5), rl.randn(7, 5)))

    def test_pickle_and_copy(self):
        net = compiled_in_place(Net().eval())
        x = rl.randn(2, 3, 8, 8)
        want = net(x)
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            assert same(other(x), want)
            assert other.forward.module is other
        wrapped = rl.compile(Net().eval())
        assert same(copy.deepcopy(wrapped)(x), wrapped(x))
        assert same(pickle.loads(pickle.dumps(wrapped))(x), wrapped(x))


class TestArguments:
    def test_refused(self):
        for bad, error in [
            ({"mode": "fast"}, ValueError),
            ({"options": {"least_elements": -1}}, ValueError),
            ({"mode": "default", "options": {}}, RuntimeError),
        ]:
            with pytest.raises(error):
                rl.compile(lambda: 1, **bad)
        with pytest.raises(TypeError):
            rl.compiler.explain(3)

    def test_accepted(self):
        for good in (
            {"fullgraph": True, "dynamic": False},
            {"mode": "reduce-overhead"},
            {"mode": "max-autotune"},
            {"backend": "eager"},
            {"options": {"triton.cudagraphs": True}},
        ):
            assert rl.compile(lambda x: x * 2, **good)(rl.ones(3)).sum() == 6

    def test_stats(self):
        rl.compiler.reset()
        assert set(rl.compiler.stats().values()) == {0}
        rl.compile(lambda x: (x * 2).exp())(rl.randn(5000))
        told = rl.compiler.stats()
        assert (told["deferred"], told["fused"], told["passes"]) == (2, 2, 1)

    def test_small_results_on_the_host_do_not_wait(self):
        rl.compiler.reset()
        rl.compile(lambda x: (x * 2).exp())(rl.randn(10))
        assert rl.compiler.stats()["deferred"] == 0


def test_more_steps_than_may_wait():
    def f(x):
        for _ in range(150):
            x = x * 0.99 + 0.01
        return x

    x = rl.randn(5000)
    told = rl.compiler.explain(f)(x)
    assert same(told.result, f(x)) and len(told.flushes) == 5


def test_memory_that_cannot_be_had_is_told_and_forgotten():
    f = rl.compile(lambda x: x.expand(1 << 38) * 2 + 1)
    with pytest.raises(MemoryError):
        f(rl.ones(1))
    assert not rl._C._is_deferring()
    x = rl.randn(5000)
    assert same(rl.compile(lambda x: x.exp() * 2)(x), x.exp() * 2)


def test_the_guide_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "compile.md"
    names = {"__name__": "guide"}
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S):
        exec(compile(block, str(page), "exec"), names)
    out = capsys.readouterr().out
    assert "6 ops in 1 pass" in out and "frozen: 1 recording" in out


def test_what_cannot_be_run_at_the_end_leaves_the_settings_of_before():
    def settings():
        now = rl._C._defer(False, 0, False, 0)
        rl._C._defer(*now)
        return now

    before = settings()
    with pytest.raises(MemoryError):
        rl.compile(lambda x: x.expand(1 << 38) * 2, options={"least_elements": 7})(rl.ones(1))
    assert settings() == before


def test_numpy_still_sees_the_same_memory():
    x = rl.compile(lambda x: x * 2)(rl.ones(5000))
    view = x.numpy()
    x.add_(1)
    assert view[0] == 3 and np.shares_memory(view, x.numpy())
