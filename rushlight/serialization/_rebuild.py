"""What the functions and classes that files name do here.

The arguments come from a file that may be made to do harm, so each function checks what it is given
before it uses it: none of them runs code of the file's choice, or takes memory that the file's own
size does not justify.
"""

import copyreg
import math
import pickle
from collections import Counter, OrderedDict

from rushlight import _C
from rushlight._C import Tensor, UntypedStorage
from rushlight._quantized.schemes import SCHEMES
from rushlight._tensor.legacy_types import TYPES as LEGACY_TENSORS
from rushlight.serialization import _names
from rushlight.serialization._pickle_reader import Global
from rushlight.storage import TypedStorage

_LARGEST = 1 << 60  # bytes that a stride may step over


def refuse(text):
    return pickle.UnpicklingError(text)


def _is_int(value):
    return type(value) is int


def _ints(what, value):
    if not isinstance(value, tuple | list) or not all(map(_is_int, value)):
        raise refuse(f"the {what} of a tensor must be a tuple of ints, got {value!r:.80}")
    return tuple(value)


# Tensors.


def _tensor(storage, dtype, offset, size, stride):
    """A tensor over a storage of the file; the core checks the geometry against the bytes."""
    size, stride = _ints("sizes", size), _ints("strides", stride)
    if not _is_int(offset) or not isinstance(dtype, _C.dtype):
        raise refuse("the offset of a tensor must be an int and its dtype a dtype")
    if not isinstance(storage, TypedStorage | UntypedStorage):
        raise refuse(f"a tensor needs a storage, got {type(storage).__name__}")
    storage = storage.untyped() if isinstance(storage, TypedStorage) else storage
    item = dtype.itemsize
    if not 0 <= offset <= storage.nbytes() // item:
        raise RuntimeError(
            f"load: a tensor starts at element {offset} of a storage of {storage.nbytes()} bytes"
        )
    if any(n < 0 for n in size) or any(not 0 <= step * item < _LARGEST for step in stride):
        raise RuntimeError(f"load: a tensor cannot have sizes {size} and strides {stride}")
    try:
        if storage.device.type == "meta":
            return _C.empty_strided(size, stride, dtype=dtype, device="meta")
        return _C._tensor_from_storage(storage, dtype, offset, size, stride)
    except (RuntimeError, ValueError, IndexError, OverflowError) as error:
        raise RuntimeError(
            f"load: a tensor of sizes {size}, strides {stride} and offset {offset} does not fit "
            f"its storage of {storage.nbytes()} bytes: {error}"
        ) from None


def _finished(tensor, requires_grad, metadata):
    if metadata is not None:
        if type(metadata) is not dict or not set(metadata) <= {"conj", "neg"}:
            raise refuse(f"a tensor has metadata that is not understood: {metadata!r:.80}")
        # PyTorch conjugates and negates lazily; here the values themselves are written.
        if True in metadata.values():
            _check_copy(tensor)
        tensor = tensor.conj().resolve_conj() if metadata.get("conj") else tensor
        tensor = tensor.neg() if metadata.get("neg") else tensor
    return tensor.requires_grad_() if requires_grad is True else tensor


def _check_copy(tensor):
    """Raises where a copy would be larger than the storage: an expanded tensor can be of any
    size over four bytes."""
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise RuntimeError(
            f"load: a tensor of sizes {tuple(tensor.shape)} would have to be copied, and its "
            f"storage has {tensor.untyped_storage().nbytes()} bytes"
        )


def rebuild_tensor(reader, storage, offset, size, stride):
    if not isinstance(storage, TypedStorage):
        raise refuse(f"a tensor needs a storage of a dtype, got {type(storage).__name__}")
    return _tensor(storage, storage.dtype, offset, size, stride)


def rebuild_tensor_v2(
    reader, storage, offset, size, stride, requires_grad, hooks, metadata=None
):  # fmt: skip
    tensor = rebuild_tensor(reader, storage, offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def rebuild_tensor_v3(
    reader, storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None
):
    return _finished(_tensor(storage, dtype, offset, size, stride), requires_grad, metadata)


def rebuild_meta_tensor(reader, dtype, size, stride, requires_grad):
    size, stride = _ints("sizes", size), _ints("strides", stride)
    if not isinstance(dtype, _C.dtype) or any(n < 0 for n in size + stride):
        raise refuse("a tensor on the meta device has no dtype, or negative sizes")
    if any(step * dtype.itemsize >= _LARGEST for step in stride) or math.prod(size) >= _LARGEST:
        raise RuntimeError(f"load: a tensor cannot have sizes {size} and strides {stride}")
    tensor = _C.empty_strided(size, stride, dtype=dtype, device="meta")
    return tensor.requires_grad_() if requires_grad is True else tensor


def rebuild_device_tensor(reader, data, dtype, device, requires_grad):
    """A tensor of a device without storages of its own (XLA and such), which travels by the CPU."""
    if not isinstance(data, Tensor) or not isinstance(dtype, _C.dtype):
        raise refuse("a device's tensor needs a tensor and a dtype")
    if data.dtype != dtype:
        _check_copy(data)
    tensor = data.to(dtype)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _parameter(data, requires_grad):
    if not isinstance(data, Tensor):
        raise refuse(f"a Parameter needs a tensor, got {type(data).__name__}")
    try:
        from rushlight.nn.parameter import Parameter
    except ImportError:
        return data.requires_grad_() if requires_grad else data
    return Parameter(data, requires_grad is True)


def rebuild_parameter(reader, data, requires_grad, hooks):
    return _parameter(data, requires_grad)


def rebuild_parameter_with_state(reader, data, requires_grad, hooks, state):
    return _with_state(_parameter(data, requires_grad), state)


def rebuild_from_type(reader, function, cls, args, state):
    """A tensor of a subclass, or with attributes."""
    function = getattr(function, "func", function)  # TrustedNames gives partials
    if not any(function is known for known in _TENSOR_FUNCTIONS) or type(args) is not tuple:
        raise refuse("a tensor with attributes names no function to rebuild it")
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise refuse(f"a tensor with attributes names {cls!r:.80}, which is no class of tensors")
    tensor = function(reader, *args)
    if cls is not type(tensor):
        tensor = Tensor._make_subclass(cls, tensor, tensor.requires_grad)
    set_state = getattr(cls, "__setstate__", None)
    if set_state is not None and set_state is not getattr(Tensor, "__setstate__", None):
        tensor.__setstate__(state)
        return tensor
    return _with_state(tensor, state)


def _with_state(tensor, state):
    slots = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    if not isinstance(state, dict | None) or not isinstance(slots, dict | None):
        raise refuse("the attributes of a tensor must be a dict")
    if not all(type(name) is str for name in [*(state or ()), *(slots or ())]):
        raise refuse("the attributes of a tensor must have names")
    if state:
        # Not setattr: that would let a file write to properties such as data and grad.
        tensor.__dict__.update(state)
    allowed = copyreg._slotnames(type(tensor)) if slots else ()
    for name, value in (slots or {}).items():
        if name not in allowed:
            raise refuse(f"{type(tensor).__name__} has no slot {name!r:.80}")
        setattr(tensor, name, value)
    return tensor


def rebuild_sparse_tensor(reader, layout, data):
    """A sparse tensor of its parts, which must keep all rules of its layout."""
    from rushlight.sparse._create import rebuild

    coo = layout is _C.sparse_coo
    parts = 2 if coo else 3
    if not isinstance(layout, _C.layout) or layout is _C.strided or type(data) is not tuple or (
        len(data) not in ((3, 4) if coo else (4,))
        or not all(isinstance(t, Tensor) and t.layout is _C.strided for t in data[:parts])
    ):  # fmt: skip
        raise refuse("a sparse tensor needs its layout, indices, values and size")
    _ints("sizes", data[parts])
    return rebuild(layout, data)


def rebuild_jagged(reader, given):
    """A nested tensor of the layout jagged, out of the arguments of PyTorch's class."""
    from rushlight.nested import rebuild

    tensors = [given.get(n) for n in ("values", "offsets")] if type(given) is dict else [None]
    lengths = given.get("lengths") if type(given) is dict else None
    if not all(isinstance(t, Tensor) for t in tensors) or type(given.get("_ragged_idx")) is not int:
        raise refuse("a nested tensor needs values, offsets and its ragged dim")
    try:
        made = rebuild(*tensors, lengths, given["_ragged_idx"], True)
    except (RuntimeError, ValueError) as error:
        raise refuse(f"a nested tensor is wrong: {error}") from None
    return made.requires_grad_(bool(given.get("requires_grad", False)))


def rebuild_nested_tensor(reader, buffer, sizes, strides, starts):
    """A nested tensor of the layout strided."""
    from rushlight.nested import rebuild_strided

    try:
        return rebuild_strided(buffer, sizes, strides, starts)
    except (RuntimeError, ValueError) as error:
        raise refuse(f"a nested tensor is wrong: {error}") from None


def rebuild_quantized_tensor(reader, storage, offset, size, stride, quantizer, grad, hooks):
    """A quantized tensor of its integers, with a scheme, scales, zero points and their dim."""
    from rushlight._quantized.tensor import QuantizedTensor, rebuilt_quantizer

    if not isinstance(storage, TypedStorage) or type(quantizer) is not tuple:
        raise refuse("a quantized tensor needs a storage of a dtype, and how it is quantized")
    integers = _tensor(storage, storage.dtype, offset, size, stride)
    made = rebuilt_quantizer(integers, *quantizer) if len(quantizer) in (3, 4) else None
    if made is None:
        raise refuse("how a tensor is quantized is not understood")
    return QuantizedTensor.of(integers, made)


_TENSOR_FUNCTIONS = (
    rebuild_tensor,
    rebuild_tensor_v2,
    rebuild_tensor_v3,
    rebuild_parameter,
    rebuild_parameter_with_state,
    rebuild_meta_tensor,
    rebuild_device_tensor,
)


# Plain objects.


def layout(name):
    found = _names.LAYOUTS.get(name.rpartition(".")[2]) if type(name) is str else None
    if found is None:
        raise RuntimeError(f"load: Rushlight has no layout {name!r:.80}")
    return found


def _layout(reader, name):
    return layout(name)


def _ordered_dict(reader, items=()):
    return _filled(reader, OrderedDict(), items)


def _counter(reader, items=()):
    return _filled(reader, Counter(), items)


def _filled(reader, target, items):
    if isinstance(items, dict):
        items = items.items()
    elif type(items) not in (list, tuple):  # above all no tensor, which may be endless
        raise refuse(f"a dict needs a list of pairs, got {type(items).__name__}")
    for key, value in items:
        reader.check_key(key)
        target[key] = value
    return target


def _members(reader, items):
    if type(items) not in (list, tuple, set, frozenset):
        raise refuse(f"a set needs a list of members, got {type(items).__name__}")
    for item in items:
        reader.check_key(item)
    return items


def _set(reader, items=()):
    return set(_members(reader, items))


def _frozenset(reader, items=()):
    return frozenset(_members(reader, items))


_ENCODINGS = {"latin1", "latin-1", "ascii", "utf-8", "utf8"}


def _encode(reader, text, encoding="utf-8"):
    """bytes, which protocol 2 writes as text. Other codecs could unpack or translate."""
    if type(text) is not str or encoding not in _ENCODINGS:
        raise refuse(f"_codecs.encode needs a str and one of {sorted(_ENCODINGS)}")
    return text.encode(encoding)


def _bytes(reader, *args):
    if args:
        raise refuse("bytes may only be called without arguments")
    return b""


def _bytearray(reader, *args):
    if not args:
        return bytearray()
    if len(args) == 1 and isinstance(args[0], bytes):
        return bytearray(args[0])
    return bytearray(_encode(reader, *args))  # in particular no bytearray(10**12)


def _complex(reader, *args):
    if not all(type(arg) in (int, float) for arg in args):
        raise refuse("complex needs numbers")
    return complex(*args)


def _size(reader, sizes=()):
    sizes = _ints("sizes", sizes)
    if any(abs(n) >= 1 << 63 for n in sizes):
        raise refuse(f"sizes must fit into 64 bits, got {sizes}")
    return _C.Size(sizes)


def _device(reader, kind, index=None):
    if type(kind) is not str or not (index is None or _is_int(index)):
        raise refuse("a device needs a name and an index")
    return _C.device(kind) if index is None else _C.device(kind, index)


def _table():
    """{full name in the file: Global} for everything that load knows by itself."""
    calls = {
        "collections.OrderedDict": (OrderedDict, _ordered_dict),
        "collections.Counter": (Counter, _counter),
        "builtins.set": (set, _set),
        "builtins.frozenset": (frozenset, _frozenset),
        "builtins.bytes": (bytes, _bytes),
        "builtins.bytearray": (bytearray, _bytearray),
        "builtins.complex": (complex, _complex),
        "_codecs.encode": (_encode, _encode),
        "torch.Size": (_C.Size, _size),
        "torch.device": (_C.device, _device),
        "torch.Tensor": (Tensor, None),
        "torch.serialization._get_layout": (_layout, _layout),
        "torch._tensor._rebuild_from_type_v2": (rebuild_from_type, rebuild_from_type),
        "torch.tensor._rebuild_from_type_v2": (rebuild_from_type, rebuild_from_type),
        "torch.nested._internal.nested_tensor._rebuild_njt": (rebuild_jagged, rebuild_jagged),
    }
    functions = {
        "_rebuild_tensor": rebuild_tensor,
        "_rebuild_tensor_v2": rebuild_tensor_v2,
        "_rebuild_tensor_v3": rebuild_tensor_v3,
        "_rebuild_parameter": rebuild_parameter,
        "_rebuild_parameter_with_state": rebuild_parameter_with_state,
        "_rebuild_meta_tensor_no_storage": rebuild_meta_tensor,
        "_rebuild_device_tensor_from_cpu_tensor": rebuild_device_tensor,
        "_rebuild_sparse_tensor": rebuild_sparse_tensor,
        "_rebuild_qtensor": rebuild_quantized_tensor,
        "_rebuild_nested_tensor": rebuild_nested_tensor,
    }
    for name, function in functions.items():
        calls[f"torch._utils.{name}"] = function, function
    named = (_names.DTYPES, _names.QUANTIZED_DTYPES, SCHEMES, _names.MEMORY_FORMATS)
    for names in (*named, _names.LAYOUTS, LEGACY_TENSORS):
        for name, value in names.items():
            calls[f"torch.{name}"] = value, None
    for name, value in _names.STORAGE_TYPES.items():
        calls[name] = value, None
    return {name: Global(name, value, call) for name, (value, call) in calls.items()}


TABLE = _table()
