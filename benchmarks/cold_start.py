"""The first step of a program on a machine that has never run it: what a user waits for.

    TORCH_PYTHON=path/to/python python benchmarks/cold_start.py [--only GPT] [--rounds 3]

A process per model and library imports the library, builds the model on the GPU and runs training
steps. Ours starts with an empty folder of kernels ("cold"), then with the one it left behind
("warm"). Bar: the first step, from the import on, at most 1.5 times PyTorch's. The Hugging Face
models run the program written for PyTorch, under `python -m rushlight.as_torch`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from cuda_models import COMMON, TRAIN_GPT, TRAIN_VIT
from models_today import UNET
from peer import TORCH_PYTHON, markdown, write_report

HEAD = """
import json, sys, time
began = time.perf_counter()
lib = __import__(LIBRARY)
imported = time.perf_counter()
COMPILED = False
APPROXIMATE = 'none'
"""

TAIL = """
second = timed(step)
third = timed(step)
print("RESULT" + json.dumps({
    "import": imported - began, "all": time.perf_counter() - began - second - third,
    "first": first, "third": third,
}))
"""

TRAIN_UNET = (
    UNET
    + """
lib.manual_seed(0)
model = UNet(128).cuda()
images, noise = (lib.randn(32, 3, 64, 64, device="cuda") for _ in range(2))
times = lib.rand(32, device="cuda") * 1000
step = trained(model, lambda: F.mse_loss(model(images, times), noise))
first = timed(step)
"""
)

RESNET = """
sys.path.append(BENCHMARKS)
from table1_models import Training
training = Training(lib, "resnet50", batch=32, small=False, device="cuda", autocast=None)
step = training.step
first = timed(step)
"""

HUGGING_FACE = """
import transformers
lib.manual_seed(0)
config = transformers.{config}
model = transformers.{model}(config).cuda()
text = lib.randint(0, 30000, (8, 512), device="cuda")
step = trained(model, lambda: model(input_ids=text, labels=text).loss)
first = timed(step)
"""

MODELS = {
    "GPT 124 M": (TRAIN_GPT, False),
    "ViT-B/16": (TRAIN_VIT, False),
    "U-Net": (COMMON + TRAIN_UNET, False),
    "ResNet-50": (COMMON + RESNET, False),
    "HF GPT-2": (
        COMMON + HUGGING_FACE.format(config="GPT2Config()", model="GPT2LMHeadModel"),
        True,
    ),
    "HF Llama": (
        COMMON
        + HUGGING_FACE.format(
            config="LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=12,"
            " num_attention_heads=16, num_key_value_heads=4)",
            model="LlamaForCausalLM",
        ),
        True,
    ),
}


def run(python, library, setup, as_torch, folder):
    here = os.path.dirname(os.path.abspath(__file__))
    library = "torch" if as_torch else library
    program = f"LIBRARY = {library!r}\nBENCHMARKS = {here!r}\n" + HEAD + setup + TAIL
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        command = [*python, file.name]
        env = os.environ | {"RUSHLIGHT_KERNEL_CACHE": folder} if folder else os.environ
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            return json.loads(line.removeprefix("RESULT"))
    raise RuntimeError(done.stderr[-2000:])


def measure(name, rounds):
    setup, hugging_face = MODELS[name]
    ours = [sys.executable] + (["-m", "rushlight.as_torch"] if hugging_face else [])
    runs = {"cold": [], "warm": [], "torch": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("cold", "warm"):
                runs[state].append(run(ours, "rushlight", setup, hugging_face, folder))
        if TORCH_PYTHON:
            runs["torch"].append(run([TORCH_PYTHON], "torch", setup, hugging_face, None))

    def median(state, what):
        return statistics.median(r[what] for r in runs[state]) if runs[state] else float("nan")

    cells = [f"{median(s, w):.2f}" for s in runs for w in ("all", "first")]
    ratios = [median("cold", w) / median("torch", w) for w in ("all", "first")]
    return [name, *cells, *(f"{r:.2f}" for r in ratios), "missed" if ratios[1] > 1.5 else ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    rows = []
    for name in MODELS:
        if args.only in name:
            rows.append(measure(name, args.rounds))
            print(rows[-1], flush=True)
    header = ["model"]
    for who in ("cold", "warm", "PyTorch"):
        header += [f"{who}: import to first step, s", "its first step, s"]
    header += ["cold to PyTorch, whole", "first step", ""]
    if not args.no_report:
        import rushlight as rl

        title = f"Cold start on {rl.cuda.get_device_name()}"
        write_report("cold_start", title, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
