"""Real NCCL: ranks that share one GPU, each of which takes itself for a host of its own. It shows
that results are right, never speed: every operation takes milliseconds then."""

import os

import pytest
from distributed.ranks import Ranks

import rushlight.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_nccl_available(), reason="no NCCL library")

# Seconds; where other programs share the GPU, the ranks wait for them, too.
LIMIT = int(os.environ.get("RUSHLIGHT_TEST_HANGS_AFTER", "150"))

BEGIN = (
    f"""
import faulthandler
faulthandler.dump_traceback_later({LIMIT}, exit=True)  # says where it hung
"""
    + """
os.environ["NCCL_HOSTID"] = f"host{RANK}"
from rushlight import nn
F = nn.functional

def model(layers=4):
    rl.manual_seed(1)
    return nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(layers)])

def batch(rows=32):
    rl.manual_seed(2)
    return rl.randn(rows, 64).cuda(), rl.randn(rows, 64).cuda()

def same(found, wanted, what=""):
    rl.testing.assert_close(found.detach().cpu(), wanted.detach().cpu(), rtol=1e-4, atol=1e-5,
                            msg=f"{what}: {found} {wanted}")

def alone():
    net = model().cuda()
    x, y = batch()
    F.mse_loss(net(x), y).backward()
    return net

dist.init_process_group("nccl", init_method=os.environ["METHOD"], rank=RANK, world_size=SIZE)
"""
)

COLLECTIVES = """
for dtype in (rl.float32, rl.float64, rl.float16, rl.bfloat16, rl.int32, rl.int64, rl.uint8):
    x = rl.full((1000,), RANK + 1, dtype=dtype, device="cuda")
    dist.all_reduce(x)
    assert x[-1].item() == SIZE * (SIZE + 1) / 2
    parts = [rl.zeros(3, dtype=dtype).cuda() for _ in range(SIZE)]
    dist.all_gather(parts, rl.full((3,), RANK, dtype=dtype, device="cuda"))
    assert [int(p[0]) for p in parts] == list(range(SIZE))
    outs = [rl.zeros(2, dtype=dtype).cuda() for _ in range(SIZE)]
    dist.all_to_all(outs, [rl.full((2,), 10 * RANK + r, dtype=dtype, device="cuda")
                           for r in range(SIZE)])
    assert [int(o[1]) for o in outs] == [10 * r + RANK for r in range(SIZE)]
after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
for size in (1, 100_000, 10_000_000) if SIZE > 1 else ():  # all send before they receive
    work = dist.isend(rl.full((size,), float(RANK)).cuda(), after)
    dist.recv(got := rl.zeros(size).cuda(), before)
    work.wait()
    assert got[-1].item() == before
dist.barrier()
"""

TRAINING = """
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import init_device_mesh
want = dict(alone().named_parameters())
x, y = batch()
mine = slice(RANK * len(x) // SIZE, (RANK + 1) * len(x) // SIZE)
ddp = nn.parallel.DistributedDataParallel(model().cuda(), device_ids=[0], bucket_cap_mb=0.02)
for _ in range(2):
    ddp.zero_grad()
    F.mse_loss(ddp(x[mine]), y[mine]).backward()
    for name, p in ddp.module.named_parameters():
        same(p.grad, want[name].grad, name)
sharded = model().cuda()
for layer in sharded:
    fully_shard(layer)
fully_shard(sharded)
F.mse_loss(sharded(x[mine]), y[mine]).backward()
for name, p in sharded.named_parameters():
    same(p.grad.full_tensor(), want[name].grad, name)
from rushlight.distributed.fsdp import CPUOffloadPolicy
offloaded = model().cuda()
for layer in offloaded:
    fully_shard(layer, offload_policy=CPUOffloadPolicy())
optimizer = rl.optim.SGD(offloaded.parameters(), lr=0.5)
F.mse_loss(offloaded(x[mine]), y[mine]).backward()
optimizer.step()
for name, p in offloaded.named_parameters():
    local, whole = p.grad.to_local(), want[name].grad
    assert local.device.type == p.to_local().device.type == "cpu"
    same(local, whole.tensor_split(SIZE)[RANK], name)
    same(p.to_local(), (want[name] - 0.5 * whole).tensor_split(SIZE)[RANK], name)
"""

PIPELINES = """
from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
want = [dict(layer.named_parameters()) for layer in alone()]
x, y = batch()
each = 4 // SIZE
for kind in (ScheduleGPipe, Schedule1F1B):
    for count in (4, 8):
        part = model()[RANK * each : (RANK + 1) * each].cuda()
        schedule = kind(PipelineStage(part, RANK, SIZE, "cuda"), count, loss_fn=F.mse_loss)
        for _ in range(3):
            part.zero_grad()
            schedule.step(*((x,) if RANK == 0 else ()), target=y if RANK == SIZE - 1 else None)
        for i, layer in enumerate(part):
            for name, p in layer.named_parameters():
                same(p.grad, want[RANK * each + i][name].grad, f"{kind.__name__} {count} {name}")
"""

PROGRAMS = {"collectives": COLLECTIVES, "training": TRAINING, "pipelines": PIPELINES}


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("program", PROGRAMS)
def test_ranks_on_one_gpu(program, size):
    results = Ranks(PROGRAMS[program], size, begin=BEGIN).finish(LIMIT + 20)
    for rank, (out, err, code) in enumerate(results):
        assert code == 0, f"rank {rank}, return code {code}\n{out}\n{err}"
