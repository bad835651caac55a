"""Numbers, strings, builtins."""
# ruff: noqa: UP031

import math

from . import given


@given((7, 3), (-7, 3), (7, -3), (0, 5))
def int_arithmetic(a: int, b: int):
    return a + b, a - b, a * b, a // b, a % b, a / b, -a, +b


@given((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (0.0, 1.5))
def float_arithmetic(a: float, b: float):
    return a + b, a - b, a * b, a // b, a % b, a / b, -a


@given((3, 2.5), (-4, 0.5))
def mixed_arithmetic(a: int, b: float):
    return a + b, b - a, a * b, a / b, b // 2, a % b


@given((2, 10), (-3, 3), (5, 0))
def int_power(a: int, b: int):
    return a**b


@given((2.0, 0.5), (9.0, -1.5))
def float_power(a: float, b: float):
    return a**b, a**2


@given((12, 10), (-1, 7), (0, 3))
def bits(a: int, b: int):
    return a & b, a | b, a ^ b, ~a, a << 3, a >> 1


@given((True, False), (True, True), (False, False))
def bool_operators(a: bool, b: bool):
    return a and b, a or b, not a, a & b, a | b, a ^ b, a == b, a != b


@given((1, 2), (2, 2), (3, 2))
def int_comparisons(a: int, b: int):
    return a < b, a <= b, a > b, a >= b, a == b, a != b


@given((1.5, 2.5), (2.5, 2.5), (float("nan"), 1.0))
def float_comparisons(a: float, b: float):
    return a < b, a <= b, a > b, a >= b, a == b, a != b


@given((1, 1.5), (2, 2.0))
def mixed_comparisons(a: int, b: float):
    return a < b, b <= a, a == b, a != b


@given((1,), (5,), (10,), (20,))
def chained_comparison(a: int):
    return 0 < a < 10, 1 <= a <= 5 <= 10, 0 < a == 5


@given((3,), (-3,), (0,))
def builtin_abs(a: int):
    return abs(a), abs(a - 5), abs(float(a))


@given((3, 8), (8, 3))
def builtin_min_max(a: int, b: int):
    return min(a, b), max(a, b), min(a, b, 5), max(float(a), 1.5)


@given((2.5,), (3.5,), (-2.5,), (2.675,), (1e15 + 0.5,))
def builtin_round(a: float):
    return round(a), round(a, 2), round(a, 0)


@given((7, 3), (-7, 3))
def builtin_divmod(a: int, b: int):
    q, r = divmod(a, b)
    return q * 100 + r, divmod(a, 2)


@given((3.9,), (-3.9,), (0.0,))
def conversions_float(a: float):
    return int(a), bool(a), float(a), str(a)


@given((3,), (0,), (-1,))
def conversions_int(a: int):
    return float(a), bool(a), str(a), int(a), repr(a)


@given(("12", "1.5"), (" -7 ", "1e3"), ("+4", "inf"))
def conversions_str(a: str, b: str):
    return int(a), float(b), bool(a), bool("")


@given((0.5,), (2.0,), (1.0,))
def math_functions(a: float):
    return (
        math.sqrt(a),
        math.exp(a),
        math.log(a),
        math.log2(a),
        math.log10(a),
        math.sin(a),
        math.cos(a),
        math.tan(a),
        math.atan(a),
        math.sinh(a),
        math.cosh(a),
        math.tanh(a),
    )


@given((2.5,), (-2.5,), (3.0,))
def math_rounding(a: float):
    return math.floor(a), math.ceil(a), math.trunc(a), math.fabs(a), math.copysign(2.0, a)


@given((12, 18), (7, 5))
def math_integers(a: int, b: int):
    return math.gcd(a, b), math.factorial(b % 6), math.pow(a, 2), math.hypot(a, b)


@given((1.0,), (float("inf"),), (float("nan"),))
def math_questions(a: float):
    return math.isnan(a), math.isinf(a), math.isfinite(a), a != a, math.pi, math.inf > a


@given((5,), (0,))
def augmented_int(a: int):
    b = a
    b += 3
    b -= 1
    b *= 4
    b //= 3
    b %= 7
    b **= 2
    b <<= 1
    b |= 1
    b &= 0xFF
    b ^= 5
    b >>= 1
    return b


@given((5.0,), (0.25,))
def augmented_float(a: float):
    a += 1
    a /= 2
    a *= 1.5
    a -= 0.5
    return a


@given((3, 4), (0, 0))
def ternary(a: int, b: int):
    return a if a > b else b, "yes" if a == b else "no", (1.5 if a else 2.5)


@given((1,), (2,), (3,))
def membership_tuple(a: int):
    return a in (1, 3, 5), a not in (1, 2), a in [2]


@given((None,), (3,))
def optional_int(a: int | None):
    if a is None:
        return -1
    return a + 1


@given(("hello", "world"), ("", "x"), ("äö", "ü"))
def str_operators(a: str, b: str):
    return a + b, a * 3, a == b, a != b, a < b, a <= b, a in b, len(a), a + " " + b


@given(("Hello World",), ("abc",), ("A1 b2",))
def str_case(a: str):
    return a.upper(), a.lower(), a.title(), a.capitalize(), a.isupper(), a.islower()


@given(("  text ",), ("xxyxx",), ("",))
def str_strip(a: str):
    return a.strip(), a.lstrip(), a.rstrip(), a.strip("x"), a.lstrip("x"), a.rstrip(" x")


@given(("a b  c",), ("",), ("one",))
def str_split(a: str):
    return a.split(), a.split(" "), a.split(" ", 1), "-".join(a.split())


@given(("a,b,,c", ","), ("abc", "b"))
def str_split_by(a: str, by: str):
    return (
        a.split(by),
        by.join(["x", "y", "z"]),
        a.replace(by, "--"),
        a.count(by),
        a.find(by),
        a.rfind(by),
    )


@given(("hello",), ("héllo!",))
def str_index(a: str):
    return a[0], a[-1], a[1:3], a[::-1], a[:-1], a[::2], a[1:], a[-3:-1]


@given(("123",), ("abc",), ("a1",), ("",), (" ",))
def str_classes(a: str):
    return a.isdigit(), a.isalpha(), a.isalnum(), a.isspace(), a.startswith("a"), a.endswith("3")


@given(("7",), ("-42",))
def str_padding(a: str):
    return a.zfill(5), a.ljust(6) + "|", a.rjust(6), a.center(7, "*"), a.ljust(4, ".")


@given((3, 2.5, "x"), (-1, 1e20, "y"), (10**12, 1e-7, ""))
def f_string(a: int, b: float, c: str):
    return f"{a} {b} {c}", f"{a:5d}|{b:.3f}|{c:>4}|{c!r}", f"{a:,} {b:e} {a:+}", f"{a:08b} {a:x}"


@given((3, 2.5), (-7, 0.125))
def percent_format(a: int, b: float):
    return (
        "%d and %f" % (a, b),
        "%5d|%-5d|%05d" % (a, a, a),
        "%.2f%%" % b,
        "%s %s" % (a, "x"),
        "%g" % b,
    )


@given((3, 2.5), (-7, 1e10))
def format_method(a: int, b: float):
    return f"{a} {b}", f"{b} {a}", f"{a:>6}{{}}", f"{b:.2e}"


@given((True,), (False,))
def str_of_values(a: bool):
    return str(a), str([1, 2]), str((1.5, "x")), str({"k": a}), f"{[a, a]}", str(None)


@given((0.1,), (1e16,), (123456789.0,), (1e-5,), (-0.0,), (float("inf"),))
def str_of_float(a: float):
    return str(a), repr(a), f"{a}"


@given(("cab",), ("",))
def str_loop(a: str):
    out = ""
    for ch in a:
        out = ch + out
    return out, [ord(c) for c in a], chr(97)


@given((1, 2, 3), (5, 5, 5))
def builtin_sum_all(a: int, b: int, c: int):
    return sum([a, b, c]), sum([float(a), 0.5]), all([a > 0, b > 0]), any([a > 4, c > 4])


@given((10,), (1,))
def constant_folding(a: int):
    return a + 2 * 3 - 4 // 2, 2**10 + a, "a" + "b" + str(a), -3 % 5 + a


@given((3,), (-3,))
def bool_of_values(a: int):
    xs: list[int] = []
    if a:
        xs.append(a)
    return bool(a), bool(xs), not xs, bool(""), not a


@given((4, 0), (0, 4))
def and_or_values(a: int, b: int):
    return a or b, a and b, a or 7


@given((6,), (15,), (7,))
def nested_functions_calls(a: int):
    return _twice(_twice(a)) + _with_default(a) + _with_default(a, 10) + _with_default(a, b=2)


def _twice(a: int) -> int:
    return a * 2


def _with_default(a: int, b: int = 5) -> int:
    if a > 10:
        return a - b
    return a + b
