"""The calls of all op rows as frozen functions: recorded and replayed, they give the bits of the
calls, and their gradients; what is not replayed says why."""

import pytest
from ops import rows
from ops.sample import Inputs, collected, main_dtype, result_dtypes, run

import rushlight as rl

ROWS = collected(rows.ROWS)
CALLS = 6  # the fifth and the sixth are replayed


def tensors_in(value):
    if isinstance(value, rl.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def fresh(value):
    """The value with copies of its tensors."""
    if isinstance(value, rl.Tensor):
        return value.detach().clone().requires_grad_(value.is_floating_point())
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(fresh(item) for item in value)
    return value


def bits(t):
    t = rl.view_as_real(t.resolve_conj()) if t.is_complex() else t
    t = t.detach().view(rl.int16) if t.dtype == rl.bfloat16 else t
    return (t.dtype, t.shape, t.numpy(force=True).tobytes())


def told(function, args, kwargs, row):
    """Bits of the results and of the gradients."""
    rl.manual_seed(0)
    result = function(args, kwargs)
    outputs = list(tensors_in(result))
    if not row.values:  # uninitialised memory
        return [(t.shape, t.dtype) for t in outputs]
    found = [bits(t) for t in outputs] or [repr(result)]
    wanted = [t for t in outputs if t.requires_grad and t.is_floating_point()]
    if wanted:
        sum(t.nan_to_num().sum() for t in wanted).backward()
        leaves = [t for t in tensors_in([*args, *kwargs.values()]) if t.grad is not None]
        found += [bits(t.grad) for t in leaves]
    return found


# One row in ten runs always.
SOME = [pytest.param(row, marks=[pytest.mark.slow] * bool(i % 10)) for i, row in enumerate(ROWS)]


@pytest.mark.parametrize("row", SOME, ids=str)
def test_calls_as_frozen_functions(row):
    dtype = main_dtype(row)
    for i in range(len(row.calls)):
        if result_dtypes(row, i, dtype) != []:
            check_call(row, *Inputs(row, i, dtype).tensors())


def check_call(row, args, kwargs):
    def function(args, kwargs):
        return run(row, args, kwargs)

    def given():
        return fresh(list(args)), {key: fresh(value) for key, value in kwargs.items()}

    frozen = rl.compile(function, mode="frozen")
    try:
        want = told(function, *given(), row)
    except RuntimeError as refused:  # a write into a leaf, and the like: the same when compiled
        with pytest.raises(type(refused)):
            told(frozen, *given(), row)
        return
    for _ in range(CALLS):
        assert told(frozen, *given(), row) == want
    state = frozen._options.frozen
    assert state.reasons or sum(program[3] for program in state.programs()) == 2, state.lines()
