"""A smoke run at each instruction set that the machine has: the loops must agree."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np, rushlight as rl
rng = np.random.RandomState(0)
for n in (1, 7, 8, 15, 16, 17, 1000):
    a, b = rng.randn(n).astype("f4"), rng.rand(n).astype("f4") + 0.5
    x, y = rl.from_numpy(a), rl.from_numpy(b)
    for got, want in ((x + y, a + b), (x / y, a / b), (x.exp(), np.exp(a)), (y.log(), np.log(b)),
                      (x.tanh(), np.tanh(a)), (x.sin(), np.sin(a)), (y.sqrt(), np.sqrt(b)),
                      (x.sum(), a.sum()), (x.max(), a.max()), (x.cumsum(0), a.cumsum()),
                      (rl.where(x > 0, x, y), np.where(a > 0, a, b)),
                      (x.double() * 3, a.astype("f8") * 3), (x.long(), a.astype("i8")),
                      (x.sort()[0], np.sort(a))):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)
    i = rl.from_numpy(np.arange(n))
    assert (i * 3 - 1).sum().item() == 3 * n * (n - 1) // 2 - n
    assert x.half().float().sub(x).abs().max() < 0.01
    assert x.bfloat16().float().sub(x).abs().max() < 0.05
m = rng.randn(33, 17).astype("f4")
product = rl.from_numpy(m) @ rl.from_numpy(m).t()
np.testing.assert_allclose(product.numpy(), m @ m.T, rtol=1e-4, atol=1e-4)
rl.manual_seed(1)
print(rl.randn(5).tolist())
"""


def flags():
    info = Path("/proc/cpuinfo")
    return info.read_text() if info.exists() else ""


LEVELS = ["baseline"] + ["avx2"] * ("avx2" in flags()) + ["avx512"] * ("avx512bw" in flags())


def run(level):
    env = {**os.environ, "RUSHLIGHT_ISA": level}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_smoke_at_each_level():
    numbers = {level: run(level) for level in LEVELS}
    assert len(set(numbers.values())) == 1, f"random numbers depend on the level: {numbers}"
