"""How many launches passes over lists of tensors take, without a GPU: a captured graph counts them,
and refuses what would wait."""

START = """
from rushlight import nn
def launches(f):
    f()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        kept = f()
    return g._graph.node_count()
def parameters(n=48, dtype=rl.float32):
    made = [nn.Parameter(rl.ones(5, i + 1, dtype=dtype, device="cuda")) for i in range(n)]
    for p in made:
        p.grad = rl.ones_like(p)
    return made
def grads(*args, **kwargs):
    return [p.grad for p in parameters(*args, **kwargs)]
"""


def test_lists_are_few_launches(run):
    out = run(
        START
        + """
x, y, z = grads(), grads(), grads()
half = grads(dtype=rl.float16)
scale = rl.tensor(0.5, device="cuda")
print(launches(lambda: rl._foreach_exp(x)), launches(lambda: rl._foreach_add_(x, 1)),
      launches(lambda: rl._foreach_mul_(half, scale)), launches(lambda: rl._foreach_pow_(x, 2)),
      launches(lambda: rl._foreach_mul(x, list(range(48)))),
      launches(lambda: rl._foreach_sub_(x, y)),
      launches(lambda: rl._foreach_addcdiv_(x, y, z, [0.5] * 48)),
      launches(lambda: rl._foreach_lerp_(x, y, 0.1)),
      launches(lambda: rl._foreach_clamp_min_(x, 0)),
      launches(lambda: rl._foreach_copy_(x, half)), launches(lambda: rl._foreach_clone(x)),
      launches(lambda: rl._foreach_zero_(x)))
print(launches(lambda: rl._foreach_norm(x)), launches(lambda: rl._foreach_norm(x, 1)))
# 64 tensors a launch; those that are not aligned to packs go apart.
many, flat = grads(130), rl.ones(1000, device="cuda")
odd = [flat[i * 100 + i % 2 : i * 100 + 50] for i in range(10)]
print(launches(lambda: rl._foreach_add_(many, 1)), launches(lambda: rl._foreach_add_(odd, 1)))
"""
    )
    assert out == ["1 " * 11 + "1", "2 2", "3 2"]


def test_who_uses_them_takes_few_launches(run):
    out = run(
        START
        + """
ps = parameters()
optimizer = rl.optim.SGD(ps, lr=0.1)
clip = launches(lambda: nn.utils.clip_grad_norm_(ps, 1.0))
of_one_number = launches(lambda: (1.0 / (rl.ones((), device="cuda") + 1e-6)).clamp(max=1.0))
print(clip - of_one_number + 1, launches(lambda: nn.utils.clip_grad_value_(ps, 1.0)))
print(launches(lambda: optimizer.zero_grad(set_to_none=False)),
      launches(lambda: nn.ParameterList(ps).zero_grad(set_to_none=False)))
found, inverse = rl.zeros((), device="cuda"), rl.tensor(0.5, device="cuda")
print(launches(lambda: rl._amp_foreach_non_finite_check_and_unscale_([p.grad for p in ps], found,
                                                                     inverse)))
ema = rl.optim.swa_utils.get_ema_multi_avg_fn(0.9)
print(launches(lambda: ema([p.detach() for p in ps], [p.grad for p in ps], 1)))
"""
    )
    # The norm, what joins it, and the scaling; rl.ones is a launch of its own.
    assert out == ["3 1", "1 1", "1", "1"]


def test_nothing_waits(run):
    out = run(
        START
        + """
import math
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).cuda()
averages = [rl.optim.swa_utils.AveragedModel(model, **kwargs).cuda() for kwargs in
            ({}, {"multi_avg_fn": rl.optim.swa_utils.get_ema_multi_avg_fn()})]
for average in averages:
    average.update_parameters(model)
model(rl.ones(2, 4, device="cuda")).sum().backward()
optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
scaler = rl.amp.GradScaler("cuda")
scaler.scale(rl.ones((), device="cuda"))
cuda.set_sync_debug_mode("error")
for ord in (1, 2, math.inf, 3):
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, ord)
nn.utils.clip_grad_value_(model.parameters(), 1.0)
optimizer.zero_grad(set_to_none=False)
for average in averages:
    average.update_parameters(model)
scaler.unscale_(optimizer)
scaler.update()
rl._foreach_norm([p.grad for p in model.parameters()])
try:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
except RuntimeError as error:
    print("waits" in str(error))
"""
    )
    assert out == ["True"]


def test_lists_over_two_devices(run):
    out = run(
        START
        + """
ps = parameters(3) + [nn.Parameter(p.detach().to("cuda:1")) for p in parameters(2)]
for p in ps:
    p.grad = rl.ones_like(p)
print(nn.utils.clip_grad_norm_(ps, 1.0).device, [p.grad._version for p in ps])
rl._foreach_mul_([p.grad for p in ps], 2.0)
rl.optim.SGD(ps, lr=0.1).zero_grad(set_to_none=False)
rl._amp_foreach_non_finite_check_and_unscale_([p.grad for p in ps], rl.zeros(1, device="cuda:0"),
                                              rl.ones((), device="cuda:0"))
print([p.grad._version for p in ps])
""",
        CUDA_VISIBLE_DEVICES="0,1",
        FAKE_CUDA_DEVICES=2,
    )
    assert out == ["cuda:0 [1, 1, 1, 1, 1]", "[4, 4, 4, 4, 4]"]


def test_lists_of_float8(run):
    """They go with no other type in arithmetic, but into any other."""
    code = """
x = [rl.zeros(n, device="cuda") for n in (8, 3)]
y = rl.compile(lambda: [t.to(rl.float8_e4m3fn) for t in x])()
print({t.cpu().dtype for t in y})
for dtype in (rl.float8_e5m2, rl.bfloat16, rl.float64):
    print({t.cpu().dtype for t in rl.compile(lambda: [t.to(dtype) for t in y])()})
rl._foreach_copy_(y, [t.half() for t in x])
"""
    types = ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float64"]
    assert run(code) == [f"{{rushlight.{name}}}" for name in types]
