"""Errors of backward name the user's lines: what saved, what wrote, what cut the graph."""

import inspect
import os
import subprocess
import sys
import threading

import pytest

import rushlight as torch

FILE = os.path.basename(__file__)


def line_of(text):
    """The number of the only line of this file that ends with this comment."""
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    found = [i + 1 for i, line in enumerate(lines) if line.rstrip().endswith("# " + text)]
    assert len(found) == 1, (text, found)
    return f"{FILE}:{found[0]} "


@pytest.fixture(params=["fast", "public"])
def way(request):
    """Both ways to find the line; the fast one must be there on the versions it was written for."""
    got = torch._C._set_source_lines(request.param)
    assert got or sys.version_info >= (3, 14)
    yield request.param
    torch._C._set_source_lines("fast")


@pytest.fixture
def x():
    return torch.arange(1.0, 5.0, requires_grad=True)


def test_overwritten_result(way, x):
    y = x.exp()  # saves its result
    y.mul_(2)  # overwrites it
    with pytest.raises(RuntimeError) as e:
        y.sum().backward()
    text = str(e.value)
    assert "gradient of exp at " in text and "overwritten by mul at " in text
    assert text.index(line_of("saves its result")) < text.index(line_of("overwrites it"))
    assert "`y = x.exp()" in text and "version 1" in text and "clone()" in text


def test_overwritten_input_through_a_view_of_a_detached_alias(way, x):
    y = x * 1
    z = y * y  # saves y
    y.detach()[1:].zero_()  # writes through an alias
    with pytest.raises(RuntimeError) as e:
        z.sum().backward()
    assert line_of("saves y") in str(e.value) and line_of("writes through an alias") in str(e.value)


def test_assignment_is_a_write(x):
    y = x * 1
    z = y * y
    y[0] = 5  # assigns
    with pytest.raises(RuntimeError) as e:
        z.sum().backward()
    assert line_of("assigns") in str(e.value)


def test_second_backward_names_the_first(way, x):
    y = (x * x).sum()
    y.backward()  # first
    with pytest.raises(RuntimeError) as e:
        y.backward()
    assert line_of("first") in str(e.value) and "retain_graph=True" in str(e.value)


def test_first_may_be_a_call_of_grad(x):
    y = (x * x).sum()
    torch.autograd.grad(y, x)  # freed here
    with pytest.raises(RuntimeError) as e:
        y.backward()
    assert line_of("freed here") in str(e.value)


def test_detach_is_named(way, x):
    y = x.detach()  # cut
    z = (y * 2 + 1).exp()[1:]
    with pytest.raises(RuntimeError) as e:
        z.sum().backward()
    assert line_of("cut") in str(e.value) and "detach" in str(e.value)


def test_no_grad_is_named(x):
    with torch.no_grad():
        y = x * 2  # under no_grad
    with pytest.raises(RuntimeError) as e:
        (y + 1).sum().backward()
    assert line_of("under no_grad") in str(e.value) and "no_grad" in str(e.value)


@pytest.mark.parametrize(
    "cut", [lambda x: x.long(), lambda x: x.argmax(), lambda x: x > 2, lambda x: x.data]
)
def test_other_cuts_are_named(x, cut):
    y = cut(x)  # several cuts
    with pytest.raises(RuntimeError) as e:
        (y * 1.0).sum().backward()
    assert FILE in str(e.value)
    assert any(word in str(e.value) for word in ("no gradient", ".data"))


def test_never_required_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"requires_grad_\(\)"):
        torch.ones(2).sum().backward()
    with pytest.raises(RuntimeError, match="only floating and complex"):
        torch.ones(2, dtype=torch.int64).sum().backward()


def test_an_op_that_gives_the_gil_up(x):
    big = torch.ones(300, 1000, requires_grad=True)
    y = big.exp()  # long enough to release the GIL
    y.add_(1)  # long write
    with pytest.raises(RuntimeError) as e:
        y.sum().backward()
    assert line_of("long enough to release the GIL") in str(e.value)
    assert line_of("long write") in str(e.value)


def test_frames_of_the_library_are_skipped(way, x):
    # quantile is Python code of the package that calls many ops.
    y = x.quantile(0.5)  # inside the library
    torch.autograd.grad(y, x)
    with pytest.raises(RuntimeError) as e:
        torch.autograd.grad(y, x)
    assert line_of("inside the library") in str(e.value)
    assert "rushlight/functional" not in str(e.value) and "quantiles.py" not in str(e.value)


def test_generators_comprehensions_and_lambdas(way, x):
    def numbers():
        yield x.exp()  # in a generator

    for make, where in (
        (lambda: next(numbers()), line_of("in a generator")),
        (lambda: [x.exp() for _ in range(2)][1], None),
    ):
        y = make()
        y.zero_()
        with pytest.raises(RuntimeError) as e:
            y.sum().backward()
        assert (where or FILE) in str(e.value)


@pytest.mark.threads
def test_a_thread_has_its_own_frames(way):
    texts = {}

    def work(n):
        x = torch.ones(3, requires_grad=True)
        y = x.exp()  # in a thread
        y.mul_(n)
        try:
            y.sum().backward()
        except RuntimeError as e:
            texts[n] = str(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(texts) == 4 and all(line_of("in a thread") in t for t in texts.values())


def test_code_without_a_file():
    space = {"torch": torch}
    exec("x = torch.ones(2, requires_grad=True)\ny = x.exp()\ny.zero_()", space)
    with pytest.raises(RuntimeError, match=r"<string>:2.*<string>:3"):
        space["y"].sum().backward()


def test_code_made_again_and_again_is_bounded():
    # Each exec makes a code object; the library remembers a bounded number of them.
    program = """
import rushlight as torch
x = torch.ones(1, requires_grad=True)
for i in range(70_000):
    exec(f"y = x * {i}")
y = x.exp()
y.zero_()
try:
    y.backward()
except RuntimeError as e:
    assert "exp (its result" in str(e) or "exp at" in str(e), e
    print("raised")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "raised\n", done.stderr


def test_places_that_agree_in_both_ways():
    def deep(n):
        return torch._C._source_here() if n == 0 else deep(n - 1)

    shown = []
    for way in ("fast", "public"):
        torch._C._set_source_lines(way)
        shown.append([deep(0), deep(3), max([1], key=lambda _: len(deep(1))), deep(2)])
    torch._C._set_source_lines("fast")
    assert shown[0] == shown[1] and FILE in shown[0][0]
