"""Lists, dicts, tuples, NamedTuples, comprehensions."""
# ruff: noqa: B905, C400, C416, RUF005

from typing import NamedTuple

import rushlight as torch
from rushlight import Tensor, jit

from . import given


class Point(NamedTuple):
    x: int
    y: float = 2.5


class Holder(NamedTuple):
    data: Tensor
    names: list[str]


@given(([3, 1, 2],), ([5],))
def list_methods(xs: list[int]):
    xs.append(9)
    xs.extend([4, 4])
    xs.insert(1, 7)
    last = xs.pop()
    first = xs.pop(0)
    xs.remove(7)
    return xs, last, first, xs.index(9), xs.count(4), len(xs)


@given(([3, 1, 2],), ([],))
def list_sort(xs: list[int]):
    ys = sorted(xs)
    zs = sorted(xs, reverse=True)
    xs.sort()
    ws = xs.copy()
    ws.reverse()
    return xs, ys, zs, ws, sorted(["b", "a"]), sorted([2.5, 1.5])


@given(([1, 2, 3, 4, 5],), ([1],))
def list_slices(xs: list[int]):
    return xs[1:3], xs[:2], xs[2:], xs[::2], xs[::-1], xs[-2:], xs[:-1], xs[10:]


@given(([1, 2, 3],))
def list_items(xs: list[int]):
    xs[0] = 10
    xs[-1] += 5
    return xs[0], xs[1], xs[-1], xs


@given(([1, 2], [3]), ([], []))
def list_operators(a: list[int], b: list[int]):
    return a + b, a * 2, 2 * b, a == b, a != b, 1 in a, 7 not in b


@given(([1, 2],))
def list_aliasing(a: list[int]):
    b = a
    b.append(3)
    c = list(a)
    c.append(4)
    return a, b, c


@given(([1, 2],))
def list_augmented(a: list[int]):
    b = a
    b += [3, 4]
    return a, b


@given((3,))
def list_nested(n: int):
    grid: list[list[int]] = []
    for i in range(n):
        row: list[int] = []
        for j in range(n):
            row.append(i * j)
        grid.append(row)
    grid[1][1] = 100
    return grid, grid[1][1], len(grid[0])


@given(([1, 5, 3],))
def list_min_max_sum(xs: list[int]):
    return min(xs), max(xs), sum(xs), sum(xs, 10)


@given((4,), (0,))
def comprehension_range(n: int):
    return [i * i for i in range(n)], [i for i in range(n) if i % 2 == 0]


@given(([1, 2, 3],), ([],))
def comprehension_list(xs: list[int]):
    return [x + 1 for x in xs], [str(x) for x in xs], [x for x in xs if x > 1 if x < 3]


@given(([1, 2], [3, 4]))
def comprehension_zip(a: list[int], b: list[int]):
    return [x * y for x, y in zip(a, b)], [i * x for i, x in enumerate(a)]


@given((3,))
def comprehension_nested(n: int):
    return [[i + j for j in range(2)] for i in range(n)], [
        i * j for i in range(n) for j in range(i)
    ]


@given((3,))
def comprehension_dict(n: int):
    return {i: i * i for i in range(n)}, {str(i): [i] for i in range(n) if i > 0}


@given((4,))
def generator_arguments(n: int):
    return (
        sum(i * 2 for i in range(n)),
        all(i < 10 for i in range(n)),
        any(i > 2 for i in range(n)),
        max(i % 3 for i in range(n)),
        ",".join(str(i) for i in range(n)),
        list(i + 1 for i in range(2)),
    )


@given((3,))
def list_of_range(n: int):
    return (
        list(range(n)),
        list(range(1, n)),
        list(range(n, 0, -1)),
        list(reversed(range(n))),
        sum(range(n)),
    )


@given(([1, 2], ["a", "b"]))
def list_of_zip(a: list[int], b: list[str]):
    return list(zip(a, b)), list(enumerate(b)), sorted(zip(a, b))


@given(({"a": 1},), ({"a": 1, "b": 2},))
def dict_methods(d: dict[str, int]):
    d["c"] = 3
    a = d.get("zz")
    b = d.get("a", 9)
    c = d.pop("a")
    e = d.setdefault("q", 5)
    d.update({"x": 7})
    return d, b, c, e, a is None, len(d), "c" in d, "zz" not in d


@given(({"a": 1, "b": 2},))
def dict_views(d: dict[str, int]):
    return list(d.keys()), list(d.values()), list(d.items()), sorted(d), [k for k in d]


@given(({"a": 1, "b": 2},))
def dict_items(d: dict[str, int]):
    d["a"] += 10
    e = d.copy()
    e["z"] = 0
    d.clear()
    return d, e, e["a"]


@given((5,))
def dict_of_ints(n: int):
    d: dict[int, float] = {}
    for i in range(n):
        d[i] = i / 2
    del d[0]
    return d, d[3], 1 in d


@given((20,))
def dict_many_keys(n: int):
    d: dict[int, int] = {}
    for i in range(n):
        d[i * 7 % 13] = i
    total = 0
    for k, v in d.items():
        total = total * 3 % 1000 + k * v
    d.pop(0)
    return d, total, d[5]


@given(("b",), ("zz",))
def dict_literal(k: str):
    d = {"a": [1], "b": [2, 3]}
    if k in d:
        d[k].append(4)
    return d


@given((3,))
def dict_of_dicts(n: int):
    d: dict[str, dict[str, int]] = {}
    for i in range(n):
        key = str(i % 2)
        if key not in d:
            d[key] = {}
        d[key][str(i)] = i
    return d


@given((1, "x"), (2, "y"))
def tuple_basics(a: int, b: str):
    t = (a, b, 2.5)
    u = t + (True,)
    return t[0], t[-1], len(t), t[1:], u, t == (1, "x", 2.5), a in (1, 5)


@given(((1, 2.5),), ((3, 4.5),))
def tuple_argument(t: tuple[int, float]):
    a, b = t
    return a + b, t[0], (t, t)


@given((3,))
def tuple_in_loop(n: int):
    pair = (0, 1.0)
    for i in range(n):
        pair = (pair[0] + i, pair[1] * 2)
    return pair


@given((3,))
def tuple_in_list(n: int):
    xs: list[tuple[int, str]] = []
    for i in range(n):
        xs.append((i, str(i)))
    total = ""
    for i, s in xs:
        total += s * i
    return xs, total, xs[1][1]


@given((1,), (5,))
def named_tuple(n: int):
    p = Point(n, 1.5)
    q = Point(x=n + 1)
    r = p._replace(x=7)
    return p.x + q.x, p.y * q.y, p[0], r


@given((torch.ones(2),))
def named_tuple_tensor(x: Tensor):
    h = Holder(x * 2, ["a"])
    h.names.append("b")
    a, b = h
    return h.data.sum() + a[0], b


@given((Point(1, 2.0),), (Point(4, 0.5),))
def named_tuple_argument(p: Point):
    return p.x * p.y, p


@given((3,))
def named_tuple_in_list(n: int):
    ps = [Point(i) for i in range(n)]
    total = 0.0
    for p in ps:
        total += p.x * p.y
    return total


@given((2,))
def annotate_empty(n: int):
    xs = jit.annotate(list[int], [])
    d = jit.annotate(dict[str, float], {})
    for i in range(n):
        xs.append(i)
        d[str(i)] = i * 0.5
    return xs, d


@given(([torch.ones(2), torch.zeros(2)],))
def list_of_tensors(xs: list[Tensor]):
    xs.append(xs[0] + 1)
    return torch.stack(xs).sum(0), len(xs), torch.cat(xs)


@given(([1, None, 3],), ([None],))
def list_of_optional(xs: list[int | None]):
    total = 0
    for x in xs:
        if x is not None:
            total += x
    return total


@given((3,))
def optional_list(n: int):
    xs: list[int] | None = None
    for i in range(n):
        if xs is None:
            xs = [i]
        else:
            xs.append(i)
    return xs


@given(([1, 2, 3],))
def unpack_list(xs: list[int]):
    a, b, c = xs
    first, *rest = xs
    *init, last = xs
    return a + b * c, first, rest, init, last


@given((2, 3), (0, 0))
def list_literal_mixed(a: int, b: int):
    xs = [a, b, a + b]
    ys = [a * 1.0, 2.5]
    zs = [[a], [b, b]]
    return xs, ys, zs, [], [str(a)]


@given(([3, 1, 2], 2))
def bubble_sort(xs: list[int], k: int):
    n = len(xs)
    for i in range(n):
        for j in range(n - i - 1):
            if xs[j] > xs[j + 1]:
                xs[j], xs[j + 1] = xs[j + 1], xs[j]
    return xs, xs[k]


@given((10,))
def memo_fibonacci(n: int):
    memo: dict[int, int] = {0: 0, 1: 1}
    for i in range(2, n + 1):
        memo[i] = memo[i - 1] + memo[i - 2]
    return memo[n], len(memo)


@given(("the cat and the dog and the bird",))
def word_count(text: str):
    counts: dict[str, int] = {}
    for w in text.split():
        counts[w] = counts.get(w, 0) + 1
    best = ""
    for w, n in counts.items():
        if best == "" or n > counts[best]:
            best = w
    return counts, best


@given(([5, 2, 8],))
def stack_and_queue(xs: list[int]):
    out: list[int] = []
    while len(xs) > 0:
        out.append(xs.pop())
        if len(xs) > 0:
            out.append(xs.pop(0))
    return out, not xs
