"""Which blocks of queries and keys a mask function hides, shows in part or in full."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn.attention._mods import Mod
from rushlight.types import Device, Self

BLOCK = 128
_ROOM = 1 << 22  # elements of a mask that are looked at together
MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Hides nothing."""
    return batch.new_ones(size=(), dtype=_C.bool, device=batch.device)


def _joined(mask_mods, join, start):
    if not all(callable(f) for f in mask_mods):
        raise RuntimeError(f"flex_attention: mask_mods must be functions, got {mask_mods}")

    def mask_mod(b, h, q_idx, kv_idx):
        result = b.new_full((), start, dtype=_C.bool)
        for f in mask_mods:
            result = join(result, f(b, h, q_idx, kv_idx))
        return result

    return mask_mod


def or_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """True where one of the functions is."""
    return _joined(mask_mods, lambda a, b: a | b, False)


def and_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """True where all of the functions are."""
    return _joined(mask_mods, lambda a, b: a & b, True)


def _takes_scores(name, function):
    """Does the function want a score before the four indices?"""
    if not callable(function):
        raise TypeError(f"{name}: expected a function, got {type(function).__name__}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    wanted = [p for p in parameters if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return False
    if len(wanted) not in (4, 5):
        raise AssertionError(
            f"{name}: the function must take (b, h, q_idx, kv_idx), or a score before them; "
            f"it takes {len(wanted)} arguments"
        )
    return len(wanted) == 5


def create_mask(
    mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Device = None
) -> Tensor:
    """The bool mask (B, H, Q_LEN, KV_LEN) of a mask function, or of what a score function lets be.

    Example:
        >>> from rushlight.nn.attention.flex_attention import create_mask
        >>> create_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 2, 3)[0, 0]
        tensor([[ True, False, False],
                [ True,  True, False]])
    """
    batch, heads = 1 if B is None else B, 1 if H is None else H
    places = [_C.arange(n, device=device) for n in (batch, heads, Q_LEN, KV_LEN)]
    if _takes_scores("create_mask", mod_fn):
        zeros = _C.zeros(batch, heads, Q_LEN, KV_LEN, device=device)
        found = ~Mod(mod_fn, True, zeros)(tuple(places), zeros).isneginf()
    else:
        found = Mod(mod_fn, False, places[0])(tuple(places))
    return found.expand(batch, heads, Q_LEN, KV_LEN).contiguous()


def _of_a_slice(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> NoReturn:
    raise RuntimeError(
        "BlockMask: a slice has no mask_mod, as the function would be given indices that start "
        "anew; set mask_mod to one that adds the offset to the function of the whole mask"
    )


def listed(seen: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row are seen, and which: those first, each kind in its order."""
    order = seen.int().argsort(dim=-1, descending=True, stable=True)
    return seen.int().sum(-1).int(), order.int()


def dense(count: Tensor, indices: Tensor, columns: int | None = None) -> Tensor:
    """The other way: True for every block that is listed."""
    columns = indices.shape[-1] if columns is None else columns
    places = _C.arange(indices.shape[-1], device=indices.device)
    wanted = places < count.unsqueeze(-1)
    to = _C.zeros((*indices.shape[:-1], columns + 1), dtype=_C.bool, device=indices.device)
    return to.scatter_(-1, _C.where(wanted, indices.long(), columns), True)[..., :columns]


_PARTS = """kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices
full_q_num_blocks full_q_indices dq_write_order dq_write_order_full dq_kv_order""".split()


class BlockMask:
    """A mask function, and which blocks of queries and keys it hides, shows in part or in full.

    Arguments:
        seq_lengths: how many queries and keys there are.
        kv_num_blocks, kv_indices: how many blocks of keys each block of queries sees in part, and
            which; (B, H, query blocks) and (B, H, query blocks, key blocks).
        full_kv_num_blocks, full_kv_indices: the same of those that it sees in full, where the
            function is not asked.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same seen from the keys.
        BLOCK_SIZE: of queries and of keys.
        mask_mod: the function.
        dq_write_order, dq_write_order_full, dq_kv_order, dq_kv_order_spt: kept; gradients come out
            the same every time anyway.
    """

    def __init__(self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
                 full_kv_num_blocks: Tensor | None = None, full_kv_indices: Tensor | None = None,
                 q_num_blocks: Tensor | None = None, q_indices: Tensor | None = None,
                 full_q_num_blocks: Tensor | None = None, full_q_indices: Tensor | None = None,
                 BLOCK_SIZE: tuple[int, int] = (BLOCK, BLOCK), mask_mod: MaskFunction = noop_mask,
                 *, dq_write_order: Tensor | None = None, dq_write_order_full: Tensor | None = None,
                 dq_kv_order: Tensor | None = None,
                 dq_kv_order_spt: bool | None = None) -> None:  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask: kv_indices must have at least 2 dims")
        for a, b in (("full_kv_num_blocks", full_kv_num_blocks is None),
                     ("full_q_num_blocks", full_q_num_blocks is None)):  # fmt: skip
            if b != ((full_kv_indices if "kv" in a else full_q_indices) is None):
                raise AssertionError(f"BlockMask: {a} goes with its indices; give both or none")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks: Tensor, kv_indices: Tensor,
                       full_kv_num_blocks: Tensor | None = None,
                       full_kv_indices: Tensor | None = None,
                       BLOCK_SIZE: int | tuple[int, int] = BLOCK,
                       mask_mod: MaskFunction | None = None,
                       seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
                       *, dq_write_order: Tensor | None = None,
                       dq_write_order_full: Tensor | None = None,
                       dq_kv_order: Tensor | bool | None = None) -> Self:  # fmt: skip
        """From lists of the key blocks that each query block sees."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask: kv_indices must have at least 2 dims")
        size = _block_size(BLOCK_SIZE)
        blocks = kv_indices.shape
        if seq_lengths is None:
            seq_lengths = (blocks[-2] * size[0], blocks[-1] * size[1])
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "BlockMask: full_kv_num_blocks goes with full_kv_indices; give both or none"
            )
        q: Any = (None, None)
        full_q: Any = (None, None)
        if compute_q_blocks:
            q = listed(dense(kv_num_blocks, kv_indices).transpose(-1, -2))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_q = listed(dense(full_kv_num_blocks, full_kv_indices).transpose(-1, -2))
        kept = {"dq_write_order": dq_write_order, "dq_write_order_full": dq_write_order_full}
        order = "dq_kv_order_spt" if isinstance(dq_kv_order, bool) else "dq_kv_order"
        rest: dict[str, Any] = {"BLOCK_SIZE": size, **kept, order: dq_kv_order}
        rest["mask_mod"] = noop_mask if mask_mod is None else mask_mod
        own = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        return cls(seq_lengths, *own, q[0], q[1], full_q[0], full_q[1], **rest)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Elements of the mask."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """1 for every block that is seen at all."""
        seen = dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            seen = seen | dense(self.full_kv_num_blocks, self.full_kv_indices)
        return seen.int()

    def sparsity(self) -> float:
        """The share of elements in hidden blocks, in percent."""
        seen = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            seen += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - seen * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All parts, as PyTorch orders them."""
        size = tuple(self.BLOCK_SIZE) if flatten else (self.BLOCK_SIZE,)
        lengths = tuple(self.seq_lengths) if flatten else (self.seq_lengths,)
        parts = (getattr(self, n) for n in _PARTS)
        return (*lengths, *parts, self.dq_kv_order_spt, *size, self.mask_mod)

    def to(self, device: Device | str) -> BlockMask:
        """The same mask on another device."""
        moved = {n: getattr(self, n) for n in _PARTS}
        moved = {n: None if t is None else t.to(device) for n, t in moved.items()}
        return BlockMask(
            self.seq_lengths, **moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
            dq_kv_order_spt=self.dq_kv_order_spt,
        )  # fmt: skip

    def __getitem__(self, index: Any) -> Self:
        """The blocks of some batches, heads and blocks of queries; without a mask_mod."""
        if self.dq_kv_order is not None:
            raise NotImplementedError(
                "BlockMask: a mask with a tensor dq_kv_order has no slices; make one of its blocks"
            )
        index = index if isinstance(index, tuple) else (index,)
        padded = (*index, slice(None), slice(None), slice(None))[:3]
        at = tuple(
            slice(i % n, i % n + 1) if isinstance(i, int) and -n <= i < n else i
            for i, n in zip(padded, self.kv_num_blocks.shape[:3], strict=True)
        )
        kept = [None if t is None else t[at] for t in (
            self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices,
        )]  # fmt: skip
        return self._with(kept, self.seq_lengths, _of_a_slice)

    def _with(self, parts: list[Any], lengths: tuple[int, int], mask_mod: Any) -> Self:
        count, indices, full_count, full_indices = parts
        made = type(self).from_kv_blocks(
            count, indices, full_count, full_indices, self.BLOCK_SIZE, mask_mod, lengths,
            self.q_indices is not None,
        )  # fmt: skip
        made.dq_kv_order_spt = self.dq_kv_order_spt
        return made

    def _adjust(self, new_q_len: int, new_kv_len: int) -> Self:
        """The upper left corner, for fewer queries and keys."""
        rows, columns = (
            -(-n // size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True)
        )

        def corner(count, indices):
            if count is None:
                return None, None
            return listed(dense(count, indices)[..., :rows, :columns])

        parts = [*corner(self.kv_num_blocks, self.kv_indices),
                 *corner(self.full_kv_num_blocks, self.full_kv_indices)]  # fmt: skip
        return self._with(parts, (new_q_len, new_kv_len), self.mask_mod)

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture: full, half-tone and empty for blocks that are all, partly or not seen.

        Arguments:
            grid_size: rows and columns at most; -1 for all.
            limit: how many pairs of batch and head are shown.
        """
        seen = self.to_dense().float()
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        steps = [
            1 if at_most == -1 else max(1, -(-n // at_most))
            for n, at_most in zip(seen.shape[-2:], most, strict=True)
        ]
        pictures = []
        for number, at in enumerate(itertools.product(*map(range, seen.shape[:-2]))):
            if number == limit:
                pictures += ["...", "to_string(limit=N) shows more, and block_mask[b, h] one"]
                break
            lines = [f"{at}"]
            for rows in seen[at].split(steps[0]):
                shares = [float(part.mean()) for part in rows.split(steps[1], dim=1)]
                lines.append("".join("█" if s == 1 else " " if s == 0 else "░" for s in shares))
                lines[-1] = "".join(c * 2 for c in lines[-1])
            pictures.append("\n".join(lines) + "\n")
        return "\n".join(pictures)

    def __str__(self) -> str:
        head = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
        return f"{head}{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        shapes = [f"{n}={getattr(getattr(self, n), 'shape', None)}" for n in _PARTS[:8]]
        rest = [
            f"BLOCK_SIZE={self.BLOCK_SIZE}",
            f"shape={self.shape}",
            f"sparsity={self.sparsity():.2f}%",
            f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]
        return "BlockMask(\n    " + ",\n    ".join(shapes + rest) + "\n)"


def _block_size(given: Any) -> tuple[int, int]:
    size = (given, given) if isinstance(given, int) else tuple(given)
    if len(size) != 2 or not all(isinstance(n, int) and n > 0 for n in size):
        raise ValueError(f"BLOCK_SIZE: expected one or two positive ints, got {given!r}")
    return size


def create_block_mask(mask_mod: MaskFunction, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
                      device: Device = None, BLOCK_SIZE: int | tuple[int, int] = BLOCK,
                      _compile: bool = False, separate_full_blocks: bool = True,
                      compute_dq_write_order: bool = False,
                      dq_kv_order: bool = True) -> BlockMask:  # fmt: skip
    """The block mask of a mask function (b, h, q_idx, kv_idx) -> bool.

    The function is asked for some blocks of queries at a time, so the mask as a whole is never
    there.

    Arguments:
        mask_mod: the function; True where a query may look.
        B, H: batches and heads that the function tells apart; None for one of them.
        Q_LEN, KV_LEN: how many queries and keys.
        device: of the mask.
        BLOCK_SIZE: of queries and keys.
        separate_full_blocks: list blocks that are seen in full apart, where the function need not
            be asked again.
        compute_dq_write_order, dq_kv_order: accepted; gradients come out the same every time.

    Example:
        >>> from rushlight.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512)
        >>> mask.kv_num_blocks.tolist(), mask.full_kv_num_blocks.tolist()
        ([[[1, 1, 1, 1]]], [[[0, 1, 2, 3]]])
    """
    size = _block_size(BLOCK_SIZE)
    if _takes_scores("create_block_mask", mask_mod):
        raise AssertionError("create_block_mask: expected a mask_mod, got a function of scores")
    batch, heads = 1 if B is None else B, 1 if H is None else H
    places = [_C.arange(n, device=device) for n in (batch, heads, Q_LEN, KV_LEN)]
    mod = Mod(mask_mod, False, places[0])
    step = max(1, _ROOM // max(1, batch * heads * KV_LEN * size[0])) * size[0]
    counts = []
    for first in range(0, max(Q_LEN, 1), step):
        rows = places[2][first : first + step]
        mask = mod((*places[:2], rows, places[3])).expand(batch, heads, len(rows), KV_LEN)
        if mask.dtype != _C.bool:
            raise AssertionError(f"create_block_mask: mask_mod must give bools, got {mask.dtype}")
        padding = (0, -KV_LEN % size[1], 0, -mask.shape[2] % size[0])
        if any(padding):
            mask = _C.constant_pad_nd(mask, padding, False)
        lines, columns = (n // step for n, step in zip(mask.shape[2:], size, strict=True))
        blocks = mask.reshape(batch, heads, lines, size[0], columns, size[1])
        counts.append(blocks.sum((-1, -3), dtype=_C.int32))
    seen = _C.cat(counts, 2)  # (batch, heads, query blocks, key blocks)
    full, part = seen == size[0] * size[1], seen > 0
    full_blocks: Any = (None, None)
    if separate_full_blocks:
        part = part & ~full
        full_blocks = listed(full)
    count, indices = listed(part)
    return BlockMask.from_kv_blocks(
        count, indices, full_blocks[0], full_blocks[1], size, mask_mod, (Q_LEN, KV_LEN)
    )
