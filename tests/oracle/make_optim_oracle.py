"""Records what PyTorch's optimisers and schedules do, into optim.json. Run it with PyTorch."""

import json
import pathlib
import warnings

import optim_cases as cases
import torch


def main():
    warnings.simplefilter("ignore")
    optimizers = {}
    for name, (cls, _) in cases.OPTIMIZERS.items():
        for dtype in ("float32", "float64", "complex128"):
            if dtype == "complex128" and cls in cases.NO_COMPLEX:
                continue
            result = cases.optimize(torch, name, dtype)
            if dtype != "float32":  # one dtype shows the states' names and shapes
                del result["state"]
            optimizers[f"{name}/{dtype}"] = result
    oracle = {
        "torch": torch.__version__,
        "optimizers": optimizers,
        "lbfgs": {
            f"{search}/{dtype}": cases.lbfgs(torch, search, dtype)
            for search in (None, "strong_wolfe")
            for dtype in ("float32", "float64")
        },
        "schedules": {
            f"{name}/{cls}": cases.schedule(torch, name, cls)
            for name in cases.SCHEDULES
            for cls in ("SGD", "AdamW")
        },
        "closed_forms": {name: cases.closed_form(torch, name) for name in cases.CLOSED_FORMS},
        "plateaus": {name: cases.plateau(torch, name) for name in cases.PLATEAUS},
    }
    path = pathlib.Path(__file__).parent / "optim.json"
    path.write_text(json.dumps(oracle, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
