"""The kernels of norms and reductions that launches name, in shapes that reach each of them: they
exist and compile. (What they compute is held by tests/cpp and, on a GPU, by tests/cuda.)"""

PROGRAM = """
F = rl.nn.functional
def image(*sizes, last=False, dtype=rl.bfloat16):
    x = rl.empty(*sizes, dtype=dtype, device="cuda")
    return (x.contiguous(memory_format=rl.channels_last) if last else x).requires_grad_()
for last, sizes, groups in ((False, (150, 4, 32, 32), 2), (False, (2, 4, 30, 31), 2),
                            (False, (1, 2, 300, 300), 1), (False, (300, 4, 100, 100), 2),
                            (True, (2, 16, 20, 20), 4), (True, (2, 6, 5, 5), 3)):
    x, w = image(*sizes, last=last), rl.ones(sizes[1], device="cuda", requires_grad=True)
    y = F.group_norm(x, groups, w, w)
    gx, gw = rl.autograd.grad(y, (x, w), rl.empty_like(y))
    form = {"memory_format": rl.channels_last if last else rl.contiguous_format}
    print(y.dtype, y.is_contiguous(**form), gx.is_contiguous(**form), gw.dtype)
for rows, width in ((300, 64), (4500, 768), (600, 768), (300, 3072), (100, 9000)):
    x, w = image(rows, width), rl.ones(width, device="cuda", dtype=rl.bfloat16, requires_grad=True)
    for y in (F.layer_norm(x, (width,), w, w), F.rms_norm(x, (width,), w)):
        print([g.dtype for g in rl.autograd.grad(y, (x, w), rl.empty_like(y))])
x = image(9000, 1024).detach()
for f in (rl.var, rl.argmax, rl.sum):
    print([f(x, dim).shape[0] for dim in (0, 1)])
"""


def test_norms_and_reductions_find_their_kernels(run):
    half = "rushlight.bfloat16"
    want = [f"{half} True True rushlight.float32"] * 6 + [f"[{half}, {half}]"] * 10
    assert run(PROGRAM) == want + ["[1024, 9000]"] * 3
