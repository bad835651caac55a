"""Settings of PyTorch's code generator: kept, without effect."""

from rushlight._names.settings import make_settings

make_settings(__name__)
