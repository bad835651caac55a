"""Products with numbers of eight bits and less; how weights of four bits are packed."""

from __future__ import annotations

from rushlight import _C, Tensor

__all__ = [
    "_convert_weight_to_int4pack",
    "_convert_weight_to_int4pack_for_cpu",
    "_int_mm",
    "_scaled_mm",
    "_weight_int4pack_mm",
    "_weight_int4pack_mm_for_cpu",
    "_weight_int8pack_mm",
]

_int_mm = _C._int_mm
_scaled_mm = _C._scaled_mm
_weight_int4pack_mm_for_cpu = _C._weight_int4pack_mm_for_cpu
_weight_int8pack_mm = _C._weight_int8pack_mm

_MOST_ROWS = 64  # of the kernel; more are better off with weights that are unpacked once
_LANES = 4  # threads that share a column of a tile


def _check_tiles(name: str, n: int, k: int, inner_k_tiles: int) -> None:
    if inner_k_tiles not in (2, 4, 8):
        raise RuntimeError(f"{name}: innerKTiles must be 2, 4 or 8, got {inner_k_tiles}")
    if n % 8 or k % (inner_k_tiles * 16):
        raise RuntimeError(
            f"{name}: needs rows in multiples of 8 and columns in multiples of "
            f"{inner_k_tiles * 16} (16 * innerKTiles), got {n} x {k}"
        )


def _tile_positions() -> list[tuple[int, int, int, int]]:
    """(second tile, second half, odd, shift) of the eight numbers in a word."""
    return [(h, b, c, 8 * h + 4 * b + 16 * c) for h in (0, 1) for b in (0, 1) for c in (0, 1)]


def _convert_weight_to_int4pack(self: Tensor, innerKTiles: int) -> Tensor:
    """Weights of four bits, two in a byte of (n, k / 2) with the even one above, as int32 words of
    (n / 8, k / (16 innerKTiles), 32, innerKTiles / 2) in the order that tensor cores take."""
    name = "_convert_weight_to_int4pack"
    if self.dim() != 2 or self.dtype != _C.uint8:
        raise RuntimeError(
            f"{name}: expects a uint8 matrix with two numbers in a byte, got {self.dtype} of shape "
            f"{tuple(self.shape)}"
        )
    n, k = self.shape[0], self.shape[1] * 2
    _check_tiles(name, n, k, innerKTiles)
    inner = innerKTiles
    # A byte holds numbers 2t and 2t + 1 of a half tile.
    sizes = (n // 8, 8, k // (16 * inner), inner // 2, 2, 2, _LANES)
    bytes_ = self.reshape(sizes).permute(0, 2, 1, 6, 3, 4, 5)
    words = _C.zeros_like(bytes_[..., 0, 0], dtype=_C.int32)
    for h, b, c, shift in _tile_positions():
        byte = bytes_[..., h, b].to(_C.int32)
        words = words | (byte & 15 if c else byte >> 4) << shift
    return words.reshape(n // 8, k // (16 * inner), 32, inner // 2).contiguous()


def unpack_tiles(packed: Tensor) -> Tensor:
    """The bytes that _convert_weight_to_int4pack was given."""
    if packed.dim() != 4 or packed.dtype != _C.int32 or packed.shape[2] != 32:
        raise RuntimeError(
            "_weight_int4pack_mm: the weight must be the int32 tensor of "
            f"_convert_weight_to_int4pack, got {packed.dtype} of shape {tuple(packed.shape)}"
        )
    rows, steps, _, words = packed.shape
    apart = packed.reshape(rows, steps, 8, _LANES, words)
    halves = []
    for h in (0, 1):
        for b in (0, 1):
            even, odd = (apart >> (8 * h + 4 * b)) & 15, (apart >> (8 * h + 4 * b + 16)) & 15
            halves.append((even << 4 | odd).to(_C.uint8))
    both = _C.stack(halves, -1).reshape(rows, steps, 8, _LANES, words, 2, 2)
    return both.permute(0, 2, 1, 4, 5, 6, 3).reshape(rows * 8, steps * words * 16)


def _convert_weight_to_int4pack_for_cpu(self: Tensor, innerKTiles: int) -> Tensor:
    """Weights (n, k) of four bits, in int32, as uint8 of (n, k / 2): blocks of 32 rows of which
    each byte holds two, one 16 rows after the other. innerKTiles means nothing here."""
    name = "_convert_weight_to_int4pack_for_cpu"
    if self.dim() != 2 or self.dtype != _C.int32:
        raise RuntimeError(
            f"{name}: expects an int32 matrix, got {self.dtype} of shape {tuple(self.shape)}"
        )
    n, k = self.shape
    if n % 16 or k % 2:
        raise RuntimeError(
            f"{name}: needs rows in multiples of 16 and an even number of columns, got {n} x {k}"
        )
    numbers, whole = self.to(_C.uint8), n // 32 * 32
    blocks = numbers[:whole].reshape(n // 32, 2, 16, k)
    parts = [(blocks[:, 0] | blocks[:, 1] << 4).transpose(1, 2).reshape(whole, k // 2)]
    if n > whole:
        last = numbers[whole:].reshape(8, 2, k)
        parts.append((last[:, 0] | last[:, 1] << 4).t().reshape(16, k // 2))
    return _C.cat(parts).contiguous()


def unpack_columns(packed: Tensor) -> Tensor:
    """The numbers that _convert_weight_to_int4pack_for_cpu was given, in uint8."""
    n, k = packed.shape[0], packed.shape[1] * 2
    whole = n // 32 * 32
    blocks = packed[:whole].reshape(n // 32, k, 16).transpose(1, 2)
    parts = [_C.stack([blocks & 15, blocks >> 4], 1).reshape(whole, k)]
    if n > whole:
        last = packed[whole:].reshape(k, 8).t()
        parts.append(_C.stack([last & 15, last >> 4], 1).reshape(16, k))
    return _C.cat(parts)


def _runs_on_tensor_cores(x: Tensor) -> bool:
    if not x.is_cuda or x.shape[0] > _MOST_ROWS or x.dtype not in (_C.bfloat16, _C.float16):
        return False
    from rushlight import cuda

    return cuda.get_device_capability(x.device) >= (8, 0)


def _weight_int4pack_mm(
    self: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor
) -> Tensor:
    """self @ w.T for weights that _convert_weight_to_int4pack has packed: a number of four bits
    less 8, times the scale of its group of qGroupSize numbers, plus its zero."""
    if self.dim() == 2 and _runs_on_tensor_cores(self):
        return _C._int4_tiles_mm(self, mat2, qGroupSize, qScaleAndZeros)
    bytes_ = unpack_tiles(mat2)
    n, k = bytes_.shape[0], bytes_.shape[1] * 2
    if qGroupSize not in (32, 64, 128, 256) or qScaleAndZeros.shape != (k // qGroupSize, n, 2):
        raise RuntimeError(
            "_weight_int4pack_mm: the group size must be 32, 64, 128 or 256, and scales and zeros "
            f"of shape (k / group, n, 2) for a weight of {n} x {k}; got {qGroupSize} and "
            f"{tuple(qScaleAndZeros.shape)}"
        )
    numbers = _C.stack([bytes_ >> 4, bytes_ & 15], -1).reshape(n, k // qGroupSize, qGroupSize)
    scales, zeros = qScaleAndZeros.transpose(0, 1).unbind(-1)
    wide = (numbers.to(self.dtype) - 8) * scales.unsqueeze(-1) + zeros.unsqueeze(-1)
    return _C.mm(self, wide.reshape(n, k).t())
