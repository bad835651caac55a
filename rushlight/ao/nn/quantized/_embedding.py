"""Embeddings whose rows are integers of 8 bits, each row in steps of its own."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor, nn
from rushlight._quantized.tensor import QuantizedTensor
from rushlight.ao.nn.quantized._state import Named, WithEntries
from rushlight.nn import functional as F


class EmbeddingPackedParams(WithEntries):
    """The rows of a quantized embedding, a module of its own in state dicts."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = None) -> None:
        super().__init__()
        self.dtype = rushlight.quint8 if dtype is None else dtype
        if self.dtype != rushlight.quint8:
            raise NotImplementedError(f"Embedding: rows are kept as quint8, got {self.dtype}")
        scales, zeros = _C.ones(num_embeddings), _C.zeros(num_embeddings)
        rows = _C.zeros(num_embeddings, embedding_dim)
        self.set_weight(rushlight.quantize_per_channel(rows, scales, zeros, 0, self.dtype))

    def set_weight(self, weight: Any) -> None:
        """Takes other rows."""
        if not isinstance(weight, QuantizedTensor) or weight._quantizer.axis != 0:
            kind = getattr(weight, "dtype", type(weight).__name__)
            raise TypeError(f"the weight must be quantized by rows as {self.dtype}, got {kind}")
        self._packed_weight = weight
        q = weight._quantizer
        self.integers = weight.int_repr()
        self.scales = q.scale.to(_C.float32)
        self.zeros = q.zero_point.to(_C.float32)

    def rows(self, indices: Tensor) -> Tensor:
        """The numbers of some rows."""
        flat = indices.reshape(-1)
        integers = F.embedding(flat, self.integers).to(_C.float32)
        scales, zeros = (t[flat].unsqueeze(1) for t in (self.scales, self.zeros))
        return ((integers - zeros) * scales).reshape(*indices.shape, self.integers.shape[1])

    def _entries(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "_packed_weight": self._packed_weight}

    def _take(self, entries: dict[str, Any]) -> None:
        weight, old = entries["_packed_weight"], self._packed_weight
        if getattr(weight, "shape", None) != old.shape:
            raise ValueError(f"size mismatch: the layer's weight is {tuple(old.shape)}")
        self.set_weight(weight)


class Embedding(Named, nn.Module):
    """nn.Embedding with rows of integers; gives floats."""

    _version = 1

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            self.set_weight(_weight)

    def set_weight(self, w: Any) -> None:
        """Takes other rows, quantized by rows."""
        self._packed_params.set_weight(w)

    def weight(self) -> QuantizedTensor:
        """The quantized rows."""
        return self._packed_params._packed_weight

    def forward(self, indices: Tensor) -> Tensor:
        """The rows of these indices."""
        return self._packed_params.rows(indices)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Embedding:
        """In place of an embedding whose qconfig is float_qparams_weight_only_qconfig."""
        made = cls(mod.num_embeddings, mod.embedding_dim, **cls._options(mod))
        made.set_weight(quantized_rows(mod))
        return made

    @classmethod
    def _options(cls, mod: Any) -> dict[str, Any]:
        return {"padding_idx": mod.padding_idx}

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )


class EmbeddingBag(Embedding):
    """nn.EmbeddingBag with rows of integers; gives floats. Bags are summed."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "sum",
        sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        if mode != "sum":
            raise NotImplementedError(f"EmbeddingBag: quantized bags are summed, got mode={mode!r}")
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """The sums of bags of rows."""
        if compressed_indices_mapping is not None:
            raise NotImplementedError("EmbeddingBag: compressed indices are not taken")
        rows = self._packed_params.rows(indices.reshape(-1))
        places = _C.arange(len(rows), device=rows.device).reshape(indices.shape)
        return F.embedding_bag(
            places, rows, offsets, mode="sum", per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip

    @classmethod
    def _options(cls, mod: Any) -> dict[str, Any]:
        if mod.padding_idx is not None and bool(mod.weight[mod.padding_idx].any()):
            raise NotImplementedError(
                f"EmbeddingBag: row {mod.padding_idx} is left out of sums (padding_idx), which "
                "quantized bags do for a row of zeros only"
            )
        return {"mode": mod.mode, "include_last_offset": mod.include_last_offset}


def quantized_rows(mod: Any) -> Tensor:
    """The rows in the steps that the observer of the module's qconfig chooses."""
    observer = mod.qconfig.weight()
    if observer.qscheme != rushlight.per_channel_affine_float_qparams:
        raise AssertionError(
            "Embedding.from_float: the weight's observer must choose float steps by row, as that "
            f"of float_qparams_weight_only_qconfig does; got {observer.qscheme}"
        )
    weight = mod.weight.detach().float()
    observer(weight)
    scales, zeros = observer.calculate_qparams()
    return rushlight.quantize_per_channel(weight, scales, zeros, 0, observer.dtype)
