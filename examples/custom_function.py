"""Teaches autograd new functions: a smooth one, and one that has no derivative at all.

    python examples/custom_function.py [--steps 400] [--device cuda]

`Swish` keeps one tensor for its backward where the composition x * sigmoid(x) keeps two; gradcheck
compares its derivative, and the derivative of that, with differences of function values. `Sign` has
a derivative of zero almost everywhere, so nothing could be learnt through it; the "straight-through
estimator" pretends on the way back that it was the identity near zero. With it a network whose
hidden units are all -1 or 1 separates two interleaved spirals.
"""

import argparse

from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.autograd import Function, gradcheck, gradgradcheck


class Swish(Function):
    """x * sigmoid(x)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        # Written over tensors that autograd follows, so second derivatives come by themselves.
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * s * (1 + x * (1 - s))


class Sign(Function):
    """-1 or 1; on the way back the gradient passes where |x| is at most `width`."""

    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x)
        ctx.width = width
        return torch.where(x < 0, -1.0, 1.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= ctx.width), None  # `width` is no tensor: it has no gradient


class SpiralNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.first = nn.Linear(2, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        h = Swish.apply(self.first(x))
        return self.head(Sign.apply(self.second(h), 1.0)).squeeze(1)


def spirals(points, device):
    """Two spirals in the plane, and which of them a point lies on."""
    turn = torch.rand(points, device=device).sqrt() * 3 * torch.pi
    side = torch.arange(points, device=device) % 2
    angle = turn + side * torch.pi
    place = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / (3 * torch.pi)
    return 3 * (place + 0.01 * torch.randn(points, 2, device=device)), side.float()


def check_derivatives():
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(Swish.apply, (x,))
    assert gradgradcheck(Swish.apply, (x,))


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    check_derivatives()
    print("gradcheck: first and second derivatives of Swish are right")
    model = SpiralNet().to(args.device)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    loss_function = nn.BCEWithLogitsLoss()
    losses = []
    with tqdm(range(args.steps), unit="step") as bar:
        for _ in bar:
            x, side = spirals(args.batch, args.device)
            optimizer.zero_grad()
            loss = loss_function(model(x), side)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % 50 == 0:
                bar.set_postfix(loss=f"{sum(losses[-50:]) / 50:.3f}")
    x, side = spirals(2000, args.device)
    with torch.no_grad():
        accuracy = ((model(x) > 0) == (side > 0)).float().mean().item()
    print(f"accuracy on new points: {accuracy:.1%}, with hidden units that are only -1 or 1")
    return losses, accuracy


if __name__ == "__main__":
    main()
