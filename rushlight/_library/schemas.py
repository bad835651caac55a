"""The schema of an operator, from the annotations of its function."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from rushlight import _C

# What a parameter's annotation becomes; lists and Optional are made of these.
_PLAIN = {
    _C.Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    _C.dtype: "ScalarType",
    _C.device: "Device",
}
_NUMBER = frozenset({int, float, bool})
_IN_LISTS = frozenset({"Tensor", "Tensor?", "SymInt", "float", "bool"})
_RESULTS = frozenset({"Tensor", "Tensor[]", "int", "float", "bool", "Scalar"})
_DEFAULTS = (int, float, bool, str, _C.dtype, _C.device)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema that the function's annotations say: `(Tensor x, SymInt n=3) -> Tensor`.

    Arguments:
        prototype_function: the function, all of whose arguments are annotated.
        mutates_args: names of arguments that it writes to, or "unknown" for all tensors.
        op_name: a name that stands before the schema.
        tags: accepted.

    Raises:
        ValueError: where an annotation is missing, or is one that no schema has.

    Example:
        >>> def scale(x: rl.Tensor, factor: float = 2.0) -> rl.Tensor:
        ...     return x * factor
        >>> rl.library.infer_schema(scale, mutates_args=())
        '(Tensor x, float factor=2.0) -> Tensor'
        >>> rl.library.infer_schema(scale, mutates_args=(), op_name="scale")
        'scale(Tensor x, float factor=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def wrong(what: str) -> NoReturn:
        raise ValueError(f"infer_schema: {what}; the function is {signature}")

    hints = _hints(prototype_function, wrong)
    mutated = mutates_args if isinstance(mutates_args, str) else set(mutates_args)
    if isinstance(mutated, str) and mutated != "unknown":
        wrong("mutates_args must be names of arguments, or 'unknown'")
    missing = set() if isinstance(mutated, str) else mutated - set(signature.parameters)
    if missing:
        wrong(f"mutates_args names {', '.join(sorted(missing))}, which the function does not take")
    parts: list[str] = []
    for index, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        elif parameter.kind not in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        ):
            wrong(f"the argument {name} cannot be given by name")
        if parameter.annotation is inspect.Parameter.empty:
            wrong(f"the argument {name} has no annotation")
        kind = _type_text(hints[name])
        if kind is None:
            wrong(
                f"the argument {name} is annotated as {hints[name]}, which no schema has: "
                "Tensor, int, float, bool, str, Number, dtype and device, Optional of these, and "
                "Sequence or list of Tensor, Optional[Tensor], int, float and bool"
            )
        written = mutated == "unknown" or name in mutated
        if written and not kind.startswith("Tensor"):
            if mutated != "unknown":
                wrong(f"mutates_args names {name}, which is no tensor")
        elif written:
            kind = kind.replace("Tensor", f"Tensor(a{index}!)", 1)
        parts.append(f"{kind} {name}{_default_text(name, parameter, wrong)}")
    if signature.return_annotation is inspect.Signature.empty:
        wrong("what it returns has no annotation")
    result = _results_text(hints.get("return"), wrong)
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def _hints(function, wrong):
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        return wrong(f"An annotation names something unknown ({error}).")


def _union_of(annotation):
    """The members of a union without None, and whether None was among them."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = typing.get_args(annotation)
        return frozenset(m for m in members if m is not type(None)), type(None) in members
    return frozenset({annotation}), False


def _type_text(annotation):
    """The type as schemas spell it, or None."""
    members, optional = _union_of(annotation)
    if members == _NUMBER:
        text = "Scalar"
    elif len(members) != 1:
        return None
    else:
        (only,) = members
        try:
            text = _PLAIN.get(only)
        except TypeError:  # not hashable
            return None
        if text is None and typing.get_origin(only) in (list, Sequence):
            (item,) = typing.get_args(only)
            inner = _type_text(item)
            text = f"{inner}[]" if inner in _IN_LISTS else None
    return f"{text}?" if text is not None and optional else text


def _default_text(name, parameter, wrong):
    default = parameter.default
    if default is inspect.Parameter.empty:
        return ""
    if default is None:
        return "=None"
    if not isinstance(default, _DEFAULTS):
        wrong(f"the default of {name} is a {type(default).__name__}, which no schema has")
    if isinstance(default, (str, _C.device)):
        return f'="{default}"'
    if isinstance(default, _C.dtype):
        return f"={str(default).rpartition('.')[2]}"
    return f"={default!r}"


def _results_text(annotation, wrong):
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        items = typing.get_args(annotation)
        if items == ((),):
            items = ()
        if Ellipsis in items:
            wrong("A tuple of unknown length cannot be returned; use list[Tensor].")
        texts = [_result_text(item, annotation, wrong) for item in items]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    return _result_text(annotation, annotation, wrong)


def _result_text(annotation, whole, wrong):
    text = _type_text(annotation)
    text = "int" if text == "SymInt" else text
    if text not in _RESULTS:
        wrong(
            f"Return has unsupported type {whole}. The valid types are: Tensor, list[Tensor], int, "
            "float, bool, Number, and tuples of these."
        )
    return text
