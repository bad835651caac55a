"""Nested containers as flat lists of leaves, and back.

Lists, tuples (named ones too), dicts, OrderedDicts, defaultdicts and deques are containers;
whatever is not registered is a leaf. ``register_pytree_node`` adds a type.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class _Node:
    flatten: object  # container -> (children, context)
    unflatten: object  # (children, context) -> container
    with_keys: object = None  # container -> ([(key, child), ...], context), or None


SUPPORTED_NODES: dict[type, Any] = {}


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, flatten_with_keys_fn=None, **_):
    """Makes ``cls`` a container: ``flatten_fn(x)`` gives (children, context), the other undoes."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = _Node(flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node  # PyTorch's older name


def _deregister_pytree_node(cls):
    """Makes objects of a registered class leaves again."""
    del SUPPORTED_NODES[cls]


def register_dataclass(cls, *, field_names=None, drop_field_names=None, **_):
    """Makes a dataclass a container of its fields."""
    import dataclasses

    names = [f.name for f in dataclasses.fields(cls) if f.init]
    names = [n for n in (field_names or names) if n not in (drop_field_names or ())]
    register_pytree_node(
        cls,
        lambda x: ([getattr(x, n) for n in names], None),
        lambda children, _: cls(**dict(zip(names, children, strict=True))),
    )
    return cls


def _plain_dict(cls):
    return _Node(
        lambda d: (list(d.values()), list(d.keys())),
        lambda children, keys: cls(zip(keys, children, strict=True)),
    )


SUPPORTED_NODES[list] = _Node(lambda x: (list(x), None), lambda children, _: list(children))
SUPPORTED_NODES[tuple] = _Node(lambda x: (list(x), None), lambda children, _: tuple(children))
SUPPORTED_NODES[dict] = _plain_dict(dict)
SUPPORTED_NODES[OrderedDict] = _plain_dict(OrderedDict)
SUPPORTED_NODES[defaultdict] = _Node(
    lambda d: (list(d.values()), (d.default_factory, list(d.keys()))),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
SUPPORTED_NODES[deque] = _Node(
    lambda d: (list(d), d.maxlen), lambda children, maxlen: deque(children, maxlen=maxlen)
)


def _is_named_tuple(cls):
    fields = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and isinstance(fields, tuple)


def _is_result_tuple(cls):
    """The named results of operators, such as ``max(dim=...)``."""
    return issubclass(cls, tuple) and cls.__module__.endswith("return_types")


_NAMED = _Node(lambda x: (list(x), type(x)), lambda children, cls: cls(*children))
_RESULT = _Node(lambda x: (list(x), type(x)), lambda children, cls: cls(tuple(children)))


def _get_node_type(tree):
    """The class by which an object is flattened."""
    cls = type(tree)
    if cls not in SUPPORTED_NODES and _is_named_tuple(cls):
        return namedtuple
    return cls


def _is_leaf(tree, is_leaf=None):
    """Whether an object is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node(tree) is None


def _is_namedtuple_instance(tree):
    """Whether an object is a named tuple."""
    return _is_named_tuple(type(tree))


is_namedtuple_instance = _is_namedtuple_instance


def _node(x):
    cls = type(x)
    if (found := SUPPORTED_NODES.get(cls)) is not None:
        return found
    if _is_result_tuple(cls):
        return _RESULT
    return _NAMED if _is_named_tuple(cls) else None


@dataclass(frozen=True)
class TreeSpec:
    """The shape of a nested container, with its leaves left out."""

    type: object  # None for a leaf
    context: object
    children_specs: tuple = ()
    num_leaves: int = field(default=1)

    @property
    def num_children(self):
        return len(self.children_specs)

    def is_leaf(self):
        return self.type is None

    def flatten_up_to(self, tree):
        """The subtrees of ``tree`` that stand where this spec has leaves."""
        if self.is_leaf():
            return [tree]
        if type(tree) is not self.type:
            raise ValueError(f"expected a {self.type.__name__}, got {type(tree).__name__}")
        children, context = _node(tree).flatten(tree)
        if len(children) != len(self.children_specs) or context != self.context:
            raise ValueError(f"the {self.type.__name__} has other items than expected")
        return [
            leaf
            for spec, child in zip(self.children_specs, children, strict=True)
            for leaf in spec.flatten_up_to(child)
        ]


class LeafSpec(TreeSpec):
    """The shape of a leaf."""

    def __init__(self):
        super().__init__(None, None)


_LEAF = LeafSpec()


# The walks below are no functions within functions: one that calls itself by name is a cycle, and
# would keep the leaves until the next garbage collection.
def _flatten_into(leaves, x, is_leaf):
    node = None if is_leaf is not None and is_leaf(x) else _node(x)
    if node is None:
        leaves.append(x)
        return _LEAF
    children, context = node.flatten(x)
    specs = tuple(_flatten_into(leaves, child, is_leaf) for child in children)
    return TreeSpec(type(x), context, specs, sum(s.num_leaves for s in specs))


def tree_flatten(tree, is_leaf=None):
    """The leaves, in order, and the TreeSpec that puts them back."""
    leaves = []
    return leaves, _flatten_into(leaves, tree, is_leaf)


def _build(spec, rest):
    if spec.is_leaf():
        return next(rest)
    children = [_build(child, rest) for child in spec.children_specs]
    node = SUPPORTED_NODES.get(spec.type)
    if node is None:
        node = _RESULT if _is_result_tuple(spec.type) else _NAMED
    return node.unflatten(children, spec.context)


def tree_unflatten(leaves, treespec):
    """The container of which ``tree_flatten`` gave these leaves and this spec."""
    if not isinstance(treespec, TreeSpec):  # the two are easily swapped
        leaves, treespec = treespec, leaves
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: the spec has {treespec.num_leaves} leaves, {len(leaves)} were given"
        )
    return _build(treespec, iter(leaves))


def tree_leaves(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """``func`` of every leaf (and of the leaves of ``rests`` at the same places)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(r) for r in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Like tree_map, for the side effects: returns the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for row in zip(leaves, *(spec.flatten_up_to(r) for r in rests), strict=True):
        func(*row)
    return tree


def map_only(types, /):
    """A decorator: the function is applied to values of these types, others pass."""

    def decorate(func):
        return lambda x: func(x) if isinstance(x, types) else x

    return decorate


def tree_map_only(types, func, tree, is_leaf=None):
    return tree_map(map_only(types)(func), tree, is_leaf=is_leaf)


def tree_map_only_(types, func, tree, is_leaf=None):
    return tree_map_(map_only(types)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(types, pred, tree, is_leaf=None):
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))


def tree_any_only(types, pred, tree, is_leaf=None):
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """One value for each leaf of ``treespec``: a leaf of ``tree`` stands for a whole subtree.

    None when the two do not fit.
    """
    if (is_leaf is not None and is_leaf(tree)) or _node(tree) is None:
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or type(tree) is not treespec.type:
        return None
    children, context = _node(tree).flatten(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    out = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        out += part
    return out


def tree_iter(tree, is_leaf=None):
    """The leaves one by one."""
    yield from tree_leaves(tree, is_leaf)


PyTree = Context = object  # for annotations


def __getattr__(name):
    # Paths are asked for rarely.
    from rushlight._names.missing import submodule_or_raise
    from rushlight.utils import _pytree_paths

    if name.startswith("__") or not hasattr(_pytree_paths, name):
        return submodule_or_raise(__name__, name)
    return getattr(_pytree_paths, name)


def arg_tree_leaves(*args, **kwargs):
    """The leaves of the arguments of a call."""
    return [*tree_leaves(args), *tree_leaves(kwargs)]


def tree_is_leaf(tree, is_leaf=None):
    """Whether something is no container."""
    return (is_leaf is not None and is_leaf(tree)) or (
        tree_leaves(tree) == [tree] and not isinstance(tree, tuple(SUPPORTED_NODES))
    )


def register_constant(cls):
    """Makes objects of a class parts of the structure, which have no leaves."""
    register_pytree_node(cls, lambda x: ([], x), lambda _, x: x)


def is_namedtuple_class(cls):
    """Whether a class was made by namedtuple()."""
    fields = getattr(cls, "_fields", None)
    named = isinstance(fields, tuple) and all(isinstance(f, str) for f in fields)
    return isinstance(cls, type) and issubclass(cls, tuple) and named


def is_namedtuple(obj):
    """Whether an object, or a class, is a named tuple."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls):
    """Whether a class is one of the results of operators (or of Python) with named items."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def is_structseq(obj):
    """Whether an object, or a class, is such a result."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj):
    """Whether an object is such a result."""
    return is_structseq_class(type(obj))
