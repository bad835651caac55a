"""backward() and grad(): what is asked for, what comes back, and what is refused."""

import numpy as np
import pytest

import rushlight as rl


def leaf(*shape, value=1.0, **kwargs):
    return rl.full(shape, value, requires_grad=True, **kwargs)


def same(found, expected):
    np.testing.assert_array_equal(found.detach().numpy(), np.asarray(expected))
    return True


# ---- backward ------------------------------------------------------------------------------------


def test_gradients_add_up():
    x = leaf(3, value=2.0)
    for n in range(1, 4):
        (x * x).sum().backward()
        assert same(x.grad, np.full(3, 4.0 * n))


def test_later_gradients_are_added_in_place():
    x = leaf(3)
    (x * 2).sum().backward()
    first, address = x.grad, x.grad.data_ptr()
    (x * 2).sum().backward()
    assert x.grad is first and x.grad.data_ptr() == address and same(first, [4.0] * 3)


def test_create_graph_does_not_write_into_the_old_gradient():
    x = leaf(3)
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert same(first, [2.0] * 3) and same(x.grad, [4.0] * 3)
    assert x.grad.requires_grad and x.grad.grad_fn is not None


def test_a_computed_input_gets_a_grad():
    x = leaf(3)
    y = x * 2
    z = (y * 3).sum()
    z.backward(inputs=[y], retain_graph=True)
    assert same(y.grad, [3.0] * 3) and x.grad is None
    z.backward(inputs=y)
    assert same(y.grad, [6.0] * 3) and x.grad is None


def test_a_computed_input_keeps_its_grad_from_then_on():
    x = leaf(3)
    y = x * 2
    (y * 3).sum().backward(inputs=[y], retain_graph=True)
    assert y.retains_grad and not x.retains_grad
    (y * 3).sum().backward()
    assert same(y.grad, [6.0] * 3) and same(x.grad, [6.0] * 3)


def test_inputs_on_one_path():
    x = leaf(3)
    y = x * 2
    (y * y).sum().backward(inputs=[x, y])
    assert same(y.grad, [4.0] * 3) and same(x.grad, [8.0] * 3)


def test_inputs_leave_other_leaves_alone():
    x, w, unused = leaf(3), leaf(3), leaf(3)
    (x * w).sum().backward(inputs=[x, unused])
    assert same(x.grad, [1.0] * 3) and w.grad is None and unused.grad is None


def test_roots_given_twice_count_twice():
    x = leaf(3)
    y = (x * 2).sum()
    rl.autograd.backward([y, y])
    assert same(x.grad, [4.0] * 3)


def test_a_root_inside_the_graph_of_another():
    x = leaf(3)
    y = x * 2
    z = y * 3
    rl.autograd.backward([y, z], [rl.ones(3), rl.full((3,), 10.0)])
    assert same(x.grad, [2.0 + 60.0] * 3)


def test_given_and_missing_gradients_mix():
    x = leaf(3)
    rl.autograd.backward([(x * 2).sum(), x * 2], [None, rl.ones(3)])
    assert same(x.grad, [4.0] * 3)


def test_no_roots_is_nothing_to_do():
    assert rl.autograd.backward([], []) is None


def test_a_leaf_is_its_own_root():
    x = leaf(value=3.0)
    x.backward()
    assert same(x.grad, 1.0)
    y = leaf(3)
    g = rl.full((3,), 5.0)
    y.backward(g)
    assert same(y.grad, [5.0] * 3) and y.grad is not g and y.grad.data_ptr() != g.data_ptr()


def test_the_callers_gradient_is_not_touched():
    x = leaf(3, 4)
    g = rl.ones(1).expand(3, 4)
    y = x.view(12).view(3, 4)
    y.backward(g, retain_graph=True)
    y.backward(g)
    assert same(g, np.ones((3, 4))) and same(x.grad, np.full((3, 4), 2.0))
    seed = rl.ones(3, 4)
    (x + x).backward(seed)
    (x * 2.0 + x).backward(seed)
    assert same(seed, np.ones((3, 4)))


def test_a_scalar_of_any_rank_needs_no_gradient():
    x = leaf(1, 1)
    (x * 2).backward()
    assert same(x.grad, [[2.0]])


@pytest.mark.parametrize("dtype", ["float64", "int64", "float16", "bool"])
def test_a_gradient_is_cast(dtype):
    x = leaf(3)
    (x * 2).backward(rl.ones(3, dtype=getattr(rl, dtype)))
    assert x.grad.dtype == rl.float32 and same(x.grad, [2.0] * 3)


def test_a_gradient_with_history_is_cut_unless_a_graph_is_wanted():
    g = leaf(3)
    x = leaf(3)
    (x * 2).backward(g * 1)
    assert not x.grad.requires_grad
    x.grad = None
    (x * 2).backward(g * 1, create_graph=True)
    assert x.grad.requires_grad
    assert same(rl.autograd.grad(x.grad.sum(), g)[0], [2.0] * 3)


def test_flags_may_be_ints():
    x = leaf(3)
    y = (x * x).sum()
    y.backward(retain_graph=1)
    y.backward(create_graph=0)
    assert same(x.grad, [4.0] * 3)


def test_create_graph_keeps_the_graph():
    x = leaf(3)
    y = (x * x).sum()
    y.backward(create_graph=True)
    y.backward()
    assert same(x.grad, [4.0] * 3)
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_a_graph_that_saved_nothing_can_be_walked_again():
    x = leaf(3)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert same(x.grad, [2.0] * 3)


def test_a_leaf_that_no_longer_requires_grad_gets_none():
    x = leaf(3)
    y = (x * 2).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


def test_layout_of_the_gradient_follows_the_leaf():
    x = rl.ones(4, 3).t().requires_grad_()
    (x * 2.0).sum().backward()
    assert x.grad.stride() == x.stride() == (1, 3)
    y = rl.ones(4, 1).expand(4, 3).detach().requires_grad_()
    y.sum().backward()
    assert y.grad.stride() == (3, 1)
    z = leaf(3, 4)
    z.backward(rl.ones(4, 3).t())
    assert z.grad.stride() == (4, 1)


def test_reused_memory_is_nobody_elses():
    """Formulas write into gradients that die; those that somebody holds must stay as they were."""
    x, w = leaf(50, value=2.0), rl.full((50,), 3.0)
    held = []
    y = x * 1.0
    z = y * w
    for t in (y, z):
        t.register_hook(lambda g: held.append((g, g.clone())))
    (g_z,) = rl.autograd.grad((z * w).sum(), z, retain_graph=True)
    (z * w).sum().backward(inputs=[x, z])
    assert same(x.grad, [9.0] * 50) and same(g_z, [3.0] * 50) and same(z.grad, [3.0] * 50)
    assert len(held) >= 2
    for now, then in held:
        assert same(now, then.numpy())
    a = x * 2.0
    b = a * w
    b.grad_fn.register_hook(lambda grad_in, grad_out: held.append((grad_out[0], [5.0] * 50)))
    b.backward(rl.full((50,), 5.0))
    assert same(held[-1][0], held[-1][1])


# ---- grad ----------------------------------------------------------------------------------------


def test_grad_leaves_grads_alone():
    x, w = leaf(3), leaf(3)
    gx, gw = rl.autograd.grad((x * w * 2).sum(), [x, w])
    assert same(gx, [2.0] * 3) and same(gw, [2.0] * 3)
    assert x.grad is None and w.grad is None


def test_one_input_twice_and_a_computed_one():
    x = leaf(3)
    y = x * 2
    found = rl.autograd.grad(y.sum(), [x, x, y])
    assert isinstance(found, tuple)
    assert all(same(g, [v] * 3) for g, v in zip(found, (2.0, 2.0, 1.0), strict=True))


def test_inputs_that_are_roots():
    x = leaf(3)
    y = (x * 2).sum()
    g_y, g_x = rl.autograd.grad(y, [y, x])
    assert same(g_y, 1.0) and same(g_x, [2.0] * 3)
    s = leaf()
    assert same(rl.autograd.grad(s, s)[0], 1.0)
    z = x * 2
    w = z * 2
    g_w, g_z = rl.autograd.grad(w.sum(), [w, z])
    assert same(g_w, [1.0] * 3) and same(g_z, [2.0] * 3)


def test_inputs_of_one_node():
    x = leaf(4)
    a, b = x.view(2, 2).unbind(0)
    ga, gb = rl.autograd.grad((a * 2 + b * 3).sum(), [a, b])
    assert same(ga, [2.0, 2.0]) and same(gb, [3.0, 3.0])
    values, _ = x.sort()
    assert same(rl.autograd.grad(values.sum(), values)[0], np.ones(4))


def test_unused_inputs():
    x, u = leaf(3), leaf(2)
    y = (x + 2).sum()
    with pytest.raises(RuntimeError, match="allow_unused"):
        rl.autograd.grad(y, [x, u])
    gx, gu = rl.autograd.grad(y, [x, u], allow_unused=True)
    assert same(gx, [1.0] * 3) and gu is None
    gx, gu = rl.autograd.grad((x * 2).sum(), [x, u], materialize_grads=True)
    assert same(gx, [2.0] * 3) and same(gu, [0.0, 0.0])
    with pytest.raises(ValueError, match="materialize_grads"):
        rl.autograd.grad(y, [x], allow_unused=False, materialize_grads=True)


def test_inputs_as_a_dict():
    x = leaf(3)
    found = rl.autograd.grad((x * 2).sum(), {"a": x})
    assert list(found) == ["a"] and same(found["a"], [2.0] * 3)


def test_only_inputs_false_warns():
    x = leaf(3)
    with pytest.warns(FutureWarning):
        assert same(rl.autograd.grad((x * 2).sum(), x, only_inputs=False)[0], [2.0] * 3)


def test_only_what_leads_to_an_input_is_freed():
    x, w = leaf(3), leaf(3)
    side = w * w
    y = (x * x).sum() + side.sum()
    rl.autograd.grad(y, x, retain_graph=False)
    assert same(rl.autograd.grad(side.sum(), w)[0], [2.0] * 3)


def test_many_inputs_take_linear_time():
    leaves = [leaf(1) for _ in range(20_000)]
    found = rl.autograd.grad(rl.cat(leaves).sum(), leaves)
    assert len(found) == len(leaves) and all(g.item() == 1.0 for g in found)


def test_second_and_third_derivatives():
    x = rl.tensor([0.5, -1.5], dtype=rl.float64, requires_grad=True)
    y, expected = (x**4).sum(), 1
    for order in range(4):
        (y,) = rl.autograd.grad(y.sum(), x, create_graph=True)
        expected *= 4 - order
        np.testing.assert_allclose(
            y.detach().numpy(), expected * x.detach().numpy() ** (3 - order), rtol=1e-12
        )


# ---- refused -------------------------------------------------------------------------------------

REFUSED = {
    "not a scalar": (RuntimeError, "pass gradient", lambda x: (x * 2).backward()),
    "complex scalar": (RuntimeError, "real", lambda x: leaf(dtype=rl.complex64).backward()),
    "gradient of another shape": (
        RuntimeError, r"\[1, 3\].*\[3\]", lambda x: (x * 2).backward(rl.ones(1, 3))),
    "gradient that would broadcast": (
        RuntimeError, "shape", lambda x: (x * 2).backward(rl.ones(1))),
    "complex gradient": (
        RuntimeError, "complex", lambda x: (x * 2).backward(rl.ones(3, dtype=rl.complex64))),
    "real gradient of a complex tensor": (
        RuntimeError, "complex", lambda x: leaf(3, dtype=rl.complex64).backward(rl.ones(3))),
    "a number for a gradient": (TypeError, "gradient", lambda x: (x * 2).backward(2.0)),
    "a list of numbers": (TypeError, "gradient", lambda x: (x * 2).backward([2.0])),
    "no history": (RuntimeError, "does not require grad", lambda x: rl.ones(1).backward()),
    "integers": (
        RuntimeError, "does not require grad", lambda x: rl.ones(1, dtype=rl.int64).backward()),
    "too few gradients": (
        RuntimeError, "2 tensors and 1 gradient",
        lambda x: rl.autograd.backward([x.sum(), x.sum()], [None])),
    "no inputs": (RuntimeError, "empty", lambda x: x.sum().backward(inputs=[])),
    "grad without inputs": (RuntimeError, "empty", lambda x: rl.autograd.grad(x.sum(), [])),
    "grad of nothing": (RuntimeError, "not used", lambda x: rl.autograd.grad([], [x])),
    "input without grad": (
        RuntimeError, "does not require grad",
        lambda x: rl.autograd.grad(x.sum(), rl.ones(3), allow_unused=True)),
    "backward input without grad": (
        RuntimeError, "does not require grad", lambda x: x.sum().backward(inputs=[rl.ones(3)])),
    "inputs not a sequence": (TypeError, "inputs", lambda x: rl.autograd.grad(x.sum(), 3)),
    "input not a tensor": (RuntimeError, "inputs", lambda x: rl.autograd.grad(x.sum(), [3])),
    "input None": (RuntimeError, "inputs", lambda x: rl.autograd.grad(x.sum(), [None])),
    "backward of a number": (TypeError, "tensors", lambda x: rl.autograd.backward(3)),
    "backward of None": (TypeError, "tensors", lambda x: rl.autograd.backward(None)),
    "gradient not a tensor": (TypeError, "grad_tensors", lambda x: rl.autograd.backward([x], [3])),
    "retain_graph a str": (TypeError, "retain_graph", lambda x: x.sum().backward(None, "yes")),
    "one scalar, one not": (
        RuntimeError, "scalar", lambda x: rl.autograd.grad([x.sum(), x], x, [None, None])),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    error, words, call = REFUSED[case]
    x = leaf(3)
    with pytest.raises(error, match=words):
        call(x)
    assert x.grad is None


@pytest.mark.parametrize("view", [
    lambda x: x.view(64, 128, 128),
    lambda x: x.reshape(-1),
    lambda x: x.unsqueeze(1),
])  # fmt: skip
def test_gradients_that_come_as_views_are_not_copied(view):
    x = rl.zeros(1024, 1024, requires_grad=True)
    y = view(x)
    weights = rl.ones(y.shape)
    out = (y * weights).sum()
    before = rl._C.memory_stats()["allocated"]
    rl._C.reset_peak_memory_stats()
    out.backward()
    assert rl._C.memory_stats()["peak"] - before < 1.5 * x.numel() * 4
    assert (x.grad == 1).all() and x.grad.is_contiguous()


def test_a_gradient_that_others_see_is_copied():
    x, seen = rl.zeros(3, 4, requires_grad=True), []
    y = x.view(12)
    z = y * 1
    z.register_hook(seen.append)
    (z * rl.ones(12)).sum().backward()
    x.grad.zero_()
    assert (seen[0] == 1).all()
    with rl.no_grad():
        base = rl.ones(4)
    w = rl.zeros(2, 2, requires_grad=True)
    w.view(4).backward(base)  # the caller's
    w.grad.zero_()
    assert (base == 1).all()
