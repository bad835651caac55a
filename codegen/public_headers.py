"""Copies the headers that C++ programs and extensions include: csrc/frontend/rushlight.h,
bindings/extension.h, and all that they need.

    python codegen/public_headers.py --csrc csrc --generated build/generated --out include/rushlight

Inside, an include names its file from csrc ("core/tensor.h"); outside, such names belong to the
program, so that the copies say "rushlight/core/tensor.h".
"""

import argparse
import re
import shutil
from pathlib import Path

# Also the file that core/tensor.h includes by the name of a macro.
INCLUDE = re.compile(r'^(\s*#\s*(?:include|define RUSH_TENSOR_METHODS)\s*")([^"]+)(")', re.M)
ROOTS = (
    "frontend/rushlight.h",
    "bindings/extension.h",
    "frontend/library.h",
    "frontend/torch/cuda.h",
)
# Extensions that were written for PyTorch include its headers: each of these is extension.h. They
# lie in a folder of their own, which only cpp_extension names to the compiler.
SHIMS = """torch/extension.h torch/torch.h torch/all.h torch/types.h torch/library.h torch/script.h
torch/autograd.h torch/csrc/autograd/custom_function.h torch/headeronly/macros/Macros.h
ATen/ATen.h ATen/Dispatch.h ATen/Functions.h ATen/Operators.h ATen/Parallel.h ATen/core/Tensor.h
ATen/core/dispatch/Dispatcher.h ATen/TensorUtils.h ATen/AccumulateType.h
c10/core/ScalarType.h c10/macros/Macros.h c10/util/ArrayRef.h c10/util/Exception.h
c10/util/Optional.h c10/util/irange.h""".split()
# These need CUDA's headers, too.
CUDA_SHIMS = """ATen/cuda/CUDAContext.h ATen/cuda/Exceptions.h ATen/cuda/CUDAGuard.h
c10/cuda/CUDAException.h c10/cuda/CUDAFunctions.h c10/cuda/CUDAGuard.h
c10/cuda/CUDAStream.h""".split()

LIBRARY = """#pragma once
// First: it gives tensors their methods.
#include "rushlight/rushlight.h"
//
#include "rushlight/frontend/library.h"
"""


def found(name, folders):
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is included and not there")


def collected(folders):
    """{name from csrc: text with its includes changed} of the root and all that it includes."""
    headers, wanted = {}, list(ROOTS)
    while wanted:
        name = wanted.pop()
        if name in headers:
            continue
        text = found(name, folders).read_text()

        def changed(match, name=name):
            target = match[2]
            if "/" not in target:  # functors name their neighbours
                target = str(Path(name).parent / target)
            wanted.append(target)
            if target in ROOTS[:2]:
                target = Path(target).name
            return f"{match[1]}rushlight/{target}{match[3]}"

        headers[name] = INCLUDE.sub(changed, text)
    for name in ROOTS[:2]:
        headers[Path(name).name] = headers.pop(name)
    headers["library.h"] = LIBRARY
    shim = "#pragma once\n#include <rushlight/extension.h>\n"
    cuda_shim = f"{shim}#include <rushlight/frontend/torch/cuda.h>\n"
    shims = dict.fromkeys(SHIMS, shim) | dict.fromkeys(CUDA_SHIMS, cuda_shim)
    return headers | {f"for_pytorch/{name}": text for name, text in shims.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csrc", type=Path, required=True)
    parser.add_argument("--generated", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    headers = collected([args.csrc, args.generated])
    shutil.rmtree(args.out, ignore_errors=True)  # or a header that is gone would stay
    c = args.csrc / "frontend" / "c" / "rushlight.h"  # C programs have it beside the folder
    shutil.copyfile(c, args.out.parent / "rushlight.h")
    for name, text in headers.items():
        path = args.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
