"""The generator: what it reads, what it writes, and what it says about bad rows."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "codegen"))

import generate  # noqa: E402
from schema import ROW_KEYS, TableError, load_all, parse_func, parse_kernel, split_top  # noqa: E402

TABLE = """
- func: add(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor
  forms: function method inplace out
  alias: [plus]
  kernel: binary Add(1) bool integral floating complex
  doc: Adds alpha times other.
  args: {alpha: how many times other.}
  example: |
    >>> rl.add(1, 2, alpha=3)
    7
- func: max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
  forms: function method out
  doc: The largest value along a dim, and where it is.
- func: view(Tensor self, int[] size) -> Tensor
  kind: view
  forms: method
  varargs: true
  doc: Another shape over the same memory.
- func: uniform_(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor
  kind: mutate
  doc: Random numbers between from and to.
- func: where(Tensor condition, Tensor self, Operand other) -> Tensor
  doc: Picks from self or other.
- func: isnan(Tensor self) -> Tensor
  kernel: unary IsNan floating complex -> bool
  doc: Whether a value is not a number.
"""


@pytest.fixture
def table(tmp_path):
    def write(text, name="demo.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def files(table):
    return generate.outputs([table(TABLE)])


def test_signature_is_parsed():
    name, overload, args, results, names = parse_func(
        "f.x(Tensor self, int[2]? pad=None, *, float p=-inf, str mode='a, b', DType? dtype=None)"
        " -> (Tensor a, Tensor b)"
    )
    assert (name, overload, results, names) == ("f", "x", ("Tensor", "Tensor"), ("a", "b"))
    assert [a.kind for a in args] == ["Tensor", "Ints", "Float", "String", "DType"]
    assert [a.keyword_only for a in args] == [False, False, True, True, True]
    assert args[1].count == 2 and args[1].optional and args[1].default == "None"
    assert args[0].default is None and args[3].default == "'a, b'"


def test_optional_elements_of_a_list():
    args = parse_func("index(Tensor self, Tensor?[] indices) -> Tensor")[2]
    assert args[1].kind == "Tensors" and args[1].holes and not args[1].optional


def test_split_respects_brackets_and_quotes():
    assert split_top("a, b=[1, 2], c='x,y'") == ["a", "b=[1, 2]", "c='x,y'"]


def test_kernel_is_parsed():
    kernel = parse_kernel("unary Clamp(2) integral floating -> bool")
    assert (kernel.arity, kernel.functor, kernel.params) == ("unary", "Clamp", 2)
    assert kernel.groups == ("integral", "floating") and kernel.result == "Bool"


def test_forms_are_declared(files):
    header = files["ops/ops.h"]
    assert "Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha = " in header
    assert "const Tensor& add_(const Tensor& self, const Tensor& other" in header
    assert "const Tensor& add_out(const Tensor& out, const Tensor& self" in header
    assert "std::tuple<Tensor, Tensor> max_out(const Tensor& out0, const Tensor& out1" in header
    assert "plus" not in header  # an alias is a name, not a function


def test_forms_call_the_block(files):
    inc = files["ops/demo.inc"]
    for call in (
        "op::call<Add>(self, other, alpha)",
        "op::call_inplace<Add>(self, other, alpha)",
        "op::call_out<Add>(out, self, other, alpha)",
        "op::call_out<MaxDim>(outs, self, dim, keepdim)",
        "op::call_view<View>(self, size)",
        "op::mutate<Uniform>(self, from, to, generator)",
    ):
        assert call in inc
    for concept in ("ComputeOp<Add>", "ViewOp<View>", "MutateOp<Uniform>"):
        assert f"static_assert({concept});" in inc


def test_entries_describe_the_forms(files):
    inc = files["ops/demo.inc"]
    assert inc.count('.name = "plus"') == 2 and '.name = "plus_"' in inc
    assert '.result_names = "values indices"' in inc
    assert ".varargs = true" in inc
    assert ".self_index = 1" in inc  # where(condition, self, other)
    assert '{"out", ArgKind::Tensors, true, true' in inc


KEYS = """
- func: mul(Tensor self, Operand other) -> Tensor
  kernel: binary Mul floating
  python: top special special.times
  doc: The product.
- func: fold(Tensor self, int[] dim, bool keepdim=False) -> Tensor
  autocast: {cpu: widest, cuda: float32}
  batch: along_dims
  doc: The sum.
- func: mm(Tensor self, Tensor mat2, int n) -> (Tensor values, Tensor rest)
  python: private
  profile:
    flops: 2 * numel(values) * size(self, -1) // n
    bytes: max(bytes(rest), 1)
  doc: The product of matrices.
"""


def test_policies_rules_and_costs_are_part_of_the_entries(table):
    inc = generate.outputs([table(KEYS)])["ops/demo.inc"]
    mul, fold, mm = inc.split('.name = "')[1:]
    assert ".autocast = {AutocastPolicy::None, AutocastPolicy::None}" in mul
    assert ".batch = batch::pointwise" in mul
    assert ".flops = cost::pointwise_flops" in mul and ".bytes = nullptr" in mul
    policies = "{AutocastPolicy::Widest, AutocastPolicy::Float32}"
    assert f".autocast = {policies}" in fold and ".batch = batch::along_dims" in fold
    assert ".flops = cost::reduction_flops" in fold
    assert ".batch = nullptr" in mm and ".flops = flops_2" in mm and ".bytes = bytes_2" in mm
    formula = "cost::ratio(((2 * cost::numel(r[0])) * cost::size(a[0], -1)), a[2].integer())"
    assert f"int64_t flops_2(const Value* a, const Value* r) {{ return {formula}; }}" in inc
    assert "bytes_2(const Value*, const Value* r)" in inc


def test_public_places_become_modules(table):
    files = generate.outputs([table(KEYS)])
    special = files["rushlight/_places/special.py"]
    assert "import mul as mul\n" in special and "import mul as times\n" in special
    compile(special, "special", "exec")
    elsewhere = files["bindings/methods.cpp"].split("kElsewhere[] = {")[1].split("}")[0]
    assert '"mm"' in elsewhere and '"mul"' not in elsewhere


def test_functions_over_private_ops_are_found_in_the_sources(table):
    row = "- {func: _f(Tensor self) -> Tensor, forms: function, python: through %s, doc: x}\n"
    files = generate.outputs([table(row % "linalg.svd unique nn.functional.pad")])
    places = {path: text for path, text in files.items() if "_places/" in path}
    assert {path for path, text in places.items() if " import " in text} == {
        "rushlight/_places/linalg.py"
    }
    linalg = places["rushlight/_places/linalg.py"]
    assert "from rushlight.linalg._spectral import svd as svd\n" in linalg
    with pytest.raises(TableError, match=r"row 1 \(_f\): python: no file rushlight/linalg/_\*.py"):
        generate.outputs([table(row % "linalg.cholesky_inverse_")])
    # Of the package itself, though a file of linalg has it: see linalg/_old_names.py.
    with pytest.raises(TableError, match="defines the function 'inverse'"):
        generate.outputs([table(row % "linalg.inverse")])


def test_kernel_lists(files):
    fns = files["functors/fns.h"]
    assert "enum class BinaryFn : uint16_t {\n  Add,\n  kCount,\n};" in fns
    assert "RUSH_ENTRY(Add, 1, Same)" in files["cpu/kernels/binary_int_narrow.cpp"]
    assert "RUSH_ENTRY(IsNan, 0, Bool)" in files["cpu/kernels/unary_f32.cpp"]
    assert "RUSH_ENTRY" not in files["cpu/kernels/unary_int_narrow.cpp"]
    facts = json.loads(files["cuda/pointwise.json"])
    assert facts["unary"] == [
        {"functor": "IsNan", "params": 0, "result": "bool", "types": ["f32", "f64", "c64", "c128"]}
    ]


FORMULAS = """
- own_header: true
- {func: erfcx(Tensor self) -> Tensor, kernel: special_unary Erfcx floating, doc: One.}
- {func: "poly(Tensor self, Tensor n) -> Tensor", kernel: special_binary Poly(2) floating, doc: B.}
- {func: "rms(Tensor self, bool keepdim=False) -> Tensor", kernel: fold Rms floating, doc: C.}
"""


def test_special_functions_and_folds_are_listed_by_their_rows(table):
    files = generate.outputs([table(FORMULAS)])
    assert (
        'kSpecialFns[] = {\n    {"Erfcx", 1, 0},\n    {"Poly", 2, 2},'
        in (files["functors/special_fns.h"])
    )
    special = files["cpu/kernels/special_exact.cpp"]
    assert "return each(x, out, n, functors::Erfcx{});" in special
    assert "return each(x, y, out, n, functors::Poly<T>{first, second});" in special
    assert "enum class FoldFn : uint8_t {\n  Rms,\n  kCount,\n};" in files["functors/fold_fns.h"]
    assert "CpuFold<folds::Rms, T>::kernel()," in files["cpu/kernels/reduce_folds.cpp"]
    inc = files["ops/demo.inc"]
    erfcx, _, rms = inc.split('.name = "')[1:]
    assert ".batch = batch::pointwise" in erfcx and ".flops = cost::pointwise_flops" in erfcx
    assert ".batch = nullptr" in rms and ".flops = cost::reduction_flops" in rms
    assert "UnaryFn" not in files["cpu/kernels/special_exact.cpp"]


def test_a_family_may_have_a_header_of_its_own(table):
    files = generate.outputs([table(FORMULAS)])
    assert "Tensor erfcx(" in files["ops/demo_ops.h"] and "erfcx" not in files["ops/ops.h"]
    assert '#include "ops/demo_ops.h"' in files["ops/demo.inc"]
    files = generate.outputs([table(FORMULAS.replace("- own_header: true\n", ""))])
    assert "Tensor erfcx(" in files["ops/ops.h"] and "ops/demo_ops.h" not in files


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("special_unary Erfcx integral", "Erfcx takes the types 'floating'"),
        ("special_binary Poly(3) floating", "at most two numbers"),
        ("fold Rms floating complex", "the fold Rms takes the types 'floating'"),
        ("quaternary Exp floating", "classes are unary, binary, ternary, special_unary"),
    ],
)
def test_a_kernel_of_no_class_is_refused(table, kernel, message):
    row = f"- {{func: f(Tensor self) -> Tensor, kernel: {kernel}, doc: One.}}"
    with pytest.raises(TableError, match=re.escape(message)):
        generate.outputs([table(row)])


def test_rows_may_share_a_functor(table):
    rows = """
- {func: f(Tensor self) -> Tensor, kernel: unary Exp floating, doc: One.}
- {func: g(Tensor self) -> Tensor, kernel: unary Exp complex, doc: Two.}
"""
    files = generate.outputs([table(rows)])
    assert files["functors/fns.h"].count("Exp,") == 1
    for types in ("f32", "complex_portable"):
        assert "Exp" in files[f"cpu/kernels/unary_{types}.cpp"]


def test_bindings_and_stub(files):
    methods = files["bindings/methods.cpp"]
    assert '"add(input, other, *, alpha=1, out=None)\\n--\\n\\nAdds alpha times other.' in methods
    assert '"add($self, other, *, alpha=1)\\n--' in methods
    stub = files["rushlight/_C/__init__.pyi"]
    assert "    def add(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:" in stub
    assert '        """Adds alpha times other.\n\n        Arguments:\n' in stub
    assert "            alpha (number, optional): how many times other.\n" in stub
    assert (
        "        >>> rl.add(1, 2, alpha=3)\n        7\n" in stub
    )  # what the row shows, in the function
    assert "Another name of `add`." in stub and "The in-place form of `add`" in stub
    assert "def where(condition: Tensor, input: Tensor, other: Tensor | _Number) -> Tensor:" in stub
    for size in ("*size: _int", "size: Sequence[_int]"):
        assert f"    @overload\n    def view(self, {size}) -> Tensor:" in stub
    assert "out: tuple[Tensor, ...] | None = None) -> _return_types.max:" in stub
    compile(stub, "stub", "exec")


BAD_ROWS = [
    ("{func: f(Tensor self, doc: x}", "demo.yaml"),
    ("{func: f Tensor -> Tensor, doc: x}", "'func' must read 'name(type arg, ...) -> result'"),
    ("{func: f(Tensr self) -> Tensor, doc: x}", "unknown type 'Tensr'"),
    ("{func: f(Tensor self) -> Tensors, doc: x}", "unknown result 'Tensors'"),
    ("{func: 'f(Tensor self, int a=x) -> Tensor', doc: x}", "'x' is no default for int"),
    ("{func: 'f(Tensor self, int a=None) -> Tensor', doc: x}", "'None' is no default for int"),
    ("{func: 'f(Tensor self, Tensor self) -> Tensor', doc: x}", "two arguments are called 'self'"),
    ("{func: 'f(Tensor self, int a=1, int b) -> Tensor', doc: x}", "'b' needs a default"),
    ("{func: 'f(Tensor self, Tensor out) -> Tensor', doc: x}", "'out' is added by the form"),
    ("{func: f(Tensor self) -> Tensor}", "'doc' is missing"),
    ("{func: f(Tensor self) -> Tensor, doc: x, args: {b: y}}", "has no argument 'b'"),
    ("{func: f(Tensor self) -> Tensor, doc: x, args: b}", "'args' is a mapping"),
    ("{func: f(Tensor self) -> Tensor, doc: x, example: f(1)}", "'example' begins with '>>> '"),
    ("{func: _f(Tensor self) -> Tensor, forms: function, doc: x}", "'python' is missing"),
    ("{func: f(Tensor self) -> Tensor, doc: x, frms: method}", "unknown key 'frms'"),
    ("{func: f(Tensor self) -> Tensor, doc: x, forms: methd}", "unknown form 'methd'"),
    ("{func: f(Tensor self) -> Tensor, doc: x, kind: magic}", "unknown kind 'magic'"),
    ("{func: f(int n) -> Tensor, doc: x, forms: method}", "needs 'Tensor self'"),
    ("{func: f(Tensor self) -> int, doc: x}", "use kind 'composite'"),
    ("{func: f(Tensor self) -> Tensor, doc: x, kind: mutate}", "name that ends in '_'"),
    ("{func: f(Tensor self) -> Tensor, doc: x, kind: view, forms: out}", "a view has no form"),
    ("{func: f(Tensor self) -> Tensor, doc: x, varargs: true}", "needs an int[] argument"),
    ("{func: f(Tensor self) -> Tensor, doc: x, kernel: unary}", "write e.g."),
    ("{func: f(Tensor self) -> Tensor, doc: x, kernel: unary Exp floats}", "group 'floats'"),
    (
        "{func: f_(Tensor self) -> Tensor, doc: x, kind: mutate, autocast: float32}",
        "exists only in place keeps its dtype",
    ),
]


BAD_KEYS = [
    ("autocast: half", "unknown policy 'half'; known are lower_precision"),
    ("autocast: {gpu: float32}", "unknown device 'gpu'; known are cpu, cuda"),
    ("autocast: [float32]", "'autocast' is a policy, or a mapping"),
    ("autocast: float32_by_option", "needs an argument 'DType? dtype'"),
    ("batch: [same]", "'batch' names a function of csrc/ops/vmap/batch_rules.h"),
    ("python: toplevel", "'toplevel' is no place; known are top, nn.functional"),
    ("python: top private", "'private' stands alone"),
    ("forms: method, python: top", "only an op with the form 'function'"),
    ("python: through", "after 'through' stand functions, such as 'through linalg.svd'"),
    ("python: through linalg.svd()", "'linalg.svd()' is no name as it stands behind 'rushlight.'"),
    ("profile: numel(out)", "'profile' is a mapping with the keys flops and bytes"),
    ("profile: {flop: 1}", "profile: unknown key 'flop'"),
    ("profile: {flops: numel(other)}", "speaks of 'other'; the row has self, out"),
    ("profile: {flops: cube(self)}", "calls 'cube'; known are numel, bytes"),
    ("profile: {flops: 2 * self}", "needs a number where 'self' stands"),
    ("profile: {flops: size(self)}", "gives size 1 arguments; it takes 2"),
    ("profile: {flops: prod(self)}", "gives prod 'self', which is no ints"),
    ("profile: {flops: 2 ** 3}", "has a part that is not known here: '2 ** 3'"),
    ("profile: {flops: '2 *'}", "is no expression"),
    ("kind: view, profile: {flops: 1}", "a view costs nothing"),
]
BAD_ROWS += [(f"{{func: f(Tensor self) -> Tensor, doc: x, {key}}}", text) for key, text in BAD_KEYS]


@pytest.mark.parametrize(("row", "text"), BAD_ROWS, ids=[t for _, t in BAD_ROWS])
def test_bad_rows_are_explained(table, row, text):
    with pytest.raises(TableError) as e:
        load_all([table("- {func: g(Tensor self) -> Tensor, doc: fine}\n- " + row)])
    assert text in str(e.value) and "demo.yaml" in str(e.value)
    if row.count("(") == row.count(")") and "->" in row and "f(" in row:
        assert "row 2" in str(e.value)


def test_the_same_overload_twice(table):
    row = "- {func: f(Tensor self) -> Tensor, doc: x}\n"
    with pytest.raises(TableError, match=r"'f' stands already in demo.yaml, row 1"):
        load_all([table(row + row)])


def test_overloads_have_one_policy(table):
    rows = """
- {func: f(Tensor self) -> Tensor, autocast: float32, doc: One.}
- {func: 'f.dim(Tensor self, int dim) -> Tensor', doc: Two.}
"""
    with pytest.raises(TableError, match=r"row 2 \(f.dim\): 'autocast' differs from that of demo"):
        load_all([table(rows)])


def test_a_public_name_has_one_owner(table):
    rows = """
- {func: f(Tensor self) -> Tensor, python: special.h, doc: One.}
- {func: g(Tensor self) -> Tensor, python: special.h, doc: Two.}
"""
    with pytest.raises(TableError, match=r"row 2 \(g\): python: 'special.h' is 'f' of demo.yaml"):
        load_all([table(rows)])


def test_one_functor_two_meanings(table):
    rows = """
- {func: f(Tensor self) -> Tensor, kernel: unary Exp floating, doc: One.}
- {func: g(Tensor self) -> Tensor, kernel: unary Exp(1) floating, doc: Two.}
"""
    with pytest.raises(TableError, match=r"row 2 \(g\): the unary kernel Exp has 1 parameters"):
        generate.outputs([table(rows)])


def test_command_line(table, tmp_path):
    script = [sys.executable, ROOT / "codegen" / "generate.py", "--out", tmp_path / "gen"]
    path = table(TABLE)
    listed = subprocess.run(
        [*script, "--table", path, "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not (tmp_path / "gen").exists()
    subprocess.run([*script, "--table", path], check=True)
    written = {str(p.relative_to(tmp_path / "gen")) for p in (tmp_path / "gen").rglob("*.*")}
    assert written == set(listed)

    times = {p: (tmp_path / "gen" / p).stat().st_mtime_ns for p in listed}
    subprocess.run([*script, "--table", path], check=True)
    assert times == {p: (tmp_path / "gen" / p).stat().st_mtime_ns for p in listed}

    bad = subprocess.run(
        [*script, "--table", table("- {func: f}", "bad.yaml")], capture_output=True, text=True
    )
    assert bad.returncode == 1 and "bad.yaml, row 1 (f)" in bad.stderr


def test_the_guide_lists_every_key():
    guide = (ROOT / "docs" / "adding_an_op.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", guide, re.M)
    assert sorted(listed) == sorted(ROW_KEYS)


def test_rows_and_rules_know_each_other():
    rows = load_all((ROOT / "csrc" / "ops").rglob("*.yaml"))
    header = (ROOT / "csrc" / "ops" / "vmap" / "batch_rules.h").read_text()
    declared = re.findall(r"^void (\w+)\(BatchedCall& c\);", header, re.M)
    assert sorted(declared) == sorted({row.batch for row in rows if row.batch})


def test_an_empty_table_is_fine():
    files = generate.outputs([])
    assert "for_each_family" in files["ops/registry_table.cpp"]
