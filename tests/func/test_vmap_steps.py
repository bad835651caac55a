"""The steps of vmap under PyTorch's names, which a package replaces (tensordict does)."""

import pytest

import rushlight as rl
from rushlight._functorch import vmap as steps


class Pair:
    """A container that pytree does not know."""

    def __init__(self, a, b):
        self.a, self.b = a, b


def test_a_package_may_map_over_its_own_containers(monkeypatch):
    process, create, unwrap = (
        steps._process_batched_inputs,
        steps._create_batched_inputs,
        steps._unwrap_batched,
    )
    specs = []

    def opened(in_dims, args, func):
        specs.append(func)
        return process(in_dims, tuple((p.a, p.b) for p in args), func)

    def closed(dims, leaves, level, spec):
        return tuple(Pair(*pair) for pair in create(dims, leaves, level, spec))

    def given(outputs, out_dims, level, size, func):
        return Pair(*unwrap((outputs.a, outputs.b), out_dims, level, size, func))

    monkeypatch.setattr(steps, "_process_batched_inputs", opened)
    monkeypatch.setattr(steps, "_create_batched_inputs", closed)
    monkeypatch.setattr(steps, "_unwrap_batched", given)

    def swapped(pair):
        assert pair.a.dim() == 1  # one sample
        return Pair(pair.b.sum(), pair.a * 2)

    pair = Pair(rl.arange(6.0).reshape(2, 3), rl.ones(2, 4))
    out = rl.vmap(swapped)(pair)
    assert out.a.tolist() == [4, 4] and out.b.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert specs == [swapped]


def test_removing_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"vmap\(f, .*got int"):
        steps._maybe_remove_batch_dim("f", 3, 1, 2, 0)
    assert steps._maybe_remove_batch_dim("f", "text", 1, 2, None) == "text"
    with pytest.raises(IndexError, match="out_dim 5"):
        rl.vmap(lambda x: x, out_dims=5)(rl.ones(2, 3))
    with pytest.raises(ValueError, match="one value for each sample"):
        rl.vmap(lambda x: x, out_dims=None)(rl.ones(2, 3))


def test_chunks_of_any_dimension():
    x = rl.arange(24.0).reshape(2, 3, 4)
    for dim in (0, 1, 2, -1):
        whole = rl.vmap(lambda t: t.cumsum(0), dim, dim)(x)
        assert rl.equal(rl.vmap(lambda t: t.cumsum(0), dim, dim, chunk_size=2)(x), whole)
    with pytest.raises(RuntimeError, match="randomness"):
        rl.vmap(rl.rand_like, randomness="none")(x)
