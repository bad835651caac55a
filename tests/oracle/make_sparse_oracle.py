"""Writes sparse.json from PyTorch 2.13's behaviour; run by hand, never by the tests."""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import sparse_calls  # noqa: E402

recorded = {e: sparse_calls.shown(torch, e) for e in sparse_calls.EXPRESSIONS}
lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded.items()]
(HERE / "sparse.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
print(f"sparse.json: {len(recorded)} entries")
