"""The calls of all op rows as programs: traced, saved, loaded, they give the bits of the calls."""

import io
import warnings

import pytest
from ops import rows
from ops.sample import Inputs, collected, main_dtype, result_dtypes, run

import rushlight as rl

ROWS = collected(rows.ROWS)


def tensors_in(value):
    if isinstance(value, rl.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def refilled(value, tensors):
    """The value with its tensors taken from an iterator."""
    if isinstance(value, rl.Tensor):
        return next(tensors)
    if isinstance(value, (tuple, list)):
        items = [refilled(item, tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: refilled(item, tensors) for key, item in value.items()}
    return value


def bits(t):
    """A tensor whose equality is that of bits: nan equals nan, 0 differs from -0."""
    t = rl.view_as_real(t) if t.is_complex() else t
    return (t.dtype, t.shape, t.numpy(force=True).tobytes() if t.dtype != rl.bfloat16
            else t.view(rl.int16).numpy().tobytes())  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_calls_as_programs(row):
    dtype = main_dtype(row)
    for i in range(len(row.calls)):
        if result_dtypes(row, i, dtype) != []:
            check_call(row, *Inputs(row, i, dtype).tensors())


def check_call(row, args, kwargs):
    given = list(tensors_in([*args, *kwargs.values()]))

    def function(*inputs):
        inputs = iter(inputs)
        return run(row, refilled(args, inputs), refilled(kwargs, inputs))

    def trace():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return rl.jit.trace(function, tuple(given), check_trace=False, strict=False)

    rl.manual_seed(0)
    right = function(*(t.clone() for t in given))
    outputs = list(tensors_in(right))
    if not outputs and not isinstance(right, (tuple, list)):  # a number: no program gives that
        with pytest.raises(RuntimeError, match="give tensors"):
            trace()
        return
    traced = trace()
    program = rl.jit.load(io.BytesIO(traced.save_to_buffer()))
    rl.manual_seed(0)
    made = list(tensors_in(program(*(t.clone() for t in given))))
    if row.values:
        assert list(map(bits, made)) == list(map(bits, outputs)), traced.code
    else:  # uninitialised memory
        assert [(t.shape, t.dtype) for t in made] == [(t.shape, t.dtype) for t in outputs]
