"""Trees: flatten, put back, map."""

import gc
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import rushlight as rl
from rushlight.utils import _pytree as pytree

Point = namedtuple("Point", "x y")
TREES = [
    3,
    None,
    [],
    (),
    [1, (2, {"a": 3}), Point(4, [5])],
    OrderedDict(b=1, a=[2]),
    defaultdict(list, {"k": [1, 2]}),
    deque([1, 2], maxlen=3),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_there_and_back(tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    assert spec.num_leaves == len(leaves)
    doubled = pytree.tree_map(lambda v: [v], tree)
    assert len(pytree.tree_leaves(doubled)) == len(leaves)


def test_maps():
    tree = {"a": [1, 2.0], "b": ("s", 3)}
    assert pytree.tree_map_only(int, lambda v: v + 1, tree) == {"a": [2, 2.0], "b": ("s", 4)}
    assert pytree.tree_map(lambda a, b: (a, b), [1, 2], [[3], 4]) == [(1, [3]), (2, 4)]
    assert pytree.tree_any(lambda v: v == 3, tree) and not pytree.tree_all(lambda v: v == 3, tree)
    assert pytree.tree_all_only(int, lambda v: v < 9, tree)
    with pytest.raises(ValueError):
        pytree.tree_map(lambda a, b: a, [1, 2], [3])
    with pytest.raises(ValueError):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


def test_results_of_operators():
    values = rl.tensor([1.0, 3.0]).max(0)
    leaves, spec = pytree.tree_flatten(values)
    assert len(leaves) == 2
    assert type(pytree.tree_unflatten(leaves, spec)) is type(values)


def test_registration():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    assert pytree.tree_leaves(Box(1))[0].inside == 1
    pytree.register_pytree_node(Box, lambda b: ([b.inside], None), lambda c, _: Box(c[0]))
    assert pytree.tree_leaves([Box([1, 2])]) == [1, 2]
    with pytest.raises(ValueError):
        pytree.register_pytree_node(Box, None, None)


def test_leaves_are_let_go():
    """No call leaves a cycle behind that would hold the leaves until a garbage collection."""

    class Leaf:
        pass

    gc.disable()
    try:
        for use in (
            lambda tree: pytree.tree_map(lambda x: x, tree),
            lambda tree: pytree.tree_unflatten(*pytree.tree_flatten(tree)),
            lambda tree: pytree.tree_map_with_path(lambda path, x: x, tree),
        ):
            leaf = Leaf()
            gone = weakref.ref(leaf)
            use({"a": [leaf, (leaf,)]})
            del leaf
            assert gone() is None
    finally:
        gc.enable()
