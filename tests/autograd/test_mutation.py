"""What a write does to the graph, case by case; values and rules as PyTorch 2.13 gives them."""

import numpy as np
import pytest

import rushlight as torch

F64 = torch.float64


def leaf(*values, shape=None):
    t = torch.tensor(values, dtype=F64)
    return (t if shape is None else t.reshape(shape)).requires_grad_()


def grad_of(x):
    return x.grad.tolist()


# Writes that rebase history -------------------------------------------------------------------


def test_slice_assignment_into_a_plain_tensor():
    x = leaf(1, 2)
    base = torch.zeros(4, dtype=F64)
    base[1:3] = x * 3
    assert base.requires_grad and not base.is_leaf and base.grad_fn is not None
    (base * torch.arange(4, dtype=F64)).sum().backward()
    assert grad_of(x) == [3, 6]


def test_a_sequence_written_step_by_step():
    w = leaf(0.5)
    out = torch.zeros(5, 2, dtype=F64)
    h = torch.ones(2, dtype=F64)
    for t in range(5):
        h = h * w
        out[t] = h
    out.sum().backward()
    assert grad_of(w) == [pytest.approx(2 * sum(k * 0.5 ** (k - 1) for k in range(1, 6)))]


def test_augmented_assignment_of_a_column():
    x = leaf(1, 2, 3, 4, shape=(2, 2))
    y = x * 1
    y[:, 1] += x[:, 0] * 10
    y[:, 0] *= 2
    y.sum().backward()
    assert grad_of(x) == [[12, 1], [12, 1]]


@pytest.mark.parametrize(
    "index",
    [
        [0, 2],
        torch.tensor([0, 2]),
        torch.tensor([True, False, True]),
        np.array([0, 2]),
        (torch.tensor([0, 2]), slice(None)),
    ],
)
def test_assignment_by_advanced_index(index):
    x, v = leaf(1, 2, 3, 4, 5, 6, shape=(3, 2)), leaf(7, 8)
    y = x * 2
    y[index] = v
    (y * y).sum().backward()
    assert grad_of(x) == [[0, 0], [24, 32], [0, 0]]
    assert grad_of(v) == [28, 32]


def test_accumulating_index_put():
    x, v = leaf(1, 2, 3), leaf(10, 20)
    y = x * 1
    y.index_put_((torch.tensor([1, 1]),), v, accumulate=True)
    (y * torch.tensor([1, 2, 3], dtype=F64)).sum().backward()
    assert grad_of(x) == [1, 2, 3] and grad_of(v) == [2, 2]


@pytest.mark.parametrize(
    "write, gx, gv",
    [
        (lambda y, v: y.masked_fill_(torch.tensor([True, False, True]), 9.0), [0, 1, 0], None),
        (lambda y, v: y.masked_scatter_(torch.tensor([True, False, True]), v), [0, 1, 0], [1, 1]),
        (lambda y, v: y.scatter_(0, torch.tensor([2, 0]), v), [0, 1, 0], [1, 1]),
        (lambda y, v: y.scatter_add_(0, torch.tensor([2, 2]), v), [1, 1, 1], [1, 1]),
        (lambda y, v: y.index_copy_(0, torch.tensor([1, 0]), v), [0, 0, 1], [1, 1]),
        (lambda y, v: y.index_add_(0, torch.tensor([1, 1]), v), [1, 1, 1], [1, 1]),
        (lambda y, v: y.index_fill_(0, torch.tensor([1]), 4.0), [1, 0, 1], None),
        (lambda y, v: y[:2].copy_(v), [0, 0, 1], [1, 1]),
        (lambda y, v: y[1:].add_(v, alpha=3), [1, 1, 1], [3, 3]),
        (lambda y, v: y.uniform_(), [0, 0, 0], None),
        (lambda y, v: y.normal_(), [0, 0, 0], None),
        (lambda y, v: y.zero_(), [0, 0, 0], None),
        (lambda y, v: y.fill_(v[0]), [0, 0, 0], [3, 0]),
    ],
)
def test_writes_of_every_kind(write, gx, gv):
    x, v = leaf(1, 2, 3), leaf(4, 5)
    y = x * 1
    write(y, v)
    y.sum().backward()
    assert grad_of(x) == gx
    assert (v.grad is None) == (gv is None) and (gv is None or grad_of(v) == gv)


def test_views_of_views_see_each_others_writes():
    x = leaf(1, 2, 3, 4)
    base = x * 1
    rows = base.view(2, 2)
    column = rows.t()[0]
    rows[0].mul_(10)
    column.add_(1)
    assert base.tolist() == [11, 20, 4, 4]
    (column * 2 + rows[0]).sum().backward()
    assert grad_of(x) == [30, 10, 2, 0]


def test_a_view_made_before_the_write_reads_the_new_history():
    x = leaf(1, 2, 3)
    base = x * 1
    tail = base[1:]
    base.mul_(x)
    tail.sum().backward()
    assert grad_of(x) == [0, 4, 6]


def test_a_write_into_the_transpose_of_a_transposed_base():
    x = leaf(*range(6), shape=(2, 3))
    base = (x * 1).t().contiguous().t()  # a base that is not row-major
    base[0, 1:] = x[1, 1:] * 5
    (base * base).sum().backward()
    assert grad_of(x) == [[0, 0, 0], [6, 2 * 4 * 26, 2 * 5 * 26]]


def test_real_and_imaginary_parts_are_views():
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    w = leaf(5, 7)
    y = z * 1
    y.real.mul_(w)
    torch.view_as_real(y)[1, 1] = 0.0
    y.abs().pow(2).sum().backward()
    # y = (5 + 2i, 21 + 0i): d|y|^2 = 2 re(y) d re + 2 im(y) d im
    assert z.grad.tolist() == [pytest.approx(50 + 4j), pytest.approx(2 * 21 * 7 + 0j)]
    assert grad_of(w) == [10, 2 * 21 * 3]


def test_copy_converts_and_gradients_convert_back():
    x = torch.tensor([1.0, 2.0], requires_grad=True)  # float32
    y = torch.zeros(2, dtype=F64)
    y.copy_(x)
    (y * 3).sum().backward()
    assert x.grad.dtype == torch.float32 and grad_of(x) == [3, 3]


def test_broadcast_values_get_summed_gradients():
    v = leaf(2)
    y = torch.ones(2, 3, dtype=F64)
    y.mul_(v)
    y[0] = v
    y.sum().backward()
    assert grad_of(v) == [6]


def test_square_in_place():
    x = leaf(3, 4)
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    assert grad_of(x) == [6, 8]


def test_second_derivative_through_writes():
    x = leaf(2, 3)
    y = x * x
    y[0] *= x[1]
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [12, 4 + 6]  # x0^2 x1 + x1^2
    g.sum().backward()
    # g = (2 x0 x1, x0^2 + 2 x1)
    assert grad_of(x) == [2 * 3 + 2 * 2, 2 * 2 + 2]


def test_a_write_whose_old_value_is_differentiated_twice():
    x, w = leaf(2), leaf(5)
    y = x * x * x
    y.mul_(w)  # d/dw reads the old y, which depends on x
    (gw,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    (gx,) = torch.autograd.grad(gw.sum(), x)
    assert gx.tolist() == [12]


def test_gradients_handed_out_are_not_written_later():
    """CopySlices may reuse a gradient in place only when nobody else holds it."""
    x = leaf(1, 2, 3)
    y = x * 1
    y[1:] = y[1:] * 2
    seed = torch.ones(3, dtype=F64)
    y.backward(seed)
    assert seed.tolist() == [1, 1, 1] and grad_of(x) == [1, 2, 2]


# Rules ----------------------------------------------------------------------------------------


def test_data_is_the_users_own_risk():
    x = leaf(1, 2)
    y = x * 1
    z = y * y
    y.data.mul_(10)
    assert y._version == 0
    z.sum().backward()
    assert grad_of(x) == [20, 40]


def test_detach_shares_the_counter():
    x = leaf(1, 2)
    y = x * 1
    d = y.detach()
    d.add_(1)
    assert y._version == d._version == 1 and not d.requires_grad


def test_a_leaf_may_be_written_without_grad_mode():
    x = leaf(1, 2)
    with torch.no_grad():
        x -= 0.5
        x[0] = 9
    assert x.is_leaf and x.requires_grad and x.tolist() == [9, 1.5]
    (x * x).sum().backward()
    assert grad_of(x) == [18, 3]


def test_writes_without_grad_mode_keep_the_history_of_views():
    x = leaf(1, 2, 3)
    y = x.clone()
    v = y[1:]
    with torch.no_grad():
        v.zero_()
    (v * 2).sum().backward()
    assert grad_of(x) == [0, 2, 2]


def test_a_view_made_without_grad_mode():
    x = leaf(1, 2, 3)
    y = x * 1
    with torch.no_grad():
        v = y[1:]
    assert v.grad_fn is None and v.is_leaf and v.requires_grad
    with pytest.raises(RuntimeError, match="grad mode off"):
        v.mul_(2)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="grad mode off.*by mul at .*test_mutation.py"):
        v.sum()


def test_pieces_of_a_split_may_be_written():
    x = leaf(1, 2, 3, 4)
    y = x * 1
    a, b = y.split(2)
    a.mul_(10)
    b.mul_(a.clone())
    y.sum().backward()
    # y = (10 x0, 10 x1, 10 x0 x2, 10 x1 x3)
    assert grad_of(x) == [40, 50, 10, 20]


def test_out_is_refused_where_a_gradient_is_wanted():
    x = leaf(1, 2)
    out = torch.zeros(2, dtype=F64)
    with pytest.raises(RuntimeError, match="out"):
        torch.mul(x, 2, out=out)
    assert out.tolist() == [0, 0]
    with torch.no_grad():
        torch.mul(x, 2, out=out)
    assert out.tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="out"):
        torch.mul(torch.ones(2, dtype=F64), 2, out=(x * 1))


def test_a_failed_write_changes_nothing():
    x = leaf(1, 2)
    y = x * 1
    version, node = y._version, y.grad_fn
    with pytest.raises(RuntimeError):
        y.add_(torch.ones(3, dtype=F64))
    assert y._version == version and y.grad_fn == node and y.tolist() == [1, 2]


def test_data_of_another_kind_is_refused():
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="floating"):
        x.data = torch.zeros(2, dtype=torch.int64)
    x.data = torch.zeros(3, dtype=F64)
    assert x.shape == (3,) and x.requires_grad


def test_a_circle_through_a_saved_input_is_not_made():
    """t is saved by a node, and then gets a history that leads through that node."""
    before = torch.memory_stats()["allocated"]
    for _ in range(20):
        w, t = leaf(*range(1000)), torch.ones(1000, dtype=F64)
        t.add_(w * t)
        del w, t
    after = torch.memory_stats()["allocated"]
    assert after <= before


# Results that no gradient reads may be overwritten --------------------------------------------

nn, F = torch.nn, torch.nn.functional

MAKERS = {
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": F.instance_norm,
    "layer_norm": lambda x: F.layer_norm(x, x.shape[2:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[2:]),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "conv": lambda x: F.conv2d(x, torch.ones(4, 4, 3, 3, dtype=F64)),
    "linear": lambda x: F.linear(x, torch.ones(4, 4, dtype=F64)),
    "max": lambda x: x.max(1)[0],
    "sort": lambda x: x.sort(1)[0],
    "topk": lambda x: x.topk(2, 1)[0],
    "kthvalue": lambda x: x.kthvalue(2, 1)[0],
    "cummax": lambda x: x.cummax(1)[0],
    "median": lambda x: x.median(1)[0],
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_write_to_the_result_that_the_gradient_does_not_read(name):
    """As in Sequential(BatchNorm2d(4), ReLU(inplace=True))."""
    make = MAKERS[name]
    weight = torch.arange(4 * 4 * 4 * 4, dtype=F64).sin().reshape(4, 4, 4, 4)
    x = weight.cos().requires_grad_()
    grads = []
    for write in (lambda y: F.leaky_relu(y, 0.3), lambda y: F.leaky_relu_(y, 0.3)):
        y = write(make(x))
        scale = weight[tuple(slice(n) for n in y.shape)]
        grads.append(torch.autograd.grad((y * scale).sum(), x)[0])
    assert torch.equal(*grads) and grads[0].abs().sum() > 0
