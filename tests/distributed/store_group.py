"""A process group as a user writes it: tensors travel through the store. For tests of
Backend.register_backend, in threads and in processes."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed.distributed_c10d import _create_work_from_future
from rushlight.futures import Future

UFUNCS = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}


class LaterWork(dist.Work):
    """Done by whoever waits."""

    def __init__(self, action):
        super().__init__()
        self._action, self._source = action, None

    def wait(self, timeout=None):
        if self._action is not None:
            self._source, self._action = self._action(), None
        return True

    def is_completed(self):
        return self._action is None

    def _source_rank(self):
        return self._source


class StoreGroup(dist.ProcessGroup):
    """Every rank writes what it gives under the number of the collective, and reads the others'."""

    made: list = []  # noqa: RUF012 -- what the tests look at

    def __init__(self, store, rank, size, timeout, options=None):
        super().__init__(rank, size)
        self.store, self.timeout, self.options = store, timeout, options
        self.calls, self.count, self.sent, self.closed = [], 0, {}, False
        self.worker = ThreadPoolExecutor(1)
        self.made.append(self)

    def getBackendName(self):
        return "board"

    def shutdown(self):
        self.closed = True
        self.worker.shutdown()

    def _exchange(self, name, given):
        """What all ranks give, as NumPy arrays, in the order of ranks."""
        self.calls.append(name)
        self.count += 1
        arrays = [t.detach().numpy() for t in given]
        self.store.set(f"{self.count}/{self.rank()}", pickle.dumps(arrays))
        keys = [f"{self.count}/{r}" for r in range(self.size())]
        return [pickle.loads(self.store.get(key)) for key in keys]

    @staticmethod
    def _fill(outputs, arrays):
        for out, array in zip(outputs, arrays, strict=True):
            out.detach().copy_(rl.from_numpy(np.ascontiguousarray(array)).reshape(out.shape))

    def _reduced(self, arrays, op):
        return UFUNCS[op.name].reduce(arrays)

    def allreduce(self, tensors, opts):
        assert len(tensors) == 1
        future = Future()
        asked = list(tensors)

        def carry():
            try:
                given = self._exchange("allreduce", asked)
                self._fill(asked, [self._reduced([g[0] for g in given], opts.reduceOp)])
                future.set_result(asked)
            except Exception as error:
                future.set_exception(error)

        self.worker.submit(carry)
        return _create_work_from_future(future)

    def allreduce_coalesced(self, tensors, opts):
        given = self._exchange("allreduce_coalesced", tensors)
        columns = zip(*given, strict=True)
        self._fill(tensors, [self._reduced(column, opts.reduceOp) for column in columns])

    def broadcast(self, tensors, opts):
        def carry():
            given = self._exchange("broadcast", tensors)
            self._fill(tensors, given[opts.rootRank])

        return LaterWork(carry)

    def reduce(self, tensors, opts):
        given = self._exchange("reduce", tensors)
        if self.rank() == opts.rootRank:
            self._fill(tensors, [self._reduced([g[0] for g in given], opts.reduceOp)])

    def allgather(self, output_lists, inputs, opts):
        given = self._exchange("allgather", inputs)
        self._fill(output_lists[0], [g[0] for g in given])

    def _allgather_base(self, output, given, opts):
        parts = self._exchange("_allgather_base", [given])
        self._fill([output], [np.concatenate([g[0].reshape(-1) for g in parts])])

    def gather(self, output_lists, inputs, opts):
        given = self._exchange("gather", inputs)
        assert bool(output_lists) == (self.rank() == opts.rootRank)
        if output_lists:
            self._fill(output_lists[0], [g[0] for g in given])

    def scatter(self, outputs, input_lists, opts):
        given = self._exchange("scatter", input_lists[0] if input_lists else [])
        self._fill(outputs, [given[opts.rootRank][self.rank()]])

    def reduce_scatter(self, outputs, input_lists, opts):
        given = self._exchange("reduce_scatter", input_lists[0])
        mine = [g[self.rank()] for g in given]
        self._fill(outputs, [self._reduced(mine, opts.reduceOp)])

    def reduce_scatter_single(self, output, given, opts):
        parts = self._exchange("reduce_scatter_single", [given])
        total = self._reduced([g[0].reshape(self.size(), -1) for g in parts], opts.reduceOp)
        self._fill([output], [total[self.rank()]])

    def alltoall(self, outputs, inputs, opts):
        given = self._exchange("alltoall", inputs)
        self._fill(outputs, [g[self.rank()] for g in given])

    def alltoall_base(self, output, given, output_splits, input_splits, opts):
        parts = list(given.split(input_splits))
        came = self._exchange("alltoall_base", parts)
        self._fill(list(output.split(output_splits)), [g[self.rank()] for g in came])

    def send(self, tensors, dst, tag):
        number = self.sent[dst, tag] = self.sent.get((dst, tag), 0) + 1
        key = f"message/{self.rank()}/{dst}/{tag}/{number}"
        self.store.set(key, pickle.dumps(tensors[0].numpy()))

    def recv(self, tensors, src, tag):
        def carry():
            number = self.sent["from", src, tag] = self.sent.get(("from", src, tag), 0) + 1
            key = f"message/{src}/{self.rank()}/{tag}/{number}"
            self._fill(tensors, [pickle.loads(self.store.get(key))])
            return src

        return LaterWork(carry)

    def recv_anysource(self, tensors, tag):
        assert self.size() == 2
        return self.recv(tensors, 1 - self.rank(), tag)

    def barrier(self, opts):
        self._exchange("barrier", [])


def register(name="board", **options):
    dist.Backend.register_backend(name, StoreGroup, **{"devices": ["cpu"], **options})
