"""Branches, loops, functions."""
# ruff: noqa: B905

import rushlight as torch
from rushlight import Tensor

from . import given


@given((-1,), (0,), (1,))
def if_elif_else(a: int):
    if a < 0:
        r = "neg"
    elif a == 0:
        r = "zero"
    else:
        r = "pos"
    return r


@given((1,), (11,), (25,))
def early_return(a: int):
    if a > 20:
        return "big"
    if a > 10:
        return "middle"
    return "small"


@given((5,), (0,))
def return_in_loop(n: int) -> int:
    for i in range(n):
        if i * i > 5:
            return i
    return -1


@given((10,), (3,), (0,))
def while_loop(n: int):
    i = 0
    total = 0
    while i < n:
        total += i
        i += 1
    return total, i


@given((10,), (100,))
def while_break_continue(n: int):
    i = 0
    total = 0
    while True:
        i += 1
        if i > n:
            break
        if i % 3 == 0:
            continue
        if total > 50:
            break
        total += i
    return total, i


@given((5,), (0,))
def for_range_forms(n: int):
    a: list[int] = []
    for i in range(n):
        a.append(i)
    for i in range(2, n):
        a.append(i * 10)
    for i in range(n, 0, -2):
        a.append(-i)
    for i in range(0, 10, 4):
        a.append(i)
    return a


@given((4,), (1,))
def nested_loops(n: int):
    total = 0
    for i in range(n):
        for j in range(i, n):
            if j == 2:
                continue
            if i == 3:
                break
            total += i * j
    return total


@given(([3, 1, 2],), ([],))
def for_list(xs: list[int]):
    total = 0
    for x in xs:
        total = total * 2 + x
    return total


@given(([1.5, 2.5],), ([],))
def for_enumerate(xs: list[float]):
    total = 0.0
    for i, x in enumerate(xs):
        total += i * x
    for i, x in enumerate(xs, 5):
        total += i * x
    return total


@given(([1, 2, 3], ["a", "b"]), ([], []))
def for_zip(xs: list[int], ys: list[str]):
    out = ""
    for x, y in zip(xs, ys):
        out += y * x
    for i, (x, y) in enumerate(zip(xs, ys)):
        out += str(i) + y + str(x)
    return out


@given(({"a": 1, "b": 2},), ({},))
def for_dict(d: dict[str, int]):
    total = 0
    keys = ""
    for k in d:
        keys += k
    for k, v in d.items():
        total += v
        keys += k
    for v in d.values():
        total += v * 10
    return total, keys


@given(([1, 2, 3],), ([],))
def for_reversed(xs: list[int]):
    out: list[int] = []
    for x in reversed(xs):
        out.append(x)
    for i in reversed(range(3)):
        out.append(i)
    return out


@given((torch.arange(6.0).reshape(3, 2),))
def for_tensor(x: Tensor):
    total = torch.zeros(2)
    for row in x:
        total = total * 2 + row
    return total


@given((3,), (0,))
def for_tuple_written_out(n: int):
    total = 0
    for k in (1, 2, 3):
        total += k * n
    for name, k in (("a", 1), ("b", 2)):
        total += len(name) * k
    return total


@given((5,), (0,))
def loop_carried_swap(n: int):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a, b


@given((7,), (27,), (1,))
def collatz(n: int):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@given((30,))
def primes(n: int):
    found: list[int] = []
    for k in range(2, n):
        prime = True
        for p in found:
            if k % p == 0:
                prime = False
                break
        if prime:
            found.append(k)
    return found


@given((None,), (torch.ones(2),))
def optional_refined_if(x: Tensor | None):
    if x is not None:
        return x + 1
    else:
        return torch.zeros(2)


@given((None,), (torch.ones(2),))
def optional_refined_assign(x: Tensor | None):
    if x is None:
        x = torch.full((2,), 7.0)
    return x * 2


@given((None, None), (1, None), (1, 2))
def optional_and_or(a: int | None, b: int | None):
    if a is not None and b is not None:
        return a + b
    if a is None or a < 0:
        return -1
    return a


@given((None,), (4,))
def optional_ternary(a: int | None):
    b = a if a is not None else 10
    return b + 1, (0 if a is None else a * 2)


@given((None,), (4,))
def optional_assert(a: int | None):
    if a is None:
        a = 3
    assert a is not None
    return a + 1


@given((5,), (0,))
def optional_in_loop(n: int):
    best: int | None = None
    for i in range(n):
        if best is None or i * 3 % 4 > best:
            best = i * 3 % 4
    return best


@given((3,), ("x",), (2.5,))
def union_isinstance(x: int | str | float):
    if isinstance(x, int):
        return "int " + str(x + 1)
    elif isinstance(x, str):
        return "str " + x.upper()
    else:
        return "float " + str(x * 2)


@given(([1, 2],), (5,))
def union_list(x: int | list[int]):
    if isinstance(x, list):
        return len(x)
    return x


@given((5, 2), (1, 7))
def tuple_unpacking(a: int, b: int):
    (c, d), e = (a, b), a + b
    f = g = c
    h, *rest = (1, 2, 3)
    return c, d, e, f + g, h, rest


@given((1,), (2,))
def several_results(a: int):
    q, r = _pair(a)
    p = _pair(q)
    return q, r, p[0] + p[1], _pair(3)[1]


def _pair(a: int) -> tuple[int, int]:
    return a + 1, a * 2


@given((3,), (12,))
def branch_defined_in_both(a: int):
    if a > 10:
        label = "big"
        n = 1
    else:
        label = "small"
        n = a
    return label * n


@given((3,), (12,), (-5,))
def branch_with_return(a: int):
    if a > 10:
        x = a
    elif a < 0:
        return "negative"
    else:
        x = a * 2
    return str(x)


@given((4,), (9,))
def nested_conditions(a: int):
    r = 0
    if a > 2:
        if a > 8:
            r = 1
        else:
            if a % 2 == 0 and not a == 6:
                r = 2
    return r


@given((torch.tensor([1.0, -2.0]),), (torch.tensor([-3.0, 1.0]),))
def tensor_condition(x: Tensor):
    if x.sum() > 0:
        return x
    elif bool(x[0] < 0):
        return -x
    return x * 0


@given((torch.tensor(100.0),), (torch.tensor(0.5),))
def tensor_while(x: Tensor):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    return x, n


@given((2,), (3,))
def modified_in_nested_blocks(n: int):
    x = torch.zeros(2)
    count = 0
    for i in range(n):
        if i % 2 == 0:
            for j in range(3):
                if j == 1:
                    continue
                x = x + j
                count += 1
        else:
            x = x * 2
    return x, count


@given((5,))
def while_with_flag(n: int):
    done = False
    i = 0
    while not done:
        i += 1
        done = i >= n
    return i


@given((3,), (0,))
def while_and_condition(n: int):
    i = 0
    x = torch.ones(1)
    while i < n and bool(x.sum() < 100):
        x = x * 3
        i += 1
    return x, i


@given((4,))
def pass_and_docstring(n: int):
    """A docstring."""
    for _ in range(n):
        pass
    if n > 100:
        pass
    return n


@given((6,), (1,))
def del_statements(n: int):
    xs = list(range(n))
    del xs[0]
    d = {"a": 1, "b": 2}
    del d["a"]
    return xs, d


@given((3,))
def annotated_locals(n: int):
    a: int = n
    b: float = float(n)
    c: list[float] = [1.0, 2.0]
    d: dict[str, list[int]] = {}
    d["k"] = [a]
    return a, b, c, d


@given((2,), (5,))
def function_with_loop_called_in_loop(n: int):
    total = 0
    for i in range(n):
        total += _triangle(i)
    return total


def _triangle(n: int) -> int:
    t = 0
    for i in range(n + 1):
        t += i
    return t


@given((1,), (0,))
def no_result(n: int) -> None:
    if n == 0:
        return
    n += 1


@given((3,), (None,))
def maybe_result(n: int | None) -> int | None:
    if n is None:
        return None
    return n + 1


@given((17,), (4,))
def bare_maybe_result(n: int) -> str | None:
    if n > 10:
        return "big"
