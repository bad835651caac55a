"""The end of a process: graphs, hooks, subclasses and threads that are still there do no harm.

Each program runs in a process of its own with Python's checks of its memory on, and must exit
as it says, with nothing on standard error.
"""

import os
import subprocess
import sys
import tempfile
import textwrap

import pytest

pytestmark = pytest.mark.native

# Freed memory is overwritten, by Python and by the C library, so that a stale pointer shows.
CHECKED = {"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165"}

START = """
import atexit, gc, os, sys, threading, time, weakref
import rushlight as rl
from rushlight import nn
from rushlight.autograd import Function

class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.me = ctx
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

def network(layers):
    return nn.Sequential(*[nn.Linear(4, 4) for _ in range(layers)])
"""


def check_exit(program, code=0, out="end\n"):
    under_asan = "asan" in os.environ.get("LD_PRELOAD", "")  # it has an allocator of its own
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(program)],
        env={**os.environ, **({} if under_asan else CHECKED)},
        cwd=tempfile.gettempdir(),  # in the checkout, its own package would be found first
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, out, "")


PROGRAMS = {
    "many layers": """
        m = network(1000)
        y = m(rl.rand(2, 4))
        """,
    "many layers, the module first": """
        y = network(1000)(rl.rand(2, 4))
        """,
    "a module that refers to itself": """
        m = network(500)
        m.friends = [m]
        m.result = m(rl.rand(2, 4))
        """,
    "hooks everywhere": """
        m = network(300)
        seen = []
        for p in m.parameters():
            p.register_post_accumulate_grad_hook(lambda p: seen.append(p))
            p.register_hook(lambda g: g * 1)
        for layer in m:
            layer.register_full_backward_hook(lambda *a: seen.append(a))
        y = m(rl.rand(2, 4))
        y.register_hook(lambda g: g * y)
        y.sum().backward()
        z = m(rl.rand(2, 4))
        """,
    "hooks on nodes": """
        y = network(300)(rl.rand(2, 4))
        nodes, node = [], y.grad_fn
        while node is not None:
            node.register_hook(lambda *a, y=y: None)
            node.metadata["y"] = y
            nodes.append(node)
            following = [n for n, _ in node.next_functions if n is not None]
            node = following[-1] if following else None
        """,
    "custom Functions": """
        x = rl.ones(4, requires_grad=True)
        y = x
        for _ in range(500):
            y = Double.apply(y)
            y.kept = y.grad_fn
        x.result = y
        """,
    "hooks of saved tensors": """
        class Packed:
            def __init__(self, t):
                self.t = t
        with rl.autograd.graph.saved_tensors_hooks(Packed, lambda p: p.t):
            y = network(300)(rl.rand(2, 4)).exp()
        """,
    "checkpoints": """
        from rushlight.utils.checkpoint import checkpoint
        m = network(300)
        y = rl.rand(2, 4, requires_grad=True)
        for layer in m:
            y = checkpoint(layer, y, use_reentrant=False)
        """,
    "anomaly mode": """
        rl.autograd.set_detect_anomaly(True)
        y = network(100)(rl.rand(2, 4))
        """,
    "transforms": """
        kept = []
        def f(x):
            kept.append(x.sin())
            return kept[-1].sum()
        rl.func.vmap(rl.func.grad(f))(rl.rand(5, 4))
        rl.func.jvp(f, (rl.rand(4),), (rl.rand(4),))
        level = rl.autograd.forward_ad.dual_level()
        level.__enter__()
        dual = rl.autograd.forward_ad.make_dual(rl.rand(4), rl.rand(4))
        y = network(100)(dual.expand(2, 4))
        """,
    "subclasses": """
        class Named(rl.Tensor):
            def __del__(self):
                assert self.shape == (4,), self.shape
        class Slim(rl.Tensor):
            __slots__ = ("friend",)
        class Weight(nn.Parameter):
            pass
        x = rl.ones(4).as_subclass(Named)
        x.me = x
        s = rl.ones(4).as_subclass(Slim)
        s.friend = x
        weights = [Weight(rl.ones(4)) for _ in range(500)]
        y = s
        for w in weights:
            w.friends = weights
            y = y * w
        watched = [weakref.ref(w, lambda r: None) for w in weights]
        """,
    "exceptions that keep frames": """
        kept = []
        def fail(depth):
            y = network(50)(rl.rand(2, 4))
            if depth == 0:
                raise ValueError("kept")
            fail(depth - 1)
        try:
            fail(10)
        except ValueError as e:
            kept.append(e)
        def values():
            y = network(300)(rl.rand(2, 4))
            yield y
        generator = values()
        next(generator)
        """,
    "atexit functions that compute": """
        y = network(500)(rl.rand(2, 4))
        @atexit.register
        def last():
            global y
            z = network(300)(rl.rand(2, 4))
            z.sum().backward()
            rl.ones(1 << 20).mul(2).sum().item()
            del y
            sys.last = z
        """,
    "objects that compute while the interpreter ends": """
        class Late:
            def __init__(self):
                self.y = network(300)(rl.rand(2, 4))
                self.me = self
            def __del__(self, hook=lambda g: g * 2):
                self.y.register_hook(hook)
                self.y.sum().backward()
        late = [Late() for _ in range(3)]
        sys.late = late
        """,
    "wrappers that the collector showed": """
        y = network(300)(rl.rand(2, 4))
        found = [o for o in gc.get_objects() if isinstance(o, nn.Parameter)]
        assert len(found) == 600
        del y
        assert {tuple(p.shape) for p in found} == {(4,), (4, 4)}
        y = sum(p.sum() for p in found)
        """,
    "everything is kept as garbage": """
        gc.set_debug(gc.DEBUG_SAVEALL)
        for _ in range(3):
            m = network(200)
            m.friends = [m]
            m.y = m(rl.rand(2, 4))
        del m
        gc.collect()
        """,
    "thread-local values": """
        local = threading.local()
        local.y = network(300)(rl.rand(2, 4))
        def work():
            local.y = network(300)(rl.rand(2, 4))
            local.y.sum().backward()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        """,
    "threads that still run": """
        def work():
            for _ in range(20):
                network(50)(rl.rand(2, 4)).sum().backward()
        for _ in range(3):
            threading.Thread(target=work).start()
        """,
    "daemon threads": """
        x = rl.ones(4, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda p: None)
        y = Double.apply(x)
        y.register_hook(lambda g: g * y.sum())
        x.loss = (y * 3).sum()
        node = x.loss.grad_fn
        def work():
            while True:
                (Double.apply(x) * 2).sum().backward()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
        """,
    "daemon threads that drop graphs": """
        class Weight(nn.Parameter):
            pass
        def work(large):
            while True:
                w = Weight(rl.ones(large))
                w.note = [w]
                y = w
                for _ in range(50):
                    y = y * w
                del w
                y.sum().backward()
        for n in (4, 100_000):
            threading.Thread(target=work, args=(n,), daemon=True).start()
        def collect():
            while True:
                gc.collect()
        threading.Thread(target=collect, daemon=True).start()
        y = network(300)(rl.rand(2, 4))
        time.sleep(0.3)
        """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_exits_with_zero(program):
    check_exit(textwrap.dedent(program) + "\nprint('end')\n")


# A module's globals are cleared one by one; names that start with an underscore come first.
NAMES = ["m", "x", "y", "hooked", "fn"]
ORDERS = [NAMES[i:] + NAMES[:i] for i in range(5)]
ORDERS += [order[::-1] for order in ORDERS]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_globals_die_in_any_order(order):
    values = {
        "m": "network(300)",
        "x": "rl.rand(2, 4, requires_grad=True)",
        "y": "Double.apply(made['m'](made['x']))",
        "hooked": "made['y'].register_hook(lambda g: g * made['x'].sum())",
        "fn": "made['y'].grad_fn",
    }
    lines = [f"made[{name!r}] = {value}" for name, value in values.items()]
    lines += [f"_{name} = made[{name!r}]" for name in order]
    check_exit("\n".join(["made = {}", *lines, "del made", "print('end')"]))


@pytest.mark.threads
def test_os_exit():
    check_exit("""
        y = network(500)(rl.rand(2, 4))
        threading.Thread(target=lambda: [y.sum().backward(retain_graph=True) for _ in range(10**9)],
                         daemon=True).start()
        time.sleep(0.1)
        sys.stdout.write("end\\n"); sys.stdout.flush()
        os._exit(0)
        """)


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize(
    "hook", ["y.register_hook", "y.grad_fn.register_hook", "y.grad_fn.register_prehook"]
)
def test_sys_exit_in_a_hook(hook, code):
    check_exit(
        f"""
        m = network(300)
        y = m(rl.rand(2, 4))
        {hook}(lambda *grads: sys.exit({code}))
        print("end")
        y.sum().backward()
        print("not reached")
        """,
        code=code,
    )


def test_sys_exit_in_a_custom_backward():
    check_exit("""
        class Leave(Double):
            @staticmethod
            def backward(ctx, g):
                sys.exit(0)
        y = Leave.apply(network(300)(rl.rand(2, 4)))
        print("end")
        y.sum().backward()
        """)


def test_a_wrapper_outlives_the_graph_that_held_it():
    """Memory debugging walks gc.get_objects(); what it finds must stay usable."""
    check_exit("""
        class Weight(nn.Parameter):
            pass
        w = Weight(rl.arange(4.0))
        watch = weakref.ref(w)
        y = w * 2
        del w  # from here on the graph holds the tensor, and the tensor its wrapper
        found = watch()
        del y
        assert found.tolist() == [0, 1, 2, 3] and type(found) is Weight
        found.sum().backward()
        assert found.grad.tolist() == [1, 1, 1, 1]
        del found
        assert watch() is None
        print("end")
        """)


@pytest.mark.threads
def test_collections_beside_running_threads_lose_nothing():
    """Attributes and hooks must survive collections that run while another thread is in an op."""
    check_exit("""
        import sys
        sys.setswitchinterval(1e-5)
        class Weight(nn.Parameter):
            pass
        weights = [Weight(rl.ones(40_000)) for _ in range(4)]
        for i, w in enumerate(weights):
            w.note = {"number": [i]}
            w.register_hook(lambda g, i=i: calls.append(i))
        calls, stop = [], False
        def work(w):
            while not stop:
                y = w
                for _ in range(5):
                    y = y * w
                y.kept = [y]
                y.sum().backward()
                w.grad = None
        threads = [threading.Thread(target=work, args=(w,)) for w in weights]
        for t in threads: t.start()
        until = time.monotonic() + 2
        while time.monotonic() < until:
            gc.collect()
        stop = True
        for t in threads: t.join()
        assert [w.note for w in weights] == [{"number": [i]} for i in range(4)]
        calls.clear()
        for w in weights:
            w.sum().backward()
        assert calls == [0, 1, 2, 3], calls
        print("end")
        """)


@pytest.mark.threads
def test_cycles_are_collected_in_a_forked_child_of_a_threaded_process():
    check_exit("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12's about such forks
        x = rl.ones(200_000, requires_grad=True)
        def work():
            while True:
                (x * 2).sum().backward()
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
        for _ in range(5):
            child = os.fork()
            if child == 0:
                y = rl.ones(4, requires_grad=True) * 2
                y.me = y
                gone = weakref.ref(y)
                del y
                gc.collect()
                os._exit(0 if gone() is None else 7)
            assert os.waitpid(child, 0)[1] == 0
        print("end")
        sys.stdout.flush()
        os._exit(0)
        """)
