"""What a script or a notebook defines works in fresh processes, which cannot import it."""

import pytest
import scripts

SCRIPT = """
import abc, collections, contextlib, dataclasses, enum, functools, logging, re, typing
import rushlight as torch
from rushlight import nn
from rushlight.utils.data import DataLoader, Dataset

class Color(enum.Enum):
    RED = 1
    CRIMSON = 1
    BLUE = "b"

    def shout(self):
        return self.name + "!"

class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()

class Level(enum.IntEnum):
    LOW = 5

class Word(str, enum.Enum):
    YES = "yes"

@dataclasses.dataclass
class Item:
    x: int
    tags: list = dataclasses.field(default_factory=list)
    _: dataclasses.KW_ONLY
    scale: float = 2.0

    def doubled(self):
        return self.x * self.scale

@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    x: int = 3

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

class Square(Shape):
    def area(self):
        return 4

class Small(Square):
    def area(self):
        return super().area() / 2

class Both(Item, Square):
    pass

Pair = collections.namedtuple("Pair", "a b")

class Named(typing.NamedTuple):
    a: int
    b: str = "x"

T = typing.TypeVar("T")

class Box(typing.Generic[T]):
    value = 7

class Typed(Dataset[T]):
    def __len__(self):
        return 12

class Options(typing.TypedDict, total=False):
    a: int

class Meta(type):
    def __new__(meta, name, bases, namespace):
        namespace["added"] = 1
        return super().__new__(meta, name, bases, namespace)

class Made(metaclass=Meta):
    pass

class Told:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self.name

class Odds:
    __slots__ = ("a", "__dict__")
    told = Told()

    @property
    def prop(self):
        return 5

    @staticmethod
    def static():
        return Color.RED

    @classmethod
    def of_class(cls):
        return cls.__name__

    @functools.cached_property
    def once(self):
        return 7

    @functools.lru_cache
    def kept(self):
        return 8

class Registered:
    class Inner:
        v = 3

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.known = True

class Sub(Registered):
    pass

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)

def counter():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step

@contextlib.contextmanager
def manager():
    yield 3

LOG, PATTERN = logging.getLogger("x"), re.compile("a+")

def search():
    LOG.debug("nothing")
    return PATTERN.match("aaa").group()

def annotated(a, /, b=2, *c, d: int = 4, **e) -> int:
    "A text."
    return a + b + d

shape = (x for x in ())  # cannot be sent; code that names an attribute like it does not ask for it

CHECKS = [
    lambda: (Color.RED.shout(), Color.CRIMSON, Color("b"), list(Color), Color["BLUE"].value),
    lambda: (Rights.READ | Rights.WRITE, Level.LOW + 1, Word.YES + "!"),
    lambda: (Item(3).doubled(), Item(1) == Item(1), Item(2, scale=1.0)),
    lambda: (Fixed(), hash(Fixed()), dataclasses.replace(Fixed(), x=9)),
    lambda: (Square().area(), Small().area(), Both(4).doubled(), Shape.__abstractmethods__),
    lambda: (Pair(1, 2)._replace(a=5), Named(1), Box.value, Box[int]().value, len(Typed())),
    lambda: (Options(a=1), Options.__total__, Made.added, type(Made).__name__),
    lambda: (Odds().told, Odds().prop, Odds.static(), Odds.of_class(), Odds().once, Odds().kept()),
    lambda: (Sub.known, Registered.Inner.v, factorial(5), counter()(), search()),
    lambda: (Net()(torch.ones(1, 2)).shape, Double.apply(torch.ones(1)).item()),
    lambda: (annotated(1), annotated.__annotations__, annotated.__doc__),
    lambda: manager().__enter__(),
]

class Checks(Dataset):
    def __len__(self):
        return len(CHECKS)

    def __getitem__(self, i):
        return str(CHECKS[i]()), Item(i), Color.BLUE

for i, (found, item, color) in enumerate(
    DataLoader(Checks(), None, num_workers=1, multiprocessing_context="METHOD")
):
    assert found == str(CHECKS[i]()), (found, CHECKS[i]())
    assert item == Item(i) and color is Color.BLUE
print(i + 1 == len(CHECKS))
"""


@pytest.mark.parametrize("stdin", [False, True], ids=["script", "stdin"])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_what_main_defines(method, stdin):
    """Without a guard around the program: nothing of it runs a second time."""
    assert scripts.run(SCRIPT.replace("METHOD", method), stdin=stdin) == "True\n"
