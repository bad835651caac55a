"""Attention whose scores go through a function of the user's.

Scores are computed as a whole: a block mask saves no work here, it only hides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

from rushlight import _C
from rushlight._C import Tensor
from rushlight.func import vmap
from rushlight.types import Device, Self

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask",
    "create_mask", "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = _BLOCK = 128  # the first name is PyTorch's, which programs import
FlexKernelOptions = dict


class AuxRequest(NamedTuple):
    """What flex_attention shall return besides its output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What it was asked for; None for the rest."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Hides nothing."""
    return batch.new_ones(size=(), dtype=_C.bool, device=batch.device)


def _all_of(mask_mods, join, start):
    if not all(callable(f) for f in mask_mods):
        raise RuntimeError(f"flex_attention: mask_mods must be functions, got {mask_mods}")

    def mask_mod(b, h, q_idx, kv_idx):
        result = b.new_full((), start, dtype=_C.bool)
        for f in mask_mods:
            result = join(result, f(b, h, q_idx, kv_idx))
        return result

    return mask_mod


def or_masks(
    *mask_mods: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """True where one of the functions is."""
    return _all_of(mask_mods, lambda a, b: a | b, False)


def and_masks(
    *mask_mods: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """True where all of the functions are."""
    return _all_of(mask_mods, lambda a, b: a & b, True)


def _over_indices(f, batch, heads, queries, keys, device, scores=None):
    """f for every (batch, head, query, key), as if called with numbers."""
    lead = () if scores is None else (0,)
    for at in range(4):
        wanted = [None] * 4
        wanted[3 - at] = 0
        f = vmap(f, in_dims=(*lead, *wanted))
    sizes = (batch, heads, queries, keys)
    indices = [_C.arange(n, device=device) for n in sizes]
    return f(*(() if scores is None else (scores,)), *indices)


def create_mask(
    mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Device = None
) -> Tensor:
    """The bool mask (B, H, Q_LEN, KV_LEN) of a mask function, or the bias of a score function."""
    batch, heads = 1 if B is None else B, 1 if H is None else H
    arguments = mod_fn.__code__.co_argcount if hasattr(mod_fn, "__code__") else 4
    if arguments == 5:  # a score function
        zeros = _C.zeros(batch, heads, Q_LEN, KV_LEN, device=device)
        bias = _over_indices(mod_fn, batch, heads, Q_LEN, KV_LEN, device, zeros)
        return _C.where(bias.isneginf(), False, True)
    mask = _over_indices(mod_fn, batch, heads, Q_LEN, KV_LEN, device)
    return mask.expand(batch, heads, Q_LEN, KV_LEN)


class BlockMask:
    """A mask function, and which blocks of queries and keys it hides, shows in part or in full."""

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        q_num_blocks: Tensor | None = None,
        q_indices: Tensor | None = None,
        full_q_num_blocks: Tensor | None = None,
        full_q_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (_BLOCK, _BLOCK),
        mask_mod: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask: kv_indices must have at least 2 dims")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks: Tensor, kv_indices: Tensor,
                       full_kv_num_blocks: Tensor | None = None,
                       full_kv_indices: Tensor | None = None,
                       BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
                       mask_mod: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] | None = None,
                       seq_lengths: tuple[int, int] | None = None,
                       compute_q_blocks: bool = True) -> Self:  # fmt: skip
        """From lists of the key blocks that each query block sees."""
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        blocks = kv_indices.shape
        if seq_lengths is None:
            seq_lengths = (blocks[-2] * size[0], blocks[-1] * size[1])
        q = full_q = (None, None)
        if compute_q_blocks:
            q = _listed(_dense(kv_num_blocks, kv_indices).transpose(-1, -2))
            if full_kv_num_blocks is not None:
                full_q = _listed(_dense(full_kv_num_blocks, full_kv_indices).transpose(-1, -2))
        return cls(  # type: ignore[misc]
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *q,
            *full_q,
            BLOCK_SIZE=size,  # type: ignore[arg-type]
            mask_mod=noop_mask if mask_mod is None else mask_mod,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Elements of the mask."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """1 for every block that is seen at all."""
        seen = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            seen = seen | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return seen.int()

    def sparsity(self) -> float:
        """The share of elements in hidden blocks, in percent."""
        seen = int(self.to_dense().sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - seen / self.numel())

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All parts, as PyTorch orders them."""
        size = tuple(self.BLOCK_SIZE) if flatten else (self.BLOCK_SIZE,)
        lengths = tuple(self.seq_lengths) if flatten else (self.seq_lengths,)
        return (*lengths, *(getattr(self, n) for n in _PARTS), *size, self.mask_mod)

    def to(self, device: Device | str) -> BlockMask:
        """The same mask on another device."""
        moved = {n: getattr(self, n) for n in _PARTS}
        moved = {n: None if t is None else t.to(device) for n, t in moved.items()}
        return BlockMask(
            self.seq_lengths, **moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod
        )

    def __repr__(self) -> str:
        parts = ", ".join(f"{n}={s}" for n, s in zip("BHQK", self.shape, strict=False))
        return f"BlockMask({parts}, block={self.BLOCK_SIZE}, sparsity={self.sparsity():.2f}%)"


_PARTS = """kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices
full_q_num_blocks full_q_indices""".split()


def _listed(seen):
    """How many blocks of each row are seen, and which: those first, each kind in its order."""
    order = seen.int().argsort(dim=-1, descending=True, stable=True)
    return seen.int().sum(-1).int(), order.int()


def _dense(count, indices):
    """The other way."""
    places = _C.arange(indices.shape[-1], device=indices.device)
    listed = places < count.unsqueeze(-1)
    return _C.zeros_like(listed).scatter_(-1, indices.long(), listed)


def create_block_mask(mask_mod: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], B: int | None,
                      H: int | None, Q_LEN: int, KV_LEN: int, device: Device = None,
                      BLOCK_SIZE: int | tuple[int, int] = _BLOCK, _compile: bool = False,
                      separate_full_blocks: bool = True) -> BlockMask:  # fmt: skip
    """The block mask of a mask function (b, h, q_idx, kv_idx) -> bool."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padding = (0, -KV_LEN % size[1], 0, -Q_LEN % size[0])
    if any(padding):
        mask = _C.constant_pad_nd(mask, padding, False)
    blocks = mask.unflatten(-1, (-1, size[1])).unflatten(-3, (-1, size[0]))
    seen = blocks.int().sum((-1, -3))  # (batch, heads, query blocks, key blocks)
    full = seen == size[0] * size[1]
    part = seen > 0
    full_blocks = None, None
    if separate_full_blocks:
        part = part & ~full
        full_blocks = _listed(full)
    return BlockMask.from_kv_blocks(  # type: ignore[call-arg, misc]
        *_listed(part), *full_blocks, size, mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


def _check_block_mask(block_mask, query, key):
    lengths = (query.shape[-2], key.shape[-2])
    for made, given, name in zip(block_mask.seq_lengths, lengths, ("Q_LEN", "KV_LEN"), strict=True):
        if made < given:
            raise ValueError(
                f"flex_attention: block_mask was made for {name}={made}, the inputs have {given}"
            )
    for at, name in enumerate(("batch", "heads")):
        made = block_mask.shape[at]
        if made not in (1, query.shape[at]):
            raise ValueError(
                f"flex_attention: block_mask has {made} {name}, query of shape "
                f"{list(query.shape)} has {query.shape[at]}"
            )


@overload
def flex_attention(query: Tensor, key: Tensor, value: Tensor,
                   score_mod: Callable[..., Tensor] | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, return_lse: Literal[False] = False,
                   kernel_options: Any = None,
                   *, return_aux: None = None) -> Tensor: ...  # fmt: skip
@overload
def flex_attention(query: Tensor, key: Tensor, value: Tensor,
                   score_mod: Callable[..., Tensor] | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, *, return_lse: Literal[True],
                   kernel_options: Any = None,
                   return_aux: None = None) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def flex_attention(query: Tensor, key: Tensor, value: Tensor,
                   score_mod: Callable[..., Tensor] | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None,
                   *, return_aux: AuxRequest) -> tuple[Tensor, AuxOutput]: ...  # fmt: skip
def flex_attention(query: Tensor, key: Tensor, value: Tensor,
                   score_mod: Callable[..., Tensor] | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None,
                   enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None,
                   *, return_aux: AuxRequest | None = None
                   ) -> Tensor | tuple[Tensor, Tensor | AuxOutput]:  # fmt: skip
    """softmax(score_mod(query @ key.T * scale)) @ value, where block_mask lets a query look.

    score_mod(score, b, h, q_idx, kv_idx) is called as if for one score, and may use other tensors.
    """
    if not query.dim() == key.dim() == value.dim() == 4:
        raise ValueError(
            "flex_attention: query, key and value must be (batch, heads, length, size), got shapes "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    heads, key_heads = query.shape[1], key.shape[1]
    if heads != key_heads:
        if not enable_gqa:
            raise ValueError(
                f"flex_attention: query has {heads} heads, key {key_heads}; pass enable_gqa=True"
            )
        if heads % key_heads:
            raise ValueError(
                f"flex_attention: the heads of key ({key_heads}) must divide those of query "
                f"({heads})"
            )
        key, value = (x.repeat_interleave(heads // key_heads, 1) for x in (key, value))
    batch, _, queries, size = query.shape
    keys = key.shape[2]
    scale = 1 / math.sqrt(size) if scale is None else scale
    scores = (query * scale) @ key.transpose(-1, -2)
    wide = scores if scores.dtype in (_C.float32, _C.float64) else scores.float()
    if score_mod is not None:
        wide = _over_indices(score_mod, batch, heads, queries, keys, query.device, wide)
    if block_mask is not None:
        _check_block_mask(block_mask, query, key)
        made = (1 if n == 1 else m for n, m in zip(block_mask.shape, (batch, heads), strict=False))
        mask = create_mask(block_mask.mask_mod, *made, queries, keys, query.device)  # type: ignore[call-arg]
        wide = wide.masked_fill(~mask, float("-inf"))
    blind = wide.isneginf().all(-1, keepdim=True)
    weights = wide.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    out = weights.to(query.dtype) @ value
    if not return_lse and return_aux is None:
        return out
    lse = wide.logsumexp(-1)
    if return_aux is None:
        return out, lse
    top = wide.amax(-1) if return_aux.max_scores else None
    return out, AuxOutput(lse if return_aux.lse else None, top)
