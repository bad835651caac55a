"""Runs a file of uses, and writes its figures:

python tests/ecosystem/run_uses.py transformers OUT.json                          with PyTorch
python -m rushlight.as_torch tests/ecosystem/run_uses.py transformers OUT.json    with Rushlight
"""

import importlib
import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent
# Nothing is fetched, and nothing is told to anybody.
QUIET = {
    "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false",
    "ACCELERATE_USE_CPU": "1", "CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "offline",
    "WANDB_SILENT": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
    "RAY_raylet_start_wait_time_s": "300",  # on a busy machine
}  # fmt: skip


def main(name, out):
    os.environ.update(QUIET)
    folders = [str(HERE), str(HERE / "uses")]
    sys.path[:0] = folders
    # Ray's workers find them too; as_torch's folder stays before them.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*filter(None, [os.environ.get("PYTHONPATH")]), *folders]
    )
    import same
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    facts = {"torch": torch.__version__, "uses": {}, "seconds": {}, "failures": {}}
    try:
        module = importlib.import_module(f"use_{name}")
    except Exception:
        facts["failures"]["import"] = traceback.format_exc()
    else:
        facts["packages"] = {one: importlib.metadata.version(one) for one in module.PACKAGES}
        facts["about"] = module.__doc__.strip()
    for use in same.USES:
        start = time.perf_counter()
        try:
            with tempfile.TemporaryDirectory() as folder:
                torch.manual_seed(0)
                figures = {what: same.plain(figure) for what, figure in use(pathlib.Path(folder))}
            facts["uses"][use.__name__] = figures
        except Exception:
            facts["failures"][use.__name__] = traceback.format_exc()
        facts["seconds"][use.__name__] = round(time.perf_counter() - start, 1)
    pathlib.Path(out).write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
