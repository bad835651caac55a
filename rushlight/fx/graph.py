"""Names of torch.fx.graph; see rushlight.fx."""

from rushlight._missing import absent
from rushlight.fx import CodeGen, Graph

__all__ = ["CodeGen", "Graph"]

absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
    classes="PythonCode",
)
