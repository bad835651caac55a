"""No int that a program passes makes an op hang, take the machine's memory, or crash."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl

SCRIPT = Path(__file__).parent / "hostile.py"
CALLS = 8000  # a quarter of them; the seed says which


def test_every_op_survives_huge_ints():
    command = [sys.executable, str(SCRIPT), "1", str(CALLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = done.stdout.strip().splitlines()
    assert done.returncode == 0, f"died ({done.returncode}) in call {lines[-1:]}\n{done.stderr}"
    assert re.match(r"done \d{5}", lines[-1])


# ----- what once ran away or crashed


@pytest.mark.parametrize("name", ["tensor_split", "chunk", "unsafe_chunk", "hsplit"])
@pytest.mark.parametrize("count", [2**31, 2**32 + 1, 2**40, 2**62])
def test_pieces_are_counted_before_they_are_made(name, count):
    with pytest.raises(MemoryError, match="pieces"):
        getattr(rl.zeros(0), name)(count)
    if name == "tensor_split":
        with pytest.raises(MemoryError, match="pieces"):
            rl.ones(4).tensor_split(count)


def test_empty_pieces_are_as_many_as_asked_for():
    for name in ("chunk", "unsafe_chunk", "tensor_split", "hsplit"):
        assert [p.shape for p in getattr(rl.zeros(0), name)(100)] == [(0,)] * 100
    assert len(rl.zeros(3, 0).chunk(70, dim=1)) == 70
    assert [len(p) for p in rl.ones(4).tensor_split(6)] == [1, 1, 1, 1, 0, 0]
    assert len(rl.ones(4).chunk(2**62)) == 4 and len(rl.ones(4).split(2**63 - 1)) == 1


def test_sizes_whose_sum_wraps_around():
    with pytest.raises(RuntimeError, match="add up"):
        rl.zeros(0).split([2**62] * 4)
    with pytest.raises(MemoryError):
        rl.ones(1).expand(2**40).unbind()
    with pytest.raises(MemoryError):
        rl.ones(1).expand(2**40).split(1)


def test_kernels_whose_area_wraps_around():
    with pytest.raises(RuntimeError, match="kernel_size"):
        rl.nn.functional.fold(rl.ones(1, 4, 4), (4, 4), 2**40)
    with pytest.raises(RuntimeError, match="fold"):
        rl.nn.functional.fold(rl.ones(1, 4, 4), (4, 4), 2**31 - 1)


@pytest.mark.parametrize("indices", [(), (None,), (None, None)])
@pytest.mark.parametrize("name", ["index_put", "index_put_"])
def test_index_lists_without_an_index(name, indices):
    """PyTorch raises IndexError from index and RuntimeError from index_put: RangeError is both."""
    x, v = rl.zeros(3, 4), rl.ones(3, 4)
    for accumulate in (False, True):
        for error in (IndexError, RuntimeError):
            with pytest.raises(error, match="at least one index"):
                getattr(x, name)(indices, v, accumulate)
    with pytest.raises(RuntimeError, match="at least one index"):
        getattr(rl.zeros(()), name)((), rl.ones(()))
    with pytest.raises(RuntimeError, match="at least one index"):
        getattr(x.to("meta"), name)(indices, v.to("meta"))
    with pytest.raises(RuntimeError, match="at least one index"):
        getattr(x.requires_grad_() * 1, name)(indices, v)
    with pytest.raises(RuntimeError, match="at least one index"):
        rl.func.vmap(lambda s: getattr(s, name)(indices[:1], v[0]))(rl.zeros(3, 4))
    assert not x.detach().any()


def test_indexing_by_none_alone_is_a_view():
    x = rl.zeros(3)
    x[None] = 1
    x[()] += 1
    x[None, None] = rl.ones(1, 1, 3) * 3
    assert x.tolist() == [3, 3, 3] and x[None, None].shape == (1, 1, 3)
    x[[]] = 7
    assert x.tolist() == [3, 3, 3] and x[[]].shape == (0,)


def test_steps_that_no_stride_can_hold():
    x = rl.arange(24.0).reshape(2, 3, 4)
    for step in (2**62, 2**63 - 1):
        assert rl.equal(x[1:4:step], x[1:]) and rl.equal(x[:, ::step], x[:, :1])
        assert x.unfold(1, 2, step).shape == (2, 1, 4, 2)
        assert all(s > 0 for s in x[:, :, ::step].stride())
