"""Operators over each tensor of a list: _foreach_mul_ and its relatives.

Plain lists (floating tensors of one type and device, no gradient wanted) go through in one pass,
`_C._list_map`; for all others the operator is called for each tensor.
"""

from rushlight import _C, linalg
from rushlight._C import Tensor
from rushlight.utils._foreach_utils import _in_one_pass

_OF_ONE = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p
log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
_OF_TWO = "add clamp_max clamp_min div maximum minimum mul pow sub".split()
_EXACT = 2**53  # integers up to it are floats, too


def _is_list(x):
    return isinstance(x, tuple | list)


def _check_list(name, tensors):
    if not _is_list(tensors):
        raise TypeError(f"{name}: expected a list of tensors, not {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError(f"{name}: there must be at least one tensor, the list is empty")
    if not all(issubclass(kind, Tensor) for kind in {*map(type, tensors)}):
        at, item = next((i, t) for i, t in enumerate(tensors) if not isinstance(t, Tensor))
        raise TypeError(f"{name}: item {at} of the list is no tensor, but {type(item).__name__}")


def _check_lengths(name, self, *others):
    _check_list(name, self)
    for other in others:
        if _is_list(other) and len(other) != len(self):
            raise RuntimeError(f"{name}: there must be one item for each of the {len(self)} "
                               f"tensors, got {len(other)}")  # fmt: skip


def _is_exact(x):
    return isinstance(x, int) and abs(x) <= _EXACT


def _floats(numbers):
    """The numbers as floats, or None where that would not be the same."""
    found = []
    for x in numbers if _is_list(numbers) else [numbers]:
        if isinstance(x, bool) or not (isinstance(x, float) or _is_exact(x)):
            return None
        found.append(float(x))
    return found


def _split(items):
    """(tensors, numbers) for a pass over a list; None: it does not take these."""
    if isinstance(items, Tensor):
        return ([items], ()) if items.ndim == 0 else None
    if _is_list(items) and isinstance(items[0], Tensor):
        return (items, ()) if all(isinstance(t, Tensor) for t in items) else None
    numbers = _floats(items)
    return None if numbers is None else ((), numbers)


def _map(op, in_place, self, other=(), third=(), numbers=(), value=()):
    """The results of one pass, or None."""
    run = _C._list_map_ if in_place else _C._list_map
    done = _in_one_pass(run, op, self, other, third, numbers, value)
    if not done:
        return None
    return self if in_place else tuple(done)


def _each(function, in_place, self, *columns, **kwargs):
    """The function of each tensor, as it is: autocast does not act on the items of lists."""
    rows = zip(self, *(c if _is_list(c) else [c] * len(self) for c in columns), strict=True)
    cast = [d for d in ("cpu", "cuda") if _C._is_autocast_on() and _C.is_autocast_enabled(d)]
    for device in cast:
        _C.set_autocast_enabled(device, False)
    try:
        results = tuple([function(*row, **kwargs) for row in rows])
    finally:
        for device in cast:
            _C.set_autocast_enabled(device, True)
    return self if in_place else results


def _by_one_name(name, value, given, names):
    """An argument that PyTorch's overloads have by several names."""
    for key in given:
        if key not in names or value is not None:
            raise TypeError(f"{name}: unexpected keyword argument {key!r}")
        value = given[key]
    if value is None:
        raise TypeError(f"{name}: the argument {names[0]!r} is missing")
    return value


def _method(op, in_place):
    """The operator of one tensor; clamp_min takes numbers too, as _foreach_maximum does."""
    op = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(op, op)
    return getattr(Tensor, op + "_" if in_place else op)


def _of_one(name, op, in_place):
    method = _method(op, in_place)

    def run(self):
        _check_list(name, self)
        done = _map(op, in_place, self)
        return _each(method, in_place, self) if done is None else done

    return run


def _check_scalar_tensor(name, x):
    if isinstance(x, Tensor) and x.ndim != 0:
        raise RuntimeError(f"{name}: a tensor that stands for a number must have no dimensions, "
                           f"got shape {tuple(x.shape)}")  # fmt: skip


def _of_two(name, op, in_place):
    method = _method(op, in_place)
    takes_alpha = op in ("add", "sub")

    def run(self, other=None, *, alpha=None, **named):
        names = ("exponent",) if op == "pow" else ("other", "scalar", "scalars")
        other = _by_one_name(name, other, named, names)
        if op == "pow" and not in_place and not _is_list(self):  # the base is a number
            _check_list(name, other)
            return _each(lambda b, a: _C.pow(a, b), False, other, self)
        _check_lengths(name, self, other)
        _check_scalar_tensor(name, other)
        parts, value = _split(other), () if alpha is None else _floats(alpha)
        if alpha is not None and (not takes_alpha or (parts and parts[1])):
            raise TypeError(f"{name}: alpha is for the sum with tensors")
        if parts and value is not None:
            done = _map(op, in_place, self, parts[0], (), parts[1], value)
            if done is not None:
                return done
        return _each(method, in_place, self, other, **({} if alpha is None else {"alpha": alpha}))

    return run


def _packed_values(name, value, count):
    """Numbers that came as one tensor."""
    if value.ndim != 1 or value.numel() != count or not value.is_contiguous():
        raise RuntimeError(f"{name}: values that come as a tensor must be a contiguous vector of "
                           f"{count}, got shape {tuple(value.shape)}")  # fmt: skip
    return value.tolist()


def _of_three(name, op, in_place):
    method = _method(op, in_place)

    def run(self, tensor1, tensor2, value=None, **named):
        value = _by_one_name(name, value, named, ("value", "scalars")) if named else value
        _check_lengths(name, self, tensor1, tensor2, value)
        if isinstance(value, Tensor):
            value = _packed_values(name, value, len(self))
        value = 1 if value is None else value
        values = _floats(value)
        done = None if values is None else _map(op, in_place, self, tensor1, tensor2, (), values)
        if done is not None:
            return done
        return _each(lambda a, b, c, v: method(a, b, c, value=v), in_place, self, tensor1, tensor2,
                     value)  # fmt: skip

    return run


def _lerp(name, op, in_place):
    method = _method(op, in_place)

    def run(self, tensors1, weight=None, **named):
        weight = _by_one_name(name, weight, named, ("weight", "weights"))
        _check_lengths(name, self, tensors1, weight)
        _check_scalar_tensor(name, weight)
        parts = _split(weight)
        done = _map(op, in_place, self, tensors1, *parts) if parts else None
        return _each(method, in_place, self, tensors1, weight) if done is None else done

    return run


def _foreach_norm(self, ord=2, dtype=None):
    """The norm of each tensor."""
    _check_list("_foreach_norm", self)
    done = _in_one_pass(_C._list_norms, self, ord, dtype)
    return tuple(done) if done else _each(linalg.vector_norm, False, self, ord, dtype=dtype)


def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of the powers of the magnitudes of each tensor."""
    _check_list("_foreach_powsum", self)

    def of_one(t):
        if not (t.is_floating_point() or t.is_complex()):
            raise _C.DTypeError(
                f"_foreach_powsum: needs floating or complex tensors, got {t.dtype}"
            )
        result = dtype or t.abs().dtype
        wide = t.to(dtype) if dtype else t.float() if t.element_size() == 2 else t
        return wide.abs().pow(ord).sum().to(result)

    return _each(of_one, False, self)


def _foreach_max(self):
    """The largest element of each tensor."""
    _check_list("_foreach_max", self)
    return _each(Tensor.max, False, self)


def _foreach_mm(self, mat2):
    """The product of each two matrices."""
    _check_lengths("_foreach_mm", self, mat2)
    return _each(Tensor.mm, False, self, mat2)


def _foreach_clone(self, *, memory_format=None):
    """A copy of each tensor."""
    _check_list("_foreach_clone", self)
    done = memory_format is None and _in_one_pass(_C._list_clone, self)
    format = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(done) if done else _each(Tensor.clone, False, self, **format)


def _foreach_copy_(self, src, non_blocking=False):
    """Copies each tensor of a list into another's."""
    _check_lengths("_foreach_copy_", self, src)
    if _in_one_pass(_C._list_copy_, self, src):
        return self
    return _each(Tensor.copy_, True, self, src, non_blocking=non_blocking)


def _foreach_zero_(self):
    """Fills each tensor with zeros."""
    _check_list("_foreach_zero_", self)
    done = _in_one_pass(_C._list_fill_, self, 0.0)
    return self if done else _each(Tensor.zero_, True, self)


def _define(op, kind):
    for in_place, doc in ((False, f"{op} of each tensor of a list."),
                          (True, f"{op}, written into each tensor of a list.")):  # fmt: skip
        name = f"_foreach_{op}_" if in_place else f"_foreach_{op}"
        function = kind(name, op, in_place)
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        globals()[name] = function


for _kind, _ops in ((_of_one, _OF_ONE), (_of_two, _OF_TWO), (_of_three, ["addcdiv", "addcmul"]),
                    (_lerp, ["lerp"])):  # fmt: skip
    for _op in _ops:
        _define(_op, _kind)

__all__ = sorted(_name for _name in globals() if _name.startswith("_foreach_"))
