"""The op harness: a row describes one op, this file turns rows into inputs and judges outputs.

- A row is an OpSample: name, a NumPy reference, and calls. A call holds argument specs (T, V) that
  become arrays of the dtype under test, so one call serves all dtypes, layouts and forms.
- Which dtypes, forms (function, method, in-place, out) and gradients an op has is not repeated in
  the rows: `oracle/ops.json` records it for every call, made from PyTorch by make_oracle.py.
- The reference runs in float64 or complex128 (integers keep their width, to see wrap-around), and
  the tolerance depends on the result's dtype only; `slack` is for sums of many terms.
"""

import functools
import json
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import rushlight as rl

TESTS = Path(__file__).resolve().parent.parent
BOOL, UINT, INT = ["bool"], ["uint8"], ["int8", "int16", "int32", "int64"]
FLOAT, COMPLEX = ["float32", "float64", "float16", "bfloat16"], ["complex64", "complex128"]
DTYPES = [*FLOAT, "int64", "int32", "int16", "int8", *UINT, *BOOL, *COMPLEX]
# rtol = atol: eight to sixteen units in the last place of the result's dtype
TOLERANCE = {
    "float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-6, "float64": 4e-15,
    "complex32": 6e-3, "complex64": 3e-6, "complex128": 6e-15,
}  # fmt: skip
# PyTorch may stand in for Rushlight to test the tests; its own bugs are then passed over
PEER = rl.__name__ == "torch"
LAYOUTS = ["strided", "transposed", "channels_last", "expanded"]


@dataclass(frozen=True)
class Spec:
    """A tensor argument: random in [lo, hi] or literal values; dtype None means the row's."""

    shape: tuple = ()
    lo: float = -3.0
    hi: float = 3.0
    dtype: str | None = None
    values: object = None
    distinct: bool = False  # no two equal elements, for ops that choose one
    nonzero: bool = False

    @property
    def expands(self):
        """May be drawn with equal rows, for the stride-0 layout."""
        return self.values is None and not (self.distinct and len(self.shape) == 1)

    def array(self, dtype, rng):
        dtype = self.dtype or dtype
        if self.values is not None:
            return round_to(np.array(self.values), dtype)
        if dtype == "bool":
            return rng.random_sample(self.shape) > 0.5
        if self.distinct:
            a = rng.permutation(int(np.prod(self.shape))).reshape(self.shape) - (self.lo < 0) * 3
        elif is_int(dtype):
            low = max(int(np.ceil(self.lo)), 0 if dtype == "uint8" else -127)
            a = rng.randint(low, max(int(self.hi), low) + 1, self.shape)
        else:
            a = rng.uniform(self.lo, self.hi, self.shape)
            if dtype in COMPLEX:
                a = a + 1j * rng.uniform(self.lo, self.hi, self.shape)
        if self.nonzero:
            a = np.where(np.abs(a) < 0.25, 1, a)
        return round_to(np.asarray(a), dtype)


@dataclass(frozen=True)
class DType:
    """A dtype argument, rushlight's for the op and NumPy's for the reference; None: the row's."""

    name: str | None = None


def T(*shape, **kw):
    return Spec(shape, **kw)


def V(values, dtype=None):
    return Spec(np.shape(values), values=values, dtype=dtype)


@dataclass(frozen=True)
class Call:
    args: tuple
    kwargs: dict = field(default_factory=dict)
    grad: bool = True


def C(*args, **kwargs):
    return Call(args, kwargs)


def no_grad(call):
    """A call at a point where the op has no unique derivative (ties)."""
    return Call(call.args, call.kwargs, grad=False)


@dataclass(frozen=True)
class OpSample:
    name: str
    ref: object  # callable on arrays, or ORACLE: float64 values recorded from PyTorch
    calls: list
    aliases: tuple = ()
    extremes: bool = False  # pointwise: also inf, nan, denormals, integer limits
    skip_extremes: tuple = ()  # dtypes whose extremes PyTorch leaves undefined
    layouts: bool = True  # False where the layout is the point (view, as_strided)
    method_self: int = 0  # which argument is `self` of the method form
    slack: float = 1.0  # tolerance factor: sums of many terms, hard special functions
    values: bool = True  # False: contents are unspecified (empty)
    meta: bool = True  # False: the shape depends on the data
    casts_inplace: bool = False  # the in-place form casts to any dtype (cumsum_)
    peer_bugs: tuple = ()  # layouts or tests where PyTorch is wrong, and we must not be
    grad: bool = True  # False: PyTorch's gradient is not the derivative (or is not unique)
    dtypes: tuple | None = None  # instead of the oracle's, for ops that PyTorch lacks

    def __str__(self):
        return self.name


ORACLE = "oracle"
RESULTS = {
    k: json.loads(p.read_text()) if (p := TESTS / "oracle" / f"{k}.json").exists() else {}
    for k in ("ops", "values", "sharing", "overwriting")
}


def facts(row):
    """What PyTorch does with the row; for an op it lacks, the row's own dtypes."""
    known = RESULTS["ops"].get(row.name)
    return known or {"dtypes": dict.fromkeys(row.dtypes or []), "forms": "f", "grad": row.grad}


def fact(row, name, i):
    """A fact of call i: recorded once when it holds for all calls."""
    found = facts(row)[name]
    return found[i] if isinstance(found, list) else found


def result_dtypes(row, i, dtype):
    """The dtypes of the results, [] where PyTorch refuses the call, None where it is not asked."""
    found = facts(row)["dtypes"][dtype]
    if found is None:
        return None
    if isinstance(found, list) and "" in found and is_empty(row.calls[i]):
        return []  # PyTorch lets an empty tensor pass where it has no loop for the dtype
    return (found[i] if isinstance(found, list) else found).replace("=", dtype).split()


def is_empty(call):
    return any(isinstance(a, Spec) and 0 in a.shape for a in call.args)


def dtypes_of(row):
    return [d for d in DTYPES if d in facts(row)["dtypes"]]


def main_dtype(row):
    return dtypes_of(row)[0]


def forms(row, i):
    """The forms of call i: f unction, m ethod, i n-place, o ut; lower case works, upper fails."""
    return fact(row, "forms", i)


# --- arrays and tensors ---------------------------------------------------------------------------


def is_int(dtype):
    return "int" in dtype


def np_dtype(dtype):
    return np.dtype({"bfloat16": "float32", "complex32": "complex64"}.get(dtype, dtype))


def round_to(a, dtype):
    """The nearest values that `dtype` holds, in the NumPy dtype that carries it."""
    with np.errstate(all="ignore"):
        if dtype.startswith("complex") or a.dtype.kind != "c":
            out = np.asarray(a).astype(np_dtype(dtype))
        else:
            out = a.real.astype(np_dtype(dtype))
    if dtype != "bfloat16":
        return out
    bits = out.view(np.uint32).astype(np.uint64)
    ties = (bits >> np.uint64(16)) & np.uint64(1)
    bits = (bits + np.uint64(0x7FFF) + ties) & np.uint64(0xFFFF0000)
    return np.where(np.isnan(out), out, bits.astype(np.uint32).view(np.float32))


def dtype_name(dtype):
    return str(dtype).split(".")[-1]


def misaligned(t):
    """The values of t in memory whose addresses are odd: foreign memory may begin anywhere."""
    if not t.numel():
        return t
    room = np.zeros(t.numel() * t.element_size() + 1, np.uint8)  # NumPy's begins at an even one
    there = rl.frombuffer(room, dtype=t.dtype, count=t.numel(), offset=1)
    there.as_strided_(t.shape, t.contiguous().stride())  # in place: no view of another tensor
    assert there.data_ptr() % 2 == 1
    return there.copy_(t)


def tensor(a, dtype, layout="contiguous"):
    """A tensor that holds the array's values and shares no memory with it."""
    target = getattr(rl, dtype)

    def plain(x):
        return rl.from_numpy(np.array(x, order="C", copy=True)).to(target)

    if layout == "strided" and a.ndim:
        wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
        wide[..., 1::2] = a
        return plain(wide)[..., 1::2]
    if layout == "transposed":
        return plain(a.T).permute(*range(a.ndim - 1, -1, -1)) if a.ndim > 1 else plain(a)
    if layout == "channels_last" and a.ndim == 4:
        return plain(a.transpose(0, 2, 3, 1)).permute(0, 3, 1, 2)
    if layout == "expanded" and a.ndim and a.shape[0]:
        return plain(a[:1]).expand(a.shape)
    return misaligned(plain(a)) if layout == "misaligned" else plain(a)


def to_numpy(t):
    """bfloat16 arrives as float32, complex32 as complex64, everything else as itself."""
    t = t.detach().resolve_conj().resolve_neg() if t.is_complex() else t.detach()
    wider = {rl.bfloat16: rl.float32, rl.complex32: rl.complex64}
    return t.to(wider.get(t.dtype, t.dtype)).numpy()


def walk(x, f):
    """Applies f to every Spec or DType in nested lists and tuples."""
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(walk(y, f) for y in x)
    return f(x) if isinstance(x, (Spec, DType)) else x


class Inputs:
    """One call's arguments in one dtype: `arrays` for the reference, `tensors()` for the op."""

    def __init__(self, row, index, dtype, layout="contiguous"):
        call, rng = row.calls[index], np.random.RandomState(zlib.crc32(row.name.encode()) + index)
        self.row, self.dtype, self.layout, self.specs = row, dtype, layout, []
        self.call = call

        def draw(s):
            if isinstance(s, DType):
                return s
            a = s.array(dtype, rng)
            if layout == "expanded" and a.ndim and a.shape[0] and s.expands:
                a = np.broadcast_to(a[:1], a.shape)
            self.specs.append(s)
            return Held(a, s)

        self.args = walk(call.args, draw)
        self.kwargs = {k: walk(v, draw) for k, v in call.kwargs.items()}

    def _map(self, on_array, on_dtype):
        def f(x):
            if isinstance(x, (list, tuple)):
                return type(x)(f(y) for y in x)
            if isinstance(x, Held):
                return on_array(x)
            return on_dtype(x.name or self.dtype) if isinstance(x, DType) else x

        return tuple(f(a) for a in self.args), {k: f(v) for k, v in self.kwargs.items()}

    def tensors(self, device=None):
        def build(h):
            layout = self.layout
            if layout == "expanded" and not h.spec.expands:
                layout = "contiguous"
            t = tensor(h.array, h.spec.dtype or self.dtype, layout)
            if device:
                t = rl.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)
            return t

        return self._map(build, lambda d: getattr(rl, d))

    def reference(self, result_dtypes=()):
        floats = [d for d in result_dtypes if d in TOLERANCE]

        def wide(h):
            if h.array.dtype.kind in "fc":
                return h.array.astype("complex128" if h.array.dtype.kind == "c" else "float64")
            if floats and h.spec.dtype is None:  # an integer meets floats: converted first
                a = round_to(h.array, floats[0])
                return a.astype("complex128" if floats[0].startswith("complex") else "float64")
            return np.array(h.array)

        args, kwargs = self._map(wide, np_dtype)
        with np.errstate(all="ignore"):
            return leaves(self.row.ref(*args, **kwargs))


@dataclass
class Held:
    array: np.ndarray
    spec: Spec


def leaves(x):
    """The results as a flat list."""
    if isinstance(x, (tuple, list)) and not isinstance(x, rl.Size):
        return [leaf for y in x for leaf in leaves(y)]
    return [x]


def tensor_leaves(args, kwargs):
    return [t for t in leaves([*args, *kwargs.values()]) if isinstance(t, rl.Tensor)]


# --- calling --------------------------------------------------------------------------------------


def lookup(name):
    """The function form, or None: names may be dotted (nn.functional.pad)."""
    f = rl
    for part in name.split("."):
        f = getattr(f, part, None)
    return f if callable(f) else None


def run(row, args, kwargs, name=None):
    """The plainest form the op has: function, else method, else in place on a copy."""
    name = name or row.name
    if (f := lookup(name)) is not None:
        return f(*args, **kwargs)
    args = list(args)
    self = args.pop(row.method_self)
    if name.endswith("_"):
        self = self.clone()
    return getattr(self, name.split(".")[-1])(*args, **kwargs)


def method(row, args, kwargs, suffix=""):
    args = list(args)
    self = args.pop(row.method_self)
    return getattr(self, row.name.split(".")[-1] + suffix)(*args, **kwargs)


# --- judging --------------------------------------------------------------------------------------


def assert_same(got, want, what=""):
    """Equal dtype, shape and bits (any NaN equals any NaN)."""
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want), f"{what}: {len(got)} results, expected {len(want)}"
    for g, w in zip(got, want, strict=False):
        if not isinstance(w, rl.Tensor):
            assert g == w, f"{what}: {g} instead of {w}"
            continue
        assert (g.dtype, tuple(g.shape)) == (w.dtype, tuple(w.shape)), what
        np.testing.assert_array_equal(to_numpy(g), to_numpy(w), err_msg=what)


def assert_near(got, want, slack=1.0, what=""):
    """As assert_same, within tolerance: the same sum may be taken in another order."""
    got, want = leaves(got), leaves(want)
    assert [g.dtype for g in got] == [w.dtype for w in want], what
    for g, w in zip(got, want, strict=False):
        assert_values(g, to_numpy(w), slack, what)


def assert_values(got, want, slack=1.0, what=""):
    """Within the tolerance of the result's dtype, inf and nan in the same places."""
    if not isinstance(got, rl.Tensor):
        assert got == want, f"{what}: {got} instead of {want}"
        return
    dtype, want = dtype_name(got.dtype), np.asarray(want)
    assert tuple(got.shape) == want.shape, f"{what}: shape {tuple(got.shape)}, not {want.shape}"
    g = to_numpy(got)
    if dtype not in TOLERANCE:
        with np.errstate(all="ignore"):
            want = want.astype(g.dtype)
        np.testing.assert_array_equal(g, want, err_msg=what)
        return
    parts = [(g, round_to(want, dtype))]
    if np.iscomplexobj(g):
        parts = [(g.real, parts[0][1].real), (g.imag, parts[0][1].imag)]
    size = np.abs(parts[0][1]) if len(parts) == 1 else np.hypot(parts[0][1], parts[1][1])
    tol = TOLERANCE[dtype] * slack
    for x, y in parts:
        with np.errstate(all="ignore"):
            near = np.abs(x.astype("f8") - y) <= tol * (1 + size.astype("f8"))
        ok = near | (x == y) | (np.isnan(x) & np.isnan(y))
        assert ok.all(), f"{what}: {dtype} differs at {np.argwhere(~ok)[:3].tolist()}: " + (
            f"got {x[~ok][:3]}, expected {y[~ok][:3]}"
        )


# --- the op table ---------------------------------------------------------------------------------


def base_name(name):
    return name.split(".")[0].rstrip("_") or name


FUNC = r"""^- func:\s*['"]?([\w.]+)\s*\("""


@functools.cache  # (each file that collects rows asks for every row)
def table_rows():
    """The text of each row of the op table."""
    files = sorted((TESTS.parent / "csrc" / "ops").rglob("*.yaml"))
    rows = re.split(r"^(?=- func:)", "\n".join(f.read_text() for f in files), flags=re.MULTILINE)
    return tuple(r for r in rows if r.startswith("- func:"))


@functools.cache
def table_names():
    """Base names of the ops that users can call, or None while there is no table."""
    public = [r for r in table_rows() if "forms: internal" not in r]
    return frozenset(base_name(re.search(FUNC, r)[1]) for r in public) or None


def out_names():
    """Base names of the ops that users can call with out=, by the table."""
    found = set()
    for row in table_rows():
        if re.search(r"^  forms:.*\bout\b", row, re.MULTILINE):
            found.add(base_name(re.search(FUNC, row)[1]))
    return {n for n in found if not n.startswith("_")}


def row_names(rows):
    return {base_name(n.split(".")[-1]) for r in rows for n in (r.name, *r.aliases)}


def is_there(place, name):
    """Whether a module has a function, and not only its name to import."""
    return hasattr(place, name) and not getattr(getattr(place, name), "__unavailable__", None)


def exists(name):
    """Is there such a function or method, from the table or in Python?"""
    place = rl
    for part in name.split(".")[:-1]:
        place = getattr(place, part, None)
    if place is None:
        return False
    if place is not rl:
        return is_there(place, name.split(".")[-1])
    return is_there(place, name) or hasattr(rl.Tensor, name) or hasattr(rl.Tensor, name + "_")


def collected(rows):
    """Rows of ops that are there; all rows while there is no table."""
    return [r for r in rows if table_names() is None or exists(r.name)]
