"""The distribution of von Mises, on the circle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions._location_scale import AroundLocation
from rushlight.distributions._special import log_bessel_i
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


class VonMises(AroundLocation):
    """Angles around `loc`; the larger `concentration`, the closer.

    Arguments:
        loc: the middle, an angle.
        concentration: how close angles are to it.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.VonMises(0.0, 4.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(0.5))
        (tensor(0.), tensor(-0.7525))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _expands = ("loc", "concentration")

    def __init__(
        self, loc: Tensor, concentration: Tensor, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.concentration * _C.cos(value - self.loc)
        return log_prob - math.log(2 * math.pi) - log_bessel_i(0, self.concentration)

    @lazy_property
    def _proposal_r(self):
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        general = (1 + rho**2) / (2 * rho)
        # For tiny kappa the formula loses its digits; this is its Taylor series.
        return _C.where(kappa < 1e-5, 1 / kappa + kappa, general)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Rejection from a wrapped Cauchy (Best and Fisher, 1979)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            kappa = self.concentration.double().expand(shape)
            loc, r = self.loc.double().expand(shape), self._proposal_r.expand(shape)
            x = _C.zeros(shape, dtype=_C.float64, device=loc.device)
            done = _C.zeros(shape, dtype=_C.bool, device=loc.device)
            while not bool(done.all()):
                u1, u2, u3 = _C.rand((3, *shape), dtype=_C.float64, device=loc.device).unbind()
                z = _C.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = _C.where(accept & ~done, (u3 - 0.5).sign() * f.clamp(-1, 1).acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @lazy_property
    def variance(self):
        """1 minus the length of the mean direction."""
        ratio = log_bessel_i(1, self.concentration) - log_bessel_i(0, self.concentration)
        return 1 - ratio.exp()
