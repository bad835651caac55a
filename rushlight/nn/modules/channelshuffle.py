"""PyTorch's place of these layers."""

from rushlight.nn.modules.rearrange import ChannelShuffle as ChannelShuffle
