"""The path by which PyTorch programs import these."""

from rushlight.nn.modules.rearrange import ChannelShuffle as ChannelShuffle
