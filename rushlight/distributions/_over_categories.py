"""What distributions of vectors over categories share: the categorical distribution inside."""

from __future__ import annotations

from rushlight._C import Size
from rushlight.distributions._delegated import Delegated
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution


class OverCategories(Distribution):
    """Parameters are those of `_categorical`."""

    arg_constraints = Categorical.arg_constraints
    _categorical: Categorical

    def _take(self, probs, logits, validate_args):
        """Keeps the categorical distribution and takes the shapes from it."""
        self._categorical = Categorical(probs, logits)
        batch_shape, event_shape = self._categorical.batch_shape, self._categorical.param_shape[-1:]
        Distribution.__init__(self, batch_shape, event_shape, validate_args=validate_args)

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self):
        return self._categorical._param

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    logits = Delegated("_categorical")
    probs = Delegated("_categorical")
