"""What the notes of a watched program mean: what reaches losses and where it comes from, data and
schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.doctor._notes import Notes
from rushlight.doctor._source import is_in_an_epoch
from rushlight.profiler._verdict import Finding

__all__ = ["OF_DATA"]

_NO_RATE = 1e-3  # of what it was, after an epoch
# One over these is a factor that people multiply losses by.
_ROUND = {2, 4, 5, 10, 20, 50, 100, 200, 500, 1000}


def _dependence(notes: Notes) -> Iterator[Finding]:
    for call in notes.losses.values():
        if call.own and all(call.own) and call.calls > 1:
            yield Finding(
                "Each token is predicted from itself",
                "the targets equal the ids that the model is given, and the scores of a place are "
                "computed from the token there",
                "shift them: model(ids[:, :-1]) against ids[:, 1:]",
                call.line,
            )
        if call.mixed and all(call.mixed) and call.calls > 1:
            yield Finding(
                "Samples of a batch are mixed",
                f"a row that {call.name} is given is computed from several of "
                f"{notes.batch_size} samples, and no batch norm runs",
                "look for view() or reshape() where transpose() or permute() is meant, and for "
                "layers that expect another order (batch_first=True)",
                call.line,
            )
    for line, what in notes.crossed.items():
        yield Finding(
            "Weights of attention add up to one in another dim than they are summed over",
            f"{what}, then a product over the last",
            "dim=-1: the weights of one query add up to one",
            line,
        )


def _targets(notes: Notes) -> Iterator[Finding]:
    for call in notes.losses.values():
        if call.calls < 2:
            continue
        if call.outside == call.calls:
            yield Finding(
                f"{call.name} is given targets that are no probabilities",
                "some are below 0 or above 1, in every call",
                "targets of 0 and 1: (y + 1) / 2 of -1 and 1, cross_entropy for more classes",
                call.line,
            )
        if call.name == "kl_div" and call.probabilities == call.calls:
            yield Finding("kl_div is given probabilities, and expects their logarithms",
                          "its input is positive and adds up to one in every row",
                          "log_softmax in place of softmax", call.line)  # fmt: skip
        elif (call.name in ("nll_loss", "kl_div") and call.positive == call.calls
              and not call.probabilities):  # fmt: skip
            yield Finding(
                f"{call.name} is given scores, and expects logarithms of probabilities",
                "some are above 0, in every call",
                "log_softmax before it, or cross_entropy, which has it inside",
                call.line,
            )
        if call.name == "cross_entropy" and call.cut == call.calls:
            yield Finding(
                "Scores are cut at zero before cross_entropy",
                "its input is what a ReLU returns, in every call",
                "leave out the ReLU after the last layer",
                call.line,
            )


def _averaged_twice(notes: Notes) -> Iterator[Finding]:
    optimizer = next(iter(notes.optimizers.values()), None)
    # Others divide by the size of gradients themselves; several backwards are an accumulation.
    if type(optimizer).__name__ != "SGD" or notes.backwards > len(notes.steps) + 1:
        return
    for call in notes.losses.values():
        if len(call.shares) < 2 or call.samples < 3 or call.samples in _ROUND:
            continue
        if all(abs(share - 1) < 1e-3 for share in call.shares):
            yield Finding(
                "The loss is divided by the batch twice",
                f"{call.name} is a mean, and backward begins with it divided by {call.samples}",
                "leave out the division, or take reduction='sum'",
                call.line,
            )


def _end_of(scheduler: Any, length: int) -> str | None:
    """What a scheduler has done after as many steps as there are batches in an epoch, if that is
    the end."""
    kind = type(scheduler).__name__
    gamma = getattr(scheduler, "gamma", 1.0)
    if kind == "CosineAnnealingLR" and 2 * scheduler.T_max <= length:
        return f"CosineAnnealingLR(T_max={scheduler.T_max})"
    if kind == "ExponentialLR" and gamma**length < _NO_RATE:
        return f"ExponentialLR(gamma={gamma:g})"
    if kind == "StepLR" and gamma ** (length // scheduler.step_size) < _NO_RATE:
        return f"StepLR(step_size={scheduler.step_size}, gamma={gamma:g})"
    if kind == "MultiStepLR" and 2 * max(scheduler.milestones, default=length) <= length:
        return f"MultiStepLR({sorted(scheduler.milestones)})"
    return None


def _schedules(notes: Notes) -> Iterator[Finding]:
    steps, length = len(notes.steps), notes.loader_length
    for scheduler, times in notes.schedulers.values():
        if steps < 4 or times < steps - 1 or length < 2:
            continue
        what = _end_of(scheduler, length)
        if what is not None and is_in_an_epoch(notes.step_line):
            yield Finding(
                "The learning rate's schedule ends within an epoch",
                f"{what} takes a step for each of {length} batches",
                "step it once per epoch, or give it numbers of batches",
                notes.step_line,
            )


def _data(notes: Notes) -> Iterator[Finding]:
    for name, times in notes.written.items():
        if times >= 3 and times >= notes.fetched - 1:
            yield Finding(
                "Reading the data changes it",
                f"{times} of {notes.fetched} batches wrote to the dataset's {name}",
                "what __getitem__ changes must be a copy: x = x + noise, or clone() before x += "
                "noise",
                notes.iterator_line,
            )
            break
    labels = [label for batch in notes.labels for label in batch]
    distinct = len(set(labels))
    # (Numbers of samples come in order as well; labels come again.)
    if len(notes.labels) >= 4 and len(labels) >= 32 and 1 < distinct <= len(labels) // 8:
        if labels in (sorted(labels), sorted(labels, reverse=True)):
            yield Finding(
                "The data comes in the order of its labels",
                f"{len(labels)} samples in a row, {distinct} labels in all",
                "DataLoader(..., shuffle=True)",
                notes.iterator_line,
            )


def _leaves(notes: Notes) -> Iterator[Finding]:
    optimizers = [*notes.optimizers.values(), *notes.made]
    held = {id(p) for o in optimizers for g in o.param_groups for p in g["params"]}
    owned = {id(p) for m in notes.models.values() for p in m.parameters()}
    # What a program writes to itself it trains itself; inputs have gradients for other reasons.
    lost = [
        leaf.tensor for key, leaf in notes.leaves.items()
        if held and leaf.times >= 3 and not leaf.written and leaf.tensor.grad is not None
        and key not in held | owned | notes.given
    ]  # fmt: skip
    if lost:
        shapes = ", ".join(str(list(t.shape)) for t in lost[:4])
        yield Finding(
            f"{len(lost)} tensors get gradients, and belong to no model and no optimiser",
            f"of shape {shapes}, in {max(leaf.times for leaf in notes.leaves.values())} backward "
            "passes",
            "nn.ModuleList in place of a list of layers, nn.Parameter in place of a tensor; or "
            "give them to the optimiser",
            notes.step_line,
        )


def _no_step(notes: Notes) -> Iterator[Finding]:
    if notes.backwards >= 3 and not notes.optimizers and notes.optimizer_line is not None:
        yield Finding(
            "No optimiser takes a step",
            f"backward ran {notes.backwards} times",
            "optimizer.step() after backward()",
            notes.optimizer_line,
        )


OF_DATA: tuple[Callable[[Notes], Iterator[Finding]], ...] = (
    _dependence, _targets, _averaged_twice, _schedules, _data, _leaves, _no_step
)  # fmt: skip
