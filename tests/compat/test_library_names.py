"""Private names of PyTorch that published libraries use, and what they give.

The list comes from the sources of some eighty packages (transformers, timm, Lightning, kornia,
torch_geometric, ...) and looking each name up.
"""

import importlib
import math
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight import masked

NAMES = """_C._are_functorch_transforms_active _C._get_accelerator _C._get_default_device
_C._jit_can_fuse_on_cpu _cast_Long _check_tensor_all_with _convert_indices_from_coo_to_csr
_custom_ops.get_ctx _foreach_maximum_ _foreach_minimum_ _grouped_mm _prims_common _sample_dirichlet
_scaled_mm _segment_reduce _shape_as_tensor _softmax_backward_data _tensor_str._add_suffixes
_tensor_str._str_intern accelerator.get_memory_info backends.cuda.SDPAParams cuda._initialized dsmm
fx.experimental.proxy_tensor nn.attention.flex_attention._DEFAULT_SPARSE_BLOCK_SIZE
nn.functional.grouped_mm nn.modules.batchnorm.SyncBatchNorm
nn.modules.transformer._get_activation_fn
optim.optimizer.Optimizer._group_tensors_by_device_and_dtype ByteStorage._from_buffer
profiler.profiler._default_schedule_fn
utils._python_dispatch.is_traceable_wrapper_subclass""".split()


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_there(name):
    found, path = rl, "rushlight"
    for part in name.split("."):
        path += "." + part
        try:
            found = getattr(found, part)
        except AttributeError:  # a module that programs import themselves
            found = importlib.import_module(path)
    assert found is not None


def test_scans_of_any_associative_function():
    from rushlight._higher_order_ops.associative_scan import associative_scan

    rng = np.random.RandomState(0)
    for n in (1, 2, 3, 7, 8, 13):
        decay, add = rng.rand(2, n, 3), rng.randn(2, n, 3)
        expected, state = np.empty_like(add), np.zeros((2, 3))
        for i in range(n):
            state = expected[:, i] = state * decay[:, i] + add[:, i]
        for mode in ("pointwise", "generic"):
            _, got = associative_scan(
                lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
                (rl.tensor(decay), rl.tensor(add)),
                1,
                combine_mode=mode,
            )
            assert np.allclose(got.numpy(), expected)
        total = associative_scan(rl.add, rl.tensor(add), 1, reverse=True)
        assert np.allclose(total.numpy(), add[:, ::-1].cumsum(1)[:, ::-1])


def test_scan_and_map():
    from rushlight._higher_order_ops import map, scan

    x = rl.randn(4, 3)
    carry, seen = scan(lambda c, x: (c + x, c * 2), rl.zeros(3), x)
    assert rl.allclose(carry, x.sum(0))
    assert rl.allclose(seen[1:], 2 * x.cumsum(0)[:-1])
    assert rl.equal(map(lambda row, k: row * k, x, 2), x * 2)


def test_masked_reductions_pass_over_what_the_mask_hides():
    rng = np.random.RandomState(0)
    x, hidden = rng.randn(3, 4, 5), rng.rand(3, 4, 5) > 0.6
    reference = np.ma.array(x, mask=hidden)
    t, mask = rl.tensor(x), rl.tensor(~hidden)
    for name, of in {
        "sum": lambda a, d: a.sum(d),
        "mean": lambda a, d: a.mean(d),
        "var": lambda a, d: a.var(d, ddof=1),
        "std": lambda a, d: a.std(d, ddof=1),
        "amax": lambda a, d: a.max(d),
        "amin": lambda a, d: a.min(d),
        "prod": lambda a, d: a.prod(d),
    }.items():
        for dim in (0, 1, 2, None):
            got = getattr(masked, name)(t, dim, mask=mask).numpy()
            want = of(reference, dim)
            seen = ~np.ma.getmaskarray(want)
            assert np.allclose(got[seen], np.asarray(want)[seen]), (name, dim)
    share = masked.softmax(t, 1, mask=mask)
    assert rl.allclose(share.sum(1)[mask.any(1)], rl.ones((), dtype=rl.float64))
    assert (share[~mask] == 0).all() or not mask.any(1).all()
    assert math.isnan(masked.mean(rl.ones(2), mask=rl.zeros(2, dtype=rl.bool)).item())


def test_products_of_groups():
    a, b = rl.randn(6, 4), rl.randn(3, 4, 8)
    ends = rl.tensor([2, 3, 6])
    got = rl.nn.functional.grouped_mm(a, b, offs=ends)
    want = rl.cat([a[:2] @ b[0], a[2:3] @ b[1], a[3:] @ b[2]])
    assert rl.allclose(got, want)
    with pytest.raises(ValueError, match="offs"):
        rl.nn.functional.grouped_mm(a, b)
    with pytest.raises(ValueError, match="rise"):
        rl.nn.functional.grouped_mm(a, b, offs=rl.tensor([3, 2, 6]))


def test_autocast_is_off_on_other_devices():
    assert not any(rl.is_autocast_enabled(kind) for kind in ("mps", "xpu", "hpu", "mtia"))
    with rl.autocast("cpu"):
        assert rl.is_autocast_enabled("cpu") and not rl.is_autocast_enabled("xpu")
    with pytest.raises(RuntimeError, match="device types"):
        rl.is_autocast_enabled("toaster")


def test_numpy_shows_parameters_where_nothing_is_recorded():
    weight = rl.nn.Parameter(rl.ones(2))
    with rl.no_grad():
        assert weight.numpy().tolist() == [1, 1]
        assert np.asarray(weight).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="requires grad"):
        weight.numpy()


def test_objects_are_told_apart():
    x = rl.ones(2)
    assert x._cdata == x._cdata != x.view(2)._cdata


class _BeginsAnew:
    """A sampler whose iter() starts over, though it is its own iterator; Lightning has one."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        self.left = iter(self.batches)
        return self

    def __next__(self):
        return next(self.left)

    def __len__(self):
        return len(self.batches)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sampler_that_begins_anew_is_asked_to_once(workers):
    batches = [[0, 1], [2, 3], [4]]
    loader = rl.utils.data.DataLoader(
        rl.arange(5), batch_sampler=_BeginsAnew(batches), num_workers=workers
    )
    assert [batch.tolist() for batch in loader] == batches


def test_a_storage_says_how_much_memory_it_takes():
    small, large = (rl.zeros(n).untyped_storage() for n in (1, 1000))
    assert sys.getsizeof(large) - sys.getsizeof(small) == 4 * 999
    assert sys.getsizeof(rl.zeros(1000).storage()) >= 4000


def test_products_by_the_names_for_sparse_matrices():
    a, b = rl.randn(2, 3), rl.randn(3, 2)
    assert rl.equal(rl.spmm(a, b), a @ b)
    assert rl.equal(rl.dsmm(a, b), a @ b)
    assert rl.equal(rl.spmm(a.to_sparse(), b), rl.dsmm(a.to_sparse_csr(), b))
