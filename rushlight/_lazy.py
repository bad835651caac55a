"""Names of the package that are loaded when first used, to keep the import short."""

import importlib
import sys

_SUBPACKAGES = ("amp", "cpu", "cuda", "nn", "optim")
# Functions of nn.functional that PyTorch also has at the top, with the same arguments.
_FUNCTIONS = """bilinear channel_shuffle cosine_similarity group_norm layer_norm
native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle rms_norm
rrelu rrelu_""".split()


def lazy_getattr(name):
    """The package's __getattr__."""
    if name in _SUBPACKAGES:
        return importlib.import_module(f"rushlight.{name}")
    if name == "autocast":
        return importlib.import_module("rushlight.amp").autocast
    if name in _FUNCTIONS:
        functions = importlib.import_module("rushlight.nn.functional")
        return getattr(functions, name)
    raise AttributeError(f"module 'rushlight' has no attribute {name!r}")


def lazy_dir():
    """The package's __dir__."""
    return sorted({*vars(sys.modules["rushlight"]), *_SUBPACKAGES, "autocast", *_FUNCTIONS})
