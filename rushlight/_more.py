"""Functions of the package that programs call now and then, made of others."""

import sys

from rushlight import _C, linalg, storage
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._missing import unavailable_class
from rushlight._public import publish

# ----- checks


def _assert(condition, message):
    """assert, for code that PyTorch traces."""
    assert condition, message


def _assert_async(input, assert_msg=""):
    """Raises when the tensor holds zero."""
    _check(bool(input), lambda: assert_msg or "_assert_async: expected nonzero, got zero")


def _check_with(error_type, cond, message=None):
    """Raises error_type(message()) unless cond."""
    if isinstance(cond, Tensor):
        raise TypeError(f"_check: cond must be a bool, got {type(cond).__name__}")
    if not cond:
        text = "Expected cond to be True, but got False"
        raise error_type(text if message is None else str(message()))


def _check(cond, message=None):
    """Raises RuntimeError(message()) unless cond."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """Raises IndexError(message()) unless cond."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """Raises ValueError(message()) unless cond."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """Raises TypeError(message()) unless cond."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """Raises NotImplementedError(message()) unless cond."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type, cond, message=None):
    """Raises error_type(message()) unless all elements of cond hold."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"_check_tensor_all: cond must be a tensor, got {type(cond).__name__}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond, message=None):
    """Raises RuntimeError(message()) unless all elements of cond hold."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """Raises unless i is a size."""
    _check(i >= 0, message)


def _check_tensor_all(cond, message=None):
    """Raises RuntimeError(message()) unless all elements are true."""
    _check(bool(cond.all()), message)


# ----- autocast by its old names


def get_autocast_gpu_dtype():
    """The dtype of autocast on GPUs."""
    return _C.get_autocast_dtype("cuda")


def get_autocast_cpu_dtype():
    """The dtype of autocast on the CPU."""
    return _C.get_autocast_dtype("cpu")


def set_autocast_gpu_dtype(dtype):
    """Sets the dtype of autocast on GPUs."""
    _C.set_autocast_dtype("cuda", dtype)


def set_autocast_cpu_dtype(dtype):
    """Sets the dtype of autocast on the CPU."""
    _C.set_autocast_dtype("cpu", dtype)


def is_autocast_cpu_enabled():
    """Whether autocast is on for the CPU."""
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled):
    """Switches autocast for the CPU."""
    _C.set_autocast_enabled("cpu", enabled)


# ----- linear algebra and statistics


def cholesky(input, upper=False, *, out=None):
    """linalg.cholesky by its old name."""
    return linalg.cholesky(input, upper=upper, out=out)


def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariance matrix of variables in rows and observations in columns."""
    if input.ndim > 2:
        raise _C.ShapeError(f"cov: expected at most two dimensions, got shape {list(input.shape)}")
    if input.dtype == _C.bool:
        raise _C.DTypeError("cov: not implemented for bool tensors")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.get_default_dtype())
    count = x.shape[1]
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            weights = given if weights is None else weights * given
    if weights is None:
        mean, total = x.mean(1, keepdim=True), count
        factor = total - correction
    else:
        weights = weights.to(x.real.dtype if x.is_complex() else x.dtype)
        total = weights.sum()
        mean = (x * weights).sum(1, keepdim=True) / total
        factor = total - correction
        if aweights is not None:
            factor = total - correction * (weights * aweights).sum() / total
    centred = x - mean
    scaled = centred if weights is None else centred * weights
    factor = factor.clamp(min=0) if isinstance(factor, Tensor) else max(factor, 0)
    divided = scaled @ centred.conj().T / factor
    return divided.squeeze()


def corrcoef(input):
    """The correlations of variables in rows."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviations = c.diagonal().real.sqrt() if c.is_complex() else c.diagonal().sqrt()
    found = c / deviations[:, None] / deviations[None, :]
    if not found.is_complex():
        return found.clamp(-1, 1)
    return _C.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))


@autocast_policy(cuda="float32")
def renorm(input, p, dim, maxnorm, *, out=None):
    """The slices along dim, those with a larger norm scaled down to maxnorm."""
    from rushlight._out import write_out

    if input.ndim < 2:
        raise RuntimeError(f"renorm: needs at least 2 dimensions, got shape {list(input.shape)}")
    others = [d for d in range(input.ndim) if d != dim % input.ndim]
    norms = linalg.vector_norm(input, p, others, keepdim=True)
    scale = _C.where(norms > maxnorm, maxnorm / (norms + 1e-7), _C.ones_like(norms))
    return write_out("renorm", input * scale, out)


def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None,
                  pin_memory=False, requires_grad=False):  # fmt: skip
    """Kaiser's window: a ratio of Bessel functions."""
    n = window_length + (1 if periodic else 0)
    if window_length <= 1:
        return _C.ones(window_length, dtype=dtype, device=device, requires_grad=requires_grad)
    at = _C.linspace(-1, 1, n, dtype=_C.float64, device=device)
    shape = _C.i0(beta * (1 - at * at).clamp(min=0).sqrt()) / _C.i0(
        _C.tensor(float(beta), dtype=_C.float64)
    )
    window = shape[:window_length].to(dtype or _C.get_default_dtype())
    return window.requires_grad_(requires_grad)


# ----- files

from_file = storage._from_file


# ----- sizes that PyTorch traces as symbols: plain numbers here


def sym_int(a):
    """int(a)."""
    return int(a)


def sym_float(a):
    """float(a)."""
    return float(a)


def sym_not(a):
    """not a."""
    return not a


def sym_ite(b, t, f):
    """t if b else f."""
    return t if b else f


sym_max, sym_min = max, min


def sym_sum(args):
    """The sum of numbers."""
    return sum(args)


# ----- control flow


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred else false_fn(*operands)."""
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Calls body_fn on what it returned before, as long as cond_fn holds."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = tuple(result) if isinstance(result, tuple | list) else (result,)
    return carried


# ----- questions and switches


def get_device(input):
    """The number of the tensor's GPU; -1 for the CPU."""
    return input.get_device()


def get_device_module(device=None):
    """The module of a kind of device: rushlight.cuda for "cuda"."""
    import importlib

    kind = "cuda" if device is None else _C.device(device).type
    if device is None:
        from rushlight import cuda

        kind = "cuda" if cuda.is_available() else "cpu"
    return importlib.import_module(f"rushlight.{kind}")


def is_same_size(input, other):
    """Whether both have the same shape."""
    if not isinstance(other, Tensor):
        raise TypeError(f"is_same_size: other must be a tensor, got {type(other).__name__}")
    return input.shape == other.shape


def is_distributed(input):
    """False: a tensor lies in one process."""
    return False


def is_inference(input):
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


def is_vulkan_available():
    """Whether Vulkan devices are there: no."""
    return False


def is_warn_always_enabled():
    """Whether warnings repeat."""
    return _warn_always


_warn_always = False


def set_warn_always(b, /):
    """Whether warnings repeat; kept only."""
    global _warn_always
    _warn_always = bool(b)


def set_flush_denormal(mode, /):
    """Whether tiny numbers become zero; False says that this is not supported."""
    return False


def set_anomaly_enabled(mode, check_nan=True):
    """autograd.set_detect_anomaly."""
    from rushlight.autograd import set_detect_anomaly

    set_detect_anomaly(mode, check_nan)


def compiled_with_cxx11_abi():
    """Which C++ strings the library uses: today's."""
    return True


def get_file_path(*path_components):
    """A path inside the package's folder."""
    import os

    import rushlight

    return os.path.join(os.path.dirname(rushlight.__file__), *path_components)


has_lapack = has_openmp = True
has_mkl = has_spectral = has_cuda = has_mps = has_cudnn = has_mkldnn = False
legacy_contiguous_format = _C.contiguous_format


class _SymbolMeta(type):
    def __instancecheck__(cls, instance):
        return False


class SymInt(metaclass=_SymbolMeta):
    """A size that PyTorch traces; none exists."""


class SymFloat(metaclass=_SymbolMeta):
    """A number that PyTorch traces; none exists."""


class SymBool(metaclass=_SymbolMeta):
    """A bool that PyTorch traces; none exists."""


class _AbsentLayout:
    """A layout that no tensor has, to compare with."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"rushlight.{self._name}"


sparse_coo, sparse_csr, sparse_csc = map(_AbsentLayout, ("sparse_coo", "sparse_csr", "sparse_csc"))
sparse_bsr, sparse_bsc, jagged = map(_AbsentLayout, ("sparse_bsr", "sparse_bsc", "jagged"))
_mkldnn = _AbsentLayout("_mkldnn")


def sparse_coo_tensor(*args, **kwargs):
    """Sparse tensors are not there."""
    raise NotImplementedError("sparse_coo_tensor: tensors are dense: there is no sparse layout")


sparse_csr_tensor = sparse_csc_tensor = sparse_bsr_tensor = sparse_bsc_tensor = sparse_coo_tensor


def _disable_dynamo(fn=None, recursive=True):
    """The function itself."""
    return (lambda function: function) if fn is None else fn


_FILES = "files are read and written by rushlight.load and rushlight.save"
PyTorchFileReader = unavailable_class("PyTorchFileReader", "rushlight", _FILES)
PyTorchFileWriter = unavailable_class("PyTorchFileWriter", "rushlight", _FILES)


class AcceleratorError(RuntimeError):
    """An error that a GPU reports."""


class FatalError(Exception):
    """An error after which the process cannot go on."""


# ----- lists of tensors

_FOREACH_WITH_OTHER = "add sub mul div pow maximum minimum clamp_max clamp_min copy"


def _items(x, count):
    return list(x) if isinstance(x, tuple | list) else [x] * count


def _foreach(name):
    """_foreach_mul_ and its relatives: an operator over each tensor of a list."""
    op = name.removeprefix("_foreach_")
    if op == "norm":
        return lambda self, ord=2, dtype=None: [
            linalg.vector_norm(t, ord, dtype=dtype) for t in self
        ]
    if op == "max":
        return lambda self: [t.max() for t in self]
    if op == "pow":  # the base may be one number
        return lambda self, exponent: [
            _C.pow(a, b)
            for a, b in zip(
                _items(self, len(exponent) if isinstance(exponent, tuple | list) else 1),
                _items(exponent, len(self) if isinstance(self, tuple | list) else 1),
                strict=True,
            )
        ]
    if op in ("maximum_", "minimum_"):
        choose = getattr(Tensor, "clamp_min_" if op == "maximum_" else "clamp_max_")

        def run_maximum(self, other):
            for a, b in zip(self, _items(other, len(self)), strict=True):
                choose(a, b)

        return run_maximum
    method = getattr(Tensor, op, None)
    if method is None and op.endswith("_") and hasattr(Tensor, op[:-1]):
        plain = getattr(Tensor, op[:-1])

        def method(a, *args, **kwargs):
            return a.copy_(plain(a, *args, **kwargs))

    if method is None:
        return None
    if op.rstrip("_") in ("addcmul", "addcdiv"):

        def run(self, tensor1, tensor2, value=1):
            values = value.tolist() if isinstance(value, Tensor) and value.ndim else value
            rows = zip(self, tensor1, tensor2, _items(values, len(self)), strict=True)
            return [method(a, b, c, value=v) for a, b, c, v in rows]

    elif op.rstrip("_") == "lerp":

        def run(self, tensors1, weight):
            rows = zip(self, tensors1, _items(weight, len(self)), strict=True)
            return [method(a, b, w) for a, b, w in rows]

    elif op.rstrip("_") in _FOREACH_WITH_OTHER.split():

        def run(self, other, **kwargs):
            pairs = zip(self, _items(other, len(self)), strict=True)
            return [method(a, b, **kwargs) for a, b in pairs]

    else:

        def run(self):
            return [method(t) for t in self]

    if not op.endswith("_"):
        return run

    def run_in_place(*args, **kwargs):
        run(*args, **kwargs)

    return run_in_place


# ----- copies of views


def _copying(name):
    """permute_copy and its relatives: a view in memory of its own."""
    view = getattr(_C, name.removesuffix("_copy"), None)
    if view is None:
        return None

    def run(*args, **kwargs):
        result = view(*args, **kwargs)
        if isinstance(result, tuple | list):
            return [t.clone() for t in result]
        return result.clone()

    return run


def __getattr__(name):
    found = None
    if name.startswith("_") and not name.startswith("_foreach_"):
        import importlib

        private = vars(importlib.import_module("rushlight._private_functions"))
        if not name.startswith("__") and getattr(private.get(name), "__module__", "") == (
            "rushlight._private_functions"
        ):
            return private[name]
    if name.startswith("_foreach_"):
        found = _foreach(name)
    elif name.endswith("_copy"):
        found = _copying(name)
    elif name.startswith("_") and name[1:2].isalpha() and name in _FROM_CORE:
        found = getattr(_C, name)
    if found is None:
        raise AttributeError(name)
    setattr(sys.modules[__name__], name, found)
    return found


# Private functions of PyTorch's that are ours too.
_FROM_CORE = ("_standard_gamma", "_standard_gamma_grad")


publish(globals(), "", ["cholesky", "corrcoef", "cov", "kaiser_window", "renorm"])
