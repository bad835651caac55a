"""Where an epoch stands, so that it can be taken up again.

The order of the samples comes from generators, so an epoch is described by their state when it
began and by the number of batches handed out. Taking it up again puts that state back for a
moment, asks the sampler for the same order, and passes over what was done.

Ranks that share one order through a DistributedSampler may be another number when they go on, with
another batch size: what counts is how many samples they have done together.

Two things cannot be found again that way, so they are written down: what a sampler that is not ours
has drawn ahead for workers, since it may draw from generators that the program uses, too; and which
batches are missing where they come in any order.
"""

import itertools
import random
import sys

import rushlight
from rushlight.utils.data.distributed import DistributedSampler
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

VERSION = 3
_OURS = (
    BatchSampler, DistributedSampler, RandomSampler, SequentialSampler, SubsetRandomSampler,
    WeightedRandomSampler,
)  # fmt: skip


def _chain(sampler):
    """A sampler and those inside it."""
    found = []
    while sampler is not None and len(found) < 10:
        found.append(sampler)
        sampler = getattr(sampler, "sampler", None)
    return found


def _generators(loader):
    """The generators that decide the order: the loader's own, and those of its samplers."""
    found = [rushlight.default_generator]
    for owner in [loader, *_chain(loader._index_sampler)]:
        generator = getattr(owner, "generator", None)
        if isinstance(generator, rushlight.Generator) and all(g is not generator for g in found):
            found.append(generator)
    return found


def _state(generator):
    return [generator.initial_seed(), generator.get_offset()]


def _set_state(generator, state):
    generator.manual_seed(state[0])
    generator.set_offset(state[1])


def _other_states(loader):
    """Python's and NumPy's generators, for samplers that are not ours and may draw from them."""
    if all(type(sampler) in _OURS for sampler in _chain(loader._index_sampler)):
        return None
    numpy = sys.modules.get("numpy")
    state = None if numpy is None else numpy.random.get_state()
    if state is not None:
        state = [state[0], state[1].tolist(), *state[2:]]
    version, words, gauss = random.getstate()
    return [[version, list(words), gauss], state]


def _set_other_states(states):
    version, words, gauss = states[0]
    random.setstate((version, tuple(words), gauss))
    if states[1] is not None:
        import numpy

        numpy.random.set_state(tuple(states[1]))


def _going_on(first, keys):
    """The keys in `first`, then the rest. Only next is called: there are samplers that begin anew
    whenever iter is, though they are iterators already."""
    yield from first
    while True:
        try:
            key = next(keys)
        except StopIteration:
            return
        yield key


class Epoch:
    """One pass over the data: its seed, its order and how far it got."""

    def __init__(self, loader):
        self._before = [_state(g) for g in _generators(loader)]
        self._others_before = _other_states(loader)
        self._sampler_epoch = _sampler_epoch(loader)
        self.num_workers = loader.num_workers
        self.seed = _draw_seed(loader.generator)
        # Many samplers draw when the first key is asked for: that belongs to the beginning.
        keys = iter(loader._index_sampler)
        self._keys = _going_on(list(itertools.islice(keys, 1)), keys)
        self._drawn = 0
        self._waiting = {}  # batches that were asked for and not handed out: number -> keys
        self._again = []  # of those, when the epoch is taken up: what is to be asked for again
        self._writes_waiting = self._others_before is not None or not loader.in_order
        self._writes_waiting &= not loader._is_iterable
        sampler, self._step = _distributed(loader)
        self._replicas = sampler and sampler.num_replicas
        self._begin = 0  # samples that other numbers of ranks had done before
        self.by_worker = [0] * max(1, self.num_workers)  # batches handed out
        self.turn = 0  # whose batch of a stream comes next
        self.yielded = 0
        self.finished = False

    def draw(self):
        """The next batch to ask for: its number and keys."""
        if self._again:
            number, keys = self._again.pop(0)
        else:
            keys = next(self._keys)
            number = self._drawn
            self._drawn += 1
        self._waiting[number] = keys
        return number, keys

    def hand_out(self, number, worker=0):
        """Batch `number` goes to the program, or the error in its place does."""
        self._waiting.pop(number, None)
        self.yielded += 1
        self.by_worker[worker] += 1
        self.turn = (worker + 1) % len(self.by_worker)

    @classmethod
    def resumed(cls, loader, state):
        """An epoch that goes on behind the batches that were done."""
        generators = _generators(loader)
        if len(generators) != len(state["generators"]):
            raise ValueError(
                "load_state_dict: the state comes from a loader with other generators: "
                f"{len(state['generators'])} there, {len(generators)} here"
            )
        now = _state(rushlight.default_generator)
        others_now = _other_states(loader)
        for generator, before in zip(generators, state["generators"], strict=True):
            _set_state(generator, before)
        if state["others"] is not None and others_now is not None:
            _set_other_states(state["others"])
        if state["sampler_epoch"] is not None:
            _set_sampler_epoch(loader, state["sampler_epoch"])
        begin, yielded = _position(loader, state)
        epoch = cls(loader)
        epoch._begin, epoch.yielded = begin, yielded
        if loader._is_iterable:
            epoch.num_workers = state["num_workers"]
            epoch.by_worker, epoch.turn = list(state["by_worker"]), state["turn"]
        else:
            epoch._pass_over(state["waiting"])
        # The order may have come from the default generator, but the program goes on with it.
        _set_state(rushlight.default_generator, now)
        if others_now is not None:
            _set_other_states(others_now)
        return epoch

    def _pass_over(self, waiting):
        self._drawn = self.yielded + (0 if waiting is None else len(waiting))
        found = sum(1 for _ in itertools.islice(self._keys, self._drawn))
        if found < self._drawn:
            raise ValueError(
                f"load_state_dict: {self.yielded} batches were done, but the sampler ends "
                f"after {found}: it is not the one that the state comes from"
            )
        self._again = [] if waiting is None else [(number, keys) for number, keys in waiting]

    def state(self):
        waiting = None
        if self._writes_waiting:
            waiting = [*self._waiting.items(), *self._again]
            waiting = [[number, keys] for number, keys in sorted(waiting, key=lambda w: w[0])]
        return {
            "yielded": self.yielded,
            "waiting": waiting,
            "by_worker": self.by_worker[:],
            "turn": self.turn,
            "generators": self._before,
            "others": self._others_before,
            "sampler_epoch": self._sampler_epoch,
            "num_workers": self.num_workers,
            "step": self._step,
            "replicas": self._replicas,
            "begin": self._begin,
        }


def _distributed(loader):
    """The sampler that gives each rank its share, and the samples of a step of all ranks."""
    chain = _chain(loader._index_sampler)
    if not loader._is_iterable and [type(s) for s in chain[:1]] == [BatchSampler]:
        for sampler in chain:
            if type(sampler) is DistributedSampler:
                return sampler, sampler.num_replicas * chain[0].batch_size
    return None, None


def _position(loader, state):
    """(samples that all ranks had done before this number of ranks, batches since). All ranks go
    through one order together: where a step takes another number of samples, the epoch goes on
    behind those that were done."""
    sampler, step = _distributed(loader)
    begin, yielded = state["begin"], state["yielded"]
    if sampler is not None and state["step"] is not None:
        if step != state["step"] or sampler.num_replicas != state["replicas"]:
            begin, yielded = begin + yielded * state["step"], 0
        sampler._done = begin
    return begin, yielded


def _draw_seed(generator):
    return int(rushlight.empty((), dtype=rushlight.int64).random_(generator=generator).item())


def _sampler_epoch(loader):
    for sampler in _chain(loader._index_sampler):
        if isinstance(getattr(sampler, "epoch", None), int):
            return sampler.epoch
    return None


def _set_sampler_epoch(loader, epoch):
    for sampler in _chain(loader._index_sampler):
        if isinstance(getattr(sampler, "epoch", None), int):
            sampler.epoch = epoch


def loader_state(loader):
    """What DataLoader.state_dict returns."""
    epoch = loader._epoch
    if epoch is None and loader._resume_from is not None:
        inside = loader._resume_from
    else:
        inside = None if epoch is None or epoch.finished else epoch.state()
    return {
        "version": VERSION,
        "batch_size": loader.batch_size,
        "epoch": inside,
        "generators": [_state(g) for g in _generators(loader)],
        "others": _other_states(loader),
    }


def load_loader_state(loader, state):
    """What DataLoader.load_state_dict does. Returns the epoch to take up, or None."""
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise ValueError("load_state_dict: expected what state_dict of a DataLoader returned")
    _, step = _distributed(loader)
    elastic = step is not None and (state["epoch"] is None or state["epoch"]["step"] is not None)
    if state["batch_size"] != loader.batch_size and not elastic:
        raise ValueError(
            f"load_state_dict: the state was saved with batch_size={state['batch_size']}, this "
            f"loader has batch_size={loader.batch_size}"
        )
    generators = _generators(loader)
    if len(generators) != len(state["generators"]):
        raise ValueError(
            "load_state_dict: the state comes from a loader with other generators: "
            f"{len(state['generators'])} there, {len(generators)} here"
        )
    # The default generator goes on where it was, unless the loader has one of its own.
    for generator, saved in zip(generators, state["generators"], strict=True):
        if generator is not rushlight.default_generator or loader.generator is None:
            _set_state(generator, saved)
    if state["others"] is not None and _other_states(loader) is not None:
        _set_other_states(state["others"])
    return state["epoch"]
