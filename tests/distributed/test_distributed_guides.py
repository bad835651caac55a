"""The snippets of docs/distributed.md and docs/rpc.md run: whole programs as they are, parts with
what the program around them would have, on ranks that are threads (`simulate`)."""

import re
from pathlib import Path

import pytest
import scripts

import rushlight.distributed as dist

DOCS = Path(__file__).resolve().parents[2] / "docs"
AROUND = """
import rushlight as rl
import rushlight.distributed as dist
from rushlight.nn.parallel import DistributedDataParallel
net = rl.nn.Linear(8, 1)
"""
MODEL = """
class Model(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = rl.nn.ModuleList(rl.nn.Linear(8, 8) for _ in range(8))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x
class Block(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = rl.nn.Linear(8, 16), rl.nn.Linear(16, 8)
    def forward(self, x):
        return self.down(self.up(x).relu())
rl.manual_seed(0)
model, block = Model(), Block()
"""


def snippets(page):
    """Those that are whole or parts, but not those for machines that are not here."""
    text = (DOCS / f"{page}.md").read_text()
    return re.findall(r"(?ms)^```python$\n(.*?)^```$", text)


def snippet(page, words):
    (found,) = [s for s in snippets(page) if words in s]
    return found


# page, words of the snippet: ranks, what stands before it and after it
PARTS = {
    ("distributed", "deterministic_world=8"): (2, """
optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
batches = [rl.randn(16, 8)]
loss = lambda y: y.square().mean()
""", "assert net.weight.grad is not None"),
    ("distributed", "parallelize_module"): (8, MODEL, """
x = rl.ones(2, 8)
assert weight.shape == (8, 8) and weight.to_local().shape == (2, 8)
assert block(x).shape == (2, 8) and model(x).shape == (2, 8)
"""),
    ("distributed", "Schedule1F1B"): (2, MODEL + """
microbatch, batch, target = rl.ones(1, 8), rl.ones(8, 8), rl.zeros(8, 8)
loss_fn, device = rl.nn.functional.mse_loss, rl.device("cpu")
""", ""),
    ("distributed", "dist.survivors()"): (2, """
model, loader, train = DistributedDataParallel(net), [], lambda *_: None
""", ""),
    ("rpc", "rpc.remote("): (2, "", "assert future.wait().sum() == 4"),
}  # fmt: skip


@pytest.mark.parametrize(("page", "words"), PARTS, ids=[words for _, words in PARTS])
def test_parts(page, words):
    ranks, before, after = PARTS[page, words]
    code = compile(AROUND + before + snippet(page, words) + after, f"{page}.md", "exec")
    if page == "rpc":
        code = compile(other_worker(AROUND + before, snippet(page, words) + after), page, "exec")
    dist.simulate(ranks, lambda rank: exec(code, {"rank": rank, "__name__": "guide"}))


def other_worker(before, snippet):
    """The worker that the snippet calls only comes and waits."""
    lines = "".join(f"    {line}\n" for line in snippet.splitlines())
    return (
        f"{before}\nif rank == 0:\n{lines}else:\n    from rushlight.distributed import rpc\n"
        '    rpc.init_rpc("worker1", rank=1, world_size=2)\n    rpc.shutdown()\n'
    )


# Programs of one process.
ALONE = {
    ("distributed", "register_backend"): "assert dist.get_backend() == 'mine'",
    ("distributed", "dist.simulate("): "assert len(losses) == 4 and losses[0] != losses[1]",
    ("distributed", "dcp.save"): "assert target['step'] == 3",
    ("distributed", "Cluster("): "",
}
ONE_PROCESS = """
import os, socket, tempfile
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
model, batch, step, folder = rl.nn.Linear(8, 1), rl.ones(4, 8), 3, tempfile.mkdtemp()
optimizer = rl.optim.Adam(model.parameters())
model(batch).sum().backward()
optimizer.step()
"""


@pytest.mark.parametrize(("page", "words"), ALONE, ids=[words for _, words in ALONE])
def test_alone(page, words):
    scripts.run(AROUND + ONE_PROCESS + snippet(page, words) + ALONE[page, words])


def test_the_first_program_on_two_processes(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(snippet("distributed", "DistributedSampler(dataset)"))
    out = scripts.run(
        f"""
from rushlight.distributed.run import main
main(["--standalone", "--nproc-per-node", "2", {str(program)!r}])
"""
    )
    assert "rank 0 of 2: loss" in out and "rank 1 of 2: loss" in out


# Left: what needs GPUs or Ray; those at least are Python.
def test_none_is_forgotten():
    run = [snippet(*key) for key in [*PARTS, *ALONE]]
    run.append(snippet("distributed", "DistributedSampler(dataset)"))
    left = [s for page in ("distributed", "rpc") for s in snippets(page) if s not in run]
    assert [next(w for w in ("nccl", "DistributedOptimizer", "RushlightTrainer") if w in s)
            for s in left] == ["nccl", "DistributedOptimizer", "RushlightTrainer"]  # fmt: skip
    for part in left:
        compile(part, "guide", "exec")
