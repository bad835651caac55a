"""What a node has saved, by name: grad_fn._saved_self, and the objects behind _raw_saved_self."""

import gc
import json
import threading
import weakref
from pathlib import Path

import pytest
from ops import rows
from ops.sample import (
    Inputs,
    collected,
    dtypes_of,
    facts,
    leaves,
    result_dtypes,
    run,
    tensor_leaves,
)

import rushlight as rl

ROWS = [r for r in collected(rows.ROWS) if r.grad and r.values and facts(r)["grad"]]

# What an argument of an op can be.
KINDS = (type(None), bool, int, float, complex, str, tuple, list)
KINDS += (rl.Tensor, rl.dtype, rl.device, rl.layout, rl.memory_format, rl.Generator)


def saved(node):
    return {name for name in dir(node) if name.startswith("_saved_")}


def test_tensors():
    x, y = rl.rand(3, requires_grad=True), rl.rand(3)
    node = (x * y).grad_fn
    assert saved(node) == {"_saved_self", "_saved_other"}
    assert node._saved_self is None  # y asks for no gradient
    assert rl.equal(node._saved_other, y)
    both = (x * x).grad_fn
    assert both._saved_self is x and both._saved_other is x
    inner = (x.exp() * y.requires_grad_()).grad_fn._saved_self
    assert inner.grad_fn.name() == "ExpBackward0"


def test_results_belong_to_their_node():
    y = rl.rand(3, requires_grad=True).exp()
    result = y.grad_fn._saved_result
    assert rl.equal(result, y) and result.grad_fn is y.grad_fn
    node = rl.rand(3, 4, requires_grad=True).max(1).values.grad_fn
    assert node._saved_indices.dtype == rl.int64 and not node._saved_indices.requires_grad
    assert (node._saved_dim, node._saved_keepdim) == (1, False)
    U, _, Vh = rl.linalg.svd(rl.rand(3, 3, requires_grad=True))
    assert rl.equal(U.grad_fn._saved_U, U) and rl.equal(U.grad_fn._saved_Vh, Vh)


def test_other_arguments():
    x = rl.rand(3, 4, requires_grad=True)
    assert (x + 2).grad_fn._saved_alpha == 1
    assert rl.add(x, x, alpha=3).grad_fn._saved_alpha == 3
    assert x.sum(1).grad_fn._saved_dim == (1,) and x.sum(1, True).grad_fn._saved_keepdim is True
    assert x.sum(1).grad_fn._saved_self_sym_sizes == (3, 4)
    assert x.permute(1, 0).grad_fn._saved_dims == (1, 0)
    clamped = x.clamp(0.25).grad_fn
    assert clamped._saved_min == 0.25 and clamped._saved_max is None
    image, weight = rl.rand(1, 2, 8, 8), rl.rand(4, 2, 3, 3, requires_grad=True)
    conv = rl.nn.functional.conv2d(image, weight, stride=2, padding=1).grad_fn
    assert (conv._saved_stride, conv._saved_padding, conv._saved_groups) == ((2, 2), (1, 1), 1)
    assert rl.equal(conv._saved_input, image) and conv._saved_weight is None
    assert rl.cat([x, x], 1).grad_fn._saved_dim == 1
    assert x.split([1, 2])[0].grad_fn._saved_split_sizes == (1, 2)


def test_lists():
    x = rl.rand(3, 4, requires_grad=True)
    node = x[:, [1, 2]].grad_fn
    assert node._saved_indices[0] is None and node._saved_indices[1].tolist() == [1, 2]
    assert len(node._raw_saved_indices) == 2


def test_what_is_freed_says_so():
    x = rl.rand(3, requires_grad=True)
    y = (x * x).sum(0, keepdim=True)
    node = y.grad_fn.next_functions[0][0]
    raw = node._raw_saved_self
    y.backward()
    for read in (
        lambda: node._saved_self,
        lambda: raw.data,
        raw.unpack,
        lambda: raw.register_hooks(id, id),
    ):
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            read()
    assert y.grad_fn._saved_dim == (0,)  # no tensor, never freed
    assert "_saved_self" in saved(node)


def test_what_was_overwritten_says_so():
    x = rl.rand(3, requires_grad=True)
    a = x.exp()
    node = (a * a).grad_fn
    a.add_(1)
    with pytest.raises(RuntimeError, match="overwritten by add"):
        node._saved_self  # noqa: B018 -- reading raises


def test_hooks_on_a_saved_tensor():
    x, y = rl.rand(3, requires_grad=True), rl.rand(3)
    out = x * y
    raw = out.grad_fn._raw_saved_other
    assert type(raw) is rl._C._autograd.SavedTensor
    assert rl.equal(raw.data, y) and raw.unpack_hook is None

    def unpack(packed):
        return packed[1] * 2

    raw.register_hooks(lambda t: ("packed", t), unpack)
    assert raw.data[0] == "packed" and raw.unpack_hook is unpack
    assert rl.equal(out.grad_fn._saved_other, y * 2)
    with pytest.raises(RuntimeError, match="already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="None"):
        out.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="two callables"):
        raw.register_hooks(1)
    out.sum().backward()
    assert rl.equal(x.grad, y * 2)
    # A leaf behind hooks still gets its gradient.
    x.grad = None
    out = x * x
    out.grad_fn._raw_saved_self.register_hooks(lambda t: t.clone(), lambda t: t)
    out.sum().backward(create_graph=True)
    assert rl.allclose(x.grad, 2 * x)


def test_custom_functions():
    class Double(rl.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a, None)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = rl.rand(3, requires_grad=True)
    y = Double.apply(x)
    first, nothing = y.grad_fn._raw_saved_tensors
    assert rl.equal(first.unpack(), x) and nothing.unpack() is None
    first.register_hooks(lambda t: t, lambda t: t * 10)
    y.sum().backward()
    assert rl.allclose(x.grad, 20 * x)
    with pytest.raises(RuntimeError, match="already been freed"):
        first.unpack()


def test_names_that_are_not_there():
    node = (rl.rand(3, requires_grad=True) * 2).grad_fn
    for name in ("_saved_nothing", "_raw_saved_alpha", "_saved_", "other"):
        assert not hasattr(node, name)
    with pytest.raises(AttributeError, match="_saved_nothing"):
        node._saved_nothing  # noqa: B018 -- reading raises
    with pytest.raises(AttributeError):
        node._saved_self = 1
    leaf = rl.rand(3, requires_grad=True)
    accumulate = (leaf * 2).grad_fn.next_functions[0][0]
    assert saved(accumulate) == set() and not hasattr(accumulate, "_saved_self")


def test_nothing_is_kept_alive():
    x = rl.rand(3, requires_grad=True)
    y = x.exp()
    seen = weakref.ref(y.grad_fn)
    raw = y.grad_fn._raw_saved_result
    assert y.grad_fn._saved_result is not None
    del y, raw
    gc.collect()
    assert seen() is None


@pytest.mark.threads
def test_read_while_other_threads_run_backward():
    x = rl.rand(100, requires_grad=True)
    for _ in range(30):
        y = (x * x).sum()
        node = y.grad_fn.next_functions[0][0]
        thread = threading.Thread(target=y.backward)
        thread.start()
        try:
            for _ in range(20):
                assert node._saved_self is x
        except RuntimeError as error:
            assert "already been freed" in str(error)
        thread.join()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_op(row):
    """Each node of a call has names for what it keeps, and all of them can be read."""
    for i in range(len(row.calls)):
        if "float64" not in dtypes_of(row) or result_dtypes(row, i, "float64") == []:
            continue
        args, kwargs = Inputs(row, i, "float64").tensors()
        for t in tensor_leaves(args, kwargs):
            if t.dtype == rl.float64:
                t.requires_grad_()
        results = leaves(run(row, list(args), kwargs))
        nodes = [t.grad_fn for t in results if isinstance(t, rl.Tensor) and t.grad_fn]
        for _ in range(4):
            for node in nodes:
                names = saved(node)
                raw = {name for name in dir(node) if name.startswith("_raw_saved_")}
                assert {name.removeprefix("_raw") for name in raw} <= names
                for name in names:
                    value = getattr(node, name)
                    assert isinstance(value, KINDS), (name, type(value))
                    if f"_raw{name}" in raw and isinstance(value, rl.Tensor):
                        assert getattr(node, f"_raw{name}").unpack().shape == value.shape
            nodes = [edge for node in nodes[:3] for edge, _ in node.next_functions if edge]


def test_names_that_pytorch_has():
    """Nodes of one kind in both libraries: what PyTorch's saves, ours mostly saves under the same
    name. The others are saved in another form, or not at all, by formulas that need less."""
    from oracle import make_saved_names

    path = Path(make_saved_names.__file__).with_name("saved_names.json")
    theirs, ours = json.loads(path.read_text()), make_saved_names.names_by_node()
    pairs = {(node, name) for node, names in theirs.items() if node in ours for name in names}
    there = {pair for pair in pairs if pair[1] in ours[pair[0]]}
    assert len(there) >= 329 and len(there) / len(pairs) > 0.8, sorted(pairs - there)
