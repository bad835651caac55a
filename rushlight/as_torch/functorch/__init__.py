"""`import functorch`: the package from which torch.func came, with its older names."""

from rushlight._missing import names_missing_from, not_available
from rushlight.as_torch.functorch._functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from rushlight.func import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "vjp",
    "vmap",
]

make_fx = not_available("functorch.make_fx", "programs run eagerly and are not traced into graphs")

__getattr__ = names_missing_from(__name__)
