"""torch.version, as programs read it: the PyTorch whose behaviour Rushlight follows."""

from rushlight.torch_version import TorchVersion
from rushlight.version import cuda, debug, git_version, hip

__version__ = TorchVersion("2.13.0+rushlight")
xpu = None

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]
