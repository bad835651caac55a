"""Outputs that share memory with inputs, against the sets of addresses they reach."""

import warnings

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


# ----- out= that has to be resized (every op: ops/test_sharing.py)


def quietly(call):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*resized")
        return call()


@pytest.mark.skipif(PEER, reason="reads what it has just resized")
def test_reductions_into_their_own_input():
    def x():
        return rl.arange(512.0) % 7

    for f in (rl.sum, rl.mean, rl.prod, rl.amax, rl.amin, rl.std, rl.norm, rl.logsumexp, rl.any):
        a = x() if f is not rl.any else x() > 3
        want = f(a, dim=0)
        assert quietly(lambda f=f, a=a: f(a, dim=0, out=a)).equal(want) and a.shape == ()
    for f in (rl.min, rl.max, rl.median, rl.nanmedian, rl.mode):
        a, i = x(), rl.empty(0, dtype=rl.int64)
        want = f(a, 0)
        quietly(lambda f=f, a=a, i=i: f(a, 0, out=(a, i)))
        assert a.equal(want.values) and i.equal(want.indices)
    a, i = x(), rl.empty(0, dtype=rl.int64)
    want = rl.topk(a, 3)
    quietly(lambda: rl.topk(a, 3, out=(a, i)))
    assert a.equal(want.values) and i.equal(want.indices)
    m = rl.arange(12.0).reshape(3, 4)
    want = rl.linalg.matrix_norm(m)
    assert quietly(lambda: rl.linalg.matrix_norm(m, out=m)).equal(want)


def test_kthvalue_refuses_its_own_input():
    a = rl.arange(512)
    with pytest.raises(RuntimeError, match="memory"):
        rl.kthvalue(a, 512, out=(a, rl.empty(0, dtype=rl.int64)))
    assert a.equal(rl.arange(512))


def test_a_pointwise_output_that_is_an_input_keeps_its_shape():
    a, b = rl.ones(5), rl.ones(2, 5)
    with pytest.raises(RuntimeError):
        rl.add(a, b, out=a)
    assert a.tolist() == [1] * 5
    x = rl.arange(6.0)
    if not PEER:  # the second window grows over the first
        assert quietly(lambda: rl.add(x[2:4], 1, out=x[1:2])).tolist() == [3, 4]
        assert x.tolist() == [0, 3, 4, 3, 4, 5]


def test_a_result_that_is_an_input():
    x, o = rl.arange(4.0).reshape(2, 2), rl.zeros(4)
    assert quietly(lambda: rl.chain_matmul(x, out=o)) is o
    assert o.equal(x) and rl.chain_matmul(x, out=x) is x


@pytest.mark.skipif(PEER, reason="knows storages only")
def test_memory_that_numpy_lends():
    x = rl.arange(6.0)
    twin = rl.from_numpy(x.numpy())
    for out, source in ((x[1:], twin[:-1]), (twin[1:], x[:-1])):
        with pytest.raises(RuntimeError, match="memory"):
            rl.add(source, 1, out=out)
    quietly(lambda: rl.cummax(twin, 0, out=(x, rl.empty(0, dtype=rl.int64))))
    assert twin.tolist() == [0, 1, 2, 3, 4, 5]
    small = twin[4:]
    with pytest.raises(RuntimeError, match="cannot be resized"):
        rl.neg(rl.ones(9), out=small)
    assert small.shape == (2,) and x.tolist() == [0, 1, 2, 3, 4, 5]


def test_products_and_scatters_whose_other_argument_is_self():
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    if not PEER:
        assert x.clone().addmm_(x, x).equal(x + x @ x)
        y = x.clone()
        y.addmm_(y, y)
        assert y.equal(x + x @ x)
        assert rl.addmm(y, y, y, out=y) is y and y.equal((x + x @ x) + (x + x @ x) @ (x + x @ x))
    i = rl.tensor([1, 0])
    for call in (lambda: i.scatter_(0, i, 3), lambda: i.index_fill_(0, i, 5),
                 lambda: i.put_(i, rl.tensor([1, 2])), lambda: i.index_copy_(0, i, i.clone()),
                 lambda: i.__setitem__(i, i.clone())):  # fmt: skip
        with pytest.raises(RuntimeError, match="memory"):
            call()
    assert i.tolist() == [1, 0]
    p = rl.full((5,), 0.5)
    p.bernoulli_(p)
    with pytest.raises(RuntimeError, match="memory"):
        p[1:].bernoulli_(p[:-1])


@pytest.mark.skipif(PEER, reason="draws into what it reads")
def test_draws_into_their_own_input():
    calls = (rl.bernoulli, lambda p, **kw: rl.normal(p, p, **kw),
             lambda p, **kw: rl.normal(p, **kw),
             lambda p, **kw: rl.normal(2.0, p, **kw))  # fmt: skip
    for f in calls:
        rl.manual_seed(3)
        p = rl.full((3, 4), 0.5)
        want = f(p)
        rl.manual_seed(3)
        assert f(p, out=p) is p and p.equal(want)
    weights = rl.tensor([1, 2, 3])
    with pytest.raises(RuntimeError):
        rl.multinomial(weights.float(), 2, out=weights.expand(2, 3))


@pytest.mark.skipif(PEER, reason="finds more than PyTorch does")
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12)), min_size=1, max_size=4))
def test_a_tensor_that_meets_itself_is_not_written(dims):
    """Windows that share elements, too: each element has to have one place."""
    places = [0]
    for n, s in dims:
        places = [p + i * s for p in places for i in range(n)]
    x = rl.zeros(max(places) + 1)
    view = x.as_strided([n for n, _ in dims], [s for _, s in dims])
    if len(set(places)) < len(places):
        for call in (lambda: view.add_(1), lambda: rl.exp(view.clone(), out=view)):
            with pytest.raises(RuntimeError, match="one memory location"):
                call()
        assert not x.any()
    else:
        view.add_(1)
        assert x.sum().item() == len(places)
