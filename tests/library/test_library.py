"""Library, define, impl, opcheck, infer_schema and `ops`."""

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import Tensor, _extensions, library
from rushlight.library import Library, custom_op, infer_schema, opcheck


@pytest.fixture
def lib():
    with library._scoped_library("tests_lib", "DEF") as made:
        yield made


def test_define_and_impl(lib):
    assert (
        lib.define("scaled(Tensor x, int[2] k=1, float[] f=[1.0, 2], str s='hi') -> Tensor")
        == "scaled"
    )
    with pytest.raises(NotImplementedError, match="no kernel for cpu"):
        rl.ops.tests_lib.scaled(rl.ones(1))
    lib.impl("scaled", lambda x, k, f, s: x * k[0] * f[1] * len(s), "CPU")
    assert rl.ops.tests_lib.scaled(rl.ones(1)).item() == 4
    assert rl.ops.tests_lib.scaled(rl.ones(1), 3).item() == 12
    x = rl.ones(1, requires_grad=True)
    assert not rl.ops.tests_lib.scaled(x).requires_grad  # a kernel, and no gradient
    with pytest.raises(NotImplementedError, match="register_fake"):
        rl.ops.tests_lib.scaled(rl.ones(1, device="meta"))
    library.register_fake("tests_lib::scaled", lambda x, k, f, s: rl.empty_like(x))
    assert rl.ops.tests_lib.scaled(rl.ones(1, device="meta")).is_meta
    assert "scaled" in dir(rl.ops.tests_lib)


def test_composites_are_differentiated_and_batched(lib):
    lib.define("square_sum(Tensor x) -> Tensor")
    lib.impl("square_sum", lambda x: (x * x).sum())
    x = rl.arange(3.0, requires_grad=True)
    rl.ops.tests_lib.square_sum(x).backward()
    assert x.grad.tolist() == [0.0, 2.0, 4.0]
    assert rl.vmap(rl.ops.tests_lib.square_sum)(rl.ones(2, 3)).tolist() == [3.0, 3.0]
    primal, tangent = rl.func.jvp(rl.ops.tests_lib.square_sum, (rl.ones(3),), (rl.ones(3),))
    assert (primal.item(), tangent.item()) == (3.0, 6.0)


def test_an_autograd_kernel(lib):
    class Double(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with rl.no_grad():
                return rl.ops.tests_lib.double(x)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
    lib.impl("double", lambda x: Double.apply(x), "Autograd")
    x = rl.ones(2, requires_grad=True)
    rl.ops.tests_lib.double(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_overloads(lib):
    lib.define("shift(Tensor x) -> Tensor")
    lib.define("shift.by(Tensor x, int n) -> Tensor")
    lib.impl("shift", lambda x: x + 1, "CompositeExplicitAutograd")
    lib.impl("shift.by", lambda x, n: x + n, "CompositeExplicitAutograd")
    shift = rl.ops.tests_lib.shift
    assert shift(rl.zeros(1)).item() == 1 and shift(rl.zeros(1), 5).item() == 5
    assert shift.overloads() == ["default", "by"] and shift.by(rl.zeros(1), 3).item() == 3
    assert shift.by.name() == "tests_lib::shift.by" and shift.by._overloadname == "by"
    with pytest.raises(RuntimeError, match="no signature fits"):
        shift("a")
    with pytest.raises(AttributeError, match="no overload name 'foo'"):
        shift.foo  # noqa: B018
    assert pickle.loads(pickle.dumps(shift.by)) == shift.by and copy.copy(shift) is shift
    assert {shift.by: 1}[rl.ops.tests_lib.shift.by] == 1
    assert shift.default.has_kernel_for_dispatch_key("CompositeExplicitAutograd")


def test_in_place_schemas(lib):
    lib.define("add_(Tensor(a!) self, Tensor other) -> Tensor(a!)")
    lib.impl("add_", lambda self, other: self.add_(other), "CPU")
    x = rl.zeros(2)
    assert rl.ops.tests_lib.add_(x, rl.ones(2)) is x and x.tolist() == [1.0, 1.0]


def test_names_and_their_lives():
    lib = Library("tests_life", "DEF")
    with pytest.raises(RuntimeError, match="Only a single"):
        Library("tests_life", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="defined already"):
        lib.define("f(Tensor x, int n) -> Tensor")
    fragment = Library("tests_life", "FRAGMENT")
    fragment.define("g(Tensor x) -> Tensor")
    assert hasattr(rl.ops.tests_life, "f") and hasattr(rl.ops.tests_life, "g")
    del lib
    assert not hasattr(rl.ops.tests_life, "f") and hasattr(rl.ops.tests_life, "g")
    again = Library("tests_life", "DEF")
    assert repr(again) == "Library(kind=DEF, ns=tests_life, dispatch_key=)>"
    for bad in ("aten", "prim"):
        with pytest.raises(RuntimeError, match="Only a single"):
            Library(bad, "DEF")
    with pytest.raises(ValueError, match="Unsupported kind"):
        Library("tests_life", "OTHER")
    with pytest.raises(RuntimeError, match="'IMPL'"):
        Library("tests_life", "IMPL").define("h(Tensor x) -> Tensor")
    with pytest.raises(AttributeError):
        rl.ops.tests_life.nothing  # noqa: B018


def test_functions_may_come_first():
    impl = Library("tests_late", "IMPL")
    impl.impl("late", lambda x: x + 1, "CPU")
    with library._scoped_library("tests_late", "DEF") as lib:
        lib.define("late(Tensor x) -> Tensor")
        assert rl.ops.tests_late.late(rl.zeros(1)).item() == 1


def test_keys(lib):
    lib.define("f(Tensor x) -> Tensor")
    for key, error in [
        ("CPUU", RuntimeError),
        ("AutocastCPU", NotImplementedError),
        ("BackendSelect", NotImplementedError),
    ]:
        with pytest.raises(error):
            lib.impl("f", lambda x: x, key)
    lib.impl("f", lambda x: x, "MPS")  # a device that is never there
    lib.impl("f", library.fallthrough_kernel, "Autograd")
    lib.impl("f", library.fallthrough_kernel, "ADInplaceOrView")
    with pytest.raises(NotImplementedError, match="fallthrough"):
        lib.impl("f", library.fallthrough_kernel, "CPU")
    with pytest.raises(NotImplementedError, match="cannot be replaced"):
        Library("aten", "IMPL").impl("add", lambda x: x, "CPU")
    with pytest.raises(RuntimeError, match="namespace"):
        lib.impl("other::f", lambda x: x, "CPU")
    with pytest.raises(TypeError, match="expected a function"):
        lib.impl("f", 3, "CPU")


@pytest.mark.parametrize(
    "schema, text",
    [
        ("f Tensor x) -> Tensor", r"expected '\('"),
        ("f(Tensr x) -> Tensor", "no type 'Tensr'"),
        ("f(Tensor) -> Tensor", "argument's name"),
        ("f(Tensor x) Tensor", "->"),
        ("f(Tensor x) -> Tensor y z", "nothing may follow"),
        ("f(Tensor x, Tensor x) -> Tensor", "two arguments 'x'"),
        ("f(int n=1, Tensor x) -> Tensor", "no default"),
        ("f(int n=1.5) -> Tensor", "whole number"),
        ("f(int n=None) -> Tensor", "must not be None"),
        ("f(bool b=1) -> Tensor", "True or False"),
        ("f(str[] s) -> Tensor", "lists of"),
        ("f(int?[] s) -> Tensor", "lists of tensors"),
        ("f(ScalarType d=float33) -> Tensor", "no dtype"),
        ("f(Tensor x) -> str", "results are"),
        ("f(str s='a) -> Tensor", "does not end"),
        ("f(Tensor x) -> (Tensor, Tensor", "expected ','"),
        ("", "operator's name"),
        ("f(" + ", ".join(f"int a{i}" for i in range(40)) + ") -> Tensor", "at most 32"),
        ("f() -> (" + ", ".join(["Tensor"] * 9) + ")", "Tensor\\[\\]"),
    ],
)
def test_schemas_that_cannot_be_read(lib, schema, text):
    with pytest.raises(RuntimeError, match=text):
        lib.define(schema)


def test_schemas_are_printed(lib):
    text = (
        "tests_lib::all(Tensor x, Tensor? o, Tensor[] l, Tensor?[] h, int i, float f, bool b, "
        "str s, Scalar c, ScalarType? d=None, Device? v=None, int[3] n=[1, 2, 3], *, "
        "bool[] g=[True, False], "
        "MemoryFormat m=contiguous_format) -> (Tensor values, Tensor[] rest, int n)"
    )
    lib.define(text.removeprefix("tests_lib::"))
    assert str(rl.ops.tests_lib.all.default._schema) == text
    schema = rl.ops.tests_lib.all.default._schema
    assert [a.name for a in schema.arguments][:3] == ["x", "o", "l"] and not schema.is_mutable
    assert schema.arguments[-1].kwarg_only and schema.arguments[-1].has_default_value()


def test_the_functional_spellings(monkeypatch):
    # No library of C++ code was set aside: an operator that is not there is a mistake.
    monkeypatch.setattr(_extensions, "set_aside", [])
    library.define("tests_fn::f", "(Tensor x) -> Tensor")
    library.impl("tests_fn::f", "cpu", lambda x: x + 1)
    assert rl.ops.tests_fn.f(rl.zeros(1)).item() == 1

    @library.impl("tests_fn::f", "default")
    def _(x):
        return x + 2

    library.register_kernel("tests_fn::f", "cpu", lambda x: x + 3)
    assert rl.ops.tests_fn.f(rl.zeros(1)).item() == 3
    library.register_autograd("tests_fn::f", lambda ctx, g: g * 5)
    x = rl.zeros(1, requires_grad=True)
    rl.ops.tests_fn.f(x).backward()
    assert x.grad.item() == 5
    library.register_autocast("tests_fn::f", "cpu", rl.bfloat16)
    with rl.autocast("cpu"):
        assert rl.ops.tests_fn.f(rl.zeros(1)).dtype == rl.bfloat16

    @library.register_vmap("tests_fn::f")
    def _(info, in_dims, x):
        return x - 1, in_dims[0]

    assert rl.vmap(rl.ops.tests_fn.f)(rl.zeros(2)).tolist() == [-1.0, -1.0]
    for register in (library.register_fake, library.register_vmap):
        with pytest.raises(RuntimeError, match="operator tests_fn::g does not exist"):
            register("tests_fn::g", lambda x: x)
    with pytest.raises(ValueError, match="expected schema"):
        library.define("tests_fn::g(Tensor x)", "-> Tensor")
    with pytest.raises(NotImplementedError):
        library.register_torch_dispatch("tests_fn::f", Tensor, lambda *a: a)
    lib = Library("tests_fn", "FRAGMENT")

    @library.define(lib, "h(Tensor x) -> Tensor")
    def _(x):
        return x * 2

    assert rl.ops.tests_fn.h(rl.ones(1)).item() == 2
    lib.define("k(Tensor x) -> Tensor")

    @library.impl(lib, "k", "CPU")
    def _(x):
        return x * 3

    assert rl.ops.tests_fn.k(rl.ones(1)).item() == 3
    lib._destroy()


def test_infer_schema():
    def f(
        x: Tensor, *, n: int = 3, d: rl.dtype = rl.float32, q: "rl.device | None" = None
    ) -> list[Tensor]: ...

    text = "(Tensor x, *, SymInt n=3, ScalarType d=float32, Device? q=None) -> Tensor[]"
    assert infer_schema(f, mutates_args=()) == text
    assert infer_schema(f, mutates_args="unknown", op_name="a::b").startswith("a::b(Tensor(a0!) x")
    assert infer_schema(f, mutates_args={"x"}).startswith("(Tensor(a0!) x")

    def none(x: Tensor) -> None: ...
    def pair(x: Tensor | None) -> tuple[Tensor, int]: ...

    assert infer_schema(none, mutates_args=()) == "(Tensor x) -> ()"
    assert infer_schema(pair, mutates_args=()) == "(Tensor? x) -> (Tensor, int)"

    def untyped(x) -> Tensor: ...
    def no_return(x: Tensor): ...
    def variable(*x: Tensor) -> Tensor: ...
    def odd(x: object) -> Tensor: ...
    def odd_result(x: Tensor) -> dict: ...
    def odd_default(x: Tensor, l: list[int] = (1, 2)) -> Tensor: ...
    def number(n: int) -> Tensor: ...
    def unknown(x: "Nothing") -> Tensor: ...  # noqa: F821

    for function, mutates, text in [
        (untyped, (), "the argument x has no annotation"),
        (no_return, (), "what it returns has no annotation"),
        (variable, (), "cannot be given by name"),
        (odd, (), "annotated as <class 'object'>"),
        (odd_result, (), "Return has unsupported type"),
        (odd_default, (), "the default of"),
        (none, {"z"}, "names z, which the function does not take"),
        (number, {"n"}, "names n, which is no tensor"),
        (none, "x", "mutates_args must be"),
        (unknown, (), "Nothing"),
    ]:
        with pytest.raises(ValueError, match=text):
            infer_schema(function, mutates_args=mutates)


def ops_for_opcheck():
    @custom_op("tests_check::good", mutates_args=())
    def good(x: Tensor, k: float) -> Tensor:
        return x * k

    good.register_fake(lambda x, k: rl.empty_like(x))
    good.register_autograd(
        lambda ctx, g: (g * ctx.k, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]),
    )
    return good


def test_opcheck_accepts():
    good = ops_for_opcheck()
    names = [
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    ]
    for x in (rl.ones(3), rl.ones(2, 3, requires_grad=True), rl.tensor(float("nan")), rl.empty(0)):
        assert opcheck(good, (x, 2.0)) == dict.fromkeys(names, "SUCCESS")
    assert opcheck(rl.ops.tests_check.good, (x,), {"k": 2.0}, test_utils="test_schema")
    assert opcheck(
        rl.ops.tests_check.good.default, (rl.ones(1), 2.0), test_utils="test_aot_dispatch_static"
    )

    @custom_op("tests_check::fill", mutates_args={"x"})
    def fill(x: Tensor) -> None:
        x.fill_(3)

    assert set(opcheck(fill, (rl.ones(2),)).values()) == {"SUCCESS"}


def test_opcheck_finds():
    def writes(x):
        x.add_(1)
        return x.clone()

    def shape(x):
        return rl.empty(x.shape[0] + 1)

    one = rl.ones(2)
    op = custom_op("tests_check::writes", writes, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(library._OpCheckError, match="test_schema failed .* wrote to x"):
        opcheck(op, (one,))
    assert one.tolist() == [1.0, 1.0]
    op = custom_op(
        "tests_check::bad_fake", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    with pytest.raises(library._OpCheckError, match="register_fake"):
        opcheck(op, (one,))
    op.register_fake(shape)
    with pytest.raises(library._OpCheckError, match="fake's shape"):
        opcheck(op, (one,))
    found = opcheck(op, (one,), raise_exception=False)
    assert found["test_schema"] == "SUCCESS" and isinstance(found["test_faketensor"], Exception)
    with library._scoped_library("tests_check2", "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x, "CPU")
        with pytest.raises(library._OpCheckError, match="shares memory"):
            opcheck(rl.ops.tests_check2.f, (one,))
        lib.impl("f", lambda x: x * 2, "CPU")
        with pytest.raises(library._OpCheckError, match="test_autograd_registration"):
            opcheck(rl.ops.tests_check2.f, (one.requires_grad_(),))
    random = custom_op(
        "tests_check::random", lambda x: rl.rand(3), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    random.register_fake(lambda x: rl.empty(3, device="meta"))
    with pytest.raises(library._OpCheckError, match="test_aot_dispatch_dynamic"):
        opcheck(random, (rl.ones(1),))
    with pytest.raises(ValueError, match="test_utils may name"):
        opcheck(op, (one,), test_utils="other")
    with pytest.raises(ValueError, match="Expected op"):
        opcheck(rl.sin, (one,))
