"""Tools around tensors."""

from rushlight._missing import names_missing_from
from rushlight.utils import checkpoint as checkpoint
from rushlight.utils import dlpack as dlpack
from rushlight.utils import hooks as hooks
from rushlight.utils import safetensors as safetensors

__getattr__ = names_missing_from(__name__)
