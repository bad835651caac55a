"""The models that several benchmarks train, as text: each side builds them of its own `lib`.

APPROXIMATE, a name of the program that runs this text, is gelu's: "none" or "tanh".
"""

BLOCK = """
import math
nn, F = lib.nn, lib.nn.functional
class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def split(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        return (u.view(b, t, self.heads, c // self.heads).transpose(1, 2) for u in (q, k, v))
    def rest(self, x, y):
        x = x + self.project(y.transpose(1, 2).contiguous().view(x.shape))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate=APPROXIMATE))
    def forward(self, x):
        q, k, v = self.split(x)
        return self.rest(x, F.scaled_dot_product_attention(q, k, v, is_causal=self.causal))
    def decode(self, x, keys, values, at):
        q, k, v = self.split(x)
        keys[:, :, at : at + 1] = k
        values[:, :, at : at + 1] = v
        y = F.scaled_dot_product_attention(q, keys[:, :, : at + 1], values[:, :, : at + 1])
        return self.rest(x, y)
"""

GPT = """
class GPT(nn.Module):
    def __init__(self, vocabulary, length, width, layers, heads):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("numbers", lib.arange(length))
    def forward(self, x):
        x = self.tokens(x) + self.places(self.numbers[: x.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
    def decode(self, token, caches, at):
        x = self.tokens(token) + self.places(self.numbers[at : at + 1])
        for block, (keys, values) in zip(self.blocks, caches):
            x = block.decode(x, keys, values, at)
        return self.head(self.norm(x))
"""

VIT = """
class ViT(nn.Module):
    def __init__(self, image, patch, width, layers, heads, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(lib.zeros(1, 1, width))
        self.places = nn.Parameter(lib.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, False) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = lib.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
"""

UNET = """
class Residual(nn.Module):
    def __init__(self, start, end, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, start), nn.Conv2d(start, end, 3, padding=1)
        self.time = nn.Linear(time, end)
        self.norm2, self.conv2 = nn.GroupNorm(8, end), nn.Conv2d(end, end, 3, padding=1)
        self.skip = nn.Conv2d(start, end, 1) if start != end else nn.Identity()
    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))
class UNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.first = nn.Conv2d(3, c, 3, padding=1)
        self.down1, self.shrink1 = Residual(c, c, 4 * c), nn.Conv2d(c, c, 3, 2, 1)
        self.down2, self.shrink2 = Residual(c, 2 * c, 4 * c), nn.Conv2d(2 * c, 2 * c, 3, 2, 1)
        self.middle1, self.middle2 = Residual(2 * c, 4 * c, 4 * c), Residual(4 * c, 4 * c, 4 * c)
        self.norm, self.qkv = nn.GroupNorm(8, 4 * c), nn.Conv2d(4 * c, 12 * c, 1)
        self.project = nn.Conv2d(4 * c, 4 * c, 1)
        self.up2, self.up1 = Residual(6 * c, 2 * c, 4 * c), Residual(3 * c, c, 4 * c)
        self.last = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))
        self.register_buffer("rates", lib.exp(lib.arange(c // 2) * (-math.log(10000) / (c // 2))))
    def attend(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, 4, c // 4, h * w).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.project(y.transpose(2, 3).reshape(b, c, h, w))
    def forward(self, x, t):
        angles = t[:, None] * self.rates
        t = self.time(lib.cat([angles.sin(), angles.cos()], 1))
        x1 = self.down1(self.first(x), t)
        x2 = self.down2(self.shrink1(x1), t)
        x = self.middle2(self.attend(self.middle1(self.shrink2(x2), t)), t)
        x = self.up2(lib.cat([F.interpolate(x, scale_factor=2.0), x2], 1), t)
        x = self.up1(lib.cat([F.interpolate(x, scale_factor=2.0), x1], 1), t)
        return self.last(x)
"""

LLAMA = """
class LlamaBlock(nn.Module):
    def __init__(self, width, heads, key_heads, inner):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, key_heads * self.size, bias=False)
        self.v = nn.Linear(width, key_heads * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
    def turn(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + lib.cat((-b, a), -1) * sin
    def forward(self, x, cos, sin, cache=None, at=0):
        b, t, c = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, t, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(b, t, self.key_heads, self.size).transpose(1, 2)
        v = self.v(y).view(b, t, self.key_heads, self.size).transpose(1, 2)
        q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
        if cache is not None:
            cache[0][:, :, at : at + t] = k
            cache[1][:, :, at : at + t] = v
            k, v = cache[0][:, :, : at + t], cache[1][:, :, : at + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))
class Llama(nn.Module):
    def __init__(self, vocabulary, length, width, layers, heads, key_heads, inner):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            LlamaBlock(width, heads, key_heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        rates = 10000.0 ** (-lib.arange(0, size, 2) / size)
        angles = lib.outer(lib.arange(length).float(), rates).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
    def forward(self, x, caches=None, at=0):
        t = x.shape[1]
        cos, sin = self.cos[at : at + t], self.sin[at : at + t]
        x = self.tokens(x)
        for i, block in enumerate(self.blocks):
            x = block(x, cos, sin, None if caches is None else caches[i], at)
        return self.head(self.norm(x))
"""

MOBILENET = """
class Inverted(nn.Module):
    def __init__(self, start, end, stride, times):
        super().__init__()
        wide = start * times
        def unit(i, o, size, s=1, groups=1):
            conv = nn.Conv2d(i, o, size, s, size // 2, groups=groups, bias=False)
            return [conv, nn.BatchNorm2d(o)]
        self.layers = nn.Sequential(
            *unit(start, wide, 1), nn.ReLU6(inplace=True),
            *unit(wide, wide, 3, stride, wide), nn.ReLU6(inplace=True), *unit(wide, end, 1),
        )
        self.adds = stride == 1 and start == end
    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)
class MobileNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(inplace=True)
        )
        sizes = [(16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
        self.blocks = nn.Sequential(*(Inverted(i, o, s, 6) for i, o, s in sizes))
        self.head = nn.Linear(64, classes)
    def forward(self, x):
        return self.head(self.blocks(self.first(x)).mean((2, 3)))
"""
