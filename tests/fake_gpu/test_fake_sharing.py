"""GPU memory between processes, without a GPU: descriptors, counts, and deaths on either side."""

PROGRAM = """
import os, signal, sys, time
import rushlight as rl
import rushlight.multiprocessing as mp
from rushlight import cuda

{functions}

if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    {main}
"""


def program(run, tmp_path, functions, main, **env):
    """Spawned processes need a file to import."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(functions=functions, main=main.strip().replace("\n", "\n    ")))
    return run(f"import runpy\nrunpy.run_path({str(path)!r}, run_name='__main__')", **env)


ECHO = """
def write(inbox, outbox):
    x = inbox.get(timeout=100)
    x.copy_(rl.full(x.shape, 5.0))
    outbox.put(x.is_cuda)
    inbox.get(timeout=100)
"""


def test_writes_are_seen_on_both_sides(run, tmp_path):
    out = program(
        run, tmp_path, ECHO, """
inbox, outbox = ctx.Queue(), ctx.Queue()
p = ctx.Process(target=write, args=(inbox, outbox)); p.start()
x = rl.zeros(3_000_000, device="cuda")     # several pieces
inbox.put(x)
print(outbox.get(timeout=100), set(x.tolist()))
inbox.put(None)
p.join()
print(p.exitcode)
""")  # fmt: skip
    assert out == ["True {5.0}", "0"]


def test_arguments_of_a_process_are_shared(run, tmp_path):
    out = program(
        run, tmp_path, """
def work(model, done):
    with rl.no_grad():
        model.weight.copy_(rl.full((2, 2), 3.0))
    done.put(model.bias.requires_grad)
""", """
model = rl.nn.Linear(2, 2).cuda().share_memory()
done = ctx.Queue()
p = ctx.Process(target=work, args=(model, done)); p.start()
print(done.get(timeout=100))
p.join()
print(model.weight.tolist(), p.exitcode)
""")  # fmt: skip
    assert out == ["True", "[[3.0, 3.0], [3.0, 3.0]] 0"]


def test_memory_is_kept_while_the_receiver_holds_it(run, tmp_path):
    out = program(
        run, tmp_path, """
def hold(inbox, outbox):
    x = inbox.get(timeout=100)
    outbox.put(1)
    inbox.get(timeout=100)
    print("held", set(x.tolist()), flush=True)
    del x
    outbox.put(2)
    inbox.get(timeout=100)
""", """
inbox, outbox = ctx.Queue(), ctx.Queue()
p = ctx.Process(target=hold, args=(inbox, outbox)); p.start()
x = rl.zeros(1000, device="cuda")
x.copy_(rl.full((1000,), 9.0))
inbox.put(x)
outbox.get(timeout=100)
address = x.data_ptr()
del x
cuda.ipc_collect()
print(cuda.memory_allocated() > 0)
others = [rl.zeros(1000, device="cuda") for _ in range(20)]
print(any(t.data_ptr() == address for t in others))
inbox.put(None)
outbox.get(timeout=100)
del others
cuda.ipc_collect()
print(cuda.memory_allocated())
inbox.put(None)
p.join()
""")  # fmt: skip
    assert out == ["True", "False", "held {9.0}", "0"]


def test_a_killed_receiver_holds_nothing(run, tmp_path):
    out = program(
        run, tmp_path, """
def hold(inbox, outbox):
    x = inbox.get(timeout=100)
    outbox.put(os.getpid())
    time.sleep(100)
""", """
inbox, outbox = ctx.Queue(), ctx.Queue()
p = ctx.Process(target=hold, args=(inbox, outbox)); p.start()
x = rl.zeros(1000, device="cuda")
inbox.put(x)
pid = outbox.get(timeout=100)
del x
cuda.ipc_collect()
print(cuda.memory_allocated() > 0)
os.kill(pid, signal.SIGKILL)
p.join()
cuda.ipc_collect()
print(cuda.memory_allocated())
""")  # fmt: skip
    assert out == ["True", "0"]


def test_the_sender_may_end_first(run, tmp_path):
    out = program(
        run, tmp_path, """
def give(outbox, told):
    x = rl.zeros(1000, device="cuda")
    x.copy_(rl.full((1000,), 4.0))
    outbox.put(x)
    told.get(timeout=100)
""", """
outbox, told = ctx.Queue(), ctx.Queue()
p = ctx.Process(target=give, args=(outbox, told)); p.start()
x = outbox.get(timeout=100)
told.put(None)
p.join()
print(set(x.tolist()))
x.zero_()
print(x.sum() is not None, set(x.tolist()))
""")  # fmt: skip
    assert out == ["{4.0}", "True {0.0}"]


def test_descriptors_do_not_pile_up(run, tmp_path):
    out = program(
        run, tmp_path, """
def take(inbox, outbox):
    kept = []
    for _ in range(200):
        kept.append(inbox.get(timeout=100))
    outbox.put((len(os.listdir("/proc/self/fd")), len(kept)))
    inbox.get(timeout=100)
""", """
inbox, outbox = ctx.Queue(), ctx.Queue()
p = ctx.Process(target=take, args=(inbox, outbox)); p.start()
kept = [rl.zeros(1000, device="cuda") for _ in range(200)]
for x in kept:
    inbox.put(x)
there, count = outbox.get(timeout=100)
here = len(os.listdir("/proc/self/fd"))
print(count, there < 100, here < 100)
inbox.put(None)
p.join()
""")  # fmt: skip
    assert out == ["200 True True"]


def test_what_cannot_be_sent_says_so(run, tmp_path):
    out = program(
        run, tmp_path, """
def back(end):
    x = end.recv()
    try:
        end.send(x)
    except RuntimeError as error:
        end.send(str(error))
""", """
left, right = ctx.Pipe()
p = ctx.Process(target=back, args=(right,)); p.start()
left.send(rl.zeros(3, device="cuda"))
print("clone()" in left.recv())
p.join()
x = rl.ones(3, device="cuda", requires_grad=True) * 2
try:
    left.send(x)
except RuntimeError as error:
    print("detach()" in str(error))
g = cuda.CUDAGraph()
with cuda.graph(g):
    y = rl.zeros(3, device="cuda")
try:
    left.send(y)
except RuntimeError as error:
    print("graph" in str(error))
""")  # fmt: skip
    assert out == ["True", "True", "True"]


TAKE = """
def take(inbox, outbox):
    x = inbox.get(timeout=100)
    outbox.put(x.numel())
"""


def test_memory_is_free_when_the_receiver_has_ended(run, tmp_path):
    """Nobody has to call ipc_collect for it."""
    out = program(
        run, tmp_path, TAKE, """
inbox, outbox = ctx.Queue(), ctx.Queue()
p = ctx.Process(target=take, args=(inbox, outbox)); p.start()
x = rl.zeros(1000, device="cuda")
inbox.put(x)
outbox.get(timeout=100)
p.join()
print(cuda.memory_allocated() > 0)
del x
print(cuda.memory_allocated(), cuda.memory_stats()["allocation.all.current"])
""")  # fmt: skip
    assert out == ["True", "0 0"]


def test_memory_that_was_sent_is_found_before_an_allocation_fails(run, tmp_path):
    out = program(
        run, tmp_path, TAKE, """
inbox, outbox = ctx.Queue(), ctx.Queue()
p = ctx.Process(target=take, args=(inbox, outbox)); p.start()
x = rl.zeros(10_000_000, device="cuda")
cuda.set_per_process_memory_fraction(70e6 / cuda.get_device_properties(0).total_memory)
inbox.put(x)
outbox.get(timeout=100)
try:
    rl.zeros(10_000_000, device="cuda")
except rl.OutOfMemoryError:
    print("full")
p.join()
del x
y = rl.zeros(10_000_000, device="cuda")
print(y.numel())
""")  # fmt: skip
    assert out == ["full", "10000000"]
