"""PyTorch's place of these layers."""

from rushlight.nn.modules.vision import Fold as Fold
from rushlight.nn.modules.vision import Unfold as Unfold
