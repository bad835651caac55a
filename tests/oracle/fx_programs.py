"""Programs whose graphs are compared with those of torch.fx.

programs(torch) gives {name: (function or module, inputs)}; torch is PyTorch or Rushlight. Random
numbers are not drawn: every input is an arange, so that both sides see the same.
"""

import math
import operator

PLAIN = """
relu: x.relu()
torch_relu: torch.relu(x)
f_relu: F.relu(x)
f_relu_inplace: F.relu(x + 1, inplace=True)
add_number: x + 1
radd_number: 1 + x
sub: 2 - x
mul_self: x * x
truediv: x / 3
rtruediv: 3 / (x + 1)
floordiv: x // 2
mod: x % 3
power: x ** 2
rpower: 2 ** x
neg: -x
pos: +x
absolute: abs(x)
matmul_operator: x @ x.t()
comparison: (x > 2) & (x <= 7)
either: (x < 2) | (x == 5)
inverted: ~(x != 3)
exclusive: (x > 1) ^ (x > 4)
constant_left: torch.ones(4) + x
constant_right: x + torch.ones(4)
constant_times: torch.full((4,), 2.0) * x
constant_method: torch.ones(4).add(x)
constant_minus: torch.ones(4) - x
constant_divided: torch.ones(4) / (x + 1)
constant_less: torch.ones(4) < x
constant_equal: torch.ones(4) == x
constant_index: torch.arange(12.0)[i]
constant_tuple_index: torch.arange(12.0).reshape(4, 3)[i, 0]
index_int: x[0]
index_tuple: x[0, 1]
index_slices: x[1:, ::2]
index_none: x[:, None]
index_ellipsis: x[..., 0]
index_list: x[[0, 2]]
index_mask: x[x > 3]
index_tensor: x[i]
slice_of_shape: x[: x.shape[0] - 1]
shape: x.shape[0]
shape_slice: x.shape[1:]
size: x.size(1)
size_all: x.size()
numel: x.numel()
view: x.view(-1)
view_of_sizes: x.view(x.size(1), x.size(0))
reshape_star: x.reshape(x.shape[1], -1)
permute: x.permute(1, 0)
transpose: x.transpose(0, 1).contiguous()
property_T: x.T
property_dtype: x.dtype
to_dtype: x.to(torch.float64)
to_device: x.to("cpu")
to_keyword: x.to(dtype=torch.float16)
type_as: i.type_as(x)
float_method: i.float()
zeros_like: torch.zeros_like(x)
zeros_of_size: torch.zeros(x.shape)
ones_of_list: torch.ones([x.size(0), 2])
arange_of_size: torch.arange(x.size(0))
full_of_value: torch.full((2,), x.shape[0])
new_zeros: x.new_zeros(2, 3)
cat: torch.cat([x, x])
cat_dim: torch.cat((x, x + 1), dim=1)
cat_constant: torch.cat([x, torch.ones(3, 4)], 0)
stack: torch.stack([x, x], dim=-1)
split: torch.split(x, 2)[0]
chunk: x.chunk(2, dim=1)[1]
unbind: x.unbind(0)[2]
where: torch.where(x > 3, x, 0.0)
masked_fill: x.masked_fill(x > 3, -1.0)
clamp: x.clamp(min=1, max=5)
sum_dim: x.sum(dim=1, keepdim=True)
mean: x.mean()
max_dim: torch.max(x, 1)[0]
max_values: x.max(dim=1).values
argmax: x.argmax(-1)
topk: torch.topk(x, 2).indices
sort: x.sort(descending=True)[0]
cumsum: torch.cumsum(x, 0)
softmax: F.softmax(x, dim=-1)
log_softmax: F.log_softmax(x, dim=1)
torch_softmax: torch.softmax(x, 1)
gelu: F.gelu(x)
silu: F.silu(x)
dropout: F.dropout(x, 0.5, False)
dropout_keyword: F.dropout(x, p=0.1, training=False)
linear: F.linear(x, torch.ones(2, 4), torch.ones(2))
layer_norm: F.layer_norm(x, (4,))
pad: F.pad(x, (1, 1))
interpolate: F.interpolate(x[None, None], scale_factor=2)
interpolate_size: F.interpolate(x[None, None], size=x.shape[-2:], mode="nearest")
max_pool: F.max_pool2d(x[None, None], 2)
avg_pool: F.avg_pool2d(x[None, None], 2, stride=1)
adaptive_pool: F.adaptive_avg_pool2d(x[None, None], (1, 1))
mse: F.mse_loss(x, x + 1)
cross_entropy: F.cross_entropy(x, i)
one_hot: F.one_hot(i)
embedding: F.embedding(i, torch.ones(5, 2))
normalize: F.normalize(x, dim=1)
einsum: torch.einsum("ij,kj->ik", x, x)
matmul: torch.matmul(x, x.t())
bmm: torch.bmm(x[None], x.t()[None])
addmm: torch.addmm(torch.ones(3, 3), x, x.t())
tensordot: torch.tensordot(x, x, dims=([1], [1]))
outer: torch.outer(x[0], x[1])
norm: torch.norm(x)
exp_log: torch.log(torch.exp(x) + 1)
rsqrt: (x + 1).rsqrt()
sqrt_of_size: x / math.sqrt(x.size(-1))
math_of_number: x * math.pi
infinity: x.masked_fill(x > 3, float("-inf"))
flatten: torch.flatten(x, 0)
squeeze: x.unsqueeze(0).squeeze(0)
expand: x[:1].expand(3, -1)
repeat: x.repeat(2, 1)
roll: torch.roll(x, 1, 0)
flip: x.flip(0)
tril: torch.tril(x)
gather: torch.gather(x, 1, i[:, None])
index_select: torch.index_select(x, 0, i)
scatter: torch.zeros(3, 4).scatter(1, i[:, None], 1.0)
in_place_method: (x + 1).add_(2).mul_(3)
dict_result: {"a": x, "b": [x + 1, (x, 2)]}
tuple_result: (x, x + 1)
none_result: None
text_result: (x, "text", 3)
getattr_call: getattr(x, "relu")()
operator_call: operator.mul(x, 2)
chained: torch.sigmoid(x).mul(2).sub(1).tanh().sum()
""".strip().splitlines()


def programs(torch):
    nn, F = torch.nn, torch.nn.functional
    space = {"torch": torch, "F": F, "nn": nn, "math": math, "operator": operator}
    x = torch.arange(12.0).reshape(3, 4)
    i = torch.tensor([0, 2, 1])
    found = {}
    for line in PLAIN:
        name, _, text = line.partition(": ")
        function = eval(f"lambda x, i: {text}", dict(space))
        found[name] = (function, (x[0] if name.startswith("constant") else x, i))
    found.update(_modules(torch, x, i))
    return found


def _modules(torch, x, i):
    nn, F = torch.nn, torch.nn.functional

    def unpacked(x, i):
        a, b, c = x
        return a + b * c

    def unpacked_split(x, i):
        a, b = x.split(2, dim=1)
        return a * b

    def augmented(x, i):
        x += 1
        x *= 2
        return x

    def defaults(x, i, scale=2.0, *, shift=1):
        return x * scale + shift

    def several(x, *rest):
        return x + rest[0].float().sum()

    def loop(x, i):
        for k in range(3):
            x = x + k
        return x

    def shape_of_rows(x, i):
        b, c = x.shape
        return x.view(c, b)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 8)
            self.norm = nn.LayerNorm(8)
            self.rest = nn.Sequential(nn.ReLU(), nn.Linear(8, 4))
            self.scale = nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.zeros(4))

        def forward(self, x, i):
            y = self.rest(self.norm(self.first(x)))
            return x + self.scale * y + self.shift

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def forward(self, x, factor=1):
            return F.linear(x, self.weight) * factor

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Inner(), Inner()])

        def forward(self, x, i):
            for k, layer in enumerate(self.layers):
                x = layer(x, factor=k + 1)
            return x

    class ParametersOnly(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

        def forward(self, x, i):
            return x + (self.a + self.b)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, i):
            return self.layer(self.layer(x))

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(40.0).reshape(1, 10, 4))

        def forward(self, x, i):
            return x[None] + self.table[:, : x.size(0)]

    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, padding=1)
            self.bn = nn.BatchNorm2d(2)

        def forward(self, x, i):
            y = F.relu(self.bn(self.conv(x[None, None])))
            return torch.flatten(F.adaptive_avg_pool2d(y, 1), 1)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(4, 12)

        def forward(self, x, i):
            q, k, v = self.qkv(x[None]).chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v)

    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 4)

        def forward(self, x, i):
            return self.embedding(i) + x

    functions = (unpacked, unpacked_split, augmented, defaults, several, loop, shape_of_rows)
    found = {function.__name__: (function, (x.clone(), i)) for function in functions}
    for cls in (Block, Nested, ParametersOnly, Twice, Positions, Conv, Attention, Embedded):
        found[cls.__name__] = (cls().eval(), (x, i))
    return found


def text_of(value, torch):
    """An argument as text that does not depend on whose it is."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        inner = ", ".join(text_of(item, torch) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {text_of(v, torch)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice{text_of((value.start, value.stop, value.step), torch)}"
    return str(value).replace(f"{torch.__name__}.", "torch.")


def rows_of(graph, torch):
    """[op, name, target, args, {keyword: argument}] of every Node."""
    rows = []
    for node in graph.nodes:
        target = node.target
        if not isinstance(target, str):
            target = getattr(target, "__name__", str(target))
        kwargs = {key: text_of(value, torch) for key, value in node.kwargs.items()}
        rows.append([node.op, node.name, target, text_of(node.args, torch), kwargs])
    return rows
