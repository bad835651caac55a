"""A convolutional classifier: data set, loaders, loops with progress, a checkpoint."""

import argparse
import tempfile
from pathlib import Path

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.utils.data import DataLoader, Dataset, random_split


class Stripes(Dataset[tuple[torch.Tensor, int]]):
    """Pictures with stripes that lie or stand."""

    def __init__(self, count: int, size: int = 12) -> None:
        self.count, self.size = count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        label = index % 2
        wave = torch.sin(torch.arange(self.size) * 1.5 + index)
        picture = wave.expand(self.size, self.size)
        if label:
            picture = picture.t()
        return (picture + 0.1 * torch.randn(self.size, self.size)).unsqueeze(0), label


class Net(nn.Module):
    def __init__(self, classes: int = 2):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3),
            nn.GELU(),
            nn.AdaptiveAvgPool2d((2, 2)),
        )
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(16 * 4, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        return F.log_softmax(self.head(self.dropout(x)), dim=1)


def train(
    model: nn.Module, loader: DataLoader, optimizer: optim.Optimizer, device: torch.device
) -> float:
    model.train()
    total = 0.0
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(data)
    return total / len(loader.dataset)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    correct, seen = 0, 0
    for data, target in loader:
        pred = model(data.to(device)).argmax(dim=1, keepdim=True)
        correct += pred.eq(target.to(device).view_as(pred)).sum().item()
        seen += target.size(0)
    return correct / seen


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args(arguments)
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, test_set = random_split(Stripes(96), [64, 32])
    train_loader = DataLoader(train_set, batch_size=16, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=32)
    model = Net().to(device)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.05, epochs=args.epochs, steps_per_epoch=len(train_loader)
    )
    for epoch in range(args.epochs):
        loss = train(model, train_loader, optimizer, device)
        print(f"epoch {epoch}: loss {loss:.4f}, lr {scheduler.get_last_lr()[0]:.4f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torch.save({"model": model.state_dict(), "epoch": args.epochs}, path)
        checkpoint = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(checkpoint["model"])
    accuracy = evaluate(model, test_loader, device)
    print(f"accuracy {100 * accuracy:.1f}%")
    return accuracy


if __name__ == "__main__":
    main([])
