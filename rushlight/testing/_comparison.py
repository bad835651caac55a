"""assert_close: are two values the same, up to the rounding of their dtype?

Values are tensors, NumPy arrays, numbers, and sequences and mappings of them. A difference is told
with its place in them, how many elements differ, and the largest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

from rushlight import _C
from rushlight._C import Tensor

# (rtol, atol); integers and bools must be equal.
_TOLERANCES = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
    _C.complex32: (1e-3, 1e-5),
    _C.complex64: (1.3e-6, 1e-5),
    _C.complex128: (1e-7, 1e-7),
}


class _Options:
    def __init__(self, **values):
        self.__dict__.update(values)


def assert_close(actual: Any, expected: Any, *, allow_subclasses: bool = True,
                 rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
                 check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
                 check_stride: bool = False,
                 msg: str | Callable[[str], str] | None = None) -> None:  # fmt: skip
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Without rtol and atol, the tolerances of the dtype hold, of the less exact one if they differ.

    Arguments:
        actual, expected: tensors, numbers, or containers of them.
        allow_subclasses: let classes differ, as long as they are related.
        rtol, atol: tolerances; None takes those of the dtype.
        equal_nan: let nan equal nan.
        check_device, check_dtype, check_layout, check_stride: what has to agree besides.
        msg: another text for the error, or a function of it.

    Raises: AssertionError with the number of differences, the largest, and where it is.

    Example:
        >>> rl.testing.assert_close(rl.tensor([1.0]), rl.tensor([1.01]), rtol=0.1, atol=0.0)
        >>> rl.testing.assert_close(rl.tensor([1.0]), rl.tensor([2.0]), msg="too far apart")
        Traceback (most recent call last):
            ...
        AssertionError: too far apart
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: give rtol and atol or neither, got {rtol} and {atol}")
    options = _Options(
        rtol=rtol, atol=atol, equal_nan=equal_nan, device=check_device, dtype=check_dtype,
        layout=check_layout, stride=check_stride, subclasses=allow_subclasses,
    )  # fmt: skip
    try:
        _compare(actual, expected, options, "")
    except AssertionError as error:
        text = msg(str(error)) if callable(msg) else msg
        raise AssertionError(str(error) if text is None else text) from None


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None,
                    atol: float | None = None, equal_nan: bool = True,
                    msg: str = "") -> None:  # fmt: skip
    """The old form of assert_close, which looks at the values only."""
    if rtol is None and atol is None:
        actual, expected = _C.as_tensor(actual), _C.as_tensor(expected)
        rtol, atol = _tolerances(actual, expected)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True,
                 check_dtype=False, check_stride=False, msg=msg or None)  # fmt: skip


def _compare(actual, expected, options, place):
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _same(set(actual) == set(expected), "The keys of the mappings do not match", place,
              sorted(map(str, actual)), sorted(map(str, expected)))  # fmt: skip
        for key in actual:
            _compare(actual[key], expected[key], options, f"{place}[{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        _same(len(actual) == len(expected), "The lengths of the sequences do not match", place,
              len(actual), len(expected))  # fmt: skip
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, e, options, f"{place}[{i}]")
    elif actual is None and expected is None:
        return
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, options, place)
    elif _is_tensor_like(actual) and _is_tensor_like(expected):
        if not options.subclasses and type(actual) is not type(expected):
            raise TypeError(f"assert_close: types differ: {type(actual)} and {type(expected)}")
        _compare_tensors(_C.as_tensor(actual), _C.as_tensor(expected), options, place)
    else:
        raise TypeError(f"assert_close: cannot compare {type(actual).__name__} with "
                        f"{type(expected).__name__}{_at(place)}")  # fmt: skip


def _is_sequence(x):
    return isinstance(x, Sequence) and not isinstance(x, str)


def _is_number(x):
    return isinstance(x, Number) and not hasattr(x, "__array__")


def _is_tensor_like(x):
    return isinstance(x, Tensor) or hasattr(x, "__array__") or _is_number(x)


def _at(place):
    return f" (at {place})" if place else ""


def _same(ok, what, place, actual, expected):
    if not ok:
        raise AssertionError(f"{what}: {actual} != {expected}{_at(place)}.")


def _compare_numbers(actual, expected, options, place):
    kind = _C.complex128 if isinstance(actual, complex) or isinstance(expected, complex) else None
    a, e = (_C.tensor(x, dtype=kind or _python_dtype(x)) for x in (actual, expected))
    if options.dtype:
        _same(a.dtype == e.dtype, "The types of the numbers do not match", place,
              type(actual).__name__, type(expected).__name__)  # fmt: skip
    if not bool(_close(a, e, options)):
        raise AssertionError(f"Scalars are not close!\n\nExpected {expected} but got {actual}"
                             f"{_at(place)}.\nDifference: {abs(actual - expected)}")  # fmt: skip


def _python_dtype(x):
    return _C.bool if isinstance(x, bool) else _C.int64 if isinstance(x, int) else _C.float64


def _tolerances(a, e):
    pairs = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (a, e)]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _is_float8(dtype):
    return dtype.is_floating_point and dtype.itemsize == 1  # nothing is computed in them


def _close(a, e, options):
    rtol, atol = _tolerances(a, e) if options.rtol is None else (options.rtol, options.atol)
    a, e = (t.float() if _is_float8(t.dtype) else t for t in (a, e))
    dtype = _C.promote_types(a.dtype, e.dtype)
    return a.to(dtype).isclose(e.to(dtype), rtol=rtol, atol=atol, equal_nan=options.equal_nan)


def _compare_tensors(a, e, options, place):
    a, e = a.detach(), e.detach()
    _same(
        a.shape == e.shape, "The values for attribute 'shape' do not match", place, a.shape, e.shape
    )
    if a.layout is not _C.strided or e.layout is not _C.strided:
        if options.layout:
            _same(a.layout is e.layout, "The values for attribute 'layout' do not match", place,
                  a.layout, e.layout)  # fmt: skip
        a, e = a.to_dense(), e.to_dense()
    if options.device:
        _same(a.device == e.device, "The values for attribute 'device' do not match", place,
              a.device, e.device)  # fmt: skip
    if options.dtype:
        _same(a.dtype == e.dtype, "The values for attribute 'dtype' do not match", place, a.dtype,
              e.dtype)  # fmt: skip
    if options.stride:
        _same(a.stride() == e.stride(), "The values for attribute 'stride()' do not match", place,
              a.stride(), e.stride())  # fmt: skip
    if a.numel() == 0 or a.is_meta:
        return
    close = _close(a, e, options)
    if bool(close.all()):
        return
    raise AssertionError(_report(a, e, close, options, place))


def _report(a, e, close, options, place):
    rtol, atol = _tolerances(a, e) if options.rtol is None else (options.rtol, options.atol)
    kind = _C.complex128 if a.is_complex() or e.is_complex() else _C.float64
    a, e, bad = a.to(kind), e.to(kind), ~close
    # Where they are close counts for nothing; a NaN on one side counts as infinitely far.
    apart = _C.where(bad, (a - e).abs(), 0).nan_to_num(nan=float("inf"))
    relative = _C.where(bad, apart / e.abs(), 0).nan_to_num(nan=float("inf"), posinf=float("inf"))
    count, total = int(bad.sum()), bad.numel()
    lines = [f"Tensor-likes are not {'close' if rtol or atol else 'equal'}!{_at(place)}", "",
             f"Mismatched elements: {count} / {total} ({100 * count / total:.1f}%)"]  # fmt: skip
    for what, values, allowed in (("absolute", apart, atol), ("relative", relative, rtol)):
        where = tuple(int(i) for i in _coordinates(int(values.argmax()), values.shape))
        lines.append(f"Greatest {what} difference: {float(values.max())} at index {where} "
                     f"(up to {allowed} allowed)")  # fmt: skip
    return "\n".join(lines)


def _coordinates(flat, shape):
    found = []
    for n in reversed(shape):
        found.append(flat % n)
        flat //= n
    return reversed(found)
