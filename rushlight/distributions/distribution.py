"""The base class of distributions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._C import Size, Tensor
from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.utils import lazy_property
from rushlight.types import Self

if TYPE_CHECKING:
    from rushlight.distributions.constraints import Constraint

__all__ = ["Distribution"]


class Distribution:
    """A distribution, or a batch of them: batch_shape many, each over values of event_shape.

    All have sample(shape), log_prob(value), mean, variance, entropy(), batch_shape and
    event_shape, as far as they exist; rsample lets gradients through to the parameters.

    Arguments:
        batch_shape: shape of the batch.
        event_shape: shape of one draw.
        validate_args: check the arguments; None follows the global setting.

    Example:
        >>> d = rl.distributions.Normal(rl.zeros(5, 1), rl.ones(3))
        >>> isinstance(d, rl.distributions.Distribution), d.batch_shape, d.sample((2,)).shape
        (True, rushlight.Size([5, 3]), rushlight.Size([2, 5, 3]))
        >>> rl.distributions.Distribution(batch_shape=rl.Size([2])).batch_shape
        rushlight.Size([2])
    """

    if TYPE_CHECKING:  # read-only, since subclasses may compute them

        @property
        def has_rsample(self) -> bool: ...
        @property
        def has_enumerate_support(self) -> bool: ...

    else:
        has_rsample = False
        has_enumerate_support = False
    _validate_args = __debug__

    # A class that has its own __init__ and not its own expand names the attributes (tensors and
    # distributions) that start with the batch shape, and those that a copy takes as they are.
    _expands: tuple[str, ...]
    _keeps: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where a distribution is not told."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Sequence[int] = Size(), event_shape: Sequence[int] = Size(),
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self):
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `arg_constraints`; set it to {{}}, or "
                          "construct with validate_args=False", stacklevel=4)  # fmt: skip
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # made of another parameter, which is checked itself
            value = getattr(self, name)
            valid = constraint.check(value)
            if not bool(valid.all()):
                raise ValueError(
                    f"{type(self).__name__}: the parameter {name} (a tensor of shape "
                    f"{list(value.shape)}) must satisfy the constraint {constraint!r}, but holds "
                    f"invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The distribution with its parameters expanded to another batch shape."""
        new = self._with_expanded_attributes(batch_shape, _instance)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch: how many distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """The constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Constraint:
        """The constraint that draws satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Draws, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Draws through which gradients flow to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n draws; the old form of sample((n,))."""
        warnings.warn("sample_n(n) is deprecated; call sample((n,))", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density (or probability) at a value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw at most the value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a draw falls with this probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dim."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return _C.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):  # noqa: B008
        return Size((*Size(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value):
        """Raises unless value has a shape, and values, that the distribution could draw."""
        if not isinstance(value, Tensor):
            raise ValueError("the value argument to log_prob must be a Tensor")
        event_dim = value.dim() - len(self._event_shape)
        if value.shape[max(event_dim, 0) :] != self._event_shape:
            raise ValueError(
                f"{type(self).__name__}: the last dimensions of the value must be event_shape: "
                f"{list(value.shape)} does not end with {list(self._event_shape)}"
            )
        expected = (*self._batch_shape, *self._event_shape)
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    f"{type(self).__name__}: a value of shape {list(value.shape)} cannot be "
                    f"broadcast with batch_shape + event_shape = {list(expected)}"
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support`; give it one, or construct "
                          "with validate_args=False", stacklevel=3)  # fmt: skip
            return
        valid = support.check(value)
        if not bool(valid.all()):
            raise ValueError(
                f"{type(self).__name__}: the value (a tensor of shape {list(value.shape)}) must "
                f"lie in the support {support!r}, but holds invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"{type(self).__name__} defines its own __init__, so it must define expand too"
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _with_expanded_attributes(self, batch_shape, _instance):
        """A new distribution that has the attributes, expanded, but is not initialised yet."""
        for cls in type(self).__mro__:
            if "_expands" in vars(cls):
                break
        else:
            raise NotImplementedError(f"{type(self).__name__} does not define expand")
        new = self._get_checked_instance(cls, _instance)
        for name in cls._expands:
            if name in self.__dict__:  # of several ways to give a parameter, one is taken
                value = self.__dict__[name]
                shape = value.batch_shape if isinstance(value, Distribution) else value.shape
                behind = shape[len(self._batch_shape) :]
                new.__dict__[name] = value.expand((*batch_shape, *behind))
        for name in cls._keeps:
            new.__dict__[name] = self.__dict__[name]
        return new

    def __repr__(self) -> str:
        names = [k for k in self.arg_constraints if k in self.__dict__]
        parts = []
        for name in names:
            value = self.__dict__[name]
            shown = f"{name}: {value}" if value.numel() == 1 else f"{name}: {value.size()}"
            parts.append(shown)
        return f"{type(self).__name__}({', '.join(parts)})"
