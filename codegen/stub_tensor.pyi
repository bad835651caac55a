class Tensor:
    """A multi-dimensional array of one dtype."""

    __array_priority__: ClassVar[_int]
    data: Tensor
    grad: Tensor | None
    grad_dtype: _dtype | None
    requires_grad: _bool

    def __new__(cls, *args: Any, device: _DeviceLike | None = None) -> Tensor: ...
    @property
    def shape(self) -> Size: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def device(self) -> _device: ...
    @property
    def layout(self) -> _layout: ...
    @property
    def ndim(self) -> _int: ...
    @property
    def itemsize(self) -> _int: ...
    @property
    def nbytes(self) -> _int: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def mH(self) -> Tensor: ...
    @property
    def real(self) -> Tensor: ...
    @property
    def imag(self) -> Tensor: ...
    @property
    def grad_fn(self) -> _Node | None: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def output_nr(self) -> _int: ...
    @property
    def retains_grad(self) -> _bool: ...
    @property
    def is_cpu(self) -> _bool: ...
    @property
    def is_cuda(self) -> _bool: ...
    @property
    def is_ipu(self) -> _bool: ...
    @property
    def is_maia(self) -> _bool: ...
    @property
    def is_meta(self) -> _bool: ...
    @property
    def is_mkldnn(self) -> _bool: ...
    @property
    def is_mps(self) -> _bool: ...
    @property
    def is_mtia(self) -> _bool: ...
    @property
    def is_nested(self) -> _bool: ...
    @property
    def is_quantized(self) -> _bool: ...
    @property
    def is_sparse(self) -> _bool: ...
    @property
    def is_sparse_csr(self) -> _bool: ...
    @property
    def is_vulkan(self) -> _bool: ...
    @property
    def is_xla(self) -> _bool: ...
    @property
    def is_xpu(self) -> _bool: ...
    @property
    def _version(self) -> _int: ...
    @property
    def _base(self) -> Tensor | None: ...
    def __len__(self) -> _int: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __complex__(self) -> _complex: ...
    def __index__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __reversed__(self) -> Tensor: ...
    def __contains__(self, element: Any, /) -> _bool: ...
    def __getitem__(self, index: Any, /) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> Any: ...
    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: _bool = False
    ) -> Any: ...
    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[_int, _int] | None = None,
        dl_device: tuple[_int, _int] | None = None,
        copy: _bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[builtins.type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any: ...
    def __deepcopy__(self, memo: dict[_int, Any]) -> Tensor: ...
    def __add__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __radd__(self, other: _Number, /) -> Tensor: ...
    def __iadd__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __sub__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __rsub__(self, other: _Number, /) -> Tensor: ...
    def __isub__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __mul__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __rmul__(self, other: _Number, /) -> Tensor: ...
    def __imul__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __truediv__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __rtruediv__(self, other: _Number, /) -> Tensor: ...
    def __itruediv__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __floordiv__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __rfloordiv__(self, other: _Number, /) -> Tensor: ...
    def __ifloordiv__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __mod__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __rmod__(self, other: _Number, /) -> Tensor: ...
    def __imod__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __pow__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __rpow__(self, other: _Number, /) -> Tensor: ...
    def __ipow__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __matmul__(self, other: Tensor, /) -> Tensor: ...
    def __rmatmul__(self, other: Tensor, /) -> Tensor: ...
    def __and__(self, other: Tensor | _int, /) -> Tensor: ...
    def __rand__(self, other: _int, /) -> Tensor: ...
    def __iand__(self, other: Tensor | _int, /) -> Tensor: ...
    def __or__(self, other: Tensor | _int, /) -> Tensor: ...
    def __ror__(self, other: _int, /) -> Tensor: ...
    def __ior__(self, other: Tensor | _int, /) -> Tensor: ...
    def __xor__(self, other: Tensor | _int, /) -> Tensor: ...
    def __rxor__(self, other: _int, /) -> Tensor: ...
    def __ixor__(self, other: Tensor | _int, /) -> Tensor: ...
    def __lshift__(self, other: Tensor | _int, /) -> Tensor: ...
    def __rlshift__(self, other: _int, /) -> Tensor: ...
    def __ilshift__(self, other: Tensor | _int, /) -> Tensor: ...
    def __rshift__(self, other: Tensor | _int, /) -> Tensor: ...
    def __rrshift__(self, other: _int, /) -> Tensor: ...
    def __irshift__(self, other: Tensor | _int, /) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __lt__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __le__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __gt__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __ge__(self, other: Tensor | _Number, /) -> Tensor: ...
    def __eq__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]
    def __hash__(self) -> _int: ...
    @overload
    def size(self, dim: None = None) -> Size:
        """The sizes."""
    @overload
    def size(self, dim: _int) -> _int:
        """The size of one dimension."""
    @overload
    def stride(self, dim: None = None) -> tuple[_int, ...]:
        """The steps in memory from one element to the next."""
    @overload
    def stride(self, dim: _int) -> _int:
        """The step in memory along one dimension."""
    def dim(self) -> _int:
        """The number of dimensions."""
    def ndimension(self) -> _int:
        """The number of dimensions."""
    def numel(self) -> _int:
        """The number of elements."""
    def nelement(self) -> _int:
        """The number of elements."""
    def element_size(self) -> _int:
        """The bytes of one element."""
    def data_ptr(self) -> _int:
        """The address of the first element."""
    def const_data_ptr(self) -> _int:
        """The address of the first element."""
    def storage_offset(self) -> _int:
        """Where in the storage the first element lies, in elements."""
    def untyped_storage(self) -> UntypedStorage:
        """The bytes under the tensor; its views share them."""
    def storage(self) -> TypedStorage:
        """The storage, as a list of elements."""
    def storage_type(self) -> builtins.type[TypedStorage]:
        """The class of the tensor's storage."""
    def is_contiguous(self, memory_format: _memory_format | None = None) -> _bool:
        """Whether the elements lie in memory in the order of the format."""
    def dim_order(
        self, ambiguity_check: _bool | Sequence[_memory_format] = False
    ) -> tuple[_int, ...]:
        """The dimensions from the outermost in memory to the innermost."""
    def is_floating_point(self) -> _bool:
        """Whether the dtype is a floating one."""
    def is_complex(self) -> _bool:
        """Whether the dtype is complex."""
    def is_signed(self) -> _bool:
        """Whether the dtype has negative numbers."""
    def is_inference(self) -> _bool:
        """True when made in inference mode."""
    def is_distributed(self) -> _bool:
        """False: a tensor lies in one process."""
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether both have the same shape."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether both show the same memory in the same way."""
    def get_device(self) -> _int:
        """The CUDA device's number, -1 on the CPU."""
    def item(self) -> _int | _float | _bool:
        """The one element as a Python number."""
    def tolist(self) -> Any:
        """The values as nested lists."""
    def numpy(self, *, force: _bool = False) -> _numpy.ndarray[Any, Any]:
        """A NumPy array over the same memory."""
    def requires_grad_(self, requires_grad: _bool = True) -> Tensor:
        """Sets requires_grad; returns the tensor."""
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: _bool | None = None,
        create_graph: _bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Adds to the gradients of the leaves that this tensor was computed from."""
    def retain_grad(self) -> None:
        """Keeps the gradient of a tensor that is no leaf."""
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> _RemovableHandle:
        """Calls hook(grad) when the gradient of this tensor is there. Returns a handle."""
    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Tensor], None]
    ) -> _RemovableHandle:
        """Calls hook(tensor) when a gradient was added to the leaf's. Returns a handle."""
    def as_subclass(self, cls: builtins.type[_T], /) -> _T:
        """The same values as an object of a subclass."""
    @staticmethod
    def _make_subclass(cls: builtins.type[_T], data: Tensor, require_grad: _bool = False) -> _T: ...
    @staticmethod
    def _make_wrapper_subclass(
        cls: builtins.type[_T], size: Sequence[_int], *args: Any, **kwargs: Any
    ) -> _T: ...
    def module_load(self, other: Tensor, assign: _bool = False) -> Tensor:
        """What load_state_dict puts in this tensor's place."""
    def new(self, *args: Any, device: _DeviceLike | None = None) -> Tensor:
        """A tensor of the same dtype and device."""
    def new_tensor(
        self,
        data: Any,
        *,
        dtype: _dtype | None = None,
        device: _DeviceLike | None = None,
        requires_grad: _bool = False,
    ) -> Tensor:
        """A tensor with a copy of the data, by default of the same dtype and device."""
    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> str:
        """The name of the tensor's type."""
    @overload
    def type(self, dtype: _dtype | str | Any, non_blocking: _bool = False) -> Tensor:
        """Self in another dtype."""
    def cuda(
        self,
        device: _DeviceLike | None = None,
        non_blocking: _bool = False,
        memory_format: _memory_format = ...,
    ) -> Tensor:
        """Self on a CUDA device."""
    def ipu(
        self,
        device: _DeviceLike | None = None,
        non_blocking: _bool = False,
        memory_format: _memory_format = ...,
    ) -> NoReturn:
        """Raises: there are no such devices."""
    def mtia(
        self,
        device: _DeviceLike | None = None,
        non_blocking: _bool = False,
        memory_format: _memory_format = ...,
    ) -> NoReturn:
        """Raises: there are no such devices."""
    def xpu(
        self,
        device: _DeviceLike | None = None,
        non_blocking: _bool = False,
        memory_format: _memory_format = ...,
    ) -> NoReturn:
        """Raises: there are no such devices."""
    def to_device(self, device: _DeviceLike, /, *, stream: Any = None) -> Tensor:
        """Self on another device, as the array API spells it."""
    def coalesce(self) -> Tensor:
        """The tensor with its indices in order, and values of the same index added."""
    def is_coalesced(self) -> _bool:
        """Whether the indices are in order and each there once, as far as is known."""
    def indices(self) -> Tensor:
        """The indices of a coalesced tensor: one row per sparse dim."""
    def values(self) -> Tensor:
        """The values of a sparse tensor."""
    def crow_indices(self) -> Tensor:
        """Where each row begins and ends."""
    def col_indices(self) -> Tensor:
        """The column of each value."""
    def ccol_indices(self) -> Tensor:
        """Where each column begins and ends."""
    def row_indices(self) -> Tensor:
        """The row of each value."""
    def sparse_dim(self) -> _int:
        """How many dims have indices."""
    def dense_dim(self) -> _int:
        """How many dims each value has."""
    def sparse_mask(self, mask: Tensor) -> Tensor:
        """The values at the places of a sparse tensor."""
    def sparse_resize_(self, size: Sequence[_int], sparse_dim: _int, dense_dim: _int) -> Tensor:
        """Other sizes, in place; elements stay where they are."""
    def sparse_resize_and_clear_(
        self, size: Sequence[_int], sparse_dim: _int, dense_dim: _int
    ) -> Tensor:
        """Other sizes, in place, and no elements."""
    def resize_as_sparse_(self, other: Tensor) -> Tensor:
        """The sizes of another sparse tensor, in place."""
    def smm(self, mat: Tensor) -> Tensor:
        """The product of a sparse and a dense matrix, as a sparse one."""
    def sspaddmm(
        self, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1
    ) -> Tensor:
        """beta * self + alpha * (mat1 @ mat2), as a sparse tensor."""
    def to_sparse(
        self,
        sparse_dim: _int | None = None,
        *,
        layout: _layout | None = None,
        blocksize: Sequence[_int] | None = None,
        dense_dim: _int | None = None,
    ) -> Tensor:
        """The tensor in a sparse layout: sparse_coo, unless another one is given."""
    def to_sparse_coo(self) -> Tensor:
        """The tensor in layout sparse_coo."""
    def to_sparse_csr(self, dense_dim: _int | None = None) -> Tensor:
        """The matrix in layout sparse_csr."""
    def to_sparse_csc(self, dense_dim: _int | None = None) -> Tensor:
        """The matrix in layout sparse_csc."""
    def to_sparse_bsr(
        self, blocksize: Sequence[_int] | None = None, dense_dim: _int | None = None
    ) -> Tensor:
        """The matrix in layout sparse_bsr."""
    def to_sparse_bsc(
        self, blocksize: Sequence[_int] | None = None, dense_dim: _int | None = None
    ) -> Tensor:
        """The matrix in layout sparse_bsc."""
    def to_padded_tensor(
        self, padding: _float, output_size: Sequence[_int] | None = None, out: Tensor | None = None
    ) -> Tensor:
        """A nested tensor as one of one size, filled up with `padding` behind shorter parts."""
    def _nnz(self) -> _int: ...
    def _indices(self) -> Tensor: ...
    def _values(self) -> Tensor: ...
    def _coalesced_(self, coalesced: _bool) -> Tensor: ...
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _bool | None = True) -> Tensor:
        """Self: every tensor is dense."""
    def show(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """The tensor as a picture: of [height, width], [channels, height, width] or a batch.

        Notebooks draw what is returned, terminals print it, and with a path it is written as PNG.
        Values between 0 and 1 and bytes are taken as they are, others from the smallest to the
        largest; NaN and infinity are red. Needs NumPy."""
    def _repr_html_(self) -> str:
        """The tensor as notebooks show it: shape, range, histogram, how many NaN."""
    def pin_memory(self, device: _DeviceLike | None = None) -> Tensor:
        """A copy in memory that the GPU can read."""
    def is_pinned(self, device: _DeviceLike | None = None) -> _bool:
        """Whether the GPU can read the memory."""
    def record_stream(self, stream: Any) -> None:
        """Says that a CUDA stream uses the memory."""
    def share_memory_(self) -> Tensor:
        """Moves the bytes to memory that processes share."""
    def is_shared(self) -> _bool:
        """Whether the bytes lie in memory that processes share."""
    def set_(
        self,
        source: Any = None,
        storage_offset: _int = 0,
        size: Sequence[_int] | None = None,
        stride: Sequence[_int] | None = None,
    ) -> Tensor:
        """Shows other memory from now on."""
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Replaces each element by what the function returns for it."""
    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Replaces each element by what the function returns for it and the other's."""
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
        """Replaces each element by what the function returns for it and the two others'."""
    @overload
    def sum_to_size(self, *size: _int) -> Tensor:
        """The sum over the dimensions that were broadcast from `size`."""
    @overload
    def sum_to_size(self, size: Sequence[_int], /) -> Tensor:
        """The sum over the dimensions that were broadcast from `size`."""
    def narrow_copy(self, dim: _int, start: _int, length: _int) -> Tensor:
        """A copy of a part along a dimension."""
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor:
        """The coordinates of the elements that are not zero, as rows."""
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]:
        """The coordinates of the elements that are not zero, one tensor per dim."""
    def dequantize(self) -> Tensor:
        """The numbers of a quantized tensor, in float32."""
    def int_repr(self) -> Tensor:
        """The integers of a quantized tensor."""
    def q_scale(self) -> _float:
        """The scale of a quantized tensor that has one."""
    def q_zero_point(self) -> _int:
        """The integer that stands for 0."""
    def q_per_channel_scales(self) -> Tensor:
        """The scales of the channels."""
    def q_per_channel_zero_points(self) -> Tensor:
        """The zero points of the channels."""
    def q_per_channel_axis(self) -> _int:
        """The dim of the channels."""
    def qscheme(self) -> _QuantizationScheme:
        """per_tensor_affine or per_channel_affine."""
    def hash_tensor(
        self, dim: _int | Sequence[_int] | None = (), *, keepdim: _bool = False, mode: _int = 0
    ) -> Tensor:
        """The exclusive or of the elements' bits."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1) -> Tensor:
        """The first coordinates of the elements that are not zero, filled up to a size."""
    def as_strided_scatter(
        self,
        src: Tensor,
        size: Sequence[_int],
        stride: Sequence[_int],
        storage_offset: _int | None = None,
    ) -> Tensor:
        """A copy with src at the places of as_strided."""
    @overload
    def unique(
        self,
        sorted: _bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: _int | None = None,
    ) -> Tensor:
        """The distinct elements."""
    @overload
    def unique(
        self,
        sorted: _bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The distinct elements, with what else was asked for."""
    @overload
    def unique(
        self,
        sorted: _bool = True,
        *,
        return_inverse: Literal[False] = False,
        return_counts: Literal[True],
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The distinct elements, with what else was asked for."""
    @overload
    def unique(
        self,
        sorted: _bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[True],
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The distinct elements, with what else was asked for."""
    @overload
    def unique(
        self,
        sorted: _bool = True,
        return_inverse: _bool = False,
        return_counts: _bool = False,
        dim: _int | None = None,
    ) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]:
        """The distinct elements, with what else was asked for."""
    @overload
    def unique_consecutive(
        self,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: _int | None = None,
    ) -> Tensor:
        """The elements without repetitions."""
    @overload
    def unique_consecutive(
        self,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The elements without repetitions, with what else was asked for."""
    @overload
    def unique_consecutive(
        self,
        *,
        return_inverse: Literal[False] = False,
        return_counts: Literal[True],
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The elements without repetitions, with what else was asked for."""
    @overload
    def unique_consecutive(
        self,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[True],
        dim: _int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The elements without repetitions, with what else was asked for."""
    @overload
    def unique_consecutive(
        self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None
    ) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]:
        """The elements without repetitions, with what else was asked for."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Pieces of about the same size."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Pieces of a size."""
    def unsafe_split_with_sizes(
        self, split_sizes: Sequence[_int], dim: _int = 0
    ) -> tuple[Tensor, ...]:
        """Pieces of these sizes."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> Tensor:
        """The combinations of elements, one per row."""
    def norm(
        self,
        p: _float | str | None = "fro",
        dim: _int | Sequence[_int] | None = None,
        keepdim: _bool = False,
        dtype: _dtype | None = None,
    ) -> Tensor:
        """The norm of vectors or matrices."""
    def renorm(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """Slices whose norm is larger than maxnorm, made as long."""
    def renorm_(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """Slices whose norm is larger than maxnorm, made as long, in place."""
    def cross(self, other: Tensor, dim: _int | None = None) -> Tensor:
        """The cross product."""
    def quantile(
        self,
        q: _float | Tensor,
        dim: _int | None = None,
        keepdim: _bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """The q-th quantiles."""
    def nanquantile(
        self,
        q: _float | Tensor,
        dim: _int | None = None,
        keepdim: _bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """The q-th quantiles, NaN left out."""
    def cov(
        self,
        *,
        correction: _int = 1,
        fweights: Tensor | None = None,
        aweights: Tensor | None = None,
    ) -> Tensor:
        """The covariance of the rows."""
    def corrcoef(self) -> Tensor:
        """The correlation of the rows."""
    def stft(
        self,
        n_fft: _int,
        hop_length: _int | None = None,
        win_length: _int | None = None,
        window: Tensor | None = None,
        center: _bool = True,
        pad_mode: str = "reflect",
        normalized: _bool = False,
        onesided: _bool | None = None,
        return_complex: _bool | None = None,
        align_to_window: _bool | None = None,
    ) -> Tensor:
        """The short-time Fourier transform."""
    def istft(
        self,
        n_fft: _int,
        hop_length: _int | None = None,
        win_length: _int | None = None,
        window: Tensor | None = None,
        center: _bool = True,
        normalized: _bool = False,
        onesided: _bool | None = None,
        length: _int | None = None,
        return_complex: _bool = False,
    ) -> Tensor:
        """The signal of a short-time Fourier transform."""
    def cholesky(self, upper: _bool = False) -> Tensor:
        """The Cholesky factor."""
    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """The inverse, from the Cholesky factor."""
    def cholesky_solve(self, input2: Tensor, upper: _bool = False) -> Tensor:
        """The solution, from the Cholesky factor."""
    def det(self) -> Tensor:
        """The determinant."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant."""
    def slogdet(self) -> _return_types.slogdet:
        """Sign and logarithm of the determinant's absolute value."""
    def inverse(self) -> Tensor:
        """The inverse."""
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """The pseudo-inverse."""
    def matrix_exp(self) -> Tensor:
        """The matrix exponential."""
    def matrix_power(self, n: _int) -> Tensor:
        """The n-th power of a matrix."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> tuple[Tensor, ...]:
        """The LU factors, packed, and the pivots."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """The solution, from the LU factors."""
    def qr(self, some: _bool = True) -> _return_types.qr:
        """The QR factors."""
    def geqrf(self) -> _return_types.geqrf:
        """The QR factors, as reflectors."""
    def orgqr(self, input2: Tensor) -> Tensor:
        """Q, of reflectors."""
    def ormqr(
        self, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False
    ) -> Tensor:
        """A product with Q, of reflectors."""
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> _return_types.svd:
        """Singular values and vectors."""
    def triangular_solve(
        self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False
    ) -> _return_types.triangular_solve:
        """The solution of a triangular system."""
    def eig(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Removed by PyTorch; use linalg.eig."""
    def symeig(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Removed by PyTorch; use linalg.eigh."""
    def solve(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Removed by PyTorch; use linalg.solve."""
    def lstsq(self, other: Tensor) -> NoReturn:
        """Removed by PyTorch; use linalg.lstsq."""
    # <methods>
