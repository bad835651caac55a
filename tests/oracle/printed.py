"""Tensors to print: expressions over `rl`, and the print options they are shown under."""

import numpy as np

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTS = ["int64", "int32", "int16", "int8", "uint8"]


def _numbers():
    """Lists of numbers that meet every branch of the formatter."""
    rng = np.random.RandomState(0)
    yield from ([], [0.0], [-0.0], [1.0, 2.0], [1.5, -2.25, 100.0], [1e-5, 1.0], [1e-4, 1e4])
    yield from ([1e8, 1.0], [1e9], [123456.0, 0.5], [12345678.0], [0.001, 0.002], [1e-10])
    inf, nan = float("inf"), float("nan")
    yield from ([inf], [nan], [inf, -inf, 1.0], [nan, 2.5], [nan, inf, 1e10], [-inf, 1e-7])
    yield from ([99999.0, 1.0], [100000.0, 1.0], [1000.5, 0.25], [0.1, 0.2, 0.30000001])
    yield from ([1e5, 1e-5], [3e38], [1.17e-38], [16777216.0, 1.0], [1 / 3, 2 / 3, 1.0])
    for scale in (1e-3, 1.0, 50.0, 1e4, 1e7):
        yield [round(float(v), 5) for v in rng.randn(6) * scale]


def _text(value):
    return repr(value).replace("inf", "float('inf')").replace("nan", "float('nan')")


def _expressions():
    for numbers in _numbers():
        yield f"rl.tensor({_text(numbers)})"
        yield f"rl.tensor({_text(numbers)}, dtype=rl.float64)"
        if all(abs(n) < 6e4 or n != n for n in numbers):
            yield f"rl.tensor({_text(numbers)}, dtype=rl.float16)"
            yield f"rl.tensor({_text(numbers)}, dtype=rl.bfloat16)"
        if len(numbers) == 1:
            yield f"rl.tensor({_text(numbers[0])})"
    for d in INTS:
        yield from (
            f"rl.tensor({v}, dtype=rl.{d})" for v in ("[]", "[0]", "[1, 20, 3]", "7", "[[1], [99]]")
        )
    yield from ("rl.tensor([-1, 10, -100])", "rl.tensor([2**62, 1])", "rl.tensor([-2**63])")
    yield from ("rl.tensor(True)", "rl.tensor([True, False])", "rl.tensor([], dtype=rl.bool)")
    for shape in (
        "0",
        "0, 3",
        "3, 0",
        "2, 0, 2",
        "1",
        "1, 1",
        "2, 3",
        "2, 2, 2",
        "1, 2, 1, 2",
        "30",
    ):
        yield f"rl.zeros({shape})"
        yield f"rl.ones({shape}, dtype=rl.int32)"
        yield f"rl.ones({shape}, dtype=rl.float64) / 3"
    for n in (10, 40, 1000, 1001, 5000):
        yield f"rl.arange({n})"
        yield f"rl.arange({n}) / 7"
    for shape in (
        "40, 40",
        "3, 500",
        "500, 3",
        "2, 30, 30",
        "10, 10, 20",
        "1, 1, 1200",
        "8, 8, 4, 8",
    ):
        yield f"rl.arange({np.prod([int(s) for s in shape.split(', ')])}).reshape({shape})"
        yield f"rl.arange({np.prod([int(s) for s in shape.split(', ')])}).reshape({shape}) / 100"
    for z in (
        "[1 + 2j]",
        "[1.5 - 2j, -3j]",
        "[]",
        "[0j]",
        "[1e10 + 1j]",
        "[complex('nan'), 1j]",
        "[complex(float('inf'), -float('inf'))]",
        "[[1 + 1j, 2.25], [0.001j, 100]]",
        "3 - 4j",
    ):
        yield f"rl.tensor({z}, dtype=rl.complex64)"
        yield f"rl.tensor({z}, dtype=rl.complex128)"
    yield from ("rl.arange(6.).reshape(2, 3).t()", "rl.arange(10)[::3]", "rl.ones(2).expand(2, 2)")
    yield from ("rl.ones(2, requires_grad=True)", "rl.tensor(1., requires_grad=True)")
    yield from ("rl.empty(2, 3, device='meta')", "rl.empty(0, device='meta', dtype=rl.int32)")
    yield from (
        "rl.Size([2, 3])",
        "rl.float32",
        "rl.device('cpu')",
        "rl.device('cuda', 1)",
        "rl.strided",
        "rl.channels_last",
        "rl.Size([])",
        "rl.contiguous_format",
    )
    yield from (
        "rl.finfo(rl.float32)",
        "rl.finfo(rl.float16)",
        "rl.finfo(rl.bfloat16)",
        "rl.finfo(rl.float64)",
        "rl.iinfo(rl.int8)",
        "rl.iinfo(rl.int64)",
        "rl.iinfo(rl.uint8)",
    )


OPTIONS = [
    {"precision": 2}, {"precision": 8}, {"threshold": 5}, {"edgeitems": 1, "threshold": 5},
    {"linewidth": 40}, {"sci_mode": True}, {"sci_mode": False}, {"profile": "short"},
    {"profile": "full"}, {"precision": 0},
]  # fmt: skip
UNDER_OPTIONS = [
    "rl.tensor([1.5, -2.25, 100.0])", "rl.tensor([1e-5, 1.0])", "rl.arange(30)",
    "rl.arange(12.).reshape(3, 4) / 7", "rl.tensor([1e10, float('nan')])", "rl.tensor(3.14159265)",
    "rl.tensor([1.5 - 2j, 1e-5j])", "rl.arange(1200.).reshape(30, 40)", "rl.tensor([True, False])",
]  # fmt: skip

CASES = [[e, {}] for e in _expressions()]
CASES += [[e, o] for o in OPTIONS for e in UNDER_OPTIONS]


def shown(rl, case):
    expression, options = case
    rl.set_printoptions(**options)
    try:
        return repr(eval(expression, {"rl": rl}))
    finally:
        rl.set_printoptions(profile="default", sci_mode=None)
