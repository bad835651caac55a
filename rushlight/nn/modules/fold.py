"""The path by which PyTorch programs import these."""

from rushlight.nn.modules.vision import Fold as Fold
from rushlight.nn.modules.vision import Unfold as Unfold
