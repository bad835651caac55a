"""Attention with scores and masks given by functions of positions, computed eagerly.

The functions see all positions at once, as index tensors that broadcast to (batch, head, query,
key): elementwise code and lookups such as bias[head, q - kv] work, `if` on a position does not (nor
does it in PyTorch).
"""

import math

from rushlight import _C
from rushlight._missing import names_missing_from

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch, head, token_q, token_kv):
    """Lets every query see every key."""
    return batch.new_ones((), dtype=_C.bool)


def and_masks(*mask_mods):
    """What all masks allow."""
    return _combined(mask_mods, lambda a, b: a & b)


def or_masks(*mask_mods):
    """What at least one mask allows."""
    return _combined(mask_mods, lambda a, b: a | b)


def _combined(mask_mods, join):
    if not all(callable(mask) for mask in mask_mods):
        raise RuntimeError("and_masks and or_masks: all masks must be callable")

    def combined(b, h, q_idx, kv_idx):
        result = None
        for mask in mask_mods:
            found = mask(b, h, q_idx, kv_idx)
            result = found if result is None else join(result, found)
        return result

    return combined


def _positions(B, H, Q, KV, device):
    ranges = (_C.arange(n, device=device) for n in (B, H, Q, KV))
    shapes = ((-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1), (1, 1, 1, -1))
    return [r.view(shape) for r, shape in zip(ranges, shapes, strict=True)]


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None, **_):
    """The mask as a tensor of bools: (B, H, Q_LEN, KV_LEN)."""
    B, H = B or 1, H or 1
    found = mod_fn(*_positions(B, H, Q_LEN, KV_LEN, device))
    found = found if isinstance(found, _C.Tensor) else _C.tensor(bool(found), device=device)
    return found.to(_C.bool).expand(B, H, Q_LEN, KV_LEN)


class BlockMask:
    """A mask given by a function; which blocks of it are empty is told on request."""

    def __init__(self, mask_mod, shape, block_size, device=None):
        self.mask_mod = noop_mask if mask_mod is None else mask_mod
        self.shape = tuple(shape)
        self.BLOCK_SIZE = block_size
        self.seq_lengths = self.shape[2:]
        self.device = device
        self._dense = None

    def _mask(self, device):
        if self._dense is None or self._dense.device != device:
            self._dense = create_mask(self.mask_mod, *self.shape, device=device)
        return self._dense

    def to_dense(self):
        """For each block, 1 where anything is allowed in it."""
        mask = self._mask(_C.device("cpu") if self.device is None else _C.device(self.device))
        rows, columns = self.BLOCK_SIZE
        B, H, Q, KV = mask.shape
        padded = _C.zeros(B, H, -(-Q // rows) * rows, -(-KV // columns) * columns, dtype=_C.bool)
        padded[:, :, :Q, :KV] = mask
        blocks = padded.view(
            B, H, padded.shape[2] // rows, rows, padded.shape[3] // columns, columns
        )
        return blocks.any(5).any(3).to(_C.int32)

    def sparsity(self):
        """How much of the blocks is empty, in percent."""
        blocks = self.to_dense()
        return 100 * (1 - blocks.sum().item() / blocks.numel())

    def numel(self):
        """The number of pairs of positions."""
        return math.prod(self.shape)

    def to(self, device):
        """The mask for another device."""
        return BlockMask(self.mask_mod, self.shape, self.BLOCK_SIZE, device)

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, block_size={self.BLOCK_SIZE})"


def create_block_mask(
    mask_mod,
    B,
    H,
    Q_LEN,
    KV_LEN,
    device=None,
    BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
    _compile=False,
    **_,
):
    """A mask from mask_mod(batch, head, q_idx, kv_idx); B and H may be None for all alike."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), size, device)


class AuxRequest:
    """What flex_attention shall return besides: lse, max_scores."""

    def __init__(self, lse=False, max_scores=False):
        self.lse, self.max_scores = lse, max_scores


class AuxOutput:
    """What was asked for by an AuxRequest."""

    def __init__(self, lse=None, max_scores=None):
        self.lse, self.max_scores = lse, max_scores


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """softmax(score_mod(query key^T scale), masked) value, over (batch, head, length, width)."""
    if not (query.ndim == key.ndim == value.ndim == 4):
        raise ValueError(
            "flex_attention: query, key and value must have four dims, got shapes "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    B, H, Q, width = query.shape
    if key.shape[1] != H:
        if not enable_gqa or H % key.shape[1]:
            raise ValueError(
                f"flex_attention: {H} heads of queries and {key.shape[1]} of keys; with "
                "enable_gqa=True the first number may be a multiple of the second"
            )
        key = key.repeat_interleave(H // key.shape[1], 1)
        value = value.repeat_interleave(H // value.shape[1], 1)
    scale = 1 / math.sqrt(width) if scale is None else scale
    scores = (
        (query @ key.mT).float() * scale if query.dtype != _C.float64 else query @ key.mT * scale
    )
    if score_mod is not None:
        scores = score_mod(scores, *_positions(B, H, Q, key.shape[2], query.device))
    if block_mask is not None:
        if tuple(block_mask.shape[2:]) != (Q, key.shape[2]):
            raise ValueError(
                f"flex_attention: the mask is for lengths {tuple(block_mask.shape[2:])}, query and "
                f"key have {(Q, key.shape[2])}"
            )
        scores = scores.masked_fill(~block_mask._mask(query.device), -math.inf)
    lse = scores.logsumexp(-1)
    # A query that sees no key gets zeros.
    weights = _C.where(lse.isinf().unsqueeze(-1), 0.0, (scores - lse.unsqueeze(-1)).exp())
    out = weights.to(value.dtype) @ value
    if return_aux is not None:
        peak = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse if return_aux.lse else None, peak)
    return (out, lse) if return_lse else out


__getattr__ = names_missing_from(__name__)
