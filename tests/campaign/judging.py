"""Runs one planned call and judges what came of it.

A call runs twice: over contiguous copies of its tensors in memory of their own, then as planned.
Fresh memory holds other bytes each time. Both have to say the same, unless the planned one is
refused; what is refused must have written nothing, and no call writes to what it only reads.
"""

import contextlib
import re
from dataclasses import replace

import numpy as np
from ops import rows_linalg
from ops.sample import TOLERANCE, dtype_name, leaves

import rushlight as rl

from .drawn import DEVICE, UNLIKE, Alias, Drawn, Named, tensors_in
from .ways import Finding, in_its_way, prepared

INTERNAL = re.compile(
    r"\w::\w|\b_Z[A-Z]\w+|\.(cpp|cu|h):\d+|(?<! at )0x[0-9a-f]{6,}|std::|nanobind"
)
# Whose results are whatever the memory held, or name a place in it.
UNSPECIFIED = re.compile(
    r"empty|resize|data_ptr|storage|__repr__|__hash__|__dir__|__reduce|id$|deepcopy|set_$|_version|"
    r"__dlpack|backward|stft_none"
)
# Their answers depend on how a tensor lies in memory; that is what they are for.
ABOUT_LAYOUT = re.compile(
    r"stride|contiguous|view|offset|is_set_to|is_leaf|dim_order|memory_format|_like$|nbytes|dlpack|"
    r"retains_grad|requires_grad|output_nr|is_inference|is_conj|is_neg|as_strided|may_share|grad_fn|"
    r"broadcast|ravel|reshape|squeeze|__array__|is_non_overlapping|share|can_cast|is_nonzero|"
    r"resolve_|size$|clone|detach|numpy|inference|is_pinned|select_scatter|kl_divergence|type_as"
)


# Answers that name the device, or choose among equals (vectors of a matrix, equal elements).
ON_EACH_DEVICE = {
    "Tensor.is_cuda",
    "Tensor.is_cpu",
    "Tensor.get_device",
    "Tensor.type",
    "Tensor.inverse",  # of matrices that have none
    "inverse",
    "linalg.inv",
    "linalg.svd",
    "svd",
    "linalg.eigh",
    "linalg.eig",
    "eig",
    "linalg.qr",
    "qr",
    "geqrf",
    "linalg.lstsq",
    "sort",
    "topk",
    "argsort",
    "mode",
    "msort",
    "put",  # of several values at one place
    "Tensor.put",
    "Tensor.put_",
}


WRITES_ELEMENTS = {"nn.init.dirac_"}
MANY_ANSWERS = {"logcumsumexp"}  # angles of complex numbers, up to whole turns
# Rows that repeat: what is solved for is noise, and so is a quotient of variances of equal numbers.
SINGULAR = ("expanded", "overlapping")
SOLVING = {row.name for row in rows_linalg.ROWS} | {"corrcoef"}


# --- looking at results ---------------------------------------------------------------------------


def kept(x):
    """A result as plain data."""
    if not isinstance(x, rl.Tensor):
        return x if isinstance(x, bool | int | float | complex) else None
    x = x.detach()
    if x.device.type == "cuda" and DEVICE == "cuda":
        x = x.cpu()
    if x.device.type != "cpu" or DEVICE == "fake":
        return ("tensor", dtype_name(x.dtype), tuple(x.shape), None)
    if x.is_nested or x.numel() > 1 << 20:
        return None
    if x.layout != rl.strided:
        return kept(x.to_dense())
    if x.is_quantized:
        return kept(x.int_repr())
    name, shape = dtype_name(x.dtype), tuple(x.shape)
    return ("tensor", name, shape, as_array(x))


def as_array(x):
    name = dtype_name(x.dtype)
    if not x.numel():
        return np.zeros([min(n, 1000) for n in x.shape])  # NumPy has none of (2**62, 0) elements
    x = x.cpu()
    x = x.resolve_conj().resolve_neg()
    if name.startswith("float8") or name == "bfloat16":
        x = x.to(rl.float32)
    if name == "complex32":
        x = x.to(rl.complex64)
    return np.array(x.numpy(), copy=True)


def different(a, b, slack):
    """How two results differ, or None."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if a[1:3] != b[1:3]:
            return f"{a[1]}{list(a[2])} instead of {b[1]}{list(b[2])}"
        if a[3] is None or b[3] is None:
            return None
        return unlike(a[3], b[3], a[1], slack)
    if isinstance(a, tuple) or isinstance(b, tuple):
        return f"{type(a).__name__} instead of {type(b).__name__}"
    if isinstance(a, bool) and a != b:
        return f"{a} instead of {b}"
    if isinstance(a, int) and isinstance(b, int) and a != b:
        return f"{a} instead of {b}"
    return None


def unlike(x, y, dtype, slack):
    tolerance = (
        TOLERANCE.get(dtype, 0.3 if "float8" in dtype or dtype == "complex32" else 0) * slack
    )
    with np.errstate(all="ignore"):
        if not tolerance:
            ok = x == y
        else:
            size = np.nanmax(np.abs(y[np.isfinite(y)]).astype("f8"), initial=0)
            near = np.abs(x.astype("c16") - y.astype("c16")) <= tolerance * (1 + size)
            ok = near | (x == y) | (np.isnan(x) & np.isnan(y))
    if ok.all():
        return None
    at = np.argwhere(~ok)[:3].tolist()
    return f"{dtype}{list(x.shape)} differs at {at}: {x[~ok][:3]} instead of {y[~ok][:3]}"


def snapshot(seen):
    """The bytes behind the tensors of a call."""
    found = {}
    if DEVICE == "fake":
        return found
    for key, t in seen.items():
        if isinstance(t, rl.Tensor) and t.device.type != "meta" and t.layout == rl.strided:
            if not t.is_nested and not t.is_quantized and t.numel() < 1 << 20:
                raw = t.detach()
                found[key] = (tuple(t.shape), as_array(raw).tobytes())
    return found


# --- one call -------------------------------------------------------------------------------------


def outcome(plan, plain, seed, right=None, check=False):
    """("gave", results, raw) or ("raised", error)."""
    rl.manual_seed(seed)
    try:
        args, kwargs, seen = prepared(plan, plain)
    except Finding:
        raise
    except Exception as error:
        return "unbuilt", error, None
    before = snapshot(seen) if check else None
    try:
        found = in_its_way(plan, args, kwargs, seen, right)
        results = [kept(x) for x in leaves(found)]
        if DEVICE != "cpu" and not plain:
            rl.cuda.synchronize()
    except Finding:
        raise
    except Exception as error:
        if DEVICE == "cuda" and not plain:
            still_works(error)
        judge_error(error, str(plan))
        late = "The GPU found it" in str(error)  # behind the program, as in PyTorch
        if check and plan.form != "class" and not late:  # optimisers write to what they are given
            judge_writes(plan, before, snapshot(seen), f"after it raised {error}")
        return "raised", error, None
    if check and not plan.writes and plan.form != "class":
        judge_writes(plan, before, snapshot(seen), "though it only reads")
    return "gave", results, found


def still_works(error):
    """After an error of a call, the GPU has to answer the next one."""
    try:
        with contextlib.suppress(IndexError):  # that the GPU found before the call failed
            rl.cuda.synchronize()
        right = rl.ones(3, device="cuda").sum().item() == 3
    except Exception as second:
        raise SystemExit(f"the GPU is lost after {error}: {second}") from None
    if not right:
        raise Finding("value", f"the GPU computes wrong sums after {error}")


def judge_error(error, call=""):
    """Raises for errors that are no answer to bad arguments."""
    if isinstance(error, rl._C.InternalError):
        raise Finding("internal", str(error)[:300])
    endless = "endless list" in call  # Python itself has nothing better to say
    if isinstance(error, SystemError) or (isinstance(error, RecursionError) and not endless):
        raise Finding("system", f"{type(error).__name__}: {str(error)[:300]}")
    if INTERNAL.search(str(error)) and type(error).__module__.startswith(("rushlight", "builtins")):
        raise Finding("words", str(error)[:300])


def judge_writes(plan, before, after, when):
    if plan.way in ("threads", "fork", "trace") and plan.writes:
        return
    for key, old in before.items():
        if key in after and after[key] != old:
            raise Finding("wrote", f"an argument changed {when}"[:300])


def comparable(plan):
    """Whether the copies' results are what the planned call has to answer."""
    last = plan.name.split(".")[-1]
    if UNSPECIFIED.search(last) or (plan.row and not plan.row.values):
        return False
    if any(isinstance(t, Drawn) and t.kind in UNLIKE for t in plan.tensors):
        return False
    if DEVICE != "cpu" and (
        plan.name in ON_EACH_DEVICE or any(t.stays for t in plan.tensors if isinstance(t, Drawn))
    ):
        return False
    if plan.way in ("threads", "fork", "trace") and plan.writes:
        return False
    if DEVICE != "cpu" and plan.form == "class":
        return False  # what it is called with is on the device, for the copy too
    if DEVICE != "cpu" and plan.way == "autocast":
        return False  # each device has lists of its own
    if plan.form == "assign" or plan.name in WRITES_ELEMENTS:
        if any(getattr(t, "layout", "") in SINGULAR for t in plan.tensors[:1]):
            return False  # the element that is written has other places in the tensor
    if plan.form == "out" and not isinstance(plan.out, str | Alias | Drawn):
        return False
    written = [plan.out, *(plan.tensors if plan.writes else [])]
    if any(isinstance(t, Drawn) and t.layout == "overlapping" for t in written):
        return False  # windows that share elements are written in some order, as in PyTorch
    special = any(
        isinstance(t, Drawn) and t.base.dtype.kind in "fc" and not bounded(t.base)
        for t in plan.tensors
    )
    return not special or (plan.row is not None and plan.row.extremes)


def bounded(a):
    with np.errstate(all="ignore"):
        return bool((np.abs(a) < 1e4).all())


def judged(plan, seed, allocator):
    """Runs a call. Returns "gave" or "raised"; raises Finding."""
    if DEVICE == "fake":
        return outcome(plan, False, seed)[0]
    allocator.guard_fill(0x7F)
    base = plan if plan.form != "out" else as_function(plan)
    copy = outcome(base, True, seed)
    right = [t for t in leaves(copy[2]) if isinstance(t, rl.Tensor)] if copy[0] == "gave" else None
    allocator.guard_fill(0x11)
    real = outcome(plan, False, seed, right, check=True)
    if real[0] != "gave" or copy[0] != "gave":
        if real[0] == "gave" and copy[0] == "raised" and comparable(plan) and plan.form != "out":
            if not any(isinstance(t, Alias) for t in plan.tensors) and not ABOUT_LAYOUT.search(
                plan.name
            ):
                raise Finding("accepted", f"but its copy is refused: {copy[1]}"[:300])
        return real[0]
    if comparable(plan) and not ABOUT_LAYOUT.search(plan.name.split(".")[-1]):
        compare(plan, copy, real, seed)
    if plan.call is not None and plan.way == "plain":
        against_numpy(plan, real)
    return "gave"


def as_function(plan):
    return replace(plan, form="function", out=None, way="plain")


def compare(plan, copy, real, seed):
    slack = 16 * (plan.row.slack if plan.row else 4)
    pairs = list(zip(real[1], copy[1], strict=False))
    if plan.form == "out":  # its dtype is out's
        pairs = [
            (r, (*c[:1], r[1], *c[2:]))
            for r, c in pairs
            if isinstance(r, tuple) and isinstance(c, tuple) and r[1] == c[1]
        ]
    if plan.way == "autocast":
        slack *= 4096
    for got, want in pairs:
        text = different(got, want, slack)
        if text and not is_random(plan, seed, slack):
            raise Finding("value", text)


def is_random(plan, seed, slack):
    """Whether the copy's own answer changes with the seed."""
    base = plan if plan.form != "out" else as_function(plan)
    one, two = outcome(base, True, seed), outcome(base, True, seed + 1)
    if one[0] != "gave" or two[0] != "gave":
        return True
    return any(different(a, b, slack) for a, b in zip(one[1], two[1], strict=False))


def against_numpy(plan, real):
    """NumPy's answer, where the row has one and nothing but sizes and layouts was changed."""
    if not comparable(plan) or not plan.row.layouts:
        return
    if plan.name in MANY_ANSWERS:
        return
    solves = plan.name.startswith("linalg.") or plan.name in SOLVING
    if solves and any(t.layout in SINGULAR for t in plan.tensors):
        return

    def wide(x):
        if isinstance(x, Drawn):
            to = rl.complex128 if "complex" in x.dtype else rl.float64
            return np.array(x.build(True).detach().to(to).numpy())
        if isinstance(x, Named):
            return None
        if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
            return type(x)(wide(y) for y in x)
        return x

    if any(d.dtype not in TOLERANCE for d in tensors_in(plan.args)):
        return  # the tests of the rows hold integers to NumPy
    if any(isinstance(x, Named) for x in (*plan.args, *plan.kwargs.values())):
        return
    args = tuple(wide(a) for a in plan.args)
    kwargs = {k: wide(v) for k, v in plan.kwargs.items()}
    try:
        with np.errstate(all="ignore"):
            want = leaves(plan.row.ref(*args, **kwargs))
    except Exception:
        return  # a reference that knows the row's sizes alone
    for got, w in zip(real[1], want, strict=False):
        if (
            not isinstance(got, tuple)
            or got[3] is None
            or not isinstance(w, np.ndarray | np.generic)
        ):
            continue
        w = np.asarray(w)
        if w.shape != got[2] and (w.size or got[3].size):
            raise Finding("numpy", f"shape {got[2]}, NumPy's {w.shape}")
        if w.dtype.kind not in "fciub" or w.shape != got[2]:
            continue
        text = unlike(got[3], w, got[1], 16 * plan.row.slack)
        if text:
            raise Finding("numpy", text)
