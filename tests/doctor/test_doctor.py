"""The doctor finds faults that are planted in a program, with their lines, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import doctor, nn
from rushlight.doctor import _environment

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(rl.__file__).parents[1]  # a sanitizer's is not the checkout's

EXAMPLES = """digits custom_dataset custom_function resnet vae dcgan char_gpt translate ncf
              reinforce""".split()

# A program without faults. Faults replace a line of it.
CLEAN = """
import time
import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(512, 16)
y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64))
        self.norm = nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        h = F.relu(self.norm(self.body(x)))
        return self.head(h)

model = Net()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model.train()
history = []
for epoch in range(3):
    for images, labels in loader:
        out = model(images)
        loss = F.cross_entropy(out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
print("finished")
"""

# What is replaced, by what; a word of the finding; what the line that is named holds, if any.
FAULTS = {
    "softmax before cross_entropy": (
        "        return self.head(h)", "        return F.softmax(self.head(h), 1)",
        "given probabilities", "cross_entropy"),
    "softmax before nll_loss": (
        "loss = F.cross_entropy(out, labels)", "loss = F.nll_loss(F.softmax(out, 1), labels)",
        "nll_loss is given probabilities", "nll_loss"),
    "two sigmoids": (
        "loss = F.cross_entropy(out, labels)",
        "loss = F.binary_cross_entropy_with_logits(out.sigmoid(), F.one_hot(labels, 4).float())",
        "loss with logits", "with_logits"),
    "gradients never cleared": (
        "        optimizer.zero_grad()\n", "", "not cleared", "backward"),
    "gradients cleared before the step": (
        "        optimizer.zero_grad()\n        loss.backward()\n",
        "        loss.backward()\n        optimizer.zero_grad()\n",
        "steps without gradients", "step()"),
    "a module that is not used": (
        "        self.head = nn.Linear(64, 4)",
        "        self.head = nn.Linear(64, 4)\n        self.extra = nn.Linear(64, 64)",
        "never get a gradient", "step()"),
    "cut off by detach": (
        "F.relu(self.norm(self.body(x)))", "F.relu(self.norm(self.body(x))).detach()",
        "never get a gradient", "step()"),
    "parameters that no optimiser has": (
        "torch.optim.Adam(model.parameters(), lr=1e-3)",
        "torch.optim.Adam(model.head.parameters(), lr=1e-3)",
        "no optimiser has them", "step()"),
    "learning rate too high": ("lr=1e-3", "lr=30.0", "too high", "step()"),
    "learning rate too low": ("lr=1e-3", "lr=1e-12", "too low", "step()"),
    "exploding gradients": (
        "loss = F.cross_entropy(out, labels)", "loss = (out * 1e4).pow(2).mean()",
        "explode", "step()"),
    "NaN in a module": (
        "self.head(h)", "self.head((h - 5).log())", "NaN or infinity", "self.head("),
    "NaN in gradients": (
        "loss = F.cross_entropy(out, labels)",
        "loss = F.cross_entropy(out, labels) + (out * 0).abs().sqrt().sum()",
        "Gradients are NaN", "step()"),
    "evaluation mode": ("model.train()", "model.eval()", "evaluation mode", "step()"),
    "dead units": (
        "model = Net()", "model = Net()\nnn.init.constant_(model.norm.bias, -50.0)",
        "are dead", "self.head("),
    "inputs of the wrong scale": (
        "x = torch.randn(512, 16)", "x = torch.rand(512, 16) * 255", "not scaled", "model("),
    "equal weights": (
        "model = Net()", "model = Net()\nnn.init.constant_(model.body[3].weight, 0.0)\n"
        "model.body[3].weight.requires_grad_(False)",
        "body.3.weight are equal", None),
    "sorted data": (
        "loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)",
        "order = y.argsort()\nloader = DataLoader(TensorDataset(x[order], y[order]), batch_size=8)",
        "one label each", "in loader"),
    "the data begins anew": (
        "    for images, labels in loader:\n",
        "    for _ in range(20):\n        images, labels = next(iter(loader))\n",
        "begins the data anew", "iter(loader)"),
    "column against row": (
        "loss = F.cross_entropy(out, labels)",
        "loss = (out[:, :1] - labels.float()).pow(2).mean()", "to a square", "labels.float()"),
    "anomaly detection": (
        "model = Net()", "model = Net()\ntorch.autograd.set_detect_anomaly(True)",
        "Anomaly detection", "step()"),
    "graphs that are kept": (
        "loss.backward()", "loss.backward(retain_graph=True)", "keeps its graph", "backward"),
    "float64": (
        "x = torch.randn(512, 16)", "x = torch.randn(512, 4096, dtype=torch.float64)",
        "float64", None),
    "a slow dataset": (
        "loader = DataLoader(TensorDataset(x, y)",
        "class Slow(TensorDataset):\n    def __getitem__(self, i):\n        time.sleep(0.0005)\n"
        "        return super().__getitem__(i)\n\nloader = DataLoader(Slow(x, y)",
        "waits for data", "in loader"),
    "work in the loop": (
        "history.append(loss.item())", "time.sleep(0.02)", "Python runs between", None),
    "memory that grows": (
        "history.append(loss.item())", "history.append(model(images))", "Memory grows", None),
    "a loss of the wrong sign": ("loss.backward()", "(-loss).backward()", "larger", "F.cross"),
    "weights that something else changes": (
        "history.append(loss.item())",
        "[p.data.add_(torch.randn_like(p) * 0.1) for p in model.parameters()]",
        "Weights change between", "step()"),
    "an optimiser made in every step": (
        "        optimizer.step()",
        "        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"
        "        optimizer.step()",
        "of its own", "step()"),
    "the same batch always": (
        "loader = DataLoader(TensorDataset(x, y)",
        "class One(TensorDataset):\n    def __getitem__(self, i):\n"
        "        return super().__getitem__(0)\n\nloader = DataLoader(One(x, y)",
        "Every batch is the same", "in loader"),
    "inputs of one number": ("x = torch.randn(512, 16)", "x = torch.zeros(512, 16)",
        "inputs are one number", "model("),
    "dropout of nearly everything": ("nn.Dropout(0.1)", "nn.Dropout(0.95)", "drops 95%", "step()"),
    "batches too small for a batch norm": (
        "batch_size=32", "batch_size=2", "normalises over 2 values", "step()"),
    "softmax over the batch": (
        "        return self.head(h)", "        return F.log_softmax(self.head(h), 0)",
        "samples of the batch", "log_softmax"),
    "weight decay too large": ("lr=1e-3", "lr=1e-3, weight_decay=1e3", "decay is far", "step()"),
    "a rate that falls at once": (
        "history.append(loss.item())", "optimizer.param_groups[0]['lr'] *= 0.1",
        "falls within", "step()"),
    "a seed in the loop": (
        "        out = model(images)", "        torch.manual_seed(0)\n        out = model(images)",
        "begin anew", "manual_seed"),
    "an evaluation that is not left": (
        "        history.append(loss.item())",
        "        if len(history) > 100:\n            model.eval()\n"
        "        history.append(loss.item())",
        "after an evaluation", "model.eval()"),
    "what clipping hides": (
        "loss.backward()",
        "(loss * 1e9).backward()\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "before they are clipped", "clip_grad_norm_"),
    "a factor of zero": (
        "        return self.head(h)", "        return self.head(h * 0) + self.head(h).detach()",
        "gradients of zero alone", "step()"),
}  # fmt: skip
# Faults that cannot be planted without these.
ALSO = {
    "float64": [
        ("nn.Linear(16, 64)", "nn.Linear(4096, 64)"),
        ("model = Net()", "model = Net().double()"),
    ]
}


TIMED = ("a slow dataset", "work in the loop")  # judged by the clock


def planted(name):
    old, new, *_ = FAULTS[name]
    text = CLEAN
    for before, after in [(old, new), *ALSO.get(name, ())]:
        assert before in text
        text = text.replace(before, after, 1)
    return text


def examine(tmp_path, text, **options):
    script = tmp_path / "train.py"
    script.write_text(text)
    try:
        return doctor.examine(script, **options)
    finally:
        rl.autograd.set_detect_anomaly(False)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name, tmp_path):
    _, _, word, place = FAULTS[name]
    text = planted(name)
    found = examine(tmp_path, text)
    assert found.error is None, found.error
    if name in TIMED and found.busy > 0.1:
        pytest.skip("the machine is busy with other programs")
    matching = [f for f in found.findings if word in f.title]
    assert matching, str(found)
    finding = matching[0]
    assert finding.evidence and finding.advice
    if place is not None:
        number = int(finding.line.partition("(")[2].partition(")")[0])
        assert place in text.splitlines()[number - 1]


@pytest.mark.parametrize(("line", "keeper"), [
    ("history.append(images.repeat(1, 16))", "the list history holds"),
    ("model.seen = [*getattr(model, 'seen', []), images @ images.T]", "the list model.seen holds"),
    ("total = model(images).sum() + globals().get('total', 0)", "the graph of total may hold"),
])  # fmt: skip
def test_who_keeps_what_grows(line, keeper, tmp_path):
    found = examine(tmp_path, CLEAN.replace("history.append(loss.item())", line))
    (growth,) = [f for f in found.findings if f.title.startswith("Memory grows")]
    assert keeper in growth.evidence, growth.evidence


def test_evaluations_that_are_left_are_no_fault(tmp_path):
    """train() may be called anywhere in the loop, and after the loop nobody needs it."""
    text = CLEAN.replace(
        "for epoch in range(3):\n",
        "def evaluate(m):\n    m.eval()\n    m.train()\n\n"
        "for epoch in range(3):\n    evaluate(model)\n",
    )
    assert examine(tmp_path, text + "model.eval()\n").findings == []


def test_waits_are_judged_on_busy_machines_too():
    """Time in which others had the CPU may have been in the waits, and is taken off."""
    from types import SimpleNamespace

    from rushlight.doctor._examine import _waits_for_data
    from rushlight.profiler._breakdown import Breakdown

    waits = [SimpleNamespace(name="enumerate(DataLoader)#x", cpu_time_total=t)
             for t in (100.0, 120.0, 60e3, 90e3)]  # fmt: skip
    times = Breakdown(0.0, 300e3, 1)
    times.times["loader"] = sum(w.cpu_time_total for w in waits)
    assert _waits_for_data(waits, times, stolen=0.0)
    assert _waits_for_data(waits, times, stolen=80e3)
    assert not _waits_for_data(waits, times, stolen=140e3)


def test_the_clean_program_has_none(tmp_path, capsys):
    found = examine(tmp_path, CLEAN)
    assert found.findings == [] and found.steps == 10 and found.error is None, str(found)
    assert "Nothing was found in 10 steps" in str(found)
    assert "finished" not in capsys.readouterr().out  # it was ended when enough was seen


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_have_none(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # they write their pictures to runs/
    monkeypatch.setenv("MPLBACKEND", "Agg")
    found = doctor.examine(ROOT / "examples" / f"{name}.py", steps=3, timed=3)
    assert found.findings == [] and found.steps == 6 and found.error is None, str(found)


def test_a_program_goes_on_as_it_was(tmp_path):
    """What is put in place for the watching is taken away again."""
    functional, loader = nn.functional, rl.utils.data.DataLoader
    before = (rl.Tensor.backward, functional.cross_entropy, loader.__iter__,
              vars(loader).get("__iter__"), list(sys.path), list(sys.argv))  # fmt: skip
    examine(tmp_path, CLEAN)
    after = (rl.Tensor.backward, functional.cross_entropy, loader.__iter__,
             vars(loader).get("__iter__"), list(sys.path), list(sys.argv))  # fmt: skip
    assert before == after
    from rushlight.optim import optimizer

    assert not optimizer._global_pre_hooks and not optimizer._global_post_hooks
    assert not optimizer._step_ranges


def test_a_program_that_fails(tmp_path):
    found = examine(tmp_path, "import rushlight\n1 / 0\n")
    assert "ZeroDivisionError" in found.error and "ZeroDivisionError" in str(found)
    found = examine(tmp_path, "import sys\nsys.exit(3)\n")
    assert found.error == "SystemExit: 3"
    found = examine(tmp_path, "import sys\nsys.exit(0)\n")
    assert found.error is None and "No step" in str(found)
    with pytest.raises(FileNotFoundError):
        doctor.examine(tmp_path / "nowhere.py")


def test_a_program_that_fails_in_its_third_step(tmp_path):
    text = CLEAN.replace(
        "        loss.backward()", "        loss.backward()\n        assert len(history) < 3"
    )
    found = examine(tmp_path, text)
    assert "AssertionError" in found.error and found.steps == 3


def test_arguments_reach_the_program(tmp_path):
    (tmp_path / "train.py").write_text(
        "import sys, helper\nassert sys.argv[1:] == ['--lr', '3']\nassert __name__ == '__main__'\n"
    )
    (tmp_path / "helper.py").write_text("")
    assert doctor.examine(tmp_path / "train.py", ["--lr", "3"]).error is None


def test_from_inside():
    model = nn.Linear(4, 4)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    with doctor.watch(steps=3, timed=3) as seen:
        for _ in range(9):
            model(rl.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
    assert seen.steps == 6
    assert [f.title for f in seen.findings] == ["Gradients are not cleared between steps"]
    with doctor.watch() as seen:
        pass
    assert seen.steps == 0 and "No step" in str(seen)


@pytest.mark.parametrize(
    ("fault", "finding"),
    [("explode", "explode"), ("low", "far too low"), ("nan", "NaN"), ("equal", "are equal")],
)
def test_every_optimizer_is_looked_at(fault, finding):
    """Of two that take turns, as in a GAN, the second has the fault."""
    rl.manual_seed(0)
    sides = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(2)]
    if fault == "equal":
        for parameter in sides[1].parameters():
            parameter.data.fill_(0.01)
    rates = (1e-3, 1e-13 if fault == "low" else 1e-3)
    optimizers = [
        rl.optim.Adam(side.parameters(), lr=rate) for side, rate in zip(sides, rates, strict=True)
    ]
    with rl.doctor.watch() as seen:
        for _ in range(6):
            for k, (side, optimizer) in enumerate(zip(sides, optimizers, strict=True)):
                loss = side(rl.randn(16, 4)).pow(2).mean()
                if k and fault == "explode":
                    loss = loss * 1e15
                if k and fault == "nan":
                    loss = loss + (loss * 0).sqrt()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    assert finding in str(seen)


@pytest.mark.parametrize("kind", ["one layer", "head", "adapter"])
def test_weights_that_begin_at_zero_on_purpose(kind):
    rl.manual_seed(0)
    x = rl.randn(64, 20)
    y = (x @ rl.randn(20, 5)).argmax(1)
    layers = [nn.Linear(20, 5)] if kind == "one layer" else [nn.Linear(20, 64), nn.Linear(64, 5)]
    if kind == "adapter":
        layers += [nn.Linear(5, 4, bias=False), nn.Linear(4, 5, bias=False)]
        nn.init.zeros_(layers[1].weight)
    nn.init.zeros_(layers[-1].weight)
    net = nn.Sequential(*layers[:2])
    optimizer = rl.optim.Adam([p for layer in layers for p in layer.parameters()], lr=1e-2)
    with doctor.watch(steps=6, timed=1) as seen:
        for _ in range(8):
            optimizer.zero_grad()
            out = net(x)
            out = out + layers[3](layers[2](out)) if kind == "adapter" else out
            nn.functional.cross_entropy(out, y).backward()
            optimizer.step()
    titles = " ".join(finding.title for finding in seen.findings)
    assert "equal" not in titles and "learning rate" not in titles


def test_an_error_leaves_the_watch():
    with pytest.raises(KeyError):
        with doctor.watch() as seen:
            raise KeyError
    assert seen.findings == []


# ---- the machine


def test_the_machine_is_looked_at():
    for finding in doctor.check_environment():
        assert finding.title and finding.evidence and finding.advice


def test_too_many_and_too_few_threads(monkeypatch):
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setattr(rl, "get_num_threads", lambda: cores + 3)
    (finding,) = _environment._threads()
    assert "share" in finding.title
    monkeypatch.setattr(rl, "get_num_threads", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(_environment, "cpu_quota", lambda: None)
    (finding,) = _environment._threads()
    assert "1 of 8" in finding.title and finding.gain == 8
    monkeypatch.setattr(_environment, "cpu_quota", lambda: 1.0)
    assert list(_environment._threads()) == []


def test_little_shared_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(_environment, "_SHM", tmp_path / "none")
    (finding,) = _environment._shared_memory()
    assert "no shared memory" in finding.title
    monkeypatch.setattr(_environment, "_SHM", tmp_path)
    monkeypatch.setattr(_environment, "_LEAST_SHM", 1 << 60)
    (finding,) = _environment._shared_memory()
    assert "--shm-size" in finding.advice


def test_control_groups(monkeypatch):
    files = {"/sys/fs/cgroup/cpu.max": "150000 100000", "/sys/fs/cgroup/memory.max": "1073741824"}
    monkeypatch.setattr(_environment, "_read", files.get)
    assert _environment.cpu_quota() == 1.5 and _environment.memory_limit() == 1 << 30
    (finding,) = _environment._memory()
    assert "1.00 GB" in finding.title
    files["/sys/fs/cgroup/cpu.max"] = "max 100000"
    files["/sys/fs/cgroup/memory.max"] = "max"
    assert _environment.cpu_quota() is None and _environment.memory_limit() is None


def test_traps_of_the_cpu(monkeypatch):
    monkeypatch.setattr(_environment, "_read", lambda _: "flags : sse2 avx2 amx_tile")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    (finding,) = _environment._cpu_features()
    assert "AMX" in finding.title
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    assert list(_environment._cpu_features()) == []


def test_commands(tmp_path):
    def run(*args):
        return subprocess.run([sys.executable, "-m", "rushlight", *args], capture_output=True,
                              text=True, cwd=tmp_path, check=False,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)})  # fmt: skip

    env = run("env")
    assert env.returncode == 0 and "Rushlight version" in env.stdout
    assert f"Cores: {len(os.sched_getaffinity(0))} of" in env.stdout and "Memory: " in env.stdout
    (tmp_path / "train.py").write_text(planted("gradients never cleared"))
    done = run("doctor", "--steps", "3", "--timed", "2", "train.py")
    assert done.returncode == 1 and "not cleared" in done.stdout and "train.py(" in done.stdout
    assert run("nonsense").returncode == 2
