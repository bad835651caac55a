"""Memory of what a compiled step saves for backward: over a driver without a GPU, whose memory is
counted as a real one's is."""

import json

UNIT = """
import gc, json
nn, F = rl.nn, rl.nn.functional
class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(8, 32), nn.Conv2d(32, 32, 3, padding=1)
    def forward(self, x):
        return self.conv(F.silu(self.norm(x)))
model = nn.Sequential(nn.Conv2d(32, 32, 1), *(Unit() for _ in range(4))).cuda()
image = rl.ones(8, 32, 64, 64, device="cuda")
def forward():
    with rl.autocast("cuda", dtype=rl.bfloat16):
        return model(image).float().mean()
def compiled(recompute):
    return rl.compile(forward, options={"recompute": recompute})
"""
HALF = 8 * 32 * 64 * 64 * 2  # bytes of an image in bfloat16


def test_bytes_between_forward_and_backward(run_with_cudnn):
    (line,) = run_with_cudnn(UNIT + """
found = []
for f in (forward, compiled(False), compiled(True), compiled(1 << 30)):
    f().backward()
    model.zero_grad()
    before = cuda.memory_allocated()
    loss = f()
    between = cuda.memory_allocated() - before
    cuda.reset_peak_memory_stats()
    loss.backward()
    peak = cuda.max_memory_allocated() - before
    model.zero_grad()
    del loss
    assert cuda.memory_allocated() == before, "everything is freed"
    found.append((between, peak))
print(json.dumps(found))
""")  # fmt: skip
    eager, off, on, larger = json.loads(line)
    assert off[0] == larger[0] == eager[0]
    # A unit keeps its input in bfloat16, and neither its cast to float32, nor the norm's result in
    # float32, nor the convolution's input in bfloat16.
    assert off[0] - on[0] == 4 * (2 + 2 + 1 - 1) * HALF
    assert on[1] < off[1] - 7 * HALF


def test_graphs_that_are_dropped_or_kept_leave_nothing(run_with_cudnn):
    assert run_with_cudnn(UNIT + """
f = compiled(True)
f().backward()
model.zero_grad()
before, watchers = cuda.memory_allocated(), rl._C._deferred_counters()[-1]
for how in ("dropped", "kept", "twice"):
    loss = f()
    assert rl._C._deferred_counters()[-1] > watchers
    if how != "dropped":
        loss.backward(retain_graph=True)
    if how == "twice":
        loss.backward()
    del loss
    model.zero_grad()
    assert (cuda.memory_allocated(), rl._C._deferred_counters()[-1]) == (before, watchers), how
print(rl.compiler.stats()["not_kept"] > 0)
""") == ["True"]  # fmt: skip


def test_a_write_computes_what_reads_the_memory(run_with_cudnn):
    (line,) = run_with_cudnn(UNIT + """
x = rl.ones(8, 32, 64, 64, device="cuda", dtype=rl.bfloat16)
w = rl.ones(32, 32, 1, 1, device="cuda", requires_grad=True)
f = rl.compile(lambda: F.conv2d(F.silu(x).float() * 2, w), options={"recompute": True})
def grown(act):
    out = f()
    before = cuda.memory_allocated()
    act()
    return cuda.memory_allocated() - before
other = cuda.Stream()
def beside():
    other.wait_stream(cuda.current_stream())
    with cuda.stream(other):
        x.add_(1)
graph = cuda.CUDAGraph()
with cuda.graph(graph):
    x.mul_(2)
print(json.dumps([grown(a) for a in (lambda: None, lambda: x.add_(1), lambda: x.data.zero_(),
                  beside, graph.replay, lambda: x.data_ptr(), lambda: x.sin_())]))
""")  # fmt: skip
    # The step that reads x is computed; where anything may be written to, what was saved. Once its
    # address is given out x may change unseen, so nothing is left to backward any more.
    assert json.loads(line) == [0, HALF, HALF, HALF, 2 * HALF, HALF, 0]


def test_a_write_in_another_stream_waits(run_with_cudnn, tmp_path):
    log = tmp_path / "log"
    run_with_cudnn(UNIT + """
x = rl.ones(8, 32, 64, 64, device="cuda", dtype=rl.bfloat16)
w = rl.ones(32, 32, 1, 1, device="cuda", requires_grad=True)
f = rl.compile(lambda: F.conv2d(F.silu(x).float() * 2, w), options={"recompute": True})
own, other = cuda.Stream(), cuda.Stream()
with cuda.stream(own):
    out = f()
other.wait_stream(own)
cuda.synchronize()
with open(LOG, "a") as to:
    print("now", file=to)
with cuda.stream(other):
    x.add_(1)
cuda.synchronize()
out.sum().backward()
""".replace("LOG", repr(str(log))), FAKE_CUDA_LOG=log)  # fmt: skip
    lines = log.read_text().splitlines()
    after = lines[lines.index("now") + 1 :]
    place = {name: next(i for i, line in enumerate(after) if name in line)
             for name in ("Silu", "Add")}  # fmt: skip
    assert place["Silu"] < place["Add"], after


def test_images_behind_batch_norms_are_kept(run_with_cudnn):
    assert run_with_cudnn(UNIT + """
def layers():
    return nn.Conv2d(32, 32, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU()
images = nn.Sequential(*layers(), *layers()).cuda()
rl.compile(lambda: images(image).mean())().backward()
print(rl.compiler.stats()["not_kept"])
""") == ["0"]  # fmt: skip
