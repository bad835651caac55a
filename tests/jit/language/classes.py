"""Classes of one's own, dataclasses and enumerations in scripts."""
# ruff: noqa: UP006, UP035, UP045

import dataclasses
import enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import rushlight as torch
from rushlight import Tensor, jit

from . import given

X = torch.arange(6.0).reshape(2, 3) / 7 - 0.3


@jit.script
class Pair:
    """Two tensors; every kind of method."""

    LIMIT = 3

    def __init__(self, first: Tensor, second: Tensor, weight: float = 1.0):
        self.first = first
        self.second, self.swaps = second, 0
        self.weight = weight
        self.note("made")

    def note(self, what: str):
        self.swaps += len(what) - 4

    def swap(self) -> "Pair":
        self.first, self.second = self.second, self.first
        self.swaps += 1
        return self

    def total(self, scale: float = 2.0) -> Tensor:
        return (self.first * self.weight + self.second).sum() * scale

    @property
    def is_busy(self) -> bool:
        return self.swaps >= self.LIMIT

    @property
    def half(self) -> float:
        return self.weight / 2

    @half.setter
    def half(self, value: float):
        self.weight = value * 2

    @staticmethod
    def names(n: int) -> List[str]:
        return [f"pair {i}" for i in range(n)]

    def __add__(self, other: "Pair") -> "Pair":
        return Pair(self.first + other.first, self.second + other.second, self.weight)

    def __rmul__(self, factor: float) -> "Pair":
        return Pair(self.first * factor, self.second * factor, self.weight)

    def __neg__(self):
        return Pair(-self.first, -self.second)

    def __len__(self) -> int:
        return self.swaps

    def __getitem__(self, at: int) -> Tensor:
        return self.first if at == 0 else self.second

    def __setitem__(self, at: int, value: Tensor):
        if at == 0:
            self.first = value
        else:
            self.second = value

    def __contains__(self, value: float) -> bool:
        return bool((self.first == value).any())

    def __eq__(self, other: "Pair") -> bool:
        return torch.equal(self.first, other.first) and self.weight == other.weight

    def __lt__(self, other: "Pair") -> bool:
        return self.weight < other.weight

    def __call__(self, x: Tensor, times: int = 1) -> Tensor:
        for _ in range(times):
            x = x * self.weight + self.first
        return x

    def __str__(self) -> str:
        return f"Pair of {self.weight:.1f}"


class Scaled:
    """Stands around a block."""

    def __init__(self, pair: Pair, factor: float):
        self.pair, self.factor = pair, factor

    def __enter__(self) -> Pair:
        self.pair.weight *= self.factor
        return self.pair

    def __exit__(self, kind: Any, value: Any, trace: Any):
        self.pair.weight /= self.factor


class Counter:
    """Its attributes come from branches and loops, and hold containers."""

    limit: Optional[int]

    def __init__(self, words: List[str], limit: int):
        self.counts: Dict[str, int] = {}
        if limit > 2:
            self.mode = "many"
        else:
            self.mode = "few"
        self.total = 0
        for word in words:
            self.total += len(word)
        self.limit = None if limit < 0 else limit
        for word in words:
            self.add(word)

    def add(self, word: str) -> int:
        if word not in self.counts:
            self.counts[word] = 0
        self.counts[word] += 1
        return self.counts[word]


class Empty:
    def answer(self) -> int:
        return 42


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.5
    tags: List[int] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.tags.append(7)

    def norm(self) -> float:
        return (self.x**2 + self.y**2) ** 0.5


class Box:
    """Objects in objects."""

    def __init__(self, low: Point, high: Point):
        self.low, self.high = low, high
        self.children: List[Point] = []

    def grow(self, by: float):
        self.low.x -= by
        self.high.x += by


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class Word(enum.Enum):
    YES = "yes"
    NO = "no"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Found(NamedTuple):
    pair: Pair
    color: Color


@given((X, 2), (X, 0))
def objects_are_changed_by_methods(x, n: int):
    p = Pair(x, x * 2)
    for _ in range(n):
        p.swap().swap()
    p.half = 3.0
    return p, p.total(), p.total(scale=0.5), p.is_busy, p.half, p.LIMIT, p.weight


@given((X,))
def names_share_an_object(x):
    p = Pair(x, x + 1, 0.5)
    q = p
    q.weight = 4.0
    kept = [p, q, Pair(x, x)]
    kept[0].swap()
    kept[2].first = x * 100
    return p.weight, p is q, p is kept[2], kept, q.swaps


@given((X, 1.5), (X, -0.5))
def operators_of_classes(x, f: float):
    p, q = Pair(x, x + 1, f), Pair(x * 2, x, 1.0)
    r = p + q
    r += p
    p[1] = x * 9
    return r, f * r, -q, len(r), r[0], p[1], 0.0 in p, 99.0 not in p, p == q, p != q, p < q, q > p


@given((X,))
def calls_texts_and_truth(x):
    p = Pair(x, x, 0.25)
    text = f"{p} and {p!s:>14}" + str(p)
    held = "empty"
    if p:
        held = "full"
    p.swap()
    return p(x), p(x, times=3), text, held, bool(p), not p, Pair.names(2), p.names(1)


@given((X,))
def blocks_of_objects(x):
    p = Pair(x, x)
    found: List[float] = []
    with Scaled(p, 4.0) as inner, torch.no_grad():
        found.append(inner.weight)
        outer = Scaled(p, 0.5)
        with outer:
            found.append(p.weight)
    return found, p.weight


@given((["a", "b", "a"], 3), ([], -1))
def attributes_of_branches_and_loops(words: List[str], limit: int):
    c = Counter(words, limit)
    n = c.add("last")
    limit_of_c = c.limit
    if limit_of_c is not None:
        n += limit_of_c
    return c, n, c.mode, c.counts


@given((2,))
def classes_without_attributes(n: int):
    e = Empty()
    return e.answer() + n, isinstance(e, Empty)


@given((3.0,))
def dataclasses_too(x: float):
    p, q = Point(x, 4.0), Point(x, y=4.0)
    first = p == q
    p.tags.append(1)
    return first, p == q, p != q, p.norm(), p, Point(x), Point(y=x, x=1.0, tags=[3])


@given(
    (1.0, 3),
)
def objects_inside_of_objects(x: float, n: int):
    box = Box(Point(x), Point(x + 1))
    low = box.low
    for i in range(n):
        box.grow(i * 0.5)
        box.children.append(Point(float(i)))
    box.children[0].y = 9.0
    box.high = box.children[1]
    box.high.x = -1.0
    return box, low.x, box.low is low, [c.x for c in box.children]


def pair_or_none(x, n: int) -> Optional[Pair]:
    if n > 1:
        return None
    return Pair(x, x, float(n))


@given((X, 1), (X, 2))
def optional_objects(x, n: int) -> Tuple[float, bool]:
    p = pair_or_none(x, n)
    if p is None:
        return -1.0, isinstance(p, Pair)
    return p.weight, isinstance(p, Pair)


@given((X, True), (X, False))
def objects_from_branches(x, up: bool):
    if up:
        p = Pair(x, x)
    else:
        p = Pair(-x, x).swap()
    q = p if up else Pair(x, x)
    found = {"p": p, "q": q}
    found["p"].weight = 7.0
    return found, found["q"].weight


def doubled(p: Pair, times: int) -> Pair:
    while times > 0:
        p.first = p.first * 2
        times -= 1
    return p


@given((X,))
def objects_are_passed_and_returned(x):
    p = Pair(x, x)
    q = doubled(p, 2)
    return p is q, p.first, Found(q, Color.BLUE), (q, [q])


@given((Color.RED, Word.YES), (Color.GREEN, Word.NO))
def enumerations(c: Color, w: Word):
    names: List[str] = []
    for one in Color:
        if one == c:
            names.append(one.name + "!")
    if c is Color.RED:
        c = Color.BLUE
    elif w != Word.YES:
        names.append(w.value)
    return c, c.value * 2, c.name, names, w == Word.NO, Color(2), [c, Color.GREEN]


@given((None,), (Color.RED,))
def optional_enumerations(c: Optional[Color]) -> Tuple[int, Dict[str, Color]]:
    if c is None:
        return 0, {}
    return c.value, {c.name: c}


@given((Level.HIGH,), (1,))
def enumerations_of_ints(level: Level):
    return level + 1, level == Level.HIGH, Level.LOW


@given((X, 3))
def gradients_stay_with_objects(x, n: int):
    p = Pair(x, x * 0)
    for i in range(n):
        p.second = p.second + p.first * i
    return p.total()
