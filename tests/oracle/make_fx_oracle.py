"""Records the graphs that torch.fx makes of the programs in fx_programs.py, into fx.json. Run it
with PyTorch. What PyTorch cannot trace is recorded as null."""

import json
import pathlib
import warnings

import fx_programs
import torch


def main():
    warnings.simplefilter("ignore")
    found = {}
    for name, (program, _) in fx_programs.programs(torch).items():
        try:
            found[name] = fx_programs.rows_of(torch.fx.symbolic_trace(program).graph, torch)
        except (TypeError, ValueError) as error:
            print(f"{name}: {error}")
            found[name] = None
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.items()]
    path = pathlib.Path(__file__).with_name("fx.json")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
