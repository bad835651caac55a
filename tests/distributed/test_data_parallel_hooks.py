"""DistributedDataParallel beyond the plain step: hooks, unequal batches, shared statistics, and the
optimiser whose state is dealt out."""

import copy
import itertools

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.algorithms import Join
from rushlight.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from rushlight.distributed.optim import ZeroRedundancyOptimizer
from rushlight.nn.parallel import DistributedDataParallel as DDP

pytestmark = pytest.mark.threads

SIZE = 3


def seeded(seed, *shape, dtype=rl.float32):
    return rl.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def small_model(*sizes, dtype=rl.float32):
    """The same weights on every rank, without the seed that the ranks share."""
    model = nn.Sequential()
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        layer = nn.Linear(a, b, dtype=dtype)
        with rl.no_grad():
            layer.weight.copy_(seeded(10 + i, b, a, dtype=dtype) / a**0.5)
            layer.bias.copy_(seeded(20 + i, b, dtype=dtype))
        model.append(layer)
        model.append(nn.Tanh())
    return model


def gradients(model):
    return [p.grad.double().numpy() for p in model.parameters()]


def mean_gradients(sizes, steps=1):
    """Of one process on all batches."""
    model = small_model(*sizes)
    loss = sum(model(seeded(r, 4, sizes[0])).square().sum() for r in range(SIZE)) / SIZE
    loss.backward()
    return gradients(model)


HOOKS = {
    "allreduce": (lambda m: m.register_comm_hook(None, default_hooks.allreduce_hook), 1e-6),
    "fp16": (lambda m: m.register_comm_hook(None, default_hooks.fp16_compress_hook), 2e-2),
    "bf16": (lambda m: m.register_comm_hook(None, default_hooks.bf16_compress_hook), 1e-1),
    "wrapped": (lambda m: m.register_comm_hook(
        None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)), 2e-2),
    "by type": (lambda m: register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, m), 1e-1),
    "builtin": (lambda m: m._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE), 1e-6),
    # A rank as large as the matrices leaves nothing out.
    "PowerSGD": (lambda m: m.register_comm_hook(powerSGD_hook.PowerSGDState(
        None, 8, start_powerSGD_iter=2, min_compression_rate=0), powerSGD_hook.powerSGD_hook),
        1e-4),
    "batched PowerSGD": (lambda m: m.register_comm_hook(powerSGD_hook.PowerSGDState(
        None, 40, start_powerSGD_iter=2), powerSGD_hook.batched_powerSGD_hook), 1e-4),
}  # fmt: skip


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_average(name):
    register, tolerance = HOOKS[name]
    sizes = (5, 8, 8, 2)

    def program(rank):
        model = DDP(small_model(*sizes), bucket_cap_mb=0.0002)
        register(model)
        for _ in range(4):
            model.zero_grad()
            model(seeded(rank, 4, 5)).square().sum().backward()
        with pytest.raises(RuntimeError, match="there is a hook already"):
            model.register_comm_hook(None, default_hooks.noop_hook)
        return gradients(model)

    for got in dist.simulate(SIZE, program):
        for mine, expected in zip(got, mean_gradients(sizes), strict=True):
            np.testing.assert_allclose(mine, expected, rtol=tolerance, atol=tolerance)


def test_what_a_hook_sees():
    def program(rank):
        model = DDP(small_model(3, 4, 2), bucket_cap_mb=0.00005)
        seen = []

        def hook(state, bucket):
            seen.append((bucket.index(), bucket.is_last(), bucket.buffer().numel()))
            for g, p in zip(bucket.gradients(), bucket.parameters(), strict=True):
                assert g.shape == p.shape
            state.append(rank)
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        state = []
        model.register_comm_hook(state, hook)
        model(rl.ones(1, 3)).sum().backward()
        assert [i for i, _, _ in seen] == list(range(len(seen))) and len(seen) > 1
        assert [last for _, last, _ in seen] == [False] * (len(seen) - 1) + [True]
        assert sum(n for _, _, n in seen) == sum(p.numel() for p in model.parameters())
        with pytest.raises(TypeError, match="must be a function"):
            model.register_comm_hook(None, 3)

    dist.simulate(2, program)

    def returns_a_tensor():
        model = DDP(small_model(2, 2))
        model.register_comm_hook(None, lambda state, bucket: bucket.buffer())
        model(rl.ones(1, 2)).sum().backward()

    with pytest.raises(TypeError, match="must return a Future"):
        dist.simulate(1, returns_a_tensor)


@pytest.mark.parametrize("by_all", [True, False])
def test_join_with_unequal_batches(by_all):
    """Rank r has r + 1 batches; those that are done add zeros."""

    def program(rank):
        model = DDP(nn.Sequential(small_model(3, 4, 1), nn.BatchNorm1d(1, affine=False)))
        model.module[1].eval()
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=by_all):
            for step in range(rank + 1):
                optimizer.zero_grad()
                model(seeded(100 * rank + step, 4, 3)).square().sum().backward()
                optimizer.step()
        return [p.detach().numpy() for p in model.parameters()]

    model = nn.Sequential(small_model(3, 4, 1), nn.BatchNorm1d(1, affine=False)).eval()
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    for step in range(SIZE):
        optimizer.zero_grad()
        active = [r for r in range(SIZE) if step <= r]
        loss = sum(model(seeded(100 * r + step, 4, 3)).square().sum() for r in active)
        (loss / (SIZE if by_all else len(active))).backward()
        optimizer.step()
    expected = [p.detach().numpy() for p in model.parameters()]
    for got in dist.simulate(SIZE, program):
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_join_that_throws():
    def program(rank):
        model = DDP(small_model(2, 1))
        text = "rank 0 has no inputs left" if rank == 0 else "a rank has no inputs left"
        with pytest.raises(RuntimeError, match=text), model.join(throw_on_early_termination=True):
            for _ in range(rank + 1):
                model(rl.ones(1, 2)).sum().backward()
        with pytest.raises(ValueError, match="nothing to join"):
            Join([])
        dist.barrier()

    dist.simulate(2, program)


@pytest.mark.parametrize("dtype", [rl.float64, rl.bfloat16])
def test_sync_batch_norm_is_that_of_the_whole_batch(dtype):
    whole = seeded(3, 9, 4, 5).to(dtype) * 3 + 100
    cuts = [0, 2, 3, 9]  # unequal parts

    def one_process():
        norm = nn.BatchNorm1d(4, dtype=rl.float64)
        x = whole.double().clone().requires_grad_()
        y = norm(x)
        (y * seeded(4, 9, 4, 5).double()).square().sum().backward()
        return norm, x.grad, y

    reference, grad, output = one_process()

    def program(rank):
        model = nn.Sequential(nn.BatchNorm1d(4, dtype=dtype))
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        part = slice(cuts[rank], cuts[rank + 1])
        x = whole[part].clone().requires_grad_()
        y = model(x)
        (y * seeded(4, 9, 4, 5)[part].to(dtype)).square().sum().backward()
        grads = [model[0].weight.grad.double(), model[0].bias.grad.double()]
        for g in grads:
            dist.all_reduce(g)
        model.eval()
        model(x.detach())  # no collective: running statistics
        return part, y.detach().double(), x.grad.double(), grads, model[0]

    tolerance = 1e-9 if dtype == rl.float64 else 5e-2
    for part, y, dx, grads, norm in dist.simulate(SIZE, program):
        close = {"rtol": tolerance, "atol": tolerance * 10}
        np.testing.assert_allclose(y.numpy(), output[part].detach().numpy(), **close)
        if dtype == rl.float64:
            np.testing.assert_allclose(dx.numpy(), grad[part].numpy(), **close)
            np.testing.assert_allclose(grads[0].numpy(), reference.weight.grad.numpy(), **close)
            np.testing.assert_allclose(grads[1].numpy(), reference.bias.grad.numpy(), **close)
        for name in ("running_mean", "running_var"):
            np.testing.assert_allclose(
                getattr(norm, name).double().numpy(), getattr(reference, name).numpy(), **close
            )
        assert norm.num_batches_tracked == 1


def test_sync_batch_norm_of_one_value_in_all():
    def program(rank):
        with pytest.raises(ValueError, match="more than 1 value"):
            nn.SyncBatchNorm(2)(rl.ones(1 if rank == 0 else 0, 2))
        return nn.SyncBatchNorm(2, momentum=None)(rl.tensor([[float(rank), 1]])).sum().item()

    assert len(dist.simulate(2, program)) == 2


@pytest.mark.parametrize(
    "optimizer_class, options",
    [(rl.optim.AdamW, {"lr": 0.05}), (rl.optim.SGD, {"lr": 0.1, "momentum": 0.9})],
)
def test_zero_redundancy_steps_as_one_optimizer(optimizer_class, options):
    def train(model, optimizer, scheduler, first, steps):
        for step in range(first, first + steps):
            optimizer.zero_grad()
            model(seeded(step, 4, 3)).square().sum().backward()
            optimizer.step()
            scheduler.step()

    def made(model, kind):
        groups = [{"params": model[0].parameters()},
                  {"params": model[2].parameters(), "lr": 0.01}]  # fmt: skip
        optimizer = kind(groups)
        return optimizer, rl.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def program(rank):
        model = small_model(3, 6, 2)
        optimizer, scheduler = made(
            model, lambda g: ZeroRedundancyOptimizer(g, optimizer_class, **options)
        )
        train(model, optimizer, scheduler, 0, 3)
        with pytest.raises(RuntimeError, match="its own part of the state"):
            optimizer.state_dict()
        optimizer.consolidate_state_dict(to=1)
        saved = [optimizer.state_dict() if rank == 1 else None]
        dist.broadcast_object_list(saved, 1)
        held = sum(p.numel() for p in optimizer.optim.param_groups[0]["params"])
        held += sum(p.numel() for p in optimizer.optim.param_groups[1]["params"])
        again, scheduler = made(
            model, lambda g: ZeroRedundancyOptimizer(g, optimizer_class, **options)
        )
        again.load_state_dict(saved[0])
        train(model, again, scheduler, 3, 2)
        return held, saved[0], [p.detach().numpy() for p in model.parameters()]

    model = small_model(3, 6, 2)
    optimizer, scheduler = made(model, lambda g: optimizer_class(g, **options))
    train(model, optimizer, scheduler, 0, 3)
    expected_state = optimizer.state_dict()
    again, scheduler = made(model, lambda g: optimizer_class(g, **options))
    again.load_state_dict(expected_state)
    train(model, again, scheduler, 3, 2)
    results = dist.simulate(SIZE, program)
    assert sum(held for held, _, _ in results) == sum(p.numel() for p in model.parameters())
    for _, state, got in results:
        assert state["param_groups"] == expected_state["param_groups"]
        assert list(state["state"]) == list(expected_state["state"])
        for mine, theirs in zip(got, model.parameters(), strict=True):
            np.testing.assert_array_equal(mine, theirs.detach().numpy())


def test_join_of_a_model_and_an_optimizer_that_is_dealt_out():
    """A rank without batches still steps its parameters, with the others' gradients."""

    def program(rank):
        found = []
        for dealt in (False, True):
            model = DDP(small_model(4, 5, 2))
            if dealt:
                optimizer = ZeroRedundancyOptimizer(
                    model.parameters(), rl.optim.SGD, lr=0.1, momentum=0.9
                )
            else:
                optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            with Join([model, optimizer] if dealt else [model]):
                for i in range(1 + 2 * rank):
                    optimizer.zero_grad()
                    model(seeded(10 * rank + i, 3, 4)).square().mean().backward()
                    optimizer.step()
            found.append([p.detach().numpy() for p in model.parameters()])
        for plain, shared in zip(*found, strict=True):
            np.testing.assert_allclose(shared, plain, rtol=1e-6)

    dist.simulate(SIZE, program)


def test_sparse_gradients():
    """The mean of gradients at different places equals that of dense ones; join, too."""

    def program(rank):
        found = []
        for sparse in (False, True):
            table = nn.Embedding(6, 3, sparse=sparse)
            with rl.no_grad():
                table.weight.copy_(seeded(1, 6, 3))
            model = DDP(nn.Sequential(table, small_model(3, 2)))
            optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
            with model.join(divide_by_initial_world_size=False):
                for i in range(2 + rank):
                    optimizer.zero_grad()
                    model(rl.tensor([rank, 4, i])).square().sum().backward()
                    assert table.weight.grad.is_sparse == sparse
                    optimizer.step()
            found.append([p.detach().numpy() for p in model.parameters()])
        for dense, other in zip(*found, strict=True):
            np.testing.assert_allclose(other, dense, rtol=1e-5)
        mine = rl.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (5,))
        work = dist.all_reduce(mine, async_op=True)
        assert work.wait() and mine.to_dense().tolist() == [SIZE, 2, 2, 2, 0]
        with pytest.raises(RuntimeError, match="are added"):
            dist.all_reduce(mine, dist.ReduceOp.MAX)

    dist.simulate(SIZE, program)


def test_parameters_that_are_left_alone_and_copies():
    def program(rank):
        model = small_model(3, 2)
        DDP._set_params_and_buffers_to_ignore_for_model(model, ["0.bias"])
        wrapped = DDP(model)
        assert (wrapped.device_type, wrapped.is_multi_device_module) == ("cpu", False)
        copied = copy.deepcopy(wrapped)
        for one in (wrapped, copied):
            (one(rl.ones(1, 3)).sum() * (rank + 1)).backward()
        for mine, other in zip(gradients(model), gradients(copied.module), strict=True):
            np.testing.assert_array_equal(mine, other)
        biases = [rl.zeros(2) for _ in range(SIZE)]
        dist.all_gather(biases, model[0].bias.grad)
        assert not biases[0].equal(biases[1])
        weights = [rl.zeros(2, 3) for _ in range(SIZE)]
        dist.all_gather(weights, model[0].weight.grad)
        assert weights[0].equal(weights[1])

    dist.simulate(SIZE, program)
