"""deterministic_world: gradients with the same bits on any number of ranks."""

import hashlib
import os

import numpy as np
import pytest
from distributed.ranks import run_ranks

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel as DDP
from rushlight.nn.parallel._ordered import Tree

pytestmark = pytest.mark.threads

SHARDS = 8


def weights(seed, *shape):
    return rl.tensor(np.random.default_rng(seed).standard_normal(shape)).float()


class Model(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.first = nn.Linear(5, 7, dtype=dtype)
        self.second = nn.Linear(7, 7, dtype=rl.float32)
        with rl.no_grad():
            for i, p in enumerate(self.parameters()):
                p.copy_(weights(i, *p.shape))

    def forward(self, x):
        x = self.first(x.to(self.first.weight.dtype)).tanh().float()
        return self.second(self.second(x).tanh())  # a layer that is used twice


def train(rank, steps, dtype, clears):
    model = DDP(Model(dtype), deterministic_world=SHARDS)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        if step % 2 or clears:
            optimizer.zero_grad(set_to_none=step % 3 == 0)
        batch = weights(1000 + step, 3 * SHARDS, 5)
        for s in model.shards():
            model(batch[s::SHARDS]).square().mean().backward()
        optimizer.step()
    return [p.detach().float().numpy().tobytes() for p in model.parameters()]


@pytest.mark.parametrize("dtype, clears", [(rl.float32, True), (rl.bfloat16, False)])
def test_bits_do_not_depend_on_the_number_of_ranks(dtype, clears):
    results = [dist.simulate(n, train, 12, dtype, clears) for n in (1, 2, 4, 8)]
    for of_ranks in results:
        for parameters in of_ranks:
            assert parameters == results[0][0]


@pytest.mark.slow
def test_a_hundred_steps():
    (one,) = dist.simulate(1, train, 100, rl.float32, True)
    for ranks in (2, 4, 8):
        for parameters in dist.simulate(ranks, train, 100, rl.float32, True):
            assert parameters == one, ranks


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_hundred_steps_of_processes(ranks):
    """The bits are those of one process, over MPI too."""
    (one,) = dist.simulate(1, train, 100, rl.float32, True)
    tests = os.path.dirname(os.path.dirname(__file__))
    printed = run_ranks(
        f"""
        import hashlib
        sys.path.insert(0, {tests!r})
        from distributed.test_ordered_sums import train
        rl.set_num_threads(1)
        print(hashlib.sha256(b"".join(train(RANK, 100, rl.float32, True))).hexdigest())
        """,
        ranks,
        limit=240,
    )
    assert set(printed) == {hashlib.sha256(b"".join(one)).hexdigest() + "\n"}


class Fails(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, now):
        ctx.now = now
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.now:
            raise KeyError("on purpose")
        return gradient, None


@pytest.mark.parametrize("failing", [0, 2])
def test_a_step_after_one_that_failed(failing):
    """Nothing of a step whose backward pass raised is in the next one's gradients."""

    def program():
        model = Model(rl.float32)
        model.forward = lambda x, now: model.second(Fails.apply(model.first(x), now))
        ddp = DDP(model, deterministic_world=4)
        batch = weights(0, 8, 5)

        def gradients(fails=None):
            for s in ddp.shards():
                ddp(batch[s::4], s == fails).square().mean().backward()
            return [p.grad.numpy().tobytes() for p in model.parameters()]

        right = gradients()  # which stand when the next step fails
        with pytest.raises(KeyError):
            gradients(failing)
        ddp.zero_grad()
        return right == gradients()

    assert dist.simulate(1, program) == [True]


def test_the_mean_of_the_shards():
    def program():
        model = DDP(Model(rl.float32), deterministic_world=4)
        batch = weights(0, 8, 5)
        for s in model.shards():
            model(batch[s::4]).square().mean().backward()
        return [p.grad.numpy() for p in model.parameters()]

    model = Model(rl.float32)
    model(weights(0, 8, 5)).square().mean().backward()
    for got in dist.simulate(2, program):
        for mine, parameter in zip(got, model.parameters(), strict=True):
            np.testing.assert_allclose(mine, parameter.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_the_order_of_additions():
    tree = Tree()
    values = [1e16, 1.0, -1e16, 1.0]
    for value in values:
        tree.add([rl.tensor([value], dtype=rl.float64)])
    assert tree.take()[0].item() == (values[0] + values[1]) + (values[2] + values[3]) != sum(values)


def test_what_does_not_go_together():
    def program():
        with pytest.raises(ValueError, match="power of two"):
            DDP(Model(rl.float32), deterministic_world=3)
        with pytest.raises(ValueError, match="multiple of the number of ranks"):
            DDP(Model(rl.float32), deterministic_world=1)
        model = DDP(Model(rl.float32), deterministic_world=2)
        with pytest.raises(RuntimeError, match="no_sync"), model.no_sync():
            pass
        with pytest.raises(RuntimeError, match="hooks"):
            model.register_comm_hook(None, print)
        with pytest.raises(RuntimeError, match="shards"):
            DDP(Model(rl.float32)).shards()
        with pytest.raises(RuntimeError, match=r"no gradient in this step: \['second.weight"):
            model.module.first(rl.ones(1, 5)).sum().backward()
            model._reducer.prepare()
            model.module.first(rl.ones(1, 5)).sum().backward()

    dist.simulate(2, program)
