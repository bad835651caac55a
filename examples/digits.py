"""Classifies handwritten digits with a small convolutional network. This is what `make demo` runs.

    python examples/digits.py [--epochs 25] [--out runs/digits] [--device cuda]

The data are scikit-learn's 1,797 images of 8 by 8 pixels; a quarter of them is held out. A run
takes some seconds on two cores, ends above 98% accuracy on the held-out images, and leaves two
files: a picture of how it went, and a checkpoint, which is loaded into another network and checked.
"""

import argparse
import time
from pathlib import Path

from sklearn.datasets import load_digits
from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class Net(nn.Module):
    """Three convolutions, each with batch norm and ReLU, and a linear layer on top."""

    def __init__(self, width=32, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            *self.block(1, width),  # (batch, width, 8, 8)
            *self.block(width, 2 * width),
            nn.MaxPool2d(2),  # (batch, 2 width, 4, 4)
            *self.block(2 * width, 2 * width),
            nn.MaxPool2d(2),  # (batch, 2 width, 2, 2)
        )
        self.head = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * width * 2 * 2, classes)
        )

    @staticmethod
    def block(inputs, outputs):
        return (
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.head(self.features(x))


def load_data(seed):
    """Images of (1, 8, 8) with values in [0, 1], and labels; a training and a test set."""
    pixels, target = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().view(-1, 1, 8, 8) / 16
    labels = torch.from_numpy(target).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    test, train = order[: len(order) // 4], order[len(order) // 4 :]
    return (images[train], labels[train]), (images[test], labels[test])


def jitter(images):
    """Moves a batch by up to one pixel each way, so that the network does not learn positions."""
    row, column = torch.randint(3, (2,)).tolist()
    size = images.shape[-1]
    return F.pad(images, (1, 1, 1, 1))[..., row : row + size, column : column + size]


@torch.no_grad()
def evaluate(model, images, labels):
    """Loss and accuracy in evaluation mode, and the probabilities of all classes."""
    model.eval()
    scores = model(images)
    accuracy = (scores.argmax(1) == labels).float().mean().item()
    return F.cross_entropy(scores, labels).item(), accuracy, scores.softmax(1)


def train(model, train_set, test_set, args):
    """Trains, and returns the losses of all steps and (loss, accuracy) on the test set by epoch."""
    images, labels = train_set
    steps = -(-len(labels) // args.batch)
    optimizer = optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.05)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, args.rate, total_steps=steps * args.epochs)
    losses, tests = [], []
    with tqdm(total=steps * args.epochs, desc="training", unit="step", ncols=100) as bar:
        for epoch in range(args.epochs):
            model.train()
            for batch in torch.randperm(len(labels)).split(args.batch):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(jitter(images[batch])), labels[batch])
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                bar.update()
            test_loss, accuracy, _ = evaluate(model, *test_set)
            tests.append((test_loss, accuracy))
            bar.set_description(f"epoch {epoch + 1:2}/{args.epochs}", refresh=False)
            bar.set_postfix_str(f"test loss {test_loss:.3f}, accuracy {accuracy:.1%}")
    return losses, tests


def draw(path, losses, tests, images, labels, probabilities):
    """One picture: loss, accuracy, and the held-out digits that the network reads wrongly."""
    import matplotlib

    matplotlib.use("agg")  # draws into a file, with or without a display
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 5.6), layout="constrained")
    rows = figure.add_gridspec(2, 1, height_ratios=(5, 2))
    curves, digits = figure.add_subfigure(rows[0]), figure.add_subfigure(rows[1])
    left, right = curves.subplots(1, 2)
    epochs = range(1, len(tests) + 1)
    steps = [(i + 1) * len(tests) / len(losses) for i in range(len(losses))]
    left.plot(steps, losses, color="#f2a65a", linewidth=0.7, label="training, each step")
    left.plot(epochs, [loss for loss, _ in tests], "o-", color="#8c3b2a", ms=3, label="test")
    left.set(title="loss", xlabel="epoch", yscale="log")
    left.legend(frameon=False)
    right.plot(epochs, [100 * accuracy for _, accuracy in tests], "o-", color="#2a6f8c", ms=3)
    right.axhline(98, color="#999999", linewidth=0.8, linestyle="--")
    right.set(title=f"test accuracy: {tests[-1][1]:.2%}", xlabel="epoch", ylabel="%")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)

    # By the probability of the right answer: the misclassified ones come first, then close calls.
    sure = probabilities.gather(1, labels[:, None]).squeeze(1)
    predictions = probabilities.argmax(1)
    wrong = (predictions != labels).sum().item()
    digits.suptitle(f"{wrong} of {len(labels)} misclassified (red); the hardest digits:")
    for axes, i in zip(digits.subplots(1, 10), sure.argsort(), strict=False):
        axes.imshow(images[i, 0], cmap="gray_r")  # to matplotlib a tensor is an array
        axes.axis("off")
        label, prediction = labels[i].item(), predictions[i].item()
        if label != prediction:
            axes.set_title(f"{label}, read as {prediction}", fontsize=9, color="#c0392b")
        else:
            axes.set_title(f"{label} ({sure[i]:.0%})", fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def save_and_check(path, model, accuracy, images):
    """Saves a checkpoint, loads it into a fresh network, and compares every output bit by bit."""
    torch.save({"model": model.state_dict(), "accuracy": accuracy}, path)
    checkpoint = torch.load(path)
    twin = type(model)().to(images.device)
    twin.load_state_dict(checkpoint["model"])
    with torch.no_grad():
        same = torch.equal(model.eval()(images), twin.eval()(images))
    if not same or checkpoint["accuracy"] != accuracy:
        raise SystemExit(f"the network loaded from {path} differs from the one that was saved")


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/digits"))
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(args.seed)
    train_set, test_set = (
        tuple(part.to(args.device) for part in data) for data in load_data(args.seed)
    )
    model = Net().to(args.device)
    model.summary(train_set[0][:1])
    print(f"\n{len(train_set[1]):,} digits to learn from, {len(test_set[1])} held out\n")

    start = time.perf_counter()
    losses, tests = train(model, train_set, test_set, args)
    seconds = time.perf_counter() - start
    _, accuracy, probabilities = evaluate(model, *test_set)

    picture, checkpoint = args.out / "digits.png", args.out / "digits.pt"
    draw(picture, losses, tests, *(part.cpu() for part in (*test_set, probabilities)))
    save_and_check(checkpoint, model, accuracy, test_set[0])
    print(f"\naccuracy    {accuracy:.2%} of the held-out digits, trained in {seconds:.1f} s")
    print(f"picture     {picture}")
    print(f"checkpoint  {checkpoint}: saved, loaded again, outputs identical")
    return losses, accuracy


if __name__ == "__main__":
    main()
