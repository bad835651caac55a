"""cuda.FloatTensor and its relatives: old names for a dtype on a GPU."""

from rushlight import _C
from rushlight._tensor import legacy_types


def _typed(name, dtype):
    class Meta(type):
        def __call__(cls, *args, **kwargs):
            return _C._legacy_tensor(f"cuda.{name}", dtype, args, _C.device("cuda"))

        def __instancecheck__(cls, instance):
            return (
                isinstance(instance, _C.Tensor)
                and instance.dtype == dtype
                and instance.device.type == "cuda"
            )

    return Meta(name, (), {"dtype": dtype, "is_cuda": True, "__module__": "rushlight.cuda"})


TYPES = {name: _typed(name, cls.dtype) for name, cls in legacy_types.TYPES.items()}
