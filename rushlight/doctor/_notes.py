"""What is written down of a program that trains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Leaf", "LossCall", "Notes", "Step"]


@dataclass
class Step:
    """One step of an optimiser."""

    gradient_norm: float = 0.0
    updates: dict[str, float] = field(default_factory=dict)  # relative change, by parameter
    bad_gradients: list[str] = field(default_factory=list)  # with NaN or infinity
    without: list[str] = field(default_factory=list)  # parameters without a gradient
    zero: bool = False  # all gradients were zero
    zeros: list[str] = field(default_factory=list)  # weights whose gradient was zero
    moved: dict[str, float] = field(default_factory=dict)  # since the step before, by others
    rates: list[float] = field(default_factory=list)  # lr of each group
    sums: dict[str, float] = field(default_factory=dict)  # of some weights, before the step


@dataclass
class LossCall:
    """Calls of a loss from one line."""

    name: str
    line: str | None
    calls: int = 0
    probabilities: int = 0  # rows that are positive and add up to one
    after_sigmoid: int = 0  # in [0, 1], and a sigmoid of as many values came just before
    shapes: tuple[Any, Any] | None = None  # that differ and were broadcast
    value: list[float] = field(default_factory=list)
    slopes: list[int] = field(default_factory=list)  # does backward lower it (1) or raise it (-1)?
    # By what backward multiplies it, times the samples, where it is a mean and the only loss.
    shares: list[float] = field(default_factory=list)
    samples: int = 0  # of the last call, if it took their mean
    outside: int = 0  # targets of a binary loss below 0 or above 1
    positive: int = 0  # scores above 0 among what should be logarithms of probabilities
    cut: int = 0  # scores that come from a ReLU
    mixed: list[bool] = field(default_factory=list)  # is a row computed from several samples?
    smoothing: float = 0.0  # of labels
    own: list[bool] = field(default_factory=list)  # from the token that it is to name?


@dataclass
class Leaf:
    """A tensor that backward reaches, and how often it did; its version tells who writes to it."""

    tensor: Any
    version: int
    times: int = 1
    written: bool = False


@dataclass
class Notes:
    """What was seen, by the names that rules ask for."""

    steps: list[Step] = field(default_factory=list)  # of the optimiser that steps first
    # Of every optimiser, by its id; a program may have several, as GANs do.
    steps_of: dict[int, list[Step]] = field(default_factory=dict)
    lines_of: dict[int, str | None] = field(default_factory=dict)
    constant: list[str] = field(default_factory=list)  # matrices of one number before all steps
    optimizers: dict[int, Any] = field(default_factory=dict)
    models: dict[int, Any] = field(default_factory=dict)  # outermost modules that were called
    names: dict[int, str] = field(default_factory=dict)  # of parameters
    losses: dict[Any, LossCall] = field(default_factory=dict)
    first_bad: tuple[str, str, str | None] | None = None  # module, where, line
    alive: dict[str, Any] = field(default_factory=dict)  # by module: units that were ever not zero
    input_scale: list[float] = field(default_factory=list)
    input_line: str | None = None
    stale: dict[str, int] = field(default_factory=dict)  # backward onto old gradients, by line
    backward_at: dict[str, int] = field(default_factory=dict)  # backwards, by line
    retained: dict[str, int] = field(default_factory=dict)  # those with retain_graph=True
    reused: dict[str, int] = field(default_factory=dict)  # and the next backward went through it
    backwards: int = 0
    step_line: str | None = None
    batches: list[Any] = field(default_factory=list)  # labels of batches, as sets
    iterators: int = 0  # of loaders
    iterator_line: str | None = None
    broadcasts: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # (n, 1) with (n,)
    sigmoids: set[int] = field(default_factory=set)  # how many values, since the last loss
    anomaly: bool = False
    reads: dict[str, int] = field(default_factory=dict)  # of values on a GPU, by line
    in_eval: dict[str, str] = field(default_factory=dict)  # modules that were not in training mode
    remade: int = 0  # optimisers that took the place of another one, of the same parameters
    repeated: int = 0  # batches of an iterator that equal the one before
    flat_inputs: int = 0  # calls of a model with an input of one number
    calls: int = 0  # of a model, with an input of real numbers
    input_shape: tuple[int, ...] = ()  # of the last call of a model
    drops: dict[str, float] = field(default_factory=dict)  # how much each Dropout drops
    few: dict[str, int] = field(default_factory=dict)  # values per channel, by batch norm
    over_batch: dict[str, str] = field(default_factory=dict)  # softmax over samples, by line
    seeds: dict[tuple[str, str], int] = field(default_factory=dict)  # by line and seed
    clipped: list[tuple[float, float]] = field(default_factory=list)  # norm, and by how much
    clip_line: str | None = None
    fetched: int = 0  # batches
    written: dict[str, int] = field(default_factory=dict)  # what fetching a batch changes
    batch_size: int = 0  # of the loader that was begun last
    loader_length: int = 0
    labels_now: list[int] | None = None  # of the last batch, until a loss has them
    labels: list[list[int]] = field(default_factory=list)  # of batches that were trained with
    leaves: dict[int, Leaf] = field(default_factory=dict)
    given: set[int] = field(default_factory=set)  # ids of tensors that models were called with
    schedulers: dict[int, list[Any]] = field(default_factory=dict)  # [scheduler, steps]
    made: list[Any] = field(default_factory=list)  # optimisers, also those that take no step
    optimizer_line: str | None = None  # where the first was made
    # Weights times values, where the weights add up to one in another dim: by line.
    crossed: dict[str, str] = field(default_factory=dict)
    samples_meet: bool = False  # in a batch norm, or by being put in another order
    closed: bool = False  # nothing more is written
