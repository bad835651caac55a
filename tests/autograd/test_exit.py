"""The end of a process, with graphs, hooks and threads still there."""

import subprocess
import sys

PROGRAM = """
import threading, time
import rushlight as rl
from rushlight.autograd import Function

class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.me = ctx
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

x = rl.ones(4, requires_grad=True)
x.register_post_accumulate_grad_hook(lambda p: None)
y = Double.apply(x)
y.register_hook(lambda g: g * y.sum())
x.loss = (y * 3).sum()
node = x.loss.grad_fn

def work():
    while True:
        (Double.apply(x) * 2).sum().backward()

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("end")
"""


def test_daemon_threads_in_backward_do_not_harm_the_exit():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout == "end\n", run.stderr
    assert run.returncode == 0, run.stderr
