"""The path by which PyTorch programs import these."""

from rushlight.nn.modules.rearrange import PixelShuffle as PixelShuffle
from rushlight.nn.modules.rearrange import PixelUnshuffle as PixelUnshuffle
