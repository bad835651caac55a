"""Which kernel of attention a GPU would use, asked without one."""


def test_which_kernel_can_be_used(run):
    out = run("""
from rushlight.backends import cuda as switches
from rushlight.nn.attention import SDPBackend, sdpa_kernel
def params(dtype=rl.bfloat16, width=64, mask=None, **more):
    q, k, v = (rl.zeros(1, 2, 8, width, device="cuda", dtype=dtype) for _ in range(3))
    return switches.SDPAParams(q, k, v, mask, 0.0, False, **more)
print(switches.can_use_flash_attention(params()))
print(switches.can_use_efficient_attention(params(rl.float32)))
print(switches.can_use_flash_attention(params(rl.float64)))
print(switches.can_use_flash_attention(params(width=512)))
with sdpa_kernel(SDPBackend.MATH):
    print(switches.can_use_flash_attention(params()))
wanted = rl.zeros(8, 8, device="cuda", requires_grad=True)
print(switches.can_use_flash_attention(params(mask=wanted)))
""")
    assert out == ["True", "True", "False", "False", "False", "False"]
