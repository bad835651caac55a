"""The steps of a first RPC program: an agent that asks observers for episodes by RRefs, an RNN
whose embedding and decoder live elsewhere, trained by distributed autograd and optimiser."""

import itertools
import os
import sys

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import torch.nn as nn
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef, remote, rpc_async, rpc_sync


class Observer:
    def __init__(self):
        self.id = rpc.get_worker_info().id

    def run_episode(self, agent, steps):
        state = torch.zeros(2)
        for _ in range(steps):
            action = rpc_sync(agent.owner(), _call, args=(Agent.select, agent, self.id, state))
            state = state + action
        return self.id, float(state.sum())


def _call(method, rref, *args, **kwargs):
    return method(rref.local_value(), *args, **kwargs)


class Agent:
    def __init__(self, world_size):
        self.seen = []
        self.me = RRef(self)
        self.observers = [
            remote(rpc.get_worker_info(f"worker{i}"), Observer) for i in range(1, world_size)
        ]

    def select(self, observer, state):
        self.seen.append(observer)
        return torch.full_like(state, float(observer))

    def run(self, steps):
        calls = [
            rpc_async(o.owner(), _call, args=(Observer.run_episode, o, self.me, steps))
            for o in self.observers
        ]
        return [call.wait() for call in calls]


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(20, 8)

    def forward(self, ids):
        return self.embedding(ids)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.linear = nn.Linear(8, 20)

    def forward(self, x):
        return self.linear(x)


def _parameters(rref):
    return [RRef(p) for p in rref.local_value().parameters()]


class Recurrent(nn.Module):
    def __init__(self, server):
        super().__init__()
        torch.manual_seed(3)
        self.table = remote(server, Table)
        self.rnn = nn.LSTM(8, 8)
        self.decoder = remote(server, Decoder)

    def forward(self, ids):
        inputs = rpc_sync(self.table.owner(), _call, args=(Table.forward, self.table, ids))
        hidden, _ = self.rnn(inputs)
        return rpc_sync(self.decoder.owner(), _call, args=(Decoder.forward, self.decoder, hidden))

    def rrefs(self):
        own = [RRef(p) for p in self.rnn.parameters()]
        for part in (self.table, self.decoder):
            own += rpc_sync(part.owner(), _parameters, args=(part,))
        return own


def train():
    model = Recurrent("worker1")
    optimizer = DistributedOptimizer(torch.optim.SGD, model.rrefs(), lr=0.5)
    ids = torch.randint(0, 20, (6, 4), generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(8):
        with dist_autograd.context() as context_id:
            logits = model(ids[:-1])
            loss = nn.functional.cross_entropy(logits.reshape(-1, 20), ids[1:].reshape(-1))
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        losses.append(loss.item())
    # Two threads of the server draw weights from one generator: what falls is not always the same.
    assert all(b < a for a, b in itertools.pairwise(losses)), losses
    assert losses[-1] < 0.97 * losses[0], losses


def work(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = port
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=16, rpc_timeout=60)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank == 0:
        agent = Agent(world_size)
        assert agent.run(3) == [(i, 6.0 * i) for i in range(1, world_size)]
        assert sorted(agent.seen) == sorted(list(range(1, world_size)) * 3)
        train()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(work, args=(3, sys.argv[1]), nprocs=3, join=True)
    print("ok")
