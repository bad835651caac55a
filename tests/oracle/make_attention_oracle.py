"""Records what PyTorch's attention layers compute, into attention.json. Run it with PyTorch."""

import json
import pathlib
import warnings

import attention_cases as cases
import torch


def main():
    warnings.simplefilter("ignore")
    oracle = {
        "torch": torch.__version__,
        "attention": {name: cases.attention(torch, name) for name in cases.ATTENTION},
        "transformers": {name: cases.transformer(torch, name) for name in cases.TRANSFORMERS},
    }
    path = pathlib.Path(__file__).parent / "attention.json"
    path.write_text(json.dumps(oracle, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
