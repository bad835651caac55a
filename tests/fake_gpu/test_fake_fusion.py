"""What a compiled step launches, by the names of its kernels: over a CUPTI without a GPU."""

import json

import pytest

STEP = """
import json
from rushlight.profiler import ProfilerActivity, profile
nn, F = rl.nn, rl.nn.functional
class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(640), nn.Linear(640, 64), nn.Linear(64, 640)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(8, 32), nn.Conv2d(32, 32, 3, padding=1)
    def forward(self, x):
        return x + self.conv(F.silu(self.norm(x)))
class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(64) for _ in range(2))
    def forward(self, x):
        y = F.relu(self.norms[0](self.convs[0](x)))
        return F.relu(self.norms[1](self.convs[1](y)) + x)
class Shortcut(Residual):
    def forward(self, x):
        y = self.norms[0](self.convs[0](x))
        y += self.norms[1](self.convs[1](x))
        return y.relu_()
def names_of(model, x, compiled):
    optimizer = rl.optim.AdamW(model.parameters(), fused=True)
    def step():
        optimizer.zero_grad()
        with rl.autocast("cuda", dtype=rl.bfloat16):
            loss = model(x).mean()
        loss.backward()
        optimizer.step()
    if compiled:
        step = rl.compile(step, options={"wait_for_code": True})
    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
    found = [e.name for e in seen.events() if e.activity == "kernel"]
    return [n.split("rush::", 1)[-1].split("<")[0] for n in found]
def both(make, x):
    return [names_of(make().cuda(), x, compiled) for compiled in (False, True)]
"""


@pytest.fixture
def launched(run_with):
    """launched(code): the kernels of an eager and of a compiled step."""
    return lambda code: json.loads(run_with(STEP + f"print(json.dumps(both({code})))")[-1])


@pytest.mark.slow
def test_casts_residuals_and_norms_of_rows(launched):
    eager, fused = launched(
        "lambda: nn.Sequential(*(Rows() for _ in range(3))), rl.ones(4096, 640, device='cuda')"
    )
    # Weights and biases of six layers are cast one by one, and so are their gradients.
    assert eager.count("copy_flat") >= 24
    # Both become one launch each.
    assert fused.count("list_pointwise") == 2
    assert fused.count("copy_flat") <= 3
    # A residual's sum is part of the next norm, forward and backward.
    assert fused.count("fused_row_norm") + fused.count("fused_row_norm_backward") >= 5
    assert fused.count("pointwise_flat") < eager.count("pointwise_flat")
    alone, together = (
        [n for n in names if not n.startswith("matmul") and n != "copy_strided"]
        for names in (eager, fused)
    )
    assert len(together) <= 0.65 * len(alone)  # products are the same on both sides


@pytest.mark.slow
def test_norms_of_images(launched):
    eager, fused = launched(
        "lambda: nn.Sequential(nn.Conv2d(3, 32, 3), *(Points() for _ in range(2))), "
        "rl.ones(2, 3, 18, 18, device='cuda')"
    )
    assert eager.count("group_map_last") == 4 and eager.count("fused_group_map") == 0
    # One gradient has nothing behind it that could wait.
    assert fused.count("fused_group_map") == 3 and fused.count("group_map_last") == 1
    assert fused.count("group_sums_joined") == eager.count("group_sums_last")


@pytest.mark.slow
def test_batch_norms_take_in_what_is_around_them(launched):
    image = "rl.ones(16, 64, 8, 8, device='cuda')"
    eager, fused = launched(f"lambda: nn.Sequential(*(Residual() for _ in range(3))), {image}")
    # Eager normalises small images by one launch forward and one backward.
    assert eager.count("channel_norm_last") == 12
    # A norm, the sum and the activation behind it are one pass, but where the program's image is
    # added, which lies otherwise. In backward the gradient of an activation right behind a norm is
    # computed in both passes, not written by the first: three more.
    assert fused.count("fused_channel_map") == 5 + 3
    # The gradient of an activation is found where its sums are, but that of the mean at the end.
    assert fused.count("fused_channel_sums") == 5
    assert fused.count("channel_sums_last") == 7
    assert fused.count("channel_norm_last") == 0


@pytest.mark.slow
def test_a_batch_norm_waits_while_another_finds_its_moments(launched):
    image = "rl.ones(16, 64, 8, 8, device='cuda').to(memory_format=rl.channels_last)"
    _, fused = launched(f"lambda: nn.Sequential(*(Shortcut() for _ in range(2))), {image}")
    # One of the two, their sum and the activation, in place, are one pass.
    assert fused.count("fused_channel_map") == 2


def test_rotary_embeddings_are_one_kernel(run_with):
    *_, eager, fused = run_with(
        STEP
        + """
def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + rl.cat((-b, a), -1) * sin
x, cos, sin = (rl.ones(s, device="cuda", dtype=rl.bfloat16) for s in ((1, 8, 1, 64), 64, 64))
for f in (turn, rl.compile(turn, options={"wait_for_code": True})):
    f(x, cos, sin)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        f(x, cos, sin)
    print(sum(e.activity == "kernel" for e in seen.events()))
"""
    )
    assert (eager, fused) == ("5", "1")


def test_one_index_is_checked_where_it_is_used(run_with):
    counts = run_with(
        STEP
        + """
x = rl.ones(2, 8, 4, device="cuda")
for n in (1, 2):
    at, rows = rl.arange(n, device="cuda"), rl.ones(2, n, 4, device="cuda")
    x.index_copy_(1, at, rows)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        x.index_copy_(1, at, rows)
    print(sum(e.activity == "kernel" for e in seen.events()))
"""
    )
    assert counts[-2:] == ["1", "2"]


@pytest.mark.slow
def test_last_stages_of_sums_share_a_launch(launched):
    eager, fused = launched(
        "lambda: nn.Sequential(*(Rows() for _ in range(3))), rl.ones(4096, 640, device='cuda')"
    )
    # Six biases, three norms, and the loss.
    assert eager.count("reduce_merge") >= 6 and eager.count("join_segments") == 3
    assert fused.count("list_column_sums") <= 2
    assert fused.count("reduce_merge") <= 1 and fused.count("join_segments") == 0
    assert fused.count("reduce_columns") == eager.count("reduce_columns")


@pytest.mark.slow
def test_last_stages_of_sums_of_images(launched):
    eager, fused = launched(
        "lambda: nn.Sequential(nn.Conv2d(3, 32, 3), *(Points() for _ in range(2))), "
        "rl.ones(8, 3, 66, 66, device='cuda')"
    )
    assert eager.count("join_segments") == 2 and eager.count("reduce_merge") >= 3
    assert fused.count("join_segments") == 0 and fused.count("list_column_sums") <= 2
    assert fused.count("reduce_merge") <= 1


def test_a_sum_that_is_used_runs_alone(run_with):
    """Those of before wait on, and the cast of one comes with it."""
    *_, first, both = run_with(
        STEP
        + """
xs = [rl.ones(8192, 64, device="cuda", dtype=rl.bfloat16) for _ in range(3)]
def names(f):
    f()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        kept = f()
    found = [e.name for e in seen.events() if e.activity == "kernel"]
    found = [n.split("rush::")[1].split("<")[0] for n in found]
    return [n for n in found if "sum" in n or "merge" in n or "copy" in n]
def one():
    a, b = xs[0].sum(0), xs[1].sum(0)
    return a.float(), b.float()
def used():
    a, b = one()
    c = xs[2].sum(0)
    return a, b, c[None] @ xs[2].t()
print(names(rl.compile(one)))
print(names(rl.compile(used)))
"""
    )
    assert first == "['list_column_sums']"
    assert both == "['list_column_sums', 'list_column_sums']"


@pytest.mark.slow
def test_weights_of_convolutions_are_cast_and_moved_together(run_with_cudnn):
    both = (
        "lambda: nn.Sequential(nn.Conv2d(16, 32, 3), *(Points() for _ in range(2))), "
        "rl.ones(2, 16, 18, 18, device='cuda')"
    )
    eager, fused = json.loads(run_with_cudnn(STEP + f"print(json.dumps(both({both})))")[-1])

    def moves(names):
        return sum(n.startswith("copy_") and n != "copy_flat" for n in names)

    # Each of three weights forward and again backward (but for the first layer's), and its
    # gradient: one launch each for all weights, and all gradients.
    assert fused.count("list_move_channels") == 2
    assert moves(eager) - moves(fused) == 3 + 2 + 3
    assert fused.count("cudnn_plan") == eager.count("cudnn_plan") == 8
    # A sample's last block joins its sums.
    assert fused.count("group_sums_joined") == eager.count("group_sums_last") == 4
    assert fused.count("group_moments_last") + fused.count("group_means_last") == 0


def test_losses_are_joined_by_their_last_block(run_with):
    *_, eager, fused = run_with(
        STEP
        + """
x, target = rl.ones(4096, 64, device="cuda"), rl.zeros(4096, device="cuda", dtype=rl.int64)
def losses():
    return F.cross_entropy(x, target), F.mse_loss(x, x)
for f in (losses, rl.compile(losses)):
    f()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        f()
    print(sum(e.activity == "kernel" for e in seen.events()))
"""
    )
    assert (eager, fused) == ("4", "2")


def test_sums_that_nobody_wants_are_let_go(run_with):
    *_, held, threads = run_with("""
import threading
x = rl.ones(8192, 1024, device="cuda", dtype=rl.bfloat16)
rows = rl.ones(32, 128, device="cuda", dtype=rl.bfloat16)
def drop():
    for _ in range(500):
        x.sum(0)
    return cuda.memory_allocated()
def read():
    y, found = x.sum(0).float(), []
    reader = threading.Thread(target=lambda: found.append(y.cpu().shape == (1024,)))
    reader.start()
    reader.join()
    few = rows.sum(0)
    rows.add_(1)  # what waits reads them before
    return found, few.shape == (128,)
before = cuda.memory_allocated()
one = x.sum(0)
rl.compile(drop)()
print(rl.compile(drop)() - before < 2 << 20)
print(rl.compile(read)())
""")
    assert held == "True"
    assert threads == "([True], True)"
