"""PyTorch's place of these layers."""

from rushlight.nn.modules.vision import Upsample as Upsample
from rushlight.nn.modules.vision import UpsamplingBilinear2d as UpsamplingBilinear2d
from rushlight.nn.modules.vision import UpsamplingNearest2d as UpsamplingNearest2d
