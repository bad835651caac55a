"""Names of the package that are loaded when first used, to keep the import short."""

import importlib
import sys

from rushlight._missing import MissingNameError

_SUBPACKAGES = """accelerator amp ao as_torch backends classes compiler config cpu cuda distributed
distributions export fft func futures fx hub jit library masked mps mtia multiprocessing nested nn
onnx ops optim overrides package profiler quantization quasirandom signal sparse torch_version types
xpu _dynamo _inductor _jit_internal _six _subclasses
__config__""".split()
# Functions of nn.functional that PyTorch also has at the top, with the same arguments.
_FUNCTIONS = """channel_shuffle cosine_similarity group_norm layer_norm
native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle rms_norm
rrelu rrelu_""".split()
# Other names, by the module that has them.
_ELSEWHERE = {
    "DisableTorchFunctionSubclass": "rushlight.overrides",
    "Event": "rushlight.cuda",
    "Future": "rushlight.futures",
    "GradScaler": "rushlight.amp",
    "ScriptModule": "rushlight.jit",
    "Stream": "rushlight.cuda",
    "autocast": "rushlight.amp",
    "compile": "rushlight.compiler._compile",
    "matrix_exp": "rushlight.linalg",
    "orgqr": "rushlight.linalg._matrix_functions",
}
_ELSEWHERE |= dict.fromkeys(_FUNCTIONS, "rushlight.nn.functional")


def lazy_getattr(name):
    """The package's __getattr__."""
    if name in _SUBPACKAGES:
        try:
            return importlib.import_module(f"rushlight.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"rushlight.{name}":
                raise
            raise MissingNameError("rushlight", name) from None
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    if not name.startswith("__"):
        more = importlib.import_module("rushlight._more")
        try:
            return getattr(more, name)
        except AttributeError:
            pass
    raise MissingNameError("rushlight", name)


def lazy_dir():
    """The package's __dir__."""
    more = importlib.import_module("rushlight._more")
    names = {
        n
        for n, v in vars(more).items()
        if n[0] != "_" and getattr(v, "__module__", "") == more.__name__
    }
    return sorted({*vars(sys.modules["rushlight"]), *_SUBPACKAGES, *_ELSEWHERE, *names})
