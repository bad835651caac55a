"""rearrange, reduce, repeat, einsum, pack, layers, with gradients, in float64 and on traced programs"""

import einops
import torch
from einops.layers.torch import EinMix, Rearrange, Reduce
from same import fill, normal, use

PACKAGES = ["einops"]


@use
def patterns(folder):
    x = normal(2, 6, 4, 8).requires_grad_()
    for pattern, axes in {
        "b c h w -> b (h w) c": {}, "b (g c) h w -> (b g) c h w": {"g": 3}, "b c (h a) (w d) -> b (c a d) h w": {"a": 2, "d": 4},
        "b ... -> ... b": {}, "b c h w -> (b c h w)": {}, "b c h w -> w h () c b": {},
    }.items():  # fmt: skip
        yield pattern, einops.rearrange(x, pattern, **axes)
    for how in ("min", "max", "sum", "mean", "prod"):
        y = einops.reduce(x, "b c (h a) (w d) -> b c h w", how, a=2, d=2)
        (gradient,) = torch.autograd.grad(y.square().sum(), x)
        yield how, [y, gradient]
    yield "any", einops.reduce(x > 1, "b c h w -> b c", "any")
    yield "function", einops.reduce(x, "b c h w -> b c", lambda t, axes: t.logsumexp(axes))
    yield "repeat", einops.repeat(x, "b c h w -> b c (h a) w d", a=2, d=3)
    yield "einsum", einops.einsum(x, normal(6, 5), "b c h w, c k -> b k h w")
    packed, shapes = einops.pack([normal(2, 3), normal(2, 4, 5)], "b *")
    yield "packed", packed
    yield "unpacked", einops.unpack(packed, shapes, "b *")
    yield "list", einops.rearrange([x[0], x[1]], "n c h w -> c h n w")
    yield "parsed", einops.parse_shape(x, "b _ h w")
    yield "double", einops.reduce(x.double(), "b c h w -> c", "mean")


@use
def layers(folder):
    net = torch.nn.Sequential(
        Rearrange("b c (h a) (w d) -> b (h w) (a d c)", a=2, d=2), EinMix("b t c -> b t k", "c k", bias_shape="k", c=24, k=5),
        Reduce("b t k -> b k", "max"),
    )  # fmt: skip
    fill(net)
    x = normal(2, 6, 4, 8)
    yield "net", net(x)
    yield "scripted", torch.jit.script(net)(x)
    yield "traced", torch.jit.trace(net, x)(x)
    yield "compiled", torch.compile(net, backend="eager")(x)
    yield "text", str(net)
    yield "mapped", torch.vmap(lambda t: einops.rearrange(t, "c h w -> h w c"))(x)
