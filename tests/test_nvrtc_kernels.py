"""Every CUDA kernel compiles with NVRTC: no GPU is needed, only NVIDIA's nvidia-cuda-nvrtc wheel.

Everything is compiled for sm_90, and one type of each kernel for sm_80 and sm_100, quickly: that
takes a quarter of the time, and it is the front end that finds our faults. A share of them is
compiled for sm_90 once more, as users get it. Many kernels share a program, because a program
costs more to start than a kernel to add. The fast run compiles one type of every kernel, for sm_80;
all other types and architectures are slow.
"""

import functools
import itertools
import json
import re
import sys

import pytest
from nvrtc import CSRC, ROOT, Nvrtc

sys.path.insert(0, str(ROOT / "codegen"))
import generate

KERNELS = CSRC / "cuda" / "kernels"
EXACT = ["--fmad=false", "-DRUSH_EXACT_MATH=1"]
EXACT += ["-D__builtin_fmod=::fmod", "-D__builtin_fmodf=::fmodf"]  # as csrc/cuda/runtime/nvrtc.cpp
ARCHS = ["sm_80", *(pytest.param(a, marks=pytest.mark.slow) for a in ("sm_90 optimised", "sm_100"))]

# Types of memory -> the type they compute in; the names are the op table's.
CPP = {
    "bool": "bool",
    "f32": "float",
    "f64": "double",
    "f16": "rush::half",
    "bf16": "rush::bfloat16",
}
CPP |= {"c64": "rush::complex<float>", "c128": "rush::complex<double>"}
CPP |= {t: f"rush::{t}" for t in "u8 i8 i16 i32 i64 u16 u32 u64".split()}
STORED = CPP | {"bool": "rush::truth"}  # as elements lie in memory
SIZES = {"bool": 1, "bf16": 2} | {t: int(t[1:]) // 8 for t in CPP if t[1:].isdigit()}
COMPUTE = {t: t for t in CPP} | {"f16": "f32", "bf16": "f32"}
REAL = {t: t for t in CPP} | {"c64": "f32", "c128": "f64"}
INTS = ("u8", "i8", "i16", "i32", "i64")
UNSIGNED = ("u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
COMPLEX = ("c64", "c128")
WIDTHS = ("rush::u8", "rush::u16", "rush::u32", "rush::u64", "rush::Bytes16")
INDICES = ("rush::u32", "rush::u64")


@pytest.fixture(scope="module")
def nvrtc():
    found = Nvrtc.find()
    if found is None:
        pytest.skip("libnvrtc not found: pip install nvidia-cuda-nvrtc")
    return found


def compile_all(nvrtc, file, names, arch="sm_90"):
    options = EXACT if file.endswith("_exact.cu") else []
    options += [] if arch.endswith(" optimised") else ["--Ofast-compile=mid"]
    source = (KERNELS / file).read_text()
    target = "sm_90a" if file.endswith("_hopper.cu") else arch.split()[0]
    done = nvrtc.compile(source, file, sorted(names), target, options)
    assert done.size > 0
    assert all(name.startswith("_Z") for name in done.names)


def wide(t):
    """What sums of t are formed in."""
    return COMPUTE[t] if t in FLOATS + COMPLEX else "i64"


def pack_width(*types):
    return 16 // max(SIZES[t] for t in types)


def share(file, names, arch):
    """The optimiser takes long: it sees one kernel in six, and all that have its instructions."""
    few = arch.endswith(" optimised") and not file.endswith("_hopper.cu")
    return sorted(names)[::6] if few else names


def fewest(by_type):
    """One type's kernels of each: float's where there are any."""
    return by_type.get("f32") or next(iter(by_type.values()))


# ---- pointwise ----


@functools.cache
def generated():
    return generate.outputs(sorted(str(p) for p in (CSRC / "ops").rglob("*.yaml")))


def table():
    """arity -> the functors of the op table, as the generator tells them to the CUDA loops."""
    return json.loads(generated()["cuda/pointwise.json"])


def shared_folds():
    """The folds of functors/fold.h that rows name."""
    return re.findall(r'^    "(\w+)"', generated()["functors/fold_fns.h"], re.M)


def special_functions():
    """(functor, inputs, numbers) of the rows' special functions."""
    text = generated()["functors/special_fns.h"]
    return re.findall(r'\{"(\w+)", (\d), (\d)\}', text)


@functools.cache
def templated():
    """The functors that are templates over their type."""
    text = "".join(p.read_text() for p in (CSRC / "functors").glob("*.h"))
    return set(re.findall(r"template <class T>\s+struct (\w+)", text))


def pointwise_name(arity, fn, t, flat=False):
    """The kernel of a functor whose operands lie in memory as t."""
    compute, name = CPP[COMPUTE[t]], fn["functor"]
    functor = f"rush::functors::{name}" + (f"<{compute}>" if name in templated() else "")
    out = {"same": t, "bool": "bool", "real": REAL[t]}[fn["result"]]
    inputs = [t] * {"unary": 1, "binary": 2, "ternary": 3}[arity]
    if name == "Where":
        inputs[0] = "bool"
    types = ", ".join(STORED[x] for x in (out, *inputs))
    kind, how = ("flat", pack_width(out, *inputs)) if flat else ("strided", "rush::u32")
    return f"rush::pointwise_{kind}<{functor}, {fn['params']}, {compute}, {how}, {types}>"


@pytest.mark.slow
@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize("arity", ["unary", "binary", "ternary"])
def test_pointwise(nvrtc, arity, t):
    fns = [fn for fn in table()[arity] if COMPUTE[t] in fn["types"]]
    names = [pointwise_name(arity, fn, t, flat) for fn in fns for flat in (False, True)]
    if names:
        compile_all(nvrtc, "pointwise.cu", names)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("arity", ["unary", "binary", "ternary"])
def test_pointwise_one_type(nvrtc, arity, arch):
    fns = [(fn, "f32" if "f32" in fn["types"] else fn["types"][0]) for fn in table()[arity]]
    names = [pointwise_name(arity, fn, t) for fn, t in fns]
    compile_all(nvrtc, "pointwise.cu", share("pointwise.cu", names, arch), arch)


def test_pointwise_mixed_types_and_long_indices(nvrtc):
    add = "rush::functors::Add, 0"
    names = [
        f"rush::pointwise_strided<{add}, float, rush::u64, rush::half, rush::u8, rush::bfloat16>",
        f"rush::pointwise_flat<{add}, float, 2, double, float, rush::i64>",
        f"rush::pointwise_rows<{add}, float, 4, float, float, rush::bfloat16>",
        "rush::pointwise_flat<rush::functors::AddAlpha<double>, 1, double, 1, double, rush::truth, "
        "float>",
    ]
    compile_all(nvrtc, "pointwise.cu", names)


FLOAT8 = [f"rush::float8_{kind}" for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")]


def test_what_moves_and_compares_float8(nvrtc):
    pairs = [(t, "float") for t in FLOAT8] + [("rush::half", t) for t in FLOAT8]
    pairs += [(STORED["bool"], FLOAT8[0]), (FLOAT8[2], STORED["bool"])]
    pairs += [("rush::i64", FLOAT8[1]), (FLOAT8[2], "rush::complex<float>")]
    names = [f"rush::copy_flat<{to}, {source}, 2>" for to, source in pairs]
    names += [f"rush::fill_flat<{t}, 16>" for t in FLOAT8]
    names += [f"rush::fill_strided<{t}, rush::u64>" for t in FLOAT8[:1]]
    compile_all(nvrtc, "copy.cu", names)
    names = []
    for t in (*FLOAT8[:2], FLOAT8[-1]):
        names += [
            f"rush::pointwise_flat<rush::functors::Eq, 0, float, 16, rush::truth, {t}, {t}>",
            f"rush::pointwise_flat<rush::functors::IsNan, 0, float, 16, rush::truth, {t}>",
            f"rush::pointwise_flat<rush::functors::Abs, 0, float, 16, {t}, {t}>",
            f"rush::pointwise_strided<rush::functors::Where, 0, float, rush::u32, {t}, "
            f"rush::truth, {t}, {t}>",
        ]
    compile_all(nvrtc, "pointwise.cu", names)
    compile_all(nvrtc, "reduce.cu", [
        f"rush::reduce<rush::folds::Any, {FLOAT8[0]}, rush::truth, rush::u32, 16, false>"
    ])  # fmt: skip
    compile_all(nvrtc, "index.cu", [f"rush::scatter<rush::ScatterSet, {FLOAT8[0]}, rush::u32>"])


def test_the_table_is_whole():
    assert sum(len(fns) for fns in table().values()) > 120
    known = set(COMPUTE.values())
    assert {t for fns in table().values() for fn in fns for t in fn["types"]} <= known


# ---- the other kernels: file -> type -> names ----


def copy_kernels():
    for t in CPP:
        names = [f"rush::fill_flat<{CPP[t]}, {pack_width(t)}>"]
        names += [f"rush::fill_strided<{CPP[t]}, rush::u32>"]
        names += [f"rush::copy_strided<{STORED[t]}, {STORED[x]}, rush::u32>" for x in CPP]
        names += [
            f"rush::copy_flat<{STORED[t]}, {STORED[x]}, {pack_width(t, x)}>"
            for x in ("f32", "i64", "bool")
        ]
        yield t, names
    for w, pack in zip(WIDTHS, (16, 8, 4, 2, 1), strict=True):
        yield (
            w,
            [
                f"rush::copy_transposed<{w}>",
                *(f"rush::copy_narrow<{w}, {flag}, {v}>" for flag in FLAGS for v in {1, pack}),
                *(f"rush::copy_strided<{w}, {w}, {i}>" for i in INDICES),
            ],
        )


def triangle_kernels():
    for w in WIDTHS:
        yield w, [f"rush::triangle<{w}, {i}>" for i in INDICES]
    for w, v in zip(WIDTHS, (16, 8, 4, 2), strict=False):
        yield f"{w} packs", [f"rush::triangle_packs<{w}, {v}, {i}>" for i in INDICES]
    for t in ("i32", "i64"):
        yield t, [f"rush::triangle_indices<{CPP[t]}>"]


def scan_kernels():
    for t in CPP:
        fns = [("Sum", t), ("Prod", t)] if t in FLOATS + COMPLEX else [("Sum", "i64")]
        fns += [("Max", t), ("Min", t)] if t not in (*COMPLEX, "u64") else []
        fns += [("LogCumSumExp", t)] if t in FLOATS else []
        if t == "i64":
            fns += [("Prod", "i64")]
        names = []
        for fn, out in fns:
            element = wide(out if fn in ("Sum", "Prod") else t)
            kind = f"<rush::scans::{fn}<{CPP[element]}>, {STORED[t]}, {STORED[out]}, rush::u32"
            width = 4 if SIZES[t] <= 4 else 16 // SIZES[t]
            names += [
                f"rush::scan_rows{kind}, {width}, 32>",
                f"rush::scan_tiles{kind}, {width}, 4>",
            ]
            names += [f"rush::scan_columns{kind}>"]
            if t in ("f32", "i64", "c64"):
                names += [f"rush::scan_rows{kind}, 1, 8>", f"rush::scan_tiles{kind}, 1, 4>"]
                names += [f"rush::scan_totals{kind}>"]
        if t == "f32":
            names += [n.replace("rush::u32", "rush::u64") for n in names]
        yield t, names


def index_kernels():
    for w in WIDTHS:
        yield w, [f"rush::read_at<{w}, {i}>" for i in INDICES]
    for t in (*FLOATS, *INTS, *UNSIGNED, "bool"):
        yield f"{t} between", [f"rush::check_between<{STORED[t]}, {i}>" for i in INDICES]
    for i in INDICES:
        yield i, [f"rush::add_offsets<{i}>", f"rush::check_indices<{i}>"]
    for t in CPP:
        fns = ["Set", "Add", "Mul"] + (["Max", "Min"] if t not in COMPLEX else [])
        yield t, [f"rush::scatter<rush::Scatter{fn}, {STORED[t]}, rush::u32>" for fn in fns]
        each = [fn for fn in fns if t != "c128" or fn in ("Set", "Add")]
        yield (
            f"{t} each",
            [f"rush::scatter_each<rush::Scatter{fn}, {STORED[t]}, rush::u32>" for fn in each],
        )


def sort_kernels():
    for t in CPP:
        if t in COMPLEX:
            continue
        own, places = STORED[t], ("rush::u32", "rush::u64")
        items = 8 if SIZES[t] == 8 else 16
        names = [f"rush::sort_blocks<{own}, {i}>" for i in (4, 2 * items)]
        if t == "f32":
            names += [f"rush::sort_blocks<{own}, {i}>" for i in (8, 16)]
        names += [f"rush::sort_count<{own}, {p}>" for p in places]
        for p, n in zip(places, (items, 8), strict=True):
            if p == "rush::u64" and t not in ("u8", "f32", "u32", "u64"):
                continue
            ends = ("true, true",) if SIZES[t] == 1 else ("true, false", "false, true")
            names += [f"rush::sort_pass<{own}, {p}, {n}, {e}>" for e in ends]
            if t in ("u32", "u64"):
                names += [f"rush::sort_pass<{own}, {p}, {n}, false, false>"]
        yield t, names
    yield "places", [f"rush::sort_starts<{p}>" for p in ("rush::u32", "rush::u64")]


def mask_kernels():
    read = ("u8", "u16", "u32", "u64", *FLOATS, *COMPLEX)
    for t in read:
        own = [f"{CPP[t]}, {v}" for v in {1, pack_width(t)}]
        names = [f"rush::mask_count<{x}>" for x in own]
        yield t, [*names, *(f"rush::mask_coordinates<{x}, {i}>" for x in own for i in INDICES)]
    for w in WIDTHS:
        yield w, [f"rush::mask_{k}<{w}, {v}>" for k in ("select", "place") for v in (1, 16)]


def search_kernels():
    for t in CPP:
        if t in COMPLEX or t == "bool":
            continue
        names = [f"rush::search_sorted<{CPP[t]}, {CPP[o]}>" for o in ("i64", "i32")]
        if t in FLOATS:
            names += [f"rush::histogram<{CPP[t]}>", f"rush::histogram_weighted<{CPP[t]}>"]
        if t in ("i64", "f32", "f64"):
            names += [f"rush::count_values<{CPP[t]}>"]
        yield t, names


def unique_kernels():
    for t in CPP:
        names = [f"rush::mark_runs<{STORED[t]}>"]
        yield t, names + ([f"rush::merge_slices<{STORED[t]}>"] if t not in COMPLEX else [])


def ranges_kernels():
    for t in CPP:
        names = [f"rush::linspace<{CPP[t]}>"]
        yield t, names + ([f"rush::arange<{CPP[t]}>"] if t not in ("bool", *COMPLEX) else [])


def sampling_kernels():
    for fn in ("Gamma", "Poisson", "Binomial"):
        yield fn, [f"rush::sample<rush::samplers::{fn}>"]
    yield "derivative", ["rush::gamma_derivative<double>"]


def select_kernels():
    for t in CPP:
        if t not in COMPLEX:
            yield t, [f"rush::{k}<{STORED[t]}>" for k in ("pick_rows", "mode_runs", "mode_join")]


def select_rows_kernels():
    for t in CPP:
        if t not in COMPLEX and SIZES[t] <= 4:
            yield t, [f"rush::select_rows<{STORED[t]}, {items}>" for items in (4, 8, 16, 32)]


def select_long_kernels():
    for t in CPP:
        if t not in COMPLEX:
            kernels = ("count", "narrow", "tally", "find", "gather")
            yield t, [f"rush::select_{k}<{STORED[t]}>" for k in kernels]


def reduce_of(fold, x, out):
    types = f"rush::folds::{fold}, {STORED[x]}, {STORED[out]}"
    yield f"rush::reduce<{types}, rush::u32, 1, false>"
    yield f"rush::reduce<{types}, rush::u32, 1, true>"
    yield f"rush::reduce_merge<{types}, rush::u32, false>"
    yield f"rush::reduce_merge<{types}, rush::u32, true>"
    if x in ("f32", "f16", "i64", "c64", "bool"):
        yield f"rush::reduce<{types}, rush::u64, 1, false>"
        yield f"rush::reduce<{types}, rush::u32, {pack_width(x)}, false>"
        yield f"rush::reduce_columns<{types}, rush::u32, {pack_width(x)}, true>"
        yield f"rush::reduce_columns<{types}, rush::u32, {pack_width(x)}, false>"
    if x in ("f16", "bf16"):
        yield f"rush::reduce_columns<{types}, rush::u32, {pack_width(x) // 2}, true>"


def reduce_kernels():
    for t in CPP:
        total, own = CPP[wide(t)], CPP[COMPUTE[t]]
        out = t if t in FLOATS + COMPLEX else "i64"
        folds = [(f"Sum<{total}>", out), (f"Prod<{total}>", out), ("CountNonzero", "i64")]
        folds += [("Any", "bool"), ("All", "bool")]
        if t in FLOATS + COMPLEX:
            folds += [(f"Mean<{total}>", t)]
        if t not in COMPLEX:
            folds += [(f"Max<{own}>", t), (f"Min<{own}>", t)]
            folds += [(f"ArgMax<{own}>", "i64"), (f"ArgMin<{own}>", "i64")]
        if t in FLOATS:
            names = "Norm1 Norm2 NormInf NormNegInf Var Std".split()
            folds += [(f"{name}<{own}>", t) for name in (*names, *shared_folds())]
        joined = [
            f"rush::sum_columns_joined<{CPP[t]}, {CPP[t]}, {i}, {pack_width(t)}, {flag}>"
            for i in INDICES
            for flag in FLAGS
            if t in FLOATS and t != "f64"
        ]
        yield t, [name for fold, o in folds for name in reduce_of(fold, t, o)] + joined


def random_kernels():
    floats = "Uniform Exponential Cauchy Geometric Bernoulli".split()
    for t in CPP:
        draw = "double" if t in ("f64", "c128") else "float"
        names = [f"rush::random_fill<rush::functors::Random{f}, {draw}, {CPP[t]}>" for f in floats]
        names += [f"rush::random_normal<{draw}, {CPP[t]}, {e}>" for e in ("false", "true")]
        yield t, [*names, f"rush::random_int<{CPP[t]}>"]


def matmul_kernels():
    for t in (*INTS, *FLOATS, *COMPLEX):
        small = [f"rush::matmul_small<{CPP[t]}>"] if t in FLOATS else []
        yield t, [f"rush::matmul<{CPP[t]}>", *small]


def optimizer_kernels():
    text = (CSRC / "functors" / "optimizer.h").read_text()
    rules = re.findall(r"struct (\w+)[^\n]*\{[^\n]*\n  static constexpr int kStates", text)
    assert len(rules) == 15
    text = (CSRC / "functors" / "optimizer_numbers.h").read_text()
    numbers = re.findall(r"struct (\w+Numbers) ", text)
    assert len(numbers) == 10
    yield "f32", [f"rush::optimizer_numbers<rush::optimizers::{name}>" for name in numbers]
    for t in FLOATS:
        yield (
            t,
            [
                f"rush::optimizer_step<rush::optimizers::{rule}, {CPP[t]}, {CPP[COMPUTE[t]]}>"
                for rule in rules
            ],
        )


def lists_kernels():
    folds = ("Norm1", "Norm2", "NormInf", "NormNegInf")
    yield (
        "join",
        [
            f"rush::list_join<rush::folds::{fold}<double>, {CPP[t]}>"
            for fold in folds
            for t in FLOATS
        ],
    )
    yield "sums", ["rush::list_column_sums<float>"]
    few = [CPP[t] for t in FLOATS if t != "f64"]
    yield (
        "moves",
        [
            f"rush::list_move_channels<{to}, {x}, {last}>"
            for to in few
            for x in few
            for last in ("true", "false")
        ],
    )
    for t in FLOATS:
        c, names = CPP[COMPUTE[t]], []
        # One functor of each kind: the loops are those of pointwise.cu, which takes them all.
        kinds = {}
        for arity, functors in table().items():
            for fn in functors:
                if COMPUTE[t] in fn["types"] and fn["result"] == "same" and fn["params"] <= 1:
                    kinds.setdefault((arity, fn["params"]), fn)
        for (arity, _), fn in kinds.items():
            flat = pointwise_name(arity, fn, t, flat=True)
            names.append(flat.replace("pointwise_flat", "list_pointwise"))
        for v in (1, pack_width(t)):
            names += [f"rush::list_norm<rush::folds::{f}<{c}>, {CPP[t]}, {v}>" for f in folds]
            names += [f"rush::list_unscale<{c}, {CPP[t]}, {v}>"]
        for x in FLOATS:
            wide = "double" if "f64" in (t, x) else "float"
            types = f"{wide}, {pack_width(t, x)}, {CPP[t]}, {CPP[x]}"
            names += [f"rush::list_pointwise<rush::functors::Positive, 0, {types}>"]
        names += [
            f"rush::list_pointwise<rush::functors::Mul, 0, {c}, 1, {CPP[t]}, {CPP[t]}, double>"
        ]
        yield t, names


FLAGS = ("true", "false")
TEAMS = (8, 32, 256)


def softmax_kernels():
    for t in FLOATS:
        own, names = f"{CPP[COMPUTE[t]]}, {CPP[t]}", []
        for back, log in itertools.product(("", "backward_"), FLAGS):
            start = f"rush::softmax_{back}"
            for width in (1, pack_width(t)):
                held = (8 if t == "f64" else 16) // width
                names += [f"{start}held<{own}, {team}, {width}, {held}, {log}>" for team in TEAMS]
                names += [f"{start}held<{own}, 256, {width}, {2 * held}, {log}>"]
                names += [f"{start}rows<{own}, 256, {width}, {log}>"]
            names += [f"{start}columns<{own}, {lanes}, {log}>" for lanes in (1, 16)]
        yield t, names


def row_norm_kernels():
    for t in FLOATS:
        compute = CPP[COMPUTE[t]]
        own, names = f"{compute}, {CPP[t]}", []
        for w in {CPP[t], compute}:  # of the parameters
            ways = itertools.product(TEAMS, (1, pack_width(t)), FLAGS)
            for team, v, centred in ways:
                held = (8 if t == "f64" else 16) // v
                start = f"{own}, {w}, {team}, {v}"
                names += [
                    f"rush::row_norm_held<{start}, {held}, {centred}>",
                    f"rush::row_norm_backward<{start}, {centred}>",
                ]
                if team == 256:
                    names += [f"rush::row_norm<{start}, {centred}>"]
                if team > 8:
                    names += [f"rush::row_norm_held<{start}, {2 * held}, {centred}>"]
            for v, centred in itertools.product((1, pack_width(t)), FLAGS):
                held = (8 if t == "f64" else 16) // v
                part = {"f32": f"64, {v}, {12 // v}", "f64": ""}.get(t, f"128, {v}, {16 // v}")
                for how in filter(None, (f"256, {v}, {held}", f"32, {v}, {2 * held}", part)):
                    names += [f"rush::row_norm_backward_whole<{own}, {w}, {how}, {centred}>"]
            names += [f"rush::join_segments<{compute}, {w}>"]
        yield t, names + [f"rush::row_norm_columns<{own}, {centred}>" for centred in FLAGS]


def group_norm_kernels():
    for t in FLOATS:
        c, own = CPP[COMPUTE[t]], CPP[t]
        names = [f"rush::group_norm_finish<{c}>", f"rush::group_moments_last<{c}, {own}>"]
        for v in (1, pack_width(t)):
            names += [f"rush::group_norm_planes<{c}, {own}, {team}, {v}>" for team in TEAMS]
            for kind in ("GroupMoments", "GroupGradSums"):
                names += [f"rush::group_sums_last<rush::{kind}<{own}, {c}>, {c}, {own}, {v}>"]
            for w in {own, c}:  # of the parameters
                names += [f"rush::group_norm{k}<{c}, {own}, {w}, {v}>"
                          for k in ("", "_apply", "_backward")]  # fmt: skip
                shared = () if t == "f64" else ((4, 2), (4, 8), (16, 8))
                names += [f"rush::group_norm{k}_held<{c}, {own}, {w}, {v}, {held}, {blocks}>"
                          for k in ("", "_backward")
                          for held, blocks in ((4, 1), (8, 1), (16, 1), *shared)]  # fmt: skip
                for kind in ("GroupMoments", "GroupGradSums"):
                    how = f"rush::{kind}<{own}, {c}>, {c}, {own}, {w}, {v}"
                    names += [f"rush::group_sums_joined<{how}>"]
                for kind in ("GroupNormalize", "GroupInputGrad"):
                    names += [f"rush::group_map_last<rush::{kind}<{own}, {w}, {c}>, {own}, {v}>"]
        yield t, names + [f"rush::group_means_last<{c}, {w}>" for w in {own, c}]


def cross_entropy_kernels():
    for t in FLOATS:
        own, start = f"{CPP[COMPUTE[t]]}, {CPP[t]}", "rush::cross_entropy_"
        rows = [f"rows<{own}, {team}, {v}>" for team in TEAMS for v in (1, pack_width(t))]
        names = [f"{start}{back}{row}" for row in rows for back in ("", "backward_")]
        names += [f"{start}columns<{own}, {way}>" for way in ("1, true", "8, true", "1, false")]
        names += [f"{start}backward_columns<{own}, {scores}>" for scores in FLAGS]
        yield t, [*names, f"{start}join<{CPP[t]}>"]


def loss_kernels():
    kinds = "L1 Mse SmoothL1 Huber BinaryLogits Binary".split()
    for t in FLOATS:
        own = CPP[COMPUTE[t]]
        names = [
            f"rush::loss_{kernel}<rush::losses::{kind}<{own}>, {own}, {CPP[t]}, {width}>"
            for kernel in ("each", "sum", "slope")
            for kind in kinds
            for width in (1, pack_width(t))
        ]
        yield t, [*names, f"rush::loss_join<{CPP[t]}>"]


def embedding_kernels():
    integers, keys = (CPP["i64"], CPP["i32"]), (CPP["u16"], CPP["u32"], CPP["u64"])
    for t in FLOATS:
        compute = CPP[COMPUTE[t]]
        own, names = f"{compute}, {CPP[t]}", []
        for ix in integers:
            names += [f"rush::{name}<{own}, {ix}>" for name in ("embedding_bag", "bag_weights")]
            names += [f"rush::bag_entries<{own}, {ix}, {k}>" for k in keys]
        for k in keys:
            names += [
                f"rush::segment_sums<{own}, {source}, {k}, {v}>"
                for source in dict.fromkeys((CPP[t], compute))
                for v in (1, 2 if t == "f64" else 4)
            ]
        yield t, names
    yield "index", [f"rush::embedding_rows<{w}, {ix}>" for w in WIDTHS for ix in integers]
    yield "keys", [f"rush::embedding_keys<{ix}, {k}>" for ix in integers for k in keys]


def resample_kernels():
    for t in FLOATS:
        own = f"{CPP[COMPUTE[t]]}, {CPP[t]}"
        images = [f"rush::resample_image<{own}, {k}, {deep}>" for k, deep in
                  ((1, "false"), (1, "true"), (2, "false"), (2, "true"), (4, "false"))]  # fmt: skip
        yield t, [f"rush::resample<{own}>", f"rush::fold<{own}>", *images]
    for c in ("float", "double"):
        yield c, [f"rush::resample_table<{c}, {backward}>" for backward in ("false", "true")]
    yield "bytes", [f"rush::unfold<{w}>" for w in WIDTHS]
    yield (
        "others",
        [f"rush::fold<{CPP[t]}, {CPP[t]}>" for t in COMPLEX] + ["rush::fold<float, rush::truth>"],
    )


def batch_norm_kernels():
    for t in FLOATS:
        own, wide = CPP[t], CPP[COMPUTE[t]]
        names = []
        for params in dict.fromkeys((own, wide)):
            for last in ("", "_last"):
                for width in (1, 16 // SIZES[t]):
                    for kind in ("Moments", "GradSums"):
                        whole = f"rush::{kind}<{own}, {params}, {wide}>"
                        names.append(f"rush::channel_sums{last}<{whole}, {own}, {wide}, {width}>")
                    for kind in ("Normalize", "InputGrad"):
                        whole = f"rush::{kind}<{own}, {params}, {wide}, {wide}>"
                        names.append(f"rush::channel_map{last}<{whole}, {own}, {width}>")
            for width in (1, 16 // SIZES[t]):
                for kind in ("Forward", "Backward"):
                    whole = f"rush::{kind}<{own}, {params}, {wide}>"
                    names.append(f"rush::channel_norm_last<{whole}, {own}, {wide}, {width}>")
        yield t, names


def depthwise_kernels():
    passes = ("forward", "input_grad", "weight_grad")
    for t in FLOATS:
        own, wide = CPP[t], CPP[COMPUTE[t]]
        sizes = ((3, 3, 16 // SIZES[t]), (3, 3, 1), (5, 5, 2), (7, 7, 2), (1, 3, 2))
        names = [
            f"rush::depthwise_{name}<{own}, {wide}, {kh}, {kw}, {width}>"
            for name in passes
            for kh, kw, width in sizes
        ]
        names += [
            f"rush::depthwise_{name}_runs<{own}, {wide}, {stride}, {width}>"
            for name in passes[:2]
            for stride in (1, 2)
            for width in (1, 4)
            if t != "f64"
        ]
        yield t, [*names, f"rush::depthwise_join<{own}, {wide}>"]


def pool_kernels():
    for t in ("f32", "f64", "i64"):
        names = "max_pool max_pool_scatter max_pool_gather average_pool average_pool_backward"
        counts = [(index, width) for index in INDICES for width in (1, 16 // SIZES[t])]
        yield t, [f"rush::{name}<{CPP[t]}, {i}, {w}>" for name in names.split() for i, w in counts]


def rnn_kernels():
    for w in WIDTHS:
        yield w, [f"rush::move_pieces<{w}>"]
    for t in FLOATS:
        names = "lstm_cell lstm_cell_backward gru_cell gru_cell_backward"
        cells = [f"rush::{name}<{CPP[t]}, {CPP[COMPUTE[t]]}>" for name in names.split()]
        steps = [f"rush::lstm_step{way}<{CPP[t]}>" for way in ("", "_backward")]
        yield t, cells + (steps if SIZES[t] >= 4 else [])


def write_at_kernels():
    for w in WIDTHS:
        yield w, [f"rush::write_at<{w}>"]


def decode_kernels():
    for t in ("f16", "bf16"):
        kinds = [f"{CPP[t]}, {width}, {extras}" for width in (32, 64, 128)
                 for extras in ("true", "false")]  # fmt: skip
        near = [f"rush::attention_decode_near<{kind}, {blocks}>" for kind in kinds[2:4]
                for blocks in (2, 4, 8)]  # fmt: skip
        yield t, [f"rush::attention_decode<{kind}>" for kind in kinds] + near


def attention_kernels(widths=(32, 64, 128, 256), types=("f16", "bf16", "f32", "f32 rounded")):
    """As csrc/cuda/nn/attention.cpp picks tiles for types and widths; of extras, none and all, and
    for heads of 64 each alone."""
    for name in types:
        t, exact = name.split()[0], "false" if "rounded" in name else "true"
        names = []
        for width in [w for w in widths if SIZES[t] == 2 or w <= 128]:
            ahead, back = (
                min(64, r // width) for r in ((8192, 4096) if t != "f32" else (2048, 2048))
            )
            for extras in range(4) if width == 64 else (3,):
                types, rest = f"{CPP[t]}, {width}, ", f"{exact}, {extras}"
                names.append(f"rush::attention_forward<{types}{ahead}, {rest}>")
                names.append(f"rush::attention_query_grad<{types}{back}, {rest}>")
                names += [
                    f"rush::attention_key_grad<{types}{back}, {rest}, {part}>"
                    for part in ((0,) if width <= 64 else (1, 2))
                ]
        yield name, names


def hopper_attention_kernels():
    return attention_kernels((64, 128), ("bf16", "f16"))


def attention_grads_kernels():
    for t, width in itertools.product(("bf16", "f16"), (64, 128)):
        names = [f"rush::attention_{step}<{CPP[t]}, {width}>" for step in ("terms", "query_sums")]
        yield t, [*names, *(f"rush::attention_grads<{CPP[t]}, {width}, {e}>" for e in range(4))]


def few_rows_kernels():
    for t in ("bf16", "f16"):
        yield t, [f"rush::few_rows<{CPP[t]}, {rows}>" for rows in range(1, 5)]


def split_product_kernels():
    layouts = itertools.product(("true", "false"), ("RightByRows", "RightByColumns"))
    names = [f"rush::piece_product<{left}, rush::{right}>" for left, right in layouts]
    yield "f32", [*names, "rush::join_parts"]


def weight_only_kernels():
    for t in ("bf16", "f16"):
        names = [f"rush::int8_rows<{CPP[t]}, {tiles}>" for tiles in (1, 2, 4)]
        for tiles, inner in ((1, 2), (1, 4), (1, 8), (2, 8), (4, 8)):
            names.append(f"rush::int4_tiles<{CPP[t]}, {tiles}, {inner}>")
        yield t, names


def odd_rows_kernels():
    yield "u16", [f"rush::copy_odd_rows<rush::{w}>" for w in ("u16", "u32")]


def matrices_kernels():
    for t in ("f32", "f64", *COMPLEX):
        yield t, [f"rush::form_q<{CPP[t]}>"]
    yield "i64", ["rush::permutation<rush::i64>"]


def special_kernels():
    """As csrc/cuda/pointwise/special.cpp spells them; functors with own numbers are templates."""
    for t in ("f32", "f64"):
        names = []
        for fn, inputs, numbers in special_functions():
            functor = f"rush::functors::{fn}" + (f"<{CPP[t]}>" if int(numbers) else "")
            types = ", ".join([CPP[t]] * (int(inputs) + 1))
            names.append(f"rush::pointwise_flat<{functor}, {numbers}, {CPP[t]}, 1, {types}>")
        yield t, names


# ---- kernels whose template parameters say what they are compiled for ----

KERNEL = re.compile(
    r"template <([^>]*)>\s*__global__ void(?: __launch_bounds__\([^)]*\))?\s+(\w+)\([\w<>]+ args"
)
PARAMETERS = {  # how a parameter is declared -> what it may be, given the type of memory
    "class T": lambda t: [CPP[t]],
    "class C": lambda t: [CPP[COMPUTE[t]]],
    "class W": lambda t: WIDTHS,
    "class I": lambda t: INDICES,
    "int V": lambda t: [1, pack_width(t)],
    "int Dims": lambda t: [2, 3],
}


def instances(file):
    """(type, kernels) of a file that has no list of its own. C is what T is computed in, W the
    width of elements that are only moved, I an index, V a pack's width; a bool is either."""
    kernels = KERNEL.findall((KERNELS / file).read_text())
    for t in FLOATS:
        names = []
        for parameters, kernel in kernels:
            declared = parameters.split(", ")
            if "class T" not in declared and t != COMPUTE[t]:
                continue  # computes in float or double only
            values = []
            for d in declared:
                assert d in PARAMETERS or d.startswith("bool "), (
                    f"{file}: {kernel} has the template parameter '{d}': use one of "
                    f"{', '.join(PARAMETERS)} or a bool, or list its instances in FILES"
                )
                values.append(PARAMETERS[d](t) if d in PARAMETERS else FLAGS)
            names += [
                f"rush::{kernel}<{', '.join(map(str, v))}>" for v in itertools.product(*values)
            ]
        yield t, names


# Files whose kernels need other types.
FILES = {
    "matrices.cu": matrices_kernels,
    "special.cu": special_kernels,
    "copy.cu": copy_kernels,
    "index.cu": index_kernels,
    "scan.cu": scan_kernels,
    "unique.cu": unique_kernels,
    "mask.cu": mask_kernels,
    "sampling_exact.cu": sampling_kernels,
    "search.cu": search_kernels,
    "select.cu": select_kernels,
    "select_long.cu": select_long_kernels,
    "select_rows.cu": select_rows_kernels,
    "ranges_exact.cu": ranges_kernels,
    "sort.cu": sort_kernels,
    "triangle.cu": triangle_kernels,
    "reduce.cu": reduce_kernels,
    "random_exact.cu": random_kernels,
    "matmul.cu": matmul_kernels,
    "optimizer.cu": optimizer_kernels,
    "lists.cu": lists_kernels,
    "batch_norm.cu": batch_norm_kernels,
    "depthwise.cu": depthwise_kernels,
    "pool.cu": pool_kernels,
    "softmax.cu": softmax_kernels,
    "row_norm.cu": row_norm_kernels,
    "group_norm.cu": group_norm_kernels,
    "cross_entropy.cu": cross_entropy_kernels,
    "loss.cu": loss_kernels,
    "rnn.cu": rnn_kernels,
    "embedding.cu": embedding_kernels,
    "resample.cu": resample_kernels,
    "attention.cu": attention_kernels,
    "attention_hopper.cu": hopper_attention_kernels,
    "attention_grads_hopper.cu": attention_grads_kernels,
    "few_rows.cu": few_rows_kernels,
    "split_product_hopper.cu": split_product_kernels,
    "write_at.cu": write_at_kernels,
    "odd_rows.cu": odd_rows_kernels,
    "weight_only.cu": weight_only_kernels,
    "attention_decode.cu": decode_kernels,
}
FILES |= {
    p.name: functools.partial(instances, p.name)
    for p in sorted(KERNELS.glob("*.cu"))
    if p.name not in ("pointwise.cu", *FILES)
}
PARTS = 4  # of a long list, so that workers share it


def test_every_file_is_compiled():
    assert {p.name for p in KERNELS.glob("*.cu")} == {"pointwise.cu", *FILES}
    places = dict(instances("grid_sample.cu"))["f16"]
    assert len(places) == 6 and all("<float, rush::half" in name for name in places)
    assert len(dict(instances("dropout_exact.cu"))["f32"]) == 12
    assert dict(instances("ctc.cu"))["bf16"] == []


def test_every_kernel_is_compiled():
    for file, kernels in FILES.items():
        text = (KERNELS / file).read_text()
        if file in ("special.cu", "attention_hopper.cu"):  # kernels of another file, made otherwise
            continue
        type = r"(?:const __grid_constant__ )?[\w<>.()]+"
        defined = set(re.findall(rf"__global__ void.*?\b(\w+)\({type} args", text, re.S))
        named = {re.match(r"rush::(\w+)", n)[1] for _, names in kernels() for n in names}
        assert defined == named, file


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("file", FILES)
def test_kernels(nvrtc, file, part):
    names = [name for _, names in FILES[file]() for name in names]
    if names[part::PARTS]:
        compile_all(nvrtc, file, names[part::PARTS])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("file", FILES)
def test_kernels_one_type(nvrtc, file, arch):
    compile_all(nvrtc, file, share(file, fewest(dict(FILES[file]())), arch), arch)


def test_every_kernel_begins_by_waiting():
    """See Note [Early launches] in csrc/cuda/kernels/early.h."""
    count = 0
    for path in sorted((CSRC / "cuda" / "kernels").iterdir()):
        for body in re.findall(r"^[^/\n]*__global__[^{]*\{\s*([^\n]*)", path.read_text(), re.M):
            assert body == "after_earlier();", f"{path.name}: a kernel begins with {body}"
            count += 1
    assert count > 100
