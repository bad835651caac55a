"""What compiled functions meet in programs: a test each, for both modes."""

import copy
import gc
import os
import pickle
import signal
import threading
import weakref

import pytest
from frozen_calls import bits, reasons, recordings, replays

import rushlight as rl
from rushlight import nn
from rushlight.utils.checkpoint import checkpoint

CALLS = 12


@pytest.fixture(params=["default", "frozen"])
def mode(request):
    return request.param


def agree(mode, f, make, calls=CALLS, replayed=True):
    """Bits of results and of gradients of the first argument; all equal to eager's."""
    g = rl.compile(f, mode=mode)
    for i in range(calls):
        rl.manual_seed(i)
        args = make()
        rl.manual_seed(i)
        twin = make()
        found = []
        for run, given in ((g, args), (f, twin)):
            rl.manual_seed(100 + i)
            y = run(*given)
            if y.requires_grad:
                y.sum().backward()
            found.append([bits(y), *(bits(t.grad) for t in given if t.grad is not None)])
        assert found[0] == found[1], i
    if mode == "frozen":
        assert (replays(g) > 0) == replayed, recordings(g).lines()
    return g


def leaf(*shape):
    return rl.randn(*shape).requires_grad_()


class Layer(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(n, n), nn.LayerNorm(n), nn.Dropout(0.25)

    def forward(self, x):
        return x + self.dropout(nn.functional.gelu(self.linear(self.norm(x))))


class TestFeatures:
    def test_autocast_around_and_inside(self, mode):
        model = Layer()

        def f(x):
            with rl.autocast("cpu", dtype=rl.bfloat16):
                return model(x).float()

        agree(mode, f, lambda: (leaf(4, 8),))
        with rl.autocast("cpu", dtype=rl.bfloat16):
            agree(mode, lambda x: model(x).float() + model.linear(x), lambda: (leaf(4, 8),))

    def test_autocast_that_is_turned_off_inside(self, mode):
        model = Layer()

        def f(x):
            with rl.autocast("cpu", enabled=False):
                return model(x)

        with rl.autocast("cpu", dtype=rl.bfloat16):
            agree(mode, f, lambda: (leaf(4, 8),), replayed=False)

    @pytest.mark.parametrize("reentrant", [True, False])
    def test_checkpointing(self, mode, reentrant):
        model = Layer()

        def f(x):
            return checkpoint(model, checkpoint(model, x, use_reentrant=reentrant),
                              use_reentrant=reentrant)  # fmt: skip

        agree(mode, f, lambda: (leaf(4, 8),), replayed=False)

    def test_hooks(self, mode):
        model = Layer()
        model.linear.register_forward_hook(lambda m, args, out: out * 2)
        model.norm.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        agree(mode, model, lambda: (leaf(4, 8),))
        model.linear.weight.register_hook(lambda g: g * 3)
        grads = []
        for run in (rl.compile(model, mode=mode), model):
            grads.append([])
            for i in range(8):
                rl.manual_seed(i)
                model.zero_grad()
                run(rl.ones(2, 8)).sum().backward()
                grads[-1].append(bits(model.linear.weight.grad))
        assert grads[0] == grads[1]

    def test_hooks_that_backward_calls(self, mode):
        model, seen = nn.Linear(3, 3), []
        model.register_full_backward_hook(lambda m, i, o: seen.append(o[0].sum()))
        g = rl.compile(model, mode=mode)
        for _ in range(8):
            g(rl.ones(2, 3).requires_grad_()).sum().backward()
        assert [s.item() for s in seen] == [6.0] * 8

    def test_a_hook_inside(self, mode):
        def f(x):
            y = x * 2
            y.register_hook(lambda g: g * 3)
            return y.exp()

        agree(mode, f, lambda: (leaf(5),), replayed=False)

    def test_custom_functions(self, mode):
        class Double(rl.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 2 + x * 0

        agree(mode, lambda x: Double.apply(x).exp(), lambda: (leaf(5),), replayed=False)

    def test_func_and_vmap(self, mode):
        def f(x):
            def inner(row):
                return (row * row).sum()

            return rl.func.vmap(rl.func.grad(inner))(x) + rl.func.jacrev(inner)(x[0])

        agree(mode, f, lambda: (rl.randn(4, 3),), replayed=False)
        g = rl.compile(lambda row: (row * row).sum(), mode=mode)
        for _ in range(6):
            x = rl.randn(4, 3)
            assert bits(rl.func.vmap(g)(x)) == bits(rl.func.vmap(lambda r: (r * r).sum())(x))
            g(x[0])

    def test_no_grad(self, mode):
        model = Layer().eval()

        @rl.no_grad()
        def f(x):
            return model(x)

        g = agree(mode, f, lambda: (rl.randn(4, 8),))
        assert not g(rl.randn(4, 8)).requires_grad

    def test_changing_shapes(self, mode):
        model = Layer()
        calls = iter(range(100))  # two per turn: one for eager
        agree(mode, model, lambda: (leaf(3 if next(calls) // 2 % 6 == 5 else 4, 8),), calls=14)

    def test_fresh_shapes_each_time(self, mode):
        calls = iter(range(100))
        g = agree(mode, lambda x: x * 2 + 1, lambda: (rl.randn(1 + next(calls) // 2),), calls=40,
                  replayed=False)  # fmt: skip
        if mode == "frozen":
            assert "recordings in a row were never used" in reasons(g)
            assert not recordings(g).programs()

    def test_in_place_and_views(self, mode):
        def f(x):
            y = x.clone()
            y[1:].mul_(2)
            y.t()[0] += 1
            view = y.view(-1)
            view[::2] = 3
            return y.narrow(0, 0, 2) + view[:4].reshape(2, 2).sum()

        agree(mode, f, lambda: (leaf(4, 4),))

    def test_views_of_arguments_come_back(self, mode):
        g = rl.compile(lambda x: x[1:], mode=mode)
        for _ in range(CALLS):
            x = rl.randn(4)
            y = g(x)
            y.zero_()
            assert x[1:].tolist() == [0.0] * 3 and y._base is x

    def test_data_and_detach(self, mode):
        w = rl.nn.Parameter(rl.randn(3))

        def f(x):
            w.data.mul_(0.5)
            w.data[1:] += 1
            return x * w.detach() + w.data

        start = w.detach().clone()
        g = rl.compile(f, mode=mode)
        runs = []
        for run in (g, f):
            with rl.no_grad():
                w.copy_(start)
            runs.append([bits(run(rl.full((3,), float(i)))) for i in range(CALLS)])
        assert runs[0] == runs[1]

    def test_buffers_and_dropout_of_a_model(self, mode):
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(0.3))
        twin = copy.deepcopy(model)
        g = rl.compile(model, mode=mode)
        for i in range(CALLS):
            x = rl.randn(2, 2, 6, 6)
            rl.manual_seed(i)
            got = bits(g(x))
            rl.manual_seed(i)
            assert got == bits(twin(x))
        for a, b in zip(model.buffers(), twin.buffers(), strict=True):
            assert bits(a) == bits(b)

    def test_recurrent_layers(self, mode):
        model = nn.LSTM(3, 5, num_layers=2, batch_first=True)
        agree(mode, lambda x: model(x)[0], lambda: (leaf(2, 4, 3),))

    def test_a_scaler(self, mode):
        def run(compiled):
            rl.manual_seed(0)
            model = nn.Linear(3, 3)
            optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
            scaler = rl.amp.GradScaler("cpu")

            def step(x):
                optimizer.zero_grad()
                scaler.scale(model(x).square().mean()).backward()
                scaler.step(optimizer)
                scaler.update()

            f = rl.compile(step, mode=mode) if compiled else step
            for i in range(10):
                rl.manual_seed(i)
                f(rl.randn(4, 3))
            return [bits(p) for p in model.parameters()]

        assert run(True) == run(False)

    def test_generators(self, mode):
        def f(x):
            for i in range(3):
                yield x * i + 1

        g = rl.compile(f, mode=mode)
        for _ in range(6):
            x = rl.randn(5000)
            assert [bits(y) for y in g(x)] == [bits(y) for y in f(x)]
        rl.compiler.reset()
        list(g(rl.randn(5000)))
        assert rl.compiler.stats()["fused"] >= 4

    def test_generators_are_sent_to_and_closed(self, mode):
        closed = []

        @rl.compile(mode=mode)
        def f(x):
            try:
                while True:
                    try:
                        x = x * (yield x)
                    except ValueError:
                        x = x + 100
            finally:
                closed.append(1)

        g = f(rl.ones(2))
        assert next(g).tolist() == [1.0, 1.0]
        assert g.send(3).tolist() == [3.0, 3.0]
        assert g.throw(ValueError()).tolist() == [103.0, 103.0]
        g.close()
        assert closed == [1] and not rl._C._is_deferring()

    def test_module_compile(self, mode):
        model, twin = Layer().eval(), Layer().eval()
        twin.load_state_dict(model.state_dict())
        model.compile(mode=mode)
        for _ in range(CALLS):
            x = rl.randn(4, 8)
            assert bits(model(x)) == bits(twin(x))
        if mode == "frozen":
            assert replays_of(model) > 0

    def test_one_frozen_function_inside_another(self, mode):
        inner = rl.compile(lambda x: x * 2, mode=mode)
        agree(mode, lambda x: inner(x) + 1, lambda: (leaf(3),))
        assert inner(rl.ones(2)).tolist() == [2.0, 2.0]

    def test_a_decorated_method(self, mode):
        class Model:
            def __init__(self):
                self.weight = rl.ones(3)

            @rl.compile(mode=mode)
            def run(self, x):
                return x * self.weight

        models = [Model(), Model()]
        models[1].weight = rl.full((3,), 2.0)
        for _ in range(CALLS):
            assert models[0].run(rl.ones(3)).tolist() == [1.0] * 3
            assert models[1].run(rl.ones(3)).tolist() == [2.0] * 3

    def test_tracing_and_profiling_it(self, mode):
        f = rl.compile(lambda x: (x * 2).relu(), mode=mode)
        for _ in range(6):
            f(rl.ones(3))
        program = rl.jit.trace(f, (rl.ones(3),))
        assert program(rl.full((3,), 2.0)).tolist() == [4.0] * 3
        with rl.profiler.profile() as told:
            f(rl.ones(3))
        assert "aten::mul" in {e.key for e in told.key_averages()}


def replays_of(module):
    return sum(row[3] for row in module.__dict__["forward"].options.frozen.programs())


class TestFaults:
    def test_exceptions_inside(self, mode):
        def f(x, fail):
            y = x * 2
            if fail:
                raise KeyError("planned")
            return y

        g = rl.compile(f, mode=mode)
        for i in range(20):
            if i % 4 == 3:
                with pytest.raises(KeyError, match="planned"):
                    g(rl.ones(3), True)
            assert g(rl.ones(3), False).tolist() == [2.0] * 3
        assert not rl._C._is_deferring() and not rl.compiler.is_compiling()

    def test_errors_of_ops_while_replaying(self, mode):
        table = rl.randn(5, 2)

        def f(i):
            return nn.functional.embedding(i, table) * 2

        g = rl.compile(f, mode=mode)
        for _ in range(6):
            g(rl.tensor([1, 2]))
        for _ in range(3):
            with pytest.raises(IndexError) as wrong:
                g(rl.tensor([1, 9]))
            assert mode == "default" or "test_works_with.py" in str(wrong.value)
            assert bits(g(rl.tensor([0, 4]))) == bits(f(rl.tensor([0, 4])))

    def test_an_error_that_is_caught_inside(self, mode):
        def f(x):
            try:
                x @ rl.ones(7, 7)
            except RuntimeError:
                return x * 2
            return x

        agree(mode, f, lambda: (rl.randn(3),), replayed=False)

    def test_ctrl_c(self, mode):
        def f(x):
            for _ in range(400):
                x = (x @ x).tanh()
            return x

        g = rl.compile(f, mode=mode)
        x = rl.randn(100, 100)
        for _ in range(4):
            g(x)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in range(1000):
                g(x)
        timer.join()
        assert bits(g(x)) == bits(f(x)) and not rl._C._is_deferring()

    @pytest.mark.threads
    def test_threads(self, mode):
        model = Layer().eval()
        g = rl.compile(model, mode=mode)
        wrong, inputs = [], [rl.randn(4, 8) for _ in range(3)]
        want = [bits(model(x)) for x in inputs]

        def work():
            for i in range(60):
                if bits(g(inputs[i % 3])) != want[i % 3]:
                    wrong.append(i)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong

    @pytest.mark.threads
    def test_more_threads_than_can_record(self, mode):
        """Each at a size of its own, so that all have something to record."""

        def f(x):
            return (x @ x).tanh().sum()

        g, wrong = rl.compile(f, mode=mode), []
        inputs = [rl.randn(150 + i, 150 + i) for i in range(10)]

        def work(x):
            try:
                wrong.extend(1 for _ in range(6) if bits(g(x)) != bits(f(x)))
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_fork(self, mode):
        g = rl.compile(lambda x: (x * 2 + 1).tanh() * x, mode=mode)
        x = rl.randn(5000)
        for _ in range(6):
            want = bits(g(x))
        child = os.fork()
        if child == 0:
            os._exit(0 if all(bits(g(x)) == want for _ in range(6)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert bits(g(x)) == want

    def test_pickle_and_deepcopy(self, mode):
        model = Layer().eval()
        g = rl.compile(model, mode=mode)
        x = rl.randn(4, 8)
        for _ in range(6):
            want = bits(g(x))
        for other in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
            with rl.no_grad():
                other._orig_mod.linear.bias.add_(1)
            for _ in range(6):
                assert bits(other(x)) == bits(other._orig_mod(x)) != want
        assert bits(g(x)) == want
        model.compile(mode=mode)
        model(x)
        assert bits(pickle.loads(pickle.dumps(model))(x)) == want
        assert bits(copy.deepcopy(model)(x)) == want

    def test_nothing_is_kept_alive(self, mode):
        model = Layer()
        g = rl.compile(model, mode=mode)
        for _ in range(6):
            g(rl.randn(2, 8))
        alive = weakref.ref(model)
        del model, g
        gc.collect()
        assert alive() is None

    def test_results_are_not_kept_alive(self, mode):
        g = rl.compile(lambda x: x * 2, mode=mode)
        x = rl.ones(1000)
        for _ in range(6):
            g(x)
        before = rl.memory_stats()["allocated"]
        for _ in range(20):
            g(x)
        assert rl.memory_stats()["allocated"] == before


class TestTelling:
    def test_the_log_names_reasons_and_lines(self, mode, caplog):
        def f(x):
            y = x * 2 + 1
            if y.sum() > 0:
                return y.exp()
            return y

        g = rl.compile(f, mode=mode)
        with caplog.at_level("DEBUG", "rushlight.compiler"):
            g(rl.randn(5000))
        assert "values were asked for" in caplog.text or "ran because" in caplog.text
        assert "test_works_with.py" in caplog.text
        if mode == "frozen":
            assert "runs Python: a tensor became" in caplog.text

    def test_the_log_of_recordings(self, caplog):
        g = rl.compile(lambda x, s: x * s, mode="frozen", name="scaled")
        with caplog.at_level("DEBUG", "rushlight.compiler"):
            for _ in range(6):
                g(rl.ones(3), 2.0)
            g(rl.ones(4), 2.0)
            g(rl.ones(4), 3.0)
        assert "scaled: recorded" in caplog.text and "scaled: audited" in caplog.text
        assert "shape [4]" in caplog.text.replace("(4)", "[4]").replace("(4,)", "[4]")
        assert "a number became an input" in caplog.text and "3, was 2" in caplog.text

    def test_explain_and_stats(self):
        rl.compiler.reset()
        g = rl.compile(lambda x: x * 2, mode="frozen")
        for _ in range(7):
            g(rl.ones(3))
        told = rl.compiler.explain(g)(rl.ones(3))
        assert "frozen: 1 recording" in str(told) and told.result.tolist() == [2.0] * 3
        stats = rl.compiler.stats()
        assert (stats["recorded"], stats["replayed"], stats["audited"]) == (1, 3, 4)
        rl.compiler.reset()
        assert not recordings(g).programs() and rl.compiler.stats()["replayed"] == 0
        g(rl.ones(3))

    def test_is_compiling_and_disable(self, mode):
        seen = []

        @rl.compiler.disable
        def outside(x):
            return x + 1

        def f(x):
            seen.append(rl.compiler.is_compiling())
            return outside(x * 2)

        g = rl.compile(f, mode=mode)
        for _ in range(6):
            assert g(rl.ones(3)).tolist() == [3.0] * 3
        assert seen[0] == (mode == "frozen") and len(seen) == 6
        assert not rl.compiler.is_compiling()

    def test_fullgraph_raises(self):
        g = rl.compile(lambda x: x * x.sum().item(), mode="frozen", fullgraph=True)
        with pytest.raises(RuntimeError, match="Python number"):
            g(rl.ones(3))

    def test_force_eager(self, mode):
        g = rl.compile(lambda x: x * 2, mode=mode)
        with rl.compiler.set_stance("force_eager"):
            for _ in range(6):
                g(rl.ones(3))
        assert mode == "default" or not recordings(g).programs()

    def test_names_that_programs_set(self):
        import rushlight._dynamo as dynamo

        dynamo.config.suppress_errors = True
        dynamo.config.some.other = 3
        x = rl.ones(3)
        for function in (dynamo.mark_dynamic, dynamo.mark_static, dynamo.maybe_mark_dynamic):
            function(x, 0)
        dynamo.graph_break()
        for same in (dynamo.allow_in_graph, dynamo.disallow_in_graph, dynamo.nonstrict_trace,
                     dynamo.assume_constant_result, rl.compiler.nested_compile_region):  # fmt: skip
            assert same(len) is len
        with dynamo.error_on_graph_break(False), dynamo.patch_dynamo_config(verbose=True):
            assert dynamo.config.verbose is True
        assert dynamo.disable(lambda: 3)() == 3 and not dynamo.is_compiling()
        dynamo.reset()
