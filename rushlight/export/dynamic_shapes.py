"""Which sizes of the inputs may change: Dim, and the forms in which `dynamic_shapes` is given."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from rushlight._C import Tensor
from rushlight.export._errors import ConstraintViolationError, UserError
from rushlight.utils._pytree import tree_flatten

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]

MOST = sys.maxsize  # the range of a Dim without a max ends here


class DimHint:
    """How a size is treated that has no Dim of its own: see Dim.AUTO and its like. Called with min
    and max, it gives a hint with a range."""

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        if self.kind == "STATIC":
            raise TypeError("Dim.STATIC: a size that stays has no range; leave min and max out")
        _check_range(f"Dim.{self.kind}", min, max)
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        return f"Dim.{self.kind}"


class Dim:
    """A size of the inputs that may change, under a name: `Dim("batch", min=2, max=64)`.

    Inputs that share a Dim have the same size there. `2 * batch`, `batch + 1` and `batch - 1` are
    sizes that follow it. `Dim.AUTO` leaves it to export whether a size may change, `Dim.DYNAMIC`
    demands that it may, `Dim.STATIC` keeps it.

    Arguments:
        name: its name.
        min, max: its range.

    Example:
        >>> rl.export.Dim("batch", min=2, max=64)
        Dim('batch', min=2, max=64)
    """

    AUTO: ClassVar[DimHint] = DimHint("AUTO")
    DYNAMIC: ClassVar[DimHint] = DimHint("DYNAMIC")
    STATIC: ClassVar[DimHint] = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"Dim: the name must be an identifier, got {name!r}")
        _check_range(f"Dim({name!r})", min, max)
        self.__name__ = name
        self.min = 0 if min is None else min
        self.max = MOST if max is None else max

    # As a size: factor * root + offset.
    @property
    def root(self) -> Dim:
        """The Dim that this one follows: itself."""
        return self

    factor, offset = 1, 0

    def __add__(self, other: int) -> Dim:
        return _Derived(self.root, self.factor, self.offset + _whole(self, "+", other))

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self + -_whole(self, "-", other)

    def __rsub__(self, other: int) -> Dim:
        raise NotImplementedError(
            f"Dim: {other} - {self.__name__} falls where {self.__name__} grows; sizes must grow"
        )

    def __mul__(self, other: int) -> Dim:
        if _whole(self, "*", other) <= 0:
            raise NotImplementedError(f"Dim: {other} * {self.__name__} is no size that can grow")
        return _Derived(self.root, self.factor * other, self.offset * other)

    __rmul__ = __mul__

    def _readable(self, name: str, min_: int, max_: int) -> str:
        text = "".join(
            f", {key}={value}"
            for key, value, without in (("min", min_, 0), ("max", max_, MOST))
            if value != without
        )
        return f"Dim('{name}'{text})"

    def __repr__(self) -> str:
        return self._readable(self.__name__, self.min, self.max)


class _Derived(Dim):
    """factor * root + offset."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self._root, self.factor, self.offset = root, factor, offset
        text = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        if offset:
            text += f" {'+' if offset > 0 else '-'} {abs(offset)}"
        self.__name__ = text
        self.min = max(factor * root.min + offset, 0)
        self.max = MOST if root.max == MOST else factor * root.max + offset

    @property
    def root(self) -> Dim:
        """The Dim that this one follows."""
        return self._root

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each of the names.

    Arguments:
        names: the names.
        min, max: the range of each.

    Example:
        >>> rl.export.dims("batch", "length", max=64)
        (Dim('batch', max=64), Dim('length', max=64))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


def _check_range(what, low, high):
    for key, value in (("min", low), ("max", high)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{what}: {key} must be an int, got {type(value).__name__}")
    if low is not None and low < 0:
        raise ValueError(f"{what}: min must be at least 0, got {low}")
    if low is not None and high is not None and low > high:
        raise ValueError(f"{what}: min={low} is more than max={high}")


def _whole(dim, sign, other):
    if isinstance(other, bool) or not isinstance(other, int):
        raise NotImplementedError(
            f"Dim: {dim.__name__} {sign} {other!r}: only whole numbers are added to and multiplied "
            f"with a Dim, got {type(other).__name__}"
        )
    return other


class Input(NamedTuple):
    """One tensor among the inputs."""

    path: str  # "x", "state['h']": for messages
    name: str  # "x", "state_h": of the program's input
    tensor: Tensor
    dims: list[Any]  # of each dimension: a Dim, a hint, or None


class ShapesCollection:
    """Shapes by tensor: `shapes[x] = {0: batch}`, wherever x stands in the inputs.

    export takes it as its dynamic_shapes.

    Example:
        >>> x = rl.zeros(2, 3)
        >>> shapes = rl.export.ShapesCollection()
        >>> shapes[x] = {0: rl.export.Dim("batch")}
        >>> program = rl.export.export(nn.Linear(3, 1), (x,), dynamic_shapes=shapes)
        >>> program.module()(rl.zeros(7, 3)).shape
        rushlight.Size([7, 1])
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if id(t) in self._shapes and self._shapes[id(t)][1] != shape:
            raise ValueError("ShapesCollection: this tensor has another shape here already")
        self._shapes[id(t)] = (t, shape)

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """What export takes, for these inputs."""
        from rushlight.export._inputs import arguments_of

        found: set[int] = set()

        def shape_of(leaf: Any) -> Any:
            if id(leaf) in self._shapes:
                found.add(id(leaf))
                return self._shapes[id(leaf)][1]
            return None

        shapes = {
            name: _mapped(shape_of, value)
            for name, value in arguments_of(m, args, kwargs or {}).items()
        }
        if len(found) < len(self._shapes):
            raise ValueError("ShapesCollection: it has shapes of tensors that are no inputs")
        return shapes


class AdditionalInputs:
    """Further inputs of a module: sizes that differ between them and the first are dynamic.

    export takes it as its dynamic_shapes.

    Example:
        >>> further = rl.export.AdditionalInputs()
        >>> further.add((rl.zeros(5, 3),))
        >>> program = rl.export.export(nn.Linear(3, 1), (rl.zeros(2, 3),), dynamic_shapes=further)
        >>> program.module()(rl.zeros(7, 3)).shape
        rushlight.Size([7, 1])
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """One more call."""
        if not isinstance(args, tuple):
            raise TypeError(f"AdditionalInputs.add: expected a tuple, got {type(args).__name__}")
        self._examples.append((args, dict(kwargs or {})))

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """What export takes: Dim.DYNAMIC where sizes differ."""
        from rushlight.export._inputs import arguments_of

        calls = [arguments_of(m, *call) for call in [(args, dict(kwargs or {})), *self._examples]]
        if any(list(call) != list(calls[0]) for call in calls):
            raise ValueError("AdditionalInputs: all calls must have the same arguments")

        def shape_of(*leaves: Any) -> Any:
            if not isinstance(leaves[0], Tensor):
                return None
            if any(leaf.dim() != leaves[0].dim() for leaf in leaves):
                raise ValueError("AdditionalInputs: an input has not always as many dimensions")
            sizes = zip(*(leaf.shape for leaf in leaves), strict=True)
            return tuple(Dim.DYNAMIC if len(set(row)) > 1 else None for row in sizes)

        return {name: _mapped(shape_of, *(call[name] for call in calls)) for name in calls[0]}

    def verify(self, ep: Any) -> None:
        """Runs the program with all of them."""
        for args, kwargs in self._examples:
            ep.module()(*args, **kwargs)


def _mapped(function, tree, *others):
    """Lists of what the function makes of the leaves."""
    leaves, spec = tree_flatten(tree)
    if spec.is_leaf():
        return function(tree, *others)
    rest = [tree_flatten(other)[0] for other in others]
    made = [function(*row) for row in zip(leaves, *rest, strict=True)]
    return _packed(spec, iter(made))


def _packed(spec, made):
    if spec.is_leaf():
        return next(made)
    return [_packed(child, made) for child in spec.children_specs]


def inputs_of(arguments: dict[str, Any], dynamic_shapes: Any) -> list[Input]:
    """The tensors of the arguments, in order, with the dims that were asked for."""
    shapes = _by_name(arguments, dynamic_shapes)
    found: list[Input] = []
    for name, value in arguments.items():
        _collect(found, name, name, value, shapes.get(name))
    names: set[str] = set()
    for i, row in enumerate(found):
        name, k = row.name, 1
        while name in names:
            name, k = f"{row.name}_{k}", k + 1
        names.add(name)
        found[i] = row._replace(name=name)
    return found


def _by_name(arguments, shapes):
    if shapes is None:
        return {}
    names = list(arguments)
    if isinstance(shapes, Mapping):
        if set(shapes) != set(names):
            raise UserError(
                f"export: dynamic_shapes has the keys {list(shapes)}, and the inputs are {names}; "
                "write a key for each of them (None: its sizes stay), or a tuple in their order"
            )
        return dict(shapes)
    if isinstance(shapes, tuple | list):
        if len(shapes) != len(names):
            raise UserError(
                f"export: dynamic_shapes has {len(shapes)} items, and the inputs are {names}; "
                "write one item for each of them (None: its sizes stay)"
            )
        return dict(zip(names, shapes, strict=True))
    raise UserError(
        "export: dynamic_shapes must be a dict by the names of the inputs, or a tuple or list, got "
        f"{type(shapes).__name__}"
    )


def _collect(found, path, name, value, shape):
    """The tensors in one argument."""
    leaves, spec = tree_flatten(value)
    if spec.is_leaf():
        if isinstance(value, Tensor):
            found.append(Input(path, name, value, _dims_of(path, value, shape)))
        elif shape is not None:
            raise UserError(
                f"export: dynamic_shapes has {shape!r} for {path}, which is no tensor but "
                f"{type(value).__name__}; write None"
            )
        return
    del leaves
    for key, child, part in _children(path, value, shape):
        at = f".{key}" if isinstance(key, str) and key.isidentifier() and dataclasses.is_dataclass(
            value
        ) else f"[{key!r}]"  # fmt: skip
        word = "".join(c if c.isalnum() else "_" for c in str(key))
        _collect(found, path + at, f"{name}_{word}", child, part)


def _children(path, value, shape):
    """(key, item, its shape) of the items of a container."""
    from rushlight.utils._pytree import _node

    children, context = _node(value).flatten(value)
    if isinstance(value, Mapping):
        keys = list(context) if isinstance(context, list | tuple) else list(value)
    elif dataclasses.is_dataclass(value):
        keys = [f.name for f in dataclasses.fields(value) if f.init][: len(children)]
    else:
        keys = list(range(len(children)))
    if shape is None:
        parts = [None] * len(children)
    elif isinstance(shape, Mapping):
        if set(shape) != set(keys):
            raise UserError(
                f"export: dynamic_shapes of {path} has the keys {list(shape)}, and it has {keys}"
            )
        parts = [shape[key] for key in keys]
    elif type(shape) is type(value) and not isinstance(shape, tuple | list):
        parts = list(_node(shape).flatten(shape)[0])
    elif isinstance(shape, tuple | list):
        parts = list(shape)
    else:
        parts = []
    if len(parts) != len(children):
        raise UserError(
            f"export: dynamic_shapes of {path} is {shape!r}, and {path} is a "
            f"{type(value).__name__} of {len(children)} items; write one item for each"
        )
    return zip(keys, children, parts, strict=True)


def _dims_of(path, tensor, shape):
    """Of each dimension of a tensor: a Dim, a hint, or None."""
    dims: list[Any] = [None] * tensor.dim()
    if shape is None:
        return dims
    if isinstance(shape, Mapping):
        rows = list(shape.items())
    elif isinstance(shape, tuple | list):
        if len(shape) != tensor.dim():
            raise UserError(
                f"export: dynamic_shapes of {path} has {len(shape)} items, and the tensor has "
                f"{tensor.dim()} dimensions; write one for each, or a dict {{dimension: Dim}}"
            )
        rows = list(enumerate(shape))
    else:
        raise UserError(
            f"export: dynamic_shapes of {path}, a tensor, must be a dict {{dimension: Dim}}, a "
            f"tuple, a list or None, got {type(shape).__name__}"
        )
    for index, dim in rows:
        if isinstance(index, bool) or not isinstance(index, int):
            raise UserError(f"export: a dimension of {path} must be an int, got {index!r}")
        if not -tensor.dim() <= index < tensor.dim():
            raise UserError(
                f"export: dynamic_shapes names dimension {index} of {path}, which has "
                f"{tensor.dim()}"
            )
        dims[index] = _dim_of(path, index, tensor, dim)
    return dims


def _dim_of(path, index, tensor, dim):
    if dim is None or (isinstance(dim, DimHint) and dim.kind == "STATIC"):
        return None
    if isinstance(dim, Dim | DimHint):
        return dim
    if isinstance(dim, int) and not isinstance(dim, bool):
        if tensor.shape[index] != dim:
            raise ConstraintViolationError(
                f"export: dynamic_shapes says that {path} has size {dim} in dimension {index}, and "
                f"the example has {tensor.shape[index]}"
            )
        return None
    raise UserError(
        f"export: dimension {index} of {path} must be a Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, an "
        f"int or None, got {type(dim).__name__}"
    )
