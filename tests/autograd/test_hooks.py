"""Hooks on tensors and nodes, kept gradients, and the graph as Python sees it."""

import gc
import threading
import traceback
import weakref

import pytest

import rushlight as rl
from rushlight.autograd import graph


def leaf(*values):
    return rl.tensor(values, dtype=rl.float64, requires_grad=True)


# Hooks on tensors --------------------------------------------------------------------------------


def test_hook_sees_and_replaces_the_gradient():
    seen = []
    x = leaf(1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 2).sum().backward()
    assert seen == [[2, 2], [20, 20]]
    assert x.grad.tolist() == [60, 60]


def test_hook_on_a_leaf_runs_before_accumulation_and_after_all_parts_are_in():
    seen = []
    x = leaf(1.0)
    x.register_hook(lambda g: seen.append((g.item(), x.grad)))
    x.register_hook(lambda g: g * 2)
    (x * 3 + x * 4).backward()
    assert seen == [(7, None)] and x.grad.item() == 14


def test_handles():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g * 2)
    with x.register_hook(lambda g: g * 5) as inner:
        (x * 1).backward()
        assert x.grad.item() == 10
    inner.remove()  # twice is fine
    x.grad = None
    (x * 1).backward()
    assert x.grad.item() == 2
    handle.remove()
    x.grad = None
    (x * 1).backward()
    assert x.grad.item() == 1


def test_hook_that_removes_itself():
    calls = []
    x = leaf(1.0)

    def hook(g):
        calls.append(1)
        handle.remove()

    handle = x.register_hook(hook)
    (x * 1).backward()
    (x * 1).backward()
    assert calls == [1]


def test_hook_stays_with_the_value_before_an_in_place_operation():
    seen = []
    x = leaf(2.0)
    y = x * 1
    y.register_hook(lambda g: seen.append(("old", g.item())))
    y.mul_(10)
    y.register_hook(lambda g: seen.append(("new", g.item())))
    (y * 3).backward()
    assert seen == [("new", 3), ("old", 30)]


def test_hook_of_one_result_among_several():
    seen = []
    x = leaf(3.0, 1.0, 2.0)
    values, _ = x.sort()
    values.register_hook(lambda g: seen.append(g.tolist()))
    (values * rl.tensor([1.0, 2.0, 3.0], dtype=rl.float64)).sum().backward()
    assert seen == [[1, 2, 3]]


def test_hooks_and_asked_for_gradients():
    # As PyTorch does: a gradient that is asked for is that before the hooks when backward goes on
    # below, and that after them otherwise.
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    z = y * 3
    assert [g.item() for g in rl.autograd.grad(z, [y], retain_graph=True)] == [30]
    assert [g.item() for g in rl.autograd.grad(z, [y, x], retain_graph=True)] == [3, 60]
    x.register_hook(lambda g: g * 7)
    assert rl.autograd.grad(z, x)[0].item() == 420


def test_hook_is_not_called_where_no_gradient_goes():
    calls = []
    x, other = leaf(1.0), leaf(1.0)
    y = x * 2
    y.register_hook(calls.append)
    rl.autograd.grad(y + other * 2, other)
    assert calls == []


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (lambda g: 3.0, TypeError, "float"),
        (lambda g: g[:1], RuntimeError, "shape"),
        (lambda g: g.to(rl.float32), RuntimeError, "dtype|type"),
    ],
)
def test_bad_replacements(hook, error, text):
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(error, match=text):
        y.sum().backward()


def test_bad_registrations():
    with pytest.raises(RuntimeError, match="does not require"):
        rl.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="does not require"):
        rl.ones(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="leaves|leaf"):
        (leaf(1.0) * 1).register_post_accumulate_grad_hook(print)
    with pytest.raises(TypeError):
        leaf(1.0).register_hook(3)


def test_exception_in_a_hook_keeps_type_and_traceback():
    class Mine(Exception):
        pass

    def the_users_hook(g):
        raise Mine("no")

    x = leaf(1.0)
    y = x * 2
    y.register_hook(the_users_hook)
    with pytest.raises(Mine, match="no") as info:
        (y * 3).backward()
    names = [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]
    assert "the_users_hook" in names
    assert x.grad is None
    with pytest.raises(Mine):
        rl.autograd.grad(x * y, x)


def test_keyboard_interrupt_in_a_hook():
    def interrupt(g):
        raise KeyboardInterrupt

    y = leaf(1.0) * 2
    y.register_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        y.backward()


def test_backward_inside_a_hook():
    x, w = leaf(2.0), leaf(3.0)

    def hook(g):
        assert not rl.is_grad_enabled()
        with rl.enable_grad():
            (w * 5).backward()

    y = x * 2
    y.register_hook(hook)
    y.backward()
    assert (x.grad.item(), w.grad.item()) == (2, 5)


def test_graph_through_a_hook():
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = rl.autograd.grad(y, x, create_graph=True)
    assert g.item() == 18  # 2x * x
    assert rl.autograd.grad(g, x)[0].item() == 12  # 4x


# retain_grad -------------------------------------------------------------------------------------


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (y * 3).sum().backward(retain_graph=True)
    assert y.grad.tolist() == [3, 3]
    (y * 3).sum().backward()
    assert y.grad.tolist() == [6, 6]
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError):
        rl.ones(1).retain_grad()


def test_kept_gradient_is_that_after_the_hooks():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.backward()
    assert y.grad.item() == 10


def test_kept_gradient_follows_in_place_operations():
    x = leaf(2.0)
    y = x * 1
    y.retain_grad()
    y.mul_(10)
    (y * 3).backward()
    assert y.grad.item() == 3 and x.grad.item() == 30


def test_kept_gradient_of_a_view_follows_writes_to_its_base():
    x = leaf(1.0, 2.0)
    base = x * 1
    view = base[:1]
    view.retain_grad()
    base.mul_(10)
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3] and x.grad.tolist() == [30, 0]


def test_kept_gradient_is_its_own():
    x = leaf(1.0)
    y = x * 1
    y.retain_grad()
    grads = []
    y.register_hook(grads.append)
    y.backward()
    y.grad.add_(5)
    assert grads[0].item() == 1 and x.grad.item() == 1


def test_tensor_that_wants_a_gradient_may_die_first():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    z = y * 3
    del y
    z.backward()
    assert x.grad.item() == 6


# After accumulation ------------------------------------------------------------------------------


def test_post_accumulate_grad_hook():
    seen = []
    x = leaf(1.0)
    x.register_hook(lambda g: g * 2)
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.item())))
    (x * 3).backward()
    (x * 3).backward()
    assert seen == [(True, 6), (True, 12)]
    handle.remove()
    (x * 3).backward()
    assert len(seen) == 2


def test_optimizer_inside_backward():
    x = leaf(1.0)

    def step(p):
        with rl.no_grad():
            p -= 0.5 * p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 4).backward()
    assert x.item() == -1 and x.grad is None


def test_post_accumulate_hook_is_for_accumulation_only():
    calls = []
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(calls.append)
    rl.autograd.grad(x * 2, x)
    assert calls == []
    (x * 2).backward(inputs=[x])
    assert len(calls) == 1
    x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))  # what it returns is ignored
    (x * 2).backward()
    assert x.grad.item() == 12


# Nodes -------------------------------------------------------------------------------------------


def test_node_hooks():
    order = []
    x = leaf(1.0)
    y = x * 2
    node = y.grad_fn
    node.register_prehook(lambda g: order.append(("pre", g[0].item())) or (g[0] * 10,))
    node.register_hook(
        lambda out, g: (
            order.append(("post", out[0].item(), g[0].item())) or (out[0] * 100, *out[1:])
        )
    )
    y.register_hook(lambda g: order.append(("tensor", g.item())) or g * 5)
    (y * 3).backward()
    assert order == [("tensor", 3), ("pre", 15), ("post", 300, 150)]
    assert x.grad.item() == 30000


def test_node_hook_handles_and_errors():
    x = leaf(1.0)
    y = x * 2
    handle = y.grad_fn.register_prehook(lambda g: (g[0], g[0]))
    with pytest.raises(RuntimeError, match="2 gradients, expected 1"):
        y.backward(retain_graph=True)
    handle.remove()
    handle = y.grad_fn.register_hook(lambda out, g: ())
    with pytest.raises(RuntimeError, match="0 gradients"):
        y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert x.grad.item() == 2


def test_hooks_on_an_accumulator():
    seen = []
    x = leaf(1.0)
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_hook(lambda out, g: seen.append((out, g[0].item(), x.grad.item())))
    node.register_prehook(lambda g: (g[0] * 4,))
    (x * 3).backward()
    assert seen == [((), 12, 12)]


def test_names_and_identity():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert y.grad_fn is y.grad_fn and y.grad_fn == y.grad_fn
    assert isinstance(y.grad_fn, graph.Node) and type(y.grad_fn).__name__ == "MulBackward0"
    assert y.grad_fn.next_functions[0][0] is y.grad_fn.next_functions[0][0]
    assert y.grad_fn.next_functions[0][0].variable is x
    assert y.grad_fn.next_functions[1] == (None, 0)
    assert (y + 1).grad_fn._sequence_nr() > y.grad_fn._sequence_nr()
    with pytest.raises(AttributeError):
        y.grad_fn.variable  # noqa: B018
    with pytest.raises(TypeError):
        graph.Node()
    assert x.grad_fn is None
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}
    assert "MulBackward0 object at" in repr(y.grad_fn)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: x + 1, "AddBackward0"),
        (lambda x: x - x, "SubBackward0"),
        (lambda x: x / 2, "DivBackward0"),
        (lambda x: -x, "NegBackward0"),
        (lambda x: x**2, "PowBackward0"),
        (lambda x: x**x, "PowBackward1"),
        (lambda x: x @ x, "MmBackward0"),
        (lambda x: rl.addmm(x, x, x), "AddmmBackward0"),
        (lambda x: x.exp(), "ExpBackward0"),
        (lambda x: x.log1p(), "Log1PBackward0"),
        (lambda x: x.log2(), "Log2Backward0"),
        (lambda x: x.sum(), "SumBackward0"),
        (lambda x: x.sum(0), "SumBackward1"),
        (lambda x: x.mean(), "MeanBackward0"),
        (lambda x: x.max(0)[0], "MaxBackward0"),
        (lambda x: x.relu(), "ReluBackward0"),
        (lambda x: x.sigmoid(), "SigmoidBackward0"),
        (lambda x: x.clone(), "CloneBackward0"),
        (lambda x: x.transpose(0, 1), "TransposeBackward0"),
        (lambda x: x.view(4), "ViewBackward0"),
        (lambda x: x.reshape(4), "ViewBackward0"),
        (lambda x: x[0], "SelectBackward0"),
        (lambda x: x[:1], "SliceBackward0"),
        (lambda x: x[rl.tensor([0])], "IndexBackward0"),
        (lambda x: x.unsqueeze(0), "UnsqueezeBackward0"),
        (lambda x: x.expand(3, 2, 2), "ExpandBackward0"),
        (lambda x: rl.cat([x, x]), "CatBackward0"),
        (lambda x: rl.stack([x, x]), "StackBackward0"),
        (lambda x: rl.where(x > 0, x, x), "WhereBackward0"),
        (lambda x: x.to(rl.float64), "ToCopyBackward0"),
    ],
)
def test_pytorchs_names(make, name):
    x = rl.ones(2, 2, requires_grad=True)
    y = make(x)
    assert y.grad_fn.name() == name
    assert f"grad_fn=<{name}>" in repr(y)


def test_name_of_copy_slices():
    x = rl.ones(3, requires_grad=True)
    y = x * 1
    y[0] = 2
    assert y.grad_fn.name() == "CopySlices"


# Several gradients at once -----------------------------------------------------------------------


def test_multi_grad_hook_all():
    calls = []
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    handle = graph.register_multi_grad_hook(
        (a, b, c), lambda grads: calls.append([g if g is None else g.item() for g in grads])
    )
    (a * b).backward()
    (a * b * c).backward()
    assert calls == [[2, 1, None], [6, 3, 2]]
    handle.remove()
    (a * b * c).backward()
    assert len(calls) == 2


def test_multi_grad_hook_any():
    calls = []
    a, b = leaf(1.0), leaf(2.0)
    with graph.register_multi_grad_hook((a, b), lambda g: calls.append(g.item()), mode="any"):
        (a * b * b).backward()
        (a * b).backward()
    assert len(calls) == 2
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((a,), print, mode="some")


def test_gradient_edges():
    x = leaf(1.0, 2.0)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    assert graph.get_gradient_edge(x).node.variable is x
    z = (y * y).sum()
    (g,) = rl.autograd.grad(z, edge, retain_graph=True)
    assert g.tolist() == [4, 8]
    (g,) = rl.autograd.grad(graph.get_gradient_edge(z), x, rl.ones((), dtype=rl.float64))
    assert g.tolist() == [8, 16]
    with pytest.raises(RuntimeError, match="does not require"):
        graph.get_gradient_edge(rl.ones(1))


def test_increment_version():
    a, b = rl.ones(1), rl.ones(1)
    graph.increment_version(a)
    graph.increment_version([a, b])
    assert (a._version, b._version) == (2, 1)
    x = leaf(2.0)
    y = x * 1
    z = y * y
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="increment_version"):
        z.backward()


# Memory ------------------------------------------------------------------------------------------


def collected(make):
    """Builds something with make(), which returns weak references, and collects it."""
    gc.collect()
    gc.disable()
    try:
        before = rl.memory_stats()["allocated"]
        refs = make()
        gc.collect()
        assert all(r() is None for r in refs)
        assert rl.memory_stats()["allocated"] == before
    finally:
        gc.enable()


def test_hook_that_closes_over_its_leaf():
    def make():
        x = rl.ones(1000, requires_grad=True)
        x.register_hook(lambda g: g * x)
        x.register_post_accumulate_grad_hook(lambda p: x.sum())
        (x * 2).sum().backward()
        return [weakref.ref(x)]

    collected(make)


def test_hook_that_closes_over_its_result():
    def make():
        x = rl.ones(1000, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: g * y)
        y.sum().backward()
        return [weakref.ref(y), weakref.ref(y.grad_fn)]

    collected(make)


def test_node_hook_that_closes_over_its_tensor():
    def make():
        x = rl.ones(1000, requires_grad=True)
        y = x * 2
        node = y.grad_fn
        node.register_hook(lambda out, g: print(y, end=""))
        node.register_prehook(lambda g: print(y, end=""))
        node.metadata["y"] = y
        y.sum().backward()
        return [weakref.ref(y), weakref.ref(node)]

    collected(make)


def test_handle_keeps_neither_hook_nor_tensor():
    class Thing:
        def __call__(self, g):
            pass

    thing = Thing()
    x = rl.ones(1, requires_grad=True)
    handle = x.register_hook(thing)
    dead = weakref.ref(thing)
    del thing, x
    assert dead() is None
    handle.remove()


def test_hooks_in_use_are_not_collected():
    x = leaf(1.0)
    y = x * 2
    calls = []
    y.register_hook(lambda g, y=y: calls.append(gc.collect()) or g * y)
    z = y * 3
    del y
    gc.collect()
    z.backward()
    assert len(calls) == 1 and x.grad.item() == 12


def test_million_hooks_leave_nothing():
    x = rl.ones(10, requires_grad=True)
    gc.collect()
    before = rl.memory_stats()["allocated"]
    for _ in range(1000):
        x.register_hook(lambda g: g).remove()
        y = x * 2
        y.register_hook(lambda g: g)
        y.retain_grad()
        y.grad_fn.register_prehook(lambda g: None)
    del y
    assert rl.memory_stats()["allocated"] == before


# Threads -----------------------------------------------------------------------------------------


@pytest.mark.threads
def test_hooks_run_on_the_thread_of_their_backward():
    seen = []
    x = leaf(1.0)
    x.register_hook(lambda g: seen.append(threading.get_ident()))
    ids = []

    def work():
        ids.append(threading.get_ident())
        (x * 2).backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(seen) == sorted(ids)
    assert x.grad.item() == 8


@pytest.mark.threads
def test_registering_while_backward_runs():
    stop = threading.Event()
    x = leaf(1.0)
    errors = []

    def register():
        try:
            while not stop.is_set():
                x.register_hook(lambda g: g).remove()
        except BaseException as e:
            errors.append(e)

    t = threading.Thread(target=register)
    t.start()
    for _ in range(300):
        (x * 2).backward()
    stop.set()
    t.join()
    assert not errors and x.grad.item() == 600
