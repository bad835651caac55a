"""Without annotations, as most programs are: LBFGS, grids of settings, early stopping, plots."""

import itertools
import json

import rushlight as torch
import rushlight.nn as nn
from rushlight.utils.data import (
    ConcatDataset,
    DataLoader,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)


def make_data(n=64, noise=0.1):
    x = torch.rand(n, 1) * 6 - 3
    y = torch.sin(x) + noise * torch.randn(n, 1)
    return x, y


def make_model(hidden, act):
    layers = []
    for i, o in zip([1, *hidden], [*hidden, 1]):
        layers += [nn.Linear(i, o), act()]
    return nn.Sequential(*layers[:-1])


def fit_adam(model, train, valid, epochs=60, patience=10):
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=3)
    best, best_state, bad = float("inf"), None, 0
    history = {"train": [0.0], "valid": [float("inf")]}
    for epoch in range(epochs):
        model.train()
        losses = []
        for xb, yb in train:
            loss = nn.functional.huber_loss(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            v = sum(nn.functional.mse_loss(model(xb), yb).item() * len(xb) for xb, yb in valid)
        sched.step(v)
        history["train"].append(sum(losses) / len(losses))
        history["valid"].append(v)
        if v < best:
            best, bad = v, 0
            best_state = {k: t.clone() for k, t in model.state_dict().items()}
        else:
            bad += 1
            if bad > patience:
                break
    if best_state is not None:
        model.load_state_dict(best_state)
    return history


def fit_lbfgs(model, x, y):
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=20, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss

    losses = [opt.step(closure).item() for _ in range(5)]
    return losses[-1]


def main():
    torch.manual_seed(0)
    x, y = make_data()
    whole = TensorDataset(x, y)
    data = ConcatDataset([Subset(whole, range(0, 48)), Subset(whole, range(48, 64))])
    weights = torch.ones(len(data))
    train = DataLoader(
        data, batch_size=16, sampler=WeightedRandomSampler(weights.tolist(), len(data))
    )
    valid = DataLoader(data, batch_size=64)
    results = {}
    for width, act in itertools.product([8, 16], [nn.Tanh, nn.ReLU]):
        model = make_model([width], act)
        history = fit_adam(model, train, valid, epochs=6)
        results[f"{width}-{act.__name__}"] = min(history["valid"])
    print(json.dumps(results, indent=2))
    final = fit_lbfgs(make_model([16], nn.Tanh), x, y)
    print("lbfgs: %.4f" % final)
    return final


if __name__ == "__main__":
    main()
