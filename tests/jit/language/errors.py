"""Scripts that raise, some of the time."""
# ruff: noqa: UP031

import math

import rushlight as torch
from rushlight import Tensor

from . import given


@given((1,), (-1,))
def raise_value_error(n: int):
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    return n


@given((1,), (5,))
def raise_without_message(n: int):
    if n > 3:
        raise NotImplementedError
    return n


@given((0,), (1,), (2,))
def raise_by_kind(n: int):
    if n == 0:
        raise KeyError("zero")
    elif n == 1:
        raise TypeError("one: %d" % n)
    raise RuntimeError(f"{n} more")


@given((1,), (0,))
def assert_message(n: int):
    assert n > 0, "n is " + str(n)
    return n


@given(([1, 2], 1), ([1, 2], 2), ([1, 2], -3), ([], 0))
def index_out_of_range(xs: list[int], i: int):
    return xs[i]


@given(({"a": 1}, "a"), ({"a": 1}, "b"))
def missing_key(d: dict[str, int], k: str):
    return d[k]


@given((1, 1), (1, 0))
def zero_division(a: int, b: int):
    return a // b, a % b, a / b


@given((1.0, 2.0), (1.0, 0.0))
def float_zero_division(a: float, b: float):
    return a / b


@given(("12",), ("1x",), ("",))
def bad_number(s: str):
    return int(s)


@given((4.0,), (-1.0,))
def math_domain(a: float):
    return math.sqrt(a)


@given(([],), ([1],))
def pop_empty(xs: list[int]):
    return xs.pop()


@given(([1, 2], 5), ([1, 5], 5))
def remove_missing(xs: list[int], x: int):
    xs.remove(x)
    return xs


@given((None,), (1,))
def assert_not_none(n: int | None):
    assert n is not None
    return n + 1


@given((torch.ones(2, 3), torch.ones(3, 2)), (torch.ones(2, 3), torch.ones(2, 3)))
def shapes_that_do_not_fit(a: Tensor, b: Tensor):
    return a @ b


@given((torch.ones(2),), (torch.ones(1),))
def bool_of_many(a: Tensor):
    if a > 0:
        return 1
    return 0


@given(([1, 2, 3],), ([1, 2],))
def unpack_wrong_count(xs: list[int]):
    a, b, c = xs
    return a + b + c


@given((3,), (10,))
def raise_in_called_function(n: int):
    return _checked(n) + 1


def _checked(n: int) -> int:
    if n > 5:
        raise ValueError("too large")
    return n
