"""Methods and attributes of Tensor that programs ask for now and then, made of others; and those
of PyTorch's that are not there, which say so."""

from rushlight import _C
from rushlight._C import Tensor
from rushlight._missing import COMPATIBILITY_PAGE
from rushlight._tensor import _method
from rushlight.storage import TypedStorage


def _always(value, doc):
    return property(lambda self: value, doc=doc)


for _name in "is_ipu is_maia is_mps is_mtia is_sparse_csr is_vulkan is_xla is_xpu".split():
    setattr(Tensor, _name, _always(False, "False: there are no such tensors."))
Tensor._backward_hooks = _always(None, "Hooks are kept by the core.")
Tensor.__rdiv__ = Tensor.__rtruediv__  # Python 2's name, which PyTorch has kept


@_method
def is_distributed(self):
    """False: a tensor lies in one process."""
    return False


@_method
def is_same_size(self, other):
    """Whether both have the same shape."""
    return self.shape == other.shape


@_method
def sum_to_size(self, *size):
    """The sum over the dimensions that were broadcast from `size`."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = self.ndim - len(size)
    shape = tuple(self.shape)
    fits = extra >= 0 and all(
        s in (1, n) for s, n in zip(size, shape[extra:] if extra >= 0 else (), strict=False)
    )
    if not fits:
        raise _C.ShapeError(f"sum_to_size: size {list(size)} cannot be broadcast to {list(shape)}")
    dims = [*range(extra)]
    dims += [extra + i for i, s in enumerate(size) if s == 1 and shape[extra + i] != 1]
    result = self.sum(dims, keepdim=True) if dims else self
    return result.reshape(size)


@_method
def storage_type(self):
    """The class of the tensor's storage."""
    return TypedStorage


@_method
def _typed_storage(self):
    return self.storage()


@_method
def const_data_ptr(self):
    """The address of the first element."""
    return self.data_ptr()


@_method
def dim_order(self, ambiguity_check=False):
    """The dimensions from the outermost to the innermost in memory."""
    return tuple(sorted(range(self.ndim), key=lambda d: -self.stride(d)))


@_method
def module_load(self, other, assign=False):
    """What a module does with a loaded value for this parameter: `other`, or a copy in place."""
    return other.detach() if assign else self.detach().copy_(other)


@_method
def narrow_copy(self, dim, start, length):
    """narrow, in memory of its own."""
    return self.narrow(dim, start, length).clone()


@_method
def unsafe_chunk(self, chunks, dim=0):
    """chunk, in PyTorch without tracking that the pieces are views."""
    return self.chunk(chunks, dim)


@_method
def unsafe_split(self, split_size, dim=0):
    """split, in PyTorch without tracking that the pieces are views."""
    return self.split(split_size, dim)


@_method
def cholesky(self, upper=False):
    """The factor L of L L^T (or its transpose)."""
    from rushlight import linalg

    return linalg.cholesky(self, upper=upper)


def _linear_algebra(name):
    """A method that is a function of rushlight.linalg._old_names."""

    def method(self, *args, **kwargs):
        from rushlight.linalg import _old_names

        return getattr(_old_names, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"See rushlight.{name}."
    setattr(Tensor, name, method)


for _name in """cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp
        matrix_power orgqr ormqr pinverse qr slogdet svd triangular_solve""".split():
    _linear_algebra(_name)


@_method
def __array_namespace__(self, *, api_version=None):
    """The functions of the Array API standard, for libraries that take any array."""
    from rushlight.array_api import namespace_of

    return namespace_of(self, api_version=api_version)


@_method
def to_device(self, device, /, *, stream=None):
    """The Array API standard's name of ``to``."""
    return self.to(device)


@_method
def stft(self, *args, **kwargs):
    """See rushlight.stft."""
    from rushlight.fft._windowed import stft as run

    return run(self, *args, **kwargs)


@_method
def istft(self, *args, **kwargs):
    """See rushlight.istft."""
    from rushlight.fft._windowed import istft as run

    return run(self, *args, **kwargs)


@_method
def cov(self, *, correction=1, fweights=None, aweights=None):
    """The covariance of the rows."""
    from rushlight._more import cov as run

    return run(self, correction=correction, fweights=fweights, aweights=aweights)


@_method
def corrcoef(self):
    """The correlation of the rows."""
    from rushlight._more import corrcoef as run

    return run(self)


@_method
def renorm(self, p, dim, maxnorm):
    """The slices along dim, those with a larger norm scaled down to maxnorm."""
    from rushlight._more import renorm as run

    return run(self, p, dim, maxnorm)


@_method
def renorm_(self, p, dim, maxnorm):
    """renorm in place."""
    return self.copy_(self.renorm(p, dim, maxnorm))


def _rare_method(name):
    """A method that is a function of rushlight._rare."""

    def method(self, *args, **kwargs):
        from rushlight import _rare

        return getattr(_rare, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"See rushlight.{name}."
    setattr(Tensor, name, method)


for _name in "as_strided_scatter nonzero_static unsafe_split_with_sizes".split():
    _rare_method(_name)


def _private_method(name):
    """A method that is a function of rushlight._private_functions."""

    def method(self, *args, **kwargs):
        from rushlight import _private_functions

        return getattr(_private_functions, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    setattr(Tensor, name, method)


for _name in """_addmm_activation _conj _conj_physical _is_all_true _is_any_true _is_zerotensor
        _neg_view""".split():
    _private_method(_name)


@property
def _grad_dtype(self):
    """The dtype that .grad has: the tensor's own."""
    return self.dtype


@_grad_dtype.setter
def _grad_dtype(self, dtype):
    if dtype is not None and dtype != self.dtype:
        raise NotImplementedError(f"grad_dtype: a gradient has the dtype of its tensor, "
                                  f"{self.dtype}; convert .grad with .to({dtype})")  # fmt: skip


Tensor.grad_dtype = _grad_dtype


@_method
def __setstate__(self, state):
    """Takes over what a pickled tensor held; files older than PyTorch 0.4 call it."""
    if self.requires_grad and not self.is_leaf:
        raise RuntimeError("__setstate__: only leaves of the graph take over a state")
    if len(state) == 4:  # without requires_grad and hooks: a plain tensor
        self.set_(*state)
        return
    self.set_(*state[:-2] if len(state) == 6 else state[0])
    self.requires_grad_(state[-2] if len(state) == 6 else state[1])


@_method
def lstsq(self, other):
    """Removed by PyTorch."""
    raise RuntimeError("lstsq: PyTorch removed this method; use linalg.lstsq, whose arguments are "
                       "the other way round")  # fmt: skip


for _name, _instead in {
    "eig": "linalg.eig",
    "symeig": "linalg.eigh",
    "solve": "linalg.solve",
}.items():

    def _removed(self, *args, _name=_name, _instead=_instead, **kwargs):
        raise RuntimeError(f"{_name}: PyTorch removed this method; use {_instead}")

    _removed.__name__ = _name
    setattr(Tensor, _name, _removed)


def _refuse_device(kind):
    def move(self, device=None, non_blocking=False, memory_format=_C.preserve_format):
        raise _C.DeviceError(
            f"{kind}: there is no such device; this Rushlight has the CPU and CUDA"
        )

    move.__name__ = kind
    return move


for _name in "xpu ipu mtia".split():
    setattr(Tensor, _name, _refuse_device(_name))


class _MissingMethod:
    """Raises an AttributeError that tells more than Python's own, so hasattr stays false."""

    def __init__(self, name, why):
        self.name, self.why = name, why

    def __get__(self, instance, owner):
        raise AttributeError(
            f"'Tensor' object has no attribute '{self.name}': Rushlight does not have it "
            f"({self.why}). {COMPATIBILITY_PAGE} lists what is there",
            name=self.name,
            obj=None,
        )


_MISSING = {
    "tensors are dense: there is no sparse layout; nonzero() gives indices, boolean masks and "
    "index_add_ work with few elements": """ccol_indices coalesce col_indices
        crow_indices dense_dim indices is_coalesced resize_as_sparse_ row_indices smm sparse_dim
        sparse_mask
        sparse_resize_ sparse_resize_and_clear_ sspaddmm to_sparse to_sparse_bsc to_sparse_bsr
        to_sparse_coo to_sparse_csc to_sparse_csr values _coalesced_ _indices _nnz _values""",
    "there is no quantization; float16 and bfloat16 are the small types": """dequantize int_repr
        q_per_channel_axis q_per_channel_scales
        q_per_channel_zero_points q_scale q_zero_point qscheme""",
    "there are no nested tensors; pad with nn.utils.rnn.pad_sequence": "to_padded_tensor",
    "wrapper subclasses are not there; subclass Tensor and give it a "
    "__torch_function__": "_make_wrapper_subclass",
    "the dtype complex32 is not there": "chalf",
    "its layout is not there": "to_mkldnn",
}

for _why, _names in _MISSING.items():
    for _name in _names.split():
        if not hasattr(Tensor, _name):
            setattr(Tensor, _name, _MissingMethod(_name, _why))
