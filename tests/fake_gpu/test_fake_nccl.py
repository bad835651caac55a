"""Process groups of GPUs without a GPU: the fake driver's streams work behind the program, and the
fake NCCL moves bytes between processes. Kernels do nothing, so values come from the host."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from distributed.ranks import Ranks

import rushlight as rl
import rushlight.distributed as dist

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = Path(rl.__file__).parents[1]  # a sanitizer's is not the checkout's

BEGIN = """
def gpu(values, dtype=rl.float32):
    return rl.tensor(values).to(dtype).cuda()

def begin(backend="nccl", **options):
    dist.init_process_group(backend, init_method=os.environ["METHOD"], rank=RANK, world_size=SIZE,
                            **options)
"""


@pytest.fixture(scope="session")
def fake_nccl(fake_folder):
    command = [shutil.which("g++"), "-std=c++20", "-O0", "-shared", "-fPIC",
               f"-I{ROOT / 'csrc'}", str(HERE / "fake_nccl.cpp"),
               "-o", str(fake_folder / "libnccl.so.2")]  # fmt: skip
    subprocess.run(command, check=True)
    return fake_folder


@pytest.fixture
def ranks(fake_nccl, tmp_path):
    """ranks(source, size): processes with a GPU each."""

    def start(source, size=2, begin="begin()", **environment):
        path = os.environ.get("LD_LIBRARY_PATH", "")
        more = {
            "LD_LIBRARY_PATH": f"{fake_nccl}:{path}",
            "RUSHLIGHT_LIBRARY_PATH": f"{fake_nccl}:{os.environ.get('RUSHLIGHT_LIBRARY_PATH', '')}",
            "PYTHONPATH": str(PACKAGE),
            "CUDA_VISIBLE_DEVICES": "0",
            "FAKE_NCCL_FOLDER": str(tmp_path),
            **environment,
        }
        return Ranks(source, size, begin=BEGIN + begin, **more)

    return start


@pytest.fixture
def run_gpus(ranks):
    """The same, to their good end: what each rank printed."""

    def run(source, size=2, **options):
        results = ranks(source, size, **options).finish(60)
        for rank, (out, err, code) in enumerate(results):
            assert code == 0, f"rank {rank}, return code {code}\n{out}\n{err}"
        return [out for out, _, _ in results]

    return run


COLLECTIVES = """
def same(t, want):
    got = t.cpu().to(rl.float64)
    assert np.allclose(got.numpy(), np.asarray(want, dtype=float), rtol=1e-2), (got, want)

total = SIZE * (SIZE + 1) / 2
for dtype in (rl.float32, rl.float64, rl.float16, rl.bfloat16, rl.int8, rl.uint8, rl.int32,
              rl.int64):
    x = gpu([RANK + 1, 2], dtype)
    assert dist.all_reduce(x) is None
    same(x, [total, 2 * SIZE])
    dist.reduce(y := gpu([RANK + 1, 1], dtype), SIZE - 1, dist.ReduceOp.MAX)
    same(y, [SIZE if RANK == SIZE - 1 else RANK + 1, 1])
    if dtype.is_floating_point:
        dist.all_reduce(x := gpu([RANK + 1], dtype), dist.ReduceOp.AVG)
        same(x, [total / SIZE])
    out = rl.empty(1, dtype=dtype, device="cuda")
    dist.reduce_scatter_tensor(out, gpu(list(range(SIZE)), dtype), dist.ReduceOp.SUM)
    same(out, [SIZE * RANK])
dist.all_reduce(flags := gpu([RANK == 0, False], rl.bool))
assert flags.cpu().tolist() == [True, False]
dist.all_reduce(z := rl.tensor([complex(RANK, 1)]).cuda())
assert z.cpu().tolist() == [complex(SIZE * (SIZE - 1) / 2, SIZE)]
dist.broadcast(x := gpu([RANK, RANK], rl.int16), 1)
same(x, [1, 1])
parts = [rl.zeros(2).cuda() for _ in range(SIZE)]
dist.all_gather(parts, gpu([RANK, 7]))
for r, part in enumerate(parts):
    same(part, [r, 7])
joined = gpu([[RANK, 7]] * SIZE)
dist.all_gather_into_tensor(joined, joined[RANK])       # in place
same(joined, [[r, 7] for r in range(SIZE)])
dist.gather(gpu([RANK]), [rl.zeros(1).cuda() for _ in range(SIZE)] if RANK == 0 else None)
dist.scatter(out := rl.zeros(1).cuda(), [gpu([r]) for r in range(SIZE)] if RANK == 1 else None, 1)
same(out, [RANK])
outs = [rl.zeros(1).cuda() for _ in range(SIZE)]
dist.all_to_all(outs, [gpu([10 * RANK + r]) for r in range(SIZE)])
same(rl.stack([o.cpu() for o in outs])[:, 0], [10 * r + RANK for r in range(SIZE)])
dist.all_reduce_coalesced(several := [gpu([1.0]), gpu([[RANK, 0]]), rl.zeros(0).cuda()])
same(several[1], [[SIZE * (SIZE - 1) / 2, 0]])
dist.barrier()
dist.barrier(device_ids=[0])
things = [RANK, "x" * RANK]
dist.broadcast_object_list(things, 1)
assert things == [1, "x"]
every = [None] * SIZE
dist.all_gather_object(every, {"rank": "y" * RANK})
assert [len(o["rank"]) for o in every] == list(range(SIZE))
dist.scatter_object_list(mine := [None], list(range(SIZE)) if RANK == 0 else None)
assert mine == [RANK]
pair = dist.new_group([0, 1])
if RANK < 2:
    dist.all_reduce(x := gpu([RANK + 1.0]), group=pair)
    same(x, [3])
assert dist.get_backend() == "nccl" and dist.get_backend_config() == "cuda:nccl"

for error, text, call in [
    (RuntimeError, 'no backend for CPU.*"cpu:gloo,cuda:nccl"', lambda: dist.all_reduce(rl.ones(1))),
    (ValueError, "NCCL has no BOR", lambda: dist.all_reduce(gpu([1], rl.int32), dist.ReduceOp.BOR)),
    (TypeError, "does not add int16", lambda: dist.all_reduce(gpu([1], rl.int16))),
    (ValueError, "source must be named", lambda: dist.recv(gpu([1.0]))),
    (RuntimeError, "one device", lambda: dist.all_gather([rl.ones(1)] * SIZE, gpu([1.0]))),
]:
    try:
        call()
    except error as e:
        import re
        assert re.search(text, str(e), re.S), e
    else:
        raise AssertionError(text)
"""


@pytest.mark.parametrize("size", [2, 3])
def test_collectives(run_gpus, size):
    run_gpus(COLLECTIVES, size)


MESSAGES = """
after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
# All send first, in a ring: nobody waits for the other's receive.
for n in (1, 3, 100_000):
    sent = rl.full((n,), float(RANK)).cuda()
    work = dist.isend(sent, after)
    dist.recv(got := rl.zeros(n).cuda(), before)
    assert got.cpu()[-1] == before
    assert work.wait() and work.is_completed() in (True, False)
# Messages of one direction stay in order.
works = [dist.isend(gpu([10.0 * RANK + i]), after) for i in range(4)]
for i in range(4):
    dist.recv(got := rl.zeros(1).cuda(), before)
    assert got.item() == 10 * before + i
for work in works:
    work.wait()
ops = [dist.P2POp(dist.isend, gpu([RANK + 0.5]), after),
       dist.P2POp(dist.irecv, rl.zeros(1).cuda(), before)]
for work in dist.batch_isend_irecv(ops):
    work.wait()
assert ops[1].tensor.item() == before + 0.5
# Nothing waits on the host until a value is read: rank 0 comes when rank 1 has gone on.
from rushlight.distributed.distributed_c10d import _get_default_store
if RANK == 0:
    _get_default_store().wait(["rank 1 went on"], timedelta(seconds=60))
x = gpu([RANK + 1.0])
work = dist.all_reduce(x, async_op=True)
work.wait()                                # the stream waits
if RANK == 1:
    assert not work.is_completed()
    _get_default_store().set("rank 1 went on", "yes")
assert x.item() == SIZE * (SIZE + 1) / 2   # and so does what comes behind it
assert work.wait(timedelta(seconds=20)) and work.is_success()
# A side stream sees the result only when it waits.
with rl.cuda.stream(side := rl.cuda.Stream()):
    work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
    work.wait()
    assert x.item() == SIZE * (SIZE + 1) / 2
assert work.get_future().then(lambda f: f.value()[0].item()).wait() == x.item()
dist.destroy_process_group()
"""


def test_messages_and_streams(run_gpus):
    run_gpus(MESSAGES, 3)


def test_both_backends_in_one_group(run_gpus):
    if not dist.is_mpi_available():
        pytest.skip("no MPI library is installed")
    run_gpus(
        """
        for _ in range(3):
            dist.all_reduce(x := gpu([RANK + 1.0]))
            dist.all_reduce(y := rl.tensor([RANK + 1.0]))
            assert x.item() == y.item() == 3
        assert dist.get_backend_config() == "cpu:gloo,cuda:nccl"
        dist.barrier()
        sub = dist.new_group([0, 1], backend="gloo")
        dist.all_reduce(y, group=sub)
        assert y.item() == 6
        """,
        begin="rl.cuda.set_device(0)\nbegin('cpu:gloo,cuda:nccl', device_id=rl.device('cuda:0'))",
    )


def test_a_group_of_one(run_gpus):
    run_gpus(
        """
        dist.all_reduce(x := gpu([2.0]), dist.ReduceOp.AVG)
        dist.all_gather(out := [rl.zeros(1).cuda()], x)
        dist.barrier()
        assert out[0].item() == 2
        """,
        size=1,
    )


FAULTS = {
    "other shape": ("dist.all_reduce(gpu([1.0, 2.0]))", ["disagree at collective #3", "on a GPU"]),
    "raises": ("raise KeyError('lost')", ["rank 1", "raised KeyError: 'lost'", "waits in #3"]),
    "dies": ("os.kill(os.getpid(), 9)", ["rank 1", "ended without leaving", "waits in #3"]),
    "is frozen": ("os.kill(os.getpid(), 19)", ["rank 1", "is stopped", "waits in #3"]),
}


@pytest.mark.parametrize("fault", [pytest.param(f, marks=pytest.mark.slow) for f in FAULTS])
def test_verdicts(ranks, fault):
    """A collective that will never end: the next wait of the host raises, and the next call."""
    second, words = FAULTS[fault]
    group = ranks(f"""
        for _ in range(2):
            dist.all_reduce(x := gpu([1.0]))
            x.item()
        if RANK == 0:
            dist.all_reduce(x)
            try:
                x.item()
            except dist.DistBackendError as error:
                print(error, flush=True)
            dist.all_reduce(x)
            x.item()
        else:
            {second}
            time.sleep(60)
        """)
    begun = time.monotonic()
    out, err, code = _first(group)
    assert time.monotonic() - begun < 30 and code == 1
    # Sizes that differ are found by comparing records: the first read may have come before that.
    for text in (err,) if fault == "other shape" else (out, err):
        assert all(re.search(word, text) for word in words), text


def _first(group):
    """Rank 0's end; the other is ended then."""
    out, err = group.processes[0].communicate(timeout=45)
    for process in group.processes[1:]:
        process.send_signal(signal.SIGKILL)
    group.finish()
    return out, err, group.processes[0].returncode


def test_an_error_of_nccl_ends_all_ranks(ranks):
    group = ranks(
        """
        dist.all_reduce(x := gpu([1.0]))
        x.item()
        dist.all_reduce(x)
        x.item()
        """,
        FAKE_NCCL_FAIL="2",
    )
    for _, err, code in group.finish(60):
        assert code == 1 and "remote process exited" in err


def test_a_timeout_says_who_has_not_come(ranks):
    group = ranks(
        """
        dist.all_reduce(x := gpu([1.0]))
        x.item()
        if RANK == 0:
            dist.all_reduce(x)
            x.item()
        time.sleep(8)
        """,
        begin="begin(timeout=timedelta(seconds=2))",
    )
    _, err, code = _first(group)
    assert code == 1
    assert re.search(r"timed out on rank 0 after 2000 ms.*rank 1.*not come", err, re.S)


TRAINING = """
from rushlight.nn.parallel import DistributedDataParallel
model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.BatchNorm1d(8), rl.nn.Linear(8, 2)).cuda()
ddp = DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=0.0001)
for step in range(3):
    out = ddp(rl.ones(3, 4))               # inputs are moved
    assert out.is_cuda
    out.sum().backward()
    assert all(p.grad is not None and p.grad.is_cuda for p in model.parameters())
# Kernels compute nothing here; what is averaged are the bytes in the buckets.
reducer = ddp._reducer
assert len(reducer.buckets) > 1
for bucket in reducer.buckets:
    bucket.flat.copy_(rl.full(bucket.flat.shape, float(RANK)))
    work = reducer.average(bucket.flat, bucket.factor is not None)
    work.wait()
    assert bucket.flat.cpu()[0] == 0.5
optimizer = rl.distributed.optim.ZeroRedundancyOptimizer(
    model.parameters(), optimizer_class=rl.optim.SGD, lr=0.1)
optimizer.step()
sync = rl.nn.SyncBatchNorm.convert_sync_batchnorm(model)
from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
mesh = init_device_mesh("cuda", (SIZE,))
d = distribute_tensor(rl.arange(6.0), mesh, [Shard(0)])
assert d.to_local().is_cuda and d.to_local().cpu().tolist() == [3.0 * RANK + i for i in range(3)]
assert d.full_tensor().shape == (6,)
from rushlight.distributed.fsdp import CPUOffloadPolicy, fully_shard
part = fully_shard(rl.nn.Linear(4, 4).cuda(), offload_policy=CPUOffloadPolicy())
optimizer = rl.optim.AdamW(part.parameters())
part(rl.ones(3, 4).cuda()).sum().backward()
optimizer.step()
for p in part.parameters():                # parts, gradients and states are the host's
    kept = [p.to_local(), p.grad.to_local(), optimizer.state[p]["exp_avg"].to_local()]
    assert [t.device.type for t in kept] == ["cpu"] * 3 and len(kept[0]) == 2
import rushlight.distributed.checkpoint as dcp
folder = os.environ["FAKE_NCCL_FOLDER"] + "/checkpoint"
dcp.save({"d": d}, checkpoint_id=folder)
e = distribute_tensor(rl.zeros(6), mesh, [Shard(0)])
dcp.load({"d": e}, checkpoint_id=folder)
assert e.to_local().cpu().tolist() == d.to_local().cpu().tolist()
from rushlight.distributed.fsdp import fully_shard
net = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.Linear(4, 4)).cuda()
for layer in net:
    fully_shard(layer)
fully_shard(net)
net(rl.ones(2, 4).cuda()).sum().backward()
assert net[0].weight.to_local().is_cuda and net[0].weight.grad.to_local().shape == (2, 4)
"""


def test_training_flows(run_gpus):
    run_gpus(TRAINING)


PIPELINES = """
from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
for kind in (ScheduleGPipe, Schedule1F1B):
    stage = PipelineStage(rl.nn.Linear(4, 4).cuda(), RANK, SIZE, "cuda")
    schedule = kind(stage, 4, loss_fn=rl.nn.functional.mse_loss)
    for step in range(2):                  # the second one knows all shapes
        losses = []
        batch = (rl.ones(8, 4).cuda(),) if RANK == 0 else ()
        last = {"target": rl.ones(8, 4).cuda(), "losses": losses} if RANK == SIZE - 1 else {}
        out = schedule.step(*batch, **last)
        assert (out is None) == (RANK < SIZE - 1) and len(losses) == 4 * (RANK == SIZE - 1)
        assert stage.submod.weight.grad.is_cuda
# Both ends of a pair send before they receive, and neither direction was used before.
pair = dist.new_group([0, 1])
if RANK < 2:
    for size in (1, 1 << 20):
        work = dist.isend(rl.full((size,), float(RANK)).cuda(), 1 - RANK, group=pair)
        dist.recv(got := rl.zeros(size).cuda(), 1 - RANK, group=pair)
        work.wait()
        assert got.cpu()[-1] == 1 - RANK
"""


def test_pipelines(run_gpus):
    """Kernels compute nothing; what is sent and received, and in which order, is real."""
    run_gpus(PIPELINES, 3)


def test_launches_are_not_coalesced_while_ranks_are_connected(run_gpus):
    """A graph that is made while a kernel waits for another rank could wait for it, too."""
    run_gpus(
        """
x = rl.zeros(8, device="cuda")
def batched():
    for _ in range(100):
        x.add_(1).mul_(2)
    cuda.synchronize()
    return cuda.coalescing_stats()["batched_kernels"]
from rushlight import cuda
assert (before := batched()) > 0
dist.all_reduce(x)
during = batched()  # (what was kept back when they connected is queued then)
assert batched() == during
dist.destroy_process_group()
assert batched() > during
""",
        FAKE_CUDA_PARAMETERS="4",
    )


def test_messages_are_queued_in_the_programs_order(run_gpus, tmp_path):
    """Also those that had to wait until their ranks were connected: once a message was received,
    the program may do what keeps others from queueing."""
    notes = f"os.environ['FAKE_NCCL_MESSAGES'] = {str(tmp_path / 'messages')!r} + str(RANK)\n"
    run_gpus(
        notes
        + """
if RANK == 0:
    works = [dist.isend(gpu([float(i)]), 1) for i in range(5)]
    dist.recv(got := gpu([0.0]), 1)
else:
    works = [dist.isend(gpu([9.0]), 0)]
    for i in range(5):
        dist.recv(got := gpu([0.0]), 0)
        assert got.item() == i
for work in works:
    work.wait()
"""
    )
    # Before, each direction carries a byte.
    assert (tmp_path / "messages0").read_text().split()[2:] == ["send"] * 5 + ["receive"]


@pytest.mark.slow
def test_going_on_without_a_lost_rank(ranks):
    group = ranks(
        """
        dist.all_reduce(x := gpu([1.0]))
        x.item()
        if RANK == 1:
            os.kill(os.getpid(), 9)
        try:
            dist.all_reduce(x)
            x.item()
        except dist.DistBackendError:
            here = dist.survivors(timeout=timedelta(seconds=3))
        dist.shrink_group([r for r in range(SIZE) if r not in here])
        dist.all_reduce(x := gpu([RANK + 1.0]))
        print(here, dist.get_rank(), dist.get_world_size(), x.item(), flush=True)
        """,
        3,
    )
    ends = group.finish(60)
    printed = [out for out, _, _ in ends]
    assert printed == ["[0, 2] 0 2 4.0\n", "", "[0, 2] 1 2 4.0\n"], ends
