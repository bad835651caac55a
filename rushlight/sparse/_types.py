"""sparse.FloatTensor and its relatives: PyTorch's first names for sparse_coo tensors of a dtype."""

from rushlight import _C
from rushlight._tensor.legacy_types import PREFIXES
from rushlight.sparse._create import sparse_coo_tensor
from rushlight.sparse._tensor import COO, SparseTensor


class _TypedSparseMeta(type):
    def __call__(cls, *args, device=None):
        if args and isinstance(args[0], _C.Tensor):
            indices, values, *size = args
            values = values if isinstance(values, _C.Tensor) else _C.tensor(values)
            return sparse_coo_tensor(indices, values, *size, dtype=cls.dtype, device=device)
        size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return sparse_coo_tensor(tuple(size) or (0,), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, SparseTensor)
            and instance.layout is COO
            and instance.dtype == cls.dtype
        )


def _make(prefix):
    dtype = getattr(_C, PREFIXES[prefix])
    space = {"dtype": dtype, "is_cuda": False, "is_sparse": True, "__module__": "rushlight.sparse"}
    return _TypedSparseMeta(
        f"{prefix}Tensor", (), {**space, "__doc__": f"Tensors of {dtype}, sparse_coo."}
    )


BFloat16Tensor, BoolTensor, ByteTensor = _make("BFloat16"), _make("Bool"), _make("Byte")
CharTensor, DoubleTensor, FloatTensor = _make("Char"), _make("Double"), _make("Float")
HalfTensor, IntTensor, LongTensor = _make("Half"), _make("Int"), _make("Long")
ShortTensor = _make("Short")
