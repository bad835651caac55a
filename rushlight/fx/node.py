"""Names of torch.fx.node; see rushlight.fx."""

from rushlight._missing import absent
from rushlight.fx import Node

__all__ = ["Node"]

absent(
    globals(),
    "programs run eagerly and are not traced into graphs",
    classes="Target Argument",
)
