"""mode="frozen": replays give eager's bits, and whatever they could get wrong is noticed."""

import collections
import gc
import time

import pytest
from frozen_calls import bits, frozen, recordings, replays

import rushlight as rl
from rushlight import nn

CALLS = 12  # 1, 2, 3, 4 and 8 run Python, the others are replayed


def agree(f, *make_args, calls=CALLS, expected=7):
    """Calls f and its frozen form with equal arguments; all results have equal bits."""
    g = frozen(f)
    for _ in range(calls):
        args = [make() for make in make_args]
        assert bits(g(*args)) == bits(f(*args))
    if expected is not None:
        assert replays(g) == expected, recordings(g).lines()
    return g


def normal(*shape):
    return lambda: rl.randn(*shape)


class TestReplays:
    def test_calls_1_to_3_and_powers_of_two_run_python(self):
        g = frozen(lambda x: x * 2)
        for i in range(1, 40):
            before = replays(g)
            assert g(rl.ones(3)).tolist() == [2.0] * 3
            assert (replays(g) > before) == (i > 3 and i & (i - 1) != 0), i

    def test_results_are_fresh(self):
        g = frozen(lambda x: (x * 2, x + 1))
        x = rl.ones(4)
        kept = [g(x) for _ in range(10)]
        addresses = {t.data_ptr() for pair in kept for t in pair}
        assert len(addresses) == 20
        kept[4][0].zero_()
        assert bits(g(x)[0]) == bits(x * 2)
        assert all(bits(pair[0]) == bits(x * 2) for i, pair in enumerate(kept) if i != 4)

    def test_a_constant_among_the_results_is_new_each_time(self):
        g = frozen(lambda x: (x + 1, rl.tensor([1.0, 2.0])))
        x = rl.ones(2)
        for _ in range(CALLS):
            _, constant = g(x)
            assert constant.tolist() == [1.0, 2.0]
            constant.zero_()
        assert replays(g) == 7

    def test_structures_of_results(self):
        Pair = collections.namedtuple("Pair", "a b")

        def f(x):
            return {"a": [x + 1, 3, None], "b": Pair(x * 2, "text"), "c": (x,)}

        g = frozen(f)
        for _ in range(CALLS):
            x = rl.randn(3)
            got, want = g(x), f(x)
            assert bits(got["a"][0]) == bits(want["a"][0]) and got["a"][1:] == [3, None]
            assert type(got["b"]).__name__ == "Pair" and got["b"].b == "text"
            assert got["c"][0] is x
        assert replays(g) >= 6

    def test_nothing_is_returned(self):
        total = rl.zeros(3)

        def f(x):
            total.add_(x)

        g = frozen(f)
        for i in range(CALLS):
            assert g(rl.ones(3)) is None
            assert total.tolist() == [i + 1.0] * 3
        assert replays(g) == 7

    @pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
    def test_pytorchs_modes(self, mode):
        g = rl.compile(lambda x: x.exp(), mode=mode)
        for _ in range(6):
            g(rl.ones(2))
        assert replays(g) == 2

    def test_nested_arguments_and_keywords(self):
        def f(batch, *, scale, also=()):
            return batch["x"] * scale + batch["more"][0] + sum(also)

        g = frozen(f)
        for _ in range(CALLS):
            batch = {"x": rl.randn(3), "more": [rl.randn(3)]}
            also = (rl.randn(3), rl.randn(3))
            want = bits(f(batch, scale=3, also=also))
            assert bits(g(batch, scale=3, also=also)) == want
        assert replays(g) == 7

    def test_large_tensors_are_fused_as_well(self):
        def f(x):
            return ((x * 2 + 1).tanh() * x).exp()

        rl.compiler.reset()
        g = agree(f, normal(300, 300))
        assert rl.compiler.stats()["passes"] >= CALLS
        assert rl.compiler.stats()["replayed"] == replays(g) == 7


def mlp():
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 3)
    )


OPTIMIZERS = {
    "sgd": lambda p: rl.optim.SGD(p, lr=0.1),
    "momentum": lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: rl.optim.Adam(p, lr=0.01),
    "adamw": lambda p: rl.optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: rl.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: rl.optim.Adagrad(p, lr=0.01),
}


class TestTraining:
    def train(self, make_optimizer, compiled, steps=CALLS + 2, schedule=True, accumulate=False):
        rl.manual_seed(3)
        model = mlp()
        optimizer = make_optimizer(model.parameters())
        scheduler = rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def step(x, y):
            if not accumulate:
                optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        run = frozen(step) if compiled else step
        losses = []
        for _ in range(steps):
            losses.append(bits(run(rl.randn(5, 6), rl.randint(0, 3, (5,)))))
            if schedule:
                scheduler.step()
        state = [bits(t) for t in model.state_dict().values()]
        state += [bits(p.grad) for p in model.parameters()]
        return losses, state, bits(rl.rand(3)), run

    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_a_step_with_a_schedule(self, name):
        eager = self.train(OPTIMIZERS[name], False)
        got = self.train(OPTIMIZERS[name], True)
        assert got[:3] == eager[:3]
        assert replays(got[3]) >= 6, recordings(got[3]).lines()
        # One recording, whose learning rate is an input.
        assert [row[5] for row in recordings(got[3]).programs()] == [1]

    def test_gradients_that_add_up(self):
        eager = self.train(OPTIMIZERS["sgd"], False, accumulate=True)
        got = self.train(OPTIMIZERS["sgd"], True, accumulate=True)
        assert got[:3] == eager[:3] and replays(got[3]) > 3

    def test_groups_whose_rates_part(self):
        def run(compiled):
            rl.manual_seed(0)
            a, b = nn.Linear(3, 3), nn.Linear(3, 3)
            optimizer = rl.optim.SGD(
                [{"params": a.parameters()}, {"params": b.parameters()}], lr=0.1
            )

            def step(x):
                optimizer.zero_grad()
                b(a(x)).square().sum().backward()
                optimizer.step()

            f = frozen(step) if compiled else step
            for i in range(24):
                f(rl.randn(2, 3))
                optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 0.1 / (i + 1)
                if i > 10:
                    optimizer.param_groups[1]["lr"] *= 0.5
            return [bits(p) for m in (a, b) for p in m.parameters()]

        assert run(True) == run(False)

    def test_gradients_through_a_frozen_forward(self):
        rl.manual_seed(0)
        model, twin = mlp(), mlp()
        twin.load_state_dict(model.state_dict())
        compiled = frozen(model)
        for i in range(CALLS):
            x = rl.randn(4, 6)
            inputs = [x.clone().requires_grad_() for _ in range(2)]
            for m, given in zip((compiled, twin), inputs, strict=True):
                rl.manual_seed(i)
                m(given).square().sum().backward()
            assert bits(inputs[0].grad) == bits(inputs[1].grad)
            for p, q in zip(model.parameters(), twin.parameters(), strict=True):
                assert bits(p.grad) == bits(q.grad)
        assert replays(compiled) > 4, recordings(compiled).lines()

    def test_autograd_grad_and_second_derivatives(self):
        def f(x):
            (g,) = rl.autograd.grad(x.pow(3).sum(), x, create_graph=True)
            (h,) = rl.autograd.grad(g.sin().sum(), x)
            return g + h

        agree(f, lambda: rl.randn(4).requires_grad_())

    def test_grads_are_read_written_and_dropped(self):
        w = rl.randn(3).requires_grad_()

        def f(x):
            w.grad = None
            (w * x).sum().backward()
            first = w.grad
            w.grad = first * 2
            (w * x * x).sum().backward()
            return w.grad.clone()

        agree(f, normal(3), expected=None)
        g = frozen(f)
        for _ in range(CALLS):
            x = rl.randn(3)
            assert bits(g(x)) == bits(x * 2 + x * x)
        assert replays(g) >= 6

    def test_no_grad_and_autocast_inside(self):
        model = nn.Linear(4, 4)

        def f(x):
            with rl.no_grad():
                y = model(x)
            with rl.autocast("cpu", dtype=rl.bfloat16):
                z = model(x)
            assert not y.requires_grad and z.dtype == rl.bfloat16
            return z.float() + y

        agree(f, normal(2, 4))


def test_callbacks_of_the_garbage_collector_are_not_the_functions():
    """Some packages read the clock there, which a replay would leave out."""
    calls = []

    def callback(phase, info):
        calls.append(time.perf_counter())

    gc.callbacks.append(callback)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        f = frozen(lambda x: [(x * i).sum() for i in range(9)])
        for _ in range(CALLS):
            f(rl.ones(4))
        assert calls and gc.isenabled()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)
    assert replays(f) > 0, recordings(f).lines()
