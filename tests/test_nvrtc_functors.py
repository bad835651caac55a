"""Every functor compiles with NVRTC: no GPU is needed, only NVIDIA's nvidia-cuda-nvrtc wheel."""

import functools
import json
import re
import sys

import pytest
from nvrtc import CSRC, ROOT, Nvrtc

sys.path.insert(0, str(ROOT / "codegen"))
import generate

FUNCTORS = CSRC / "functors"
FLOATS = ("float", "double")
COMPLEX = ("complex<float>", "complex<double>")

CPP = {"f32": "float", "f64": "double", "c64": "complex<float>", "c128": "complex<double>"}


@functools.cache
def types():
    """What each functor of the op table accepts; the others are taken for floats."""
    files = generate.outputs(sorted(str(p) for p in (CSRC / "ops").rglob("*.yaml")))
    table = json.loads(files["cuda/pointwise.json"])
    return {
        fn["functor"]: tuple(CPP.get(t, t) for t in fn["types"])
        for fns in table.values()
        for fn in fns
    }


SKIP = {"IntegerDivision", "BindRight", "BindLeft"}  # building blocks


def functors():
    """name -> (templated, number of members, number of arguments), read from the headers."""
    found = {}
    for path in sorted(FUNCTORS.glob("*.h")):
        text = re.sub(r"//.*", "", path.read_text())
        if "namespace rush::functors" not in text:
            continue
        starts = list(
            re.finditer(r"^(template <class T>\s+)?struct (\w+)(?: : \w+)? \{", text, re.M)
        )
        for i, m in enumerate(starts):
            end = starts[i + 1].start() if i + 1 < len(starts) else len(text)
            body = text[m.end() : end]
            call = re.search(r"operator\(\)\((.*?)\) const", body)
            if call is None or m[2] in SKIP:
                continue
            members = re.match(r"\s*((?:(?:T|double|bool) [\w, ]+;\s*)*)", body)[1]
            count = sum(len(line.split(",")) for line in members.split(";") if line.strip())
            found[m[2]] = (bool(m[1]), count, len(call[1].split(",")))
    return found


def kernel_source():
    lines = []
    for name, (templated, members, arguments) in functors().items():
        for k, t in enumerate(types().get(name, FLOATS)):
            values = ", ".join(["p[0]" if templated else "1"] * members)
            if name == "NanToNum" and t in COMPLEX:
                values = "p[0].re, p[0].re, p[0].re"
            if name == "RoundDecimals":
                values = "p[0], true"
            if name == "IsClose":
                values = "1.0, 1.0, true"
            functor = f"{name}<{t}>" if templated else name
            args = ["x[i]"] * arguments
            if name == "Where":
                args[0] = "i > 3"
            if name.startswith("Random"):  # the first is a random word of the number's width
                args[0] = "u32(i)" if t == "float" else "u64(i)"
            lines.append(
                f'extern "C" __global__ void k{name}_{k}(const {t}* p, const {t}* x, void* y) {{\n'
                f"  const int i = threadIdx.x;\n"
                f"  const {functor} f{{{values}}};\n"
                f"  using R = decltype(f({', '.join(args)}));\n"
                f"  static_cast<R*>(y)[i] = f({', '.join(args)});\n}}\n"
            )
    headers = ("activation", "random", "special")
    includes = "".join(f'#include "functors/{name}.h"\n' for name in headers)
    return (
        includes
        + "using namespace rush;\nusing namespace rush::functors;\n"
        + "".join(lines)
        + """
extern "C" __global__ void half_and_random(half* h, bfloat16* b, const float* x) {
  const int i = threadIdx.x;
  const math::SinCos s = math::philox_sincos(x[i]);
  h[i] = half(float(h[i]) + math::philox_log(x[i]) + s.sin);
  b[i] = bfloat16(float(b[i]) + s.cos);
}
"""
    )


def test_every_functor_is_listed_once():
    found = functors()
    assert len(found) > 120, sorted(found)
    assert set(types()) <= set(found), set(types()) - set(found)


def test_all_functors_compile():
    nvrtc = Nvrtc.find()
    if nvrtc is None:
        pytest.skip("libnvrtc not found: pip install nvidia-cuda-nvrtc")
    # Quickly: it is the front end that finds faults in templates.
    quick = ["--Ofast-compile=mid"]
    assert nvrtc.compile(kernel_source(), "functors.cu", options=quick).size > 0
