"""Names of torch.distributed._tensor.experimental, where torch.distributed.tensor.experimental was."""

from rushlight.distributed.tensor.experimental import *  # noqa: F403
from rushlight.distributed.tensor.experimental import __all__, __getattr__  # noqa: F401
