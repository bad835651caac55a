"""Small programs under mypy: right ones pass, wrong ones are told so."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy comes with `make lint`")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent

RIGHT = {
    "tensors": """
import rushlight as torch

x: torch.Tensor = torch.rand(2, 3)
y: torch.Tensor = (x @ x.T + 1).relu().sum(dim=0, keepdim=True) / 2 - x[0, 0]
n: int = x.shape[0] + x.size(1) + x.numel()
values: torch.Tensor = x.max(dim=1).values
best, where = x.topk(2)
a: torch.Tensor = torch.zeros(2, 3, dtype=torch.float32, device="cpu")
b: torch.Tensor = torch.zeros((2, 3), device=torch.device("cpu"))
same: bool = torch.equal(a, b)
kind: torch.dtype = x.dtype
u, s, vh = torch.linalg.svd(x)
shape: tuple[int, ...] = x.view(3, -1).permute(1, 0).shape
parts: tuple[torch.Tensor, ...] = x.split(1)
total: float = torch.pi + x.mean().item()
spectrum: torch.Tensor = torch.fft.rfft(x)
e: torch.Tensor = torch.special.expit(torch.special.bessel_j0(x))
mask: torch.Tensor = x > 0.5
x += 1
x[mask] = 0
""",
    "training": """
import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.utils.data import DataLoader, Dataset, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.scale


class Numbers(Dataset[torch.Tensor]):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index])

    def __len__(self) -> int:
        return 3


model: nn.Module = Net()
optimizer = optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2)
data = TensorDataset(torch.rand(8, 4), torch.zeros(8).long())
loader = DataLoader(data, batch_size=4, shuffle=True)
for x, y in loader:
    optimizer.zero_grad()
    loss: torch.Tensor = F.cross_entropy(model(x), y, reduction="mean")
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
scheduler.step()
torch.save(model.state_dict(), "model.pt")
model.load_state_dict(torch.load("model.pt", weights_only=True))
weight: nn.Parameter = nn.Linear(2, 3).weight
total: int = sum(p.numel() for p in model.parameters())
""",
    "gradients": """
from typing import Any

import rushlight as torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


@torch.no_grad()
def evaluate(x: torch.Tensor) -> float:
    return x.sum().item()


x = torch.ones(3, requires_grad=True)
(slope,) = torch.autograd.grad(Square.apply(x).sum(), x)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    value: float = evaluate(x)
normal = torch.distributions.Normal(0.0, 1.0)
sample: torch.Tensor = normal.log_prob(normal.sample((3,)))
""",
}
# A line that is wrong, and the kind of error that mypy gives.
WRONG = [
    ("torch.foo_not_there", "attr-defined"),
    ("torch.elu(torch.ones(1))", "attr-defined"),
    ("torch.nn.functional.not_there", "attr-defined"),
    ("torch.nn.Lineer(2, 3)", "attr-defined"),
    ("torch.linalg.solv(torch.eye(2), torch.eye(2))", "attr-defined"),
    ("torch.zeros('a')", "arg-type|call-overload"),
    ("torch.ones(2).reshape('x')", "arg-type|call-overload"),
    ("torch.add(torch.ones(1))", "call-arg|call-overload"),
    ("torch.sort(torch.ones(3)).value", "attr-defined"),
    ("torch.ones(3).shape = 3", "misc"),
    ("torch.nn.Linear('2', 3)", "arg-type"),
    ("torch.nn.functional.relu('x')", "arg-type"),
    ("torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr='fast')", "arg-type"),
    ("torch.tensor([1.0], dtype='float32')", "arg-type"),
    ("x: str = torch.ones(1)", "assignment"),
]


def check(folder, programs):
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--no-incremental",
         *(f"{name}.py" for name in programs)],
        cwd=folder, capture_output=True, text=True, timeout=600,
        env={"PATH": "", "MYPYPATH": str(ROOT), "HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_right_programs_pass(tmp_path):
    told = check(tmp_path, RIGHT)
    assert "error" not in told, told


def test_wrong_lines_are_told(tmp_path):
    lines = ["import rushlight as torch", *(line for line, _ in WRONG)]
    told = check(tmp_path, {"wrong": "\n".join(lines)})
    for number, (line, kinds) in enumerate(WRONG, start=2):
        found = [t for t in told.splitlines() if t.startswith(f"wrong.py:{number}: error:")]
        assert any(f"[{kind}]" in t for t in found for kind in kinds.split("|")), (line, told)
