"""Language models on a GPU in bfloat16: Hugging Face's, written for PyTorch, and decoding.

    TORCH_PYTHON=path/to/python python benchmarks/cuda_language_models.py [--only Llama]

Hugging Face's models run unmodified, ours through rushlight.as_torch: a training step (autocast,
fused AdamW), and `generate` of 32 tokens. Bars: 1.2 times PyTorch's speed (times 0.83). Decoding: a
Llama of 1.1 B parameters in plain modules, batch of one, a cache written in place, 32 tokens after
the first 128: 4 times (0.25).
"""

import argparse
import sys

from models_today import BLOCK, LLAMA
from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

AS_TORCH = """
import rushlight.as_torch
rushlight.as_torch.install()
import torch as lib
"""

TRAIN = """
import transformers
lib.manual_seed(0)
config = transformers.{config}
model = transformers.{model}(config).cuda().train()
optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
text = lib.randint(0, 30000, {shape}, device="cuda")
def step():
    with lib.autocast("cuda", dtype=lib.bfloat16):
        loss = model(input_ids=text, labels=text).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
def run():
    for _ in range(5):
        step()
    lib.cuda.synchronize()
run()
"""

GENERATE = """
import transformers
lib.manual_seed(0)
config = transformers.{config}
model = transformers.{model}(config).cuda().to(lib.bfloat16).eval()
text = lib.randint(0, 30000, {shape}, device="cuda")
def run():
    with lib.no_grad():
        model.generate(text, max_new_tokens=32, do_sample=False, pad_token_id=0, eos_token_id=None)
    lib.cuda.synchronize()
run()
"""

DECODE = """
lib.manual_seed(0)
with lib.device("cuda"):
    model = Llama(32000, 2048, 2048, 22, 32, 4, 5632).to(lib.bfloat16).eval()
    caches = [lib.zeros(2, 1, 4, 2048, 64, dtype=lib.bfloat16).unbind() for _ in range(22)]
    prompt = lib.randint(0, 32000, (1, 128))
def run():
    with lib.no_grad():
        token = model(prompt, caches)[:, -1].argmax(-1, keepdim=True)
        for at in range(128, 160):
            token = model(token, caches, at)[:, -1].argmax(-1, keepdim=True)
    return token.item()
run()
"""

GPT2 = {"config": "GPT2Config()", "model": "GPT2LMHeadModel"}
BERT = {"config": "BertConfig()", "model": "BertForMaskedLM"}
LLAMA_1B = {
    "config": "LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,"
    " num_attention_heads=32, num_key_value_heads=4)",
    "model": "LlamaForCausalLM",
}

DECODING = "APPROXIMATE = 'none'\n" + BLOCK + LLAMA + DECODE

# name, program, the least speed in PyTorch's
ROWS = [
    ("HF GPT-2, training 8x512", TRAIN.format(**GPT2, shape="(8, 512)"), 1.2),
    ("HF BERT, training 16x512", TRAIN.format(**BERT, shape="(16, 512)"), 1.2),
    ("HF Llama 1.1 B, training 4x512", TRAIN.format(**LLAMA_1B, shape="(4, 512)"), 1.2),
    ("HF GPT-2, generate 32", GENERATE.format(**GPT2, shape="(1, 64)"), 1.2),
    ("HF Llama 1.1 B, generate 32", GENERATE.format(**LLAMA_1B, shape="(1, 64)"), 1.2),
    ("Llama 1.1 B, decoding 32", DECODING, 4.0),
]
CASES = [Case(name, setup, "run()", 1 / speed) for name, setup, speed in ROWS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()

    import rushlight as rl

    if not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    sides = [Side("rushlight", prelude=AS_TORCH)]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON))
    rows = []
    for case in CASES:
        if args.only not in case.name:
            continue
        # One after the other: two models of a billion parameters need not share the memory.
        for result in compare([case], sides, rounds=args.rounds, seconds=0.3, patience=15.0):
            print(result, flush=True)
            times = [result.ours, *result.peers.values()]
            shown = [f"{t.median * 1e3:.1f} ±{t.spread * 100:.0f}%" for t in times]
            ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
            bar, verdict = f"{case.bar:.2f}", "missed" if result.missed else ""
            rows.append([case.name, *shown, *ratios, bar, verdict])
    names = [side.module for side in sides]
    header = ["what", *(f"{n}, ms" for n in names), *(f"to {n}" for n in names[1:]), "bar", ""]
    if not args.no_report:
        title = f"Language models in bfloat16 on {rl.cuda.get_device_name()}"
        write_report("cuda_language_models", title, markdown(header, rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
