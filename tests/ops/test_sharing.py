"""out= and in-place forms whose output shares memory with an input, or with another output.

Every op of the table that has such a form is called here: its rows give the arguments, and where
PyTorch refuses (oracle/sharing.json) so must we, with nothing written. Elsewhere the result is that
of the form without out=."""

import warnings

import numpy as np
import pytest

import rushlight as rl
from ops import rows, sharing
from ops.sample import (
    PEER,
    RESULTS,
    Inputs,
    assert_near,
    collected,
    forms,
    leaves,
    main_dtype,
    result_dtypes,
    run,
    tensor_leaves,
    to_numpy,
)
from ops.sharing import OUT_NAMES, out_function, short

pytestmark = pytest.mark.skipif(PEER, reason="PyTorch computes garbage from shared memory")
ROWS = collected(rows.ROWS)
KINDS = {kind[0] for kind in sharing.KINDS}
each_row = pytest.mark.parametrize("row", ROWS, ids=str)


def takes_out(row, i, dtype):
    """Whether call i has an out= form: by the table, or by PyTorch for functions in Python."""
    if result_dtypes(row, i, dtype) == [] or out_function(row) is None:
        return False
    if "o" in forms(row, i):
        return True
    if not {short(n) for n in (row.name, *row.aliases)} & OUT_NAMES:
        return False
    args, kwargs = Inputs(row, i, dtype).tensors()
    result = run(row, args, kwargs)
    if "out" in kwargs or not all(isinstance(r, rl.Tensor) for r in leaves(result)):
        return False
    try:
        call(row, i, dtype, fresh(leaves(result)), isinstance(result, tuple))
    except TypeError:  # this overload has none
        return False
    return True


def fresh(want):
    return [rl.empty(0, dtype=w.dtype) for w in want]


def call(row, i, dtype, outs, several, device=None):
    args, kwargs = Inputs(row, i, dtype).tensors(device)
    return out_function(row)(*args, **kwargs, out=tuple(outs) if several else outs[0])


def out_calls(row):
    dtype = main_dtype(row)
    return [i for i in range(len(row.calls)) if takes_out(row, i, dtype)]


def refused(row, form, i=None):
    """The cases that PyTorch refuses in call i; without i, the kinds that it fails for in any."""
    found = RESULTS["sharing"].get(row.name, {}).get(form, "")
    if i is None:
        return {key[-2] for key in (" ".join(found) if isinstance(found, list) else found).split()}
    keys = (found[i] if isinstance(found, list) else found).split()
    return [key[:-1] for key in keys if key.endswith("!")]


def state(tensors):
    """All that a call may change of these tensors."""
    return [(tuple(t.shape), t.stride(), to_numpy(t).copy()) for t in tensors]


def assert_untouched(tensors, before, what):
    for (shape, stride, values), (s, st, v) in zip(state(tensors), before, strict=True):
        assert (shape, stride) == (s, st), f"{what}: resized, then refused"
        np.testing.assert_array_equal(values, v, err_msg=f"{what}: written, then refused")


def check(case, want, must_refuse, may_refuse, got, slack):
    before = state(case.memory)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*resized")
            case.call()
    except RuntimeError as error:
        assert must_refuse or may_refuse, f"{case.what}: refused: {error}"
        assert_untouched(case.memory, before, case.what)
        return
    assert not must_refuse, f"{case.what}: PyTorch refuses this"
    assert_near(got, want, slack, case.what)


@each_row
def test_outputs_that_are_inputs(row):
    # What a function in Python composes has its result before it writes, and gives it.
    of_table = short(row.name) in OUT_NAMES
    for i in out_calls(row) if row.values else ():
        must, may = refused(row, "o", i) if of_table else [], refused(row, "o")
        if "o" not in forms(row, i):  # nobody asked PyTorch
            may = KINDS
        for key, case in sharing.out_cases(row, i, main_dtype(row)):
            # PyTorch refuses some only after it resized the output: there an answer is better.
            check(case, case.want, key in must and case.fits, key[-1] in may, case.outs, row.slack)


@each_row
def test_arguments_that_are_self(row):
    dtype = main_dtype(row)
    for i in range(len(row.calls)):
        if "i" not in forms(row, i) or result_dtypes(row, i, dtype) == [] or not row.values:
            continue
        must, may = refused(row, "i", i), refused(row, "i")
        for key, case in sharing.in_place_cases(row, i, dtype):
            want = leaves(case.apart())[0]
            if rl.can_cast(want.dtype, case.self.dtype):
                want = want.to(case.self.dtype)
                check(case, [want], key in must, key[-1] in may, [case.self], row.slack)


@each_row
def test_outputs_that_cannot_take_the_result(row):
    dtype = main_dtype(row)
    for i in out_calls(row):
        result = run(row, *Inputs(row, i, dtype).tensors())
        several, want = isinstance(result, tuple), leaves(result)
        what = f"out= {row.name} call {i}"
        if not tensor_leaves(*Inputs(row, i, dtype).tensors()):
            continue  # dtype and device of something new are those of out
        for j, w in enumerate(want):
            bad = {"meta": rl.empty(w.shape, dtype=w.dtype, device="meta")}
            if w.numel() > 1 and w.ndim:
                bad["expanded"] = rl.zeros((), dtype=w.dtype).expand(w.shape)
            if w.is_floating_point():
                bad["int32"] = rl.full(w.shape, 7, dtype=rl.int32)
            for kind, out in bad.items():
                outs = [out if n == j else rl.zeros(3, 1, dtype=v.dtype)
                        for n, v in enumerate(want)]  # fmt: skip
                on_host = [o for o in outs if o.device.type == "cpu"]
                before = state(on_host)
                with pytest.raises((RuntimeError, TypeError)):
                    call(row, i, dtype, outs, several)
                    pytest.fail(f"{what}: output {j} is {kind}")
                assert_untouched(on_host, before, f"{what}, {kind}")


@each_row
def test_one_tensor_for_two_outputs(row):
    dtype = main_dtype(row)
    for i in out_calls(row):
        result = run(row, *Inputs(row, i, dtype).tensors())
        if not isinstance(result, tuple):
            continue
        want = leaves(result)
        for j in range(len(want)):
            for k in range(j):
                if want[j].dtype != want[k].dtype:
                    continue
                room = rl.zeros(want[j].numel() + want[k].numel() + 1, dtype=want[j].dtype)
                pairs = [(room, room), (room[: want[j].numel()], room[: want[k].numel()])]
                if want[j].numel() and want[k].numel():
                    pairs.append((room[:0], room[:0]))  # they grow over each other
                for a, b in pairs if want[j].numel() and want[k].numel() else pairs[:1]:
                    outs = fresh(want)
                    outs[j], outs[k] = a, b
                    before = state([a, b])
                    with pytest.raises(RuntimeError, match="output"):
                        call(row, i, dtype, outs, True)
                    assert_untouched([a, b], before, f"{row.name} call {i}")


@each_row
def test_a_warning_that_is_an_error_changes_nothing(row):
    dtype = main_dtype(row)
    for i in out_calls(row):
        result = run(row, *Inputs(row, i, dtype).tensors())
        outs = [rl.ones(*w.shape, 2, dtype=w.dtype) for w in leaves(result)]
        if not all(o.numel() for o in outs):
            continue
        before = state(outs)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*resized")
            with pytest.raises(UserWarning, match="resized"):
                call(row, i, dtype, outs, isinstance(result, tuple))
        assert_untouched(outs, before, f"{row.name} call {i}")


def test_every_out_form_of_the_table_is_called():
    called = {short(n) for r in ROWS if out_calls(r) for n in (r.name, *r.aliases)}
    assert OUT_NAMES
    assert not sorted(OUT_NAMES - called - rows.RANDOM_NAMES)
