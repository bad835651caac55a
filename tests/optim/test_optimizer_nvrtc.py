"""Every optimiser's functor compiles for the GPU, in both types."""

import re

import pytest
from nvrtc import CSRC, Nvrtc


def rules():
    """name -> (numbers, states), read from the header."""
    text = (CSRC / "functors" / "optimizer.h").read_text()
    found = {}
    for name, parent, body in re.findall(r"struct (\w+)(?: : (\w+)<T>)? \{(.*?)\n\};", text, re.S):
        states = re.search(r"kStates = (\d+)", body)
        if states is None:
            continue
        numbers = re.search(r"kNumbers = (\d+)", body)
        count = int(numbers[1]) if numbers else found[parent][0]
        found[name] = (count, int(states[1]))
    return found


def test_rules_are_found():
    table = (CSRC / "cpu" / "kernels" / "optimizer.cpp").read_text()
    assert set(rules()) == set(re.findall(r"entry<optimizers::(\w+), T>", table))


def test_rules_compile():
    nvrtc = Nvrtc.find()
    if nvrtc is None:
        pytest.skip("libnvrtc not found: pip install nvidia-cuda-nvrtc")
    source = '#include "functors/optimizer.h"\nusing namespace rush;\n'
    for name, (numbers, states) in rules().items():
        for t in ("float", "double"):
            fields = ", ".join(f"k[{i}]" for i in range(numbers))
            more = "".join(f", s{i}[i]" for i in range(states))
            given = "".join(f", {t}* s{i}" for i in range(states))
            source += (
                f'extern "C" __global__ void {name}_{t}({t}* p, const {t}* g, const {t}* k{given})'
                f" {{\n  const int i = threadIdx.x;\n"
                f"  const optimizers::{name}<{t}> f{{{fields}}};\n  f(p[i], g[i]{more});\n}}\n"
            )
    assert nvrtc.compile(source, "optimizers.cu").size > 0
