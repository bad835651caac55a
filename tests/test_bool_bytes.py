"""A bool in memory may be any byte; each but 0 is true, whatever is done with it."""

import io
import pickle

import numpy as np
import pytest

import rushlight as rl

BYTES = np.array([0, 1, 2, 0, 3, 255, 128, 0, 254, 16, 0], np.uint8)


def lying(raw, layout):
    """A uint8 tensor of raw's numbers, in that layout, seen as bools."""
    x = rl.from_numpy(raw.copy())
    if layout == "apart":
        wide = rl.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=rl.uint8)
        wide[..., ::2] = x
        return wide.view(rl.bool)[..., ::2]
    if layout == "turned":
        return x.mT.contiguous().mT.view(rl.bool) if x.dim() > 1 else x.view(rl.bool)
    return x.view(rl.bool)


def pairs(shape, layout="plain", first=0):
    """(bools of any bytes, the same as zeros and ones)"""
    raw = np.resize(np.roll(BYTES, first), shape)
    return lying(raw, layout), lying((raw != 0).astype(np.uint8), layout)


UNARY = {
    "sum": lambda x: x.sum(),
    "sum along": lambda x: x.sum(0),
    "mean": lambda x: x.mean(-1, dtype=rl.float32),
    "prod": lambda x: x.prod(),
    "count": lambda x: x.count_nonzero(),
    "count along": lambda x: x.count_nonzero(0),
    "any": lambda x: (x.any(), x.any(0), x.any(-1)),
    "all": lambda x: (x.all(), x.all(0), x.all(-1)),
    "extremes": lambda x: (x.max(), x.min(), x.amax(0), x.amin(-1), *x.aminmax()),
    "argmax": lambda x: (x.max(0), x.min(-1)),
    "cumsum": lambda x: (x.cumsum(0), x.cumprod(-1), x.cummax(0), x.cummin(-1)),
    "conversions": lambda x: [
        x.to(t)
        for t in (rl.uint8, rl.int8, rl.int64, rl.float16, rl.bfloat16, rl.float32, rl.float64)
    ],
    "complex": lambda x: x.to(rl.complex64),
    "not": lambda x: (~x, x.logical_not(), x == 0, x != 1),
    "numbers": lambda x: (x + 1, x * 3, 2 - x.int(), x / 2, x**2, x << 1, x.sin()),
    "nonzero": lambda x: (x.nonzero(), x.nonzero(as_tuple=True), rl.argwhere(x)),
    "sort": lambda x: (x.sort(stable=True), x.sort(0, descending=True, stable=True)),
    "topk": lambda x: (x.topk(2)[0], x.int().kthvalue(2)[0], x.mode()[0]),
    "unique": lambda x: x.unique(return_inverse=True, return_counts=True),
    "runs": lambda x: x.unique_consecutive(return_inverse=True, return_counts=True),
    "where": lambda x: (rl.where(x, 2.0, 3.0), rl.where(x, x, ~x)),
    "indexing": lambda x: rl.arange(x.numel()).reshape(x.shape)[x],
    "text": lambda x: (repr(x), x.tolist()),
    "index_add": lambda x: rl.zeros_like(x).index_add(0, rl.zeros(len(x), dtype=rl.int64), x),
    "scatter_add": lambda x: x.scatter_add(0, rl.zeros(x.shape, dtype=rl.int64), x),
    "item": lambda x: [bool(v) + 0 for v in x.flatten()[:11]],
    "bincount": lambda x: x.flatten().byte().bincount(),
    "dropout": lambda x: rl.native_dropout_backward(rl.ones(x.shape), x, 2.0),
    "stack": lambda x: rl.cat([x.float(), x.float()]).sum(0),
    "mixed": lambda x: rl.cat([x, rl.ones(x.shape)]),
    "tolerance": lambda x: (rl.isclose(x, x), rl.equal(x, x != 0)),
    "diff": lambda x: x.diff(),
    "flips": lambda x: (x.roll(1).sum(0), x.flip(0).sum(-1)),
}
BINARY = {
    name: getattr(rl, name)
    for name in """eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or
    bitwise_xor add mul maximum minimum equal fmax isin""".split()
}


def plain(result):
    """Results as lists, with bools as zeros and ones."""
    if isinstance(result, rl.Tensor):
        if result.dtype == rl.bool:
            bits = result.clone(memory_format=rl.contiguous_format).view(rl.uint8).numpy()
            return (bits != 0).tolist()
        return result.to(rl.complex128).tolist()
    if isinstance(result, list | tuple):
        return [plain(r) for r in result]
    return result


@pytest.mark.parametrize("layout", ["plain", "apart", "turned"])
@pytest.mark.parametrize("shape", [(11,), (7, 33), (4099,)])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name, shape, layout):
    any_bytes, ones = pairs(shape, layout)
    assert plain(UNARY[name](any_bytes)) == plain(UNARY[name](ones))


@pytest.mark.parametrize("layout", ["plain", "apart"])
@pytest.mark.parametrize("shape", [(11,), (7, 33), (4099,)])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name, shape, layout):
    f = BINARY[name]
    x, y = pairs(shape, layout), pairs(shape, first=3)
    assert plain(f(x[0], y[0])) == plain(f(x[1], y[1]))
    row = [v[..., :1] for v in y]
    assert plain(f(x[0], row[0])) == plain(f(x[1], row[1]))
    if name != "equal":
        number = rl.tensor(2)
        assert plain(f(x[0], number)) == plain(f(x[1], number))


@pytest.mark.parametrize("shape", [(11,), (7, 33), (4099,)])
def test_masks(shape):
    any_bytes, ones = pairs(shape)
    x = rl.arange(float(any_bytes.numel())).reshape(shape)
    for f in (
        lambda m: x.masked_fill(m, -1),
        lambda m: x.masked_select(m),
        lambda m: x.masked_scatter(m, -x),
        lambda m: x.clone().index_put_((m,), rl.tensor(5.0)),
        lambda m: rl.where(m, x, -x),
        lambda m: x * m,
        lambda m: rl.masked.sum(x, 0, mask=m),
        lambda m: rl.nn.functional.scaled_dot_product_attention(
            rl.ones(1, 4, 2), rl.ones(1, 4, 2), rl.ones(1, 4, 2), m.flatten()[:4] | rl.eye(4).bool()
        ),
    ):
        assert plain(f(any_bytes)) == plain(f(ones))


def test_in_place():
    for name in "logical_and_ logical_or_ bitwise_xor_ mul_ add_ eq_ ne_".split():
        x, y = pairs((4099,)), pairs((4099,), first=4)
        assert plain(getattr(x[0], name)(y[0])) == plain(getattr(x[1], name)(y[1])), name


def test_results_are_zeros_and_ones():
    x, y = pairs((4099,))[0], pairs((4099,), first=4)[0]
    for result in (x & y, x | y, x ^ y, ~x, x == y, x.any(0), rl.maximum(x, y), x.sort()[0]):
        assert result.view(rl.uint8).max() <= 1


def test_where_such_bytes_come_from():
    want = (BYTES != 0).tolist()
    shared = BYTES.copy()
    ways = [
        rl.frombuffer(bytearray(BYTES.tobytes()), dtype=rl.bool),
        rl.from_numpy(shared.view(bool)),
        rl.from_numpy(BYTES.copy()).view(rl.bool),
    ]
    file = io.BytesIO()
    rl.save(ways[0], file)
    file.seek(0)
    ways += [rl.load(file), pickle.loads(pickle.dumps(ways[0]))]
    for x in ways:
        assert x.tolist() == want
        assert x.sum() == sum(want) and x.float().sum() == sum(want)
        assert (x == rl.tensor(want)).all()
    shared[0] = 77  # NumPy writes to it later
    assert ways[1].sum() == sum(want) + 1
