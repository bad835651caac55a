"""A parameter server: trainers compute gradients, one worker holds the model and applies them.

    python examples/parameter_server.py [--trainers 2] [--epochs 4] [--together] [--simulate]

Each trainer goes through its share of the data in its own time, sends gradients by remote calls and
gets the newest parameters back. Nobody waits for anybody, so gradients may be of parameters that
are a few steps old: Hogwild over a network (Dean et al., "Large scale distributed deep networks",
2012).
With --together the server waits for one gradient of every trainer and applies their mean: the calls
are answered later (rpc.functions.async_execution), and no thread of the server waits meanwhile.

Calls between processes need Ray (pip install ray); --simulate runs the workers as threads instead.
Over several machines, start Ray there, set RAY_ADDRESS, MASTER_ADDR and MASTER_PORT, and call
`run(rank, ...)` once per worker. The data are scikit-learn's handwritten digits.
"""

import argparse
import os
import socket
import threading

from sklearn.datasets import load_digits

import rushlight as torch
import rushlight.distributed as dist
import rushlight.multiprocessing as mp
from rushlight import nn
from rushlight.distributed import rpc
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def load_data():
    pixels, target = load_digits(return_X_y=True)
    x = torch.tensor(pixels, dtype=torch.float32) / 16
    y = torch.tensor(target)
    return (x[:1500], y[:1500]), (x[1500:], y[1500:])


class ParameterServer:
    """Lives on worker 0; its methods are called by the trainers, several at the same time."""

    def __init__(self, lr):
        self.model = make_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.lock = threading.Lock()
        self.steps = 0
        self.trainers = 0
        self.together = []  # of this round: (gradients, the future that answers)

    def join(self):
        with self.lock:
            self.trainers += 1
        return self.parameters()

    def parameters(self):
        return [p.detach().clone() for p in self.model.parameters()]

    def apply(self, grads):
        for p, grad in zip(self.model.parameters(), grads, strict=True):
            p.grad = grad
        self.optimizer.step()
        self.steps += 1

    def push(self, grads):
        """Hogwild: whoever comes is served at once."""
        with self.lock:
            self.apply(grads)
            return self.parameters()

    @rpc.functions.async_execution
    def push_together(self, grads):
        """Answered when every trainer has sent its gradients."""
        future = torch.futures.Future()
        with self.lock:
            self.together.append((grads, future))
            self.apply_together()
        return future

    def apply_together(self):
        if len(self.together) < self.trainers or not self.together:
            return
        rounds, self.together = self.together, []
        self.apply([sum(g) / len(rounds) for g in zip(*(g for g, _ in rounds), strict=True)])
        newest = self.parameters()
        for _, future in rounds:
            future.set_result(newest)

    def leave(self):
        """A trainer is done; the others need not wait for it."""
        with self.lock:
            self.trainers -= 1
            self.apply_together()

    def accuracy(self):
        _, (x, y) = load_data()
        with torch.no_grad():
            return (self.model(x).argmax(1) == y).float().mean().item()


def train(server, share, shares, epochs, together):
    """One trainer: its share of the data, and a copy of the model for the newest parameters."""
    (x, y), _ = load_data()
    loader = DataLoader(TensorDataset(x[share::shares], y[share::shares]), 32, shuffle=True)
    model = make_model()
    parameters = server.rpc_sync().join()
    losses = []
    for _ in range(epochs):
        for inputs, labels in loader:
            with torch.no_grad():
                for p, newest in zip(model.parameters(), parameters, strict=True):
                    p.copy_(newest)
            model.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            push = server.rpc_sync().push_together if together else server.rpc_sync().push
            parameters = push([p.grad for p in model.parameters()])
            losses.append(loss.item())
    server.rpc_sync().leave()
    return losses


def run(rank, trainers, epochs, together, lr):
    """Worker 0 holds the server and waits; the others train."""
    name = "server" if rank == 0 else f"trainer{rank}"
    rpc.init_rpc(name, rank=rank, world_size=trainers + 1)
    result = None
    if rank == 0:
        server = rpc.RRef(ParameterServer(lr))
        calls = [
            rpc.rpc_async(f"trainer{i + 1}", train, (server, i, trainers, epochs, together),
                          timeout=0)
            for i in range(trainers)
        ]  # fmt: skip
        losses = [call.wait() for call in calls]
        accuracy = server.local_value().accuracy()
        steps = server.local_value().steps
        print(f"{steps} steps of {trainers} trainers, accuracy {accuracy:.1%}", flush=True)
        result = losses, accuracy, steps
    rpc.shutdown()
    return result


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--together", action="store_true", help="one step for all trainers' means")
    parser.add_argument("--simulate", action="store_true", help="workers as threads, without Ray")
    args = parser.parse_args(arguments)
    options = args.trainers, args.epochs, args.together, args.lr
    if args.simulate:
        return dist.simulate(args.trainers + 1, run, *options)[0]
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    mp.spawn(run, args=options, nprocs=args.trainers + 1)


if __name__ == "__main__":
    main()
