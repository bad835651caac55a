"""Records PyTorch's answers about distributions: run with a Python that has PyTorch.

python tests/oracle/make_distributions_oracle.py
"""

import json
import pathlib

import torch
from distribution_cases import CASES, answer, divergence, divergences

HERE = pathlib.Path(__file__).resolve().parent


def main():
    record = {
        "torch": torch.__version__,
        "answers": [answer(torch, *case) for case in CASES],
        "divergences": [divergence(torch, p, q) for p, q in divergences()],
    }
    text = json.dumps(record, separators=(",", ":")).replace('{"shapes"', '\n{"shapes"')
    (HERE / "distributions.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
