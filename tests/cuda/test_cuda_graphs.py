"""CUDA graphs: capture and replay, memory, random numbers, optimisers, errors."""

import gc
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

cuda = rl.cuda


def captured(f, warmup=1, **options):
    """A graph of f(), and what f returned while it was captured."""
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(warmup):
            f()
    cuda.current_stream().wait_stream(side)
    g = cuda.CUDAGraph()
    with cuda.graph(g, **options):
        out = f()
    return g, out


def test_a_replay_reads_the_inputs_anew():
    x = rl.arange(1000.0, device="cuda")
    g, y = captured(lambda: (x * 2 + 1).relu().sum(0, keepdim=True))
    for k in range(3):
        x.copy_(rl.full((1000,), float(k)))
        g.replay()
        assert y.item() == 1000 * (2 * k + 1)


def test_nothing_runs_while_capturing():
    x = rl.zeros(4, device="cuda")
    g = cuda.CUDAGraph()
    assert not cuda.is_current_stream_capturing()
    with cuda.graph(g):
        assert cuda.is_current_stream_capturing()
        x += 1
    assert not cuda.is_current_stream_capturing()
    assert x.tolist() == [0] * 4
    g.replay()
    g.replay()
    assert x.tolist() == [2] * 4


def test_a_long_chain_reuses_memory_inside_the_graph():
    x = rl.rand(1 << 20, device="cuda")

    def chain():
        y = x
        for _ in range(50):
            y = y * 1.0001 + 0.1
        return y

    before = cuda.memory_reserved()
    g, y = captured(chain)
    assert cuda.memory_reserved() - before < 40 * 4 * 2**20
    g.replay()
    want = x.cpu().numpy().astype(np.float64)
    for _ in range(50):
        want = want * 1.0001 + 0.1
    np.testing.assert_allclose(y.cpu().numpy(), want, rtol=1e-5)


def test_memory_outside_is_never_that_of_the_graph():
    x = rl.ones(1 << 18, device="cuda")
    g, y = captured(lambda: (x + 1) * 2)
    g.replay()
    # Eager tensors of all sizes, filled with other numbers, while the graph lives.
    noise = [rl.full((n,), 7.0, device="cuda") for n in (1 << 18, 1 << 18, 1 << 16, 100, 1 << 20)]
    assert (y == 4).all().item()
    g.replay()
    assert all((t == 7).all().item() for t in noise) and (y == 4).all().item()
    del noise
    noise = [rl.full((1 << 18,), 9.0, device="cuda") for _ in range(8)]
    g.replay()
    assert (y == 4).all().item() and all((t == 9).all().item() for t in noise)


def test_memory_goes_back_with_the_graph():
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    before = cuda.memory_reserved()
    x = rl.rand(1 << 22, device="cuda")
    g, y = captured(lambda x=x: x * 2, warmup=0)
    g.replay()
    assert rl.equal(y.cpu(), x.cpu() * 2)
    del y
    g.reset()
    del x
    cuda.synchronize()
    cuda.empty_cache()
    assert cuda.memory_reserved() <= before
    with pytest.raises(RuntimeError, match="nothing was captured"):
        g.replay()


def test_an_output_outlives_its_graph():
    x = rl.ones(1000, device="cuda")
    g, y = captured(lambda: x + 2)
    g.replay()
    del g
    gc.collect()
    other = [rl.zeros(1000, device="cuda") for _ in range(10)]
    assert (y == 3).all().item() and all((t == 0).all().item() for t in other)


def test_graphs_share_a_pool():
    pool = cuda.graph_pool_handle()
    x = rl.ones(1 << 20, device="cuda")
    g1, y = captured(lambda: x + 1, pool=pool)
    g2, z = captured(lambda: y * 3, pool=pool)
    assert g1.pool() == g2.pool() == pool
    x.fill_(4)
    g1.replay()
    g2.replay()
    assert (z == 15).all().item()
    g3, w = captured(lambda: z + 1, pool=g1.pool())
    g3.replay()
    assert (w == 16).all().item()


def test_random_numbers_are_new_in_every_replay_and_those_of_the_program():
    def draw():
        return [
            rl.rand(1000, device="cuda"),
            rl.randn(77, device="cuda", dtype=rl.float64),
            rl.randint(0, 1000, (99,), device="cuda"),
            F.dropout(rl.ones(500, device="cuda"), 0.5),
        ]

    rl.manual_seed(3)
    eager = [[t.cpu() for t in draw()] for _ in range(3)]
    rl.manual_seed(3)
    g, static = captured(draw, warmup=0)
    for want in eager:
        g.replay()
        assert all(rl.equal(s.cpu(), w) for s, w in zip(static, want, strict=True))
    # The program goes on where the replays ended.
    rl.manual_seed(3)
    for _ in range(4):
        want = draw()[0].cpu()
    rl.manual_seed(3)
    for _ in range(3):
        g.replay()
    assert rl.equal(draw()[0].cpu(), want)


def test_other_generators_must_be_registered():
    own = rl.Generator()
    own.manual_seed(5)
    x = rl.empty(100, device="cuda")
    with pytest.raises(RuntimeError, match="register_generator_state"):
        captured(lambda: x.uniform_(generator=own), warmup=0)
    g = cuda.CUDAGraph()
    g.register_generator_state(own)
    with cuda.graph(g):
        x.uniform_(generator=own)
    own.manual_seed(5)
    wants = [rl.empty(100).uniform_(generator=own) for _ in range(2)]
    own.manual_seed(5)
    for want in wants:
        g.replay()
        assert rl.equal(x.cpu(), want)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (lambda x: x.sum().item(), "not possible while a CUDA graph is captured"),
        (lambda x: x.cpu(), "not possible while a CUDA graph is captured"),
        (lambda x: bool(x[0] > 1), "not possible while a CUDA graph is captured"),
        (lambda x: cuda.synchronize(), "synchronize: not possible"),
        (lambda x: cuda.current_stream().synchronize(), "being captured"),
        (lambda x: x.nonzero(), "not possible while a CUDA graph is captured"),
        (lambda x: x.copy_(rl.ones(100)), "pinned memory"),
    ],
)
def test_what_cannot_be_captured_raises_and_the_program_goes_on(action, text):
    x = rl.ones(100, device="cuda")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=text), cuda.graph(cuda.CUDAGraph()):
            action(x)
        assert not cuda.is_current_stream_capturing()
    g, y = captured(lambda: x + 1)
    g.replay()
    assert (y == 2).all().item()


def test_the_default_stream_is_refused():
    g = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="default stream"):
        g.capture_begin()
    with pytest.raises(RuntimeError, match="capture_error_mode"):
        g.capture_begin(capture_error_mode="wrong")
    with pytest.raises(RuntimeError, match="nothing"):
        g.capture_end()


def test_pinned_memory_is_read_by_every_replay():
    host = rl.ones(100).pin_memory()
    x = rl.empty(100, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        x.copy_(host, non_blocking=True)
    for value in (5.0, 6.0):
        host.fill_(value)
        g.replay()
        assert (x == value).all().item()


def test_numbers_made_inside_are_constants():
    g, y = captured(lambda: rl.tensor(3.0, device="cuda") + rl.tensor([1.0, 2.0], device="cuda")[1])
    for _ in range(2):
        g.replay()
        assert y.item() == 5


def test_streams_may_fork_inside_a_capture():
    x = rl.ones(1 << 16, device="cuda")
    side = cuda.Stream()

    def forked():
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            a = (x * 2).sum()
        b = (x * 3).sum()
        cuda.current_stream().wait_stream(side)
        return a + b

    g, y = captured(forked)
    for k in (1.0, 2.0):
        x.fill_(k)
        g.replay()
        assert y.item() == 5 * k * (1 << 16)


def test_a_bad_index_in_a_replay_is_reported():
    table = rl.arange(10.0, device="cuda")
    index = rl.tensor([1, 2], device="cuda")
    g, y = captured(lambda: table[index])
    g.replay()
    assert y.tolist() == [1, 2]
    index.copy_(rl.tensor([3, 77]))
    g.replay()
    with pytest.raises(IndexError, match="77"):
        cuda.synchronize()
    index.copy_(rl.tensor([3, 4]))
    g.replay()
    assert y.tolist() == [3, 4]


def test_another_thread_may_work_meanwhile():
    stop, failed = threading.Event(), []

    def work():
        try:
            while not stop.is_set():
                t = rl.rand(100_000, device="cuda")
                (t * 2).sum()
        except Exception as error:
            failed.append(error)

    other = threading.Thread(target=work)
    other.start()
    try:
        x = rl.ones(1000, device="cuda")
        for _ in range(5):
            g, y = captured(lambda: (x + 1).sum(), capture_error_mode="thread_local")
            g.replay()
            assert y.item() == 2000
    finally:
        stop.set()
        other.join()
    assert not failed


# ---- training ----


def net():
    rl.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 8 * 8, 10),
    ).cuda()  # fmt: skip


OPTIMIZERS = {
    "sgd": lambda p: rl.optim.SGD(p, lr=0.05),
    "momentum": lambda p: rl.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: rl.optim.Adam(p, lr=1e-3),
    "adam capturable": lambda p: rl.optim.Adam(p, lr=1e-3, capturable=True, amsgrad=True),
    "adamw fused": lambda p: rl.optim.AdamW(p, lr=1e-3, fused=True),
    "nadam": lambda p: rl.optim.NAdam(p, lr=1e-3),
    "radam": lambda p: rl.optim.RAdam(p, lr=1e-3),
    "adamax": lambda p: rl.optim.Adamax(p, lr=1e-3, capturable=True),
    "adagrad": lambda p: rl.optim.Adagrad(p, lr=1e-2, lr_decay=0.1),
    "adadelta": lambda p: rl.optim.Adadelta(p),
    "rmsprop": lambda p: rl.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "rprop": lambda p: rl.optim.Rprop(p, lr=1e-3),
    "asgd": lambda p: rl.optim.ASGD(p, lr=1e-2, t0=3),
}


@pytest.mark.parametrize("warmup", [0, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_captured_training_step_trains_as_the_program_does(name, warmup):
    rl.manual_seed(1)
    batches = [(rl.randn(16, 3, 16, 16), rl.randint(0, 10, (16,))) for _ in range(8)]
    results = []
    for graphed in (False, True):
        model = net()
        opt = OPTIMIZERS[name](model.parameters())
        x, y = (t.cuda() for t in batches[0])

        def step(model=model, opt=opt, x=x, y=y):
            opt.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss

        losses = []
        for a, b in batches[:warmup]:
            x.copy_(a)
            y.copy_(b)
            losses.append(step().item())
        if graphed:
            opt.zero_grad(set_to_none=True)
            g, loss = captured(step, warmup=0)
        for a, b in batches[warmup:]:
            x.copy_(a)
            y.copy_(b)
            if graphed:
                g.replay()
                losses.append(loss.item())
            else:
                losses.append(step().item())
        results.append((losses, [p.detach().cpu().numpy() for p in model.parameters()]))
        if graphed and opt.state and "step" in next(iter(opt.state.values())):
            assert all(int(s["step"]) == len(batches) for s in opt.state.values())
        del model, opt, x, y, step
    (want, params), (got, others) = results
    np.testing.assert_allclose(got, want, rtol=2e-3)
    for a, b in zip(params, others, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-4)
    assert got[-1] != got[0]


def test_a_learning_rate_on_the_gpu_is_read_by_every_replay():
    p = rl.nn.Parameter(rl.zeros(10, device="cuda"))
    lr = rl.tensor(0.5, device="cuda")
    opt = rl.optim.SGD([p], lr=lr)
    p.grad = rl.ones(10, device="cuda")
    g, _ = captured(opt.step, warmup=0)
    g.replay()
    lr.fill_(2.0)
    g.replay()
    assert (p == -2.5).all().item()


def test_an_eager_step_with_a_learning_rate_on_the_gpu_waits_for_nothing():
    p = rl.nn.Parameter(rl.zeros(10, device="cuda"))
    opt = rl.optim.Adam([p], lr=rl.tensor(0.1, device="cuda"), capturable=True)
    p.grad = rl.ones(10, device="cuda")
    opt.step()
    cuda.set_sync_debug_mode("error")
    try:
        opt.step()
    finally:
        cuda.set_sync_debug_mode("default")
    q = rl.nn.Parameter(rl.zeros(10))
    q.grad = rl.ones(10)
    other = rl.optim.Adam([q], lr=0.1)
    other.step()
    other.step()
    np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().numpy(), rtol=1e-6)


# ---- make_graphed_callables ----


def test_graphed_module_and_function_train_alike():
    results = []
    for graphed in (False, True):
        rl.manual_seed(0)
        body = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 5)).cuda()

        def scale(x):
            return x * 2 + 1

        x = rl.randn(8, 20, device="cuda")
        if graphed:
            samples = rl.randn(8, 20, device="cuda"), rl.randn(8, 5, device="cuda")
            samples[1].requires_grad_()
            body, scale = cuda.make_graphed_callables((body, scale), ((samples[0],), (samples[1],)))
            del samples
        opt = rl.optim.SGD(body.parameters(), lr=0.1)
        rl.manual_seed(7)
        losses = []
        for _ in range(5):
            x = rl.randn(8, 20, device="cuda")
            opt.zero_grad()
            loss = scale(body(x)).square().mean()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        results.append(losses)
        del body, scale, opt, loss, x
        gc.collect()  # the class of each graphed callable goes after its objects
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_graphed_modules_know_their_mode():
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).cuda()
    x = rl.ones(2, 4, device="cuda")
    cuda.make_graphed_callables(m, (x,))
    a, b = m(x).detach().clone(), m(x).detach().clone()
    assert not rl.equal(a, b)
    m.eval()
    assert rl.equal(m(x), m(x))
    with pytest.raises(ValueError, match="captured for"):
        m.train()(rl.ones(3, 4, device="cuda"))


def test_graphed_callables_and_inputs_without_gradients():
    x = rl.ones(3, device="cuda", requires_grad=True)
    unused = rl.ones(3, device="cuda", requires_grad=True)
    f = cuda.make_graphed_callables(lambda a, b: a * 2, (x, unused), allow_unused_input=True)
    out = f(x, unused)
    out.sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and unused.grad is None
    h = cuda.make_graphed_callables(lambda a: (a + 1, {"k": a * 3}), (rl.ones(3, device="cuda"),))
    first, named = h(rl.full((3,), 2.0, device="cuda"))
    assert first.tolist() == [3] * 3 and named["k"].tolist() == [6] * 3


def test_debug_dump(tmp_path):
    x = rl.ones(10, device="cuda")
    g = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(g):
        y = x + 1
    g.debug_dump(tmp_path / "graph.dot")
    assert "digraph" in (tmp_path / "graph.dot").read_text()
    assert g.raw_cuda_graph()
    g.instantiate()
    g.replay()
    assert (y == 2).all().item()
