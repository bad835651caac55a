"""Draws that PyTorch keeps behind an underscore."""

from rushlight import _C
from rushlight._C import _standard_gamma, _standard_gamma_grad

__all__ = ["_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad"]


def _sample_dirichlet(self, generator=None):
    """Draws from Dirichlet distributions whose concentrations lie along the last dimension."""
    if self.dtype not in (_C.float32, _C.float64):
        raise _C.DTypeError(f"_sample_dirichlet: needs float32 or float64, got {self.dtype}")
    # In double, where small concentrations seldom underflow; never 0 or 1, whose density is 0.
    draws = _C._standard_gamma(self.double(), generator=generator).clamp_min(
        _C.finfo(_C.float64).tiny
    )
    limits = _C.finfo(self.dtype)
    shares = draws / draws.sum(-1, keepdim=True)
    return shares.to(self.dtype).clamp(limits.tiny, 1 - limits.eps / 2)
