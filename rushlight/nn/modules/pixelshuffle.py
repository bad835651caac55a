"""PyTorch's place of these layers."""

from rushlight.nn.modules.rearrange import PixelShuffle as PixelShuffle
from rushlight.nn.modules.rearrange import PixelUnshuffle as PixelUnshuffle
