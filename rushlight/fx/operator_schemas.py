"""Arguments of calls, with their names and defaults."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight._names.missing import names_missing_from
from rushlight.nn import Module

__all__ = [
    "ArgsKwargsPair", "get_signature_for_torch_op", "normalize_function", "normalize_module",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Callable[..., Any]) -> list[inspect.Signature] | None:
    """The signature of a function of the library, in a list; None where Python has none."""
    try:
        return [inspect.signature(op)]
    except (TypeError, ValueError):
        return None


def _pair(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_names: bool
) -> ArgsKwargsPair | None:
    kinds = {p.kind for p in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    new_args, new_kwargs = [], {}
    for i, (name, value) in enumerate(bound.arguments.items()):
        if not only_names and i < len(args):
            new_args.append(value)
        else:
            new_kwargs[name] = value
    return ArgsKwargsPair(tuple(new_args), new_kwargs)


def normalize_function(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None, kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """The arguments of a call with defaults filled in; None where the signature is not known."""
    if getattr(operator, getattr(target, "__name__", ""), None) is target:
        return None
    signatures = get_signature_for_torch_op(target) or []
    pairs = [_pair(s, args, kwargs or {}, normalize_to_only_use_kwargs) for s in signatures]
    return pairs[0] if pairs else None


def normalize_module(
    root: Module, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """The arguments of a call of a submodule, by the signature of its forward."""
    try:
        submodule = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(
            f"Tried to normalize call of {target}, which is no submodule of the root"
        ) from None
    signature = inspect.signature(submodule.forward)
    return _pair(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


__getattr__ = names_missing_from(__name__)
