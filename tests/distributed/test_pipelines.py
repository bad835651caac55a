"""Pipelines equal one process: outputs, losses, gradients."""

import copy

import pytest
from distributed.ranks import run_ranks

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed import pipelining as pp
from rushlight.distributed.pipelining import schedules
from rushlight.nn import functional as F

pytestmark = pytest.mark.threads

LAYERS = 4


class Block(nn.Module):
    """Two tensors in, two out; one of them has no gradient."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, mask):
        return x + self.b(F.relu(self.a(x)) * mask), mask


def blocks():
    rl.manual_seed(3)
    return nn.ModuleList([Block() for _ in range(LAYERS)])


class Part(nn.Module):
    def __init__(self, layers, last):
        super().__init__()
        self.layers, self.last = layers, last

    def forward(self, x, mask):
        for layer in self.layers:
            x, mask = layer(x, mask)
        return x.sum(-1) if self.last else (x, mask)


def batch(rows=8):
    rl.manual_seed(5)
    return rl.randn(rows, 6), (rl.randn(rows, 6) > 0).float(), rl.randn(rows)


def alone(rows, count):
    """What one process computes: the mean of the micro-batches' losses, and its gradients."""
    model = Part(blocks(), True)
    x, mask, target = batch(rows)
    sizes = [len(part) for part in rl.tensor_split(target, count)]
    outs, losses = [], []
    for xs, ms, ts in zip(x.split(sizes), mask.split(sizes), target.split(sizes), strict=True):
        outs.append(model(xs, ms))
        losses.append(F.mse_loss(outs[-1], ts))
    (sum(losses) / count).backward()
    return rl.cat(outs).detach(), [loss.item() for loss in losses], model.layers


def check(schedule, stages, ranks, rows, count, steps=2):
    out, losses, layers = alone(rows, count)
    per_stage = LAYERS // stages

    def program(rank):
        mine = []
        for s in range(rank, stages, ranks):
            part = Part(blocks()[s * per_stage : (s + 1) * per_stage], s == stages - 1)
            mine.append(pp.PipelineStage(part, s, stages, "cpu"))
        given = mine if stages > ranks else mine[0]
        runner = schedule(given, count, loss_fn=F.mse_loss)
        x, mask, target = batch(rows)
        first, last = rank == 0, rank == (stages - 1) % ranks
        for _ in range(steps):
            for stage in mine:
                stage.submod.zero_grad()
            got: list = []
            result = runner.step(
                *((x, mask) if first else ()), target=target if last else None, losses=got
            )
        quiet = runner.eval(*((x, mask) if first else ()), target=target if last else None)
        if last:
            rl.testing.assert_close(result.detach(), out)
            rl.testing.assert_close(quiet, out)
            assert [loss.item() for loss in got] == pytest.approx(losses)
        else:
            assert result is None and got == []
        for stage in mine:
            first_layer = stage.stage_index * per_stage
            for i, layer in enumerate(stage.submod.layers):
                want = dict(layers[first_layer + i].named_parameters())
                for name, p in layer.named_parameters():
                    rl.testing.assert_close(p.grad, want[name].grad, msg=name)
        return len(mine)

    assert dist.simulate(ranks, program) == [stages // ranks] * ranks


@pytest.mark.parametrize("schedule", [pp.ScheduleGPipe, pp.Schedule1F1B])
@pytest.mark.parametrize(("ranks", "rows", "count"), [(2, 8, 4), (4, 8, 8), (2, 7, 3), (4, 6, 2)])
def test_one_stage_per_rank(schedule, ranks, rows, count):
    check(schedule, ranks, ranks, rows, count)


@pytest.mark.parametrize("schedule", [pp.ScheduleInterleaved1F1B, pp.ScheduleLoopedBFS])
@pytest.mark.parametrize(("ranks", "count"), [(2, 4), (2, 8), (1, 4)])
def test_several_stages_per_rank(schedule, ranks, count):
    check(schedule, 4, ranks, 8, count)


def test_1f1b_holds_no_more_than_the_stages_behind():
    """The first of four stages keeps four micro-batches, the last one."""

    def program(rank):
        stage = pp.PipelineStage(Part(blocks()[rank : rank + 1], rank == 3), rank, 4, "cpu")
        held = []
        before = stage.forward_one_chunk

        def forward(*args):
            out = before(*args)
            held.append(len(stage._outputs))
            return out

        stage.forward_one_chunk = forward
        x, mask, target = batch(16)
        schedule = pp.Schedule1F1B(stage, 16, loss_fn=F.mse_loss)
        schedule.step(*((x, mask) if rank == 0 else ()), target=target if rank == 3 else None)
        return max(held)

    assert dist.simulate(4, program) == [4, 3, 2, 1]


class Net(nn.Module):
    """A value of the first stage is used again in the last."""

    def __init__(self):
        super().__init__()
        rl.manual_seed(7)
        self.first = nn.Linear(6, 6)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)])
        self.scale = nn.Parameter(rl.tensor([2.0]))

    def forward(self, x, shift=1.0):
        early = self.first(x) * self.scale
        h = early
        for layer in self.layers:
            h = layer(h)
        return (h + early * self.scale + shift).sum(-1)


class SplitInside(Net):
    def forward(self, x):
        early = self.first(x)
        pp.pipe_split()
        h = self.layers[0](early)
        pp.pipe_split()
        return (self.layers[1](h) + early).sum(-1)


@pytest.mark.parametrize("kind", ["spec", "inside"])
def test_a_model_is_cut(kind):
    if kind == "spec":
        model = Net()
        spec = {"layers.1": pp.SplitPoint.BEGINNING, "layers.1.1": pp.SplitPoint.END}
        spec = {"layers.1": pp.SplitPoint.BEGINNING, "layers.2": pp.SplitPoint.BEGINNING}
    else:
        model, spec = SplitInside(), None
    x, _, target = batch()
    reference = copy.deepcopy(model)
    F.mse_loss(reference(x), target).backward()
    pipe = pp.pipeline(copy.deepcopy(model), (x[:2],), split_spec=spec)
    assert pipe.num_stages == 3
    rl.testing.assert_close(pipe(x), model(x))

    def program(rank):
        stage = copy.deepcopy(pipe).build_stage(rank, "cpu")
        schedule = pp.Schedule1F1B(stage, 4, loss_fn=F.mse_loss)
        out = schedule.step(*((x,) if rank == 0 else ()), target=target if rank == 2 else None)
        return out, {n: p.grad for n, p in stage.submod.named_parameters()}

    results = dist.simulate(3, program)
    rl.testing.assert_close(results[2][0].detach(), reference(x).detach())
    wanted = {n: p.grad for n, p in reference.named_parameters() if p.grad is not None}
    found: dict = {}
    for _, grads in results:
        for name, grad in grads.items():
            if grad is not None:  # a parameter that two stages read has a part of it on each
                found[name] = found.get(name, 0) + grad
    assert found.keys() == wanted.keys()
    for name, grad in wanted.items():
        rl.testing.assert_close(found[name], grad, msg=name)


def test_refusals():
    def program(rank):
        part = Part(blocks()[:1], rank == 1)
        with pytest.raises(ValueError, match="belongs to rank"):
            pp.PipelineStage(part, 1 - rank, 2, "cpu")
        with pytest.raises(ValueError, match="from 0 to 1"):
            pp.PipelineStage(part, 2, 2, "cpu")
        stage = pp.PipelineStage(part, rank, 2, "cpu")
        with pytest.raises(ValueError, match="at least 1"):
            pp.ScheduleGPipe(stage, 0)
        with pytest.raises(ValueError, match="2 per rank, got 1"):
            pp.ScheduleLoopedBFS([pp.PipelineStage(part, rank, 4, "cpu")], 2)
        with pytest.raises(ValueError, match="ScheduleInterleaved1F1B"):
            pp.Schedule1F1B(pp.PipelineStage(part, rank, 4, "cpu"), 2)
        if rank == 0:
            with pytest.raises(ValueError, match="cannot be cut into 9 micro-batches"):
                pp.ScheduleGPipe(stage, 9).step(*batch(8)[:2])
        else:
            with pytest.raises(ValueError, match="needs a target"):
                pp.ScheduleGPipe(stage, 2, loss_fn=F.mse_loss).step()

    dist.simulate(2, program)
    with pytest.raises(ValueError, match="does not have"):
        pp.pipeline(Net(), split_spec={"nowhere": pp.SplitPoint.END})
    with pytest.raises(NotImplementedError, match="split_policy"):
        pp.pipeline(Net(), split_policy=print)


@pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")
def test_between_processes():
    """With a data parallel copy of each stage: 2 stages on 2 ranks each."""
    run_ranks(
        """
        from rushlight import nn
        from rushlight.distributed import pipelining as pp
        from rushlight.nn.parallel import DistributedDataParallel
        rl.manual_seed(1)
        parts = [nn.Linear(4, 5), nn.Sequential(nn.Tanh(), nn.Linear(5, 1))]
        x, y = rl.randn(16, 4), rl.randn(16, 1)
        whole = nn.Sequential(*parts)
        nn.functional.mse_loss(whole(x), y).backward()
        want = [[p.grad.clone() for p in part.parameters()] for part in parts]
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
        copy, s = mesh.get_local_rank("dp"), mesh.get_local_rank("pp")
        model = DistributedDataParallel(parts[s], process_group=mesh.get_group("dp"))
        stage = pp.PipelineStage(model, s, 2, "cpu", group=mesh.get_group("pp"))
        schedule = pp.Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
        for _ in range(2):
            model.zero_grad()
            mine = slice(copy * 8, copy * 8 + 8)
            schedule.step(*((x[mine],) if s == 0 else ()), target=y[mine] if s == 1 else None)
        for p, w in zip(parts[s].parameters(), want[s], strict=True):
            rl.testing.assert_close(p.grad, w)
        """,
        size=4,
    )


def test_schedules_by_name():
    assert schedules.get_schedule_class("1f1b") is pp.Schedule1F1B
    several = schedules.get_schedule_class("LoopedBFS")
    assert issubclass(several, schedules.PipelineScheduleMulti)
    with pytest.raises(ValueError, match="no schedule 'nope'"):
        schedules.get_schedule_class("nope")
