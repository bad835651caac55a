"""Small programs under mypy: right ones pass, wrong ones are told so."""

import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import rushlight as rl

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
# What mypy says an expression is, where it depends on the arguments.
TENSORS = "tuple[rushlight._C.Tensor, ...]"
PAIR = "tuple[rushlight._C.Tensor, rushlight._C.Tensor]"
TRIPLE = "tuple[rushlight._C.Tensor, rushlight._C.Tensor, rushlight._C.Tensor]"
TENSOR = "rushlight._C.Tensor"
REVEALED = {
    "torch.nonzero(x)": TENSOR,
    "torch.nonzero(x, as_tuple=True)": TENSORS,
    "x.nonzero(as_tuple=True)": TENSORS,
    "torch.unique(x)": TENSOR,
    "torch.unique(x, return_counts=True)": PAIR,
    "torch.unique(x, return_inverse=True, return_counts=True)": TRIPLE,
    "x.unique(return_inverse=True)": PAIR,
    "torch.unique_consecutive(x, return_counts=True)": PAIR,
    "torch.atleast_2d(x)": TENSOR,
    "torch.atleast_2d(x, x)": TENSORS,
    "F.max_pool2d(x, 2)": TENSOR,
    "F.max_pool2d(x, 2, return_indices=True)": PAIR,
    "F.adaptive_max_pool1d(x, 2, True)": PAIR,
    "torch.unbind_copy(x)": TENSORS,
    "torch.special.legendre_polynomial_p(x, 2)": TENSOR,
    "torch.autograd.functional.jacobian(torch.exp, x)": TENSOR,
    "torch.autograd.functional.vjp(torch.exp, (x, x))[1]": TENSORS,
    "torch.func.vjp(torch.exp, x)[0]": TENSOR,
    "torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False)": TENSOR,
    "torch.compile(torch.nn.Linear(2, 3))": "rushlight.nn.modules.linear.Linear",
    "torch.nn.LSTM(2, 3).forward(x)[1]": PAIR,
    "next(torch.nn.Linear(2, 3).parameters())": "rushlight.nn.parameter.Parameter",
    "torch.optim.SGD([x]).step(lambda: x)": TENSOR,
    "torch.nn.Linear(2, 3).to(torch.float64)": "rushlight.nn.modules.linear.Linear",
    "torch.utils.data.TensorDataset(x)[0]": TENSORS,
    "torch.linalg.svd(x).S": TENSOR,
    "torch.lu_unpack(x, x).P": TENSOR,
    "x.register_hook(print).remove": "def ()",
}


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


def test_results_depend_on_arguments(tmp_path):
    lines = ["import rushlight as torch", "import rushlight.nn.functional as F",
             "import rushlight.utils.checkpoint", "x = torch.rand(3, 3)",
             *(f"reveal_type({expression})" for expression in REVEALED)]  # fmt: skip
    told = check(tmp_path, {"revealed": "\n".join(lines)})
    for number, (expression, kind) in enumerate(REVEALED.items(), start=5):
        assert f'revealed.py:{number}: note: Revealed type is "{kind}"' in told, (expression, told)


# The modules that programs name by their paths, and how many of their functions and classes may be
# Any to mypy, or return it: a user's object decides what they are. Lower the number with fewer.
MODULES = """rushlight amp autograd autograd.functional cuda distributions fft func linalg nn
nn.functional nn.init nn.utils optim optim.lr_scheduler optim.swa_utils special utils.checkpoint
utils.data""".split()
MOST_UNKNOWN = 16


def public_names():
    """Functions and classes of these modules, but those that are there to say that they are not."""
    for path in MODULES:
        module = rl if path == "rushlight" else attrgetter(path)(rl)
        names = getattr(module, "__all__", None) or dir(module)
        for name in sorted(n for n in names if not n.startswith("_")):
            found = getattr(module, name, None)
            is_ours = getattr(found, "__module__", "").startswith("rushlight")
            if callable(found) and is_ours and not hasattr(found, "__unavailable__"):
                yield f"{module.__name__}.{name}"


def test_functions_are_known_to_type_checkers(tmp_path):
    names = list(public_names())
    imports = [f"import rushlight.{path}" for path in MODULES[1:]]
    lines = ["import rushlight", *imports, *(f"reveal_type({name})" for name in names)]
    told = check(tmp_path, {"names": "\n".join(lines)})
    unknown = []
    for number, name in enumerate(names, start=len(imports) + 2):
        kind = re.search(rf'^names.py:{number}: note: Revealed type is "(.*)"$', told, re.M)
        if kind is None or kind[1] == "Any" or kind[1].endswith("-> Any"):
            unknown.append(f"{name}: {kind and kind[1]}")
    assert len(names) > 1400
    assert len(unknown) <= MOST_UNKNOWN, "\n".join(unknown)
