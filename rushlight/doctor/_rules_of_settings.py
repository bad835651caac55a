"""What the notes of a watched program mean: directions, data and settings that teach nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rushlight.doctor._notes import Notes
from rushlight.profiler._verdict import Finding

__all__ = ["SETTINGS"]

_MOST_DROPPED = 0.85
_FEW_VALUES = 3  # per channel of a batch norm
_MOST_DECAY = 0.05  # the part of a weight that decay takes away in one step
_FALL = 10.0


def _uphill(notes: Notes) -> Iterator[Finding]:
    for call in notes.losses.values():
        if len(call.slopes) >= 2 and all(slope < 0 for slope in call.slopes):
            yield Finding(
                f"Training makes {call.name} larger",
                f"what backward begins with goes down as {call.name} goes up, in all "
                f"{len(call.slopes)} steps",
                "the loss has the wrong sign: backward() of the loss itself, without a minus",
                call.line,
            )


def _moved_by_others(notes: Notes) -> Iterator[Finding]:
    steps = [s for s in notes.steps if s.moved]
    if len(steps) < 2 or any(s.bad_gradients for s in notes.steps):
        return
    names = set.intersection(*(set(s.moved) for s in steps))
    # What projects weights back (clipping, norms) moves them by less than the step did.
    moved = [
        n for n in sorted(names)
        if all(s.moved[n] > 1e-3 and s.moved[n] > 3 * s.updates.get(n, 0.0) for s in steps)
    ]  # fmt: skip
    if moved and 2 * len(moved) >= len(names):
        largest = max(s.moved[n] for s in steps for n in moved)
        yield Finding(
            "Weights change between the steps of the optimiser",
            f"{moved[0]} and {len(moved) - 1} others, by up to {largest:.1e} of their size, more "
            "than a step changes them",
            "look for what writes to them: .data, copy_, load_state_dict or init in the loop",
            notes.step_line,
        )


def _undone(notes: Notes) -> Iterator[Finding]:
    """Weights that are before each step what they were before the last."""
    steps = notes.steps
    if len(steps) < 4 or any(s.bad_gradients for s in steps):
        return
    names = [
        n for n in steps[0].sums
        if len({s.sums.get(n) for s in steps}) == 1
        and all(s.updates.get(n, 0.0) > 1e-6 for s in steps)
    ]  # fmt: skip
    if names and 2 * len(names) >= len(steps[0].sums):
        yield Finding(
            "Steps are undone",
            f"{names[0]} and {len(names) - 1} others are before each step what they were before "
            "the first",
            "look for what writes to them in the loop: load_state_dict, copy_, .data",
            notes.step_line,
        )


def _remade(notes: Notes) -> Iterator[Finding]:
    if notes.remade >= 2 and notes.remade >= len(notes.steps) - 2:
        yield Finding(
            "Every step has an optimiser of its own",
            f"{notes.remade + 1} optimisers of the same parameters in {len(notes.steps)} steps: "
            "momentum and averages begin anew each time",
            "make the optimiser once, before the loop",
            notes.step_line,
        )


def _same_data(notes: Notes) -> Iterator[Finding]:
    if notes.repeated >= 3 and notes.repeated >= len(notes.steps) - 2:
        yield Finding(
            "Every batch is the same",
            f"{notes.repeated} batches in a row equal the one before",
            "__getitem__ must use its index, and a sampler must not repeat one",
            notes.iterator_line,
        )
    if notes.calls >= 3 and notes.flat_inputs == notes.calls:
        yield Finding(
            "The inputs are one number",
            f"all elements are equal, in {notes.calls} calls",
            "look at how data is loaded and normalised; x.show() draws it",
            notes.input_line,
        )


def _smoothing(notes: Notes) -> Iterator[Finding]:
    for call in notes.losses.values():
        if call.smoothing:
            yield Finding(
                f"Labels are smoothed by {call.smoothing:g}",
                "that share of every target is spread over all classes",
                "label_smoothing is what is taken from the right class: 0.1 is usual",
                call.line,
            )


def _layers(notes: Notes) -> Iterator[Finding]:
    # By the name of a module, or the line of a call, which every module's is as well.
    for name, share in sorted(notes.drops.items(), key=lambda item: "(" in item[0]):
        if share > _MOST_DROPPED:
            called = "(" in name
            yield Finding(
                f"{'A dropout' if called else name} drops {100 * share:.0f}% of what it is given",
                f"p={share:g}",
                "p is what is dropped, not what is kept: 0.1 to 0.5 is usual",
                name if called else notes.step_line,
            )
            break
    for name, count in notes.few.items():
        if count <= _FEW_VALUES:
            yield Finding(
                f"{name} normalises over {count} values",
                "a batch norm has as many values per channel in each step",
                "a larger batch, or GroupNorm or LayerNorm, which do not depend on it",
                notes.step_line,
            )
            break
    for line, what in notes.over_batch.items():
        yield Finding(
            "A softmax runs over the samples of the batch",
            what,
            "dim=1 or dim=-1: the classes of one sample",
            line,
        )


def _rates(notes: Notes) -> Iterator[Finding]:
    for key, optimizer in notes.optimizers.items():
        line = notes.lines_of.get(key)
        for group in optimizer.param_groups:
            try:
                taken = float(group.get("lr", 0.0)) * float(group.get("weight_decay", 0.0))
            except (TypeError, ValueError):
                continue
            if taken > _MOST_DECAY:
                yield Finding(
                    "Weight decay is far too large",
                    f"each step takes {100 * taken:.3g}% of the weights: lr {group['lr']:g}, "
                    f"weight_decay {group['weight_decay']:g}",
                    "weight_decay between 1e-5 and 0.1 is usual",
                    line,
                )
                return
            betas = group.get("betas")
            if isinstance(betas, tuple) and len(betas) == 2 and betas[0] > 0.99 > betas[1] + 0.05:
                yield Finding(
                    "The averages of the optimiser are swapped",
                    f"betas={betas}: the gradient's average reaches further back than that of its "
                    "square",
                    "betas=(0.9, 0.999) is usual",
                    line,
                )
                return
    rates = [s.rates[0] for s in notes.steps if s.rates]
    if len(rates) >= 4 and rates[-1] < rates[0] / _FALL and rates[0] == max(rates):
        yield Finding(
            "The learning rate falls within the first steps",
            f"from {rates[0]:.3g} to {rates[-1]:.3g} in {len(rates)} steps",
            "step the scheduler once per epoch, or give it as many steps as there are",
            notes.step_line,
        )


def _seeds(notes: Notes) -> Iterator[Finding]:
    for (line, _), times in notes.seeds.items():
        if len(notes.steps) >= 3 and times >= len(notes.steps) - 1:
            yield Finding(
                "Random numbers begin anew in each step",
                f"manual_seed was called {times} times in {len(notes.steps)} steps",
                "seed once, before the loop: dropout and noise are the same each time",
                line,
            )


SETTINGS: tuple[Callable[[Notes], Iterator[Finding]], ...] = (
    _uphill, _moved_by_others, _undone, _remade, _same_data, _smoothing, _layers, _rates, _seeds
)  # fmt: skip
