"""Tools around tensors."""

from rushlight.utils import dlpack as dlpack
