"""Sequences of different lengths: padded to one tensor, or packed without the padding.

A packed batch holds, for each time step, the elements of the sequences that are still going on,
longest sequence first; batch_sizes says how many there are at each step.
"""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import Self

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip

_Fields = namedtuple(  # type: ignore[name-match]  # what users see is the public name
    "PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"]
)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each element of a permutation came from.

    Arguments:
        permutation: a vector of indices, or None.

    Example:
        >>> nn.utils.rnn.invert_permutation(rl.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    out = _C.empty_like(permutation)
    out.scatter_(0, permutation, _C.arange(permutation.numel(), device=permutation.device))
    return out


class PackedSequence(_Fields):
    """A batch of sequences without padding; made by pack_padded_sequence and pack_sequence.

    Arguments:
        data: the elements of all sequences, time step by time step.
        batch_sizes: how many sequences still run, for each time step.
        sorted_indices, unsorted_indices: the order by length, and back.

    Example:
        >>> packed = nn.utils.rnn.pack_sequence([rl.tensor([1, 2]), rl.tensor([3])])
        >>> isinstance(packed, nn.utils.rnn.PackedSequence), packed.data, packed.sorted_indices
        (True, tensor([1, 3, 2]), None)
        >>> same = nn.utils.rnn.PackedSequence(packed.data, batch_sizes=rl.tensor([2, 1]))
        >>> nn.utils.rnn.unpack_sequence(same)
        [tensor([1, 2]), tensor([3])]
    """

    __slots__ = ()

    def __new__(cls, data: Tensor, batch_sizes: Tensor | None = None,
                sorted_indices: Tensor | None = None,
                unsorted_indices: Tensor | None = None) -> Self:  # fmt: skip
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, tuple | list) or len(data) != 2:
                raise AssertionError("PackedSequence: expected data and batch_sizes")
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(f"PackedSequence: batch_sizes must be on the CPU, got "
                             f"{batch_sizes.device}")  # fmt: skip
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same batch on another device or with another dtype; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        move = [None if t is None else t.to(data.device) for t in self[2:]]
        return type(self)(data, self.batch_sizes, *move)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """On a CUDA device."""
        device = args[0] if args else kwargs.get("device")
        return self.to("cuda" if device is None else device)

    def cpu(self) -> Self:
        """On the CPU."""
        return self.to("cpu")

    def double(self) -> Self:
        """In float64."""
        return self.to(_C.float64)

    def float(self) -> Self:
        """In float32."""
        return self.to(_C.float32)

    def half(self) -> Self:
        """In float16."""
        return self.to(_C.float16)

    def long(self) -> Self:
        """In int64."""
        return self.to(_C.int64)

    def int(self) -> Self:
        """In int32."""
        return self.to(_C.int32)

    def short(self) -> Self:
        """In int16."""
        return self.to(_C.int16)

    def char(self) -> Self:
        """In int8."""
        return self.to(_C.int8)

    def byte(self) -> Self:
        """In uint8."""
        return self.to(_C.uint8)

    def pin_memory(self) -> Self:
        """With data in pinned memory."""
        pin = [None if t is None else t.pin_memory() for t in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *pin)

    @property
    def is_cuda(self) -> bool:
        """Is the data on a CUDA device?"""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Is the data in pinned memory?"""
        return self.data.is_pinned()


def pack_padded_sequence(input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:  # fmt: skip
    """Packs (T, B, ...), or (B, T, ...) if batch_first; lengths says where each sequence ends.

    Recurrent layers then do no work on padding, and their last state is that of each sequence's
    end.

    Arguments:
        input: the padded batch.
        lengths: of the sequences, a list or a tensor on the CPU.
        batch_first: (B, T, ...) instead of (T, B, ...).
        enforce_sorted: the sequences must come longest first; False sorts them here.

    Example:
        >>> x = rl.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
        >>> packed = nn.utils.rnn.pack_padded_sequence(x, [3, 1], batch_first=True)
        >>> packed.data, packed.batch_sizes
        (tensor([1., 4., 2., 3.]), tensor([2, 1, 1]))
    """
    if not isinstance(lengths, Tensor):
        lengths = _C.tensor(lengths, dtype=_C.int64, device="cpu")
    elif lengths.device.type != "cpu":
        raise RuntimeError(
            f"pack_padded_sequence: lengths must be on the CPU, got {lengths.device}"
        )
    lengths = lengths.to(_C.int64)
    if enforce_sorted:
        order = None
    else:
        lengths, order = lengths.sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    steps_first = input.transpose(0, 1) if batch_first else input
    data, batch_sizes = _pack(steps_first, lengths.tolist())
    return PackedSequence(data, batch_sizes, order, invert_permutation(order))


def _pack(input, lengths):
    if input.numel() == 0:
        raise _C.ShapeError("pack_padded_sequence: an empty tensor cannot be packed")
    if len(lengths) != input.shape[1]:
        raise _C.ShapeError(
            f"pack_padded_sequence: expected {input.shape[1]} lengths, one for each sequence of "
            f"the batch, got {len(lengths)}"
        )
    if lengths[-1] <= 0 or min(lengths) <= 0:
        raise RuntimeError("pack_padded_sequence: every length must be greater than 0")
    if any(a < b for a, b in itertools.pairwise(lengths)):
        raise RuntimeError(
            "pack_padded_sequence: with enforce_sorted=True the lengths must not increase; pass "
            "enforce_sorted=False to have the sequences sorted"
        )
    if lengths[0] > input.shape[0]:
        raise _C.ShapeError(
            f"pack_padded_sequence: length {lengths[0]} is longer than the input's "
            f"{input.shape[0]} steps"
        )
    steps, batch = lengths[0], len(lengths)
    going_on = _C.arange(steps).unsqueeze(1) < _C.tensor(lengths, device="cpu")
    # One gather of rows: step t holds the sequences that are going on then.
    flat = input[:steps].reshape(steps * batch, *input.shape[2:])
    data = flat.index_select(0, _rows(going_on, input.device))
    return data, going_on.sum(1)


def _rows(going_on, device):
    """Where a packed batch finds its rows among those of the padded one."""
    return going_on.view(-1).nonzero().squeeze(1).to(device)


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False,
                        padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The padded tensor of a packed batch, and the lengths; undoes pack_padded_sequence.

    Arguments:
        sequence: a PackedSequence.
        batch_first: (B, T, ...) instead of (T, B, ...).
        padding_value: what fills up.
        total_length: the length to fill up to; None is that of the longest.

    Example:
        >>> packed = nn.utils.rnn.pack_sequence([rl.tensor([1, 2, 3]), rl.tensor([4])])
        >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2, 3],
                [4, 0, 0]]), tensor([3, 1]))
    """
    steps, batch = sequence.batch_sizes.numel(), int(sequence.batch_sizes[0])
    length = steps
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                f"pad_packed_sequence: total_length {total_length} is shorter than the longest "
                f"sequence, {steps}"
            )
        length = total_length
    data = sequence.data
    going_on = _C.arange(batch) < sequence.batch_sizes.unsqueeze(1)
    padded = _C.full((length * batch, *data.shape[1:]), padding_value, dtype=data.dtype,
                     device=data.device)  # fmt: skip
    padded = padded.index_copy(0, _rows(going_on, data.device), data)
    padded = padded.view(length, batch, *data.shape[1:])
    if batch_first:
        padded = padded.transpose(0, 1)
    lengths = going_on.sum(0)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


def pad_sequence(sequences: Tensor | Sequence[Tensor], batch_first: bool = False,
                 padding_value: float = 0.0, padding_side: str = "right") -> Tensor:  # fmt: skip
    """Tensors of different lengths as one, (T, B, ...) or (B, T, ...), filled up with a value.

    Arguments:
        sequences: tensors (L, ...) whose first sizes differ.
        batch_first: (B, T, ...) instead of (T, B, ...).
        padding_value: what fills up.
        padding_side: 'right' or 'left'.

    Example:
        >>> parts = [rl.tensor([1, 2, 3]), rl.tensor([4])]
        >>> nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=-1)
        tensor([[ 1,  2,  3],
                [ 4, -1, -1]])
    """
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not hasattr(sequences, "__iter__"):
        raise RuntimeError(
            f"pad_sequence: expected a list of tensors, got {type(sequences).__name__}"
        )
    sequences = tuple(sequences)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: padding_side must be 'left' or 'right', "
                           f"got {padding_side!r}")  # fmt: skip
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(s.shape[0] for s in sequences)
    rest = sequences[0].shape[1:]
    if any(s.shape[1:] != rest for s in sequences):
        raise _C.ShapeError(
            "pad_sequence: all dims but the first must agree, got "
            f"{[list(s.shape) for s in sequences[:4]]}"
        )
    parts = []
    for s in sequences:
        missing = longest - s.shape[0]
        if missing:
            gap = s.new_full((missing, *rest), padding_value)
            s = _C.cat([gap, s] if padding_side == "left" else [s, gap])
        parts.append(s)
    return _C.stack(parts, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The list of tensors that pad_sequence was given.

    Arguments:
        padded_sequences: what pad_sequence gave.
        lengths: of the sequences.
        batch_first: (B, T, ...) instead of (T, B, ...).

    Example:
        >>> padded = rl.tensor([[1, 2, 3], [4, 0, 0]])
        >>> nn.utils.rnn.unpad_sequence(padded, rl.tensor([3, 1]), batch_first=True)
        [tensor([1, 2, 3]), tensor([4])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    pairs = zip(padded_sequences.unbind(0), lengths, strict=False)
    return [sequence[: int(length)] for sequence, length in pairs]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of tensors of different lengths.

    Arguments:
        sequences: tensors (L, ...) whose first sizes differ.
        enforce_sorted: lengths fall already; False sorts.

    Example:
        >>> nn.utils.rnn.pack_sequence([rl.tensor([4]), rl.tensor([1, 2])],
        ...     enforce_sorted=False).batch_sizes
        tensor([2, 1])
    """
    lengths = _C.tensor([s.shape[0] for s in sequences], dtype=_C.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of tensors that pack_sequence was given.

    Arguments:
        packed_sequences: a PackedSequence.

    Example:
        >>> packed = nn.utils.rnn.pack_sequence([rl.tensor([1, 2]), rl.tensor([4])])
        >>> nn.utils.rnn.unpack_sequence(packed)
        [tensor([1, 2]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
