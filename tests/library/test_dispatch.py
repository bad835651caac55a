"""__torch_dispatch__: modes, and classes whose objects wrap other tensors."""

import copy
import threading

import pytest

import rushlight as rl
from rushlight import Tensor, nn
from rushlight.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from rushlight.utils._pytree import tree_map

aten = rl.ops.aten


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_every_operator_and_changes_nothing():
    x = rl.randn(3, 4, requires_grad=True)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4))

    def step():
        loss = net(x).exp().sum(dim=(0, 1)) + x.max(0).values[1:].mean() + 2 * x[0, 1]
        return loss, rl.autograd.grad(loss, x)[0]

    loss, grad = step()
    with Log() as log:
        again, again_grad = step()
        y = rl.zeros(2)
        y.add_(1)
        y += 1
        rl.add(y, y, out=y)
        assert y.tolist() == [4.0, 4.0]
    assert rl.equal(loss, again) and rl.equal(grad, again_grad)
    for name in ("linear", "relu", "exp", "sum", "max", "add_", "zeros"):
        assert f"aten::{name}" in log.names, (name, log.names)
    seen = len(log.names)
    rl.ones(2) + 1
    assert len(log.names) == seen and _get_current_dispatch_mode() is None


def test_every_kind_of_result():
    x = rl.tensor([3.0, 1.0, 2.0])
    with Log():
        assert x[0].item() == 3.0 and rl.equal(x, x) is True and (x[0] > 1).item() is True
        assert rl.tensor(7).item() == 7 and x.sum().item() == 6.0
        assert [t.tolist() for t in x.split(2)] == [[3.0, 1.0], [2.0]]
        values, indices = x.sort()
        assert values.tolist() == [1.0, 2.0, 3.0] and indices.tolist() == [1, 2, 0]
        assert rl.promote_types(rl.float32, rl.int64) == rl.float32
        assert rl.allclose(x, x) and bool(x.any()) and len(x) == 3


def test_a_mode_may_change_results():
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is aten.sin.default else out

    x = rl.ones(2)
    with Doubled():
        y = x.sin()
    assert rl.allclose(y, 2 * x.sin())
    with Log() as outer, Log() as inner:
        x.cos()
    assert outer.names == inner.names == ["aten::cos"]


def test_modes_raise_and_leave():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(func.name())

    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return "text"

    for x in (rl.ones(2), rl.ones(100_000)):
        with pytest.raises(KeyError, match="aten::exp"), Refuses():
            x.exp()
        with pytest.raises(TypeError, match="returned str"), Nothing():
            x.exp()
        assert x.exp().shape == x.shape
    with pytest.raises(NotImplementedError, match="TorchDispatchMode"), TorchDispatchMode():
        x.exp()


@pytest.mark.threads
def test_modes_belong_to_a_thread():
    names = []
    with Log() as log:
        thread = threading.Thread(target=lambda: names.append(rl.ones(2).exp().tolist()))
        thread.start()
        thread.join()
    assert names and "aten::exp" not in log.names


class Scaled(Tensor):
    """value * scale, kept apart; what it cannot keep apart becomes a plain tensor."""

    @staticmethod
    def __new__(cls, value, scale):
        return Tensor._make_wrapper_subclass(
            cls, value.shape, strides=value.stride(), dtype=value.dtype, device=value.device
        )

    def __init__(self, value, scale):
        self.value, self.scale = value, scale

    def plain(self):
        return self.value * self.scale

    def __repr__(self):
        return f"Scaled({self.value.tolist()}, {self.scale})"

    def __tensor_flatten__(self):
        return ["value"], {"scale": self.scale}

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["value"], context["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (aten.detach.default, aten.clone.default, aten.alias.default):
            return cls(func(args[0].value), args[0].scale)
        if func is aten.mul.Tensor and not isinstance(args[1], Tensor):
            return cls(args[0].value, args[0].scale * args[1])
        if func is aten.t.default:
            return cls(args[0].value.t(), args[0].scale)
        plain = tree_map(lambda x: x.plain() if isinstance(x, Scaled) else x, (args, kwargs or {}))
        return return_and_correct_aliasing(func, args, kwargs, func(*plain[0], **plain[1]))


def test_wrappers():
    s = Scaled(rl.arange(4.0).reshape(2, 2), 2.0)
    assert s.shape == (2, 2) and s.dtype == rl.float32 and s.device.type == "cpu"
    assert (
        not s.is_meta
        and s.is_cpu
        and not s.is_cuda
        and repr(s) == "Scaled([[0.0, 1.0], [2.0, 3.0]], 2.0)"
    )
    twice = s * 3
    assert type(twice) is Scaled and twice.scale == 6.0 and twice.value is s.value
    assert type(s.t()) is Scaled and type(s.detach()) is Scaled and type(s.clone()) is Scaled
    plain = rl.arange(4.0).reshape(2, 2) * 2
    assert rl.equal(s + 1, plain + 1) and type(s + 1) is not Scaled
    assert rl.equal(1 + s, plain + 1) and rl.equal(-s, -plain) and rl.equal(s @ s, plain @ plain)
    assert rl.equal(s.sum(0), plain.sum(0)) and rl.equal(rl.cat([s, plain]), rl.cat([plain, plain]))
    assert rl.equal(s[0], plain[0]) and rl.equal(s > 2, plain > 2) and rl.equal(5 - s, 5 - plain)
    x = rl.randn(3, 2)
    assert rl.equal(nn.functional.linear(x, s), nn.functional.linear(x, plain))
    assert rl.equal(nn.functional.relu(s), plain.relu()) and rl.equal(s.exp(), plain.exp())
    assert is_traceable_wrapper_subclass(s) and not is_traceable_wrapper_subclass(plain)
    moved = transform_subclass(s, lambda name, t: t + 1)
    assert moved.scale == 2.0 and rl.equal(moved.value, s.value + 1)


def test_gradients_reach_what_is_inside():
    value = rl.arange(4.0).reshape(2, 2).requires_grad_()
    (Scaled(value, 3.0) @ rl.ones(2)).sum().backward()
    assert value.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_wrappers_as_weights():
    """As quantized weights are put into a model."""
    net = nn.Linear(2, 2)
    expected = net(rl.ones(1, 2))
    net.weight = nn.Parameter(Scaled(net.weight.detach() / 4, 4.0), requires_grad=False)
    assert isinstance(net.weight, Scaled)
    assert rl.allclose(net(rl.ones(1, 2)), expected)


def test_a_class_without_torch_function():
    class Bare(Scaled):
        __torch_function__ = rl._C._disabled_torch_function_impl

    b = Bare(rl.ones(2), 2.0)
    assert rl.equal(b + 1, rl.tensor([3.0, 3.0])) and type(b * 2) is Bare


def test_wrappers_that_cannot_be():
    class Plain(Tensor):
        pass

    with pytest.raises(RuntimeError, match="no __torch_dispatch__"):
        Tensor._make_wrapper_subclass(Plain, (2,))

    class Unwilling(Scaled):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="no __torch_dispatch__ of the arguments' types"):
        Unwilling(rl.ones(2), 1.0) + 1


def test_swap_tensors():
    a, b = nn.Parameter(rl.ones(2)), nn.Parameter(rl.zeros(3))
    rl.utils.swap_tensors(a, b)
    assert a.tolist() == [0.0] * 3 and b.tolist() == [1.0] * 2
    assert copy.copy(a).shape == (3,)
