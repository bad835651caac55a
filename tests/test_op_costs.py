"""FLOPs and bytes of calls, by the formulas of the rows; PyTorch's counter gives the same FLOPs
where it has a formula (products, convolutions, attention and their gradients)."""

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.nn import functional as F


def costs(function):
    """{op: (flops, bytes)} summed over the calls."""
    found = {}
    for name, _, flops, moved in _C._op_costs(function):
        before = found.get(name, (0, 0))
        found[name] = (before[0] + flops, before[1] + moved)
    return found


def flops(function):
    return sum(f for _, _, f, _ in _C._op_costs(function))


def ones(*sizes, grad=False):
    return rl.ones(*sizes, requires_grad=grad)


# By hand: a multiplication and the addition after it are two operations.
PRODUCTS = {
    "mm": (lambda: rl.mm(ones(2, 3), ones(3, 5)), 2 * 2 * 3 * 5),
    "matmul": (lambda: ones(2, 3) @ ones(3, 5), 2 * 2 * 3 * 5),
    "addmm": (lambda: rl.addmm(ones(2, 5), ones(2, 3), ones(3, 5)), 2 * 2 * 3 * 5),
    "bmm": (lambda: rl.bmm(ones(4, 2, 3), ones(4, 3, 5)), 2 * 4 * 2 * 3 * 5),
    "baddbmm": (lambda: rl.baddbmm(ones(4, 2, 5), ones(4, 2, 3), ones(4, 3, 5)), 2 * 4 * 2 * 3 * 5),
    "linear": (lambda: F.linear(ones(2, 3), ones(5, 3), ones(5)), 2 * 2 * 3 * 5),
    "mv": (lambda: rl.mv(ones(2, 3), ones(3)), 2 * 2 * 3),
    "dot": (lambda: rl.dot(ones(7), ones(7)), 2 * 7),
    "out": (lambda: rl.mm(ones(2, 3), ones(3, 5), out=rl.empty(2, 5)), 2 * 2 * 3 * 5),
    "in place": (lambda: ones(2, 5).addmm_(ones(2, 3), ones(3, 5)), 2 * 2 * 3 * 5),
    "nothing": (lambda: rl.mm(ones(2, 0), ones(0, 5)), 0),
    # 2 images, 4 -> 6 channels, kernel 3 x 3, output 5 x 5.
    "conv2d": (lambda: F.conv2d(ones(2, 4, 7, 7), ones(6, 4, 3, 3)), 2 * 2 * 6 * 25 * 4 * 9),
    "conv1d": (lambda: F.conv1d(ones(2, 4, 7), ones(6, 4, 3)), 2 * 2 * 6 * 5 * 4 * 3),
    "groups": (
        lambda: F.conv2d(ones(2, 4, 7, 7), ones(6, 2, 3, 3), groups=2),
        2 * 2 * 6 * 25 * 2 * 9,
    ),
    # Transposed: each element of the input meets the whole kernel.
    "conv_transpose2d": (
        lambda: F.conv_transpose2d(ones(2, 4, 7, 7), ones(4, 6, 3, 3)),
        2 * 2 * 49 * 4 * 6 * 9,
    ),
    # Scores and their product with the values: 2 heads x 3 queries x 5 keys x 8, twice.
    "attention": (
        lambda: F.scaled_dot_product_attention(*(ones(1, 2, n, 8) for n in (3, 5, 5))),
        2 * (2 * 2 * 3 * 5 * 8),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    call, want = PRODUCTS[name]
    counted = {op: f for op, (f, _) in costs(call).items() if f and op not in ("mul", "fill_")}
    assert sum(counted.values()) == want, counted


def backward_flops(make, inputs, ops):
    out = make(*inputs)
    grad = rl.ones_like(out)
    found = costs(lambda: out.backward(grad))
    return sum(found.get(op, (0, 0))[0] for op in ops)


def test_gradients_of_convolutions():
    x, w = ones(2, 4, 7, 7, grad=True), ones(6, 4, 3, 3, grad=True)
    ops = ("_convolution_input_grad", "_convolution_weight_grad")
    assert backward_flops(F.conv2d, (x, w), ops) == 2 * (2 * 2 * 6 * 25 * 4 * 9)


def test_gradients_of_grouped_convolutions():
    """PyTorch's counter takes the weight's as if all channels met: more than there are products."""
    x, w = ones(2, 4, 7, 7, grad=True), ones(6, 2, 3, 3, grad=True)
    out = F.conv2d(x, w, groups=2)
    found = costs(lambda: out.backward(rl.ones_like(out)))
    assert found["_convolution_input_grad"][0] == 2 * 2 * 6 * 25 * 2 * 9
    assert found["_convolution_weight_grad"][0] == 2 * 2 * 6 * 25 * 2 * 9


def test_gradients_of_products():
    a, b = ones(2, 3, grad=True), ones(3, 5, grad=True)
    assert backward_flops(rl.mm, (a, b), ("mm",)) == 2 * (2 * 2 * 3 * 5)


def test_gradients_of_attention():
    q, k, v = (ones(1, 2, n, 8, grad=True) for n in (3, 5, 5))
    ops = ("_flash_attention_backward", "bmm", "mm", "baddbmm")
    found = backward_flops(F.scaled_dot_product_attention, (q, k, v), ops)
    assert found == 5 * (2 * 2 * 3 * 5 * 8)  # the scores again, and four products


def test_pointwise_ops_cost_one_operation_an_element():
    x, y = ones(3, 4), ones(4)
    assert costs(lambda: x + y) == {"add": (12, 4 * (12 + 4 + 12))}
    assert costs(lambda: x.exp()) == {"exp": (12, 4 * 24)}
    assert costs(lambda: x.exp_()) == {"exp_": (12, 4 * 24)}
    half = x.half()
    assert costs(lambda: half.exp()) == {"exp": (12, 2 * 24)}


def test_reductions_cost_one_operation_an_element_of_the_input():
    x = ones(3, 4)
    assert costs(lambda: x.sum()) == {"sum": (12, 4 * 13)}
    assert costs(lambda: x.amax(1)) == {"amax": (12, 4 * 15)}


def test_views_and_composites_cost_what_they_call():
    x = ones(3, 4)
    assert flops(lambda: x.t()) == 0 and sum(b for *_, b in _C._op_costs(lambda: x.t())) == 0
    assert set(costs(lambda: rl.hstack([x, x]))) == {"join"}
    assert set(costs(lambda: rl.stack([x, x]))) == {"pile"}
    assert flops(lambda: x.softmax(1)) == 5 * 12


def test_look_ups_read_what_they_return():
    table, rows = ones(1000, 8), rl.tensor([1, 2, 3])
    assert costs(lambda: F.embedding(rows, table))["embedding"] == (0, 8 * 3 + 2 * 4 * 24)


def test_transforms_and_factors():
    x = ones(4, 64)
    assert costs(lambda: rl.fft.rfft(x))["_fft_r2c"][0] == 5 * 4 * 64 * 6 // 2
    a = rl.eye(6).expand(3, 6, 6)
    assert costs(lambda: rl.linalg.cholesky(a))["_cholesky_ex"][0] == 3 * 6**3 // 3
    assert costs(lambda: rl.linalg.solve(a, ones(3, 6, 2)))["_solve_ex"][0] == (
        3 * 2 * 6**3 // 3 + 2 * 3 * 6 * 6 * 2
    )


def test_recurrent_layers():
    net = rl.nn.LSTM(3, 4)
    x = ones(5, 2, 3)
    layer = costs(lambda: net(x))["_rnn_layer"][0]
    assert layer == 2 * (16 * 3 + 16 * 4) * 5 * 2


def test_nothing_is_counted_outside():
    before = _C._op_costs(lambda: None)
    ones(3).exp()
    assert before == _C._op_costs(lambda: None) == []


def test_errors_pass_through():
    with pytest.raises(ZeroDivisionError):
        _C._op_costs(lambda: 1 // 0)
    assert flops(lambda: ones(2).exp()) >= 2
