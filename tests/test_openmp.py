"""Several OpenMP runtimes in one process: ours beside scikit-learn's. They compute, agree about how
many threads there are, and obey whoever limits them."""

import ctypes
import os
import subprocess
import sys

import pytest

import rushlight as rl

threadpoolctl = pytest.importorskip("threadpoolctl", reason="it comes with scikit-learn")
pytest.importorskip("sklearn")

pytestmark = pytest.mark.skipif(
    rl.__name__ == "torch" or not os.path.exists("/proc/self/task"), reason="about this library"
)


def run(code, **environment):
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=300, env=cleared | environment)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


# scikit-learn's wheels bring a libgomp of their own, which KMeans uses.
BESIDE = """
import os
import numpy as np
import rushlight as rl
{imports}
from sklearn.cluster import KMeans
import threadpoolctl

rl.set_num_threads(2)
data = np.random.RandomState(0).randn(4000, 16).astype("f4")
x = rl.from_numpy(data)
image = rl.randn(4, 8, 64, 64)
weight = rl.randn(8, 8, 3, 3)

def ours():
    gram = x.t() @ x
    sums = (x.repeat(40, 1).exp() + 1).log().sum(0)
    return [t.numpy().tobytes() for t in (gram, sums, rl.conv2d(image, weight))]

def theirs():
    return KMeans(5, n_init=1, random_state=0, max_iter=5).fit(data).labels_.tobytes()

alone, labels = ours(), theirs()
for _ in range(5):
    assert ours() == alone and theirs() == labels
runtimes = [p for p in threadpoolctl.threadpool_info() if p["user_api"] == "openmp"]
threads = len(os.listdir("/proc/self/task"))
print(len(runtimes), sum(p["num_threads"] for p in runtimes), threads)
"""


@pytest.mark.parametrize("imports", ["", "import sklearn.cluster; KMeans = None"])
def test_they_work_in_turn(imports):
    """Whichever is imported first. No pool grows with the number of turns."""
    runtimes, most, threads = map(int, run(BESIDE.format(imports=imports)))
    assert runtimes >= 1
    # The pools (each counts this thread as its own), and those of the two BLAS.
    assert threads <= 1 + most + 2 * (os.cpu_count() or 1)


LIMITED = """
import os, threading
import rushlight as rl
import threadpoolctl

def threads():
    return len(os.listdir("/proc/self/task"))

def compute():
    x, a = rl.ones(4_000_000), rl.ones(600, 600)
    total = (x.exp() + x).sum() + (a @ a).sum()
    return (total + rl.conv2d(rl.ones(4, 8, 64, 64), rl.ones(8, 8, 3, 3)).sum()).item()

rl.set_num_threads(2)
before = threads()
with threadpoolctl.threadpool_limits(limits=1):
    limited = rl.get_num_threads()
    compute()
    grown = threads() - before
    other = []
    t = threading.Thread(target=lambda: other.append(rl.get_num_threads()))
    t.start(); t.join()
compute()
print(limited, grown, other[0], rl.get_num_threads(), threads() - before)
"""


def test_threadpoolctl_limits_us():
    """It says so to OpenMP, for the thread that it is called on, as scikit-learn's loops do."""
    limited, grown, other, after, later = run(LIMITED)
    assert (limited, grown, after) == ("1", "0", "2")
    assert other == "2"
    assert int(later) >= 1  # the second thread came when it was allowed


def test_a_number_of_our_own_is_no_limit():
    openmp = ctypes.CDLL("libgomp.so.1") if not _bundled() else ctypes.CDLL(_bundled())
    before = rl.get_num_threads()
    try:
        for n in (3, 1, 2):
            rl.set_num_threads(n)
            rl.conv2d(rl.ones(2, 4, 32, 32), rl.ones(4, 4, 3, 3))
            assert rl.get_num_threads() == n
        most = openmp.omp_get_max_threads()
        openmp.omp_set_num_threads(1)
        assert rl.get_num_threads() == 1
        openmp.omp_set_num_threads(most)
        assert rl.get_num_threads() == 2
    finally:
        rl.set_num_threads(before)


def _bundled():
    """The runtime that a wheel of ours brought, if this is one."""
    with open("/proc/self/maps") as maps:
        names = {line.split()[-1] for line in maps}
    return next((name for name in names if "libgomp-rushlight" in name), None)


WORKERS = """
import joblib, os
import rushlight as rl

def count(_):
    import rushlight as rl
    return rl.get_num_threads()

if __name__ == "__main__":
    print(*joblib.Parallel(n_jobs=2)(joblib.delayed(count)(i) for i in range(2)))
"""


def test_workers_share_the_cores(tmp_path):
    """joblib's processes, which grid searches run in, are told how many threads they may have."""
    program = tmp_path / "program.py"
    program.write_text(WORKERS)
    cleared = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300,
                          env=cleared)  # fmt: skip
    assert done.returncode == 0, done.stderr
    share = max(1, (os.cpu_count() or 1) // 2)
    assert all(int(n) <= share for n in done.stdout.split()), done.stdout
