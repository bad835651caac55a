"""Copies the headers that C++ programs include: csrc/frontend/rushlight.h and all that it needs.

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
ROOT = "frontend/rushlight.h"


def found(name, folders):
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is included and not there")


def collected(folders):
    """{name from csrc: text with its includes changed} of the root and all that it includes."""
    headers, wanted = {}, [ROOT]
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
            return f"{match[1]}rushlight/{target}{match[3]}"

        headers[name] = INCLUDE.sub(changed, text)
    headers["rushlight.h"] = headers.pop(ROOT)
    return headers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csrc", type=Path, required=True)
    parser.add_argument("--generated", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    headers = collected([args.csrc, args.generated])
    shutil.rmtree(args.out, ignore_errors=True)  # or a header that is gone would stay
    for name, text in headers.items():
        path = args.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
