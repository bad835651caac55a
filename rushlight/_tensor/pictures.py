"""Tensors and modules for the eye: cards in notebooks, pictures there, in files and in terminals.

Loaded when first used; pictures need NumPy.
"""

from __future__ import annotations

import html
import sys
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import FileLike

if TYPE_CHECKING:
    from rushlight.utils._images import Picture

__all__ = ["module_html", "picture_of", "tensor_html"]

_MOST_VALUES = 1 << 22  # of larger tensors, statistics are those of a part
_MOST_SIDE = 4096  # pixels of a picture
_BINS = 32
_CARD = (
    "font: 13px/1.5 system-ui, sans-serif; border: 1px solid #8884; border-radius: 8px; "
    "padding: 8px 12px; display: inline-block; margin: 2px 0"
)


# ---- statistics


def _statistics(t: Tensor) -> tuple[list[tuple[str, str]], list[int]]:
    """Facts about the values, and how many fall into each bin between the smallest and largest."""
    with rushlight.no_grad():
        flat = t.detach().flatten()
        facts = []
        if flat.numel() > _MOST_VALUES:
            flat = flat[:: -(-flat.numel() // _MOST_VALUES)]
            facts.append(("of", f"{flat.numel():,} values, evenly chosen"))
        if flat.is_complex():
            flat = flat.abs()
            facts.append(("of", "absolute values"))
        values = flat.to("cpu", _C.float64)
        finite = values[values.isfinite()]
        nans, infinite = int(values.isnan().sum()), int(values.isinf().sum())
        if finite.numel():
            low, high = float(finite.min()), float(finite.max())
            facts += [("min", f"{low:.4g}"), ("mean", f"{float(finite.mean()):.4g}"),
                      ("max", f"{high:.4g}")]  # fmt: skip
            if finite.numel() > 1:
                facts.append(("deviation", f"{float(finite.std()):.4g}"))
        if nans:
            facts.append(("NaN", f"{nans:,}"))
        if infinite:
            facts.append(("infinite", f"{infinite:,}"))
        if finite.numel() < 2 or not high > low or high - low == float("inf"):
            return facts, []
        counts = rushlight.histc(finite, bins=_BINS, min=low, max=high)
        return facts, [int(n) for n in counts.tolist()]


def _histogram(counts: list[int]) -> str:
    top = max(counts, default=0)
    if not top:
        return ""
    bars = "".join(
        f'<rect x="{4 * i}" y="{36 - 36 * n / top:.1f}" width="3.4" height="{36 * n / top:.1f}"/>'
        for i, n in enumerate(counts)
    )
    return (f'<svg width="{4 * len(counts)}" height="36" fill="#4c78dd" role="img" '
            f'aria-label="histogram">{bars}</svg>')  # fmt: skip


def _plain(t: Tensor) -> Tensor | None:
    """A tensor with the elements that there are: of a sparse one those that it holds, of a
    quantized one the numbers that they stand for. None where there are none to be read."""
    if t.is_meta or t.device.type not in ("cpu", "cuda"):
        return None
    t = t.detach()
    if t.is_quantized:
        return t.dequantize()
    if t.is_nested:
        return t.values()
    if t.layout is rushlight.strided:
        return t
    return t.coalesce().values() if t.layout is rushlight.sparse_coo else t.values()


def tensor_html(t: Tensor) -> str:
    """A card: shape, dtype, device, range, histogram, how many NaN; the values fold out."""
    head = f"{type(t).__name__} {list(t.shape)} {str(t.dtype).rpartition('.')[2]} on {t.device}"
    if t.requires_grad:
        head += ", requires grad"
    facts: list[tuple[str, str]] = []
    counts: list[int] = []
    values = _plain(t)
    if values is not None and values.numel():
        facts, counts = _statistics(values)
    told = " &nbsp; ".join(
        f'<span style="opacity: .65">{html.escape(name)}</span> '
        + (f'<b style="color: #d64545">{value}</b>' if name in ("NaN", "infinite") else value)
        for name, value in facts
    )
    return (
        f'<div style="{_CARD}"><b>{html.escape(head)}</b><div>{told}</div>{_histogram(counts)}'
        f"<details><summary>values</summary><pre>{html.escape(repr(t))}</pre></details></div>"
    )


# ---- pictures


def _pixels(t: Tensor) -> Any:
    """(height, width, channels) bytes of a tensor of one picture, or of several side by side."""
    import numpy as np

    from rushlight.utils._images import grid

    shape = list(t.shape)
    with rushlight.no_grad():
        x = t.detach()
        x = (x.abs() if x.is_complex() else x).to("cpu", _C.float32)
    if x.dim() == 2:
        x = x[None]
    if x.dim() == 3 and x.shape[0] not in (1, 3, 4):
        x = x[:, None] if x.shape[2] not in (3, 4) else x.permute(2, 0, 1)
    if x.dim() == 3:
        x = x[None]
    if x.dim() != 4 or x.shape[1] not in (1, 3, 4) or 0 in x.shape:
        raise ValueError(
            "show: expected a picture [height, width], [channels, height, width] with 1, 3 or 4 "
            f"channels, or a batch of them; got {shape}"
        )
    values = np.asarray(x[:64].numpy()).transpose(0, 2, 3, 1)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if t.dtype == _C.uint8 and shape:
        low, high = 0.0, 255.0
    elif 0 <= low and high <= 1:
        low, high = 0.0, 1.0
    scaled = (values - low) / (high - low if high > low else 1.0)
    images = np.nan_to_num(np.clip(scaled, 0, 1) * 255 + 0.5, nan=0.0).astype(np.uint8)
    if not np.isfinite(values).all() and images.shape[3] == 1:
        images = np.repeat(images, 3, 3)
        images[~np.isfinite(values[..., 0])] = (214, 69, 69)  # NaN and infinity are red
    whole = grid(images)
    step = -(-max(whole.shape[:2]) // _MOST_SIDE)
    return whole[::step, ::step]


def picture_of(t: Tensor, path: FileLike | None = None) -> Picture:
    """The picture of a tensor; written to a file where a path is given, printed on a terminal."""
    from rushlight.utils._images import Picture

    picture = Picture(_pixels(t))
    if path is not None:
        picture.save(path)
    elif sys.stdout.isatty():
        print(picture)
    return picture


# ---- modules


def module_html(module: Any, name: str = "") -> str:
    """The tree of a module; its parts fold in and out, with how many parameters each has."""
    from rushlight.nn.parameter import is_lazy

    count = sum(0 if is_lazy(p) else p.numel() for p in module.parameters())
    label = f"({html.escape(name)}): " if name else ""
    extra = html.escape(module.extra_repr().replace("\n", ", "))
    head = f"{label}<b>{html.escape(type(module).__name__)}</b>({extra})"
    if count:
        head += f' <span style="opacity: .6">{count:,} parameters</span>'
    children = "".join(
        module_html(child, key) for key, child in module._modules.items() if child is not None
    )
    style = f' style="{_CARD}"' if not name else ' style="margin-left: 18px"'
    if not children:
        return f"<div{style}>{head}</div>"
    folded = " open" if not name else ""
    return f"<div{style}><details{folded}><summary>{head}</summary>{children}</details></div>"
