"""A wheel of the distribution `torch` that has metadata and not one file of code.

Packages that require torch are content with it, so that pip fetches no PyTorch; `import torch`
works under as_torch and nowhere else."""

import base64
import hashlib
import pathlib
import zipfile

from rushlight.as_torch.version import __version__

# What PyTorch brings along and packages take for granted.
_BRINGS = ("filelock", "fsspec", "jinja2", "networkx", "sympy", "typing-extensions")
_SUMMARY = "metadata only; run programs with python -m rushlight.as_torch"


def write_wheel(folder: str) -> pathlib.Path:
    """The path of the wheel."""
    name = f"torch-{__version__}"
    metadata = [
        "Metadata-Version: 2.1",
        "Name: torch",
        f"Version: {__version__}",
        f"Summary: {_SUMMARY}",
    ]
    metadata += [f"Requires-Dist: {package}" for package in _BRINGS]
    files = {
        "METADATA": "\n".join(metadata) + "\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: rushlight\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = ""
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{name}.dist-info/{file},sha256={digest.decode()},{len(text.encode())}\n"
    files["RECORD"] = record + f"{name}.dist-info/RECORD,,\n"
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(folder, f"{name}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"{name}.dist-info/{file}", text)
    return path
