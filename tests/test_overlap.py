"""Outputs that share memory with inputs, against the sets of addresses they reach."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rushlight as rl

PEER = rl.__name__ == "torch"  # it gives up on geometries that are not dense
ROOM = 64


@st.composite
def windows(draw):
    """Two windows of one shape over ROOM elements, neither of which meets itself."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))

    def window():
        strides = [draw(st.integers(1, 12)) for _ in sizes]
        offset = draw(st.integers(0, 12))
        places = [offset]
        for n, s in zip(sizes, strides, strict=True):
            places = [p + i * s for p in places for i in range(n)]
        assume(max(places) < ROOM and len(set(places)) == len(places))
        return strides, offset, places

    return sizes, window(), window()


@pytest.mark.skipif(PEER, reason="finds more than PyTorch does")
@settings(max_examples=300, deadline=None)
@given(windows())
def test_partial_overlap_is_found_and_nothing_else(case):
    sizes, (strides, offset, places), (to_strides, to_offset, to_places) = case
    x = rl.arange(float(ROOM))
    source = x.as_strided(sizes, strides, offset)
    out = x.as_strided(sizes, to_strides, to_offset)
    want = x.tolist()
    meets = bool(set(places) & set(to_places)) and places != to_places
    if meets:
        for call in (lambda: rl.add(source, 1, out=out), lambda: out.mul_(source)):
            with pytest.raises(RuntimeError, match="share some of their memory"):
                call()
    else:
        rl.add(source, 1, out=out)
        for p, q in zip(places, to_places, strict=True):
            want[q] = float(p) + 1
    assert x.tolist() == want


def test_gates_of_one_tensor_may_meet_in_place():
    gates = rl.arange(24.0).reshape(2, 12)
    a, b, c = gates.chunk(3, 1)
    a.mul_(b).add_(c)
    assert gates[1, :4].tolist() == [12 * 16 + 20, 13 * 17 + 21, 14 * 18 + 22, 15 * 19 + 23]
    x = rl.arange(6.0)
    x[::2].add_(x[1::2])
    assert x.tolist() == [1, 1, 5, 3, 9, 5]


def test_copies_of_overlapping_windows_act_as_if_by_a_copy():
    if PEER:
        pytest.skip("refused there")
    x = rl.arange(6.0)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    y = rl.arange(9.0).reshape(3, 3)
    y.copy_(y.t())
    assert y.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_products_into_their_own_input():
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    if not PEER:
        rl.mm(x, x, out=x)
        assert x.tolist() == [[7, 10], [15, 22]]
