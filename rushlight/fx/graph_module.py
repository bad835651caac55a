"""Names of torch.fx.graph_module; see rushlight.fx."""

from rushlight._missing import absent
from rushlight.fx import GraphModule

__all__ = ["GraphModule"]

absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
)
