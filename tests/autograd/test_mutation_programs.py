"""Random programs of views, in-place writes and reads, against a twin that never mutates.

The twin keeps each base as one flat tensor and each view as an array of positions in it: a read is
an index, a write makes a new flat tensor with those positions replaced. It shares no code with
views, version counters and the rebasing of history, which is what these tests are about.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight as torch

SHAPE = (3, 4)


def leaf(seed, shape=SHAPE):
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return torch.tensor(values, requires_grad=True)


class Twin:
    """The values of one base, and where a view's elements lie in it."""

    def __init__(self, tensor):
        self.flat = tensor.reshape(-1)

    def read(self, positions):
        index = torch.tensor(positions.reshape(-1).copy())
        return self.flat[index].reshape(positions.shape)

    def write(self, positions, value):
        flat = positions.reshape(-1)
        keep = np.ones(self.flat.shape[0], bool)
        keep[flat] = False
        source = np.zeros(self.flat.shape[0], np.int64)
        source[flat] = np.arange(flat.size)
        new = value.expand(positions.shape).reshape(-1)[torch.tensor(source)]
        self.flat = torch.where(torch.tensor(keep), self.flat, new)


VIEWS = {
    "row": lambda v: v[0],
    "last_rows": lambda v: v[1:],
    "column": lambda v: v[..., 1],
    "every_other": lambda v: v[..., ::2],
    "transpose": lambda v: v.T,
    "unsqueeze": lambda v: v[None],
    "all": lambda v: v[...],
    "flat": lambda v: v.reshape(-1) if v.is_contiguous() else v,
    "diagonal": lambda v: v.diagonal() if v.ndim == 2 else v,
}
# The same on an array of positions.
POSITIONS = {
    **VIEWS,
    "flat": lambda p: p.reshape(-1) if p.flags.c_contiguous else p,
    "diagonal": lambda p: p.diagonal() if p.ndim == 2 else p,
}

# Writes: in place on a view, and the values they leave, from the old value and a number tensor.
WRITES = {
    "mul_": (lambda v, w: v.mul_(w), lambda old, w: old * w),
    "add_": (lambda v, w: v.add_(w), lambda old, w: old + w),
    "iadd": (lambda v, w: v.__iadd__(w), lambda old, w: old + w),
    "div_": (lambda v, w: v.div_(w), lambda old, w: old / w),
    "exp_": (lambda v, w: v.exp_(), lambda old, w: old.exp()),
    "sin_": (lambda v, w: v.sin_(), lambda old, w: old.sin()),
    "zero_": (lambda v, w: v.zero_(), lambda old, w: old * 0),
    "fill_": (lambda v, w: v.fill_(w), lambda old, w: old * 0 + w),
    "copy_": (lambda v, w: v.copy_(w), lambda old, w: old * 0 + w),
    "setitem": (lambda v, w: v.__setitem__(..., w), lambda old, w: old * 0 + w),
    "square": (lambda v, w: v.mul_(v), lambda old, w: old * old),
    "masked_fill_": (
        lambda v, w: v.masked_fill_(v.detach() > 1, 0.5),
        lambda old, w: torch.where(old.detach() > 1, torch.full_like(old, 0.5).detach(), old),
    ),
    "addcmul_": (
        lambda v, w: v.addcmul_(w.expand(v.shape), w.expand(v.shape)),
        lambda old, w: old + w * w,
    ),
    "clamp_": (lambda v, w: v.clamp_(0.2, 1.7), lambda old, w: old.clamp(0.2, 1.7)),
}
READS = {  # what they save: nothing, their input, their result
    "sum": lambda v: v.sum(),
    "square": lambda v: (v * v).sum(),
    "exp": lambda v: v.exp().sum(),
}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("view"), st.sampled_from(sorted(VIEWS)), st.integers(0, 9)),
        st.tuples(st.just("write"), st.sampled_from(sorted(WRITES)), st.integers(0, 9)),
        st.tuples(st.just("read"), st.sampled_from(sorted(READS)), st.integers(0, 9)),
    ),
    max_size=9,
)


def run(program, mutate):
    """The inputs and the result. `mutate` says whether views are views."""
    x, w = leaf(0), leaf(1, ())
    base = x * 1.0
    twin = Twin(base)
    views, places = [base], [np.arange(base.numel()).reshape(SHAPE)]
    total = (x * 0.25).sum()
    for kind, name, which in program:
        i = which % len(views)
        if kind == "view":
            try:
                place = np.asarray(POSITIONS[name](places[i]))
            except IndexError:  # too few elements or dimensions for this view
                continue
            if place.size == 0:
                continue
            views.append(VIEWS[name](views[i]) if mutate else None)
            places.append(place)
        elif kind == "write":
            do, value = WRITES[name]
            if mutate:
                do(views[i], w)
            else:
                twin.write(places[i], value(twin.read(places[i]), w))
        else:
            total = total + READS[name](views[i] if mutate else twin.read(places[i]))
    for i in range(len(views)):
        total = total + ((views[i] if mutate else twin.read(places[i])) * (i + 0.5)).sum()
    return (x, w), total


def may_be_unsafe(program):
    """Does a write follow a read that saved the values? Then backward may have to raise."""
    seen = False
    for kind, name, _ in program:
        seen |= kind == "read" and name != "sum"
        # These save values of the very tensor that is written, too.
        if kind == "write" and seen:
            return True
        seen |= kind == "write" and name in ("exp_", "clamp_", "masked_fill_", "square", "div_")
    return False


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_equal_to_the_twin(program):
    (x1, w1), expected = run(program, mutate=False)
    expected.backward()
    (x2, w2), got = run(program, mutate=True)
    np.testing.assert_allclose(got.item(), expected.item(), rtol=1e-12)
    try:
        got.backward()
    except RuntimeError as e:
        assert "overwritten" in str(e)
        assert may_be_unsafe(program), program
        return
    for a, b in ((x1, x2), (w1, w2)):
        want = np.zeros(a.shape) if a.grad is None else a.grad.numpy()
        have = np.zeros(b.shape) if b.grad is None else b.grad.numpy()
        np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12, err_msg=str(program))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_second_derivatives_equal_the_twin(program):
    def second(mutate):
        (x, w), total = run(program, mutate)
        gx, gw = torch.autograd.grad(
            total, (x, w), create_graph=True, allow_unused=True, materialize_grads=True
        )
        again = (gx * gx).sum() + gw * gw
        if not again.requires_grad:
            return [np.zeros(SHAPE), np.zeros(())]
        found = torch.autograd.grad(again, (x, w), allow_unused=True, materialize_grads=True)
        return [g.numpy() for g in found]

    try:
        have = second(mutate=True)
    except RuntimeError as e:
        assert "overwritten" in str(e)
        assert may_be_unsafe(program), program
        return
    for a, b in zip(second(mutate=False), have, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11, err_msg=str(program))


@pytest.mark.parametrize("name", sorted(WRITES))
def test_one_write_between_two_reads(name):
    """Every write through every view, alone: nothing is saved before, so it must not raise."""
    for view in sorted(VIEWS):
        program = [("view", view, 0), ("read", "sum", 1), ("write", name, 1), ("read", "exp", 0)]
        (x1, w1), expected = run(program, mutate=False)
        (x2, w2), got = run(program, mutate=True)
        expected.backward()
        got.backward()
        np.testing.assert_allclose(x2.grad.numpy(), x1.grad.numpy(), rtol=1e-12, atol=1e-14)
        if w1.grad is not None:
            np.testing.assert_allclose(
                0 if w2.grad is None else w2.grad.numpy(), w1.grad.numpy(), rtol=1e-10, atol=1e-14
            )
