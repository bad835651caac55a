"""Tools around tensors."""

from rushlight.utils import checkpoint as checkpoint
from rushlight.utils import dlpack as dlpack
from rushlight.utils import hooks as hooks
from rushlight.utils import safetensors as safetensors
