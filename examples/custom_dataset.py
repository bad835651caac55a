"""Trains on data of one's own: a Dataset that reads files, and a DataLoader that batches them.

    python examples/custom_dataset.py [--workers 2] [--folder runs/signals] [--device cuda]

A Dataset is a class with `__len__` and `__getitem__`. This one reads a recording from its file when
it is asked for it, so it holds nothing in memory; the recordings have different lengths, so a
`collate_fn` pads them to the longest of the batch. The DataLoader shuffles, batches, and lets
worker processes read ahead. (The files are made when the folder is missing: chirps that rise, fall,
or warble, in noise.) Half a minute on two cores.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, Dataset, random_split

KINDS = ["rising", "falling", "warbling"]


def make_recordings(folder, count, seed):
    """Writes `count` files of samples, and an index that says what each of them is."""
    chance = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    index = []
    for i in range(count):
        kind = i % len(KINDS)
        time = np.arange(chance.integers(200, 400)) / 400
        low, high = chance.uniform(10, 20), chance.uniform(40, 60)
        slope = [time, time[-1] - time, 0.5 + 0.5 * np.sin(12 * time)][kind]
        phase = np.cumsum(low + (high - low) * slope) * 2 * np.pi / 400
        signal = np.sin(phase) + chance.normal(0, 0.7, len(time))
        np.save(folder / f"{i:05}.npy", signal.astype(np.float32))
        index.append({"file": f"{i:05}.npy", "kind": KINDS[kind]})
    (folder / "index.json").write_text(json.dumps(index))


class Recordings(Dataset):
    """The recordings of a folder, by number: (samples, kind)."""

    def __init__(self, folder, transform=None):
        self.folder = Path(folder)
        self.index = json.loads((self.folder / "index.json").read_text())
        self.transform = transform

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        entry = self.index[i]
        samples = torch.from_numpy(np.load(self.folder / entry["file"]))
        if self.transform:
            samples = self.transform(samples)
        return samples, KINDS.index(entry["kind"])


def loudness_one(samples):
    """A transform: the same loudness for all."""
    return (samples - samples.mean()) / samples.std()


def pad_batch(items):
    """Recordings of different lengths become one tensor (batch, time) and their lengths."""
    recordings, kinds = zip(*items, strict=True)
    lengths = torch.tensor([len(r) for r in recordings])
    return nn.utils.rnn.pad_sequence(recordings, batch_first=True), lengths, torch.tensor(kinds)


class Listener(nn.Module):
    """Convolutions over time, then the mean over what is not padding."""

    def __init__(self, width=32, kinds=3):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, stride=2, padding=4),
            nn.ReLU(),
            nn.Conv1d(width, width, 9, stride=2, padding=4),
            nn.ReLU(),
            nn.Conv1d(width, width, 9, stride=2, padding=4),
            nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, kinds)

    def forward(self, samples, lengths):
        h = self.net(samples.unsqueeze(1))  # (batch, width, time / 8)
        time = torch.arange(h.shape[2], device=h.device)
        inside = (time < (lengths[:, None] / 8).ceil()).unsqueeze(1)
        early = (time < (lengths[:, None] / 16).ceil()).unsqueeze(1)
        mean = (h * inside).sum(2) / inside.sum(2)
        first = (h * early).sum(2) / early.sum(2)  # the first half tells rising from falling
        return self.head(torch.cat([mean, first], dim=1))


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/signals"))
    parser.add_argument("--count", type=int, default=1500, help="recordings to make")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    if not args.folder.exists():
        make_recordings(args.folder, args.count, args.seed)
    dataset = Recordings(args.folder, transform=loudness_one)
    train_set, test_set = random_split(dataset, [0.8, 0.2])
    options = {"batch_size": args.batch, "collate_fn": pad_batch, "num_workers": args.workers}
    train_loader = DataLoader(train_set, shuffle=True, **options)
    test_loader = DataLoader(test_set, **options)

    model = Listener().to(args.device)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    with tqdm(range(args.epochs), unit="epoch") as bar:
        for _ in bar:
            total = 0.0
            for batch in train_loader:
                samples, lengths, kinds = (part.to(args.device) for part in batch)
                optimizer.zero_grad()
                loss = F.cross_entropy(model(samples, lengths), kinds)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(kinds)
            losses.append(total / len(train_set))
            bar.set_postfix(loss=f"{losses[-1]:.3f}")

    right = 0
    with torch.no_grad():
        for batch in test_loader:
            samples, lengths, kinds = (part.to(args.device) for part in batch)
            right += (model(samples, lengths).argmax(1) == kinds).sum().item()
    print(f"{right / len(test_set):.1%} of {len(test_set)} held-out recordings told apart")
    return losses, right / len(test_set)


if __name__ == "__main__":
    main()
