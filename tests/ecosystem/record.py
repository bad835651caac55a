"""Records the figures, in an environment with PyTorch 2.13 and the packages of packages.txt:

python tests/ecosystem/record.py [transformers ...]
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def main(names):
    failed = []
    for name in names or sorted(
        path.stem.removeprefix("use_") for path in HERE.glob("uses/use_*.py")
    ):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "facts.json")
            subprocess.run(
                [sys.executable, HERE / "run_uses.py", name, out], cwd=folder, check=True
            )
            facts = json.loads(out.read_text())
        if not facts["torch"].startswith("2.13.") or "rushlight" in facts["torch"]:
            sys.exit(f"figures are recorded with PyTorch 2.13, not {facts['torch']}")
        for use, text in facts.pop("failures").items():
            failed.append(f"{name}: {use}: {text.splitlines()[-1]}")
        del facts["seconds"]
        (HERE / "figures" / f"{name}.json").write_text(dumped(facts))
    sys.exit("\n".join(failed) or 0)


def dumped(facts):
    """One line per figure: readable where they change."""
    uses = ",\n".join(
        f"  {json.dumps(use)}: {{\n"
        + ",\n".join(
            f"   {json.dumps(what)}: {json.dumps(figure)}" for what, figure in figures.items()
        )
        + "\n  }"
        for use, figures in facts.pop("uses").items()
    )
    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items())
    return f'{{\n{head},\n "uses": {{\n{uses}\n }}\n}}\n'


if __name__ == "__main__":
    main(sys.argv[1:])
