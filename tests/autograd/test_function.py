"""autograd.Function: forward, backward and everything ctx offers."""

import gc
import threading
import traceback
import weakref

import pytest

import rushlight as rl
from rushlight.autograd import Function
from rushlight.autograd.function import BackwardCFunction, FunctionCtx, once_differentiable


def make(forward, backward=lambda ctx, g: g, name="My", **more):
    """A Function of two functions."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    body.update({k: staticmethod(v) for k, v in more.items()})
    return type(name, (Function,), body)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def leaf(*values, dtype=rl.float64):
    return rl.tensor(values, dtype=dtype, requires_grad=True)


def test_forward_and_backward():
    x = leaf(1.0, 2.0)
    y = Cube.apply(x)
    assert y.requires_grad and not y.is_leaf
    assert y.tolist() == [1, 8]
    y.sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_double_backward_goes_through_backward():
    x = leaf(2.0)
    (g,) = rl.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    (gg,) = rl.autograd.grad(g.sum(), x, create_graph=True)
    (ggg,) = rl.autograd.grad(gg.sum(), x)
    assert (g.item(), gg.item(), ggg.item()) == (12, 12, 6)


def test_setup_context():
    class Scale(Function):
        @staticmethod
        def forward(x, factor, offset=1.0):
            return x * factor + offset

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, factor, offset = inputs
            assert output.shape == x.shape
            ctx.factor, ctx.offset = factor, offset

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None

    x = leaf(1.0, 2.0)
    assert Scale.apply(x, 3.0).tolist() == [4, 7]  # defaults are filled in
    y = Scale.apply(x, factor=3.0, offset=0.0)
    assert y.tolist() == [3, 6]
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_keywords_without_setup_context():
    F = make(lambda ctx, x, s=3: x * s, lambda ctx, g: (g * 3, None))
    x = leaf(1.0)
    y = F.apply(x=x)
    assert y.item() == 3
    y.backward()
    assert x.grad.item() == 3
    with pytest.raises(TypeError):
        F.apply(x, unknown=3)


def test_vjp_is_another_name_of_backward():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 20

    x = leaf(1.0)
    F.apply(x).backward()
    assert x.grad.item() == 20
    F.backward = staticmethod(lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="both backward and vjp"):
        F.apply(leaf(1.0)).backward()


def test_arguments_that_are_no_tensors():
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return None, g * ctx.k, None, None

    def forward(ctx, name, x, fixed, options):
        ctx.k = options["k"]
        return x * options["k"] + fixed

    x = leaf(1.0)
    y = make(forward, backward).apply("name", x, rl.ones(1, dtype=rl.float64), {"k": 5})
    y.backward()
    assert x.grad.item() == 5
    assert seen == [(False, True, False, False)]


def test_several_outputs():
    grads = []

    def forward(ctx, x):
        return x * 2, x * 3, "text", None

    def backward(ctx, *g):
        grads.append(g)
        return g[0] * 2 + g[1] * 3

    F = make(forward, backward)
    x = leaf(1.0, 1.0)
    a, b, text, none = F.apply(x)
    assert text == "text" and none is None
    assert (a.output_nr, b.output_nr) == (0, 1)
    (a.sum() + 10 * b.sum()).backward()
    assert x.grad.tolist() == [32, 32]
    assert grads[0][2] is None and grads[0][3] is None


def test_missing_gradients_are_zeros_or_none():
    grads = []

    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        return x * 2, x * 3

    def backward(ctx, a, b):
        grads.append(b)
        return a * 2, None

    F = make(forward, backward)
    F.apply(leaf(1.0), True)[0].backward()
    F.apply(leaf(1.0), False)[0].backward()
    assert grads[0].tolist() == [0] and grads[1] is None


def test_backward_runs_without_any_gradient():
    # Everything above returns None, so no gradient reaches the lower Function.
    seen = []

    def lower(ctx, g):
        seen.append(g.tolist())
        return g

    stop = make(lambda ctx, x: x * 1, lambda ctx, g: None)
    x = leaf(1.0)
    stop.apply(make(lambda ctx, x: x * 1, lower).apply(x)).backward()
    assert seen == [[0.0]]


def test_none_gradients():
    x, y = leaf(1.0), leaf(2.0)
    make(lambda ctx, a, b: a * b, lambda ctx, g: (None, g)).apply(x, y).backward()
    assert x.grad is None and y.grad.item() == 1


def test_non_differentiable_output():
    grads = []

    def forward(ctx, x):
        index = x.argmax()
        mask = (x > 1).to(x.dtype)
        ctx.mark_non_differentiable(mask)
        return x * 2, index, mask

    def backward(ctx, g, gi, gm):
        grads.append((gi, gm))
        return g * 2

    x = leaf(1.0, 2.0)
    y, index, mask = make(forward, backward).apply(x)
    assert y.requires_grad and not index.requires_grad and not mask.requires_grad
    y.sum().backward()
    assert grads[0][0].dtype == rl.int64 and grads[0][0].item() == 0
    assert grads[0][1].tolist() == [0, 0]
    assert x.grad.tolist() == [2, 2]


def test_nothing_is_recorded_inside_forward():
    def forward(ctx, x):
        assert not rl.is_grad_enabled()
        assert not (x * 2).requires_grad
        return x * 2

    assert make(forward).apply(leaf(1.0)).requires_grad
    assert rl.is_grad_enabled()


def test_no_node_where_none_is_needed():
    F = make(lambda ctx, x: x * 2)
    assert not F.apply(rl.ones(2)).requires_grad
    with rl.no_grad():
        assert not F.apply(leaf(1.0)).requires_grad


def test_grad_mode_in_backward():
    seen = []

    def backward(ctx, g):
        seen.append(rl.is_grad_enabled())
        return g

    F = make(lambda ctx, x: x * 1, backward)
    x = leaf(1.0)
    y = F.apply(x)
    y.backward(retain_graph=True)
    y.backward(create_graph=True)
    assert seen == [False, True]
    x.grad = None


def test_input_returned_as_it_is():
    F = make(lambda ctx, x: x, lambda ctx, g: g * 10)
    x = leaf(1.0)
    y = F.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and x.is_leaf
    y.backward()
    assert x.grad.item() == 10


def test_view_of_an_input():
    F = make(lambda ctx, x: x[:2], lambda ctx, g: rl.cat([g * 10, g[:1]]))
    x = leaf(1.0, 2.0, 3.0)
    F.apply(x).sum().backward()
    assert x.grad.tolist() == [10, 10, 1]


def test_mark_dirty():
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    F = make(forward, lambda ctx, g: g * 2)
    x = leaf(1.0, 2.0)
    y = x * 3
    before = y._version
    z = F.apply(y)
    assert z is y and y._version > before
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_mark_dirty_of_a_view():
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    x = leaf(1.0, 2.0)
    y = x * 3
    make(forward, lambda ctx, g: g * 2).apply(y[:1])
    y.sum().backward()
    assert x.grad.tolist() == [6, 3]


def test_saved_output_makes_no_cycle():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = Exp.apply(x)
        (g,) = rl.autograd.grad(y, x, create_graph=True)
        (gg,) = rl.autograd.grad(g, x)
        assert gg.item() == pytest.approx(2.718281828459045)
        dead = weakref.ref(y)
        del y, g, gg
        assert dead() is None
    finally:
        gc.enable()


def test_saved_tensors_are_checked_for_writes():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="CubeBackward"):
        z.sum().backward()


def test_saved_tensors_are_freed():
    x = leaf(1.0)
    y = Cube.apply(x)
    node = y.grad_fn
    assert node.saved_tensors[0] is x
    y.backward()
    with pytest.raises(RuntimeError, match="second time|freed"):
        node.saved_tensors  # noqa: B018
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_none_may_be_saved():
    seen = []

    def forward(ctx, x):
        ctx.save_for_backward(None, x)
        return x * 1

    def backward(ctx, g):
        seen.append(ctx.saved_tensors)
        return g

    x = leaf(1.0)
    make(forward, backward).apply(x).backward()
    assert seen[0][0] is None and seen[0][1] is x


def test_ctx_is_the_node():
    kept = []

    def forward(ctx, x):
        kept.append(weakref.ref(ctx))
        ctx.note = "here"
        return x * 1

    F = make(forward, name="Named")
    y = F.apply(leaf(1.0))
    node = y.grad_fn
    assert node is y.grad_fn and node is kept[0]() and node.note == "here"
    assert node.name() == type(node).__name__ == "NamedBackward"
    assert isinstance(node, BackwardCFunction) and isinstance(node, FunctionCtx)
    assert isinstance(node, rl.autograd.graph.Node)
    assert "NamedBackward" in repr(y)
    del node
    assert y.grad_fn.note == "here"  # comes back as it was
    node = y.grad_fn
    del y
    assert node.note == "here" and len(node.next_functions) == 1  # the node outlives its tensor
    del node
    assert kept[0]() is None


def test_next_functions_are_those_of_the_tensors():
    x, fixed = leaf(1.0), rl.ones(1, dtype=rl.float64)
    y = make(lambda ctx, a, s, b: a * b, lambda ctx, g: (g, None, None)).apply(x, "s", fixed)
    (first, slot), (second, _) = y.grad_fn.next_functions
    assert first.name() == "AccumulateGrad" and first.variable is x and slot == 0
    assert second is None


def test_once_differentiable():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not rl.is_grad_enabled()
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(3.0)
    F.apply(x).backward()
    assert x.grad.item() == 6
    (g,) = rl.autograd.grad(F.apply(x) * x, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_nested_apply_inside_backward():
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with rl.enable_grad():
                inner = x.detach().requires_grad_()
                (d,) = rl.autograd.grad(Cube.apply(inner), inner)  # a backward inside a backward
            return g * d

    x = leaf(2.0)
    Outer.apply(x).backward()
    assert x.grad.item() == 12


def test_recursion_of_backwards():
    class Deep(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.depth:
                with rl.enable_grad():
                    y = rl.ones(1, dtype=g.dtype).requires_grad_()
                    Deep.apply(y, ctx.depth - 1).sum().backward()
                return g * y.grad, None
            return g * 2, None

    x = leaf(1.0)
    Deep.apply(x, 20).backward()
    assert x.grad.item() == 2


def test_subclass_and_attributes_of_the_class():
    class Base(Function):
        factor = 2

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Derived(Base):
        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(1.0)
    y = Derived.apply(x)
    assert y.grad_fn.name() == "DerivedBackward" and y.grad_fn._forward_cls is Derived
    y.backward()
    assert x.grad.item() == 5


def test_exception_keeps_type_and_traceback():
    class Mine(Exception):
        pass

    def the_users_backward(ctx, g):
        raise Mine("from the user")

    y = make(lambda ctx, x: x * 1, the_users_backward).apply(leaf(1.0)) * 2
    with pytest.raises(Mine, match="from the user") as info:
        y.backward()
    names = [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]
    assert "the_users_backward" in names
    y = make(lambda ctx, x: 1 / 0).apply
    with pytest.raises(ZeroDivisionError):
        y(leaf(1.0))
    assert rl.is_grad_enabled()


def grads_of(backward, forward=lambda ctx, x: x * 2):
    x = rl.ones(3, requires_grad=True)
    y = make(forward, backward, name="Wrong").apply(x)
    (y[0] if isinstance(y, tuple) else y).sum().backward()
    return x.grad


def dirty_leaf(ctx, x):
    ctx.mark_dirty(x)
    return x


def save_text(ctx, x):
    ctx.save_for_backward(x, "a")
    return x * 2


@pytest.mark.parametrize(
    ("backward", "forward", "error", "text"),
    [
        (lambda ctx, g: (g, g), None, RuntimeError, "one gradient for each of the 1 arg.* 2"),
        (lambda ctx, g: (), None, RuntimeError, "it returned 0"),
        (lambda ctx, g: [g], None, RuntimeError, "position 0 it returned list"),
        (lambda ctx, g: "a", None, RuntimeError, "position 0 it returned str"),
        (lambda ctx, g: 1.0, None, RuntimeError, "position 0 it returned float"),
        (
            lambda ctx, g: rl.ones(4),
            None,
            RuntimeError,
            r"\(4,?\).*argument 0.*\(3,?\)|\[4\].*\[3\]",
        ),
        (lambda ctx, g: rl.ones(1), None, RuntimeError, "argument 0"),
        (lambda ctx, g: rl.ones(3, dtype=rl.complex64), None, RuntimeError, "complex gradient"),
        (lambda ctx, g: g, dirty_leaf, RuntimeError, "leaf"),
        (lambda ctx, g: g, save_text, TypeError, "argument 1 is str"),
    ],
)
def test_wrong_results_name_the_function(backward, forward, error, text):
    with pytest.raises(error, match=text) as info:
        grads_of(backward, *([forward] if forward else []))
    assert "WrongBackward" in str(info.value)


def test_results_that_fit():
    assert grads_of(lambda ctx, g: (g, None)).tolist() == [1, 1, 1]  # Nones too many
    assert grads_of(lambda ctx, g: rl.ones(2, 3)).tolist() == [2, 2, 2]  # summed
    assert grads_of(lambda ctx, g: rl.ones(3, dtype=rl.int64)).dtype == rl.float32
    assert grads_of(lambda ctx, g: None) is None


def test_gradient_for_an_argument_that_is_no_tensor():
    F = make(lambda ctx, x, s: x * s, lambda ctx, g: (g, g), name="Wrong")
    with pytest.raises(RuntimeError, match="position 1"):
        F.apply(leaf(1.0), 2.0).backward()


def test_dirty_must_be_returned():
    def forward(ctx, x):
        ctx.mark_dirty(x)

    with pytest.raises(RuntimeError, match="not returned"):
        make(forward).apply(leaf(1.0) * 1)


def test_legacy_style():
    F = make(lambda ctx, x: x)
    with pytest.warns(DeprecationWarning):
        f = F()
    with pytest.raises(RuntimeError, match="static"):
        f(rl.ones(1))


def test_missing_methods():
    class Empty(Function):
        pass

    with pytest.raises(NotImplementedError, match="forward"):
        Empty.apply(rl.ones(1))
    F = type("F", (Function,), {"forward": staticmethod(lambda ctx, x: x * 1)})
    with pytest.raises(NotImplementedError, match="backward"):
        F.apply(leaf(1.0)).backward()


def test_ctx_without_a_graph():
    ctx = FunctionCtx()
    ctx.save_for_backward(rl.ones(1))
    assert len(ctx.to_save) == 1
    kept = []
    make(lambda ctx, x: kept.append(ctx) or x * 2).apply(rl.ones(1))
    assert kept[0].saved_tensors == () and kept[0].needs_input_grad == (False,)
    with pytest.raises(RuntimeError):
        kept[0].next_functions  # noqa: B018


# Memory ------------------------------------------------------------------------------------------


def live_bytes():
    gc.collect()
    return rl.memory_stats()["allocated"]


def test_no_leak_over_many_calls():
    def step():
        x = rl.ones(1000, requires_grad=True)
        a, b = make(lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 3).apply(x)
        y = Cube.apply(a) + b
        y.sum().backward()

    step()
    before = live_bytes()
    for _ in range(20):
        step()
    assert live_bytes() == before


def test_a_long_chain_of_functions_is_freed_without_recursion():
    x = rl.ones(1, requires_grad=True)
    y = x
    F = make(lambda ctx, x: x * 1)
    for _ in range(20_000):
        y = F.apply(y)
    y.backward()
    assert x.grad.item() == 1
    del y


@pytest.mark.parametrize("what", ["output", "ctx holds ctx", "saved object"])
def test_cycles_are_collected(what):
    class Thing:
        pass

    def forward(ctx, x):
        y = x * 2
        if what == "output":
            ctx.kept = y
        elif what == "ctx holds ctx":
            ctx.kept = ctx
        else:
            ctx.thing = Thing()
            ctx.thing.output = y
            ctx.thing.ctx = ctx
        return y

    gc.collect()
    gc.disable()
    try:
        before = rl.memory_stats()["allocated"]
        x = rl.ones(1000, requires_grad=True)
        y = make(forward).apply(x)
        y.sum().backward()
        node = weakref.ref(y.grad_fn)
        del x, y
        assert node() is not None
        gc.collect()
        assert node() is None
        assert rl.memory_stats()["allocated"] == before
    finally:
        gc.enable()


def test_what_is_reachable_is_not_collected():
    def forward(ctx, x):
        y = x * 2
        ctx.kept = y
        return y

    x = leaf(1.0)
    z = make(forward, lambda ctx, g: g * ctx.kept).apply(x) * 3
    gc.collect()
    z.backward()
    assert x.grad.item() == 6


# Threads -----------------------------------------------------------------------------------------


@pytest.mark.threads
def test_threads_apply_and_differentiate():
    errors = []

    def work():
        try:
            for i in range(50):
                x = leaf(1.0, 2.0)
                y = Cube.apply(x) * i
                y.sum().backward()
                assert x.grad.tolist() == [3 * i, 12 * i]
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


@pytest.mark.threads
def test_a_graph_may_die_on_another_thread():
    dead = []

    def forward(ctx, x):
        ctx.thing = threading.Event()
        dead.append(weakref.ref(ctx.thing))
        return x * 1

    y = make(forward).apply(leaf(1.0))
    box = [y]
    del y
    t = threading.Thread(target=box.clear)
    t.start()
    t.join()
    assert dead[0]() is None
