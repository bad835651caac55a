"""Names of torch.fx.proxy; see rushlight.fx."""

from rushlight._missing import absent
from rushlight.fx import Proxy

__all__ = ["Proxy"]

absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
    classes="""Attribute GraphAppendingTracer MetaProxy ParameterProxy Scope ScopeContextManager
    TraceError TracerBase""",
)
