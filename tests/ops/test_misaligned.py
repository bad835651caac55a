"""Tensors over memory that is misaligned for their elements: each op's values, gradients, in-place
and out= forms are those over memory of our own, bit by bit, and what is written arrives there.

What goes wrong beside the values, UBSan tells: `make sanitize` runs these tests."""

import pytest

import rushlight as rl
from ops import rows
from ops.sample import (
    Inputs,
    assert_same,
    collected,
    forms,
    leaves,
    lookup,
    main_dtype,
    method,
    misaligned,
    result_dtypes,
    run,
    tensor_leaves,
)

pytestmark = pytest.mark.native
ROWS = collected(rows.ROWS)
each_row = pytest.mark.parametrize("row", ROWS, ids=str)


def calls(row, form=""):
    """The arguments of each call that works and has the form: over our memory, and over theirs."""
    dtype = main_dtype(row)
    for i in range(len(row.calls)):
        if result_dtypes(row, i, dtype) != [] and form in forms(row, i):
            both = [Inputs(row, i, dtype, layout) for layout in ("contiguous", "misaligned")]
            yield f"{row.name} call {i}", *both


def tensors_of(results):
    return [r for r in leaves(results) if isinstance(r, rl.Tensor)]


def same(row, got, want, what):
    if row.values:
        assert_same(got, want, what)


@each_row
def test_values(row):
    for what, ours, theirs in calls(row):
        same(row, run(row, *theirs.tensors()), run(row, *ours.tensors()), what)


def gradients(row, inputs):
    args, kwargs = inputs.tensors()
    free = [t for t in tensor_leaves(args, kwargs) if t.is_floating_point() or t.is_complex()]
    for t in free:
        t.requires_grad_()
    results = [r for r in tensors_of(run(row, args, kwargs)) if r.requires_grad]
    if not results:
        return []
    seeds = [misaligned(rl.ones_like(r)) for r in results]
    return rl.autograd.grad(results, free, seeds, allow_unused=True)


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad and r.values], ids=str)
def test_gradients(row):
    for what, ours, theirs in calls(row):
        if ours.call.grad:
            assert_same(tensors_of(gradients(row, theirs)), tensors_of(gradients(row, ours)), what)


@each_row
def test_in_place(row):
    for what, ours, theirs in calls(row, "i"):
        (args, kwargs), (our_args, our_kwargs) = theirs.tensors(), ours.tensors()
        self, want = args[row.method_self], leaves(run(row, our_args, our_kwargs))[0]
        if self.is_complex() > want.is_complex() or not rl.can_cast(want.dtype, self.dtype):
            continue
        at = self.data_ptr()
        method(row, our_args, our_kwargs, "_")
        assert method(row, args, kwargs, "_") is self
        assert self.data_ptr() == at or not row.layouts, what
        same(row, self, our_args[row.method_self], what)


@each_row
def test_out(row):
    for what, ours, theirs in calls(row, "o"):
        want = run(row, *ours.tensors())
        outs = [misaligned(rl.zeros_like(w)) for w in leaves(want)]
        at = [o.data_ptr() for o in outs]
        args, kwargs = theirs.tensors()
        out = tuple(outs) if isinstance(want, tuple) else outs[0]
        lookup(row.name)(*args, **kwargs, out=out)
        assert [o.data_ptr() for o in outs] == at, what
        same(row, outs, want, what)
