"""vmap of every row, over each tensor argument and over all of them, equals a loop."""

import pytest

import rushlight as rl
from ops import rows
from ops.sample import (
    Inputs,
    assert_near,
    collected,
    dtypes_of,
    leaves,
    main_dtype,
    result_dtypes,
    run,
    tensor_leaves,
)

ROWS = collected(rows.ROWS)
SAMPLES = 3
# What these return is no tensor, or differs in shape from sample to sample.
REFUSED = {
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "equal",
    "allclose", "is_nonzero", "tolist", "item", "resize_", "resize_as_", "as_strided_",
    "unravel_index",
}  # fmt: skip

# Arguments that decide the result's shape by their values.
DECIDES_SHAPE = {"repeat_interleave": 1}


def samples_of(t):
    """Tensors like t: itself, and with its elements in another order."""
    flat = t.reshape(-1)
    return [flat.roll(k).reshape(t.shape) if t.numel() else t.clone() for k in range(SAMPLES)]


def swapped(x, swap):
    if isinstance(x, (list, tuple)):
        return type(x)(swapped(y, swap) for y in x)
    return swap.get(id(x), x)


def check(row, i, dtype):
    args, kwargs = Inputs(row, i, dtype).tensors()
    tensors = tensor_leaves(args, kwargs)
    if not tensors:
        return 0

    def call(*given, chosen):
        swap = {id(tensors[k]): v for k, v in zip(chosen, given, strict=True)}
        out = run(row, swapped(list(args), swap), {k: swapped(v, swap) for k, v in kwargs.items()})
        return tuple(leaves(out))

    choices = [(k,) for k in range(len(tensors))]
    if len(tensors) > 1:
        choices.append(tuple(range(len(tensors))))
    checked = 0
    for chosen in choices:
        columns = [samples_of(tensors[k]) for k in chosen]
        what = f"{row.name} call {i} {dtype}, batched {chosen}"
        try:
            loop = [call(*sample, chosen=chosen) for sample in zip(*columns, strict=True)]
        except (RuntimeError, IndexError, ValueError):
            continue  # the other order of the elements is not a valid argument
        if any(not isinstance(y, rl.Tensor) for y in loop[0]) or row.name in REFUSED:
            continue
        shapes = [[tuple(y.shape) for y in sample] for sample in loop]
        if any(s != shapes[0] for s in shapes):
            continue
        dims = [0 if n % 2 == 0 else tensors[k].dim() for n, k in enumerate(chosen)]
        stacked = [rl.stack(column, dim) for column, dim in zip(columns, dims, strict=True)]
        if row.name == "repeat_interleave" and 1 in chosen:
            continue  # counts that differ from sample to sample are refused
        if row.name.endswith("_") and 0 not in chosen:
            with pytest.raises(RuntimeError, match="room for one sample"):
                rl.vmap(lambda *a, c=chosen: call(*a, chosen=c), in_dims=tuple(dims))(*stacked)
            continue
        if DECIDES_SHAPE.get(row.name) in chosen:
            with pytest.raises(RuntimeError, match="shape of the result depends"):
                rl.vmap(lambda *a, c=chosen: call(*a, chosen=c), in_dims=tuple(dims))(*stacked)
            continue
        try:
            got = rl.vmap(lambda *a, c=chosen: call(*a, chosen=c), in_dims=tuple(dims))(*stacked)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        checked += 1
        for k, column in enumerate(zip(*loop, strict=True)):
            if row.values:
                assert_near(got[k], rl.stack(column), 4 * row.slack, f"{what}, result {k}")
            else:
                assert tuple(got[k].shape) == (SAMPLES, *column[0].shape), what
    return checked


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_equals_a_loop(row):
    dtype = "float64" if "float64" in dtypes_of(row) else main_dtype(row)
    for i in range(len(row.calls)):
        if result_dtypes(row, i, dtype) != []:
            check(row, i, dtype)
