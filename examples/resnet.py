"""Trains a residual network on images: your own, or made ones.

    python examples/resnet.py [--device cuda]          # made images, a small ResNet-18
    python examples/resnet.py --images photos --depth 50 --size 224

`--images` names a folder with one folder of pictures a class (read with Pillow). Without it every
class is a random pattern of waves, and an image is that pattern, shifted and buried in noise. The
depths are 18, 34 and 50; `--width` scales the channels, 64 being the paper's.
"""

import argparse
from pathlib import Path

from tqdm import tqdm

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a short cut."""

    expansion = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = make_shortcut(inputs, width, stride)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)), inplace=True)
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.shortcut(x), inplace=True)


class Bottleneck(nn.Module):
    """A 3x3 convolution on fewer channels, between two of 1x1, beside a short cut."""

    expansion = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = make_shortcut(inputs, outputs, stride)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)), inplace=True)
        h = F.relu(self.bn2(self.conv2(h)), inplace=True)
        h = self.bn3(self.conv3(h))
        return F.relu(h + self.shortcut(x), inplace=True)


def make_shortcut(inputs, outputs, stride):
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


DEPTHS = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}


class ResNet(nn.Module):
    def __init__(self, depth=18, classes=10, width=64):
        super().__init__()
        block, counts = DEPTHS[depth]
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages, channels = [], width
        for stage, count in enumerate(counts):
            blocks = []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(block(channels, width << stage, stride))
                channels = (width << stage) * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.head(self.stages(self.stem(x)))


def read_folder(folder, size):
    """Images of (n, 3, size, size), labels, and the names of the classes."""
    import numpy as np
    from PIL import Image

    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    images, labels = [], []
    for label, name in enumerate(classes):
        for path in sorted((folder / name).iterdir()):
            with Image.open(path) as image:
                scale = size / min(image.size)  # the short side becomes `size`, then the middle
                wide, high = (max(size, round(scale * n)) for n in image.size)
                left, top = (wide - size) // 2, (high - size) // 2
                image = image.convert("RGB").resize((wide, high))
                image = image.crop((left, top, left + size, top + size))
            images.append(torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1))
            labels.append(label)
    if not images:
        raise SystemExit(f"there are no pictures in {folder}: it needs one folder per class")
    return torch.stack(images).float() / 127.5 - 1, torch.tensor(labels), classes


def make_images(count, size, classes):
    """Every class is a sum of a few waves in three colours."""
    y, x = torch.meshgrid(torch.arange(size) / size, torch.arange(size) / size, indexing="ij")
    waves = torch.randint(1, 5, (classes, 3, 2)).float()
    phase = 2 * torch.pi * torch.rand(count, 3, 1, 1)
    labels = torch.arange(count) % classes
    w = waves[labels][..., None, None]
    images = torch.sin(2 * torch.pi * (w[:, :, 0] * x + w[:, :, 1] * y) + phase)
    return (
        images + torch.randn(count, 3, size, size),
        labels,
        [f"waves {i}" for i in range(classes)],
    )


@torch.no_grad()
def accuracy(model, images, labels, batch):
    model.eval()
    parts = zip(images.split(batch), labels.split(batch), strict=True)
    return sum((model(x).argmax(1) == y).sum().item() for x, y in parts) / len(labels)


def main(argv=None):
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--images", type=Path, help="one folder of pictures per class")
    parser.add_argument("--count", type=int, default=1000, help="how many images to make")
    parser.add_argument("--classes", type=int, default=10, help="of the made images")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--depth", type=int, default=18, choices=DEPTHS)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)

    if args.images:
        images, labels, classes = read_folder(args.images, args.size)
    else:
        images, labels, classes = make_images(args.count, args.size, args.classes)
    images, labels = images.to(args.device), labels.to(args.device)
    order = torch.randperm(len(labels))
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    model = ResNet(args.depth, len(classes), args.width).to(args.device)
    print(f"ResNet-{args.depth}: {sum(p.numel() for p in model.parameters()):,} parameters; "
          f"{len(train)} images of {len(classes)} classes, {len(test)} held out")  # fmt: skip

    steps = args.epochs * -(-len(train) // args.batch)
    optimizer = optim.SGD(
        model.parameters(), lr=args.rate, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses, held_out = [], 0.0
    with tqdm(total=steps, unit="step") as bar:
        for _ in range(args.epochs):
            model.train()
            for batch in train[torch.randperm(len(train))].split(args.batch):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(images[batch]), labels[batch], label_smoothing=0.1)
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                bar.update()
            held_out = accuracy(model, images[test], labels[test], args.batch)
            bar.set_postfix(loss=f"{losses[-1]:.3f}", held_out=f"{held_out:.1%}")
    print(f"accuracy on the held-out images: {held_out:.1%}")
    return losses, held_out


if __name__ == "__main__":
    main()
