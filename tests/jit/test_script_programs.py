"""Programs with control flow: gradients, state, threads, interrupts, files that lie."""

import copy
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import rushlight as rl
from rushlight import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hostile
from language.modules import Attributes, Buffers, CellLoop, Methods, Modes, Perceptron


def again(program):
    return rl.jit.load(io.BytesIO(program.save_to_buffer()))


def powers(x, n: int):
    y = x
    for i in range(n):
        y = y * x if i % 2 == 0 else y + x
    return y.sum()


def test_gradients_flow_through_loops_and_branches():
    f = rl.jit.script(powers)
    for n in (0, 1, 4):
        x, z = (rl.tensor([0.5, -1.5, 2.0], dtype=rl.float64, requires_grad=True) for _ in range(2))
        powers(x, n).backward()
        f(z, n).backward()
        assert rl.equal(x.grad, z.grad)
    assert rl.autograd.gradcheck(lambda x: f(x, 3), (x.detach().requires_grad_(),))


def test_a_training_step_is_the_same_in_every_bit():
    rl.manual_seed(0)
    model, x = CellLoop(), rl.randn(5, 2, 3)
    scripted = again(rl.jit.script(model))
    for runs in (model, scripted):
        optimizer = rl.optim.Adam(runs.parameters(), lr=0.1)
        y, steps = runs(x)
        (y.square().mean() * steps).backward()
        optimizer.step()
    for (name, a), b in zip(
        model.state_dict().items(), scripted.state_dict().values(), strict=True
    ):
        assert rl.equal(a, b), name


def test_a_scripted_module_shares_parameters_and_replaces_buffers():
    model = Buffers()
    scripted = rl.jit.script(model)
    assert scripted.scale is model.scale
    _, steps = scripted(rl.ones(2, 4))
    assert int(steps) == 1 and int(scripted.steps) == 1
    assert rl.allclose(scripted.mean, rl.full((4,), 0.1)) and "mean" in scripted.state_dict()
    scripted(rl.ones(2, 4))
    assert int(scripted.steps) == 2


def test_attributes_are_kept_read_and_set():
    scripted = rl.jit.script(Attributes())
    scripted(rl.ones(1))
    assert scripted.count == 1 and scripted.names == ["a", "1"] and scripted.table == {"x": 2}
    scripted.count = 10
    loaded = again(scripted)
    other = copy.deepcopy(loaded)
    assert loaded(rl.ones(1))[1] == 11 and loaded.names == ["a", "1", "11"]
    assert other.count == 10 and other.names == ["a", "1"]
    with pytest.raises(TypeError, match="count: expected int"):
        scripted.count = "text"
    with pytest.raises(AttributeError):
        scripted.nothing  # noqa: B018 -- reading raises


def test_the_mode_of_each_part_counts():
    model = Modes()
    scripted = rl.jit.script(copy.deepcopy(model))
    x = rl.randn(6, 4)
    for change in (lambda m: m.eval(), lambda m: m.train(), lambda m: m.norm.eval()):
        change(model), change(scripted)
        assert rl.equal(model(x), scripted(x))
    loaded = again(scripted)
    assert loaded.training and not loaded.norm.training
    assert rl.equal(model(x), loaded(x))


def test_methods_that_are_exported():
    model = Methods()
    scripted, x = rl.jit.script(model), rl.randn(2, 4)
    assert rl.equal(scripted.encode(x), model.encode(x))
    assert rl.equal(again(scripted).encode(x), model.encode(x))
    assert "def encode" not in scripted.code and "def forward" in scripted.code
    with pytest.raises(AttributeError):
        scripted.helper  # noqa: B018 -- reading raises


def defaults(x, scale: float = 2.0, shift: int = 1, name: str | None = None):
    if name is not None:
        x = x + len(name)
    return x * scale + shift


def test_arguments_by_name_and_defaults():
    f, x = rl.jit.script(defaults), rl.ones(2)
    for runs in (f, again(f)):
        for args, kwargs in (((), {}), ((3.0,), {}), ((), {"shift": 5}), ((1,), {"name": "abc"})):
            assert rl.equal(runs(x, *args, **kwargs), defaults(x, *args, **kwargs))
        for args, kwargs in (((), {"other": 1}), ((1.0, 2, "a", 4), {}), ((1.0,), {"scale": 2.0})):
            with pytest.raises(TypeError):
                runs(x, *args, **kwargs)
        with pytest.raises(TypeError, match="'shift': expected int, got a float"):
            runs(x, 1.0, 2.5)
        with pytest.raises(TypeError, match="has the inputs|missing"):
            runs()


class Pair(NamedTuple):
    left: rl.Tensor
    count: int


def paired(p: Pair) -> Pair:
    return Pair(p.left + 1, p.count * 2)


def test_named_tuples_come_back_as_their_class():
    f = rl.jit.script(paired)
    found = f(Pair(rl.zeros(2), 4))
    assert isinstance(found, Pair) and found.count == 8 and rl.equal(found.left, rl.ones(2))


def raises(n: int):
    if n == 0:
        raise KeyError("nothing")
    xs = [1, 2]
    return xs[n]


def test_errors_have_their_class_and_line():
    f = rl.jit.script(raises)
    with pytest.raises(KeyError, match="nothing") as error:
        f(0)
    assert isinstance(error.value, rl.jit.Error) and isinstance(error.value, RuntimeError)
    assert f"{Path(__file__).name}:{raises.__code__.co_firstlineno + 2}" in str(error.value)
    with pytest.raises(IndexError, match="list index out of range"):
        f(7)
    assert f(1) == 2


def overflow(n: int):
    return n * n


def test_ints_do_not_wrap_around():
    with pytest.raises(OverflowError, match="64 bits"):
        rl.jit.script(overflow)(2**40)


def printed(n: int):
    print("n is", n, [1.5])


def test_print_goes_to_pythons_stdout(capsys):
    rl.jit.script(printed)(3)
    assert capsys.readouterr().out == "n is 3 [1.5]\n"


def spin(n: int):
    i = 0
    while i >= 0:
        i = (i + 1) % n
    return i


def test_a_loop_without_end_reacts_to_signals():
    f = rl.jit.script(spin)

    def leave(*args):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(TimeoutError):
            f(1000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.threads
def test_several_threads_run_one_program():
    rl.manual_seed(0)
    model = rl.jit.script(CellLoop())
    inputs = [rl.randn(5, 2, 3) for _ in range(8)]
    with rl.no_grad():
        expected = [model(x) for x in inputs]
        found = [None] * len(inputs)

        def work(k):
            with rl.no_grad():
                for _ in range(20):
                    found[k] = model(inputs[k])

        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for (a, n), (b, m) in zip(expected, found, strict=True):
        assert n == m and rl.equal(a, b)


@pytest.mark.threads
def test_threads_that_change_a_list_of_the_module():
    model = rl.jit.script(Attributes())

    def work():
        for _ in range(300):
            model(rl.ones(1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(model.names) == 1201


class Refilled(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = [""]

    def forward(self, name: str) -> list[str]:
        self.names.clear()
        self.names.extend([name for _ in range(500)])
        return self.names


@pytest.mark.threads
def test_a_result_that_other_threads_change_is_that_of_the_call():
    model, mixed = rl.jit.script(Refilled()), []

    def work(name):
        mixed.extend(found for _ in range(250) if set(found := model(name)) != {name})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    assert not mixed


@pytest.mark.threads
def test_the_gil_is_free_while_a_program_runs():
    f, turns = rl.jit.script(spin_for), []

    def count():
        while not done.is_set():
            turns.append(1)
            time.sleep(0.001)

    done = threading.Event()
    thread = threading.Thread(target=count)
    thread.start()
    f(3_000_000)
    done.set()
    thread.join()
    assert len(turns) > 1


def spin_for(n: int):
    t = 0
    for i in range(n):
        t = (t * 31 + i) % 1000003
    return t


def test_freeze_makes_constants():
    model = Perceptron().eval()
    scripted = rl.jit.script(model).eval()
    frozen, x = rl.jit.freeze(scripted), rl.randn(2, 4)
    assert not list(frozen.parameters()) and "training" not in frozen.code
    assert rl.equal(frozen(x), model(x)) and rl.equal(again(frozen)(x), model(x))
    assert not frozen(x).requires_grad
    before = model(x)
    with rl.no_grad():
        model.first.weight.add_(1)
    assert rl.equal(frozen(x), before)
    with pytest.raises(RuntimeError, match="training mode"):
        rl.jit.freeze(rl.jit.script(Perceptron()))
    with pytest.raises(RuntimeError, match="preserved_attrs"):
        rl.jit.freeze(rl.jit.script(Attributes().eval()))
    kept = rl.jit.freeze(rl.jit.script(Attributes().eval()), ["count", "factor", "names", "table"])
    assert kept(rl.ones(1))[1] == 1 and kept.count == 1
    assert rl.equal(rl.jit.optimize_for_inference(scripted)(x), model(x))


def test_what_cannot_be_scripted_or_pickled():
    with pytest.raises(TypeError, match="expected a function or a module"):
        rl.jit.script(3)
    with pytest.raises(RuntimeError, match="source of|no function with a def"):
        rl.jit.script(eval("lambda x: x"))
    scripted = rl.jit.script(Perceptron())
    assert rl.jit.script(scripted) is scripted
    with pytest.raises(TypeError, match="jit.save"):
        import pickle

        pickle.dumps(scripted)


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Linear(2, 2)
        self.part.register_forward_hook(lambda *args: None)

    def forward(self, x):
        return self.part(x)


def padded(x):
    reflected = nn.functional.pad(x, (1, 1), mode="reflect")
    return nn.functional.pad(reflected, (2, 0), mode="circular"), nn.functional.pad(x, (0, 1))


def test_pad_takes_tuples():
    x = rl.arange(6.0).reshape(1, 2, 3)
    for given, expected in zip(rl.jit.script(padded)(x), padded(x), strict=True):
        assert rl.equal(given, expected)


def test_hooks_are_refused():
    with pytest.raises(RuntimeError, match="forward hooks"):
        rl.jit.script(Hooked())


@rl.jit.script_if_tracing
def halves(x, n: int):
    for _ in range(n):
        x = x / 2
    return x


def test_script_if_tracing_is_python_outside_of_a_trace():
    assert rl.equal(halves(rl.ones(1), 2), rl.full((1,), 0.25))


# Files --------------------------------------------------------------------------------------------


def program_of(fn):
    parts = hostile.entries(rl.jit.script(fn).save_to_buffer())
    return json.loads(parts["program.json"]), parts


def edited(change):
    program, parts = program_of(powers)
    change(program["functions"][0])
    parts = {**parts, "program.json": json.dumps(program).encode()}
    return rl.jit.load(io.BytesIO(hostile.zipped(parts.items())))


def loop_of(f):
    return next(s["loop"] for s in f["body"] if "loop" in s)


EDITS = {
    "a local that is never written": (
        lambda f: f["body"].insert(0, {"return": 5}),
        "never reached|read before",
    ),
    "no such local": (lambda f: f["body"].insert(0, {"move": 99, "to": 2}), "no local 99"),
    "a float for an int": (
        lambda f: f["body"].insert(0, {"move": {"is": 1.5}, "to": 1}),
        "is int, and float",
    ),
    "a tensor for an int": (
        lambda f: f["body"].insert(0, {"move": 0, "to": 1}),
        "is int, and Tensor",
    ),
    "no such builtin": (
        lambda f: f["body"].insert(0, {"do": "system", "args": [], "to": None}),
        "no builtin",
    ),
    "no such operator": (
        lambda f: f["body"].insert(0, {"op": "system", "args": {}, "to": []}),
        "no operator",
    ),
    "a builtin with another type": (
        lambda f: f["body"].insert(0, {"do": "len_list", "args": [1], "to": None}),
        "len_list: argument 0 is int",
    ),
    "too few arguments": (
        lambda f: f["body"].insert(0, {"do": "add_int", "args": [1], "to": None}),
        "takes 2 arguments",
    ),
    "break outside of a loop": (
        lambda f: f["body"].insert(0, {"break": True}),
        "outside of a loop",
    ),
    "a function that calls itself": (
        lambda f: f["body"].insert(0, {"call": 0, "args": [0, 1], "to": None}),
        "stand before it",
    ),
    "a condition that is no bool": (
        lambda f: f["body"].insert(0, {"if": 1, "then": [], "else": []}),
        "must be a bool",
    ),
    "another result": (lambda f: f.update(returns="int"), "it returns Tensor, not int"),
    "no return": (lambda f: f["body"].pop(), "without a return"),
    "an unknown type": (lambda f: f["locals"].append("Module"), "no type"),
    "a deep type": (
        lambda f: f["locals"].append("List[" * 50 + "int" + "]" * 50),
        "nested too deep",
    ),
    "a union that values cannot tell": (
        lambda f: f["locals"].append("Union[List[int], List[str]]"),
        "told apart",
    ),
    "an unknown key": (lambda f: f.update(more=1), "not known"),
    "an unknown statement": (lambda f: f["body"].insert(0, {"goto": 3}), "no statement 'goto'"),
    "a part is missing": (lambda f: f["body"].insert(0, {"move": 1}), "missing"),
    "state that is not there": (
        lambda f: f["body"].insert(0, {"move": {"state": 3}, "to": 0}),
        "no state 3",
    ),
    "blocks too deep": (
        lambda f: f["body"].insert(0, deep_blocks(120)),
        "nested more than 100 deep",
    ),
    "JSON too deep": (lambda f: f["body"].insert(0, deep_blocks(400)), "deep"),
    "a tuple's place from outside": (
        lambda f: (
            f["locals"].append("Tuple[int, int]"),
            f["body"].insert(0, {"do": "item", "args": [len(f["locals"]) - 1, 1], "to": None}),
        ),
        "read before|stands in the program",
    ),
    "more inputs than locals": (
        lambda f: f["inputs"].extend([{"name": "a"}] * 50),
        "more inputs than locals",
    ),
    "a default of another type": (
        lambda f: f["inputs"][1].update(default={"is": "text"}),
        "is no int",
    ),
    "inside of a loop": (
        lambda f: loop_of(f).append({"move": {"is": None}, "to": 1}),
        "never reached|is int, and None",
    ),
}


def deep_blocks(n):
    block = {"loop": [{"break": True}]}
    for _ in range(n):
        block = {"if": {"is": True}, "then": [block], "else": []}
    return block


@pytest.mark.parametrize("name", EDITS)
def test_functions_that_do_not_hold_together_are_refused(name):
    change, text = EDITS[name]
    with pytest.raises(RuntimeError, match=text):
        edited(change)


def hostile_files(seed, count):
    command = [sys.executable, hostile.__file__, str(seed), str(count), "script"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), timeout=300
    )
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert sum((outcomes["loaded"], outcomes["refused"])) == count
    return outcomes


def test_changed_files_neither_crash_nor_hang():
    assert hostile_files(1, 60)["refused"] > 30


@pytest.mark.slow
def test_many_changed_files_neither_crash_nor_hang():
    outcomes = hostile_files(2, 2000)
    assert outcomes["refused"] > 1000 and outcomes["ran"] > 50
