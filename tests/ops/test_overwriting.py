"""Arguments and results of every row that are written to before backward (ops/overwriting.py).

Either the gradients are those of the call without the write, or an error is raised; and it is
raised only where PyTorch raises one (oracle/overwriting.json), but for what docs/autograd.md names.
"""

import pytest

import rushlight as rl
from ops import overwriting, rows
from ops.sample import RESULTS, collected, facts

ROWS = [r for r in collected(rows.ROWS) if r.grad and r.values and facts(r)["grad"]]
each_row = pytest.mark.parametrize("row", ROWS, ids=str)
# These keep more than PyTorch does: the passes of their gradients compute something again, or one
# pass gives all gradients.
KEEP_MORE = {
    "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell",
    "rnn_relu_cell", "batch_norm", "instance_norm", "rms_norm", "chain_matmul", "take_along_dim",
    "kron",
}  # fmt: skip
# Their results may have several places for one element, and are not written then.
OVERLAPPING = {"unfold", "as_strided"}


def check(row, rare):
    known = RESULTS["overwriting"].get(row.name, "")
    for i in overwriting.calls(row):
        refused = (known[i] if isinstance(known, list) else known).split()
        for name, want, got in overwriting.outcomes(row, i, rare):
            what = f"{row.name} call {i}, {name}"
            if isinstance(got, Exception):
                nobody_asked = refused == ["?"] or row.name not in RESULTS["ops"]
                assert name in refused or nobody_asked or row.name in KEEP_MORE | OVERLAPPING, (
                    f"{what}: {got}"
                )
                continue
            for g, w in zip(got, want, strict=True):
                assert (g is None) == (w is None), what
                same = g is None or rl.allclose(g, w, 1e-9, 1e-12, equal_nan=True)
                assert same, f"{what}: wrong gradients, and no error"


@each_row
def test_gradients_after_a_write(row):
    check(row, rare=False)


@pytest.mark.slow
@each_row
def test_gradients_after_a_write_in_rare_calls(row):
    check(row, rare=True)
