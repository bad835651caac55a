"""Functions that are written in Python, as programs see them.

Their errors begin with the name that the program called, whatever helper found the fault, and
classes with a __torch_function__ take them over as they do the operators of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight import _C

_published = set()  # names of functions that stand in front of the texts of errors

# Parameters that take tensors, and those that take ints, by their names.
_TENSORS = frozenset(
    """A B X L LU LD LU_data LU_pivots pivots tau b input input2 input3 other self tensor x y x1 x2
    window data boundaries sorted_sequence weight mat1 mat2 vec""".split()
)
_INTS = frozenset(
    "n k offset N ind r n_fft hop_length win_length window_length dim edge_order".split()
)
_LISTS_OF_INTS = ("dim", "s")
_HELPERS = frozenset(["pad"])  # names that are nowhere else to be found
_NUMBERS_TOO = ("ord", "p")  # whose default is a text


def publish(namespace: dict[str, Any], space: str, names: Iterable[str]) -> None:
    """Replaces functions of a module by ones that speak under their public names.

    space: "linalg" for linalg.inv, or "" for names of the package itself.
    """
    for name in names:
        function = namespace[name]
        if callable(function) and not isinstance(function, type):
            namespace[name] = public(f"{space}.{name}" if space else name, function)


def public(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under its public name."""
    _published.add(name)
    is_overridden = _C._is_overridden

    def call(*args, **kwargs):
        if is_overridden(args, kwargs):
            return _C._ask_overrides(call, args, kwargs)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise _spoken(name, function, error, args, kwargs) from error.__cause__

    space, _, call.__name__ = name.rpartition(".")
    call.__qualname__ = call.__name__
    call.__module__ = f"rushlight.{space}" if space else "rushlight"
    call.__doc__ = function.__doc__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _spoken(name, function, error, args, kwargs):
    """The error with the public name in front of its text."""
    if isinstance(error, Warning):  # made an error by the program: no argument is at fault
        return error
    wrong = _wrong_argument(name, function, args, kwargs)
    if wrong is not None:
        return wrong
    text = str(error.args[0]) if len(error.args) == 1 else ""
    if type(error) in (TypeError, AttributeError) and not hasattr(error, "_rushlight_op"):
        return _about_types(name, function, error, text, args, kwargs)
    plain = _without_names(text)
    if not text or (plain == text and not hasattr(error, "_rushlight_op")):
        return error
    before, accepted, _ = plain.partition("Accepted:")
    if accepted:  # the core's signature of a helper, perhaps
        plain = f"{before}Accepted: {_signature(name, function)}"
    plain = plain.replace("argument 'self'", "argument 'input'")
    error.args = (f"{name}: {plain}",)
    return error


def _wrong_argument(name, function, args, kwargs):
    """A TypeError about the first argument whose type cannot be right, whatever else was found."""
    import inspect

    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    for parameter, value in given.items():
        default = signature.parameters[parameter].default
        kind = None
        if value is default:
            continue
        if type(default) is bool and type(value) is not bool:
            kind = "bool"
        elif type(default) is str and parameter not in _NUMBERS_TOO and not isinstance(value, str):
            kind = "str"
        elif parameter in _INTS and not isinstance(value, tuple | list | _C.Tensor):
            if type(value) is int and not -(2**63) <= value < 2**63:
                return _C.IntOverflowError(
                    f"{name}: argument '{parameter}' must fit into 64 bits, got {value}"
                )
            if value is None or not hasattr(value, "__index__") or isinstance(value, bool):
                kind = "int"
        elif parameter in _LISTS_OF_INTS and (isinstance(value, str) or (
            isinstance(value, tuple | list) and any(not hasattr(v, "__index__") for v in value)
        )):  # fmt: skip
            kind = "list of ints"
        if kind is not None:
            return _C.ArgumentTypeError(
                f"{name}: argument '{parameter}' must be {kind}, not {type(value).__name__}. "
                f"Accepted: {_signature(name, function)}"
            )
    return None


def _without_names(text):
    """The text without the names of functions at its start."""
    while True:
        first, colon, rest = text.partition(": ")
        first = first.removesuffix("()")
        known = (
            first in _published
            or first in _HELPERS
            or first in _C.__dict__
            or hasattr(_C.Tensor, first)
        )
        ours = first.startswith(("_", "linalg.", "fft.", "special.")) and " " not in first
        if not (colon and (known or ours)):
            return text
        text = rest


def _about_types(name, function, error, text, args, kwargs):
    """A TypeError in place of what Python says when an argument is of the wrong type; what the
    program's own code raised (a hook's, say) stays as it is."""
    called = getattr(function, "__name__", "")
    if text.startswith(f"{called}() "):  # of Python itself: the arguments do not fit
        return _C.ArgumentTypeError(f"{name}{text.removeprefix(called)}. Accepted: "
                                    f"{_signature(name, function)}")  # fmt: skip
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    if not _C._is_package_file(last.tb_frame.f_code.co_filename):
        return error
    import inspect

    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        given = {}
    for parameter, value in given.items():
        if parameter in _TENSORS and not isinstance(value, _C.Tensor) and value is not None:
            return _C.ArgumentTypeError(
                f"{name}: argument '{parameter}' must be Tensor, not {type(value).__name__}. "
                f"Accepted: {_signature(name, function)}"
            )
    shown = ", ".join(f"{k}={type(v).__name__}" for k, v in given.items())
    plain = _without_names(text)
    return _C.ArgumentTypeError(
        f"{name}: arguments of these types do not fit: ({shown}): {plain}. Accepted: "
        f"{_signature(name, function)}"
    )


class _Plain(str):
    """A text that prints without quotes, as annotations are wanted in a signature."""

    __repr__ = str.__str__


def _signature(name, function):
    import inspect

    try:
        found = inspect.signature(function)
    except ValueError:  # an operator of the core
        return f"{name}(...)"
    parameters = [p.replace(annotation=_Plain(p.annotation)) if isinstance(p.annotation, str) else p
                  for p in found.parameters.values()]  # fmt: skip
    result = found.empty  # what it returns is not in question
    return f"{name}{found.replace(parameters=parameters, return_annotation=result)}"
