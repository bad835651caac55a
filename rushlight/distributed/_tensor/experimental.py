"""Where torch.distributed.tensor.experimental was before."""

from rushlight.distributed.tensor.experimental import *  # noqa: F403
from rushlight.distributed.tensor.experimental import __all__, __getattr__  # noqa: F401
