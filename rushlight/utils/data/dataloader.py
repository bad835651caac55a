"""DataLoader: batches of a dataset, shuffled, collated, by other processes if asked for."""

from __future__ import annotations

import collections
import itertools
import multiprocessing
import operator
import os
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rushlight._C import Generator
from rushlight.types import Self
from rushlight.utils.data import _utils
from rushlight.utils.data._utils import resume
from rushlight.utils.data._utils.collate import default_collate, default_convert
from rushlight.utils.data._utils.fetch import NO_SAMPLE, _DatasetKind
from rushlight.utils.data._utils.seeding import Randomness
from rushlight.utils.data._utils.worker import get_worker_info
from rushlight.utils.data.dataset import Dataset, IterableDataset
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

_T_co = TypeVar("_T_co", covariant=True)
# PyTorch's names for the types of two arguments, which libraries import for their own signatures.
_T = TypeVar("_T")
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[_T]], Any]


class _InfiniteConstantSampler(Sampler):
    """None for ever: an iterable dataset knows itself what comes next."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(None)


class DataLoader(Generic[_T_co]):
    """Batches of a dataset, collected by worker processes if asked for.

    docs/data.md says what the loader does.

    Arguments:
        dataset: samples by key (Dataset, list, ...) or a stream (IterableDataset).
        batch_size: samples per batch; None gives them one by one, as they are.
        shuffle: another order every epoch.
        sampler: the order of keys, in place of shuffle.
        batch_sampler: whole batches of keys, in place of batch_size, shuffle, sampler and
            drop_last.
        num_workers: processes that load samples; 0 loads them in this one.
        collate_fn: makes a batch of a list of samples; None is default_collate.
        pin_memory: put batches into page-locked memory, from which copies to a GPU are faster.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a worker; 0 waits for ever.
        worker_init_fn: is called with its number in every worker.
        multiprocessing_context: 'fork', 'spawn' or 'forkserver', or a context.
        generator: where the order and the seeds of workers come from.
        prefetch_factor: batches that each worker prepares ahead; None is 2.
        persistent_workers: keep workers from epoch to epoch.
        pin_memory_device: accepted; the current GPU is meant.
        in_order: give batches in their order, even where a later one is ready first.

    Example:
        >>> data = rl.utils.data.TensorDataset(rl.arange(5.0), rl.arange(5))
        >>> for x, y in rl.utils.data.DataLoader(data, batch_size=2, drop_last=True):
        ...     print(x, y)
        tensor([0., 1.]) tensor([0, 1])
        tensor([2., 3.]) tensor([2, 3])
    """

    # Changing these later would not change the samplers that were made from them.
    _FIXED = (
        "batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers",
    )  # fmt: skip
    _initialized = False
    _iterator: Any = None
    _epoch = None  # the pass that runs, or ran last
    _resume_from = None  # what load_state_dict left for the next pass

    def __init__(
        self,
        dataset: Dataset[_T_co] | Sequence[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        num_workers = _count("num_workers", num_workers)
        _check_worker_arguments(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset: Any = dataset  # `len` of it is asked for, which not every dataset has
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self._is_iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if self._is_iterable else _DatasetKind.Map
        if self._is_iterable:
            _check_iterable_arguments(shuffle, sampler, batch_sampler)
        self._make_samplers(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._length_asked: int | None = None  # of an iterable dataset, to check it later
        self._initialized = True
        self.check_worker_number_rationality()

    def _make_samplers(self, batch_size, shuffle, sampler, batch_sampler, drop_last):
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            if self._is_iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(self.dataset, generator=self.generator)
            else:
                sampler = SequentialSampler(self.dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            context = _checked_context(context, self.num_workers)
        self._multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in self._FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        if _workers_of_next_pass(self) == 0:
            return _SingleProcessDataLoaderIter(self)
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> Iterator[Any]:
        if not self.persistent_workers or _workers_of_next_pass(self) == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _next_epoch(self):
        """Begins a pass, or takes up the one that load_state_dict brought."""
        state, self._resume_from = self._resume_from, None
        self._epoch = resume.Epoch(self) if state is None else resume.Epoch.resumed(self, state)
        return self._epoch

    def __len__(self) -> int:
        if not self._is_iterable:
            return len(self._index_sampler)
        length = self._length_asked = len(self.dataset)
        if self.batch_size is None:
            return length
        whole, rest = divmod(length, self.batch_size)
        return whole if self.drop_last or rest == 0 else whole + 1

    def check_worker_number_rationality(self) -> None:
        """Warns when there are to be more workers than processors for them."""
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        if self.num_workers and processors and self.num_workers > processors:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes, and it "
                f"may use {processors} processors: more workers than that can be slower",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, also in the middle of an epoch, as plain values."""
        return resume.loader_state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next pass go on where state_dict() was taken, with any number of workers."""
        self._resume_from = resume.load_loader_state(self, state_dict)
        self._epoch = None

    def __getstate__(self) -> Any:
        # A pass that runs belongs to this process.
        return {**self.__dict__, "_iterator": None, "_epoch": None}


def _workers_of_next_pass(loader):
    """The order of a stream depends on the number of workers, so a pass keeps that number."""
    state = loader._resume_from
    if loader._is_iterable and state is not None:
        return state["num_workers"]
    return loader.num_workers


def _count(name, value):
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"DataLoader: {name} must be an int, got {value!r} ({type(value).__name__})"
        ) from None


def _check_worker_arguments(num_workers, timeout, prefetch_factor, persistent_workers):
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing: let "
            "num_workers > 0, or set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable_arguments(shuffle, sampler, batch_sampler):
    for name, value, unset in (
        ("shuffle", shuffle, (None, False)),
        ("sampler", sampler, (None,)),
        ("batch_sampler", batch_sampler, (None,)),
    ):
        if not any(value is each for each in unset):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _checked_context(context, num_workers):
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            f"0), but got num_workers={num_workers}"
        )
    if isinstance(context, str):
        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{known!r}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context


class _BaseDataLoaderIter:
    """One pass over the batches."""

    def __init__(self, loader: Any) -> None:
        # A loader holds the iterator of its persistent workers. If that held the loader in turn,
        # nobody but the garbage collector would end them.
        self._loader = weakref.ref(loader)
        self._index_sampler = loader._index_sampler
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._auto_collation = loader._auto_collation
        self._collate_fn = loader.collate_fn
        self._drop_last = loader.drop_last
        self._num_workers = loader.num_workers
        self._timeout = loader.timeout
        self._pin_memory = loader.pin_memory and _can_pin()
        self._begin(loader)

    def _begin(self, loader):
        self._epoch = loader._next_epoch()
        self._base_seed = self._epoch.seed

    def _reset(self, loader):
        self._begin(loader)

    @property
    def _num_yielded(self):
        return self._epoch.yielded

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __next__(self) -> Any:
        try:
            data = self._next_data()  # type: ignore[attr-defined]
        except StopIteration:
            self._epoch.finished = True
            raise
        loader = self._loader()
        asked = None if loader is None else loader._length_asked
        if asked is not None and self._epoch.yielded > len(loader):  # type: ignore[arg-type]
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {asked} (when "
                f"accessing len(dataloader)), but {self._epoch.yielded} samples have been fetched. "
                "With several workers this can mean that each of them yields the whole stream: "
                "see get_worker_info.",
                stacklevel=2,
            )
        return data

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


def _can_pin():
    from rushlight import cuda

    if cuda.is_available():
        return True
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
        "memory won't be used.",
        stacklevel=4,
    )
    return False


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches made where they are used."""

    def __init__(self, loader: Any) -> None:
        # (A state of a stream that was saved without workers runs here, whatever the loader has.)
        if loader.timeout != 0 and loader.num_workers == 0:
            raise AssertionError(
                "DataLoader requires timeout == 0 without workers: nobody can break off a dataset "
                f"that runs in the same process (timeout={loader.timeout}, num_workers=0)"
            )
        super().__init__(loader)

    def _begin(self, loader):
        super()._begin(loader)
        self._randomness = Randomness(self._base_seed)
        # A stream that is taken up has to be run through again.
        self._to_skip = self._epoch.by_worker[0] if loader._is_iterable else 0
        with self._randomness:
            self._fetcher = _DatasetKind.create_fetcher(
                self._dataset_kind,
                self._dataset,
                self._auto_collation,
                self._collate_fn,
                self._drop_last,
                self._randomness,
            )

    def _next_data(self):
        number, keys = self._epoch.draw()
        with self._randomness:
            try:
                if self._to_skip:
                    to_skip, self._to_skip = self._to_skip, 0
                    self._fetcher.skip(to_skip, keys)
                data = self._fetcher.fetch(number, keys)
                self._epoch.hand_out(number)
            except StopIteration:
                raise
            except Exception as error:
                self._epoch.hand_out(number)
                key = self._fetcher.failed_at
                if key is not NO_SAMPLE and hasattr(error, "add_note"):
                    error.add_note(f"(raised by the dataset for sample {key!r})")
                raise
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches made by worker processes.

    Batches are numbered in the order of the sampler and, unless in_order is False, handed out in
    it. Number i is asked of the worker whose turn it is; at most prefetch_factor batches per worker
    are under way.
    """

    def __init__(self, loader: Any) -> None:
        from rushlight.utils.data._utils.pool import WorkerPool

        if loader.prefetch_factor is not None and loader.prefetch_factor <= 0:
            raise AssertionError(
                "DataLoader: prefetch_factor must be greater than 0 for workers to have something "
                f"to do, got {loader.prefetch_factor}"
            )
        self._pool = None
        self._pinning = None
        self._serial = 0  # which pass; answers to an earlier one are dropped
        super().__init__(loader)
        self._in_order = loader.in_order
        self._persistent_workers = loader.persistent_workers
        self._prefetch = loader.prefetch_factor or 2
        self._pool = WorkerPool(loader, self._num_workers, self._base_seed)
        self._start_pass()

    def _begin(self, loader):
        super()._begin(loader)
        if loader._is_iterable:
            self._num_workers = self._epoch.num_workers

    def _reset(self, loader):
        self._stop_pinning()
        self._leave_lost_workers()
        if self._pool is None:
            self.__init__(loader)
            return
        super()._reset(loader)
        if self._pool.size != self._num_workers:  # a stream taken up with its own number
            self._shutdown_workers()
            from rushlight.utils.data._utils.pool import WorkerPool

            self._pool = WorkerPool(loader, self._num_workers, self._base_seed)
        self._start_pass()

    def _leave_lost_workers(self):
        """Workers that are gone, whether that was reported or happened while they were idle, do
        not end the loader: the next pass begins with new ones."""
        if self._pool is None:
            return
        if not self._pool.closed:
            lost = self._pool.lost()
            if lost is None:
                return
            warnings.warn(f"{lost} The workers are started again.", stacklevel=4)
        self._shutdown_workers(hurry=True)

    def _start_pass(self):
        self._serial += 1
        self._under_way = {}  # number -> worker
        self._arrived = {}  # number -> answer
        self._asked = collections.deque()  # numbers, in the order in which they are handed out
        self._keys_left = True
        epoch, iterable = self._epoch, self._dataset_kind == _DatasetKind.Iterable
        # A stream has to be run through again; of other datasets the sampler skips the keys.
        done = epoch.by_worker if iterable else [0] * self._num_workers
        self._turn = epoch.turn if iterable else 0
        self._pool.begin_epoch(self._serial, self._base_seed, done)
        for _ in range(self._prefetch * self._num_workers):
            self._ask_for_one()
        if self._pin_memory:
            self._pinning = _utils.pin_memory.PinningThread(self._next_pinned)

    def _ask_for_one(self, worker=None):
        """Asks for the next batch, if there is one and someone to make it."""
        if not self._keys_left:
            return
        active = self._pool.active()
        if not active:
            return
        try:
            number, keys = self._epoch.draw()
        except StopIteration:
            self._keys_left = False
            return
        if worker not in active:
            while self._turn % self._num_workers not in active:
                self._turn += 1
            worker = self._turn % self._num_workers
            self._turn += 1
        if self._in_order:
            self._asked.append(number)
        self._under_way[number] = worker
        self._pool.ask(worker, number, keys)

    def _next_data(self):
        answer = self._next_answer() if self._pinning is None else self._pinning.next()
        kind, number, value, worker = answer
        self._epoch.hand_out(number, worker)
        if kind == "error":
            raise value.exception()
        return value

    def _next_pinned(self):
        kind, number, value, worker = self._next_answer()
        if kind == "data":
            value = _utils.pin_memory.pin_memory(value)
        return kind, number, value, worker

    def _next_answer(self):
        """The next batch, or the error in its place."""
        if self._pool is None:
            raise StopIteration
        try:
            while True:
                answer = self._take_answer()
                if answer is None:
                    if not self._under_way:
                        self._finish_pass()
                        raise StopIteration
                    self._bring_in()
                    continue
                kind, _, _, worker = answer
                self._ask_for_one(None if self._in_order else worker)
                if kind != "end":
                    return answer
        except (KeyboardInterrupt, SystemExit):
            self._shutdown_workers(hurry=True)
            raise

    def _take_answer(self):
        """The next answer to hand out that is here, or None."""
        if not self._arrived:
            return None
        if not self._in_order:
            return self._arrived.pop(next(iter(self._arrived)))
        if self._asked[0] not in self._arrived:
            return None
        return self._arrived.pop(self._asked.popleft())

    def _bring_in(self):
        answers = self._pool.answers(self._timeout)
        if not answers:
            raise RuntimeError(
                f"DataLoader timed out after {self._timeout} seconds: no worker has answered"
            )
        for worker, (kind, serial, number, value) in answers:
            if serial != self._serial:
                continue
            self._under_way.pop(number)
            self._pool[worker].asked.pop(number, None)
            if kind == "end":
                self._pool[worker].active = False
            self._arrived[number] = (kind, number, value, worker)

    def _finish_pass(self):
        # Where batches are pinned this is that thread, and some of them are still to be handed out.
        if not self._persistent_workers:
            pool, self._pool = self._pool, None
            pool.close()

    def _stop_pinning(self):
        pinning, self._pinning = self._pinning, None
        if pinning is not None:
            pinning.stop()
            pinning.join()

    def _shutdown_workers(self, hurry=False):
        pool, self._pool = self._pool, None
        pinning, self._pinning = self._pinning, None
        if pinning is not None:
            pinning.stop()
        if pool is not None:
            pool.close(hurry)  # which also wakes the thread that waits for them
        if pinning is not None:
            pinning.join()

    def __del__(self) -> None:
        try:
            self._shutdown_workers()
        except KeyboardInterrupt:
            _interrupt_soon()
        except Exception:
            pass  # the interpreter is ending, and the workers end with it


def _interrupt_soon():
    """Ctrl-C came while an iterator was dropped, where Python swallows exceptions: it comes again
    when that is over."""

    def interrupt():
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True, name="rushlight-interrupt").start()
