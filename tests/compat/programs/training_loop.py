"""A training script as of 2020: argparse, seeds, device, schedule, checkpoint."""

import argparse
import os
import random
import tempfile

import numpy as np
import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.bn = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width * 4 * 4, 3)
        self.dropout = nn.Dropout(0.1)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv1(x)), inplace=True), 2)
        x = torch.flatten(x, 1)
        return F.log_softmax(self.fc(self.dropout(x)), dim=1)


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    cudnn.deterministic = True
    cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    set_seed(0)
    use_cuda = torch.cuda.is_available()
    device = torch.device(
        "cuda" if use_cuda else "mps" if torch.backends.mps.is_available() else "cpu"
    )
    x = torch.randn(96, 1, 8, 8)
    y = torch.randint(0, 3, (96,))
    x[torch.arange(96), 0, y, y] += 4.0
    model = Net(8).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    scheduler = CosineAnnealingLR(optimizer, T_max=args.epochs)
    best = float("inf")
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for i in range(0, 96, 32):
            data, target = x[i : i + 32].to(device, non_blocking=True), y[i : i + 32].to(device)
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item() * data.size(0)
        scheduler.step()
        best = min(best, total / 96)
        print(f"Epoch {epoch}: {total / 96:.4f}, lr {scheduler.get_last_lr()[0]:.4f}")
    model.eval()
    with torch.no_grad():
        pred = model(x.to(device)).argmax(dim=1, keepdim=True)
        correct = pred.eq(y.to(device).view_as(pred)).sum().item()
    assert correct > 80, correct
    path = os.path.join(tempfile.mkdtemp(), "model.pt")
    torch.save({"model": model.state_dict(), "optim": optimizer.state_dict(), "epoch": epoch}, path)
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optim"])
    assert isinstance(StepLR(optimizer, 1), torch.optim.lr_scheduler.LRScheduler)
    print("ok")


if __name__ == "__main__":
    main()
