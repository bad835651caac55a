"""PyTorch's lists for CUDA, over the pretend driver: the dtypes of results."""

import sys
from pathlib import Path

AMP = Path(__file__).parents[1] / "amp"
sys.path.insert(0, str(AMP))
import autocast_lists as lists  # noqa: E402

PROGRAM = f"""
import sys
sys.path.insert(0, {str(AMP)!r})
import autocast_lists as lists
for kind, given in (("LOWER", rl.float32), ("FLOAT32", rl.float16), ("WIDEST", rl.float16)):
    for name, (path, call) in getattr(lists, "CUDA_" + kind).items():
        t = lists.Tensors(rl, given, rl.float16, "cuda")
        try:
            with rl.autocast("cuda"):
                result = lists.tensors_of(call(lists.find(rl, path), t))[0].dtype
        except Exception as error:
            result = repr(error)
        print(kind, name, result, sep="\\t")
"""


def test_the_lists(run):
    got = {tuple(line.split("\t")[:2]): line.split("\t")[2] for line in run(PROGRAM)}
    want = {}
    for kind, dtype in (("LOWER", "float16"), ("FLOAT32", "float32"), ("WIDEST", "float32")):
        for name in getattr(lists, "CUDA_" + kind):
            want[kind, name] = f"rushlight.{dtype}"
    # Singular values come from NVIDIA's library, which need not be here.
    got.pop(("FLOAT32", "nuclear_norm"))
    want.pop(("FLOAT32", "nuclear_norm"))
    assert got == want


def test_what_float16_cannot_hold_is_refused(run):
    assert run("""
x = rl.full((3,), 0.5, device="cuda")
with rl.autocast("cuda"):
    try:
        rl.nn.functional.binary_cross_entropy(x, x)
    except RuntimeError as error:
        print(str(error).split(":")[0])
    with rl.autocast("cuda", enabled=False):
        print(rl.nn.functional.binary_cross_entropy(x, x).dtype)
""") == ["binary_cross_entropy", "rushlight.float32"]


def test_sums_of_integers_keep_their_dtype(run):
    assert run("""
with rl.autocast("cuda"):
    print(rl.ones(3, dtype=rl.int64, device="cuda").sum().dtype)
    print(rl.ones(3, dtype=rl.float64, device="cuda").sum().dtype)
    print(rl.ones(3, dtype=rl.float16, device="cuda").sum(dtype=rl.float16).dtype)
""") == ["rushlight.int64", "rushlight.float64", "rushlight.float16"]
