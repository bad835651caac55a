"""Randomness that belongs to the sample.

While a sample is made, Python's, NumPy's and Rushlight's global generators have a state that only
depends on (seed of the epoch, key of the sample). So augmented data come out the same whichever
process makes them and in whatever order. Around that, the program's own state is put aside and
brought back: a loader without workers must not disturb the random numbers of the training loop.
"""

from __future__ import annotations

import hashlib
import importlib.util
import operator
import random
import sys
import weakref
from typing import Any

import rushlight
from rushlight import _C
from rushlight.types import Self


def number_of(key):
    """A number that stands for a sample's key; the same in every process."""
    try:
        return operator.index(key)
    except TypeError:
        digest = hashlib.blake2b(repr(key).encode(errors="replace"), digest_size=8).digest()
        return int.from_bytes(digest, "little")


def generate_state(base_seed, worker_id):
    """Four 32-bit words that seed NumPy in a worker: those that NumPy's SeedSequence makes of the
    two numbers, so that neighbouring workers have nothing in common."""
    word, odd = 0xFFFFFFFF, 0x43B0D7E5

    def hashed(x, multiplier):
        nonlocal odd
        x = (x ^ odd) & word
        odd = odd * multiplier & word
        x = x * odd & word
        return x ^ x >> 16

    def mixed(x, y):
        x = (0xCA01F9DD * x - 0x4973F715 * y) & word
        return x ^ x >> 16

    given = [worker_id & word, base_seed & word, base_seed >> 32 & word, 0]
    pool = [hashed(x, 0x931E8875) for x in given]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source], 0x931E8875))
    odd = 0x8B51F9DD
    return [hashed(x, 0x58F38DED) for x in pool]


class _Numpy:
    """NumPy's global generator, as far as it is loaded and a Mersenne twister."""

    def __init__(self):
        numpy_random = sys.modules["numpy.random"]
        self._module = numpy_random
        # The second half of a pair of normals is kept outside the bit generator.
        self.reset = lambda: numpy_random.seed(0)
        bits = numpy_random.mtrand._rand._bit_generator
        self.owner = bits
        self.known = type(bits).__name__ == "MT19937"
        self.address = bits.ctypes.state_address if self.known else 0
        self._saved = None

    def save(self):
        self._saved = self._module.get_state(legacy=False)
        return bool(self._saved.get("has_gauss"))

    def restore(self):
        self._module.set_state(self._saved)

    def seed(self, number):
        if self.known:
            self._module.seed(number & 0xFFFFFFFF)


class _SlowSeeder:
    """The same as _C._SampleSeeder by public functions, for Pythons whose layout is another."""

    def __init__(self, numpy):
        self._numpy = numpy

    def save(self, _):
        self._saved = random.getstate(), _C.get_rng_state()

    def restore(self):
        random.setstate(self._saved[0])
        _C.set_rng_state(self._saved[1])
        return self._numpy is not None

    def seed(self, epoch_seed, key):
        text = f"{epoch_seed & (2**64 - 1)}/{key}".encode()
        number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        random.seed(number)
        rushlight.manual_seed(number)
        if self._numpy is not None:
            self._numpy.seed(number)


class Randomness:
    """All generators of this process, seeded for one sample after the other."""

    def __init__(self, epoch_seed: Any) -> None:
        self.epoch_seed = epoch_seed
        self._at = None  # whose state the generators have
        self._late_numpy = None
        self._refresh()

    def _refresh(self):
        if "numpy" in sys.modules:
            import numpy.random  # NumPy itself loads it when first used
        else:
            _watch_for_numpy(self)
        self._numpy = _Numpy() if "numpy.random" in sys.modules else None
        numpy = self._numpy
        if numpy is not None and not numpy.known:
            self._seeder = _SlowSeeder(numpy)
            return
        try:
            self._seeder = _C._SampleSeeder(
                random._inst,
                numpy.address if numpy else 0,
                numpy.owner if numpy else None,
                numpy.reset if numpy else None,
            )
        except (NotImplementedError, AttributeError):
            self._seeder = _SlowSeeder(numpy)

    def _keep_up(self):
        self._late_numpy = None
        if self._numpy is None:
            if "numpy" in sys.modules:
                self._refresh()
        elif self._numpy.owner is not self._numpy._module.mtrand._rand._bit_generator:
            self._refresh()

    def __enter__(self) -> Self:
        """Puts the program's own state aside."""
        self._keep_up()
        self._seeder.save(self._numpy.save() if self._numpy else False)
        return self

    def __exit__(self, *_: object) -> None:
        self._at = None
        had_half_pair = self._numpy is not None and self._numpy._saved.get("has_gauss")
        if self._seeder.restore() or had_half_pair:
            self._numpy.restore()

    def start_batch(self) -> None:
        """Where nobody wants the old state back, as in a worker."""
        self._keep_up()
        self._seeder.save(True)

    def for_sample(self, key: Any) -> None:
        self._seed(self.epoch_seed, key if type(key) is int else number_of(key))

    def for_batch(self, number: int) -> None:
        """Between samples: a collate function, or the next part of a stream."""
        self._seed(self.epoch_seed ^ 0x5DEECE66D, number)

    def _seed(self, *at):
        self._at = at
        self._seeder.seed(*at)
        if self._late_numpy is not None:
            self._seed_late_numpy()

    def numpy_has_come(self) -> None:
        """A sample has imported NumPy: its generator gets the state that it would have had."""
        if self._numpy is None and self._at is not None:
            self._late_numpy = _Numpy()
            self._seed_late_numpy()

    def _seed_late_numpy(self):
        # Until the batch ends: the seeder in use has to bring back what it put aside.
        came = self._late_numpy
        if came.known:
            others = random.getstate(), _C.get_rng_state()
            seeder = _C._SampleSeeder(random._inst, came.address, came.owner, came.reset)
            seeder.save(True)
            seeder.seed(*self._at)
            random.setstate(others[0])
            _C.set_rng_state(others[1])


class _NumpyWatch:
    """An importer that finds nothing itself: it hears that numpy.random is asked for, lets the
    others load it, and tells those who want to know."""

    def __init__(self):
        self.listeners = weakref.WeakSet()

    def find_spec(self, name, path=None, target=None):
        if name != "numpy.random":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            return None
        if spec is None or spec.loader is None:
            return None
        execute, listeners = spec.loader.exec_module, list(self.listeners)

        def execute_and_tell(module):
            execute(module)
            for listener in listeners:
                listener.numpy_has_come()

        spec.loader.exec_module = execute_and_tell
        return spec


_watch = None


def _watch_for_numpy(listener):
    global _watch
    if _watch is None or _watch not in sys.meta_path:
        _watch = _NumpyWatch()
        sys.meta_path.insert(0, _watch)
    _watch.listeners.add(listener)
