"""What losses with many classes keep in a GPU's memory, counted without a GPU."""

from pathlib import Path

import pytest

SETUP = """
from rushlight.nn import functional as F
def peak_of(f):
    f()
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    f()
    return (cuda.max_memory_allocated() - before) / size
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_lies_in_the_scores_memory(run, dtype):
    out = run(f"""{SETUP}
x = rl.ones(512, 64, device="cuda", dtype=rl.{dtype}, requires_grad=True)
w = rl.ones(8192, 64, device="cuda", dtype=rl.{dtype}, requires_grad=True)
target = rl.zeros(512, dtype=rl.int64, device="cuda")
size = 512 * 8192 * x.element_size()
side = cuda.Stream()
def train(holds=False, records=False):
    x.grad = w.grad = None
    scores = F.linear(x, w)
    kept = scores.detach() if holds else None
    if records:
        scores.record_stream(side)
    loss = F.cross_entropy(scores, target)
    del scores
    loss.backward()
print(peak_of(train) < 1.1)
print(peak_of(lambda: train(holds=True)) > 1.8)
print(peak_of(lambda: train(records=True)) > 1.8)
""")
    assert out == ["True", "True", "True"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_chunks_of_linear_cross_entropy(run, dtype):
    out = run(f"""{SETUP}
x = rl.ones(2048, 64, device="cuda", dtype=rl.{dtype}, requires_grad=True)
w = rl.ones(4096, 64, device="cuda", dtype=rl.{dtype}, requires_grad=True)
b = rl.ones(4096, device="cuda", dtype=rl.{dtype}, requires_grad=True)
target = rl.zeros(2048, dtype=rl.int64, device="cuda")
size = 2048 * 4096 * x.element_size()
options = rl.nn.LinearCrossEntropyOptions(batch_chunk_size=128)
def train(reduction):
    x.grad = w.grad = b.grad = None
    loss = F.linear_cross_entropy(
        x, w, target, linear_bias=b, reduction=reduction, options=options)
    loss.sum().backward()
# A chunk is a sixteenth; without cuBLAS, factors of half types are copied to float32.
print(peak_of(lambda: train("mean")) < 0.3, peak_of(lambda: train("none")) < 0.3)
print(x.grad.dtype == w.grad.dtype == b.grad.dtype == x.dtype)
w32 = w.detach().float().requires_grad_()
with rl.autocast("cuda", dtype=rl.bfloat16):
    loss = F.linear_cross_entropy(x, w32, target)
loss.backward()
print(loss.dtype, w32.grad.dtype)
""")
    assert out == ["True True", "True", "rushlight.float32 rushlight.float32"]


@pytest.mark.slow
def test_peak_of_a_gpt(run):
    """The GPT of benchmarks/cuda_models.py: 124 M parameters, 16 x 1,024 tokens, 50,304 classes.

    Before backward 8,501 MiB are live, 1,572 of them scores; beside them their gradient would bring
    the peak to 10,073.
    """
    folder = Path(__file__).parents[2] / "benchmarks"
    out = run(
        f"""
import sys
sys.path.insert(0, {str(folder)!r})
import cuda_models
names = {{"lib": rl, "COMPILED": False}}
exec(cuda_models.TRAIN_GPT, names)
cuda.reset_peak_memory_stats()
names["step"]()
print(cuda.max_memory_allocated() // 2**20)
""",
        FAKE_CUDA_MEMORY=40 * 2**30,
    )
    assert int(out[0]) < 8700
