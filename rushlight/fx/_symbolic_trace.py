"""Names of torch.fx._symbolic_trace; see rushlight.fx."""

from rushlight._missing import absent
from rushlight.fx import Tracer, symbolic_trace, wrap

__all__ = ["Tracer", "symbolic_trace", "wrap"]

absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
    classes="ProxyableClassMeta",
)
