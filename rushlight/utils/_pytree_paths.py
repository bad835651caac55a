"""Where a leaf stands in a nested container: paths of keys, and functions that are told them."""

from dataclasses import dataclass

from rushlight.utils import _pytree
from rushlight.utils._pytree import tree_flatten, tree_unflatten


@dataclass(frozen=True)
class SequenceKey:
    """The idx-th item of a list or tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """The item of a dict under a key."""

    key: object

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute, of a named tuple for example."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def _keys(x, count):
    cls = type(x)
    if isinstance(x, dict):
        return [MappingKey(key) for key in x]
    if hasattr(cls, "_fields"):
        return [GetAttrKey(name) for name in cls._fields]
    return [SequenceKey(i) for i in range(count)]


def _find_leaves(found, x, path, is_leaf):
    node = None if is_leaf is not None and is_leaf(x) else _pytree._node(x)
    if node is None:
        found.append((path, x))
        return
    if node.with_keys is not None:
        pairs, _ = node.with_keys(x)
    else:
        children, _ = node.flatten(x)
        pairs = list(zip(_keys(x, len(children)), children, strict=True))
    for key, child in pairs:
        _find_leaves(found, child, (*path, key), is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    """[(path, leaf), ...] and the TreeSpec."""
    found = []
    _find_leaves(found, tree, (), is_leaf)
    return found, tree_flatten(tree, is_leaf)[1]


def tree_leaves_with_path(tree, is_leaf=None):
    """[(path, leaf), ...]."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """func(path, leaf, ...) over all leaves, in the same container."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    rows = zip(*zip(*pairs, strict=True), *others, strict=True) if pairs else ()
    return tree_unflatten([func(*row) for row in rows], spec)


def keystr(path):
    """A path as it would be written: ['a'][0].x."""
    return "".join(str(key) for key in path)


def key_get(obj, path):
    """What stands at a path."""
    for key in path:
        obj = key.get(obj)
    return obj


# The functions by which PyTorch flattens its own containers; programs register classes with them.


def _dict_flatten(d):
    return list(d.values()), list(d.keys())


def _dict_flatten_with_keys(d):
    values, context = _dict_flatten(d)
    return [(MappingKey(k), v) for k, v in zip(context, values, strict=True)], context


def _dict_unflatten(values, context):
    return dict(zip(context, values, strict=True))


def _list_flatten(d):
    return list(d), None


def _list_flatten_with_keys(d):
    return [(SequenceKey(i), v) for i, v in enumerate(d)], None


def _list_unflatten(values, context):
    return list(values)


def _tuple_unflatten(values, context):
    return tuple(values)


_tuple_flatten, _tuple_flatten_with_keys = _list_flatten, _list_flatten_with_keys
