"""DistributedDataParallel: ranks on parts of a batch do what one process does on all of it."""

import pytest
from distributed.ranks import Ranks, run_ranks
from scripts import run

import rushlight as rl
import rushlight.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")

# A model, its data, and its training on one process.
MODEL = """
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel as DDP

def make(dtype=rl.float64):
    rl.manual_seed(7)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(),
                         nn.Linear(16, 3)).to(dtype)

def batches(n, size=8, dtype=rl.float64):
    generator = rl.Generator().manual_seed(3)
    return [(rl.randn(size, 6, generator=generator, dtype=dtype),
             rl.randn(size, 3, generator=generator, dtype=dtype)) for _ in range(n)]

def part(x):
    return x.chunk(SIZE)[RANK]

def train(model, data, own=lambda x: x):
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(own(x)), own(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses

def same(a, b, rtol=1e-12, atol=1e-13):
    for (name, p), q in zip(a.named_parameters(), b.parameters()):
        rl.testing.assert_close(p, q, rtol=rtol, atol=atol, msg=lambda m: name + m)
"""


@pytest.mark.parametrize(
    ("views", "cap", "size"),
    [(False, 25, 2), (False, 0.001, 2), (True, 25, 2), (True, 0.001, 2), (True, 0.001, 4)],
)
def test_equals_one_process_on_the_whole_batch(views, cap, size):
    run_ranks(
        MODEL
        + f"""
data = batches(10)
alone = make()
expected = train(alone, data)
model = make()
if RANK > 0:  # rank 0's values count
    for p in model.parameters():
        p.data.zero_()
ddp = DDP(model, bucket_cap_mb={cap}, gradient_as_bucket_view={views})
losses = train(ddp, data, part)
same(model, alone)
for mine, whole in zip(losses, expected):
    dist.all_reduce(mine, dist.ReduceOp.AVG)
    rl.testing.assert_close(mine, whole, rtol=1e-12, atol=1e-13)
buckets = ddp._reducer.buckets
assert len(buckets) == 1 if {cap} == 25 else len(buckets) > 2, len(buckets)
assert list(ddp.state_dict()) == ["module." + k for k in model.state_dict()]
# The buckets follow the order in which gradients became ready: the last layer first.
order = [ddp._reducer.names[i] for b in buckets for i in b.indices]
assert order[0].startswith("4.") and order[-1].startswith("0."), order
if {views}:
    assert all(p.grad.data_ptr() == ddp._reducer.bucket_of[i].views[i].data_ptr()
               for i, p in enumerate(model.parameters()))
""",
        size,
    )


def test_float32_and_zeroed_gradients():
    run_ranks(
        MODEL
        + """
data = batches(5, dtype=rl.float32)
alone = make(rl.float32)
train(alone, data)
for views in (False, True):
    model = make(rl.float32)
    ddp = DDP(model, gradient_as_bucket_view=views)
    optimizer = rl.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    for x, y in data:
        optimizer.zero_grad(set_to_none=False)
        nn.functional.mse_loss(ddp(part(x)), part(y)).backward()
        optimizer.step()
    same(model, alone, 1e-5, 1e-6)
"""
    )


def test_no_sync_adds_up_and_averages_once():
    run_ranks(
        MODEL
        + """
data = batches(4)
alone, model = make(), make()
ddp = DDP(model)
before = len(dist.group.WORLD._recorded())
for i, (x, y) in enumerate(data):
    nn.functional.mse_loss(alone(x), y).backward()
    if i < 3:
        with ddp.no_sync():
            nn.functional.mse_loss(ddp(part(x)), part(y)).backward()
        assert len(dist.group.WORLD._recorded()) == before  # nothing was sent
    else:
        nn.functional.mse_loss(ddp(part(x)), part(y)).backward()
for p, q in zip(model.parameters(), alone.parameters()):
    rl.testing.assert_close(p.grad, q.grad, rtol=1e-12, atol=1e-13)
"""
    )


UNUSED = (
    MODEL
    + """
class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 2), nn.Linear(4, 2)
        self.never = nn.Linear(4, 2)
    def forward(self, x, which):
        return self.first(x) if which == 0 else self.second(x)
"""
)


def test_a_parameter_without_gradient_is_named_in_the_same_step():
    for out in run_ranks(
        UNUSED
        + """
ddp = DDP(Halves())
try:
    ddp(rl.ones(1, 4), 0).sum().backward()
except RuntimeError as error:
    print(error)
"""
    ):
        assert "4 of 6 parameters got no gradient in this step" in out
        assert "second.weight, second.bias, never.weight, never.bias" in out
        assert "find_unused_parameters=True" in out


def test_unused_parameters():
    run_ranks(
        UNUSED
        + """
model = Halves()
ddp = DDP(model, find_unused_parameters=True)
for step in range(3):
    ddp.zero_grad()
    ddp(rl.full((1, 4), 2.0), RANK).sum().backward()
    # Each half was used on one rank of two; what nobody used has no gradient.
    assert (model.first.weight.grad == 1).all() and (model.second.weight.grad == 1).all()
    assert model.never.weight.grad is None
"""
    )


def test_buffers_follow_rank_0():
    run_ranks(
        MODEL
        + """
rl.manual_seed(RANK)
model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
ddp = DDP(model)
x = rl.randn(16, 6)
for _ in range(3):
    ddp(x).sum().backward()
ddp.eval()
ddp(x)
means = [rl.zeros(4) for _ in range(SIZE)]
model[1].running_mean += RANK  # until the next forward pass in training
ddp.train()
ddp(x)
ddp(x)
count = [rl.zeros((), dtype=rl.int64) for _ in range(SIZE)]
dist.all_gather(count, model[1].num_batches_tracked)
assert count[0] == count[1] == 5
"""
    )


def test_several_dtypes_frozen_parameters_and_shared_ones():
    run_ranks(
        MODEL
        + """
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4).double()
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.a.weight
    def forward(self, x):
        return self.b(self.tied(self.frozen(self.a(x))).double())
rl.manual_seed(1)
model, alone = Mixed(), None
ddp = DDP(model)
rl.manual_seed(1)
alone = Mixed()
x = rl.randn(8, 4)
for _ in range(2):
    ddp.zero_grad(); alone.zero_grad()
    ddp(part(x)).square().mean().backward()
    alone(x).square().mean().backward()
    for (name, p), q in zip(model.named_parameters(), alone.parameters()):
        if p.requires_grad:
            rl.testing.assert_close(p.grad, q.grad, rtol=1e-5, atol=1e-6)
assert model.frozen.weight.grad is None
assert {b.flat.dtype for b in ddp._reducer.buckets} == {rl.float32, rl.float64}
"""
    )


def test_communication_begins_before_backward_ends():
    """The last layer's bucket is on its way while earlier gradients are still computed."""
    run_ranks(
        MODEL
        + """
model = make()
ddp = DDP(model, bucket_cap_mb=0.0001)
for x, y in batches(2):
    ddp(part(x)).sum().backward()
seen = []
def first_layer(_):
    reducer = ddp._reducer
    seen.append((reducer.sent, reducer.buckets[0].work is not None))
model[0].weight.register_hook(first_layer)
ddp(part(x)).sum().backward()
assert seen and seen[0][0] >= 2 and seen[0][1], seen
"""
    )


def test_different_models_are_told():
    results = Ranks(
        MODEL
        + """
DDP(nn.Linear(4, 2 + RANK))
"""
    ).finish()
    for _, err, code in results:
        assert code == 1 and "the ranks have different models" in err, err
        assert "('weight', (2, 4), 'rushlight.float32')" in err, err


def test_one_rank():
    run("""
        import rushlight as rl, rushlight.distributed as dist
        from rushlight.nn.parallel import DistributedDataParallel as DDP
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        model = rl.nn.Linear(3, 2)
        ddp = DDP(model)
        ddp(rl.ones(4, 3)).sum().backward()
        assert (model.weight.grad == 4).all() and ddp.module is model
        with rl.no_grad():
            ddp(rl.ones(4, 3))
        model.register_parameter("unused", rl.nn.Parameter(rl.ones(1)))
        try:
            DDP(model)(rl.ones(4, 3)).sum().backward()
        except RuntimeError as error:
            assert "1 of 3 parameters" in str(error) and "unused" in str(error), error
        else:
            raise AssertionError
        """)


def test_errors():
    with pytest.raises(ValueError, match="process group has not been initialized"):
        rl.nn.parallel.DistributedDataParallel(rl.nn.Linear(1, 1))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        ddp = rl.nn.parallel.DistributedDataParallel
        with pytest.raises(RuntimeError, match="require a gradient"):
            ddp(rl.nn.ReLU())
        with pytest.raises(ValueError, match="device_ids"):
            ddp(rl.nn.Linear(1, 1), device_ids=[0])
        with pytest.raises(NotImplementedError, match="mixed_precision"):
            ddp(rl.nn.Linear(1, 1), mixed_precision=1)
    finally:
        dist.destroy_process_group()


def test_gradients_that_live_in_buckets_are_averaged_once():
    # The second backward adds to the views; half types and wider ones are divided in other places.
    run_ranks(
        """
        from rushlight.nn.parallel import DistributedDataParallel
        for dtype in (rl.float32, rl.float64, rl.bfloat16):
            net = rl.nn.Linear(4, 2, bias=False, dtype=dtype)
            rl.nn.init.ones_(net.weight)
            model = DistributedDataParallel(net)
            mean = (1 + 2 + 3) / 3
            for step in range(3):
                model(rl.full((1, 4), RANK + 1.0, dtype=dtype)).sum().backward()
                expected = mean * (step + 1)
                assert (net.weight.grad.float() - expected).abs().max() < 0.05, (dtype, step)
            model.zero_grad(set_to_none=False)
            with model.no_sync():
                model(rl.full((1, 4), RANK + 1.0, dtype=dtype)).sum().backward()
            model(rl.full((1, 4), RANK + 1.0, dtype=dtype)).sum().backward()
            assert (net.weight.grad.float() - 2 * mean).abs().max() < 0.05, dtype
        """,
        3,
    )


def test_communication_has_no_threads_for_loops():
    # They would want the processors on which backward computes.
    run_ranks(
        """
        def threads():
            return len(os.listdir("/proc/self/task"))

        x = rl.ones(1 << 24)
        x.div_(2)  # the main thread's loops have theirs
        dist.all_reduce(rl.ones(4), async_op=True).wait()
        before = threads()
        dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True).wait()
        assert (x == 0.5).all() and threads() == before
        """,
        OMP_NUM_THREADS="2",
    )
