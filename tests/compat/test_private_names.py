"""Names behind an underscore, and small tools, that programs for PyTorch use."""

import math
import pickle

import pytest

import rushlight as rl


def test_functions():
    x = rl.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
    assert rl._shape_as_tensor(x).tolist() == [2, 3]
    y = x.clone().requires_grad_()
    s = y.softmax(1)
    g = rl.arange(6.0).reshape(2, 3)
    s.backward(g)
    found = rl._softmax_backward_data(g, s.detach(), 1, rl.float32)
    assert rl.allclose(found, y.grad)
    y.grad = None
    s = y.log_softmax(1)
    s.backward(g)
    assert rl.allclose(rl._log_softmax_backward_data(g, s.detach(), 1, rl.float32), y.grad,
                       atol=1e-6)  # fmt: skip
    assert rl._safe_softmax(rl.full((1, 2), -math.inf), 1).tolist() == [[0, 0]]
    draw = rl._sample_dirichlet(rl.ones(5, 3))
    assert rl.allclose(draw.sum(1), rl.ones(5))
    assert rl._euclidean_dist(x, x)[0, 1].item() == pytest.approx(math.sqrt(9 + 9 + 16))
    assert rl._int_mm(rl.ones(2, 3, dtype=rl.int8), rl.ones(3, 2, dtype=rl.int8)).dtype == rl.int32
    assert rl._debug_has_internal_overlap(x) == 0
    assert rl._debug_has_internal_overlap(rl.ones(1).expand(3)) == 1
    values, inverse, counts = rl._unique2(rl.tensor([3, 1, 3]), return_counts=True)
    assert values.tolist() == [1, 3] and counts.tolist() == [1, 2] and inverse.numel() == 0
    assert x._is_all_true is not None and (x > 0)._is_all_true().item()
    big = [rl.ones(2), rl.tensor([3.0])]
    rl._foreach_maximum_(big, 2.0)
    assert [t.tolist() for t in big] == [[2, 2], [3]]


def test_gradient_scaling():
    grads, found = [rl.tensor([2.0, 4.0])], rl.zeros(1)
    rl._amp_foreach_non_finite_check_and_unscale_(grads, found, rl.tensor(0.5))
    assert grads[0].tolist() == [1, 2] and found.item() == 0
    rl._amp_foreach_non_finite_check_and_unscale_([rl.tensor([math.inf])], found, rl.tensor(0.5))
    assert found.item() == 1
    scale, steps = rl.tensor(8.0), rl.tensor(0, dtype=rl.int32)
    rl._amp_update_scale_(scale, steps, found, 2.0, 0.5, 2)
    assert scale.item() == 4 and steps.item() == 0
    for want, count in ((4, 1), (8, 0)):
        rl._amp_update_scale_(scale, steps, rl.zeros(1), 2.0, 0.5, 2)
        assert (scale.item(), steps.item()) == (want, count)


def test_methods():
    x = rl.arange(4.0)
    assert x.as_strided_scatter(rl.tensor([9.0, 8.0]), (2,), (2,)).tolist() == [9, 1, 8, 3]
    assert rl.tensor([0, 5, 6]).nonzero_static(size=3).tolist() == [[1], [2], [-1]]
    assert [p.tolist() for p in x.unsafe_split_with_sizes([1, 3])] == [[0], [1, 2, 3]]
    assert x.grad_dtype == rl.float32
    with pytest.raises(NotImplementedError, match="grad_dtype"):
        x.grad_dtype = rl.float64
    for name in ("lstsq", "eig", "symeig", "solve"):
        with pytest.raises(RuntimeError, match="linalg"):
            getattr(x, name)(x)
    with pytest.raises(AttributeError, match="oneDNN"):
        getattr(x, "to_mkldnn")  # noqa: B009
    assert rl.return_types.sort_out is rl.return_types.sort
    assert type(rl.qr(rl.eye(2))) is rl.return_types.qr


def test_utils():
    from rushlight.utils import _foreach_utils, _triton
    from rushlight.utils._device import _device_constructors
    from rushlight.utils._ordered_set import OrderedSet
    from rushlight.utils._pytree import arg_tree_leaves, is_namedtuple, tree_is_leaf
    from rushlight.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    s = OrderedSet([3, 1, 3, 2])
    assert list(s) == [3, 1, 2] and s == {1, 2, 3} and list(s | [7]) == [3, 1, 2, 7]
    assert list(s.difference([1])) == [3, 2] and list(reversed(s)) == [2, 1, 3]
    assert list(pickle.loads(pickle.dumps(s))) == [3, 1, 2]
    s.add(0)
    assert s.pop() == 0 and s.issubset([1, 2, 3])
    assert arg_tree_leaves(1, [2, 3], a={"b": 4}) == [1, 2, 3, 4]
    assert tree_is_leaf(3) and not tree_is_leaf([3]) and not tree_is_leaf([])
    assert is_namedtuple(rl.autograd.graph.GradientEdge) and not is_namedtuple((1,))
    assert not _triton.has_triton()
    assert _foreach_utils._has_foreach_support([], rl.device("cpu"))
    assert rl.zeros in _device_constructors()
    assert CheckpointPolicy.MUST_SAVE != CheckpointPolicy.PREFER_RECOMPUTE
    with pytest.raises(NotImplementedError, match="saved_tensors_hooks"):
        create_selective_checkpoint_contexts([])


def test_batch_norms_without_state():
    net = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.BatchNorm1d(2))
    assert rl.func.replace_all_batch_norm_modules_(net) is net
    assert net[1].running_mean is None and not net[1].track_running_stats
    assert not list(net.named_buffers())
    x = rl.randn(8, 2)
    assert abs(net.eval()(x).mean().item()) < 1e-5


def test_modules_below_the_core():
    from rushlight._C import _autograd, _functorch

    assert rl._C._functorch is _functorch and not _functorch.is_batchedtensor(rl.ones(2))
    node = (rl.ones(2, requires_grad=True) * 2).grad_fn
    assert isinstance(node._raw_saved_other, _autograd.SavedTensor)
    with pytest.raises(AttributeError, match="not in Rushlight"):
        _functorch.dump_tensor  # noqa: B018 -- reading raises


def test_implicit_replication():
    """Opacus imports it for its optimiser."""
    from rushlight.distributed._tensor.experimental import implicit_replication
    from rushlight.distributed.tensor import experimental

    with implicit_replication():
        assert rl.ones(2).sum().item() == 2
    assert implicit_replication is experimental.implicit_replication
    with pytest.raises(NotImplementedError):
        experimental.context_parallel(None)


def test_types_of_the_loader():
    from rushlight.utils.data.dataloader import _collate_fn_t, _worker_init_fn_t

    assert callable(_collate_fn_t) and callable(_worker_init_fn_t)


def scripted_function(x):
    return x


def test_saving_what_was_scripted(tmp_path):
    model = rl.nn.Sequential(rl.nn.Linear(2, 2))
    assert not hasattr(model, "save")
    scripted, x = rl.jit.script(model), rl.ones(1, 2)
    for part in (scripted, rl.jit.script(scripted_function)):
        part.save(str(tmp_path / "model.pt"))
        assert part.save_to_buffer() == (tmp_path / "model.pt").read_bytes()
    scripted.save(tmp_path / "model.pt")
    assert rl.equal(rl.jit.load(tmp_path / "model.pt")(x), model(x))
    with pytest.raises(AttributeError):
        scripted.nothing  # noqa: B018 -- reading raises
    with pytest.raises(TypeError, match="jit.save"):
        pickle.dumps(scripted)


def test_reparametrize_module():
    from rushlight.nn.utils.stateless import _reparametrize_module

    layer = rl.nn.Sequential(rl.nn.Linear(2, 1, bias=False), rl.nn.BatchNorm1d(1))
    own = layer[0].weight
    given = {"0.weight": rl.ones(1, 2), "1.running_mean": rl.zeros(1), "unknown": rl.ones(1)}
    with _reparametrize_module(layer, given):
        assert layer[0].weight is given["0.weight"]
        layer[1].running_mean = rl.full((1,), 3.0)
    assert layer[0].weight is own and layer[1].running_mean.item() == 0
    assert given["1.running_mean"].item() == 3
    with (
        pytest.raises(RuntimeError, match="unknown"),
        _reparametrize_module(layer, given, strict=True),
    ):
        pass
    with pytest.raises(ZeroDivisionError), _reparametrize_module(layer, {"0.weight": own * 2}):
        1 / 0  # noqa: B018 -- raises
    assert layer[0].weight is own


def test_no_tracer_of_frames():
    assert rl._dynamo.is_dynamo_supported() is False
