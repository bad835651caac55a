"""Strides of results as PyTorch 2.13 has them: programs that call view() or view_as_complex()
on results depend on them."""

import numpy as np
import pytest

import rushlight as rl

LAST = rl.channels_last


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (0, (240, 120, 1, 24, 4)),
        (1, (240, 4, 1, 48, 8)),
        (2, (240, 1, 120, 24, 4)),
        (3, (240, 1, 48, 24, 4)),
        (4, (240, 60, 12, 2, 1)),
        (-1, (240, 60, 12, 2, 1)),
    ],
)
def test_stack_of_channels_last(dim, expected):
    x = rl.zeros(2, 4, 5, 6).contiguous(memory_format=LAST)
    assert rl.stack([x, x], dim).stride() == expected
    y = rl.zeros(2, 4, 5, 6)
    contiguous = rl.stack([y, y], dim)
    assert contiguous.is_contiguous() and rl.stack([x, y], dim).stride() == contiguous.stride()


def test_stack_of_permuted_tensors_is_contiguous():
    """With one dim more they look like channels_last, but for the stride of the new dim."""
    x = rl.zeros(2, 3, 4).permute(2, 0, 1)
    for dim in range(4):
        assert rl.stack([x, x], dim).is_contiguous()
    assert rl.view_as_complex(rl.stack([x, x], -1)).shape == (4, 2, 3)


def test_cat_of_slices_of_channels_last():
    x = rl.zeros(2, 4, 5, 6).contiguous(memory_format=LAST)[:, :2]
    assert rl.cat([x, x], 1).stride() == (120, 1, 24, 4)


def test_stack_of_what_does_not_fit():
    with pytest.raises(RuntimeError, match=r"tensor 0 has \[2\], tensor 1 has \[3\]"):
        rl.stack([rl.ones(2), rl.ones(3)])
    with pytest.raises(IndexError):
        rl.stack([rl.ones(2)], 2)
    assert rl.stack([rl.ones(0), rl.ones(0)]).shape == (2, 0)
    assert rl.stack([rl.ones(2), rl.ones(2, dtype=rl.float64)]).dtype == rl.float64


def test_stack_under_vmap_and_forward_mode():
    x = rl.arange(6.0).reshape(2, 3)
    for dim in (0, 1, -1):
        each = rl.func.vmap(lambda row, dim=dim: rl.stack([row, 2 * row], dim))(x)
        assert rl.equal(each, rl.stack([rl.stack([row, 2 * row], dim) for row in x]))
    _, tangent = rl.func.jvp(lambda t: rl.stack([t, t * t], 1), (x,), (rl.ones(2, 3),))
    assert rl.equal(tangent, rl.stack([rl.ones(2, 3), 2 * x], 1))


@pytest.mark.parametrize(
    ("equation", "sizes", "expected"),
    [
        ("ij,jk->ki", [(3, 4), (4, 5)], (3, 1)),
        ("bij,bjk->bki", [(2, 3, 4), (2, 4, 5)], (15, 3, 1)),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], (15, 5, 1)),
        ("bdhw,hkdn->bnk", [(2, 3, 4, 5), (4, 2, 3, 6)], (12, 2, 1)),
        ("hbi,hbj->bhij", [(2, 3, 4), (2, 3, 5)], (20, 60, 5, 1)),
        ("ij,ij->ji", [(3, 4), (3, 4)], (1, 4)),
        ("bn,anm,bm->ba", [(2, 3), (5, 3, 4), (2, 4)], (5, 1)),
        ("bihd,bjhd->bhij", [(2, 4, 3, 5), (2, 6, 3, 5)], (72, 24, 6, 1)),
        ("bhij,bjhd->bihd", [(2, 3, 4, 6), (2, 6, 3, 5)], (60, 5, 20, 1)),
        ("ij,ij->ij", [(3, 4), (3, 4)], (4, 1)),
    ],
)
def test_einsum(equation, sizes, expected):
    operands = [rl.randn(size, dtype=rl.float64) for size in sizes]
    result = rl.einsum(equation, *operands)
    assert result.stride() == expected
    np.testing.assert_allclose(result, np.einsum(equation, *(x.numpy() for x in operands)))


def test_gradients_can_be_flattened_by_view():
    """Products with a transposed factor give its gradient transposed; programs do not see that."""
    x = rl.randn(3, 4)
    weight = rl.randn(5, 4, requires_grad=True)
    (given,) = rl.autograd.grad((x @ weight.t()).square().sum(), weight)
    expected = 2 * (x.numpy() @ weight.detach().numpy().T).T @ x.numpy()
    np.testing.assert_allclose(given.view(-1), expected.reshape(-1), rtol=1e-4, atol=1e-5)
    (x @ weight.t()).square().sum().backward()
    assert weight.grad.stride() == (4, 1)

    lstm = rl.nn.LSTM(3, 4)
    weights = list(lstm.parameters())
    gradients = rl.autograd.grad(lstm(rl.randn(5, 2, 3))[0].sum(), weights, create_graph=True)
    flat = rl.cat([g.view(-1) for g in gradients])
    products = rl.autograd.grad(flat.square().sum(), weights)
    assert rl.cat([g.view(-1) for g in products]).isfinite().all()


def test_gradients_of_means_can_be_written_to():
    y = rl.randn(3, 4, requires_grad=True)
    (given,) = rl.autograd.grad(y.mean(0).sum(), y)
    assert rl.allclose(given.mul_(3), rl.ones(3, 4))


@pytest.mark.parametrize("find", [rl.nonzero, rl.argwhere])
def test_coordinates_of_one_dim_lie_side_by_side(find):
    x = rl.arange(24).reshape(2, 3, 4)
    assert find(x).stride() == (1, 23)
    assert find(x.transpose(0, 2)).stride() == (1, 23)
    assert find(rl.zeros(3, 4)).stride() == (1, 0)
    assert find(rl.ones(4)).stride() == (1, 4)
    assert find(rl.tensor(1)).stride() == (1, 1)
    np.testing.assert_array_equal(find(x), np.argwhere(x.numpy()))


LAID = {
    "contiguous": lambda: rl.arange(24.0).reshape(2, 3, 4),
    "turned": lambda: rl.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
    "apart": lambda: rl.arange(48.0).reshape(2, 3, 8)[..., ::2],
    "channels last": lambda: rl.randn(2, 3, 4, 5).contiguous(memory_format=LAST),
}
REPLACED = {
    "select": (lambda x, src: rl.select_scatter(x, src, 1, 1), lambda x: x.select(1, 1)),
    "slice": (lambda x, src: rl.slice_scatter(x, src, 1, 1, 3), lambda x: x[:, 1:3]),
    "diagonal": (lambda x, src: rl.diagonal_scatter(x, src), lambda x: x.diagonal()),
}


@pytest.mark.parametrize("layout", LAID)
@pytest.mark.parametrize("name", REPLACED)
def test_copies_with_a_part_replaced_lie_as_before(name, layout):
    scatter, part = REPLACED[name]
    x = LAID[layout]().requires_grad_()
    src = rl.full(part(x).shape, -1.0, requires_grad=True)
    y = scatter(x, src)
    assert y.stride() == x.stride()
    expected = x.detach().numpy().copy()
    part(rl.from_numpy(expected))[...] = -1
    np.testing.assert_array_equal(y.detach(), expected)
    y.sum().backward()
    assert (part(x.grad) == 0).all() and x.grad.sum() == x.numel() - src.numel()
    assert (src.grad == 1).all()


def test_parts_of_tensors_whose_rows_overlap():
    x = rl.arange(7.0).as_strided((3, 5), (1, 1))
    y = rl.slice_scatter(x, rl.full((2, 5), 9.0), 0, 1, 3)
    assert y.stride() == (5, 1)
    assert rl.equal(y[0], x[0]) and (y[1:] == 9).all()


def test_parts_of_expanded_tensors():
    x = rl.arange(4.0).expand(2, 3, 4)
    y = rl.select_scatter(x, rl.full((3, 4), 9.0), 0, 1)
    assert y.stride() == (12, 4, 1)
    assert rl.equal(y[0], x[0]) and (y[1] == 9).all()
    y = rl.as_strided_scatter(x, rl.full((2, 2), 9.0), (2, 2), (1, 4))
    assert y.stride() == (12, 4, 1)
    assert (y == 9).sum() == 4 and rl.equal(y[1], x[1])
