"""Tensors: methods, attributes, indexing, functions of nn."""

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor

from . import given

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.8
V = torch.tensor([0.5, -1.5, 2.0])


@given((X, X + 1))
def arithmetic(a: Tensor, b: Tensor):
    return a + b, a - b, a * b, a / (b + 9), a @ b.t(), -a, a**2, a % 0.3, a // 0.2, abs(a)


@given((X,))
def with_numbers(a: Tensor):
    return a + 1, 1 - a, 2 * a, a / 2, 2 / (a + 9), 2**a, a > 0, 0 < a, a == 0, 1.5 + a


@given((X, 3, 0.5))
def with_variables(a: Tensor, n: int, f: float):
    return a + n, n - a, a * f, f / (a + 9), a > f, n * f * a


@given((V > 0, V < 1))
def bitwise(a: Tensor, b: Tensor):
    return a & b, a | b, a ^ b, ~a


@given((X,))
def reductions(a: Tensor):
    return (
        a.sum(),
        a.mean(1),
        a.sum(dim=0, keepdim=True),
        a.max(),
        a.min(dim=1)[0],
        a.argmax(),
        a.std(),
    )


@given((X,))
def named_results(a: Tensor):
    r = a.max(dim=1)
    values, indices = torch.sort(a, dim=1, descending=True)
    return r.values, r.indices, values, indices, a.topk(2, 1)[0]


@given((X,))
def shapes(a: Tensor):
    return a.shape[0], a.size(1), a.size(), a.dim(), a.ndim, a.numel(), len(a), a.shape[-1]


@given((X,))
def shape_arithmetic(a: Tensor):
    b, c = a.shape
    return a.view(b * c), a.reshape(-1, b), a.view(b, 2, -1), a.reshape([c, b]), a.new_zeros(b, 2)


@given((X,))
def shape_compare(a: Tensor):
    return (
        a.shape == (3, 4),
        list(a.shape) == [3, 4],
        a.shape[1:] == a.t().shape[:1],
        a.size() == a.size(),
    )


@given((X,))
def views(a: Tensor):
    return (
        a.t(),
        a.T,
        a.transpose(0, 1),
        a.permute(1, 0),
        a.unsqueeze(0),
        a.flatten(),
        a.squeeze(),
        a[None].expand(2, 3, 4),
        a.expand(2, -1, -1),
        a.contiguous().view(-1),
    )


@given((X,))
def indexing_numbers(a: Tensor):
    return a[0], a[-1], a[1, 2], a[0][1], a[2, -1]


@given((X, 1))
def indexing_slices(a: Tensor, i: int):
    return a[1:], a[:, 1], a[:, 1:3], a[i:], a[:, i], a[..., 0], a[..., 1:], a[::2], a[:-1, -2:]


@given((X,))
def indexing_none(a: Tensor):
    return a[None], a[:, None], a[..., None], a[None, 0], a[0, None, 1:]


@given((X, torch.tensor([0, 2])))
def indexing_tensors(a: Tensor, i: Tensor):
    return a[i], a[:, i], a[a > 0], a[i, i], a[[0, 1]], a[i, 1:]


@given((X, V))
def index_assignment(a: Tensor, v: Tensor):
    b = a.clone()
    b[0] = 5.0
    b[1, 2] = -1
    b[:, 3] = v
    b[b < 0] = 0.0
    b[torch.tensor([0, 1]), torch.tensor([0, 1])] = torch.tensor([7.0, 8.0])
    b[2] += 1
    return b


@given((X,))
def in_place(a: Tensor):
    b = a.clone()
    b += 1
    b *= 2
    b -= a
    b /= 3
    b.add_(1).mul_(2)
    b.zero_()
    b.fill_(4)
    return b


@given((X,))
def dtypes(a: Tensor):
    return (
        a.to(torch.int64),
        a.double(),
        a.int(),
        a.long(),
        a.bool(),
        a.half(),
        a.to(torch.float64).dtype,
        a.dtype == torch.float32,
        a.type_as(a.double()),
        torch.zeros(2, dtype=torch.int32),
    )


@given((X,))
def devices(a: Tensor):
    b = torch.zeros(2, device=a.device)
    return b, a.device == torch.device("cpu"), a.device.type, a.is_cuda, a.to("cpu"), a.cpu()


@given((V,))
def creation(a: Tensor):
    return (
        torch.zeros(2, 3),
        torch.ones([2]),
        torch.full((2,), 1.5),
        torch.arange(3),
        torch.arange(1, 7, 2),
        torch.eye(2),
        torch.empty(0),
        torch.linspace(0, 1, 3),
        torch.zeros_like(a),
        torch.tensor([1, 2]),
        torch.tensor(3.5),
        torch.tensor([[1.0], [2.0]]),
        a.new_ones(2),
        torch.tensor([True, False]),
    )


@given((2, 3))
def creation_by_sizes(a: int, b: int):
    shape = [a, b]
    return (
        torch.zeros(a, b),
        torch.ones((a, b)),
        torch.zeros(shape),
        torch.arange(a * b).view(a, b),
        torch.full([a], b),
    )


@given((V,))
def unary_methods(a: Tensor):
    return (
        a.abs(),
        a.exp(),
        a.sin(),
        a.relu(),
        a.sigmoid(),
        a.tanh(),
        a.sqrt(),
        a.abs().log(),
        a.neg(),
        a.floor(),
        a.ceil(),
        a.round(),
        a.sign(),
        torch.sigmoid(a),
        torch.exp(a),
        a.clamp(-1, 1),
        a.clamp(min=0.0),
        torch.clamp(a, max=1.0),
    )


@given((X, X * 2))
def joining(a: Tensor, b: Tensor):
    c = torch.cat([a, b], dim=1)
    d = torch.stack((a, b))
    x, y = c.chunk(2, dim=1)
    parts = c.split(3, 1)
    return (
        c,
        d,
        x,
        y,
        len(parts),
        parts[0],
        torch.cat((a, b)),
        [p.sum() for p in c.split([2, 6], dim=1)],
    )


@given((X,))
def conversions(a: Tensor):
    return int(a[0, 0]), float(a.sum()), bool(a[0, 0] > 0), a[1, 1].item() > 0, int(a.sum().item())


@given((X,))
def item_arithmetic(a: Tensor):
    x = a[0, 1].item()
    return x + 1 > 0, x * 2.0 > -5, float(x), int(x)


@given((V, None), (V, torch.tensor([1.0, 2.0, 3.0])))
def optional_weight(a: Tensor, w: Tensor | None):
    return F.linear(a, torch.ones(2, 3)) if w is None else F.linear(a, w[None])


@given((X,))
def functional_activations(a: Tensor):
    return (
        F.relu(a),
        F.gelu(a),
        F.silu(a),
        F.elu(a),
        F.leaky_relu(a, 0.1),
        F.softplus(a),
        F.hardtanh(a),
        F.softmax(a, dim=1),
        F.log_softmax(a, -1),
        F.selu(a),
        F.glu(a),
        F.hardswish(a),
        F.mish(a),
        F.relu6(a),
        F.celu(a),
        F.tanhshrink(a),
        F.logsigmoid(a),
        F.softsign(a),
        F.threshold(a, 0.1, 2.0),
    )


@given((X, torch.tensor([0, 3, 1])))
def functional_losses(a: Tensor, t: Tensor):
    return (
        F.cross_entropy(a, t),
        F.nll_loss(F.log_softmax(a, 1), t),
        F.mse_loss(a, a * 2),
        F.l1_loss(a, a + 1),
        F.smooth_l1_loss(a, a * 2),
        F.cross_entropy(a, t, reduction="sum"),
        F.cross_entropy(a, t, label_smoothing=0.1),
        F.binary_cross_entropy_with_logits(a, (a > 0).float()),
        F.huber_loss(a, a * 3),
        F.kl_div(a, a.exp(), reduction="sum"),
    )


@given((torch.arange(32.0).reshape(1, 2, 4, 4) / 9,))
def functional_images(a: Tensor):
    return (
        F.max_pool2d(a, 2),
        F.avg_pool2d(a, 2),
        F.adaptive_avg_pool2d(a, 1),
        F.pad(a, (1, 1)),
        F.conv2d(a, torch.ones(3, 2, 3, 3), padding=1),
        F.interpolate(a, scale_factor=2.0, mode="nearest"),
        F.adaptive_avg_pool2d(a, (2, 2)),
        F.max_pool2d(a, (2, 2), stride=1),
        F.pad(a, [1, 0, 2, 0], value=1.5),
    )


@given((X,))
def functional_norms(a: Tensor):
    return (
        F.layer_norm(a, (4,)),
        F.layer_norm(a, [4], torch.ones(4), torch.zeros(4)),
        F.normalize(a, dim=1),
        F.batch_norm(a, torch.zeros(4), torch.ones(4)),
        F.dropout(a, 0.5, False),
        F.dropout(a, training=False),
        F.one_hot(torch.tensor([0, 2]), 3),
        F.embedding(torch.tensor([0, 2]), a),
        F.cosine_similarity(a, a + 1),
    )


@given((X.reshape(1, 3, 4),))
def attention(q: Tensor):
    d = q.size(-1)
    scores = q @ q.transpose(-2, -1) / d**0.5
    mask = torch.ones(3, 3).tril() == 0
    scores = scores.masked_fill(mask, float("-inf"))
    p = scores.softmax(-1)
    return p @ q, F.scaled_dot_product_attention(q, q, q), torch.einsum("bij,bkj->bik", q, q)


@given((X,))
def function_forms(a: Tensor):
    return (
        torch.add(a, 1),
        torch.add(a, a, alpha=2),
        torch.mul(a, a),
        torch.matmul(a, a.t()),
        torch.mm(a, a.T),
        torch.sum(a, dim=1),
        torch.mean(a),
        torch.max(a, a * 2),
        torch.where(a > 0, a, a * 0),
        torch.cumsum(a, 0),
        torch.transpose(a, 0, 1),
        torch.flatten(a),
        torch.abs(a),
        torch.pow(a, 2),
        torch.unsqueeze(a, 1),
    )


@given((X,))
def logic(a: Tensor):
    return (
        torch.any(a > 0),
        torch.all(a > -9),
        (a > 0).any(),
        (a > 0).sum(),
        torch.isnan(a).any(),
        torch.equal(a, a),
    )


@given((V, 3))
def loop_over_columns(a: Tensor, n: int):
    out: list[Tensor] = []
    h = torch.zeros(3)
    for i in range(n):
        h = torch.tanh(h + a * i)
        if bool(h.sum() > 1):
            h = h * 0.5
        out.append(h)
    return torch.stack(out), h


@given((V,))
def no_grad_block(a: Tensor):
    with torch.no_grad():
        b = a * 2
    return b + a, b.requires_grad


@given((X,))
def tuple_results(a: Tensor) -> tuple[Tensor, tuple[Tensor, int]]:
    m, s = _moments(a)
    return m, (s, a.size(0))


def _moments(a: Tensor) -> tuple[Tensor, Tensor]:
    return a.mean(), a.std()


@given((V,))
def helper_with_default(a: Tensor):
    return _scaled(a), _scaled(a, 3.0), _scaled(a, scale=0.5)


def _scaled(a: Tensor, scale: float = 2.0):
    return a * scale


@given((X, True), (X, False))
def flags(a: Tensor, transpose: bool):
    if transpose:
        a = a.t()
    return a.contiguous() if transpose else a[0:1]


@given((X,))
def scalars_of_shape(a: Tensor):
    n = a.size(0) * a.size(1)
    return a.sum() / n, a.mean() * float(n), a / a.shape[1] ** 0.5


@given((torch.tensor([3, 1, 2]),))
def integer_tensors(a: Tensor):
    return (
        a + 1,
        a // 2,
        a % 2,
        a / 2,
        a.sum(),
        a.float().mean(),
        a.max().item(),
        a[a.argsort()],
        a << 1,
    )


@given((X,))
def star_sizes(a: Tensor):
    b = a.reshape(3, 2, 2)
    return b.view(*b.shape[:-2], -1), a.view(*[4, 3]), b.permute(*[2, 0, 1]), a.new_zeros(*a.shape)


@given((X, 2.0), (X, -1.0))
def newton(a: Tensor, target: float):
    x = a.abs() + 1
    steps = 0
    while float((x * x - 2).abs().max()) > 1e-3 and steps < 20:
        x = x - (x * x - 2) / (2 * x)
        steps += 1
    return x, steps, target
