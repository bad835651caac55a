"""Threads: one result whatever their number, fork, Ctrl-C, and calls from many Python threads."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.threads

BIG = 300_001  # above any grain size, and odd, so that two threads split it unevenly

OPS = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "exp": lambda x, y: x.exp(),
    "tanh": lambda x, y: x.tanh(), "sum": lambda x, y: x.sum(), "mean": lambda x, y: x.mean(),
    "sum0": lambda x, y: x[: BIG // 3 * 3].view(-1, 3).sum(0),
    "sum1": lambda x, y: x[: BIG // 3 * 3].view(3, -1).sum(1),
    "var": lambda x, y: x.var(), "norm": lambda x, y: x.norm(),
    "prod": lambda x, y: (1 + x * 1e-6).prod(),
    "max": lambda x, y: x.max(), "argmax": lambda x, y: x.argmax(),
    "cumsum": lambda x, y: x.cumsum(0),
    "sort": lambda x, y: x.sort()[0], "topk": lambda x, y: x.topk(17)[0],
    "topk_ties": lambda x, y: x.mul(4).floor().topk(3000)[1],
    "scatter_last": lambda x, y: rl.zeros(99).scatter(0, (y.abs() * 20).long() % 99, x),
    "index_put": lambda x, y: rl.zeros(99).index_put(((y.abs() * 20).long() % 99,), x),
    "unique": lambda x, y: x.mul(9).floor().unique(return_inverse=True)[1],
    "nonzero": lambda x, y: (x > y).nonzero(),
    "softmax": lambda x, y: x[: BIG // 3 * 3].view(3, -1).softmax(1),
    "gather": lambda x, y: x.gather(0, (y.abs() * 1000).long()),
    "index_add": lambda x, y: rl.zeros(1000).index_add(0, (y.abs() * 200).long() % 1000, x),
    "transposed": lambda x, y: x[: BIG // 7 * 7].view(7, -1).t().contiguous(),
    "where": lambda x, y: rl.where(x > y, x, y), "cat": lambda x, y: rl.cat([x, y, x]),
    "to": lambda x, y: x.to(rl.bfloat16).to(rl.float32), "logsumexp": lambda x, y: x.logsumexp(0),
    "rand": lambda x, y: rl.randn(BIG),
    "mv": lambda x, y: x[: BIG // 99 * 99].view(-1, 99).mv(y[:99]),
    "dot": lambda x, y: x.dot(y),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_bit_equal_for_one_and_two_threads(name):
    rng = np.random.RandomState(0)
    x, y = (rl.from_numpy(rng.randn(BIG).astype("f4")) for _ in range(2))
    before, found = rl.get_num_threads(), []
    try:
        for n in (1, 2):
            rl.set_num_threads(n)
            assert rl.get_num_threads() == n
            rl.manual_seed(3)
            found.append(OPS[name](x, y).numpy())
    finally:
        rl.set_num_threads(before)
    if rl.__name__ == "torch" and found[0].size <= 1000:
        np.testing.assert_allclose(*found, rtol=1e-4)  # PyTorch splits its sums by thread
    else:
        assert found[0].tobytes() == found[1].tobytes()


def run(code, **kw):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=60, check=False, **kw)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


FORK = """
import os, rushlight as rl
x = rl.ones(400_000)
rl.set_num_threads(2)
want = (x.exp() + x).sum().item()
pid = os.fork()
if pid == 0:
    ok = (x.exp() + x).sum().item() == want and rl.randn(400_000).std() > 0.9
    ok = ok and (rl.ones(300, 300) @ rl.ones(300, 300))[0, 0].item() == 300
    os._exit(0 if ok else 1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert code == 0, code
assert (x.exp() + x).sum().item() == want
print("ok")
"""


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16, rl.int64])
def test_rows_of_a_product_do_not_depend_on_their_neighbours(dtype):
    """Threads share out rows, of which several are multiplied together."""
    rng = np.random.RandomState(0)
    a = rl.from_numpy(rng.randint(-99, 99, (21, 1031))).to(dtype) / 7
    x = rl.from_numpy(rng.randint(-99, 99, 1031)).to(dtype) / 7
    if not dtype.is_floating_point:
        a, x = (7 * a).to(dtype), (7 * x).to(dtype)
    whole = a.mv(x)
    for rows in (1, 2, 5, 8):
        assert rl.equal(rl.cat([part.mv(x) for part in a.split(rows)]), whole), rows


def test_fork_then_compute():
    if rl.__name__ == "torch":
        pytest.skip("hangs in PyTorch when its threads have run before the fork")
    assert run(FORK) == "ok\n"


# A shell's background job inherits an ignored SIGINT, so the program asks for Python's own handler.
INTERRUPTED = """
import signal
import rushlight as rl
signal.signal(signal.SIGINT, signal.default_int_handler)
x = rl.ones(1000)
print("ready", flush=True)
try:
    while True:
        x = x * 1.0
except KeyboardInterrupt:
    assert x.sum().item() == 1000
    print("stopped")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_between_ops():
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    finally:
        child.kill()
    assert out == "stopped\n" and child.returncode == 0


def test_many_python_threads():
    x, want, wrong = rl.arange(50_000.0), float(np.arange(50_000.0).sum()), []

    def work():
        for _ in range(30):
            y = (x + 1 - 1).double().sum().item()
            if y != want:
                wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_grad_mode_is_per_thread():
    seen = []
    with rl.no_grad():
        t = threading.Thread(target=lambda: seen.append(rl.is_grad_enabled()))
        t.start()
        t.join()
        assert not rl.is_grad_enabled()
    assert seen == [True]


@pytest.mark.parametrize("bind", ["true", "close"])
def test_bound_threads_are_still_all_used(bind):
    """libgomp binds the main thread to one core, which must not look like a machine with one."""
    count = "import rushlight as rl; print(rl.get_num_threads())"
    counts = []
    for extra in ({}, {"OMP_PROC_BIND": bind, "OMP_PLACES": "cores"}):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")} | extra
        done = subprocess.run(
            [sys.executable, "-c", count], env=environment, capture_output=True, text=True
        )
        counts.append(int(done.stdout))
    assert counts[0] == counts[1]
