"""Backward beside other threads: the GIL is free, sums are complete, results repeat to the bit."""

import threading

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.threads


def on_threads(functions):
    errors = []

    def guarded(f):
        try:
            f()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def test_python_goes_on_during_backward():
    x = rl.ones(4, requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y * 1.0
    y = y.sum()
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            ticks[0] += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        before = ticks[0]
        y.backward()  # no bytecode between the two reads but this call
        during = ticks[0] - before
    finally:
        done.set()
        ticker.join()
    assert during > 0
    assert x.grad.tolist() == [1.0] * 4


def test_hogwild_loses_nothing():
    steps, threads = 60, 4
    w = rl.zeros(50, 20, dtype=rl.float64, requires_grad=True)
    b = rl.zeros(20, dtype=rl.float64, requires_grad=True)
    inputs = [rl.from_numpy(np.full((8, 50), float(i + 1))) for i in range(threads)]

    def work(x):
        for _ in range(steps):
            (x @ w + b).sum().backward()

    on_threads([lambda x=x: work(x) for x in inputs])
    expected = steps * 8.0 * sum(range(1, threads + 1))
    np.testing.assert_array_equal(w.grad.numpy(), np.full((50, 20), expected))
    np.testing.assert_array_equal(b.grad.numpy(), np.full(20, steps * 8.0 * threads))


def test_hogwild_training_converges():
    rng = np.random.RandomState(0)
    xs = rl.from_numpy(rng.randn(256, 5))
    truth = rl.from_numpy(rng.randn(5, 1))
    ys = xs @ truth
    w = rl.zeros(5, 1, dtype=rl.float64, requires_grad=True)

    def work(seed):
        order = np.random.RandomState(seed)
        for _ in range(300):
            rows = rl.from_numpy(order.randint(0, 256, 32))
            loss = ((xs[rows] @ w - ys[rows]) ** 2).mean()
            (g,) = rl.autograd.grad(loss, w)
            with rl.no_grad():
                w.sub_(g, alpha=0.05)

    on_threads([lambda s=s: work(s) for s in range(4)])
    assert float((w.detach() - truth).abs().max()) < 1e-6


def test_reading_and_clearing_grad_meanwhile():
    w = rl.zeros(16, requires_grad=True)
    done = threading.Event()

    def clear():
        while not done.is_set():
            g = w.grad
            assert g is None or g.shape == w.shape
            w.grad = None

    def work():
        for _ in range(500):
            (w * 2).sum().backward()

    clearer = threading.Thread(target=clear)
    clearer.start()
    try:
        on_threads([work, work])
    finally:
        done.set()
        clearer.join()


def test_own_graphs_are_exact():
    rng = np.random.RandomState(1)
    data = [rl.from_numpy(rng.randn(40, 40)) for _ in range(4)]

    def program(x):
        x = x.clone().requires_grad_()
        y = x
        for _ in range(5):
            y = (y @ x).tanh() + y * 0.5
        (g,) = rl.autograd.grad(y.square().sum(), x)
        return g.numpy()

    alone = [program(x) for x in data]
    found = [None] * len(data)

    def work(i):
        for _ in range(5):
            found[i] = program(data[i])
            assert found[i].tobytes() == alone[i].tobytes()

    on_threads([lambda i=i: work(i) for i in range(len(data))])


def test_one_graph_for_several_threads():
    x = rl.full((8,), 3.0, dtype=rl.float64, requires_grad=True)
    y = x
    for _ in range(30):
        y = (y * x) / x
    loss = (y * x).sum()

    def work():
        for _ in range(20):
            loss.backward(retain_graph=True)

    on_threads([work] * 4)
    np.testing.assert_array_equal(x.grad.numpy(), np.full(8, 6.0 * 80))


def test_one_graph_freed_under_the_others():
    for _ in range(10):
        x = rl.full((8,), 2.0, requires_grad=True)
        y = x
        for _ in range(50):
            y = (y * x).tanh()
        loss, told = y.sum(), []

        def work(loss=loss, told=told):
            try:
                loss.backward()
            except RuntimeError as e:
                told.append(str(e))

        on_threads([work] * 3)
        assert len(told) >= 2 and all("retain_graph" in text for text in told)


def test_a_graph_made_on_several_threads():
    x = rl.full((4,), 2.0, requires_grad=True)
    held = [x]

    def work():
        for _ in range(100):
            held.append(held[-1] * 1.5 - held[-1] * 0.5)

    for _ in range(3):
        on_threads([work])
    held[-1].sum().backward()
    assert x.grad.tolist() == [1.0] * 4


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_come_in_the_same_order(threads):
    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        found = set()
        for _ in range(5):
            rl.manual_seed(7)
            x = rl.randn(1000, requires_grad=True)
            parts = [x * rl.randn(1000) for _ in range(7)]
            y = sum((p.exp() * x for p in parts), x)
            (y.sin().sum() + sum(p.sum() for p in parts)).backward()
            found.add(x.grad.numpy().tobytes())
        assert len(found) == 1
    finally:
        rl.set_num_threads(before)
