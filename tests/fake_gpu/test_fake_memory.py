"""The GPU's allocator, without a GPU: growth, counters, snapshots, and the error of a full one."""

import subprocess

import pytest

COUNTS = "current peak allocated freed".split()
LEVELS = """allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes
inactive_split_bytes requested_bytes""".split()
SINGLE = """num_alloc_retries num_ooms num_sync_all_streams num_device_alloc num_device_free
max_split_size""".split()


def test_statistics_have_all_of_pytorchs_names(run):
    out = run("x = rl.zeros(1000, device='cuda')\nprint(*cuda.memory_stats())")
    names = set(out[0].split())
    for level in LEVELS:
        for pool in ("all", "large_pool", "small_pool"):
            assert {f"{level}.{pool}.{count}" for count in COUNTS} <= names
    for name in ("oversize_allocations", "oversize_segments"):
        assert {f"{name}.{count}" for count in COUNTS} <= names
    assert names >= set(SINGLE)


def test_counters_add_up(run):
    out = run("""
cuda.reset_peak_memory_stats()
small = rl.zeros(100, device="cuda")
large = rl.zeros(3 * 2**20, dtype=rl.uint8, device="cuda")
s = cuda.memory_stats()
print(s["allocated_bytes.all.current"] == 512 + 3 * 2**20 == cuda.memory_allocated())
print(s["allocated_bytes.small_pool.current"], s["allocated_bytes.large_pool.current"] // 2**20)
print(s["requested_bytes.all.current"] - 3 * 2**20, s["allocation.all.current"])
del large
print(cuda.memory_allocated(), cuda.max_memory_allocated() == 512 + 3 * 2**20)
cuda.reset_peak_memory_stats()
print(cuda.max_memory_allocated(), cuda.memory_reserved() >= 4 * 2**20)
cuda.empty_cache()
print(cuda.memory_reserved() == 2 * 2**20)
print("Memory of cuda:0" in cuda.memory_summary())
""")
    assert out == ["True", "512 3", "400 2", "512 True", "512 True", "True", "True"]


def test_small_blocks_that_stay_do_not_stand_in_the_way_of_large_ones(run):
    out = run("""
kept = []
def iteration():
    work = [rl.empty(n << 20, dtype=rl.uint8, device="cuda") for n in (3, 5, 7)]
    kept.append(rl.zeros(2, device="cuda"))  # a loss, say
    work = [rl.empty(n << 20, dtype=rl.uint8, device="cuda") for n in (9, 4)]
iteration()
reserved = cuda.memory_reserved()
for _ in range(20):
    iteration()
print(cuda.memory_reserved() == reserved)
kinds = {s["segment_type"]: s["allocated_size"] for s in cuda.memory_snapshot()}
print(kinds["small"], kinds["large"])
""")
    assert out == ["True", f"{21 * 512} 0"]


@pytest.mark.parametrize(
    "optimizer", ["SGD(params, momentum=0.9)", "Adam(params)", "Rprop(params)"]
)
def test_no_driver_calls_after_the_first_step_of_an_optimizer(run, optimizer):
    """Though its states are born at the end of the first and take memory that the step had used."""
    out = run(f"""
model = rl.nn.Sequential(*(rl.nn.Linear(500, 500) for _ in range(12))).to("cuda")
params = list(model.parameters())
x = rl.rand(1500, 500, device="cuda")
optimizer = rl.optim.{optimizer}
for step in range(4):
    before = cuda.memory_stats()["num_device_alloc"]
    optimizer.zero_grad()
    model(x).tanh().mean().backward()
    optimizer.step()
    print(cuda.memory_stats()["num_device_alloc"] - before > 0)
""")
    assert out == ["True", "False", "False", "False"]


@pytest.mark.parametrize("expandable", ["on", "off"])
def test_no_driver_calls_after_the_first_iteration(run, expandable):
    out = run(
        """
def iteration():
    keep = [rl.zeros(n * 100_000, device="cuda") for n in range(1, 20)]
    for k in range(10):
        keep[k] = keep[k].clone()
iteration()
before = cuda.memory_stats()["num_device_alloc"]
for _ in range(5):
    iteration()
print(cuda.memory_stats()["num_device_alloc"] - before, cuda.memory_stats()["num_device_free"])
print(any(s["is_expandable"] for s in cuda.memory_snapshot()))
""",
        RUSHLIGHT_CONFIG=f"cuda_expandable_segments={expandable}",
    )
    assert out == ["0 0", str(expandable == "on")]


def test_random_lengths_do_not_fragment(run):
    out = run(
        """
import random
random.seed(1)
live = []
for step in range(200):
    length = random.randint(1, 64)
    live += [rl.zeros(length * k * 10_000, dtype=rl.uint8, device="cuda") for k in (5, 9, 14)]
    random.shuffle(live)
    del live[6:]
    if step == 60:
        early = cuda.memory_reserved()
now = cuda.memory_reserved()
print(now <= early * 1.3, now < 2 * cuda.max_memory_allocated())
""",
        FAKE_CUDA_MEMORY=2**30,
    )
    assert out == ["True True"]


def test_a_full_gpu_says_what_fills_it(run):
    out = run(
        """
model = rl.nn.Linear(2048, 1024).cuda()          # 8 MiB
opt = rl.optim.Adam(model.parameters())
for p in model.parameters():
    p.grad = rl.zeros_like(p)
opt.step()                                        # 16 MiB
activation = rl.zeros(5 * 2**20, dtype=rl.uint8, device="cuda")
with rl.no_grad():
    other = rl.zeros(3, 2**20, dtype=rl.int8, device="cuda")
try:
    rl.zeros(2**28, device="cuda")
except cuda.OutOfMemoryError as error:
    print(error)
print("stats", cuda.memory_stats()["num_ooms"], cuda.memory_stats()["num_alloc_retries"])
half = rl.zeros(2**22, device="cuda")
print("then", half.sum is not None)
""",
        FAKE_CUDA_MEMORY=128 * 2**20,
    )
    text = "\n".join(out)
    assert "Tried to allocate 1.00 GiB on cuda:0, which has 128.00 MiB" in text
    assert "parameters 8.00 MiB" in text.replace("8.01", "8.00")
    assert "gradients 8.00 MiB" in text.replace("8.01", "8.00")
    assert "optimiser state 16.0" in text
    assert "activations 5.00 MiB" in text and "others 3.00 MiB" in text
    assert "float32 [1024, 2048]" in text and "(Linear.weight)" in text
    assert "uint8 [5242880], made at <string>:" in text
    assert "smaller batch" in text
    assert out[-2:] == ["stats 1 1", "then True"]


def test_half_the_batch_runs_after_a_failure(run):
    out = run(
        """
def step(batch):
    a = rl.zeros(batch, 2**20, dtype=rl.uint8, device="cuda")
    b = a.clone()
    return b.shape[0]
batch = 200
while True:
    try:
        print(step(batch))
        break
    except cuda.OutOfMemoryError:
        batch //= 2
print(batch, cuda.memory_allocated())
""",
        FAKE_CUDA_MEMORY=128 * 2**20,
    )
    assert out == ["50", "50 0"]


def test_a_fraction_of_the_memory(run):
    out = run(
        """
cuda.set_per_process_memory_fraction(0.25)
print(cuda.get_per_process_memory_fraction())
try:
    rl.zeros(40 * 2**20, dtype=rl.uint8, device="cuda")
except cuda.OutOfMemoryError as error:
    print("may use 32.00 MiB" in str(error))
print(rl.zeros(20 * 2**20, dtype=rl.uint8, device="cuda").numel())
print(cuda.mem_get_info()[1])
""",
        FAKE_CUDA_MEMORY=128 * 2**20,
    )
    assert out == ["0.25", "True", str(20 * 2**20), str(128 * 2**20)]


def test_snapshots_list_every_block(run):
    out = run("""
a = rl.zeros(2 * 2**20, dtype=rl.uint8, device="cuda")
b = rl.zeros(100, device="cuda")
del a
a = rl.zeros(2**20, dtype=rl.uint8, device="cuda")
segments = cuda.memory_snapshot()
blocks = [block for s in segments for block in s["blocks"]]
print(sum(s["total_size"] for s in segments) == cuda.memory_reserved())
print(sum(b["size"] for b in blocks if b["state"] == "active_allocated") == cuda.memory_allocated())
mine = next(x for x in blocks if x["address"] == a.data_ptr())
print(mine["frames"][0]["line"] > 0, mine["requested_size"])
for s in segments:
    at = s["address"]
    for block in s["blocks"]:
        assert block["address"] == at
        at += block["size"]
    assert at == s["address"] + s["total_size"]
p = cuda.caching_allocator_alloc(1000)
print(any(b["address"] == p for s in cuda.memory_snapshot() for b in s["blocks"]))
cuda.caching_allocator_delete(p)
try:
    cuda.caching_allocator_delete(p)
except RuntimeError:
    print("once")
""")
    assert out == ["True", "True", f"True {2**20}", "True", "once"]


def test_the_caching_allocator_can_be_switched_off(run):
    out = run(
        """
x = rl.zeros(1000, device="cuda")
before = cuda.memory_stats()["num_device_alloc"]
y = rl.zeros(1000, device="cuda")
print(cuda.memory_stats()["num_device_alloc"] - before)
try:
    rl.config.cuda_caching_allocator = True
except RuntimeError as error:
    print("alive" in str(error))
del x, y
print(cuda.memory_reserved())
rl.config.cuda_caching_allocator = True
z = rl.zeros(1000, device="cuda")
""",
        RUSHLIGHT_CONFIG="cuda_caching_allocator=off",
    )
    assert out == ["1", "True", "0"]


def test_pinned_memory(run):
    out = run("""
host = rl.ones(1000).pin_memory()
print(host.is_pinned(), rl.ones(3).is_pinned(), host.pin_memory() is host)
x = host.to("cuda", non_blocking=True)
del host
print(x.sum is not None, cuda.host_memory_stats()["num_host_alloc"])
again = rl.ones(1000).pin_memory()
print(cuda.host_memory_stats()["num_host_alloc"])
print(rl.zeros(5, pin_memory=True).is_pinned())
""")
    assert out == ["True False True", "True 1", "1", "True"]


def test_blocks_of_other_streams_wait(run):
    out = run("""
side = cuda.Stream()
x = rl.zeros(2**20, device="cuda")
address = x.data_ptr()
x.record_stream(side)
del x
y = rl.zeros(2**20, device="cuda")      # the fake stream has passed: it may be used again
print(y.data_ptr() == address)
with cuda.stream(side):
    z = rl.zeros(2**20, device="cuda")
print(z.data_ptr() != address, cuda.current_stream() == cuda.default_stream())
""")
    assert out == ["True", "True True"]


def test_the_history_is_what_the_visualiser_reads(run, tmp_path):
    out = run(f"""
import pickle
before = rl.zeros(1000, device="cuda")
cuda.memory._record_memory_history(max_entries=100000)
large = rl.zeros(3 * 2**20, dtype=rl.uint8, device="cuda")
address = large.data_ptr()
small = rl.zeros(100, device="cuda")
del large, before
cuda.memory._dump_snapshot({str(tmp_path / "snapshot.pickle")!r})
cuda.memory._record_memory_history(enabled=None)
rl.zeros(100, device="cuda")
with open({str(tmp_path / "snapshot.pickle")!r}, "rb") as file:
    snapshot = pickle.load(file)
(trace,) = snapshot["device_traces"]
print(*(e["action"] for e in trace))
print(trace[0]["size"], trace[0]["addr"] == trace[2]["addr"] == address, trace[0]["stream"])
print(trace[0]["frames"][0]["line"], trace[0]["frames"][0]["name"])
print(all(a["time_us"] <= b["time_us"] for a, b in zip(trace, trace[1:])))
print(len(cuda.memory._snapshot()["device_traces"][0]), sorted(snapshot))
try:
    cuda.memory._record_memory_history("some")
except ValueError as error:
    print("enabled must be" in str(error))
cuda.memory._record_memory_history(skip_actions=["free_requested"])
rl.zeros(100, device="cuda")
print(*(e["action"] for e in cuda.memory._snapshot()["device_traces"][0]))
for wrong in ("alloc", ["free"]):
    try:
        cuda.memory._record_memory_history(skip_actions=wrong)
    except ValueError as error:
        print("list of actions" in str(error))
""")
    assert out[6:] == ["alloc free_completed", "True", "True"]
    freed = "free_requested free_completed"
    assert out[0] == f"alloc alloc {freed} {freed}"
    assert out[1] == f"{3 * 2**20} True 0"
    assert out[2:4] == ["7 <module>", "True"]
    assert out[4] == "0 ['allocator_settings', 'device_traces', 'segments']" and out[5] == "True"


def test_a_profile_sees_the_memory_of_gpus(run):
    out = run("""
from rushlight.profiler import profile
with profile(profile_memory=True) as prof:
    x = rl.zeros(1 << 20, device="cuda")
    del x
row = next(e for e in prof.key_averages() if e.key == "aten::zeros")
print(row.device_memory_usage, "CUDA Mem" in prof.key_averages().table())
history = prof.events().memory
print(history.peak("cuda:0")[1], sum(c for _, d, c, _ in history.changes if d == "cuda:0"))
""")
    assert out == [f"{4 << 20} True", f"{4 << 20} 0"]


def test_memory_comes_from_a_users_functions(run, tmp_path):
    source, library = tmp_path / "mine.c", tmp_path / "mine.so"
    source.write_text("""
#include <stdlib.h>
#include <sys/types.h>
static long taken, given_back, wrong;
static int refuses;
void* take(ssize_t size, int device, void* stream) {
  if (refuses) return NULL;
  wrong += device != 0;
  taken += size;
  return malloc((size_t)size);
}
void give(void* p, ssize_t size, int device, void* stream) {
  wrong += device != 0;
  given_back += size;
  free(p);
}
long count_taken(void) { return taken; }
long count_back(void) { return given_back; }
long count_wrong(void) { return wrong; }
void refuse(int on) { refuses = on; }
""")
    subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", source, "-o", library], check=True)
    out = run(f"""
import ctypes
path = {str(library)!r}
mine = cuda.memory.CUDAPluggableAllocator(path, "take", "give")
counts = ctypes.CDLL(path)
cuda.memory.change_current_allocator(mine)
print(cuda.get_allocator_backend())
x = rl.empty(1000, device="cuda")
side = cuda.Stream()
with cuda.stream(side):
    y = rl.empty(10, dtype=rl.uint8, device="cuda")
x.record_stream(side)
print(counts.count_taken(), counts.count_back(), cuda.memory_allocated() > 0)
try:
    cuda.change_current_allocator(None)
except RuntimeError as error:
    print("tensors are alive" in str(error))
counts.refuse(1)
try:
    rl.empty(5, device="cuda")
except rl.OutOfMemoryError:
    print("full")
counts.refuse(0)
del x, y
print(counts.count_back(), counts.count_wrong(), cuda.memory_allocated())
cuda.change_current_allocator(None)
z = rl.empty(50, device="cuda")
print(counts.count_taken(), cuda.get_allocator_backend())
try:
    cuda.CUDAPluggableAllocator(path, "take", "no_such")
except AttributeError as error:
    print("no_such" in str(error))
""")
    assert out == ["pluggable", "4010 0 True", "True", "full", "4010 0 0", "4010 native", "True"]
