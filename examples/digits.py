"""Trains a small network on scikit-learn's handwritten digits, with gradients written by hand.

    python examples/digits.py [--epochs 30] [--hidden 64] [--seed 0]

1,797 images of 8 by 8 pixels; a fifth is held out. One hidden layer, cross-entropy, plain SGD.
"""

import argparse
import time

from sklearn.datasets import load_digits
from tqdm import tqdm

import rushlight as rl


def load(seed):
    """Images as rows in [0, 1], labels, split into training and test sets."""
    digits = load_digits()
    x = rl.from_numpy(digits.data).float() / 16
    y = rl.from_numpy(digits.target).long()
    order = rl.randperm(len(y), generator=rl.Generator().manual_seed(seed))
    x, y = x[order], y[order]
    n = len(y) // 5
    return x[n:], y[n:], x[:n], y[:n]


class Network:
    """relu(x @ w1 + b1) @ w2 + b2, and the gradient of its cross-entropy."""

    def __init__(self, inputs, hidden, outputs):
        self.w1 = rl.randn(inputs, hidden) * (2 / inputs) ** 0.5
        self.b1 = rl.zeros(hidden)
        self.w2 = rl.randn(hidden, outputs) * (1 / hidden) ** 0.5
        self.b2 = rl.zeros(outputs)

    def forward(self, x):
        self.hidden = (x @ self.w1 + self.b1).clamp(min=0)  # (batch, hidden)
        return self.hidden @ self.w2 + self.b2  # (batch, outputs)

    def step(self, x, y, rate):
        """One step of SGD on a batch; returns the loss."""
        log_p = self.forward(x).log_softmax(1)
        loss = -log_p.gather(1, y[:, None]).mean()
        # d loss / d scores = (softmax - one hot) / batch; then backwards through the layers.
        g = log_p.exp()
        g[rl.arange(len(y)), y] -= 1
        g /= len(y)
        g_hidden = (g @ self.w2.T) * (self.hidden > 0)
        self.w2 -= rate * (self.hidden.T @ g)
        self.b2 -= rate * g.sum(0)
        self.w1 -= rate * (x.T @ g_hidden)
        self.b1 -= rate * g_hidden.sum(0)
        return loss.item()

    def accuracy(self, x, y):
        return (self.forward(x).argmax(1) == y).float().mean().item()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)

    rl.manual_seed(args.seed)
    x, y, x_test, y_test = load(args.seed)
    network = Network(x.shape[1], args.hidden, 10)
    start = time.perf_counter()
    with tqdm(range(args.epochs), desc="training", unit="epoch") as bar:
        for _ in bar:
            order = rl.randperm(len(y))
            losses = [
                network.step(x[batch], y[batch], args.rate) for batch in order.split(args.batch)
            ]
            bar.set_postfix(loss=f"{sum(losses) / len(losses):.4f}",
                            accuracy=f"{network.accuracy(x_test, y_test):.1%}")  # fmt: skip
    accuracy = network.accuracy(x_test, y_test)
    print(f"accuracy on {len(y_test)} held-out digits: {accuracy:.1%} "
          f"after {args.epochs} epochs in {time.perf_counter() - start:.1f} s")  # fmt: skip
    return accuracy


if __name__ == "__main__":
    main()
