"""What distributions of vectors over categories share: the categorical distribution inside."""

from __future__ import annotations

from rushlight._C import Size, Tensor
from rushlight.distributions.categorical import Categorical


class OverCategories:
    """Parameters are those of `_categorical`."""

    _categorical: Categorical

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self):
        return self._categorical._param

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs
