"""Derivatives of every row: reverse and forward mode, their second order, and batches of gradients.

The checks compare random projections with central differences (gradcheck's fast mode), in float64
and, where the op takes it, complex128.
"""

import pytest

import rushlight as rl
from ops import rows
from ops.sample import (
    Inputs,
    collected,
    dtypes_of,
    fact,
    facts,
    leaves,
    result_dtypes,
    run,
    tensor_leaves,
)

ROWS = [r for r in collected(rows.ROWS) if r.grad and r.values and facts(r)["grad"]]
each_row = pytest.mark.parametrize("row", ROWS, ids=str)
DTYPES = {"float64": rl.float64, "complex128": rl.complex128}
# Complex gradients at these are not what differences give, nor what PyTorch gives either.
NOT_COMPLEX = {"sgn", "sign"}


def points(row, dtype):
    """The calls of a row that are differentiable: (function of the free tensors, these)."""
    for i, call in enumerate(row.calls):
        if dtype not in dtypes_of(row) or result_dtypes(row, i, dtype) == []:
            continue
        if not (call.grad and fact(row, "grad", i)):
            continue
        args, kwargs = Inputs(row, i, dtype).tensors()
        free = [t for t in tensor_leaves(args, kwargs) if t.dtype == DTYPES[dtype]]
        if not free or not all(t.numel() for t in free):
            continue

        def call_it(*given, args=args, kwargs=kwargs, free=free):
            swap = {id(old): new for old, new in zip(free, given, strict=True)}

            def put(x):
                if isinstance(x, (list, tuple)):
                    return type(x)(put(y) for y in x)
                return swap.get(id(x), x)

            out = leaves(run(row, put(list(args)), {k: put(v) for k, v in kwargs.items()}))
            return tuple(
                y
                for y in out
                if isinstance(y, rl.Tensor) and (y.is_floating_point() or y.is_complex())
            )

        inputs = tuple(t.clone().requires_grad_() for t in free)
        if any(y.requires_grad for y in call_it(*inputs)):
            yield i, call_it, inputs


def cases(row):
    for dtype in DTYPES:
        if dtype == "complex128" and row.name in NOT_COMPLEX:
            continue
        for i, f, inputs in points(row, dtype):
            yield f"{row.name} call {i} {dtype}", f, inputs


@each_row
def test_first_order(row):
    for what, f, inputs in cases(row):
        try:
            rl.autograd.gradcheck(f, inputs, fast_mode=True, check_forward_ad=True)
        except Exception as error:
            raise AssertionError(f"{what}: {error}") from error


@each_row
def test_second_order(row):
    for what, f, inputs in cases(row):
        try:
            rl.autograd.gradgradcheck(f, inputs, fast_mode=True, check_fwd_over_rev=True)
        except Exception as error:
            raise AssertionError(f"{what}: {error}") from error


@each_row
def test_forward_over_reverse(row):
    """Tangents of gradients without a graph: backward must not go through ops that have none."""
    for i, f, inputs in points(row, "float64"):
        seeds = [rl.randn(y.shape, dtype=y.dtype) for y in f(*inputs)]

        def scalar(*given, f=f, seeds=seeds):
            parts = [(y * s).sum() for y, s in zip(f(*given), seeds, strict=True)]
            whole = sum(parts[1:], parts[0])
            return whole.real if whole.is_complex() else whole

        tangents = tuple(rl.randn(t.shape, dtype=t.dtype) for t in inputs)
        firsts = rl.autograd.grad(
            scalar(*inputs), inputs, create_graph=True, allow_unused=True, materialize_grads=True
        )
        along = [(g * t).sum() for g, t in zip(firsts, tangents, strict=True) if g.requires_grad]
        if not along:
            continue
        want = rl.autograd.grad(
            sum(along[1:], along[0]), inputs, allow_unused=True, materialize_grads=True
        )
        gradient = rl.func.grad(scalar, argnums=tuple(range(len(inputs))))
        _, got = rl.func.jvp(gradient, tuple(t.detach() for t in inputs), tangents)
        for a, b in zip(got, want, strict=True):
            assert rl.allclose(a, b, 1e-6, 1e-8, equal_nan=True), f"{row.name} call {i}"


@each_row
def test_batched_gradients(row):
    for what, f, inputs in cases(row):
        try:
            rl.autograd.gradcheck(
                f, inputs, fast_mode=True, check_batched_grad=True, check_forward_ad=True,
                check_batched_forward_grad=True,
            )  # fmt: skip
        except Exception as error:
            raise AssertionError(f"{what}: {error}") from error
