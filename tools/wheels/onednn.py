"""Makes the wheel `rushlight-onednn`: oneDNN's library once, asking for our OpenMP runtime.

The wheel that source builds use, onednn-cpu-gomp, holds the same 55 MB file three times, because
wheels know no symbolic links. This takes the library out of it, unchanged but for the name of the
OpenMP runtime that it asks for.
"""

import pathlib
import shutil
import subprocess
import sys

import archive
import elf

PACKAGE = "rushlight_onednn"
LIBRARY = "libdnnl.so.3"
# The licence texts, which lie outside of site-packages in the source wheel.
LICENSES = ("LICENSE", "THIRD-PARTY-PROGRAMS")

METADATA = """Metadata-Version: 2.1
Name: rushlight-onednn
Version: {version}
Summary: oneDNN's library for Rushlight, which opens it when it multiplies or convolves on the CPU
License: Apache-2.0
Requires-Python: >=3.10
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux

oneDNN {version} by Intel, unchanged but for the name of the OpenMP runtime that it asks for:
GNU's, which lies beside it and is the one that Rushlight loads too. The licences are in the folder.
"""

WHEEL = """Wheel-Version: 1.0
Generator: rushlight-onednn
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""

INIT = '"""A folder for oneDNN\'s library. Nothing to import: Rushlight opens the file."""\n'


def build(requirement: str, scratch: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Downloads what source builds use and packs it anew; gives the wheel, with a plain tag."""
    download = scratch / "download"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", download]
    subprocess.run([*command, requirement], check=True)
    (source,) = download.glob("*.whl")
    archive.unpack(source, scratch / "source")
    version = source.name.split("-")[1]

    tree = scratch / "tree"
    package, info = tree / PACKAGE, tree / f"{PACKAGE}-{version}.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (library,) = (scratch / "source").rglob(LIBRARY)
    shutil.copyfile(library, package / LIBRARY)
    (package / LIBRARY).chmod(0o755)
    elf.strip(package / LIBRARY)  # before patchelf: a patched file does not survive it
    elf.bundle_gomp(package / LIBRARY)
    for name in LICENSES:
        (text,) = (scratch / "source").rglob(name)
        shutil.copyfile(text, package / name)
    (package / "__init__.py").write_text(INIT)
    (info / "METADATA").write_text(METADATA.format(version=version))
    (info / "WHEEL").write_text(WHEEL)
    wheel = out / f"{PACKAGE}-{version}-py3-none-linux_x86_64.whl"
    archive.pack(tree, wheel)
    return wheel
