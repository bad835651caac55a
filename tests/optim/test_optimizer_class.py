"""Optimizer: groups, hooks, saved states, errors; and what the fused step refuses."""

import copy
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import optim
from rushlight.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

RULES = [
    optim.SGD, optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad,
    optim.Adadelta, optim.RMSprop, optim.Rprop, optim.ASGD,
]  # fmt: skip


def parameter(*shape, dtype=rl.float32, grad=1.0):
    p = rl.randn(*shape).to(dtype).requires_grad_()
    if grad is not None:
        p.grad = rl.full_like(p, grad).detach()
    return p


@pytest.mark.parametrize("cls", RULES)
@pytest.mark.parametrize("layout", ["transposed", "strided", "grad", "channels_last"])
def test_layouts_step_alike(cls, layout):
    base, grad = rl.randn(2, 6, 4, 5, dtype=rl.float64), rl.randn(2, 6, 4, 5, dtype=rl.float64)
    plain = base.clone().requires_grad_()
    plain.grad = grad.clone()
    room = rl.zeros(2, 6, 4, 10, dtype=rl.float64)
    if layout == "transposed":
        other = base.transpose(1, 3).contiguous().transpose(1, 3).requires_grad_()
    elif layout == "strided":
        other = room[..., ::2]
        other.copy_(base)
        other.requires_grad_()
    elif layout == "channels_last":
        other = base.contiguous(memory_format=rl.channels_last).requires_grad_()
    else:
        other = base.clone().requires_grad_()
    other.grad = grad.transpose(0, 2).contiguous().transpose(0, 2)
    optimizers = [cls([plain]), cls([other])]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.step()
    assert rl.equal(plain, other)
    assert not room[..., 1::2].any()


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
@pytest.mark.parametrize("cls", RULES)
def test_half_precision_computes_in_float(cls, dtype):
    low = rl.randn(2500).to(dtype).requires_grad_()
    low.grad = rl.randn(2500).to(dtype)
    high = low.detach().float().requires_grad_()
    high.grad = low.grad.float()
    for p in (low, high):
        cls([p], lr=0.0625).step()  # a rate that 16 bits can hold: Rprop keeps it as a state
    assert rl.equal(low.detach(), high.detach().to(dtype))


@pytest.mark.parametrize("cls", RULES)
def test_many_tensors_of_mixed_types_in_one_group(cls):
    dtypes = [rl.float32, rl.float64, rl.bfloat16, rl.complex64]
    params = [parameter(n, dtype=dtypes[n % 4], grad=0.5) for n in range(1, 40)]
    alone = [p.detach().clone().requires_grad_() for p in params]
    together = cls(params)
    for _ in range(2):
        together.step()
    for p, q in zip(params, alone, strict=True):
        q.grad = rl.full_like(q, 0.5).detach()
        optimizer = cls([q])
        optimizer.step()
        optimizer.step()
        assert rl.equal(p.detach(), q.detach())


@pytest.mark.threads
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_do_not_change_results(threads):
    before = rl.get_num_threads()
    try:
        rl.set_num_threads(threads)
        rl.manual_seed(1)
        params = [parameter(n) for n in (5, 70_001, 1, 33_333)]
        optimizer = optim.Adam(params, amsgrad=True)
        for p in params:
            p.grad = rl.randn(p.shape)
        optimizer.step()
        total = [p.detach().double().sum().item() for p in params]
    finally:
        rl.set_num_threads(before)
    rl.manual_seed(1)
    params = [parameter(n) for n in (5, 70_001, 1, 33_333)]
    optimizer = optim.Adam(params, amsgrad=True)
    for p in params:
        p.grad = rl.randn(p.shape)
    optimizer.step()
    assert total == [p.detach().double().sum().item() for p in params]


def test_step_counts_as_a_write():
    p = parameter(3)
    loss = (p * p).sum()
    version = p._version
    optimizer = optim.Adam([p])
    optimizer.step()
    assert p._version > version
    with pytest.raises(RuntimeError, match=r"Adam\.step"):
        loss.backward()


def test_shared_memory_is_refused():
    x = rl.zeros(10)
    a, b = x[:6].requires_grad_(), x[4:].requires_grad_()
    a.grad, b.grad = rl.ones(6), rl.ones(6)
    with pytest.raises(RuntimeError, match="share memory"):
        optim.Adam([a, b]).step()
    assert not x.any()
    p = parameter(3)
    p.grad = p.detach()
    with pytest.raises(RuntimeError, match="share memory"):
        optim.SGD([p]).step()


def test_neighbours_in_one_storage_are_fine():
    x = rl.zeros(10)
    a, b = x[::2].requires_grad_(), x[1::2].requires_grad_()
    a.grad, b.grad = rl.ones(5), rl.ones(5)
    optim.SGD([a, b], lr=1.0).step()
    assert (x == -1).all()


def test_expanded_parameter_is_refused():
    p = rl.zeros(1).expand(3).requires_grad_()
    p.grad = rl.ones(3)
    with pytest.raises(RuntimeError, match="more than one index"):
        optim.SGD([p]).step()


def test_repeated_parameter_warns_and_steps_in_turn():
    p = parameter(3)
    start = p.detach().clone()
    with pytest.warns(UserWarning, match="more than once"):
        optimizer = optim.SGD([p, p], lr=1.0)
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), start.numpy() - 2, rtol=1e-6)


def test_wrong_states_are_refused():
    p = parameter(3)
    optimizer = optim.Adam([p])
    optimizer.step()
    before = p.detach().clone()
    for wrong, error in [
        (rl.zeros(4), ValueError),
        (rl.zeros(3, dtype=rl.float64), TypeError),
        ("no tensor", TypeError),
    ]:
        optimizer.state[p]["exp_avg"] = wrong
        with pytest.raises(error):
            optimizer.step()
        assert rl.equal(p.detach(), before)


def test_users_may_change_states_between_steps():
    p = parameter(3)
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    optimizer.state.clear()
    optimizer.step()
    assert optimizer.state[p]["step"] == 1
    optimizer.state[p]["exp_avg"] = rl.full((3,), -100.0)
    q = p.detach().clone()
    optimizer.step()
    assert (p > q).all()


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (optim.SGD, {"lr": -1}),
        (optim.SGD, {"momentum": -0.1}),
        (optim.SGD, {"nesterov": True}),
        (optim.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        (optim.SGD, {"lr": rl.ones(2)}),
        (optim.Adam, {"betas": (1.0, 0.9)}),
        (optim.Adam, {"betas": (0.9, -0.1)}),
        (optim.Adam, {"betas": (0, 0.9)}),
        (optim.Adam, {"eps": -1e-8}),
        (optim.Adam, {"lr": float("nan")}),
        (optim.Adam, {"lr": rl.tensor(0.1), "foreach": True}),
        (optim.AdamW, {"weight_decay": -1}),
        (optim.NAdam, {"momentum_decay": -1}),
        (optim.RAdam, {"betas": (0.9, 1.0)}),
        (optim.Adamax, {"eps": -1}),
        (optim.Adagrad, {"lr_decay": -1}),
        (optim.Adagrad, {"initial_accumulator_value": -1}),
        (optim.Adadelta, {"rho": 1.1}),
        (optim.RMSprop, {"alpha": -0.1}),
        (optim.Rprop, {"etas": (1.0, 0.5)}),
        (optim.ASGD, {"weight_decay": -1}),
        (optim.LBFGS, {"lr": -1}),
        (optim.Adafactor, {"d": 0.5}),
    ],
)
def test_options_out_of_range(cls, options):
    with pytest.raises(ValueError, match=cls.__name__):
        cls([parameter(2)], **options)


def test_what_is_not_supported_says_so():
    p = parameter(2)
    p.grad = rl.ones_like(p)
    with pytest.raises(RuntimeError, match="use Adam"):
        optim.SparseAdam([p]).step()
    with pytest.raises(RuntimeError, match="fused"):
        optim.Adam([parameter(2)], fused=True, foreach=True)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
@pytest.mark.parametrize("bags", [False, True])
def test_a_step_of_a_table_that_no_index_named(name, bags):
    table = (rl.nn.EmbeddingBag if bags else rl.nn.Embedding)(4, 3, sparse=True)
    before = table.weight.detach().clone()
    optimizer = getattr(optim, name)(table.parameters(), lr=0.1)
    empty = rl.zeros(0, dtype=rl.int64)
    out = table(empty, rl.tensor([0, 0])) if bags else table(empty)
    out.sum().backward()
    optimizer.step()
    assert table.weight.grad._nnz() == 0 and rl.equal(table.weight, before)


def test_groups():
    a, b, c = parameter(2), parameter(3), parameter(4)
    optimizer = optim.SGD([{"params": a}, {"params": [b], "lr": 1.0}], lr=0.5)
    optimizer.add_param_group({"params": (c,), "momentum": 0.9})
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 1.0, 0.5]
    assert [g["momentum"] for g in optimizer.param_groups] == [0, 0, 0.9]
    before = [p.detach().clone() for p in (a, b, c)]
    optimizer.step()
    steps = [float((q - p)[0]) for p, q in zip((a, b, c), before, strict=True)]
    np.testing.assert_allclose(steps, [0.5, 1.0, 0.5], rtol=1e-5)
    assert c in optimizer.state
    assert a not in optimizer.state
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [a]})
    with pytest.raises(TypeError, match="dict"):
        optimizer.add_param_group([a])
    with pytest.raises(TypeError, match="set"):
        optim.SGD([{"params": {a}}])
    with pytest.raises(TypeError, match="only tensors"):
        optim.SGD([3])
    with pytest.raises(TypeError, match="iterable"):
        optim.SGD(a)
    with pytest.raises(ValueError, match="empty"):
        optim.SGD([])
    with pytest.raises(ValueError, match="leaf"):
        optim.SGD([a * 2])


def test_named_parameters():
    a, b = parameter(2), parameter(3)
    optimizer = optim.SGD([("first", a), ("second", b)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["first", "second"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["first", "second"]
    with pytest.raises(ValueError, match="names"):
        optimizer.add_param_group({"params": [parameter(1)]})
    with pytest.raises(ValueError, match="names"):
        optim.SGD([("first", a), b])


def test_required_option():
    class Mine(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": optim.optimizer.required})

        def step(self, closure=None):
            pass

    with pytest.raises(ValueError, match="'lr'"):
        Mine([parameter(1)])
    Mine([{"params": [parameter(1)], "lr": 1}])


@pytest.mark.parametrize("cls", RULES)
def test_state_dict_round_trip(cls):
    a, b = parameter(2, 3), parameter(4, dtype=rl.float64)
    first = cls([a, b])
    first.step()
    copies = [p.detach().clone().requires_grad_() for p in (a, b)]
    second = cls(copies)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for p, q in zip((a, b), copies, strict=True):
        p.grad = rl.randn(p.shape, dtype=p.dtype)
        q.grad = p.grad.clone()
    first.step()
    second.step()
    assert rl.equal(a, copies[0])
    assert rl.equal(b, copies[1])


def test_load_state_dict_checks_and_casts():
    a = parameter(2, 3)
    first = optim.Adam([a])
    first.step()
    saved = first.state_dict()
    wide = optim.Adam([a.detach().double().requires_grad_()])
    wide.load_state_dict(saved)
    state = next(iter(wide.state.values()))
    assert state["exp_avg"].dtype == rl.float64
    assert state["step"].dtype == rl.float32
    with pytest.raises(ValueError, match="1 parameter groups"):
        optim.Adam([{"params": [a]}, {"params": [parameter(2)]}]).load_state_dict(saved)
    with pytest.raises(ValueError, match="group 0"):
        optim.Adam([a, parameter(2)]).load_state_dict(saved)


def test_old_checkpoints_with_plain_numbers():
    a = parameter(3)
    optimizer = optim.Adam([a])
    optimizer.step()
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = 1
    del saved["param_groups"][0]["maximize"]
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert optimizer.state[a]["step"].item() == 2


def test_pickle_and_repr():
    a = parameter(3)
    optimizer = optim.RMSprop([a], lr=rl.tensor(0.1), momentum=0.9)
    optimizer.step()
    again = pickle.loads(pickle.dumps(optimizer))
    p = again.param_groups[0]["params"][0]
    assert rl.equal(p, a)
    assert rl.equal(again.state[p]["square_avg"], optimizer.state[a]["square_avg"])
    again.register_step_pre_hook(lambda *args: None)
    again.step()
    text = repr(optim.SGD([a], lr=0.5))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert text.endswith("    weight_decay: 0\n)")


def test_hooks():
    a = parameter(3)
    optimizer = optim.SGD([a])
    seen = []
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("global pre")),
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre")),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("global post")),
    ]
    optimizer.step()
    assert seen == ["global pre", "pre", "post", "global post"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7.0), {}))
    assert optimizer.step() == 7.0
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="pre-hook"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = optim.SGD([parameter(2)])
    optimizer.register_state_dict_pre_hook(lambda o: o.param_groups[0].update(note=1))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 2})
    saved = optimizer.state_dict()
    assert saved["extra"] == 2
    assert saved["param_groups"][0]["note"] == 1
    seen = []
    optimizer.register_load_state_dict_pre_hook(lambda o, s: {**s, "param_groups": s["kept"]})
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o))
    optimizer.load_state_dict({"state": {}, "kept": saved["param_groups"]})
    assert seen == [optimizer]


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none):
    a, b = parameter(2), parameter(2, grad=None)
    optim.SGD([a, b]).zero_grad(set_to_none=set_to_none)
    assert b.grad is None
    assert a.grad is None if set_to_none else not a.grad.any()


def test_closure_runs_with_recording_on():
    a = parameter(3)
    optimizer = optim.Adam([a])

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with rl.no_grad():
        loss = optimizer.step(closure)
    assert loss.requires_grad
    assert optimizer.state[a]["step"] == 1


def test_tensor_lr_is_read_at_each_step():
    a = parameter(1)
    lr = rl.tensor(1.0)
    optimizer = optim.SGD([a], lr=lr)
    start = a.item()
    optimizer.step()
    lr.fill_(2.0)
    optimizer.step()
    np.testing.assert_allclose(start - a.item(), 3.0, rtol=1e-6)


def test_own_optimizer_gets_hooks():
    class Plain(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        @rl.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"])

    a = parameter(2)
    optimizer = Plain([a])
    seen = []
    optimizer.register_step_post_hook(lambda *args: seen.append(1))
    before = a.detach().clone()
    optimizer.step()
    assert seen == [1]
    np.testing.assert_allclose(a.detach().numpy(), before.numpy() - 1, rtol=1e-6)


def test_muon_makes_steps_orthogonal():
    p = parameter(6, 4, dtype=rl.float64)
    p.grad = rl.randn(6, 4, dtype=rl.float64)
    before = p.detach().clone()
    optim.Muon([p], lr=1.0, weight_decay=0.0).step()
    step = (before - p.detach()).numpy() / np.sqrt(6 / 4)
    values = np.linalg.svd(step, compute_uv=False)
    assert values.min() > 0.5
    assert values.max() < 1.3
    with pytest.raises(ValueError, match="two dims"):
        optim.Muon([parameter(3)])


def test_lists_norm_and_scale():
    tensors = [rl.randn(50_000), rl.randn(3, 4).t(), rl.zeros(0), rl.randn(7, dtype=rl.float64)]
    flat = np.concatenate([t.numpy().ravel().astype(np.float64) for t in tensors])
    for ord in (2.0, 1.0, float("inf"), float("-inf"), 3.0, 0.0):
        expected = np.linalg.norm(flat, ord)
        np.testing.assert_allclose(rl._C._list_norm(tensors, ord).item(), expected, rtol=1e-6)
    rl._C._list_scale_(tensors, rl.tensor(0.5))
    after = np.concatenate([t.numpy().ravel().astype(np.float64) for t in tensors])
    np.testing.assert_allclose(after, flat * 0.5, rtol=1e-6)
    tensors[1][0, 0] = float("nan")
    assert rl.isnan(rl._C._list_norm(tensors, float("inf")))


def test_other_parameters_for_a_while():
    p = [rl.ones(3, requires_grad=True), rl.ones(2, requires_grad=True)]
    optimizer = rl.optim.Adam([{"params": p[:1]}, {"params": p[1:], "lr": 0.5}], lr=0.1)
    for t in p:
        t.grad = rl.ones_like(t)
    optimizer.step()
    before = [t.detach().clone() for t in p]
    other = {str(k): t.detach().clone().requires_grad_() for k, t in enumerate(p)}
    for t in other.values():
        t.grad = rl.full_like(t, 2.0)
    given = optimizer.state_dict()
    state = {"param_groups": given["param_groups"],
             "state": {k: {n: v.clone() for n, v in s.items()}
                       for k, s in given["state"].items()}}  # fmt: skip
    with rl.optim.swap_in_optimizer_params_and_state(optimizer, other, state):
        assert optimizer.param_groups[1]["lr"] == 0.5
        optimizer.step()
    assert all(rl.equal(a, b) for a, b in zip(before, p, strict=True))
    assert not any(rl.equal(a, b) for a, b in zip(other.values(), p, strict=True))
    assert state["state"][0]["step"] == 2 and optimizer.state[p[0]]["step"] == 1
    with pytest.raises(ValueError, match="2 parameters"):
        with rl.optim.swap_in_optimizer_params_and_state(optimizer, {}, state):
            pass
