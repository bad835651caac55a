"""Functions of scores and of places, as users write them for one score, called for many at once.

PyTorch's word for what such a function means is vmap: it is called with numbers (0-d tensors). Most
are made of pointwise ops and of look-ups at such numbers, and for these calling them once with
index tensors that broadcast gives the same; a call under vmap, watched op by op, finds out whether
a function is one of them. The same call shows which tensors of the user's need a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight._core._functorch import is_batchedtensor
from rushlight.autograd import enable_grad
from rushlight.func import vmap
from rushlight.overrides import TorchFunctionMode

# Ops that look at each element by itself.
_POINTWISE = frozenset(
    """abs acos acosh add and asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or
    bitwise_xor bool bfloat16 ceil clamp clamp_max clamp_min clip clone contiguous copysign cos cosh
    deg2rad detach div double eq erf erfc exp exp2 expm1 float floor floor_divide floordiv fmax fmin
    fmod frac ge gelu greater greater_equal gt half int invert isfinite isinf isnan isneginf le
    leaky_relu lerp less less_equal log log10 log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor long lshift lt masked_fill maximum minimum mod mul multiply ne neg
    negative not_equal or pos pow positive rad2deg radd rand rdiv reciprocal relu remainder
    rfloordiv rmod rmul ror round rpow rshift rsqrt rsub rtruediv rxor sigmoid sign silu sin sinh
    softplus sqrt square sub subtract tan tanh to true_divide truediv trunc type_as
    where xor""".split()
)


def _tensors(given):
    for x in given:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (tuple, list)):
            yield from _tensors(x)


def _looks_up(args):
    """Is this x[i, j, ...] with a number for each dim of a tensor that all scores share?"""
    source, at = args
    at = at if isinstance(at, tuple) else (at,)
    plain = isinstance(source, Tensor) and not is_batchedtensor(source)
    return plain and source.dim() == len(at) and all(
        (isinstance(i, int) and not isinstance(i, bool))
        or (isinstance(i, Tensor) and i.dim() == 0 and i.dtype not in (_C.bool, _C.uint8))
        for i in at
    )  # fmt: skip


class _Watch(TorchFunctionMode):
    """Sees what a function does."""

    def __init__(self) -> None:
        super().__init__()
        self.pointwise = True
        self.captured: list[Tensor] = []
        self._made: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        read = list(_tensors((*args, *kwargs.values())))
        for x in read:
            known = any(x is y for y in (*self.captured, *self._made))
            if not known and not is_batchedtensor(x) and x.requires_grad:
                self.captured.append(x)
        self._made.extend(_tensors((found,)))
        if any(is_batchedtensor(x) for x in read):
            name = getattr(func, "__name__", "").strip("_")
            simple = isinstance(found, Tensor) and found.dim() == 0
            if name == "getitem":
                simple = simple and _looks_up(args)
            else:
                simple = simple and name in _POINTWISE and all(x.dim() == 0 for x in read)
            self.pointwise = self.pointwise and simple
        return found


def _replaced(x, stand_ins):
    if isinstance(x, Tensor):
        return next((own for given, own in stand_ins if given is x), x)
    if isinstance(x, (tuple, list)):
        return type(x)(_replaced(y, stand_ins) for y in x)
    return x


class StandIns(TorchFunctionMode):
    """Gives functions other tensors in the place of some. So the gradient of a tensor that a user's
    function has captured is that of its use in there, whatever else it was computed from."""

    def __init__(self, captured: list[Tensor], stand_ins: list[Tensor]) -> None:
        super().__init__()
        self._pairs = list(zip(captured, stand_ins, strict=True))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = {k: _replaced(x, self._pairs) for k, x in (kwargs or {}).items()}
        return func(*_replaced(tuple(args), self._pairs), **given)


class Mod:
    """A function of (batch, head, query, key), or of a score and these.

    Calls take four index vectors, and scores (batches, heads, queries, keys). What comes back
    broadcasts to that shape.
    """

    def __init__(self, function: Callable[..., Any], of_scores: bool, like: Tensor) -> None:
        self._function, self._of_scores = function, of_scores
        one = _C.zeros(1, dtype=_C.int64, device=like.device)
        given = (one,) * 4
        if of_scores:
            given = (_C.zeros(1, dtype=like.dtype, device=like.device), *given)
        with _Watch() as watch, enable_grad():
            vmap(function)(*given)
        self._pointwise, self.captured = watch.pointwise, watch.captured

    def __call__(self, places: tuple[Tensor, ...], scores: Tensor | None = None) -> Tensor:
        if not self._pointwise:
            return over_places(self._function, places, scores)
        spread = (
            p.reshape([-1 if d == at else 1 for d in range(4)]) for at, p in enumerate(places)
        )
        return self._function(*(() if scores is None else (scores,)), *spread)


def over_places(function: Any, places: tuple[Tensor, ...], scores: Tensor | None = None) -> Tensor:
    """The function for each (batch, head, query, key), as if called with numbers."""
    lead = () if scores is None else (0,)
    for at in range(4):
        wanted: list[int | None] = [None] * 4
        wanted[3 - at] = 0
        function = vmap(function, in_dims=(*lead, *wanted))
    return function(*(() if scores is None else (scores,)), *places)
