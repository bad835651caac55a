"""Processes that start from nothing import torch again."""

import multiprocessing
import pickle
import sys

import torch


def work(rank, queue):
    queue.put((rank, torch.ones(2).sum().item(), torch.__version__))


if __name__ == "__main__":
    method = sys.argv[1]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    processes = [context.Process(target=work, args=(i, queue)) for i in range(2)]
    for p in processes:
        p.start()
    found = sorted(queue.get(timeout=60) for _ in processes)
    for p in processes:
        p.join()
    assert found == [(0, 2.0, torch.__version__), (1, 2.0, torch.__version__)], found
    assert pickle.loads(pickle.dumps(torch.nn.Linear(1, 1))).weight.shape == (1, 1)
    print("ok")
