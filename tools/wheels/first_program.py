"""What a new user does first, run against an installed wheel: fails when something is missing.

Needs nothing but the wheel: no NumPy, no compiler, no GPU, no home folder that can be written to.
"""

import os
import pathlib
import sys
import tempfile

import rushlight as torch
from rushlight import nn, optim


def learn_sine() -> float:
    torch.manual_seed(0)
    x = torch.linspace(-3, 3, 200).unsqueeze(1)
    y = torch.sin(x)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    for _ in range(500):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sine.pt")
        torch.save(model.state_dict(), path)
        model.load_state_dict(torch.load(path))
    return loss.item()


def loaded(beginning: str) -> set[str]:
    """Files of that name in this process."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {name for line in lines if beginning in (name := line.split()[-1])}


def main() -> None:
    package = pathlib.Path(torch.__file__).parent
    print(f"rushlight {torch.__version__} in {package}, Python {sys.version.split()[0]}")
    loss = learn_sine()
    assert loss < 1e-3, loss
    print(f"a sine is learned: loss {loss:.5f}")

    image = torch.randn(2, 3, 64, 64)
    convolved = nn.Conv2d(3, 16, 3)(image)
    assert convolved.shape == (2, 16, 62, 62)
    (onednn,) = loaded("libdnnl")
    (openmp,) = loaded("gomp")
    assert "libgomp-rushlight" in openmp, openmp
    print(f"convolutions by {onednn}, threads by {openmp}")

    _, s, vh = torch.linalg.svd(torch.randn(40, 30, dtype=torch.float64))
    assert torch.allclose(vh @ vh.mT, torch.eye(30, dtype=torch.float64))
    print(f"a decomposition: largest value {s[0].item():.2f}; {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
