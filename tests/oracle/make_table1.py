"""Records the losses of the small variants of benchmarks/table1_models.py in PyTorch.

    python tests/oracle/make_table1.py     # with a Python that has PyTorch 2.13

Ten steps of each model, from weights that depend on names and shapes only, without dropout, in
float32 and float64.
"""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "benchmarks"))

from table1_models import TASKS, Training, fill_weights  # noqa: E402

STEPS, BATCH = 10, 4


def losses(name, dtype):
    training = Training(torch, name, batch=BATCH, small=True, dropout=False, dtype=dtype)
    fill_weights(torch, training.model)
    return training.losses(STEPS)


def main():
    torch.set_num_threads(1)
    dtypes = {"float32": torch.float32, "float64": torch.float64}
    recorded = {
        "torch": torch.__version__.partition("+")[0],
        "losses": {d: {name: losses(name, t) for name in TASKS} for d, t in dtypes.items()},
    }
    (HERE / "table1.json").write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
