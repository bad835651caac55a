"""no_grad, enable_grad, set_grad_enabled and inference_mode, as blocks and as decorators."""

import threading

import pytest

import rushlight as rl


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


# Blocks and decorators ---------------------------------------------------------------------------


def test_blocks():
    with rl.no_grad():
        assert not rl.is_grad_enabled()
        with rl.enable_grad():
            assert rl.is_grad_enabled()
        assert not rl.is_grad_enabled()
    with rl.set_grad_enabled(False):
        assert not rl.is_grad_enabled()
    assert rl.is_grad_enabled()


def test_mode_is_restored_after_an_exception():
    with pytest.raises(KeyError), rl.no_grad():
        raise KeyError
    assert rl.is_grad_enabled()
    with pytest.raises(KeyError), rl.inference_mode():
        raise KeyError
    assert rl.is_grad_enabled() and not rl.is_inference_mode_enabled()


def test_set_grad_enabled_acts_at_once():
    rl.set_grad_enabled(False)
    assert not rl.is_grad_enabled()
    rl.set_grad_enabled(True)
    assert rl.is_grad_enabled()
    with pytest.raises(TypeError):
        rl.set_grad_enabled(1)
    assert rl.is_grad_enabled()


@pytest.mark.parametrize(
    ("decorator", "grad", "inference"),
    [
        (rl.no_grad, False, False),
        (rl.no_grad(), False, False),
        (rl.enable_grad, True, False),
        (rl.enable_grad(), True, False),
        (lambda f: rl.set_grad_enabled(False)(f), False, False),
        (rl.inference_mode, False, True),
        (rl.inference_mode(), False, True),
        (rl.inference_mode(False), True, False),
    ],
)
def test_decorators(decorator, grad, inference):
    @decorator
    def f(a, b=2):
        """Doc."""
        assert (a, b) == (1, 3)
        return rl.is_grad_enabled(), rl.is_inference_mode_enabled()

    assert f.__name__ == "f" and f.__doc__ == "Doc."
    for outer in (rl.no_grad, rl.enable_grad):
        with outer():
            before = rl.is_grad_enabled()
            assert f(1, b=3) == (grad, inference)
            assert rl.is_grad_enabled() == before


def test_a_decorated_function_may_recurse():
    @rl.no_grad()
    def f(n):
        assert not rl.is_grad_enabled()
        return 0 if n == 0 else f(n - 1)

    f(3)
    assert rl.is_grad_enabled()


def test_generators():
    @rl.no_grad()
    def numbers():
        try:
            assert not rl.is_grad_enabled()
            got = yield 1
            assert not rl.is_grad_enabled()
            try:
                yield got
            except KeyError:
                assert not rl.is_grad_enabled()
                yield "caught"
            return "end"
        finally:
            assert not rl.is_grad_enabled()

    g = numbers()
    assert next(g) == 1 and rl.is_grad_enabled()
    assert g.send(5) == 5 and rl.is_grad_enabled()
    assert g.throw(KeyError()) == "caught" and rl.is_grad_enabled()
    with pytest.raises(StopIteration) as info:
        next(g)
    assert info.value.value == "end" and rl.is_grad_enabled()
    g = numbers()
    next(g)
    g.close()
    assert rl.is_grad_enabled()


def test_classes():
    with pytest.warns(FutureWarning, match="class"):

        @rl.no_grad()
        class C:
            def __init__(self):
                self.grad = rl.is_grad_enabled()

            def method(self):
                return rl.is_grad_enabled()

    c = C()
    assert not c.grad and c.method()


@pytest.mark.threads
def test_threads_start_with_recording_on():
    seen = []
    with rl.no_grad():
        t = threading.Thread(target=lambda: seen.append(rl.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


# Inference mode ----------------------------------------------------------------------------------


def test_what_is_an_inference_tensor():
    a = leaf(1.0, 2.0, 3.0)
    with rl.inference_mode():
        c = a * 1
        assert not rl.is_grad_enabled() and rl.is_inference_mode_enabled()
        assert c.is_inference() and not c.requires_grad and c.grad_fn is None
        assert c[:1].is_inference() and rl.ones(2).is_inference() and rl.tensor(1.0).is_inference()
        assert not a[:2].is_inference() and not a.detach().is_inference()
        assert not a.data.is_inference() and not a.to(rl.float32).is_inference()
        assert a[:2].requires_grad
        x = rl.ones(2, requires_grad=True)
        assert x.requires_grad and x.is_inference() and x.is_leaf
        assert not (x * 2).requires_grad
        with rl.enable_grad():
            assert rl.is_grad_enabled() and not (x * 2).requires_grad
    assert c[:1].is_inference() and c.detach().is_inference() and c.view(3).is_inference()
    assert not (c * 1).is_inference() and not c.clone().is_inference()
    assert not a.is_inference()


def test_rules_for_inference_tensors():
    a = leaf(1.0, 2.0, 3.0)
    with rl.inference_mode():
        c = a * 1
        c.add_(1)
        c[0] = 5.0
    for write in (
        lambda: c.add_(1),
        lambda: c.zero_(),
        lambda: c[:1].add_(1),
        lambda: c.__setitem__(0, 1.0),
    ):
        with pytest.raises(RuntimeError, match=r"(?i)inference"):
            write()
    with pytest.raises(RuntimeError, match=r"(?i)inference"):
        a * c  # would be saved
    with pytest.raises(RuntimeError, match=r"(?i)inference"):
        c.requires_grad_()
    with pytest.raises(RuntimeError, match=r"(?i)inference"):
        c._version  # noqa: B018
    assert (a + c).requires_grad  # saves nothing
    (a * c.clone()).sum().backward()
    assert a.grad.tolist() == [5, 3, 4]
    assert c.requires_grad_(False) is c
    with pytest.raises(RuntimeError, match=r"(?i)inference"):
        rl.add(a.detach(), 1, out=c)


def test_normal_tensors_in_inference_mode():
    m = rl.ones(3)
    with rl.inference_mode():
        m.add_(1)
        assert m._version == 1
    m.add_(1)
    assert m.tolist() == [3, 3, 3]
    with rl.inference_mode(), rl.inference_mode(False):
        assert rl.is_grad_enabled() and not rl.is_inference_mode_enabled()
        assert (leaf(1.0) * 2).requires_grad
    with rl.no_grad(), rl.inference_mode(False):
        assert rl.is_grad_enabled()


@pytest.mark.threads
def test_inference_mode_of_another_thread():
    seen = []
    with rl.inference_mode():
        t = threading.Thread(target=lambda: seen.append(rl.ones(1).is_inference()))
        t.start()
        t.join()
    assert seen == [False]


def test_variable():
    from rushlight.autograd import Variable

    x = rl.ones(2)
    v = Variable(x, requires_grad=True)
    assert v.requires_grad and not x.requires_grad and v.data_ptr() == x.data_ptr()
    assert isinstance(x, Variable) and not Variable(v * 2).requires_grad
