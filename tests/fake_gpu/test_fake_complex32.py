"""complex32 on a GPU: its number is beyond the four bits that some kernels' keys had for a type, so
that another kernel ran over its memory."""

PROGRAM = """
import os
x = (rl.randn(4, 4) + 1j * rl.randn(4, 4)).to(rl.complex32).cuda()
at = rl.tensor([0, 1], device="cuda")
table = x.clone().requires_grad_()
def kernels(f):
    cuda.synchronize()
    before = len(open(LOG).readlines())
    f()
    cuda.synchronize()
    return [line.split()[0] for line in open(LOG).readlines()[before:] if line.startswith("_Z")]
cases = {
    "cumsum": lambda: x.cumsum(0),
    "cumprod": lambda: x.cumprod(0),
    "linspace": lambda: rl.linspace(0, 1, 5, dtype=rl.complex32, device="cuda"),
    "nonzero": lambda: rl.nonzero(x),
    "unique_consecutive": lambda: rl.unique_consecutive(x),
    "index_add": lambda: x.index_add(0, at, x[:2]),
    "index_put": lambda: x.index_put((at,), x[0], accumulate=True),
    "scatter_add": lambda: x.scatter_add(0, rl.zeros(4, 4, dtype=rl.int64, device="cuda"), x),
    "embedding": lambda: rl.nn.functional.embedding(at, table).backward(x[:2]),
}
for name, f in cases.items():
    print(name, any("INS_4halfE" in k for k in kernels(f)), sep=": ")
v = x[0]
for f in (lambda: x @ x, lambda: rl.mv(x, v), lambda: rl.dot(v, v), lambda: rl.addmm(x, x, x)):
    try:
        f()
        print("taken")
    except TypeError as error:
        print("complex32" in str(error))
"""


def test_kernels_are_those_of_complex32(run, tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    out = run(f"LOG = {str(log)!r}\n" + PROGRAM, FAKE_CUDA_LOG=log, RUSHLIGHT_COALESCE_LAUNCHES=0)
    names = ("cumsum", "cumprod", "linspace", "nonzero", "unique_consecutive", "index_add",
             "index_put", "scatter_add", "embedding")  # fmt: skip
    assert out == [f"{name}: True" for name in names] + ["True"] * 4
