"""How sparse tensors print: the texts of their parts, as PyTorch lays them out."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight._tensor import legacy_types
from rushlight.sparse._tensor import COO, NAMES, ROW_LAYOUTS, SparseTensor


def _part(name, tensor):
    """The text of a part, without what the whole tensor says."""
    indent = len(f"tensor({name}=")
    plain = tensor.detach()
    text = repr(plain.cpu() if plain.is_cuda else plain)
    if plain.numel() == 0:
        text = f"tensor([], size={tuple(plain.shape)})"
    else:
        for suffix in (f", dtype={plain.dtype})", f",\n       dtype={plain.dtype})"):
            if text.endswith(suffix):
                text = text.removesuffix(suffix) + ")"
    return f"{name}=" + text.replace("\n", "\n" + " " * indent)


def text_of(x: SparseTensor) -> str:
    """What repr shows."""
    is_coo = x._layout is COO
    names: tuple[str, ...] = ("indices",)
    if not is_coo:
        row = x._layout in ROW_LAYOUTS
        names = ("crow_indices", "col_indices") if row else ("ccol_indices", "row_indices")
    parts = [_part(n, t) for n, t in zip(names, x._parts, strict=True)]
    parts.append(_part("values", x._vals))
    rest: list[Any] = [f"size={tuple(x.shape)}", f"nnz={x._nnz()}"]
    if x.device.type != "cpu":
        rest.insert(0, f"device='{x.device}'")
    usual = _C.get_default_dtype()
    if x.dtype not in (_C.int64, _C.bool, usual, usual.to_complex()):
        rest.append(f"dtype={x.dtype}")
    rest.append(f"layout={legacy_types.printed_package}.{NAMES[x._layout]}")
    if x.grad_fn is not None:
        rest.append(f"grad_fn=<{type(x.grad_fn).__name__}>")
    elif x.requires_grad:
        rest.append("requires_grad=True")
    body = ",\n       ".join(parts)
    if is_coo:
        return f"tensor({body},\n       {', '.join(rest)})"
    head, tail = rest[:-1], rest[-1]
    for k, item in enumerate(rest):
        if str(item).startswith("layout="):
            head, tail = rest[:k], ", ".join(rest[k:])
    return f"tensor({body}, {', '.join(head)},\n       {tail})"
