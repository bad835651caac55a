"""What the kernels of a GPU are made for, seen by their names: types of memory, and of what is
computed; and what is checked or worked out on the host. Kernels do nothing here."""

import re
from pathlib import Path

import rushlight as rl

LOGGED = """
import os
def launched(f):
    open(os.environ["FAKE_CUDA_LAUNCHES"], "w").close()
    f()
    cuda.synchronize()
    return [line.split()[0] for line in open(os.environ["FAKE_CUDA_LAUNCHES"])]
"""


def test_bools_are_read_as_bytes(run, tmp_path):
    """Any byte but 0 is true; a C++ bool that is neither 0 nor 1 is not defined."""
    printed = run(LOGGED + '''
x = rl.zeros(64, dtype=rl.uint8, device="cuda").view(rl.bool)
index = rl.zeros(64, dtype=rl.int64, device="cuda")
works = [lambda: x == x, lambda: x & x, lambda: x.float(), lambda: x[::2].half(), lambda: x.sum(),
         lambda: x.cumsum(0), lambda: x.sort(), lambda: x.unique_consecutive(),
         lambda: rl.where(x, 1.0, 2.0), lambda: x.scatter_add(0, index, x), lambda: x.max(),
         lambda: x.topk(3), lambda: x * rl.ones(64, device="cuda"),
         rl.compile(lambda: (x.float() * 2 + 1).sin())]
for work in works:
    names = launched(work)
    print(any("5truth" in name for name in names), names)
''', FAKE_CUDA_LAUNCHES=tmp_path / "launches")  # fmt: skip
    assert len(printed) == 14
    for line in printed:
        assert line.startswith("True"), line


def test_the_kernels_that_are_compiled_ahead_do_too():
    """A name that nothing asks for any more would be compiled in vain."""
    names = (Path(rl.__file__).parent / "cuda" / "warmup_kernels.txt").read_text().splitlines()
    reading = [n for n in names if re.search("::(copy_|reduce|pointwise_|scan_|sort_)", n)]
    assert len(reading) > 100
    for name in reading:
        operands = name.split(", ", 4)[4] if "pointwise_" in name else name
        assert not re.search(r"\bbool\b", operands), name


def test_norms_of_halves_are_formed_in_floats(run, tmp_path):
    """The sum of fourth powers is beyond a half's range where its root is not."""
    printed = run(LOGGED + '''
x = rl.ones(5, 5, device="cuda", dtype=rl.float16)
for name in launched(lambda: rl.dist(x, -x, 4)):
    print(name)
''', FAKE_CUDA_LAUNCHES=tmp_path / "launches")  # fmt: skip
    (total,) = (name for name in printed if "reduce" in name and "Sum" in name)
    assert "half" not in total
    root = [name for name in printed if "3Pow" in name][-1]
    assert "half" in root and root.index("4half") < root.rindex("f")  # written as a half


def test_a_rate_on_the_gpu_and_step_counts_on_the_host(run):
    printed = run('''
lr = rl.tensor(0.5, device="cuda")
for kind in (rl.optim.Adagrad, rl.optim.Adamax):
    p = rl.ones(3, device="cuda", requires_grad=True)
    optimizer = kind([p], lr=0.1)
    optimizer.param_groups[0]["lr"] = lr  # not at once: a comparison is a kernel, too
    for _ in range(2):
        p.grad = rl.ones(3, device="cuda")
        optimizer.step()
    step = optimizer.state[p]["step"]
    print(step.device, step.item())
''')  # fmt: skip
    assert printed == ["cpu 2.0"] * 2


def test_complex_numbers_for_real_tensors(run):
    printed = run('''
x = rl.ones(2, dtype=rl.int64, device="cuda")
mask = rl.tensor(False, device="cuda")
for value in (1j, 2 + 0j):
    try:
        x.masked_fill(mask, rl.tensor(value, device="cuda"))
        print("taken")
    except RuntimeError as error:
        print(error)
''')  # fmt: skip
    assert "complex" in printed[0]
    assert printed[1] == "taken"
