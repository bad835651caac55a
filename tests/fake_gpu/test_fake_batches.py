"""Kernels that are queued together (csrc/cuda/runtime/launch_batch.h), over a driver that notes
what is done, in order."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _on(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_COALESCE_LAUNCHES", "1")
    # Kernels do nothing, so it is enough to say that they have one argument, and a small one.
    monkeypatch.setenv("FAKE_CUDA_PARAMETERS", "4")


# A batch ends by what the program does alone: however busy a machine is, nobody finds kernels that
# were left behind for so long.
PATIENT = "from rushlight._C import _cuda\n_cuda.set_batch_patience(60_000_000)\n"


@pytest.fixture
def run(run):
    return lambda code, **env: run(PATIENT + code, **env)


@pytest.fixture
def run_products(run_products):
    return lambda code, **env: run_products(PATIENT + code, **env)


PROGRAM = """
import random, threading
random.seed(4)
xs = [rl.zeros(n, device="cuda") for n in (3, 40, 5000, 300)]
y = rl.zeros(64, 64, device="cuda")
other = cuda.Stream()
def step(kind):
    x = random.choice(xs)
    if kind == "in place": x.add_(1)
    elif kind == "chain": x.mul_(2).sin()
    elif kind == "fresh": (x + x).exp()
    elif kind == "sum": y.sum(0)
    elif kind == "cat": rl.cat([x, x])
    elif kind == "copy": y.t().contiguous()
    elif kind == "fill": x.zero_()
    elif kind == "read": x.cpu()
    elif kind == "write": x.copy_(rl.ones(x.shape))
    elif kind == "stream":
        with cuda.stream(other): x.neg_()
    elif kind == "event": cuda.Event().record()
    elif kind == "wait": cuda.synchronize()
weights = {"in place": 12, "chain": 12, "fresh": 12, "sum": 4, "cat": 4, "copy": 4, "fill": 1,
           "read": .2, "write": .2, "stream": .3, "event": .3, "wait": .2}
for kind in random.choices(list(weights), list(weights.values()), k=800):
    step(kind)
pattern = random.choices(["in place", "chain", "fresh", "sum", "cat", "copy"], k=23)
for _ in range(30):
    random.seed(5)
    for kind in pattern:
        step(kind)
cuda.synchronize()
stats = cuda.coalescing_stats()
print(stats["batched_kernels"], stats["single_kernels"], stats["graphs"], stats["off"])
"""

REPEATED = """
x = rl.zeros(8, device="cuda")
def steps(n=40):
    for _ in range(n):
        x.add_(1).mul_(2).sin_().neg_()
    cuda.synchronize()
    return cuda.coalescing_stats()
"""


def test_everything_is_done_in_the_programs_order(run, tmp_path):
    logs = {}
    for name, on in {"batches": 1, "singly": 0}.items():
        path = tmp_path / name
        out = run(PROGRAM, RUSHLIGHT_COALESCE_LAUNCHES=on, FAKE_CUDA_LOG=path)
        logs[name] = path.read_text().splitlines()
        if on:
            batched, single, graphs, off = out[-1].split()
            assert int(batched) > 300
            assert int(single) > 300
            assert int(graphs) > 0
            assert off == "None"
    assert len(logs["singly"]) > 1500
    assert logs["batches"] == logs["singly"]


def test_a_sequence_of_kernels_is_a_graph_at_the_second_sight(run):
    code = """
s = steps()
print(s['batched_kernels'], s['single_kernels'], s['refused_graphs'])
print(s['engaged'], s['off'])
"""
    out = run(REPEATED + code)
    batched, single, refused = map(int, out[0].split())
    assert refused == 0
    # Batches of 8, 16, 32, 32, 32, 32 and the last 8 of them: three are new.
    assert (batched, single) == (104, 56)
    assert out[1] == "True None"


def test_kernels_whose_blocks_wait_for_each_other_are_nodes_as_well(run, tmp_path):
    """A small image's batch norm is one launch of that kind."""
    code = """
image = rl.zeros(2, 8, 5, 5, device="cuda").contiguous(memory_format=rl.channels_last)
norm = rl.nn.BatchNorm2d(8).cuda()
for _ in range(160):
    norm(image)
    image.add_(1)
cuda.synchronize()
s = cuda.coalescing_stats()
print(s["batched_kernels"] > 0, s["refused_graphs"])
"""
    logs = {}
    for on in (1, 0):
        path = tmp_path / f"{on}"
        out = run(code, RUSHLIGHT_COALESCE_LAUNCHES=on, FAKE_CUDA_LOG=path)
        assert not on or out == ["True 0"]
        logs[on] = path.read_text().splitlines()
    assert sum(line.endswith(" together") for line in logs[0]) == 160
    assert logs[1] == logs[0]


def test_a_gpu_that_is_far_behind_gets_kernels_as_they_come(run):
    """It is looked at every five milliseconds, so that is a matter of time, not of kernels."""
    code = """
import time
begun, count = time.monotonic(), 400
while steps(100)['engaged'] and time.monotonic() - begun < LIMIT:
    count += 400
s = steps(100)  # as they come, if it is behind
count += 400
print(s['engaged'], s['off'])
kept = s['batched_kernels'] + s['single_kernels']
print(0 < kept < count, kept == count)
"""
    behind = run(REPEATED + code.replace("LIMIT", "60"), FAKE_CUDA_BEHIND="1")
    assert behind == ["False None", "True False"]
    keeps_up = run(REPEATED + code.replace("LIMIT", "0.3"))
    assert keeps_up == ["True None", "False True"]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("x.data_ptr()", "an address of GPU memory"),
        ("x.__cuda_array_interface__", "an address of GPU memory"),
        ("x.__dlpack__()", "an address of GPU memory"),
        ("cuda.current_stream().cuda_stream", "the handle of a stream"),
        ("cuda.ExternalStream(0)", "another library's stream"),
    ],
)
def test_nothing_is_kept_back_once_others_may_launch(run, what, why):
    code = f"""
before = steps()['batched_kernels']
{what}
s = steps()
print(s['batched_kernels'] == before, s['engaged'], s['off'])
"""
    out = run(REPEATED + code)
    assert out[0].startswith(f"True False {why}")


def test_it_is_on_unless_it_is_turned_off(run):
    for value, on in {"": "True", "1": "True", "0": "False"}.items():
        code = "print(rl.config.coalesce_launches)"
        assert run(code, RUSHLIGHT_COALESCE_LAUNCHES=value) == [on]


def test_settings_and_old_drivers_turn_it_off(run):
    off = "rl.config.coalesce_launches = False\n"
    out = run(REPEATED + off + "s = steps()\nprint(s['batched_kernels'], s['off'])")
    assert out == ["0 config.coalesce_launches is False"]
    # A driver that does not tell kernels' arguments: each is launched as it comes.
    out = run(REPEATED + "print(steps()['batched_kernels'])", FAKE_CUDA_PARAMETERS="")
    assert out == ["0"]


def test_what_a_program_leaves_behind_is_queued(run, tmp_path):
    path = tmp_path / "log"
    code = f"""
import time
_cuda.set_batch_patience(200)
steps(2)
x.sin_()
x.cos_()
time.sleep(0.5)  # no wait, no event: nothing that would queue them
print(open({str(path)!r}).readlines()[-1])
"""
    assert "Cos" in run(REPEATED + code, FAKE_CUDA_LOG=path)[0]


@pytest.mark.threads
def test_threads_share_the_batch(run, tmp_path):
    path = tmp_path / "log"
    run("import threading\n" + REPEATED + """
def work():
    mine = rl.zeros(8, device="cuda")
    for _ in range(200):
        mine.add_(1).mul_(2)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
cuda.synchronize()
""", FAKE_CUDA_LOG=path)  # fmt: skip
    kernels = [line for line in path.read_text().splitlines() if "Add" in line]
    assert len(kernels) == 800


@pytest.mark.threads
def test_forks_while_kernels_are_kept_back(run):
    """A child has neither the kernels nor whoever holds the lock at that moment."""
    code = """
import os, threading
ends = False
def work():
    mine = rl.zeros(8, device="cuda")
    while not ends:
        mine.add_(1).mul_(2)
thread = threading.Thread(target=work)
steps(2)
thread.start()
for _ in range(40):
    x.add_(1)
    child = os.fork()
    if child == 0:
        os._exit(cuda.coalescing_stats()["batched_kernels"])
    assert os.waitpid(child, 0)[1] == 0
ends = True
thread.join()
print(steps()["off"])
"""
    assert run(REPEATED + code, timeout=60)[-1] == "None"


PRODUCTS = """
half = dict(device="cuda", dtype=rl.bfloat16)
x, big = rl.zeros(1, 512, **half), rl.zeros(300, 512, **half)
linear = rl.nn.functional.linear
weights = [rl.zeros(n, 512, **half) for n in (256, 64, 8, 16, 24)]
bias = rl.zeros(64, **half)
cases = {
    "three": lambda: [linear(x, w) for w in weights[:3]],
    "a bias": lambda: [linear(x, weights[0]), linear(x, weights[1], bias)],
    "five, four at a time": lambda: [linear(x, w) for w in weights],
    "something between": lambda: [linear(x, weights[0]), x.exp(), linear(x, weights[1])],
    "a copy between": lambda: [linear(x, weights[0]), x.clone(), linear(x, weights[1])],
    "other rows": lambda: [linear(x, weights[0]), linear(x.clone(), weights[1])],
    "written, then read": lambda: [rl.mm(x, weights[0].t(), out=big[:1, :256]), linear(x, big)],
    "read, then written": lambda: [linear(x, big), rl.mm(x, weights[0].t(), out=big[:1, :256])],
    "written twice": lambda: [rl.mm(x, w.t(), out=big[:1, :w.shape[0]]) for w in weights[:2]],
}
for f in cases.values(): f()  # kernels are compiled
cuda.synchronize()
"""
LAUNCHES = {"three": 1, "a bias": 1, "five, four at a time": 2, "something between": 2,
            "a copy between": 2, "other rows": 2, "written, then read": 2, "read, then written": 2,
            "written twice": 2}  # fmt: skip


@pytest.mark.parametrize("way", ["captured", "batches"])
def test_products_of_the_same_rows_share_a_launch(run, tmp_path, way):
    path = tmp_path / "log"
    ways = {
        "captured": """
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        kept = f()
    cuda.synchronize(); before = len(open(log).readlines())
    g.replay()
""",
        "batches": """
    before = len(open(log).readlines())
    kept = f()
""",
    }
    code = f"""
log = {str(path)!r}
for name, f in cases.items():
{ways[way]}
    cuda.synchronize()
    print(name, sum("few_rows" in line for line in open(log).readlines()[before:]), sep=": ")
"""
    # The kernel's one argument is as large as FewRowsArgs.
    out = run(PRODUCTS + code, FAKE_CUDA_LOG=path, FAKE_CUDA_PARAMETERS=328,
              RUSHLIGHT_COALESCE_LAUNCHES=int(way == "batches"))  # fmt: skip
    assert out == [f"{name}: {count}" for name, count in LAUNCHES.items()]


def test_a_capture_that_is_given_up_forgets_what_was_kept_back(run, tmp_path):
    path = tmp_path / "log"
    code = f"""
g = cuda.CUDAGraph()
before = len(open({str(path)!r}).readlines())
try:
    with cuda.graph(g):
        linear(x, weights[0])
        x.sum().item()
except RuntimeError as error:
    print("refused")
x.exp()
cuda.synchronize()
print(*["few_rows" in line for line in open({str(path)!r}).readlines()[before:]])
"""
    out = run(PRODUCTS + code, FAKE_CUDA_LOG=path, FAKE_CUDA_PARAMETERS=328,
              RUSHLIGHT_COALESCE_LAUNCHES=0)  # fmt: skip
    assert out == ["refused", "False"]


# ---- calls of libraries ----


# Large enough that none is a kernel of our own. The results of a step lie where the last one's did.
CALLS = """
ws = [rl.zeros(256, 256, device="cuda") for _ in range(3)]
x = rl.zeros(256, 256, device="cuda")
def step():
    y = x
    for w in ws:
        y = (y @ w).sin().add_(1)
        y = y.exp()
    return y
def steps(n):
    for _ in range(n):
        step()
    cuda.synchronize()
    return cuda.coalescing_stats()
"""


def test_calls_that_repeat_are_nodes_of_batches(run_products, tmp_path):
    log, asked = tmp_path / "log", tmp_path / "asked"
    out = run_products(
        CALLS + "print(steps(2)['library_calls'], steps(20)['library_calls'])",
        FAKE_CUDA_LOG=log, FAKE_CUBLASLT_LOG=asked,
    )  # fmt: skip
    early, late = map(int, out[0].split())
    assert late - early == 60
    # The library is asked twice for each call: to make it, and to be captured.
    calls = asked.read_text().splitlines()
    assert calls.count("product in a stream") <= 6 and len(calls) <= 18
    lines = log.read_text().splitlines()
    kernels = ["product", "sin", "add", "exp"]
    assert [next(k for k in kernels if k in line.lower()) for line in lines[-264:]] == kernels * 66
    products = [line for line in lines if line.startswith("product")]
    assert len(products) == 66 and products == products[:3] * 22


def test_everything_is_done_in_the_programs_order_with_calls(run_products, tmp_path):
    program = (
        CALLS
        + """
import random
random.seed(3)
kept = []
for i in range(300):
    kind = random.choice(["step", "step", "step", "keep", "read", "fresh", "stream"])
    if kind == "step": step()
    elif kind == "keep": kept = [*kept[-3:], step()]   # its memory is not free for the next step
    elif kind == "read": step().sum().item()
    elif kind == "fresh": rl.zeros(256, 256, device="cuda") @ ws[0]
    elif kind == "stream":
        with cuda.stream(other): step()
cuda.synchronize()
print(cuda.coalescing_stats()["library_calls"])
""".replace("import random\n", "import random\nother = cuda.Stream()\n")
    )
    logs = {}
    for on in (1, 0):
        path = tmp_path / str(on)
        out = run_products(program, RUSHLIGHT_COALESCE_LAUNCHES=on, FAKE_CUDA_LOG=path)
        logs[on] = path.read_text().splitlines()
        assert (int(out[0]) > 100) == bool(on)
    assert len(logs[0]) > 2000
    assert logs[1] == logs[0]


def test_a_call_that_cannot_be_captured_is_made(run_products, tmp_path):
    log = tmp_path / "log"
    out = run_products(
        CALLS + "print(steps(6)['library_calls'])", FAKE_CUDA_LOG=log, FAKE_CUBLASLT_REFUSES=1
    )
    assert out == ["0"]
    assert sum(line.startswith("product") for line in log.read_text().splitlines()) == 18


def test_addresses_that_never_repeat(run_products, tmp_path):
    """Every product is the library's own call, and nothing is captured."""
    asked = tmp_path / "asked"
    out = run_products(
        CALLS + """
kept = [step() for _ in range(40)]
cuda.synchronize()
print(cuda.coalescing_stats()["library_calls"])
""", FAKE_CUBLASLT_LOG=asked)  # fmt: skip
    calls = asked.read_text().splitlines()
    assert len(calls) - calls.count("product in a stream") == 120 - int(out[0])
    assert int(out[0]) <= 6  # (memory of a step's own results comes back now and then)


def test_a_thread_that_ends_leaves_no_call_behind(run_products, tmp_path):
    """Its plans go with it; calls that were kept back are queued before."""
    log = tmp_path / "log"
    run_products(
        "import threading\n" + CALLS + """
def work():
    for _ in range(5): step()
for _ in range(4):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
cuda.synchronize()
""", FAKE_CUDA_LOG=log)  # fmt: skip
    assert sum(line.startswith("product") for line in log.read_text().splitlines()) == 60
