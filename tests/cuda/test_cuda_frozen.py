"""mode="frozen" on a GPU: recordings as CUDA graphs give eager's bits, whatever is in them."""

import os
import sys
import time
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from frozen_calls import bits, by_graphs, frozen, recordings, replays
from ops import rows
from ops.sample import Inputs, collected, main_dtype, result_dtypes, run
from test_every_op_frozen import tensors_in

CALLS = 12  # 1 to 4 and 8 run Python
F = nn.functional


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.tokens, self.heads = nn.Embedding(50, width), heads
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.drop, self.out = nn.Dropout(0.2), nn.Linear(width, 10)

    def forward(self, x):
        x = self.tokens(x.flatten(1).abs().mul(10).long() % 50)
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(self.drop(F.gelu(y.transpose(1, 2).reshape(b, t, c)))).mean(1)


MODELS = {
    "convolutions": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 10),
    ),
    "attention": Attention,
    "lstm": lambda: nn.Sequential(
        nn.Flatten(2), nn.LSTM(144, 16, batch_first=True), First(), nn.Flatten(), nn.Linear(48, 10)
    ),
}  # fmt: skip
OPTIMIZERS = {
    "sgd": lambda p: rl.optim.SGD(p, lr=0.1),
    "momentum": lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda p: rl.optim.AdamW(p, lr=0.01, amsgrad=True),
    "capturable": lambda p: rl.optim.Adam(p, lr=0.01, capturable=True),
    "rmsprop": lambda p: rl.optim.RMSprop(p, lr=0.01, momentum=0.5),
}


def settle():
    """Waits for kernels that are compiled beside the program; captures wait for them, too."""
    while rl._C._frozen_awaits_code():
        time.sleep(0.01)


class First(nn.Module):
    def forward(self, pair):
        return pair[0]


def train(model, optimizer, compiled, *, schedule=False, autocast=False, clip=True, steps=CALLS):
    rl.manual_seed(3)
    model = MODELS[model]().cuda()
    opt = OPTIMIZERS[optimizer](model.parameters())
    scheduler = rl.optim.lr_scheduler.ExponentialLR(opt, 0.9)

    def step(x, y):
        opt.zero_grad()
        with rl.autocast("cuda", dtype=rl.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.detach(), loss

    f = frozen(step) if compiled else step
    losses = []
    for i in range(steps):
        if compiled and i > 3:
            settle()
        x, y = rl.randn(4, 3, 12, 12).cuda(), rl.randint(0, 10, (4,)).cuda()
        losses.append(f(x, y)[i % 2])
        if schedule:
            scheduler.step()
    state = [*losses, *model.state_dict().values(), *(p.grad for p in model.parameters())]
    return [bits(t) for t in state], bits(rl.rand(3)), f


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("schedule", [False, True])
def test_optimizers_and_rates(optimizer, schedule):
    want = train("convolutions", optimizer, False, schedule=schedule)
    got = train("convolutions", optimizer, True, schedule=schedule)
    assert got[:2] == want[:2]
    assert by_graphs(got[2])[0] >= 4, recordings(got[2]).lines()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_models(model, autocast):
    rl.use_deterministic_algorithms(True)
    try:
        want = train(model, "adamw", False, autocast=autocast)
        got = train(model, "adamw", True, autocast=autocast)
    finally:
        rl.use_deterministic_algorithms(False)
    assert got[:2] == want[:2]
    assert by_graphs(got[2])[0] >= 4, recordings(got[2]).lines()


def test_fused_chains_in_a_graph():
    def f(x, y):
        a = (x * y + 0.5).tanh() * x.sigmoid()
        return F.gelu(a) / (y.abs() + 1), a.exp()

    g = rl.compile(f, mode="frozen")
    for _ in range(CALLS):
        x, y = rl.randn(70, 80).cuda(), rl.randn(80).cuda()
        want = [bits(t) for t in f(x, y)]
        assert [bits(t) for t in g(x, y)] == want
        settle()
    assert replays(g) == by_graphs(g)[0] == 7, recordings(g).lines()


def test_decoding_with_a_cache():
    rl.manual_seed(0)
    keys, table = rl.zeros(1, 4, 16, 8).cuda(), rl.randn(20, 32).cuda()
    weight = rl.randn(32, 20).cuda()
    places = rl.arange(16).cuda()

    def one(token, at):
        with rl.no_grad():
            q = table[token].view(1, 4, 1, 8)
            keys.index_copy_(2, at, q)
            seen = (places <= at)[None, None, None]
            y = F.scaled_dot_product_attention(q, keys, keys, attn_mask=seen)
            return (y.reshape(1, 32) @ weight).argmax(-1), at + 1

    def decode(f):
        keys.zero_()
        token, at, told = rl.zeros(1, dtype=rl.int64).cuda(), rl.zeros(1, dtype=rl.int64).cuda(), []
        for _ in range(16):
            token, at = f(token, at)
            told.append(token)
        return [t.item() for t in told], bits(keys)

    g = frozen(one)
    want = decode(one)
    for _ in range(3):
        assert decode(g) == want
    assert by_graphs(g)[0] > 30, recordings(g).lines()


def test_an_index_out_of_range_is_reported():
    table = rl.randn(10, 4).cuda()
    g = frozen(lambda i: F.embedding(i, table))
    good = rl.arange(4).cuda()
    for _ in range(6):
        g(good)
    assert by_graphs(g)[0] > 0
    bad = good.clone()
    bad[2] = 10
    g(bad)
    with pytest.raises(IndexError, match="out of range"):
        rl.cuda.synchronize()
    assert bits(g(good)) == bits(table[:4])


@pytest.mark.parametrize("frozen_too", [False, True])
def test_one_index_out_of_range_writes_nothing(frozen_too):
    cache, row = rl.zeros(2, 6, 4).cuda(), rl.ones(2, 1, 4).cuda()

    def put(at):
        cache.index_copy_(1, at, row)
        return at + 1

    g = frozen(put) if frozen_too else put
    at = rl.zeros(1, dtype=rl.int64).cuda()
    for _ in range(6):
        at = g(at)
    assert cache.sum().item() == 48
    cache.zero_()
    for bad in (6, -1):
        g(rl.tensor([bad]).cuda())
        with pytest.raises(IndexError, match=f"index {bad} is out of range"):
            rl.cuda.synchronize()
        assert cache.sum().item() == 0
    g(rl.tensor([5]).cuda())
    assert cache[:, 5].sum().item() == cache.sum().item() == 8


SHARE = os.environ.get("RUSHLIGHT_FROZEN_ROWS", "8")  # one row in so many


@pytest.mark.parametrize("row", collected(rows.ROWS)[:: int(SHARE)], ids=str)
def test_calls_and_their_gradients(row):
    """Results and gradients of op rows, computed inside the frozen function."""
    dtype = main_dtype(row)
    for i in range(len(row.calls)):
        if row.values and result_dtypes(row, i, dtype) != []:
            check_call(row, *Inputs(row, i, dtype).tensors())


def check_call(row, args, kwargs):
    def moved(value):
        if isinstance(value, rl.Tensor):
            return value.detach().clone().cuda()
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)(moved(item) for item in value)
        return value

    def leaf(value):
        if isinstance(value, rl.Tensor):
            return value.detach().clone().requires_grad_(value.is_floating_point())
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)(leaf(item) for item in value)
        return value

    def function(args, kwargs):
        args, kwargs = leaf(args), {key: leaf(value) for key, value in kwargs.items()}
        outputs = [t for t in tensors_in(run(row, args, kwargs)) if t.is_cuda]
        wanted = [t for t in outputs if t.requires_grad and t.is_floating_point()]
        leaves = [t for t in tensors_in([*args, *kwargs.values()]) if t.requires_grad]
        grads = ()
        if wanted and leaves:
            total = sum(t.nan_to_num().sum() for t in wanted)
            grads = rl.autograd.grad(total, leaves, allow_unused=True)
        return [t.detach() for t in outputs] + [g for g in grads if g is not None]

    def told(f):
        rl.manual_seed(0)
        given = moved(list(args)), {key: moved(value) for key, value in kwargs.items()}
        return [(t.shape, t.dtype, t.stride(), t.cpu()) for t in f(*given)]

    g = frozen(function)
    try:
        want, again = told(function), told(function)
    except (RuntimeError, TypeError, ValueError) as refused:
        with pytest.raises(type(refused)):
            told(g)
        return
    same = all(
        rl.equal(a[3].nan_to_num(), b[3].nan_to_num()) for a, b in zip(want, again, strict=True)
    )
    for _ in range(7):
        got = told(g)
        assert [t[:3] for t in got] == [t[:3] for t in want]
        if same:  # (some ops add up in any order)
            for a, b in zip(got, want, strict=True):
                assert rl.equal(a[3].nan_to_num(), b[3].nan_to_num()), recordings(g).lines()
