"""dtype=rl.bool: elements are converted before they are summed up or multiplied."""

import pytest

import rushlight as rl

ROWS = {
    "int8": [[1, -1, 0], [0, 0, 0], [2, 3, -128]],
    "int64": [[300, 256, 2**33], [1, -1, 0], [0, 0, 0]],
    "float32": [[0.5, 0.5, -1.5], [300.5, -0.25, 0.0], [0.0, -0.0, 0.0]],
    "bfloat16": [[0.5, -0.5, 1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]],
    "complex64": [[1 + 2j, -1 - 2j, 3j], [0j, 1j, -1j], [0j, 0j, 0j]],
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_a_sum_is_any_and_a_product_is_all(name, dim):
    x = rl.tensor(ROWS[name], dtype=getattr(rl, name))
    assert rl.equal(x.sum(dim, dtype=rl.bool), (x != 0).any(dim))
    if not x.is_complex():
        assert rl.equal(x.nansum(dim, dtype=rl.bool), (x != 0).any(dim))
    if isinstance(dim, int):
        assert rl.equal(x.prod(dim, dtype=rl.bool), (x != 0).all(dim))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_are_refused(name):
    for x in (rl.ones(3), rl.ones(3, dtype=rl.bool)):
        with pytest.raises(rl.DTypeError, match="bool"):
            getattr(x, name)(0, dtype=rl.bool)
