"""The chi-squared distribution."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of df squares of standard normal numbers.

    Arguments:
        df: degrees of freedom.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Chi2(3.0, validate_args=True)
        >>> d.mean, d.log_prob(rl.tensor(2.0))
        (tensor(3.), tensor(-1.5724))
        >>> d.sample((4,)).shape
        rushlight.Size([4])
    """

    arg_constraints = {"df": constraints.positive}
    _expands = Gamma._expands

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2
