"""How tensors print: the layout of PyTorch's repr, from the few values that will be shown.

A tensor is first reduced to nested lists of what appears on the page, with `...` where items are
left out; one formatter then decides how numbers look, and the lists are laid out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import rushlight


@dataclass
class PrintOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None  # None: decided by the values


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()


def set_printoptions(precision: int | None = None, threshold: float | None = None,
                     edgeitems: int | None = None, linewidth: int | None = None,
                     profile: str | None = None, sci_mode: bool | None = None) -> None:  # fmt: skip
    """Sets how tensors print; `profile` ("default", "short", "full") is applied first.

    Arguments:
        precision: digits behind the point.
        threshold: tensors with more elements are shown in part.
        edgeitems: how many elements at each end then.
        linewidth: characters per line.
        profile: "default", "short" or "full", to begin with.
        sci_mode: always or never write 1.0e+00; None decides.

    Example:
        >>> with rl.printoptions():
        ...     rl.set_printoptions(precision=2)
        ...     print(rl.tensor([3.14159]))
        tensor([3.14])
    """
    global _options
    base = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: unknown profile {profile!r}, use {set(_PROFILES)}")
        base = replace(_PROFILES[profile], sci_mode=base.sci_mode)
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    # sci_mode has no "leave it": None means that the values decide again, as in PyTorch.
    changes = {name: value for name, value in given.items() if value is not None}
    _options = replace(base, sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """The present settings, as a dict that set_printoptions takes.

    Example:
        >>> rl.get_printoptions()["precision"]
        4
    """
    return asdict(_options)


@contextlib.contextmanager
def printoptions(**changes: Any) -> Iterator[None]:
    """Print options for the time of a with block.

    Arguments:
        changes: what set_printoptions takes.

    Example:
        >>> with rl.printoptions(precision=2, sci_mode=False):
        ...     print(rl.tensor([3.14159]))
        tensor([3.14])
    """
    global _options
    saved = _options
    set_printoptions(**changes)
    try:
        yield
    finally:
        _options = saved


def shown_values(t, summarize):
    """The values that appear on the page, as nested lists; Ellipsis stands for what is left out."""
    edge = _options.edgeitems
    if not summarize or t.dim() == 0:
        return t.tolist()
    n = t.shape[0]
    cut = n > 2 * edge
    if t.dim() == 1:
        return [*t[:edge].tolist(), ..., *t[n - edge :].tolist()] if cut else t.tolist()
    rows = [*range(edge), *range(n - edge, n)] if cut else range(n)
    out = [shown_values(t[i], True) for i in rows]
    if cut:
        out.insert(edge, ...)
    return out


def flatten(values):
    if isinstance(values, list):
        for item in values:
            yield from flatten(item)
    elif values is not ...:
        yield values


class PlainFormat:
    """Integers and bools: as Python writes them, aligned to the right."""

    def __init__(self, values):
        self.width = max((len(str(v)) for v in values), default=1)

    def __call__(self, value):
        return str(value).rjust(self.width)


class FloatFormat:
    """Floats: whole numbers with a dot, fixed point, or scientific, whichever suits all of them."""

    def __init__(self, values):
        nonzero = [v for v in values if v != 0 and math.isfinite(v)]
        self.whole = all(v == math.ceil(v) for v in nonzero)
        self.scientific = bool(nonzero) and (
            self._wide_range(nonzero) if _options.sci_mode is None else _options.sci_mode
        )
        # Zeros and non-finite values do not count: they never need more room than the others ask.
        digits = _options.precision
        if self.scientific:
            texts = (f"{v:.{digits}e}" for v in nonzero)
        elif self.whole:
            texts = (f"{v:.0f}." for v in nonzero)
        else:
            texts = (f"{v:.{digits}f}" for v in nonzero)
        self.width = max(map(len, texts), default=1)

    def _wide_range(self, nonzero):
        low, high = min(map(abs, nonzero)), max(map(abs, nonzero))
        return high / low > 1000.0 or high > 1.0e8 or (not self.whole and low < 1.0e-4)

    def __call__(self, value):
        if self.scientific:
            text = f"{value:.{_options.precision}e}"
        elif self.whole:
            text = f"{value:.0f}" + ("." if math.isfinite(value) else "")
        else:
            text = f"{value:.{_options.precision}f}"
        return text.rjust(self.width)


class ComplexFormat:
    """Complex numbers: each part has a format of its own."""

    def __init__(self, values):
        values = list(values)
        self.real = FloatFormat([v.real for v in values])
        self.imag = FloatFormat([v.imag for v in values])
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value):
        imag = self.imag(value.imag).lstrip() + "j"
        return self.real(value.real) + ("" if imag[0] in "+-" else "+") + imag


def layout(values, depth, indent, form):
    """Nested lists as text; `depth` is the number of list levels."""
    if depth == 0:
        return form(values)
    if depth == 1:
        per_line = max(1, (_options.linewidth - indent) // (form.width + 2))
        items = [" ..." if v is ... else form(v) for v in values]
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if v is ... else layout(v, depth - 1, indent + 1, form) for v in values]
    return "[" + ("," + "\n" * (depth - 1) + " " * (indent + 1)).join(parts) + "]"


def values_text(t, indent):
    """The bracketed part: [[1, 2], [3, 4]]."""
    values = shown_values(t, t.numel() > _options.threshold)
    kind = (
        FloatFormat
        if t.dtype.is_floating_point
        else ComplexFormat
        if t.dtype.is_complex
        else PlainFormat
    )
    return layout(values, t.dim(), indent, kind(list(flatten(values))))


def dtype_is_obvious(dtype):
    """Would the same literal, without dtype=, give this dtype?"""
    default = rushlight.get_default_dtype()
    return dtype in (default, rushlight.int64, rushlight.bool, default.to_complex())


def graph_suffix(t):
    node = t.grad_fn
    if node is None:
        return ["requires_grad=True"] if t.requires_grad else []
    name = node.name() if type(node).__name__ == "CppFunction" else type(node).__name__
    return [f"grad_fn=<{name.rpartition('::')[2]}>"]


def join_suffixes(text, suffixes, indent):
    """Adds ", suffix" to the last line, or a line of its own where it would grow too long."""
    room = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if room + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            room = indent + len(suffix)
        else:
            text += ", " + suffix
            room += len(suffix) + 2
    return text + ")"


def tangent_suffix(t):
    """The tangent of the current level of forward mode."""
    level = rushlight._C._dual_level()
    if level == 0 or not (t.dtype.is_floating_point or t.dtype.is_complex):
        return []
    tangent = rushlight._C._unpack_dual(t, level)[1]
    return [] if tangent is None else [f"tangent={tangent!r}"]


def _str(t, contents=None):
    """repr(t); `contents` stands for its values."""
    if level := rushlight._C._batch_level(t):
        return f"BatchedTensor(lvl={level}, bdim=0, value={rushlight._C._batch_value(t)!r})"
    plain = type(t) is rushlight.Tensor or getattr(t, "_is_param", False)
    prefix = "tensor(" if plain else type(t).__name__ + "("
    default = rushlight.get_default_dtype()
    suffixes = []
    if t.device.type != rushlight.get_default_device().type or t.device.type == "meta":
        suffixes.append(f"device='{t.device}'")
    if t.device.type == "meta" or t.numel() == 0:
        if t.device.type == "meta" or t.dim() != 1:
            suffixes.append(f"size={tuple(t.shape)}")
        if t.dtype != default:
            suffixes.append(f"dtype={t.dtype}")
        text = "..." if t.device.type == "meta" else "[]"
    else:
        if not dtype_is_obvious(t.dtype):
            suffixes.append(f"dtype={t.dtype}")
        text = values_text(t.detach(), len(prefix)) if contents is None else contents
    return join_suffixes(prefix + text, suffixes + graph_suffix(t) + tangent_suffix(t), len(prefix))


def _tensor_str(t, indent):
    """The values as they stand in the repr; PyTorch's private name for it."""
    return values_text(t.detach(), indent)


def _str_intern(t, *, tensor_contents=None):
    """repr(t), with other text for the values; PyTorch's private name for it."""
    return _str(t, tensor_contents)


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """The text with its suffixes and the closing bracket; PyTorch's private name for it."""
    if not force_newline:
        return join_suffixes(tensor_str, suffixes, indent)
    return ",\n".join([tensor_str, *(" " * indent + suffix for suffix in suffixes)]) + ")"


def __getattr__(name):
    if name == "PRINT_OPTS":  # PyTorch's name for the settings
        return _options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
