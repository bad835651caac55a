"""spawn and start_processes: results, exceptions, signals; and computing after a fork."""

import pytest
import scripts
from test_sharing import HEADER


def test_spawn_shares_and_joins():
    out = scripts.run(
        HEADER
        + """
def work(i, x):
    x[i] = i + 1

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        x = torch.zeros(3).share_memory_()
        assert mp.start_processes(work, (x,), nprocs=3, start_method=method) is None
        assert x.tolist() == [1, 2, 3]
    x = torch.zeros(2).share_memory_()
    context = mp.spawn(work, (x,), nprocs=2, join=False)
    assert len(context.pids()) == 2
    while not context.join():
        pass
    print(x.tolist())
"""
    )
    assert out == "[1.0, 2.0]\n"


@pytest.mark.parametrize(
    "body, kind, texts",
    [
        ("raise ValueError('went wrong')", "ProcessRaisedException", ["went wrong", "ValueError"]),
        ("os._exit(7)", "ProcessExitedException", ["exit code 7"]),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ProcessExitedException", ["SIGKILL"]),
    ],
)
def test_one_fails_all_stop(body, kind, texts):
    out = scripts.run(
        HEADER
        + f"""
def work(i):
    if i == 1:
        {body}
    time.sleep(300)

if __name__ == "__main__":
    start = time.monotonic()
    try:
        mp.start_processes(work, nprocs=3, start_method="fork")
    except mp.{kind} as error:
        assert error.error_index == 1
        print(error)
    assert time.monotonic() - start < 60
"""
    )
    assert all(text in out for text in texts), out


def test_computing_in_a_forked_child():
    """The parent has used its thread pool; children compute on one thread, and do not hang."""
    out = scripts.run(
        HEADER
        + """
def work(i, results):
    a = torch.ones(600, 600)
    total = (a @ a).sum() + torch.rand(3_000_000).sort().values[0]
    weight = torch.ones(600, 600, requires_grad=True)
    (a @ weight).relu().sum().backward()
    results[i] = total.item() + weight.grad[0, 0].item()
    threads = len(os.listdir("/proc/self/task"))
    assert torch.get_num_threads() == 1, torch.get_num_threads()
    assert threads == 1, threads

if __name__ == "__main__":
    torch.set_num_threads(2)
    a = torch.ones(600, 600)
    (a @ a).sum(), torch.rand(3_000_000).exp().sum()
    results = torch.zeros(3, dtype=torch.float64).share_memory_()
    mp.start_processes(work, (results,), nprocs=3, start_method="fork")
    assert bool((results > 600 ** 3).all()), results
    assert torch.get_num_threads() == 2
    print("fine")
"""
    )
    assert out == "fine\n"


def test_a_child_forked_before_any_work_is_serial_too():
    out = scripts.run(
        HEADER
        + """
def work(i):
    torch.rand(3_000_000).exp().sum()
    assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")

if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method="fork")
    print("fine")
""",
        env={"OMP_NUM_THREADS": "2"},
    )
    assert out == "fine\n"
