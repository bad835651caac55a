"""Who dies first does not matter, nothing is left behind, and descriptors stay few."""

import os
import subprocess
import sys
import tempfile

import pytest
import scripts
from test_sharing import HEADER, segments


def test_the_sender_dies_first():
    out = scripts.run(
        HEADER
        + """
def child(queue):
    queue.put(torch.arange(1000.0))
    queue.put([torch.full((3,), 7.0), torch.zeros(500_000)])

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = mp.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        process.join()  # it is gone before anything is received
        first = queue.get(timeout=30)
        second = queue.get(timeout=30)
        assert first.tolist() == list(range(1000)) and second[0].tolist() == [7, 7, 7]
        second[1].fill_(1)
        assert second[1].sum().item() == 500_000
    print("fine")
"""
    )
    assert out == "fine\n"


def test_the_receiver_dies_first():
    out = scripts.run(
        HEADER
        + """
def child(queue, ready):
    got = [queue.get() for _ in range(3)]
    got[0].fill_(5)
    ready.put(1)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    tensors = [torch.zeros(n) for n in (3, 1000, 300_000)]
    queue, ready = mp.Queue(), mp.SimpleQueue()
    process = mp.Process(target=child, args=(queue, ready))
    process.start()
    for t in tensors:
        queue.put(t)
    ready.get()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert tensors[0].tolist() == [5, 5, 5]
    for t in tensors:
        t.fill_(2)
    assert tensors[2].sum().item() == 600_000
    print("fine")
"""
    )
    assert out == "fine\n"


def test_a_fork_keeps_what_it_inherited():
    """The parent drops shared tensors that only the child still has, and makes new ones."""
    out = scripts.run(
        HEADER
        + """
def child(tensors, go, done):
    go.recv()
    assert [t[0].item() for t in tensors] == list(range(50)), tensors
    assert all(bool((t == t[0]).all()) for t in tensors)
    done.send("same")

if __name__ == "__main__":
    context = mp.get_context("fork")
    tensors = [torch.full((n,), float(i)).share_memory_() for i, n in enumerate([10, 3000] * 25)]
    (go, started), (answer, done) = context.Pipe(), context.Pipe()
    process = context.Process(target=child, args=(tensors, started, done))
    process.start()
    del tensors  # Process.start has dropped its own
    others = [torch.full((n,), -1.0).share_memory_() for n in [10, 3000] * 200]
    go.send(1)
    print(answer.recv())
    process.join()
"""
    )
    assert out == "same\n"


def test_ten_thousand_tensors_under_a_small_limit():
    out = scripts.run(
        HEADER
        + """
def child(inbox, outbox):
    kept = [inbox.get() for _ in range(10_000)]
    total = sum(int(t[0].item()) for t in kept)
    for t in kept:
        outbox.put(t)
    outbox.put((total, len(os.listdir("/proc/self/fd"))))
    inbox.get()

if __name__ == "__main__":
    inbox, outbox = mp.Queue(), mp.Queue()
    process = mp.Process(target=child, args=(inbox, outbox))
    process.start()
    kept = [torch.full((100 + i % 300,), float(i)) for i in range(10_000)]
    for t in kept:
        inbox.put(t)
    back = [outbox.get() for _ in range(10_000)]
    total, descriptors = outbox.get()
    assert total == sum(range(10_000))
    assert all(a.data_ptr() == b.data_ptr() for a, b in zip(kept, back))
    assert descriptors < 60 and len(os.listdir("/proc/self/fd")) < 60
    inbox.put(None)
    process.join()
    print("fine")
""",
        before="ulimit -n 256",
    )
    assert out == "fine\n"


def test_a_child_that_makes_the_tensors_under_a_small_limit():
    out = scripts.run(
        HEADER
        + """
def child(queue):
    for i in range(10_000):
        queue.put(torch.full((50,), float(i)))

if __name__ == "__main__":
    queue = mp.Queue()
    process = mp.Process(target=child, args=(queue,))
    process.start()
    kept = [queue.get() for _ in range(10_000)]
    process.join()
    assert [int(t[-1].item()) for t in kept] == list(range(10_000))
    assert len(os.listdir("/proc/self/fd")) < 60
    print("fine")
""",
        before="ulimit -n 256",
    )
    assert out == "fine\n"


def test_a_stream_of_tensors_takes_bounded_memory():
    """One in a hundred is kept; the pages of the others go back."""
    out = scripts.run(
        HEADER
        + """
def child(queue, done):
    for i in range(4000):
        queue.put(torch.full((25_000,), float(i)))
    done.recv()

def shared_pages():
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("Pss_Shmem:"):
            return int(line.split()[1]) // 1024
    return 0

if __name__ == "__main__":
    queue = mp.Queue(8)
    done, other = mp.Pipe()
    process = mp.Process(target=child, args=(queue, other))
    process.start()
    kept = []
    for i in range(4000):
        t = queue.get()
        assert t[0].item() == i
        if i % 100 == 0:
            kept.append(t)
        del t
    # 400 MB went through, 4 MB are kept.
    assert shared_pages() < 30, shared_pages()
    done.send(1)
    process.join()
    print("fine")
"""
    )
    assert out == "fine\n"


def test_killed_processes_leave_no_files():
    before = segments()
    script = scripts.Script(
        HEADER
        + """
def child(queue):
    mp.set_sharing_strategy("file_system")
    queue.put(torch.ones(1000))
    queue.close(); queue.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    mp.set_sharing_strategy("file_system")
    queue = mp.Queue()
    process = mp.Process(target=child, args=(queue,))
    process.start()
    process.join()
    got = queue.get()
    assert got.sum().item() == 1000
    assert any(n.startswith("rushlight-") for n in os.listdir("/dev/shm"))
    print("fine")
"""
    )
    out, err, code = script.finish()
    assert (out, code) == ("fine\n", 0), err
    assert segments() <= before


def test_a_small_dev_shm_does_not_matter():
    """memfds do not lie in /dev/shm: what is full there cannot stop them."""
    out = scripts.run(
        HEADER
        + """
if __name__ == "__main__":
    assert mp.get_sharing_strategy() == "file_descriptor"
    used = os.statvfs("/dev/shm").f_bfree
    kept = torch.zeros(20_000_000).share_memory_()
    kept.fill_(1)
    assert os.statvfs("/dev/shm").f_bfree >= used - 100
    print("fine")
"""
    )
    assert out == "fine\n"


def test_a_full_dev_shm_is_an_error_and_no_crash():
    """Files lie in /dev/shm, which may be small: here one of a megabyte, for this script alone."""
    source = (
        HEADER
        + """
mp.set_sharing_strategy("file_system")
kept = torch.ones(10).share_memory_()
try:
    for _ in range(100):
        torch.ones(1_000_000).share_memory_()
    print("all fitted")
except MemoryError as error:
    print(error)
mp.set_sharing_strategy("file_descriptor")
assert torch.ones(5_000_000).share_memory_().sum().item() == 5_000_000
"""
    )
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount")
    mount = "mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 3"
    inner = f'{mount}; exec "$0" "$1"'
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(source)
        file.flush()
        done = subprocess.run(
            ["unshare", "-m", "bash", "-c", inner, sys.executable, file.name],
            capture_output=True, text=True, timeout=scripts.LIMIT, check=False,
        )  # fmt: skip
    assert done.returncode == 0 and "/dev/shm" in done.stdout, (done.stdout, done.stderr)


def test_a_limit_on_descriptors_under_way():
    """Without privileges, the kernel limits descriptors in unread messages to ulimit -n."""
    if os.getuid() != 0:
        pytest.skip("has to be started as root, to become nobody")
    out = scripts.run(
        """
import os
import rushlight as torch
import rushlight.multiprocessing as mp
import threading
queue = mp.SimpleQueue()
queue.put(torch.ones(1)), queue.get()  # what is to be imported is imported
os.setgid(65534)
os.setuid(65534)

def send():
    for i in range(2000):
        queue.put(torch.full((3,), float(i)))

thread = threading.Thread(target=send)
thread.start()
thread.join(1)  # as many as go
got = [int(queue.get()[0].item()) for _ in range(2000)]
thread.join()
assert got == list(range(2000))
print("fine")
""",
        before="ulimit -n 64",
    )
    assert out == "fine\n"
