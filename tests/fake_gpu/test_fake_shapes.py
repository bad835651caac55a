"""Attention's other shapes and nested tensors over the pretend driver: what reaches the GPU."""


def test_other_shapes(run):
    out = run("""
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from rushlight.nn.attention.varlen import varlen_attn
x = rl.zeros(12, 2, 64, device="cuda", dtype=rl.bfloat16, requires_grad=True)
bounds = rl.tensor([0, 4, 8, 12])
for window in ((-1, -1), (-1, 0), (2, 1)):
    y = varlen_attn(x, x, x, bounds, bounds, 4, 4, window_size=window)
    y.backward(y.detach())
    print(y.device, tuple(y.shape), tuple(x.grad.shape))
wide, bounds = x.double(), rl.tensor([0, 5, 12])  # which no kernel takes
print(varlen_attn(wide, wide, wide, bounds, bounds, 7, 7).dtype)

q = rl.zeros(1, 2, 256, 64, device="cuda", dtype=rl.bfloat16, requires_grad=True)
slopes = rl.zeros(2, device="cuda", requires_grad=True)
mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cuda")
print(mask.kv_num_blocks.device)
y = flex_attention(q, q, q, lambda s, b, h, i, j: s + slopes[h] * (i - j))
y.backward(y.detach())
print(y.dtype, tuple(q.grad.shape), q.grad.dtype, tuple(slopes.grad.shape))

x = rl.nested.nested_tensor([rl.ones(2, 8), rl.ones(3, 8)], layout=rl.jagged)
y = x.cuda()
print(y.device, y.offsets().device, y.shape == x.shape, y.cpu().device)
print(rl.nn.functional.linear(y, rl.ones(4, 8, device="cuda")).device)
z = rl.nested.nested_tensor([[1.0], [2.0, 3.0]], layout=rl.jagged, device="cuda")
print(z.to_padded_tensor(0.0).shape, z.sum(1).device)
""")
    assert out == [
        *["cuda:0 (12, 2, 64) (12, 2, 64)"] * 3,
        "rushlight.float64",
        "cuda:0",
        "rushlight.bfloat16 (1, 2, 256, 64) rushlight.bfloat16 (2,)",
        "cuda:0 cuda:0 True cpu",
        "cuda:0",
        "rushlight.Size([2, 2]) cuda:0",
    ]


def test_pools_without_windows(run):
    """Sizes of 0 are not divided by on the host; what has no window has a gradient of zeros."""
    out = run(
        """
from rushlight.nn import functional as F
x = rl.ones(2, 2, 4, 4, device="cuda", requires_grad=True)
for pool in (F.adaptive_max_pool2d, F.adaptive_avg_pool2d):
    for size in ((2, 0), (0, 2), (0, 0)):
        y = pool(x, size)
        (g,) = rl.autograd.grad(y, x, rl.ones_like(y))
        print(tuple(y.shape) == (2, 2, *size), tuple(g.shape) == tuple(x.shape))
"""
    )
    assert out == ["True True"] * 6


def test_what_a_kernel_must_not_see(run):
    """Indices into a dim without elements, and what has no order here, are refused on the
    host: the kernel would read where nothing is, or not compile."""
    out = run(
        """
x = rl.zeros(0, 3, device="cuda")
z = rl.zeros(2, 2, device="cuda", dtype=rl.complex128)
for call in (lambda: x[[-2]], lambda: x[[-2], rl.tensor(True)], lambda: x[rl.tensor([0]), [1]],
             lambda: z.unique(return_inverse=True), lambda: z.unique(dim=0),
             lambda: rl.ones(17, device="cuda").to(rl.float8_e5m2).argsort()):
    try:
        call()
        print("taken")
    except (IndexError, TypeError) as error:
        print(str(error)[:58])
print(tuple(x[[]].shape))
"""
    )
    bounds = "index: index is out of bounds for dimension 0 with size 0"
    kinds = "unique: not implemented for complex128 tensors"
    small = "argsort: not implemented for float8_e5m2 tensors, which are"
    assert out == [bounds] * 3 + [kinds] * 2 + [small[:58], "(0, 3)"]
