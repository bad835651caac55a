"""Everything one row yields. Each test takes a row and loops over its dtypes, calls and layouts."""

import dataclasses
import warnings

import numpy as np
import pytest
from gradcheck import gradcheck

import rushlight as rl
from ops import rows
from ops.sample import (
    COMPLEX,
    LAYOUTS,
    ORACLE,
    PEER,
    RESULTS,
    Call,
    Inputs,
    Spec,
    V,
    assert_near,
    assert_same,
    assert_values,
    collected,
    dtype_name,
    dtypes_of,
    fact,
    facts,
    forms,
    is_int,
    leaves,
    lookup,
    main_dtype,
    method,
    np_dtype,
    result_dtypes,
    row_names,
    run,
    table_names,
    tensor_leaves,
    to_numpy,
)

ROWS = collected(rows.ROWS)
each_row = pytest.mark.parametrize("row", ROWS, ids=str)


def works(row, i, dtype):
    return result_dtypes(row, i, dtype) != []


def check_call(row, i, dtype, layout="contiguous"):
    """Runs one call; checks dtype, values, and that inputs stay as they were."""
    what = f"{row.name} call {i} {dtype} {layout}"
    inputs = Inputs(row, i, dtype, layout)
    args, kwargs = inputs.tensors()
    before = [to_numpy(t).copy() for t in tensor_leaves(args, kwargs)]
    got = leaves(run(row, args, kwargs))
    if not row.name.endswith("_"):
        for t, old in zip(tensor_leaves(args, kwargs), before, strict=False):
            np.testing.assert_array_equal(to_numpy(t), old, err_msg=f"{what} changed its input")
    expected = result_dtypes(row, i, dtype) or []
    found = [dtype_name(g.dtype) if isinstance(g, rl.Tensor) else type(g).__name__ for g in got]
    if expected:
        assert found == expected, f"{what}: result {found}, expected {expected}"
    if not row.values:
        return
    if row.ref is ORACLE:
        if dtype != "float64" or layout == "expanded":
            return
        recorded = [np.array(w) for w in RESULTS["values"][row.name][i]]
        pairs = zip(got, recorded, strict=True)
        want = [w if w.size else w.reshape(tuple(g.shape)) for g, w in pairs]
    else:
        want = inputs.reference(expected)
    assert len(got) == len(want), f"{what}: {len(got)} results, expected {len(want)}"
    for g, w in zip(got, want, strict=False):
        assert_values(g, w, row.slack, what)


# Ops whose results are no tensors of values; the tests that cover them.
WITHOUT_ROW = {
    "can_cast": "test_promotion.py",
    "promote_types": "test_promotion.py",
    "result_type": "test_promotion.py",
    "cpu": "test_data_model.py",
    "is_conj": "test_oracle_signatures.py",
    "is_neg": "test_oracle_signatures.py",
    "log_sigmoid": "the row of nn.functional.logsigmoid",
    "bilinear": "nn/test_linear.py",
    "scaled_dot_product_attention": "nn/test_attention.py",
}


@each_row
def test_values(row):
    for dtype in dtypes_of(row):
        for i in range(len(row.calls)):
            if works(row, i, dtype):
                check_call(row, i, dtype)


@each_row
def test_layouts(row):
    if not row.layouts:
        pytest.skip("the layout is the op's subject")
    for i in range(len(row.calls)):
        for layout in LAYOUTS if works(row, i, main_dtype(row)) else ():
            if not (PEER and layout in row.peer_bugs):
                check_call(row, i, main_dtype(row), layout)


def extreme_values(dtype):
    if dtype == "bool":
        return np.array([False, True])
    if is_int(dtype):
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, 2, info.min + 1], dtype)
    big, tiny = {"float16": (65504.0, 6e-8), "float64": (1.7976931348623157e308, 5e-324)}.get(
        dtype, (3.3895313892515355e38, 1e-40)
    )
    return np.array([0.0, -0.0, 1, -1, 0.5, -2.5, np.inf, -np.inf, np.nan, big, -big, tiny, -tiny])


@pytest.mark.parametrize("row", [r for r in ROWS if r.extremes], ids=str)
def test_extremes(row):
    count = sum(isinstance(a, Spec) for a in row.calls[0].args)
    for dtype in dtypes_of(row):
        if dtype in row.skip_extremes or dtype in COMPLEX:
            continue
        grid = np.meshgrid(*[extreme_values(dtype)] * count)
        call = Call(tuple(V(g.ravel()) for g in grid), row.calls[0].kwargs)
        check_call(dataclasses.replace(row, calls=[call]), 0, dtype)


@each_row
def test_method(row):
    for i in range(len(row.calls)):
        form = forms(row, i)
        if "f" in form and "m" in form:
            inputs = Inputs(row, i, main_dtype(row))
            want = run(row, *inputs.tensors())
            got = method(row, *inputs.tensors())
            if row.values:
                assert_same(got, want, f"method {row.name} call {i}")


@each_row
def test_inplace(row):
    for dtype in dtypes_of(row):
        for i in range(len(row.calls)):
            if "i" in forms(row, i) and works(row, i, dtype):
                check_inplace(row, i, dtype)
    for i in range(len(row.calls)):
        if "I" in forms(row, i) and works(row, i, main_dtype(row)):
            args, kwargs = Inputs(row, i, main_dtype(row)).tensors()
            with pytest.raises((RuntimeError, TypeError, IndexError, ValueError)):
                method(row, args, kwargs, "_")


def check_inplace(row, i, dtype):
    what = f"in-place {row.name}_ call {i} {dtype}"
    inputs = Inputs(row, i, dtype)
    want = leaves(run(row, *inputs.tensors()))[0]
    args, kwargs = inputs.tensors()
    self = args[row.method_self]
    before, pointer = to_numpy(self).copy(), self.data_ptr()
    to_real = self.is_complex() and want.is_floating_point()  # abs_ of complex
    if row.casts_inplace and not rl.can_cast(want.dtype, self.dtype):
        return
    if to_real or not rl.can_cast(want.dtype, self.dtype):
        with pytest.raises(RuntimeError):
            method(row, args, kwargs, "_")
        np.testing.assert_array_equal(to_numpy(self), before, err_msg=f"{what} wrote, then failed")
        return
    got = method(row, args, kwargs, "_")
    assert got is self, what
    assert got.data_ptr() == pointer or not row.layouts, what
    assert_near(got, want.to(self.dtype), row.slack, what)


@each_row
def test_out(row):
    for i in range(len(row.calls)):
        if "o" in forms(row, i) and works(row, i, main_dtype(row)):
            check_out(row, i, main_dtype(row))


def call_out(row, inputs, outs, several):
    args, kwargs = inputs.tensors()
    return lookup(row.name)(*args, **kwargs, out=tuple(outs) if several else outs[0])


def check_out(row, i, dtype):
    what = f"out= {row.name} call {i}"
    inputs = Inputs(row, i, dtype)
    result = run(row, *inputs.tensors())
    several, want = isinstance(result, tuple), leaves(result)
    # an empty out is resized in silence
    outs = [rl.empty(0, dtype=w.dtype) for w in want]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*resized")
        got = call_out(row, inputs, outs, several)
    same = [g is o for g, o in zip(leaves(got), outs, strict=True)]
    assert all(same), f"{what} returns another tensor"
    if row.values:
        assert_same(outs, want, what)
    # a strided out of the right shape keeps its strides
    outs = [rl.zeros(*w.shape, 2, dtype=w.dtype)[..., 1] for w in want]
    strides = [o.stride() for o in outs]
    call_out(row, inputs, outs, several)
    lenient = PEER and "out" in row.peer_bugs
    assert lenient or [o.stride() for o in outs] == strides, f"{what} changed strides"
    if row.values:
        assert_near(outs, want, row.slack, f"{what} strided")
    # a non-empty out of another shape is resized with a warning
    outs = [rl.zeros(*w.shape, 2, dtype=w.dtype) for w in want]
    if all(w.numel() for w in want) and facts(row)["out_resize"]:
        with pytest.warns(UserWarning, match="resized"):
            call_out(row, inputs, outs, several)
        if row.values:
            assert_same(outs, want, f"{what} resized")
    check_out_dtype(row, inputs, want, several, what)


def check_out_dtype(row, inputs, want, several, what):
    if several:
        return
    narrow = {"f": rl.int32, "c": rl.float32}.get(np_dtype(dtype_name(want[0].dtype)).kind)
    if narrow is not None and facts(row)["out_narrow_fails"]:
        out = rl.full(want[0].shape, 7, dtype=narrow)
        with pytest.raises((RuntimeError, TypeError)):
            call_out(row, inputs, [out], several)
        unchanged = bool((out == 7).all()) or (PEER and "out" in row.peer_bugs)
        assert unchanged, f"{what} wrote to out, then failed"
    if facts(row)["out_wider"] and want[0].dtype == rl.float32:
        out = rl.empty(0, dtype=rl.float64)
        call_out(row, inputs, [out], several)
        assert_values(out.to(rl.float32), to_numpy(want[0]), row.slack, f"{what} into float64")


@each_row
def test_meta(row):
    if not row.meta:
        pytest.skip("the shape depends on the data")
    for i in range(len(row.calls)):
        if not works(row, i, main_dtype(row)):
            continue
        if PEER and "meta" in row.peer_bugs:
            continue
        for layout in ("contiguous", "transposed") if row.layouts else ("contiguous",):
            if PEER and layout in row.peer_bugs:
                continue
            check_meta(row, Inputs(row, i, main_dtype(row), layout), f"meta {row.name} call {i}")


def check_meta(row, inputs, what):
    args, kwargs = inputs.tensors()
    want = leaves(run(row, args, kwargs))
    takes_tensors = tensor_leaves(args, kwargs)
    args, kwargs = inputs.tensors(device="meta")
    if not takes_tensors:
        kwargs["device"] = "meta"
    for g, w in zip(leaves(run(row, args, kwargs)), want, strict=False):
        if not isinstance(w, rl.Tensor):
            assert g == w, what
            continue
        assert g.device.type == "meta", what
        assert (g.dtype, tuple(g.shape)) == (w.dtype, tuple(w.shape)), what
        if w.numel() and not PEER:  # PyTorch's two answers differ for some layouts
            assert g.stride() == w.stride(), f"{what}: stride {g.stride()}, real {w.stride()}"


@each_row
def test_grad(row):
    if not row.grad or "float64" not in dtypes_of(row) or not row.values:
        pytest.skip("not differentiable")
    if PEER and "grad" in row.peer_bugs:
        pytest.skip("PyTorch's gradient is wrong")
    checked = 0
    for i in range(len(row.calls)):
        if works(row, i, "float64") and fact(row, "grad", i) and row.calls[i].grad:
            checked += check_grad(row, Inputs(row, i, "float64"))
    assert checked or not facts(row)["grad"], "PyTorch differentiates this op"


def check_grad(row, inputs):
    args, kwargs = inputs.tensors()
    free = [t for t in tensor_leaves(args, kwargs) if t.dtype == rl.float64]

    def f():
        results = leaves(run(row, args, kwargs))
        found = [r for r in results if isinstance(r, rl.Tensor) and r.requires_grad]
        return [rl.stack([r.real, r.imag]) if r.is_complex() else r for r in found]

    for t in free:
        t.requires_grad_()
    if not f():
        return 0
    gradcheck(f, free)
    return 1


@each_row
def test_grad_of_one_input(row):
    """What is kept for backward depends on which inputs require gradients."""
    if not row.grad or "float64" not in dtypes_of(row) or not row.values:
        pytest.skip("not differentiable")
    for i in range(len(row.calls)):
        if not (works(row, i, "float64") and fact(row, "grad", i) and row.calls[i].grad):
            continue
        together = gradients(row, i, None)
        for k in range(len(together) if len(together) > 1 else 0):
            (alone,) = gradients(row, i, k)
            assert (alone is None) == (together[k] is None), f"{row.name} call {i} input {k}"
            if alone is not None:
                assert_near(alone, together[k], what=f"{row.name} call {i} input {k}")


def gradients(row, i, one):
    """With respect to all floats of a call, or to one of them."""
    rl.manual_seed(0)
    args, kwargs = Inputs(row, i, "float64").tensors()
    free = [t for t in tensor_leaves(args, kwargs) if t.dtype == rl.float64]
    free = free if one is None else [free[one]]
    for t in free:
        t.requires_grad_()
    results = leaves(run(row, args, kwargs))
    found = [r for r in results if isinstance(r, rl.Tensor) and r.requires_grad]
    if not found:
        return [None] * len(free)
    seeds = [rl.ones_like(r) for r in found]
    return rl.autograd.grad(found, free, seeds, allow_unused=True)


@pytest.mark.parametrize("row", [r for r in ROWS if r.aliases], ids=str)
def test_aliases(row):
    for alias in row.aliases:
        for i in range(len(row.calls)):
            if works(row, i, main_dtype(row)):
                inputs = Inputs(row, i, main_dtype(row))
                got = run(row, *inputs.tensors(), name=alias)
                assert_same(got, run(row, *inputs.tensors()), f"alias {alias}")


def test_every_op_of_the_table_has_a_row():
    table = table_names()
    assert table
    public = {n for n in table if not n.startswith("_") and n not in WITHOUT_ROW}
    missing = sorted(public - row_names(rows.ROWS) - rows.RANDOM_NAMES)
    assert not missing, f"ops without a row in tests/ops/rows_*.py: {missing}"
