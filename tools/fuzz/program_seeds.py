"""Writes valid inputs of the C++ fuzzer into a folder, and a program file.

python tools/fuzz/program_seeds.py FOLDER FILE
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from jit import hostile  # noqa: E402

folder = Path(sys.argv[1])
for name, data in (("traced", hostile.valid()), ("scripted", hostile.scripted())):
    parts = hostile.entries(data)
    (folder / name).write_bytes(data)
    (folder / f"{name}-program").write_bytes(b"P" + parts["program.json"])
    (folder / f"{name}-json").write_bytes(b"J" + parts["program.json"])
    (folder / f"{name}-weights").write_bytes(b"S" + parts["weights.safetensors"])
Path(sys.argv[2]).write_bytes(hostile.scripted())
