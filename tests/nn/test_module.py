"""nn.Module: attributes, traversal, hooks, state, conversion, and what it says when it fails."""

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.modules import module as module_file


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), Block())
        self.scale = nn.Parameter(rl.ones(4))
        self.register_buffer("mean", rl.zeros(4))
        self.register_buffer("scratch", rl.zeros(1), persistent=False)

    def forward(self, x):
        return self.encoder(x) * self.scale + self.mean


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


# ---- attributes


def test_a_parameter_is_a_tensor_and_its_results_are_plain():
    p = nn.Parameter(rl.ones(2))
    assert isinstance(p, rl.Tensor) and p.requires_grad and p.is_leaf
    assert type(p * 2) is rl.Tensor and type(p.detach()) is rl.Tensor
    assert repr(p).startswith("Parameter containing:\ntensor([1., 1.]")
    assert not nn.Parameter(rl.ones(1), requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)
    assert not isinstance(rl.ones(1), nn.Parameter)
    assert nn.Parameter(p).data_ptr() == p.data_ptr()


def test_a_parameter_of_a_tensor_subclass_keeps_its_class():
    class Mine(rl.Tensor):
        pass

    p = nn.Parameter(Mine([1.0, 2.0]))
    assert type(p) is Mine and isinstance(p, nn.Parameter) and p.requires_grad
    m = nn.Module()
    m.p = p
    assert next(m.parameters()) is p


def test_parameters_copy_and_pickle():
    p = nn.Parameter(rl.ones(2))
    p.note = 1
    p.grad = rl.ones(2)
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(q) is nn.Parameter and q.requires_grad and q.grad is None
        assert q.data_ptr() != p.data_ptr() and rl.equal(q, p)
    assert pickle.loads(pickle.dumps(p)).note == 1
    both = copy.deepcopy([p, p])
    assert both[0] is both[1]


def test_buffers_by_class():
    m = nn.Module()
    m.a = nn.Buffer(rl.ones(2))
    m.b = nn.Buffer(rl.ones(2), persistent=False)
    assert list(m.state_dict()) == ["a"] and [n for n, _ in m.named_buffers()] == ["a", "b"]
    assert isinstance(m.a, nn.Buffer) and type(m.a) is rl.Tensor
    m.b = rl.zeros(2)  # stays out of the state
    assert list(m.state_dict()) == ["a"]


def test_attributes_change_their_kind():
    m = nn.Module()
    m.x = 3
    m.x = nn.Parameter(rl.ones(1))
    assert "x" in m._parameters and "x" not in m.__dict__
    m.register_buffer("b", rl.ones(1), persistent=False)
    m.b = nn.Parameter(rl.ones(1))
    assert "b" in m._parameters and not m._buffers and not m._non_persistent_buffers_set
    m.c = nn.ReLU()
    m.c = None
    assert m._modules == {"c": None} and m.c is None
    m.c = nn.Tanh()
    m.x = None
    assert m._parameters["x"] is None and list(m.parameters()) == [m.b]
    del m.c, m.b
    assert not m._modules and not hasattr(m, "b")


@pytest.mark.parametrize(
    "error, act",
    [
        (TypeError, lambda m: setattr(m, "p", rl.ones(1))),
        (TypeError, lambda m: setattr(m, "c", 3)),
        (TypeError, lambda m: setattr(m, "b", 3)),
        (TypeError, lambda m: setattr(m, "p", nn.ReLU())),
        (KeyError, lambda m: m.register_buffer("a.b", rl.ones(1))),
        (KeyError, lambda m: m.register_buffer("", rl.ones(1))),
        (TypeError, lambda m: m.register_buffer(1, rl.ones(1))),
        (TypeError, lambda m: m.register_buffer("x", 1)),
        (KeyError, lambda m: m.register_buffer("forward", rl.ones(1))),
        (TypeError, lambda m: m.register_parameter("x", rl.ones(1))),
        (KeyError, lambda m: m.register_parameter("c", nn.Parameter(rl.ones(1)))),
        (TypeError, lambda m: m.add_module("x", 3)),
        (TypeError, lambda m: m.add_module(3, nn.ReLU())),
        (KeyError, lambda m: m.add_module("a.b", nn.ReLU())),
        (AttributeError, lambda m: m.nothing),
        (AttributeError, lambda m: delattr(m, "nothing")),
        (AttributeError, lambda m: m.get_submodule("c.x")),
        (AttributeError, lambda m: m.get_submodule("p")),
        (AttributeError, lambda m: m.get_parameter("b")),
        (AttributeError, lambda m: m.get_buffer("p")),
        (ValueError, lambda m: m.set_submodule("", nn.ReLU())),
        (ValueError, lambda m: m.set_submodule("c", 3)),
        (AttributeError, lambda m: m.set_submodule("z", nn.ReLU(), strict=True)),
        (ValueError, lambda m: m.train(3)),
        (TypeError, lambda m: m.to(rl.int32)),
        (TypeError, lambda m: m.to(1, 2, 3, 4, 5)),
        (TypeError, lambda m: m.load_state_dict([])),
        (RuntimeError, lambda m: m.get_extra_state()),
        (NotImplementedError, lambda m: m(1)),
        (TypeError, lambda m: nn.Module(3)),
    ],
)
def test_wrong_uses_raise_what_pytorch_raises(error, act):
    m = nn.Module()
    m.p, m.c = nn.Parameter(rl.ones(1)), nn.ReLU()
    m.register_buffer("b", rl.ones(1))
    with pytest.raises(error):
        act(m)


def test_forgetting_super_init_is_explained():
    class Forgot(nn.Module):
        def __init__(self):
            self.number = 3

    m = Forgot()
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        m(1)
    for value, text in (
        (nn.Parameter(rl.ones(1)), "parameters"),
        (nn.ReLU(), "module"),
        (nn.Buffer(rl.ones(1)), "buffer"),
    ):
        with pytest.raises(AttributeError, match=f"cannot assign {text} before"):
            m.x = value


def test_a_result_is_no_parameter():
    class View(nn.Module):
        pass

    p = nn.Parameter(rl.ones(2))
    with pytest.raises((ValueError, TypeError)):
        View().register_parameter("x", p * 2)


# ---- the tree


def test_names_and_order():
    m = Net()
    assert [n for n, _ in m.named_parameters()] == [
        "scale", "encoder.0.weight", "encoder.0.bias", "encoder.2.fc.weight",
        "encoder.2.fc.bias",
    ]  # fmt: skip
    assert [n for n, _ in m.named_buffers()] == ["mean", "scratch"]
    assert [n for n, _ in m.named_modules()] == [
        "", "encoder", "encoder.0", "encoder.1", "encoder.2", "encoder.2.fc",
    ]  # fmt: skip
    assert [n for n, _ in m.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert [n for n, _ in m.named_children()] == ["encoder"]
    assert m.get_submodule("encoder.2.fc") is m.encoder[2].fc
    assert m.get_parameter("encoder.2.fc.bias") is m.encoder[2].fc.bias
    assert m.get_buffer("mean") is m.mean
    m.set_submodule("encoder.2.fc", nn.Identity())
    assert isinstance(m.encoder[2].fc, nn.Identity)
    assert {"encoder", "scale", "mean"} <= set(dir(m))


def test_shared_parts_come_once_unless_asked():
    shared = nn.Linear(2, 2)
    m = nn.Sequential(shared, shared)
    assert len(list(m.parameters())) == 2 and len(list(m.modules())) == 2
    assert len(list(m.named_parameters(remove_duplicate=False))) == 4
    assert len(list(m.named_modules(remove_duplicate=False))) == 3
    assert len(m.state_dict()) == 4


def test_apply_train_eval_and_grad_switches():
    m, seen = Net(), []
    assert m.apply(lambda x: seen.append(type(x).__name__)) is m
    assert seen == ["Linear", "ReLU", "Linear", "Block", "Sequential", "Net"]
    assert not m.eval().training and not m.encoder[2].fc.training
    assert m.train().encoder[2].fc.training
    m.requires_grad_(False)
    assert not any(p.requires_grad for p in m.parameters())
    m.requires_grad_()
    m(rl.ones(1, 3)).sum().backward()
    grad = m.scale.grad
    m.zero_grad(set_to_none=False)
    assert m.scale.grad is grad and not grad.any()
    m.zero_grad()
    assert m.scale.grad is None


def test_printing():
    m = nn.Sequential(OrderedDict(a=nn.Linear(1, 2), b=nn.Sequential(nn.ReLU(inplace=True))))
    assert repr(m) == (
        "Sequential(\n"
        "  (a): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (b): Sequential(\n"
        "    (0): ReLU(inplace=True)\n"
        "  )\n"
        ")"
    )

    class Odd(nn.Module):
        def extra_repr(self):
            return "one,\ntwo"

    assert repr(Odd()) == "Odd(\n  one,\n  two\n)"


# ---- hooks


def test_forward_hooks_in_order_and_with_kwargs():
    class Add(nn.Module):
        def forward(self, x, y=1):
            return x + y

    m, log = Add(), []
    m.register_forward_pre_hook(lambda m, args: log.append("pre"))
    m.register_forward_pre_hook(lambda m, args: (args[0] * 10,), prepend=True)
    m.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"y": kwargs.get("y", 0) + 100}), with_kwargs=True
    )
    m.register_forward_hook(lambda m, args, out: out + 0.5)
    first = m.register_forward_hook(
        lambda m, args, kwargs, out: log.append((args, kwargs, out)), with_kwargs=True, prepend=True
    )
    assert m(2, y=3) == 123.5
    assert log == ["pre", ((20,), {"y": 103}, 123)]
    first.remove()
    log.clear()
    m(2)
    assert log == ["pre"]
    m._forward_hooks.clear()
    m._forward_pre_hooks.clear()
    assert m(2) == 3


def test_hooks_that_are_always_called():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    m, log = Fails(), []
    m.register_forward_hook(lambda m, a, o: log.append(o), always_call=True)
    m.register_forward_hook(lambda m, a, o: log.append("never"))
    with pytest.raises(ValueError, match="no"):
        m(1)
    assert log == [None]

    def broken(m, a, o):
        raise RuntimeError("hook")

    m.register_forward_hook(broken, always_call=True)
    with pytest.warns(UserWarning, match="hook"), pytest.raises(ValueError, match="no"):
        m(1)


def test_a_wrong_pre_hook_result():
    m = nn.Identity()
    m.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"\(args, kwargs\)"):
        m(1)


def test_global_hooks():
    log = []
    handles = [
        module_file.register_module_forward_pre_hook(lambda m, a: log.append("pre")),
        module_file.register_module_forward_hook(lambda m, a, o: log.append(type(m).__name__)),
    ]
    nn.Sequential(nn.Identity())(1)
    assert log == ["pre", "pre", "Identity", "Sequential"]
    for handle in handles:
        handle.remove()
    log.clear()
    nn.Identity()(1)
    assert not log and not module_file.ANY_GLOBAL


def test_registration_hooks():
    seen = []
    handles = [
        module_file.register_module_parameter_registration_hook(lambda m, n, p: seen.append(n)),
        module_file.register_module_buffer_registration_hook(lambda m, n, b: seen.append(n)),
        module_file.register_module_module_registration_hook(lambda m, n, c: seen.append(n)),
    ]
    m = nn.Module()
    m.p = nn.Parameter(rl.ones(1))
    m.register_buffer("b", rl.ones(1))
    m.c = nn.Identity()
    for handle in handles:
        handle.remove()
    m.q = nn.Parameter(rl.ones(1))
    assert seen == ["p", "b", "c"]


def test_full_backward_hooks_see_and_change_gradients():
    m, log = nn.Linear(2, 3), []
    m.register_full_backward_pre_hook(lambda m, go: log.append(("pre", go[0].shape)))
    handle = m.register_full_backward_hook(
        lambda m, gi, go: log.append((gi[0] is not None, tuple(go[0].shape))) or (gi[0] * 10,)
    )
    x = rl.ones(4, 2, requires_grad=True)
    m(x).sum().backward()
    assert log == [("pre", (4, 3)), (True, (4, 3))]
    assert rl.allclose(x.grad, m.weight.detach().sum(0) * 10)
    handle.remove()
    m.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))
    x.grad = m.bias.grad = None
    m(x).sum().backward()
    assert m.bias.grad.tolist() == [12.0] * 3


def test_full_backward_hooks_without_gradients_of_inputs():
    m, log = nn.Linear(2, 3), []
    m.register_full_backward_hook(lambda m, gi, go: log.append((gi, tuple(go[0].shape))))
    m(rl.ones(4, 2)).sum().backward()
    assert log == [((None,), (4, 3))]
    with rl.no_grad():
        m(rl.ones(4, 2))
    assert len(log) == 1


@pytest.mark.parametrize("wrong", [(1, 2), (None, None)])
def test_a_backward_hook_of_wrong_length(wrong):
    m = nn.Linear(2, 3)
    m.register_full_backward_hook(lambda m, gi, go: wrong)
    with pytest.raises(RuntimeError, match="2 gradients, expected 1"):
        m(rl.ones(1, 2, requires_grad=True)).sum().backward()


def test_backward_hooks_over_several_arguments():
    class Two(nn.Module):
        def forward(self, a, b, flag):
            return a * b, a + b, flag

    m, log = Two(), []
    m.register_full_backward_hook(lambda m, gi, go: log.append([g is not None for g in (*gi, *go)]))
    a, b = rl.ones(2, requires_grad=True), rl.ones(2, requires_grad=True)
    out = m(a, b, 3)
    assert out[2] == 3
    out[0].sum().backward()
    assert log == [[True, True, False, True, False, False]]


def test_two_kinds_of_backward_hooks_do_not_mix():
    m = nn.Linear(1, 1)
    m.register_backward_hook(lambda m, gi, go: None)
    with pytest.raises(RuntimeError, match="full"):
        m.register_full_backward_hook(lambda m, gi, go: None)


def test_a_global_backward_hook():
    log = []
    handle = module_file.register_module_full_backward_hook(
        lambda m, gi, go: log.append(type(m).__name__)
    )
    nn.Sequential(nn.Linear(2, 2), nn.ReLU())(rl.ones(1, 2, requires_grad=True)).sum().backward()
    handle.remove()
    assert log == ["ReLU", "Linear", "Sequential"]


# ---- conversion


def test_conversions_keep_the_objects():
    m = Net()
    ids = [id(p) for p in m.parameters()]
    m(rl.ones(1, 3)).sum().backward()
    assert m.double() is m
    assert [id(p) for p in m.parameters()] == ids
    assert (
        {p.dtype for p in m.parameters()} == {rl.float64} == {p.grad.dtype for p in m.parameters()}
    )
    assert m.mean.dtype == rl.float64
    m.register_buffer("count", rl.zeros(1, dtype=rl.int64))
    m.to(rl.bfloat16)
    assert m.scale.dtype == rl.bfloat16 and m.count.dtype == rl.int64
    assert m.half().scale.dtype == rl.float16 and m.float().scale.dtype == rl.float32
    assert m.to(rl.ones(1, dtype=rl.float64)).scale.dtype == rl.float64
    assert m.type(rl.float32).count.dtype == rl.float32
    assert m.cpu() is m and m.to("cpu") is m and m.to(device="cpu", dtype=rl.float16) is m


def test_meta_and_back():
    m = nn.Linear(2, 3, device="meta")
    assert m.weight.is_meta
    with pytest.raises(NotImplementedError, match="to_empty"):
        m.to("cpu")
    m.to_empty(device="cpu")
    assert not m.weight.is_meta and m.weight.requires_grad and isinstance(m.weight, nn.Parameter)


def test_copies_and_pickles():
    m = Net()
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert repr(other) == repr(m)
        for (name, a), (_, b) in zip(
            m.state_dict().items(), other.state_dict().items(), strict=True
        ):
            assert rl.equal(a, b) and a.data_ptr() != b.data_ptr(), name
        x = rl.ones(2, 3)
        assert rl.equal(other(x), m(x))
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    again = copy.deepcopy(tied)
    assert again[0].weight is again[1].weight


def test_a_module_leaves_no_garbage():
    m = Net()
    m.encoder.register_forward_hook(lambda m, a, o: None)
    dead = weakref.ref(m)
    gc.collect()
    gc.disable()
    try:
        m(rl.ones(1, 3)).sum().backward()
        del m
        assert dead() is None
    finally:
        gc.enable()


# ---- what failed


def test_a_failed_call_leaves_no_garbage():
    m = Net()
    dead = weakref.ref(m)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(rl.ShapeError):
            m(rl.ones(2, 7))
        try:
            m(rl.ones(2, 7))
        except rl.ShapeError as error:
            assert "encoder.0" in str(error)
        del m
        alive = dead() is not None
    finally:
        gc.enable()
    assert not alive


def test_a_property_says_itself_what_is_missing():
    class Bad(nn.Module):
        @property
        def size(self):
            return self.missing

    with pytest.raises(AttributeError, match="'missing'"):
        _ = Bad().size


def test_an_error_names_the_module_once():
    m = Net()
    m.encoder[2].fc = nn.Linear(5, 4)
    with pytest.raises(rl.ShapeError) as info:
        m(rl.ones(2, 3))
    text = str(info.value)
    assert text.count("in module") == 1 and "encoder.2.fc (Linear) of Net" in text
    assert text.startswith("linear: ")
    frames = []
    step = info.value.__traceback__
    while step:
        frames.append(step.tb_frame.f_code.co_name)
        step = step.tb_next
    assert frames.count("forward") == 4 and frames[-1] == "forward"


@pytest.mark.parametrize(
    "fail",
    [
        lambda x: rl.mm(x[None], x),  # a plain RuntimeError
        lambda x: x[7],  # a plain IndexError
        lambda x: nn.functional.dropout(x, 2.0),  # a ValueError, raised in Python
    ],
)
def test_plain_errors_of_ops_carry_the_path_in_their_text(fail):
    class Fails(nn.Module):
        def forward(self, x):
            return fail(x)

    with pytest.raises((RuntimeError, IndexError, ValueError)) as info:
        nn.Sequential(nn.Identity(), nn.Sequential(Fails()))(rl.ones(2, 3))
    assert str(info.value).endswith("\n  in module 1.0 (Fails) of Sequential")


def test_errors_of_the_users_own_keep_identity():
    mine = KeyError("mine")

    class Fails(nn.Module):
        def forward(self, x):
            raise mine

    m = nn.Sequential(nn.ModuleDict({"a": Fails()}), nn.Identity())
    m.forward = lambda x: m[0]["a"](x)
    with pytest.raises(KeyError) as info:
        m(1)
    assert info.value is mine and mine.args == ("mine",)
    if hasattr(mine, "__notes__"):
        assert mine.__notes__ == ["in module 0.a (Fails) of Sequential"]
    with pytest.raises(KeyError):
        m(1)  # the same object again: still one note
    assert len(getattr(mine, "__notes__", [0])) == 1


def test_a_caught_error_is_left_alone():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            try:
                return self.inner(x)
            except RuntimeError as error:
                self.seen = str(error)
                return None

    m = Careful()
    assert m(rl.ones(1, 3)) is None and "in module" not in m.seen


# ---- the summary


def test_summary(capsys):
    m = Net()
    table = m.summary(rl.ones(2, 3))
    printed = capsys.readouterr().out
    assert printed.strip() == str(table)
    rows = {row.path: row for row in table.rows}
    assert rows["encoder.0"].output_shape == [2, 4] and rows["encoder.0"].parameters == 16
    assert rows["encoder.0"].multiply_adds == 2 * 4 * 3
    assert table.parameters == 4 + 16 + 20 and table.multiply_adds == 24 + 2 * 4 * 4
    assert rows["encoder.2.fc"].output_bytes == 2 * 4 * 4
    assert m.training and not m._forward_hooks
    assert "encoder.2.fc" not in printed and "fc: Linear" in printed


def test_calls_without_hooks_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Net()(rl.ones(1, 3))
