"""Distributions of the exponential family."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.autograd import grad
from rushlight.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """p(x) = exp(t(x) . n - A(n) + h(x)), with natural parameters n and log-normaliser A.

    Arguments:
        batch_shape: shape of the batch.
        event_shape: shape of one draw.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> isinstance(rl.distributions.Normal(0.0, 1.0, validate_args=True),
        ...     rl.distributions.ExponentialFamily)
        True
        >>> rl.distributions.ExponentialFamily(event_shape=rl.Size([2])).event_shape
        rushlight.Size([2])
    """

    @property
    def _natural_params(self):
        """The natural parameters n."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        """A(n)."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        """The mean of h(x)."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """A(n) - n . A'(n) - E[h(x)], by automatic differentiation."""
        result = -self._mean_carrier_measure
        naturals = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*naturals)
        gradients = grad(normalizer.sum(), naturals, create_graph=True)
        result = result + normalizer
        for natural, gradient in zip(naturals, gradients, strict=True):
            product = natural * gradient
            result = result - product.reshape((*self._batch_shape, -1)).sum(-1)
        return result
