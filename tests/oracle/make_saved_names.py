"""Records in saved_names.json which _saved_ names PyTorch's nodes have, over all rows. Run it with
a Python that has PyTorch:

    PYTHONPATH=tests python tests/oracle/make_saved_names.py
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    import torch

    sys.modules["rushlight"] = torch  # the rows are written for Rushlight

from ops import rows
from ops.sample import Inputs, dtypes_of, facts, leaves, result_dtypes, run, tensor_leaves

import rushlight as rl


def nodes_of(row):
    """The node of the first result of each call that has a gradient."""
    if not (row.grad and row.values and facts(row)["grad"]) or "float64" not in dtypes_of(row):
        return
    for i in range(len(row.calls)):
        if result_dtypes(row, i, "float64") == []:
            continue
        args, kwargs = Inputs(row, i, "float64").tensors()
        for t in tensor_leaves(args, kwargs):
            if t.dtype == rl.float64:
                t.requires_grad_()
        try:
            results = leaves(run(row, list(args), kwargs))
        except RuntimeError:  # a leaf is written in place
            continue
        found = [t.grad_fn for t in results if isinstance(t, rl.Tensor) and t.grad_fn]
        yield from found[:1]


def names_by_node():
    """{kind of node: its _saved_ names} over all rows."""
    found = {}
    for row in rows.ROWS:
        for node in nodes_of(row):
            names = found.setdefault(node.name(), set())
            names |= {name for name in dir(node) if name.startswith("_saved_")}
    return {node: sorted(names) for node, names in sorted(found.items()) if names}


if __name__ == "__main__":
    path = Path(__file__).with_name("saved_names.json")
    path.write_text(json.dumps(names_by_node(), indent=0) + "\n")
