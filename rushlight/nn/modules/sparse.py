"""Look-up tables of learnt vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.functional.linear import row_to_skip
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

if TYPE_CHECKING:
    from typing_extensions import Self


__all__ = ["Embedding", "EmbeddingBag"]


def _add_weight(embedding, name, given, freeze, device, dtype):
    """A table of normal numbers, or the one that is given."""
    shape = (embedding.num_embeddings, embedding.embedding_dim)
    if given is None:
        empty = _C.empty(shape, device=device, dtype=dtype)
        embedding.weight = Parameter(empty, requires_grad=not freeze)
        embedding.reset_parameters()
        return
    if tuple(given.shape) != shape:
        raise AssertionError(
            f"{name}: the weight must have shape {list(shape)}, got {list(given.shape)}"
        )
    embedding.weight = Parameter(given, requires_grad=not freeze)


def _norm_options(embedding):
    """How the vectors of an embedding are limited and scaled, where it is not the default."""
    text = ""
    if embedding.max_norm is not None:
        text += f", max_norm={embedding.max_norm}"
    if embedding.norm_type != 2:
        text += f", norm_type={embedding.norm_type}"
    if embedding.scale_grad_by_freq is not False:
        text += f", scale_grad_by_freq={embedding.scale_grad_by_freq}"
    return text


class Embedding(Module):
    """A table of vectors that are looked up by index, and learned.

    Vectors begin normal with deviation 1.

    Arguments:
        num_embeddings: how many vectors.
        embedding_dim: how long.
        padding_idx: an index whose vector is zero and gets no gradient.
        max_norm, norm_type: vectors that are looked up and longer than max_norm are scaled down.
        scale_grad_by_freq: divide a vector's gradient by how often it was looked up.
        sparse: the table gets a sparse gradient, a row per index (see optim.SparseAdam).
        _weight: the table to begin with.
        _freeze: the table is not trained.
        device, dtype: where the parameters lie, and their dtype.

    Shape: (...) of indices to (..., embedding_dim).

    Example:
        >>> table = nn.Embedding(10, 3, padding_idx=0)
        >>> table(rl.tensor([[1, 2, 0]])).shape, table.weight[0]
        (rushlight.Size([1, 3, 3]), tensor([0., 0., 0.], grad_fn=<SelectBackward0>))
    """

    __constants__: tuple[str, ...] = (
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    )
    weight: Parameter

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, sparse: bool = False,
                 _weight: Tensor | None = None, _freeze: bool = False, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = row_to_skip("Embedding", padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        _add_weight(self, "Embedding", _weight, _freeze, device, dtype)

    def reset_parameters(self) -> None:
        """Normal numbers; zeros in the row padding_idx."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        text += _norm_options(self)
        if self.sparse is not False:
            text += ", sparse=True"
        return text

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None,
                        max_norm: Any = None, norm_type: float = 2.0,
                        scale_grad_by_freq: bool = False,
                        sparse: bool = False) -> Self:  # fmt: skip
        """An Embedding over a given table; freeze: without gradients."""
        if embeddings.dim() != 2:
            raise AssertionError(
                f"from_pretrained: the table must have 2 dims, got {list(embeddings.shape)}"
            )
        rows, columns = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(Module):
    """Sums, means or maxima of learnt vectors, bag by bag.

    Arguments:
        num_embeddings: how many vectors.
        embedding_dim: how long.
        max_norm, norm_type: vectors that are looked up and longer than max_norm are scaled down.
        scale_grad_by_freq: divide a vector's gradient by how often it was looked up.
        mode: 'sum', 'mean' or 'max'.
        sparse: the table gets a sparse gradient, a row per index (see optim.SparseAdam).
        _weight: the table to begin with.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: indices that are passed over.
        device, dtype: where the parameters lie, and their dtype.

    Shape: (bags, length) of indices, or a vector and offsets, to (bags, embedding_dim).

    Example:
        >>> bags = nn.EmbeddingBag(10, 3, mode="sum")
        >>> bags(rl.tensor([1, 2, 4, 5]), rl.tensor([0, 1])).shape
        rushlight.Size([2, 3])
    """

    __constants__: tuple[str, ...] = (
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    )
    weight: Parameter

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
                 sparse: bool = False, _weight: Tensor | None = None,
                 include_last_offset: bool = False, padding_idx: int | None = None,
                 device: Device = None, dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = row_to_skip("Embedding", padding_idx, num_embeddings)
        _add_weight(self, "EmbeddingBag", _weight, False, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """Normal numbers; zeros in the row padding_idx."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()  # type: ignore[misc]

    _fill_padding_idx_with_zero = Embedding._fill_padding_idx_with_zero

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += _norm_options(self)
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
                        norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                        mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
                        padding_idx: int | None = None) -> Self:  # fmt: skip
        """An EmbeddingBag over a given table; freeze: without gradients."""
        if embeddings.dim() != 2:
            raise AssertionError(
                f"from_pretrained: the table must have 2 dims, got {list(embeddings.shape)}"
            )
        rows, columns = embeddings.shape
        made = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made
