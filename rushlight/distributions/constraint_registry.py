"""From constraints to transforms: how to get from any numbers to numbers that satisfy one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from rushlight.distributions import constraints, transforms
from rushlight.types import _F

if TYPE_CHECKING:
    from rushlight.distributions._transform import Transform
    from rushlight.distributions.constraints import Constraint


__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Makers of transforms by the class of constraint."""

    def __init__(self) -> None:
        self._registry = {}
        super().__init__()

    @overload
    def register(self, constraint: Constraint | type[Constraint], factory: _F) -> _F: ...
    @overload
    def register(
        self, constraint: Constraint | type[Constraint], factory: None = None
    ) -> Callable[[_F], _F]: ...
    def register(
        self,
        constraint: Constraint | type[Constraint],
        factory: Callable[..., Any] | None = None,
    ) -> Callable[..., Any]:
        """Adds a maker, a function of the constraint; usable as a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"register: expected a Constraint or a class of them, got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """A transform whose results satisfy the constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"there is no transform to the constraint {type(constraint).__name__}; register one"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()  # invertible ones, for Hamiltonian Monte Carlo and the like
transform_to = ConstraintRegistry()  # simple ones, for optimisation


def _register(*registries):
    def with_constraints(*kinds):
        def decorate(factory):
            for registry in registries:
                for kind in kinds:
                    registry.register(kind, factory)
            return factory

        return decorate

    return with_constraints


_both = _register(biject_to, transform_to)


@_both(constraints.real)
def _to_real(constraint):
    return transforms.identity_transform


@biject_to.register(constraints.independent)
def _biject_to_independent(constraint):
    base = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _transform_to_independent(constraint):
    base = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_both(constraints.positive, constraints.nonnegative)
def _to_positive(constraint):
    lower = constraint.lower_bound
    if isinstance(lower, int | float) and lower == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(lower, 1)]
    )


@_both(constraints.less_than)
def _to_less_than(constraint):
    shift = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


@_both(constraints.interval, constraints.half_open_interval, constraints.open_interval)
def _to_interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


@biject_to.register(constraints.simplex)
def _biject_to_simplex(constraint):
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _transform_to_simplex(constraint):
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _transform_to_lower_cholesky(constraint):
    return transforms.LowerCholeskyTransform()


@_both(constraints.positive_definite, constraints.positive_semidefinite)
def _to_positive_definite(constraint):
    return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint):
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _biject_to_cat(constraint):
    parts = [biject_to(c) for c in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _transform_to_cat(constraint):
    parts = [transform_to(c) for c in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _biject_to_stack(constraint):
    return transforms.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _transform_to_stack(constraint):
    return transforms.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)
