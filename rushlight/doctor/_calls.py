"""Every function that is called with tensors: values that are read, softmax and shapes."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight._C import Tensor
from rushlight.doctor._notes import Notes
from rushlight.profiler._lines import user_line

__all__ = ["Calls"]

_READS = ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "numpy", "cpu",
          "nonzero")  # fmt: skip
_REORDER = ("index_select", "roll", "flip", "gather", "take_along_dim")
_PRODUCTS = ("matmul", "__matmul__", "bmm")


class Calls(rushlight.overrides.TorchFunctionMode):
    """Sees every function that is called with tensors."""

    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes
        self._weights: tuple[Any, str] | None = None  # a softmax over another dim than the last

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _READS and args and isinstance(args[0], Tensor) and args[0].is_cuda:
            line = user_line()
            if line:
                self._notes.reads[line] = self._notes.reads.get(line, 0) + 1
        out = func(*args, **(kwargs or {}))
        if name == "sigmoid" and isinstance(out, Tensor):
            self._notes.sigmoids.add(out.numel())
        if name in ("softmax", "log_softmax") and args and isinstance(args[0], Tensor):
            self._note_softmax(name, args, kwargs or {}, out)
        if name in _PRODUCTS and self._weights is not None and args[0] is self._weights[0]:
            self._notes.crossed[user_line() or ""] = self._weights[1]
        if name == "_dropout" and len(args) > 2 and isinstance(args[2], float | int):
            self._notes.drops.setdefault(user_line() or "dropout", float(args[2]))
        if "batch_norm" in name or self._reorders(name, args):
            self._notes.samples_meet = True
        if len(args) >= 2 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            self._note_shapes(args[0], args[1], out)
        return out

    def _reorders(self, name: str, args: Any) -> bool:
        """Whether samples are put in another order on purpose, as to mix pairs of them."""
        if not args or not isinstance(args[0], Tensor) or args[0].grad_fn is None:
            return False  # data, before a model has it
        if name in _REORDER:
            return True
        index = args[1] if name == "__getitem__" and len(args) > 1 else None
        return (isinstance(index, Tensor) and not index.is_floating_point()
                and index.numel() == self._notes.batch_size)  # fmt: skip

    def _note_softmax(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        """Over the samples of a batch in place of the classes, or over another dim than the one
        that a product sums over."""
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        x = args[0]
        last = not isinstance(dim, int) or dim % max(x.dim(), 1) == x.dim() - 1
        self._weights = None
        # Of places by places: clusters by places may well share each place among themselves.
        if name == "softmax" and x.dim() > 2 and not last and x.shape[-1] == x.shape[-2] > 1:
            self._weights = out, f"softmax of {list(x.shape)} over dim {dim}"
        given = self._notes.input_shape
        if x.dim() != 2 or dim not in (0, -2) or not x.requires_grad or min(x.shape) < 2:
            return
        if given[:2] == tuple(x.shape) and given != tuple(x.shape):
            return  # (time, samples) of (time, samples, features): over time
        # Models of sequences have a multiple of the samples there.
        if given and given[0] > 1 and x.shape[0] % given[0] == 0:
            line = user_line() or ""
            self._notes.over_batch[line] = f"{name} of {list(x.shape)} over dim {dim}"

    def _note_shapes(self, a: Tensor, b: Tensor, out: Any) -> None:
        """(n, 1) with (n,) gives (n, n), which hardly anybody means."""
        if a.dim() + b.dim() != 3 or not isinstance(out, Tensor) or out.dim() != 2:
            return
        tall, flat = (a, b) if a.dim() == 2 else (b, a)
        n = flat.shape[0] if flat.dim() == 1 else 0
        if n > 1 and tuple(tall.shape) == (n, 1) and tuple(out.shape) == (n, n):
            line = user_line()
            if line:
                self._notes.broadcasts[line] = tuple(a.shape), tuple(b.shape)
