"""A loop with accelerate on two processes, by each of its launchers."""

import sys

import torch
from accelerate import Accelerator, debug_launcher, notebook_launcher
from torch.utils.data import DataLoader, TensorDataset


def train(expected):
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == expected, accelerator.num_processes
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    y = x @ torch.tensor([[1.0], [-2.0], [3.0]])
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 30, 0.5)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for _ in range(10):
        for inputs, target in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(inputs), target)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    losses = accelerator.gather_for_metrics(loss.detach().reshape(1))
    weights = accelerator.gather(accelerator.unwrap_model(model).weight)
    assert losses.numel() == expected and weights.shape == (expected, 3)
    assert bool((weights == weights[0]).all()), weights
    assert abs(float(weights[0, 2]) - 3) < 0.2, weights
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    if sys.argv[1] == "debug":
        debug_launcher(train, args=(2,), num_processes=2)
    elif sys.argv[1] == "notebook":
        notebook_launcher(train, args=(2,), num_processes=2, use_port=sys.argv[2])
    else:
        train(2)
    print("ok", flush=True)
