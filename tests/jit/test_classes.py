"""Objects of classes between Python and programs: arguments, results, attributes of modules, files.
What scripts do with them: language/classes.py, language/refused.txt."""

import copy
import dataclasses
import enum
import io
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import jit, nn


@jit.script
class Total:
    def __init__(self, start: float, name: str = "total"):
        self.value = start
        self.history: list[float] = []
        self.name = name

    def add(self, x: float) -> float:
        self.history.append(x)
        self.value += x
        return self.value


class Shape(enum.Enum):
    ROUND = "round"
    FLAT = "flat"


class Colour(enum.Enum):
    RED = 1


def added(total: Total, x: float) -> Total:
    total.add(x)
    return total


def again(program):
    return jit.load(io.BytesIO(program.save_to_buffer()))


def test_objects_come_in_by_value_and_go_out_as_their_class():
    f = jit.script(added)
    for program in (f, again(f)):
        given = Total(1.0)
        given.value = 2  # an int may stand for a float
        out = program(given, 3.0)
        assert type(out) is Total and (out.value, out.history) == (5.0, [3.0])
        assert given.value == 2 and given.history == []  # containers are copied, too
        assert out.add(1.0) == 6.0
    assert "Object[Total; value: float; history: List[float]; name: str]" in f.code


def test_wrong_objects_are_refused():
    f = jit.script(added)
    with pytest.raises(TypeError, match=r"expected Object\[Total.*got a float"):
        f(3.0, 3.0)
    bad = Total(1.0)
    bad.value = "text"
    with pytest.raises(TypeError, match=r"value: ?expected float|value.*expected float"):
        f(bad, 3.0)
    del bad.history
    with pytest.raises(TypeError, match="no attribute 'history'"):
        f(bad, 3.0)

    class Other:
        pass

    with pytest.raises(RuntimeError, match="not .*Other"):
        f(Other(), 3.0)


def test_enumerations_come_in_and_go_out():
    def turned(shape: Shape) -> Shape:
        return Shape.FLAT if shape == Shape.ROUND else Shape.ROUND

    f = jit.script(turned)
    for program in (f, again(f)):
        assert program(Shape.ROUND) is Shape.FLAT and program(Shape.FLAT) is Shape.ROUND
    with pytest.raises(TypeError, match="expected NamedTuple"):
        f(Colour.RED)
    with pytest.raises(TypeError, match="expected NamedTuple"):
        f("round")


class Keeper(nn.Module):
    shape: Shape

    def __init__(self):
        super().__init__()
        self.total, self.shape = Total(0.5), Shape.ROUND
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        self.total.add(float(x.sum()))
        if self.shape == Shape.FLAT:
            return x
        return self.fc(x) * self.total.value


def test_modules_keep_objects():
    model, x = Keeper(), rl.ones(1, 2)
    scripted = jit.script(copy.deepcopy(model))
    for _ in range(2):
        assert rl.equal(model(x), scripted(x))
    assert type(scripted.total) is Total and scripted.total.history == [2.0, 2.0]
    assert scripted.shape is Shape.ROUND
    loaded, other = again(scripted), copy.deepcopy(scripted)
    assert rl.equal(loaded(x), model(x)) and loaded.total.value == 6.5
    assert other.total.value == 4.5  # its own one
    loaded.shape = Shape.FLAT
    assert loaded(x) is x or rl.equal(loaded(x), x)
    loaded.total = Total(9.0, "new")
    loaded(x)
    assert loaded.total.value == 11.0 and loaded.total.name == "new"


def test_objects_of_other_classes_are_constants():
    class Settings:
        def __init__(self):
            self.factor = 3

    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.settings = Settings()

        def forward(self, x):
            return x * self.settings.factor

        @jit.export
        def change(self):
            self.settings.factor = 4

    with pytest.raises(RuntimeError, match="'factor' of a Settings cannot be set; give its class"):
        jit.script(Holds())
    Holds.change = jit.ignore(Holds.change)
    assert jit.script(Holds())(rl.ones(1)).item() == 3


def test_tensors_in_kept_objects_are_not_saved():
    @jit.script
    class Holder:
        def __init__(self, x):
            self.x = x

    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.holder = Holder(rl.ones(2))

        def forward(self, x):
            return x + self.holder.x

    with pytest.raises(RuntimeError, match="register them as buffers"):
        jit.script(Holds())


def test_files_run_where_the_class_is_not_known(tmp_path):
    f = jit.script(added)
    path = tmp_path / "added.rush"
    f.save(path)

    def made(x: float) -> Total:
        return Total(x, "made")

    jit.script(made).save(tmp_path / "made.rush")
    program = f"""
import rushlight as rl
made, f = rl.jit.load({str(tmp_path / "made.rush")!r}), rl.jit.load({str(path)!r})
out = f(made(2.0), 0.5)
print(type(out).__name__, out.value, out.history, out.name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "Total 2.5 [0.5] made\n", done.stderr


def test_gradients_flow_through_objects():
    @jit.script
    class Sum:
        def __init__(self, x):
            self.x = x * 2

        def more(self, y):
            self.x = self.x * y

    def f(x, n: int):
        s = Sum(x)
        for _ in range(n):
            s.more(x)
        return s.x.sum()

    x = rl.tensor([0.5, -1.5], dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(lambda x: jit.script(f)(x, 3), (x,))


def test_a_class_is_compiled_when_it_is_scripted():
    with pytest.raises(RuntimeError, match=r"int \+ str is not defined\n.*in .*Wrong.bad"):

        @jit.script
        class Wrong:
            def __init__(self, n: int):
                self.n = n

            def bad(self):
                return self.n + "text"

    with pytest.raises(RuntimeError, match="class Kept: Kept derives from Total"):

        @jit.script
        class Kept(Total):
            def __init__(self):
                self.x = 1

    @jit.script
    class Fine:
        def __init__(self, n: int):
            self.n = n

        @jit.ignore
        def python(self):
            return {self.n}

        @jit.unused
        def never(self):
            yield self.n

    assert Fine(3).python() == {3} and jit.script(Shape) is Shape and jit.script(nn.ReLU) is nn.ReLU


def test_classes_of_one_name_keep_their_methods():
    def made(factor: int):
        class Scale:
            def __init__(self, n: int):
                self.n = n

            if factor == 2:

                def scaled(self) -> int:
                    return self.n * 2

            else:

                def scaled(self) -> int:
                    return self.n * 3

        return Scale

    Two, Three = made(2), made(3)

    def f(n: int):
        return Two(n).scaled(), Three(n).scaled()

    assert jit.script(f)(5) == f(5) == (10, 15)


def test_classes_are_not_kept_alive():
    import gc
    import weakref

    def run():
        class Gone:
            def __init__(self, n: int):
                self.n = n

        def f(n: int) -> int:
            return Gone(n).n

        assert jit.script(f)(3) == 3
        return weakref.ref(Gone)

    gone = run()
    gc.collect()
    assert gone() is None


def test_a_dataclass_is_given_to_script_itself():
    @jit.script  # (its __repr__ comes wrapped from the module dataclasses)
    @dataclasses.dataclass
    class Cut:
        x: rl.Tensor
        length: int | None = None

    def f(x: rl.Tensor) -> Cut:
        return Cut(x[:2], 2)

    out = jit.script(f)(rl.arange(3))
    assert repr(out).endswith("Cut(x=tensor([0, 1]), length=2)")


def test_frozen_and_keyword_dataclasses():
    @dataclasses.dataclass(frozen=True)
    class Config:
        width: int
        _: dataclasses.KW_ONLY
        depth: int = 2
        names: tuple[str, str] = ("a", "b")

    def f(n: int) -> Config:
        return Config(n, depth=n + 1)

    out = jit.script(f)(3)
    assert out == Config(3, depth=4) and out.names == ("a", "b")


@pytest.mark.threads
def test_two_threads_have_their_own_objects():
    from concurrent.futures import ThreadPoolExecutor

    def f(n: int) -> Total:
        total = Total(0.0)
        for i in range(n):
            total.add(float(i))
        return total

    program = jit.script(f)
    with ThreadPoolExecutor(2) as pool:
        for n, out in zip(range(200), pool.map(program, range(200)), strict=True):
            assert out.value == n * (n - 1) / 2 and len(out.history) == n
