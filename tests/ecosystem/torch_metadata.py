"""Writes a wheel of the distribution `torch` that has metadata and not one file of code:

    python tests/ecosystem/torch_metadata.py FOLDER

Packages that ask pip for torch are content with it, and `import torch` fails without
`python -m rushlight.as_torch`, so that no test can reach PyTorch by mistake.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

VERSION_FILE = pathlib.Path(__file__).parents[2] / "rushlight" / "as_torch" / "version.py"


def version() -> str:
    """What `torch.__version__` is under as_torch, read without importing the package."""
    return re.search(r'"(\d+\.\d+\.\d+\+rushlight)"', VERSION_FILE.read_text())[1]


def write(folder: str) -> pathlib.Path:
    """The path of the wheel."""
    name = f"torch-{version()}"
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version()}\n"
        "Summary: metadata only; run programs with python -m rushlight.as_torch\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: rushlight\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = ""
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{name}.dist-info/{file},sha256={digest.decode()},{len(text.encode())}\n"
    files["RECORD"] = record + f"{name}.dist-info/RECORD,,\n"
    path = pathlib.Path(folder, f"{name}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"{name}.dist-info/{file}", text)
    return path


if __name__ == "__main__":
    print(write(sys.argv[1]))
