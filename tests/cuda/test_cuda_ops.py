"""Every op row on the GPU: the results and gradients of the CPU, within the dtype's tolerance."""

import pytest
from ops import rows
from ops.sample import (
    COMPLEX,
    LAYOUTS,
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

import rushlight as rl

ROWS = collected(rows.ROWS)
each_row = pytest.mark.parametrize("row", ROWS, ids=str)


def moved(x):
    """x with its tensors on the GPU, in the same layout."""
    if isinstance(x, rl.Tensor):
        out = rl.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda")
        # An expanded tensor is written through its few elements.
        few = [
            slice(0, 1) if s == 0 and n else slice(None)
            for s, n in zip(x.stride(), x.shape, strict=True)
        ]
        out[tuple(few)].copy_(x[tuple(few)])
        return out
    if isinstance(x, (list, tuple)):
        return type(x)(moved(y) for y in x)
    return x


# Complex sigmoids near their poles, step after step: even on one device another rounding is seen.
ILL_CONDITIONED = {("gru", "complex64")}


def check_call(row, i, dtype, layout="contiguous"):
    what = f"{row.name} call {i} {dtype} {layout}"
    args, kwargs = Inputs(row, i, dtype, layout).tensors()
    if not tensor_leaves(args, kwargs):
        kwargs = {**kwargs, "device": "cpu"}
        try:
            want = leaves(run(row, args, kwargs))
        except (TypeError, RuntimeError):
            return  # takes no tensor and makes none on a device
        got = leaves(run(row, args, {**kwargs, "device": "cuda"}))
    else:
        want = leaves(run(row, args, kwargs))
        try:
            got = leaves(run(row, moved(args), {k: moved(v) for k, v in kwargs.items()}))
        except rl.ArgumentError as error:
            if "on the CPU" in str(error):
                return  # lengths of packed sequences stay on the host
            raise
    assert len(got) == len(want), what
    pairs = [(g, w) for g, w in zip(got, want, strict=True) if isinstance(w, rl.Tensor)]
    for g, w in zip(got, want, strict=True):
        if not isinstance(w, rl.Tensor):
            assert g == w, what
    for g, w in pairs:
        assert g.shape == w.shape, what
        assert g.is_cuda, f"{what}: the result is on {g.device}"
    if row.values:
        slack = 2 * row.slack * (50 if (row.name, dtype) in ILL_CONDITIONED else 1)
        assert_near([g.cpu() for g, _ in pairs], [w for _, w in pairs], slack, what)


@each_row
def test_values_on_the_gpu(row):
    for dtype in dtypes_of(row):
        for i in range(len(row.calls)):
            if result_dtypes(row, i, dtype) != []:
                check_call(row, i, dtype)


@each_row
def test_layouts_on_the_gpu(row):
    if not row.layouts:
        pytest.skip("the layout is the op's subject")
    for i in range(len(row.calls)):
        for layout in LAYOUTS if result_dtypes(row, i, main_dtype(row)) != [] else ():
            check_call(row, i, main_dtype(row), layout)


@each_row
def test_gradients_on_the_gpu(row):
    if not row.grad or "float64" not in dtypes_of(row):
        pytest.skip("not differentiable")
    done = 0
    for i, call in enumerate(row.calls):
        if not call.grad or result_dtypes(row, i, "float64") == []:
            continue
        gradients = []
        for place in ("cpu", "cuda"):
            args, kwargs = Inputs(row, i, "float64").tensors()
            if place == "cuda":
                args, kwargs = moved(args), {k: moved(v) for k, v in kwargs.items()}
            inputs = [t for t in tensor_leaves(args, kwargs) if t.is_floating_point()]
            for t in inputs:
                t.requires_grad_()
            rl.manual_seed(0)
            try:
                outs = [o for o in leaves(run(row, args, kwargs)) if isinstance(o, rl.Tensor)]
            except (RuntimeError, TypeError):
                break  # in place on a leaf, out=, ...
            outs = [o for o in outs if o.requires_grad]
            if not outs:
                break
            total = sum(
                (o.abs() if o.dtype in (rl.complex64, rl.complex128) else o).sum() for o in outs
            )
            total.backward()
            gradients.append([None if t.grad is None else t.grad for t in inputs])
        if len(gradients) < 2:
            continue
        for cpu, gpu in zip(*gradients, strict=True):
            assert (cpu is None) == (gpu is None), f"{row.name} call {i}"
            if cpu is not None:
                assert gpu.is_cuda
                assert_near([gpu.cpu()], [cpu], 1e3 * row.slack, f"{row.name} call {i} gradient")
        done += 1
    if not done:
        pytest.skip("no call has a gradient")


def test_complex_is_among_the_dtypes():
    assert set(COMPLEX) <= {d for row in ROWS for d in dtypes_of(row)}


FOLDS = {
    "sum": rl.sum,
    "mean": rl.mean,
    "prod": lambda x, dim: rl.prod(x.sign() * (1 + x / 1024), dim),
    "amax": rl.amax,
    "amin": rl.amin,
    "argmax": rl.argmax,
    "max": lambda x, dim: rl.max(x, dim).indices,
    "var": rl.var,
    "std": rl.std,
    "logsumexp": rl.logsumexp,
    "any": lambda x, dim: rl.any(x > 2.5, dim),
    "count_nonzero": lambda x, dim: rl.count_nonzero(x > 1, dim),
}


# Outputs for every processor, whose lanes are one warp, and fewer, whose lanes are a block.
@pytest.mark.parametrize("shape", [(3000, 1032), (8000, 264), (130, 4096), (5, 9000)])
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float16])
@pytest.mark.parametrize("name", FOLDS)
def test_reductions_of_many_rows_and_columns(name, dtype, shape):
    rl.manual_seed(0)
    x = rl.randn(shape).to(dtype)
    y = x.cuda()
    for dim in (0, 1):
        want, got = FOLDS[name](x, dim), FOLDS[name](y, dim).cpu()
        if not want.is_floating_point():
            assert rl.equal(got, want), (name, dim)
            continue
        tolerance = 1e-4 if dtype == rl.float32 else 2e-2
        assert rl.allclose(got.float(), want.float(), tolerance, 30 * tolerance), (name, dim)
    spoilt = y.clone()
    spoilt[1, 3] = float("nan")
    if name in ("sum", "mean", "amax", "amin", "var", "std", "logsumexp"):
        assert bool(FOLDS[name](spoilt, 1)[1].isnan()) and bool(FOLDS[name](spoilt, 0)[3].isnan())
    if name in ("argmax", "max"):
        assert int(FOLDS[name](spoilt, 1)[1]) == 3 and int(FOLDS[name](spoilt, 0)[3]) == 1
