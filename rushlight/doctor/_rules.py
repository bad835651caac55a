"""What the notes of a watched program mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.doctor._notes import Notes, Step
from rushlight.doctor._rules_of_data import OF_DATA
from rushlight.doctor._rules_of_settings import SETTINGS
from rushlight.doctor._source import (
    findings_in_source,
    findings_of_dropout,
    findings_of_evaluation,
)
from rushlight.profiler._verdict import Finding

__all__ = ["findings_of"]

_HIGH_UPDATE = 0.5  # a step that changes weights by more than half of them
_LOW_UPDATE = 1e-7
_LARGE_INPUT = 15.0
_CLIPPED = 1e4
_LARGE_NORM = 100.0
_DEAD_SHARE = 0.9


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _unused(notes: Notes) -> Iterator[Finding]:
    always: set[str] = set()
    where = None
    for _, steps, line in _optimizers(notes):
        found = set.intersection(*(set(s.without) for s in steps)) if len(steps) > 1 else set()
        always |= found
        where = where or (line if found else None)
    if always and len(always) < len(notes.names) + 1:
        yield Finding(
            f"{len(always)} parameters never get a gradient",
            _some(sorted(always)),
            "use them in forward, or take them out of the model; a detach(), .data or item() on "
            "the way to the loss cuts them off as well",
            where,
        )


def _untrained(notes: Notes) -> Iterator[Finding]:
    """Parameters that get gradients and that no optimiser has."""
    held = {id(p) for o in notes.optimizers.values() for g in o.param_groups for p in g["params"]}
    if not held:
        return
    models = [m for m in notes.models.values() if any(id(p) in held for p in m.parameters())]
    missing = [
        name
        for model in models
        for name, p in model.named_parameters()
        if p.requires_grad and p.grad is not None and id(p) not in held
    ]
    if missing:
        yield Finding(
            f"{len(missing)} parameters get gradients, and no optimiser has them",
            _some(missing),
            "make the optimiser of model.parameters() after the model is complete, or freeze them "
            "with requires_grad_(False)",
            notes.step_line,
        )
    frozen = [n for o in notes.optimizers.values() for g in o.param_groups for p in g["params"]
              for n in [notes.names.get(id(p), "a parameter")] if not p.requires_grad]  # fmt: skip
    if frozen and len(frozen) == len(held):
        yield Finding(
            "All parameters of the optimiser are frozen",
            _some(frozen),
            "requires_grad_(True) on what is to be trained",
            notes.step_line,
        )


def _not_a_number(notes: Notes) -> Iterator[Finding]:
    by_step = any(step.bad_gradients for step in notes.steps)
    # Weights that a step made so: the gradients of that step are to blame.
    if notes.first_bad is not None and not (notes.first_bad[1] == "weights" and by_step):
        name, where, line = notes.first_bad
        text = {"weights": "its weights have them already", "input": "they come in with its input",
                "output": "its input and weights are fine"}[where]  # fmt: skip
        yield Finding(
            f"NaN or infinity comes out of {name}",
            f"the first module that has them; {text}",
            "look at what it divides by, and at logs and powers of small numbers; a smaller "
            "learning rate, if it began after some steps",
            line,
        )
        return
    for _, steps, line in _optimizers(notes):
        for number, step in enumerate(steps):
            if step.bad_gradients:
                yield Finding(
                    "Gradients are NaN or infinite",
                    f"in step {number}: {_some(step.bad_gradients)}",
                    "autograd.set_detect_anomaly(True) names the op; sqrt, norm and log have no "
                    "finite gradient at zero",
                    line,
                )
                return


def _optimizers(notes: Notes) -> Iterator[tuple[Any, list[Step], str | None]]:
    """(optimiser, its steps, the line of its step)"""
    for key, optimizer in notes.optimizers.items():
        yield optimizer, notes.steps_of.get(key, []), notes.lines_of.get(key)


def _exploding(notes: Notes) -> Iterator[Finding]:
    # What clipping hides: it cuts every step to a fraction of what it was.
    if len(notes.clipped) >= 2 and min(ratio for _, ratio in notes.clipped) > _CLIPPED:
        norm, ratio = notes.clipped[0]
        large = norm > _LARGE_NORM
        yield Finding(
            "Gradients explode before they are clipped" if large
            else "Clipping leaves nothing of the gradients",
            f"clip_grad_norm_ cuts a norm of {norm:.3g} to a part in {ratio:.3g}, in every step",
            "look for what scales the loss; a sum over the batch, or targets that are not scaled"
            if large else "max_norm of about 1 is usual",
            notes.clip_line,
        )  # fmt: skip
        return
    for _, steps, line in _optimizers(notes):
        norms = [s.gradient_norm for s in steps if not s.bad_gradients]
        if len(norms) < 2 or notes.first_bad is not None:
            continue
        smallest, largest = min(norms), max(norms)
        if largest > 1e4 or (largest > 1e3 and largest > 50 * max(smallest, 1e-9)):
            yield Finding(
                "Gradients explode",
                f"their norm is between {smallest:.3g} and {largest:.3g} in the first steps",
                "nn.utils.clip_grad_norm_ before the step, a smaller learning rate, or inputs and "
                "targets of a smaller scale",
                line,
            )
            return


def _learning_rate(notes: Notes) -> Iterator[Finding]:
    for optimizer, steps, line in _optimizers(notes):
        found = list(_rate_of(optimizer, steps, line))
        yield from found
        if found:
            return


def _rate_of(optimizer: Any, seen: list[Step], line: str | None) -> Iterator[Finding]:
    steps = [sorted(s.updates.values()) for s in seen if s.updates]
    if len(steps) < 2 or any(s.bad_gradients for s in seen):
        return
    usual = max(changes[len(changes) // 2] for changes in steps)
    rates = {g["lr"] for g in optimizer.param_groups if "lr" in g}
    evidence = f"a step changes weights by up to {usual:.1e} of their size; lr is " + ", ".join(
        f"{float(r):g}" for r in sorted(map(float, rates))
    )
    if usual > _HIGH_UPDATE:
        yield Finding("The learning rate is far too high", evidence,
                      "divide lr by ten until a step changes weights by about a thousandth",
                      line)  # fmt: skip
    elif usual < _LOW_UPDATE and any(s.gradient_norm > 0 for s in seen):
        yield Finding("The learning rate is far too low", evidence,
                      "multiply lr by ten until a step changes weights by about a thousandth",
                      line)  # fmt: skip


def _gradients_kept(notes: Notes) -> Iterator[Finding]:
    for line, times in notes.stale.items():
        if times >= 2:
            yield Finding(
                "Gradients are not cleared between steps",
                f"{times} times backward added to the gradients of the step before",
                "call optimizer.zero_grad() before backward",
                line,
            )
            return


def _nothing_to_step(notes: Notes) -> Iterator[Finding]:
    for _, steps, line in _optimizers(notes):
        idle = [s for s in steps if s.zero and not s.bad_gradients]
        if len(steps) >= 2 and len(idle) == len(steps):
            yield Finding(
                "The optimiser steps without gradients",
                f"in all {len(idle)} steps every gradient is zero or missing",
                "the order is zero_grad(), backward(), step(); and the loss must depend on the "
                "parameters without detach()",
                line,
            )
            return


def _always_zero(notes: Notes) -> Iterator[Finding]:
    """Weights that get gradients of zero: a factor of zero, or units that are dead, behind them."""
    for _, steps, line in _optimizers(notes):
        if len(steps) < 3 or all(s.zero for s in steps) or any(s.bad_gradients for s in steps):
            continue
        always = set.intersection(*(set(s.zeros) for s in steps))
        if always:
            yield Finding(
                f"{len(always)} weights get gradients of zero alone",
                f"{_some(sorted(always))}, in all {len(steps)} steps",
                "what they compute does not reach the loss: a factor of zero, a mask that hides "
                "all, or units behind them that are dead",
                line,
            )
            return


def _losses(notes: Notes) -> Iterator[Finding]:
    for call in notes.losses.values():
        if call.calls < 2:
            continue
        probabilities = call.probabilities == call.calls
        if call.name == "cross_entropy" and probabilities:
            yield Finding(
                "cross_entropy is given probabilities",
                "its input is positive and adds up to one in every row, call by call",
                "leave the softmax out: cross_entropy takes logits",
                call.line,
            )
        elif call.name == "nll_loss" and probabilities:
            yield Finding("nll_loss is given probabilities, and expects their logarithms",
                          "its input is positive and adds up to one in every row",
                          "log_softmax in place of softmax", call.line)  # fmt: skip
        elif call.name.endswith("with_logits") and call.after_sigmoid == call.calls:
            yield Finding("A loss with logits is given probabilities",
                          "its input comes from a sigmoid in every call",
                          "leave the sigmoid out: the loss has one inside", call.line)  # fmt: skip
        if call.shapes is not None:
            a, b = call.shapes
            yield Finding(f"{call.name} compares shapes that differ",
                          f"input {list(a)}, target {list(b)}: they are broadcast",
                          "squeeze() or view_as() one of them", call.line)  # fmt: skip


def _broadcasts(notes: Notes) -> Iterator[Finding]:
    lines = {call.line for call in notes.losses.values() if call.shapes is not None}
    for line, (a, b) in notes.broadcasts.items():
        if line not in lines:
            yield Finding(
                f"{list(a)} and {list(b)} are broadcast to a square",
                "a column met a row of the same length",
                "squeeze(-1) the column, unless every pair is meant",
                line,
            )


def _dead(notes: Notes) -> Iterator[Finding]:
    for name, (alive, line) in notes.alive.items():
        dead = int((~alive).sum())
        # Pixels at the border of pictures are zero too: layers that others feed count.
        if dead >= max(4, _DEAD_SHARE * len(alive)) and not _first_layer(notes, name):
            yield Finding(
                f"{dead} of {len(alive)} units before {name} are dead",
                f"they were zero for every sample of {len(notes.steps)} steps",
                "a smaller learning rate, biases that do not start far below zero, or LeakyReLU",
                line,
            )
            return


def _first_layer(notes: Notes, name: str) -> bool:
    """Whether it is the first layer with weights of a model: its input is the data."""
    for model in notes.models.values():
        names = [n for n, m in model.named_modules() if getattr(m, "weight", None) is not None]
        if names and names[0] == name:
            return True
    return name in {type(m).__name__ for m in notes.models.values()}


def _inputs(notes: Notes) -> Iterator[Finding]:
    scales = notes.input_scale
    if scales and min(scales) > _LARGE_INPUT:
        yield Finding(
            "Inputs are not scaled",
            f"their mean size is {sum(scales) / len(scales):.3g}",
            "bring them to about mean 0 and deviation 1: x / 255 for pixels, or a normalisation",
            notes.input_line,
        )


def _symmetric(notes: Notes) -> Iterator[Finding]:
    if notes.constant:
        yield Finding(
            f"All elements of {notes.constant[0]} are equal",
            f"before the first step, as those of {len(notes.constant) - 1} other weights",
            "units that start alike stay alike: use nn.init, or the layer's own start",
            None,
        )
        return
    for model in notes.models.values():
        for name, p in model.named_parameters():
            if p.dim() >= 2 and min(p.shape[:2]) > 1 and p.numel() <= 1 << 24 and _is_matrix(name):
                rows = p.detach()  # one per unit
                if bool((rows == rows[0]).all()):
                    yield Finding(
                        f"All rows of {name} are equal",
                        f"{list(p.shape)}, after {len(notes.steps)} steps",
                        "units that start alike stay alike: use nn.init, or the layer's own start",
                        None,
                    )
                    return


def _is_matrix(name: str) -> bool:
    return name.endswith("weight") or "." not in name


def _modes(notes: Notes) -> Iterator[Finding]:
    if notes.in_eval and notes.steps:
        names = [f"{name} ({kind})" for name, kind in notes.in_eval.items()]
        yield Finding(
            "The model trains in evaluation mode",
            f"{_some(names)} ran with training=False while gradients were recorded",
            "model.train() before the loop, and again after each evaluation",
            notes.step_line,
        )


def _left_in_evaluation(notes: Notes) -> Iterator[Finding]:
    if not notes.in_eval:
        yield from findings_in_source(notes.step_line)
    if notes.drops or notes.few:
        yield from findings_of_evaluation(notes.step_line)
    yield from findings_of_dropout(notes.step_line)


def _sorted(notes: Notes) -> Iterator[Finding]:
    seen = notes.batches[:8]
    if len(seen) >= 3 and all(len(labels) == 1 for labels in seen):
        distinct = len(set().union(*seen))
        if distinct > 1 or notes.iterators <= 1:
            yield Finding(
                "Batches hold one label each",
                f"{len(seen)} batches in a row, {distinct} labels in all",
                "DataLoader(..., shuffle=True)",
                notes.iterator_line,
            )


def _iterators(notes: Notes) -> Iterator[Finding]:
    steps = len(notes.steps)
    if steps >= 3 and notes.iterators >= steps and len(notes.batches) <= notes.iterators:
        yield Finding(
            "Every step begins the data anew",
            f"{notes.iterators} iterators over the loader in {steps} steps",
            "for batch in loader: next(iter(loader)) starts over each time",
            notes.iterator_line,
        )


def _switches(notes: Notes) -> Iterator[Finding]:
    if notes.anomaly:
        advice = "leave set_detect_anomaly for the search of a fault"
        yield Finding("Anomaly detection is on", "every gradient is tested for NaN", advice,
                      notes.step_line)  # fmt: skip
    for line, times in notes.retained.items():
        # (Where several models are trained in turn, each has a line, and its share of the steps.)
        always = times == notes.backward_at[line] and times > 1
        if (
            always
            and times * len(notes.backward_at) >= len(notes.steps)
            and not notes.reused.get(line)
        ):
            yield Finding("Every backward keeps its graph",
                          f"retain_graph=True, {times} times, and no other went through it again",
                          "leave it out: there is one backward per graph", line)  # fmt: skip


def _reads(notes: Notes) -> Iterator[Finding]:
    steps = max(len(notes.steps), 1)
    for line, times in sorted(notes.reads.items(), key=lambda item: -item[1])[:3]:
        if times >= steps:
            yield Finding(
                f"The host waits for the GPU {times / steps:.0f} times per step",
                "a value of a tensor is read",
                "read it every hundred steps, or keep it on the GPU until the epoch ends",
                line,
            )


_RULES: tuple[Callable[[Notes], Iterator[Finding]], ...] = (
    _not_a_number, _exploding, _learning_rate, _nothing_to_step, _always_zero, _gradients_kept,
    _unused, _untrained, _losses, _broadcasts, _modes, _left_in_evaluation, _dead, _inputs,
    _symmetric, _sorted, _iterators, _switches, _reads, *SETTINGS, *OF_DATA,
)  # fmt: skip


def findings_of(notes: Notes) -> list[Finding]:
    """What the notes show."""
    found: list[Any] = [finding for rule in _RULES for finding in rule(notes)]
    return found
