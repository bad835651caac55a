"""How many files name an op (tools/op_files.py): the rule, and the limits that hold by it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import op_files  # noqa: E402

TABLE = """
- func: igamma(Tensor self) -> Tensor
  kernel: unary IncGamma floating
  alias: [gammainc]
  doc: One.
- {func: igamma_tail(Tensor self) -> Tensor, doc: Two.}
"""


@pytest.fixture
def files(tmp_path):
    """files(path=text): those of the files that name igamma."""

    def names(**texts):
        op_files.tracked.cache_clear()
        op_files.repository.cache_clear()
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        for name, text in {"csrc/ops/math/gamma.yaml": TABLE, **texts}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = op_files.files_of(op_files.table(tmp_path)["igamma"], tmp_path)
        assert found.pop(found.index("csrc/ops/math/gamma.yaml"))
        return found

    return names


CPP = {
    "Tensor igamma(const Tensor& x) {": True,
    "const Tensor& igamma_(const Tensor& x) {": True,
    "__global__ void __launch_bounds__(kThreads) igamma_rows(Args args) {": True,
    "  void (*igamma)(const Tensor& x) = nullptr;": True,
    'constexpr const char* list[] = {"erf", "igamma"};': True,
    'return concat("rush::igamma_rows<", type);': False,
    'constexpr const char* list[] = {"gammainc"};': True,
    "struct Igamma : FloatUnary {": True,
    "return fn == UnaryFn::IncGamma;": True,
    "  case UnaryFn::IncGamma:": True,
    "  const Tensor y = igamma(x);": False,
    "  return igamma(x);": False,
    "  double igamma = 0;": False,
    "// Tensor igamma(x)": False,
    "Tensor igamma_tail(const Tensor& x) {": False,
    "  map_unary(UnaryFn::IncGamma, x, out);": False,
    "  y = functors::IncGamma{}(x);": False,
}
PYTHON = {
    "def igamma(x): pass": True,
    "igamma = other": True,
    'NAMES = ["igamma"]': True,
    "y = _C.igamma(x)": False,
    "def f():\n    igamma = 2\n": False,
    "# igamma": False,
    'name = f"igamma{i}"': False,
    '"""igamma is a function"""': False,
    '"""Written by tools/x.py."""\nNAMES = ["igamma"]': False,
}


@pytest.mark.parametrize("text", CPP)
def test_what_names_an_op_in_cpp(files, text):
    assert bool(files(**{"csrc/x.cpp": text})) == CPP[text]


@pytest.mark.parametrize("text", PYTHON)
def test_what_names_an_op_in_python(files, text):
    assert bool(files(**{"rushlight/x.py": text})) == PYTHON[text]


def test_which_files_count(files):
    text = 'NAMES = ["igamma", "IncGamma"]'
    paths = ["rushlight/x.py", "tests/test_nvrtc_kernels.py", "tests/ops/rows_math.py",
             "benchmarks/x.py", "docs/x.py"]  # fmt: skip
    assert files(**dict.fromkeys(paths, text)) == paths[:2]


# Ops that were over their limits before the lists went that named them.
@pytest.mark.parametrize(
    "name",
    ["fmod", "_special_erfcx", "igammac", "logsumexp_real", "_dropout"],
)
def test_converted_ops_are_within_their_limits(name):
    op = op_files.table(ROOT)[name]
    found = op_files.files_of(op)
    kind = op_files.kind_of(op, found)
    assert kind and len(found) <= op_files.LIMITS[kind], (kind, found)


# Ops that are older than the limits: what Python's operators are made of, what kernels and other
# formulas are built from, and words that mean other things, too. No op may be added to these.
OLDER = set(
    """
_cross_entropy _row_norm _special_i1 abs acos acosh add all any
asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil clamp cos cosh div eq exp exp2 expm1 floor floor_divide
ge gt i0 igamma
isfinite isinf isnan join le leaky_relu lerp linear log log10 log1p log2 logaddexp lt max
maximum mean median min minimum mode mul nanmedian ne neg pow prod relu remainder round rsqrt
sigmoid sign silu sin sinh sqrt square std sub sum tan tanh threshold trunc var where
""".split()
)


def test_every_other_op_is_within_its_limit():
    found = {name: files for name, _, files in op_files.over()}
    assert not found.keys() - OLDER, {n: f for n, f in found.items() if n not in OLDER}
    assert not OLDER - found.keys(), "these are within their limits by now: take them out"
