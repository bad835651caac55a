"""Several GPUs, without one: the fake driver refuses a kernel in a stream of another device, and an
event of another one."""

import pytest

SETUP = """
import copy, io, pickle
nn, F = rl.nn, rl.nn.functional
def on(t): return t.device.index
"""


@pytest.fixture
def run_on_two(run):
    def check(code):
        out = run(SETUP + code, FAKE_CUDA_DEVICES=2, CUDA_VISIBLE_DEVICES="0,1")
        return " ".join(out)

    return check


def test_tensors_are_where_they_are_asked_for(run_on_two):
    out = run_on_two("""
x = rl.arange(6.0).reshape(2, 3)
there = x.to("cuda:1")
print(cuda.device_count(), on(there), on(there + 1), on(rl.zeros(3, device=1)))
print(on(there.new_zeros(2)), on(rl.rand_like(there)), on(rl.zeros_like(there, device="cuda:0")))
print(there.to("cuda:0").tolist() == x.tolist(), on(there.cuda(0)), on(there.cuda()))
back = rl.zeros(2, 3, device="cuda:0").copy_(there, non_blocking=True)
print(back.cpu().tolist() == x.tolist(), there.t().to("cuda:0").shape[0])
with rl.device("cuda:1"):
    print(on(rl.ones(2)))
print(there.__dlpack_device__()[1], on(rl.from_dlpack(there)))
array = type("Array", (), {"__cuda_array_interface__": there.__cuda_array_interface__})()
uuids = {str(cuda.get_device_properties(i).uuid) for i in range(2)}
print(on(rl.as_tensor(array)), len(uuids))
""")
    assert out == "2 1 1 1 1 1 0 True 0 0 True 3 1 1 1 1 2"


@pytest.mark.threads
def test_the_current_device_is_a_threads_own_and_comes_back(run_on_two):
    out = run_on_two("""
import threading
with cuda.device(1):
    print(cuda.current_device(), on(rl.zeros(2, device="cuda")))
    with cuda.device("cuda:0"):
        print(cuda.current_device())
try:
    with cuda.device(1):
        raise ValueError
except ValueError:
    print(cuda.current_device())
with cuda.device_of(rl.zeros(1, device="cuda:1")):
    print(cuda.current_device())
def work():
    cuda.set_device(1)
    print(on(rl.zeros(1, device="cuda")))
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(cuda.current_device())
for bad in (2, "cuda:7"):
    try:
        cuda.set_device(bad)
    except RuntimeError as error:
        print("no device" in str(error))
""")
    assert out == "1 1 0 0 1 1 0 True True"


def test_tensors_of_two_devices_are_refused_by_name(run_on_two):
    out = run_on_two("""
a, b = rl.zeros(3, device="cuda:0"), rl.zeros(3, device="cuda:1")
calls = [lambda: a + b, lambda: a @ b, lambda: rl.cat([a, b]), lambda: rl.where(a > 0, a, b),
         lambda: a.add_(b), lambda: F.linear(a.view(1, 3), b.view(1, 3)), lambda: a[b.long()]]
for call in calls:
    try:
        call()
        print("accepted")
    except RuntimeError as error:
        print("cuda:0" in str(error) and "cuda:1" in str(error))
print(on(b + rl.tensor(1.0)))
""")
    assert out == "True " * 7 + "1"


def test_streams_and_events_belong_to_their_device(run_on_two):
    out = run_on_two("""
s = cuda.Stream(device=1)
with cuda.stream(s):
    print(cuda.current_device(), cuda.current_stream(1) == s, on(rl.ones(4, device="cuda")))
    print(on(rl.ones(3, device="cuda:0") * 2))
print(cuda.current_device(), cuda.current_stream(1) == s)
here = cuda.current_stream(0)
here.wait_stream(s)
s.wait_stream(here)
first, second = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
first.record(here)
second.record(s)
here.wait_event(second)
second.synchronize()
try:
    first.elapsed_time(second)
except (RuntimeError, ValueError):
    print("apart")
rl.ones(4, device="cuda:1").record_stream(s)
cuda.synchronize("cuda:1")
with cuda.device(1):
    graph, x = cuda.CUDAGraph(), rl.ones(4, device="cuda")
    with cuda.graph(graph):
        y = x * 2
    graph.replay()
    cuda.synchronize()
print(on(y), cuda.current_device())
""")
    assert out == "1 True 1 0 0 False apart 1 0"


def test_memory_is_counted_by_device(run_on_two):
    out = run_on_two("""
x = rl.empty(3 << 20, dtype=rl.uint8, device="cuda:1")
print(cuda.memory_allocated(0), cuda.memory_allocated(1) >> 20)
print(cuda.memory_reserved("cuda:1") >> 20)
print({s["device"] for s in cuda.memory_snapshot()}, cuda.mem_get_info(1)[1] >> 20)
try:
    rl.empty(1 << 30, device="cuda:1")
except cuda.OutOfMemoryError as error:
    print("cuda:1" in str(error))
cuda.set_per_process_memory_fraction(0.5, 1)
for device in ("cuda:0", "cuda:1"):
    try:
        print(rl.empty(200 << 20, dtype=rl.uint8, device=device).device)
    except cuda.OutOfMemoryError:
        print("full")
""")
    assert out == "0 3 4 {1} 256 True cuda:0 full"


def test_backward_and_optimisers_over_two_devices(run_on_two):
    out = run_on_two("""
class Halves(nn.Module):
    def __init__(self, *devices):
        super().__init__()
        self.a, self.b = (nn.Linear(8, 8).to(d) for d in devices)
    def forward(self, x):
        return self.b(self.a(x.to(self.a.weight.device)).relu().to(self.b.weight.device))
for devices in (("cuda:0", "cuda:1"), ("cpu", "cuda:1"), ("cuda:1", "cpu")):
    for make in (rl.optim.Adam, rl.optim.RMSprop, rl.optim.Adadelta,
                 lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9)):
        model = Halves(*devices)
        optimizer = make(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model(rl.rand(3, 8)).sum().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        for half in (model.a, model.b):
            assert half.weight.grad.device == half.weight.device
            for state in optimizer.state[half.weight].values():
                assert state.dim() == 0 or state.device == half.weight.device
        assert norm.device == model.a.weight.device
scaler, model = rl.amp.GradScaler("cuda"), Halves("cuda:0", "cuda:1")
optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
scaler.scale(model(rl.rand(3, 8)).sum()).backward()
scaler.step(optimizer)
scaler.update()
optimizer = rl.optim.Adam(model.parameters(), capturable=True)
optimizer.param_groups[0]["lr"] = rl.tensor(0.1, device="cuda:0")
optimizer.step()
a, b = (rl.rand(4, device=d, requires_grad=True) for d in ("cuda:0", "cuda:1"))
grads = rl.autograd.grad((a.to("cuda:1") * b).sum(), [a, b])
print(*map(on, grads), cuda.current_device())
""")
    assert out == "0 1 0"


def test_a_step_on_the_cpus_part_is_right_beside_a_gpus(run_on_two):
    """The kernels of the fake GPU do nothing; the CPU's half can be compared."""
    out = run_on_two("""
for make in (rl.optim.AdamW, lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)):
    rl.manual_seed(0)
    alone = nn.Parameter(rl.rand(5))
    mixed = nn.Parameter(alone.detach().clone())
    other = nn.Parameter(rl.rand(3, device="cuda:1"))
    one, two = make([alone]), make([other, mixed])
    for _ in range(3):
        alone.grad = rl.rand(5)
        mixed.grad, other.grad = alone.grad.clone(), rl.rand(3, device="cuda:1")
        one.step()
        two.step()
    print(rl.equal(alone, mixed))
""")
    assert out == "True True"


def test_a_step_that_cannot_be_taken_changes_nothing_on_any_device(run_on_two):
    out = run_on_two("""
here, there = nn.Parameter(rl.ones(3)), nn.Parameter(rl.ones(2, device="cuda:1"))
optimizer = rl.optim.Adam([here, there])
for _ in range(2):
    here.grad, there.grad = rl.ones(3), rl.ones(2, device="cuda:1")
    before = here.tolist()
    try:
        optimizer.step()
        optimizer.state[there]["exp_avg"] = rl.zeros(5, device="cuda:1")
    except RuntimeError as error:
        print("parameter 1" in str(error), here.tolist() == before)
""")
    assert out == "True True"


def test_saving_and_random_states(run_on_two):
    out = run_on_two("""
x = rl.arange(3.0).to("cuda:1")
file = io.BytesIO()
rl.save({"x": x}, file)
for where in (None, "cuda:0", {"cuda:1": "cuda:0"}, "cpu", lambda storage, at: storage.cuda(0)):
    file.seek(0)
    y = rl.load(file, map_location=where)["x"]
    print(y.device, y.tolist() == [0, 1, 2])
storage = x.untyped_storage()
print(storage.cpu().device, storage.cuda() is storage, storage.cuda(0).device)
print(storage.to(device="cuda:1") is storage, storage.tolist()[-2:])
print(storage.cuda(0).copy_(storage).tolist() == storage.tolist(), storage.clone().fill_(0).device)
print(x.storage().cpu().tolist(), x.storage().cuda(0).device)
print(storage.is_pinned(), storage.cpu().pin_memory().is_pinned())
print(on(pickle.loads(pickle.dumps(x))), on(copy.deepcopy(nn.Linear(2, 2).to("cuda:1")).weight))
print(len(cuda.get_rng_state_all()), len(cuda.default_generators))
generator = rl.Generator(device="cuda:1")
print(on(rl.rand(3, generator=generator, device="cuda:1")), generator.device)
with rl.random.fork_rng(devices=[0, 1]):
    rl.rand(2, device="cuda:1")
""")
    pairs = "cuda:1 True cuda:0 True cuda:0 True cpu True cuda:0 True"
    storages = "cpu False cuda:0 True [0, 64] True cuda:1 [0.0, 1.0, 2.0] cuda:0 False True"
    assert out == f"{pairs} {storages} 1 1 2 2 1 cuda:1"


@pytest.mark.threads
def test_batches_are_cut_for_all_devices(run_on_two):
    out = run_on_two("""
seen = []
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 2), nn.BatchNorm1d(2)
    def forward(self, x, extra=None):
        seen.append((on(x), on(self.layer.weight), on(self.norm.running_mean), len(x),
                     cuda.current_device()))
        return self.norm(self.layer(x)), {"extra": extra}
net = nn.DataParallel(Net().to("cuda:0"))
y, rest = net(rl.rand(5, 4), extra=rl.rand(5, device="cuda:0"))
print(sorted(seen), tuple(y.shape), on(y), tuple(rest["extra"].shape), net.device_ids)
y.sum().backward()
print(on(net.module.layer.weight.grad), on(net.module.norm.weight.grad))
net.eval()
print(len(seen), net(rl.rand(1, 4).cuda())[0].shape[0], len(seen), on(net.module.norm.running_mean))
try:
    nn.DataParallel(Net().to("cuda:1"))(rl.rand(2, 4))
except RuntimeError as error:
    print("on cuda:0" in str(error) and "cuda:1" in str(error))
try:
    nn.DataParallel(Net(), device_ids=[0, 5])
except RuntimeError as error:
    print("cuda:5" in str(error))
one = nn.DataParallel(Net(), device_ids=[1], output_device=1).eval()
print(on(one(rl.rand(3, 4))[0]), on(one.module.layer.weight))
other = nn.DataParallel(Net().to("cuda:1"), device_ids=[1, 0], output_device=0).eval()
print(on(other(rl.rand(3, 4))[0]))
with rl.no_grad():
    print(net(rl.rand(4, 4))[0].requires_grad)
""")
    assert out == (
        "[(0, 0, 0, 3, 0), (1, 1, 1, 2, 1)] (5, 2) 0 (5,) [0, 1] 0 0 2 1 3 0 True True 1 1 0 False"
    )


def test_copies_between_devices(run_on_two):
    out = run_on_two("""
comm = cuda.comm
x = rl.arange(6.0).reshape(3, 2).cuda()
copies = comm.broadcast(x, [0, 1])
print([on(t) for t in copies], copies[1].tolist() == x.tolist())
print([on(t[1]) for t in comm.broadcast_coalesced([x, x], [0, 1])])
parts = comm.scatter(x, [0, 1], [1, 2])
print([t.tolist() for t in parts], on(parts[1]), [len(t) for t in comm.scatter(x)])
print(tuple(comm.gather(parts, destination=1).shape), on(comm.gather(parts, destination=1)))
print(on(comm.reduce_add(comm.broadcast(x, [1, 0]), 1)), len(comm.reduce_add_coalesced([[x], [x]])))
for call in (lambda: comm.broadcast(x), lambda: comm.reduce_add([x, x[:1]])):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        print(str(error).partition(":")[0])
""")
    assert out == (
        "[0, 1] True [0, 1] [[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]] 1 [2, 1] (3, 2) 1 1 1 "
        "broadcast reduce_add"
    )


def test_functions_of_data_parallel(run_on_two):
    """nn.parallel._functions; sums are a kernel's work, which is not done here."""
    out = run_on_two("""
from rushlight.nn.parallel._functions import Broadcast, Gather, ReduceAddCoalesced, Scatter
x = rl.arange(6.0).reshape(3, 2).cuda().requires_grad_()
y = rl.ones(2).cuda()
copies = Broadcast.apply([0, 1], x, y)
print([on(t) for t in copies], [t.requires_grad for t in copies], copies[2].tolist() == x.tolist())
ones = [rl.ones_like(copies[i]) for i in (0, 2)]
(grad,) = rl.autograd.grad([copies[0], copies[2]], x, ones)
print(on(grad), tuple(grad.shape))
parts = Scatter.apply([0, 1], [1, 2], 0, x)
print([t.tolist() for t in parts], [on(t) for t in parts])
(grad,) = rl.autograd.grad(parts, x, [rl.zeros_like(t) for t in parts])
print(on(grad), tuple(grad.shape))
host = rl.arange(4.0).requires_grad_()
(grad,) = rl.autograd.grad(Scatter.apply([0, 1], None, 0, host)[1], host, rl.ones(2).to("cuda:1"))
print(on(grad), tuple(grad.shape))
joined = Gather.apply(1, 0, *parts)
print(on(joined), tuple(joined.shape), joined.grad_fn.name())
(grad,) = rl.autograd.grad(joined, x, rl.ones(3, 2).to("cuda:1"))
print(on(grad), tuple(grad.shape))
numbers = Gather.apply(0, 0, x.sum(), x.to("cuda:1").sum())
print(tuple(numbers.shape), tuple(rl.autograd.grad(numbers.sum(), x)[0].shape))
print([on(t) for t in ReduceAddCoalesced.apply(1, 2, x, y, copies[2], copies[3])])
for call in (lambda: Broadcast.apply([0], rl.ones(1)), lambda: Gather.apply(0, 0, rl.ones(1))):
    try:
        call()
    except AssertionError as error:
        print(error)
""")
    assert out == (
        "[0, 0, 1, 1] [True, False, True, False] True 0 (3, 2) "
        "[[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]] [0, 1] 0 (3, 2) None (4,) 1 (3, 2) "
        "GatherBackward 0 (3, 2) (2,) (3, 2) [1, 1] "
        "Broadcast: tensors must be on a GPU, number 0 is not "
        "Gather: tensors must be on a GPU, number 0 is not"
    )
