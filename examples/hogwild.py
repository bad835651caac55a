"""Hogwild: several processes train one model in shared memory, without locks.

    python examples/hogwild.py [--processes 2] [--epochs 4] [--compare] [--device cuda]

Each process goes through the whole training set in its own order, computes gradients on its own
batches and applies them to the weights that all of them share. Updates may overwrite one another;
with most of them far apart that does no harm (Niu et al., "HOGWILD!: A lock-free approach to
parallelizing stochastic gradient descent", 2011). The data are scikit-learn's handwritten digits.

--compare also trains with one process and says how much more samples per second the others bring.
With --device cuda the model is in the GPU's memory, which the processes share as well.
"""

import argparse
import time

from sklearn.datasets import load_digits

import rushlight as torch
import rushlight.multiprocessing as mp
from rushlight import nn, optim
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.head = nn.Linear(2 * width * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.head(x.flatten(1))


def load_data():
    """A training and a test set of images (1, 8, 8) and labels, in shared memory."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16
    labels = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = order[450:], order[:450]
    return [TensorDataset(*(t[part].share_memory_() for t in (images, labels))) for part in parts]


def train(rank, model, data, options, losses, ready):
    """What one process does. The model, the data and `losses` are shared."""
    torch.manual_seed(options.seed + rank)
    torch.set_num_threads(1)
    optimizer = optim.SGD(model.parameters(), lr=options.lr, momentum=0.5)
    loader = DataLoader(data, batch_size=options.batch_size, shuffle=True)
    ready.wait()
    for epoch in range(options.epochs):
        total = 0.0
        for images, labels in loader:
            images, labels = images.to(options.device), labels.to(options.device)
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses[rank, epoch] = total / len(loader)


def accuracy(model, data):
    with torch.no_grad():
        device = next(model.parameters()).device
        images, labels = (t.to(device) for t in data.tensors)
        return (model(images).argmax(1) == labels).float().mean().item()


def run(processes, data, options):
    """Trains a fresh model. Returns it, the losses (process, epoch), and samples per second."""
    torch.manual_seed(options.seed)
    model = Net().to(options.device).share_memory()
    losses = torch.zeros(processes, options.epochs).share_memory_()
    context = mp.get_context(options.start_method)
    ready = context.Barrier(processes + 1)
    started = mp.start_processes(
        train,
        (model, data, options, losses, ready),
        nprocs=processes,
        join=False,
        start_method=options.start_method,
    )
    ready.wait()  # starting up is not what is measured
    begin = time.perf_counter()
    while not started.join():
        pass
    seconds = time.perf_counter() - begin
    return model, losses, processes * options.epochs * len(data) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start-method", choices=["fork", "spawn", "forkserver"], default="spawn")
    parser.add_argument("--device", default="cpu", help="where the model is: cpu or cuda")
    parser.add_argument("--compare", action="store_true", help="also train with one process")
    options = parser.parse_args()

    training, held_out = load_data()
    model, losses, rate = run(options.processes, training, options)
    for epoch in range(options.epochs):
        print(f"epoch {epoch + 1}: loss {losses[:, epoch].mean().item():.3f}")
    print(f"{options.processes} processes: {rate:,.0f} samples/s")
    if options.compare:
        _, _, alone = run(1, training, options)
        print(f"1 process: {alone:,.0f} samples/s; {rate / alone:.2f} times with the others")
    reached = accuracy(model, held_out)
    print(f"accuracy on held-out images: {reached:.3f}")
    assert losses[:, -1].mean() < losses[:, 0].mean() / 2, "the loss has not fallen"
    assert reached > 0.9, "the model has not learnt"


if __name__ == "__main__":
    main()
