"""Makes the wheel `rushlight-kernels`: the compiled GPU kernels, for those who have a GPU.

Its files lie where a build from source puts them, below `rushlight/lib/kernels`, so that the
library finds them without looking elsewhere. A kernel that is not there is compiled when first
used.
"""

import pathlib
import shutil

import archive

METADATA = """Metadata-Version: 2.1
Name: rushlight-kernels
Version: {version}
Summary: Compiled GPU kernels of Rushlight {version}
License: Apache-2.0
Requires-Python: >=3.10

Kernels that training programs usually need, compiled: a first step then takes as long as the next.
Rushlight's extras for GPUs install it. Other versions of Rushlight do not use it.
"""

WHEEL = """Wheel-Version: 1.0
Generator: rushlight-kernels
Root-Is-Purelib: true
Tag: py3-none-any
"""


def split_off(tree: pathlib.Path, version: str, out: pathlib.Path) -> pathlib.Path:
    """Moves the kernels out of an unpacked wheel into one of their own."""
    made = tree / "rushlight" / "lib" / "kernels"
    if not list(made.glob("*.kernels")):
        raise SystemExit("the wheel has no compiled kernels: was NVRTC there when it was built?")
    own = tree.parent / "kernels"
    place = own / "rushlight" / "lib"
    info = own / f"rushlight_kernels-{version}.dist-info"
    place.mkdir(parents=True)
    info.mkdir()
    shutil.move(made, place / "kernels")
    (info / "METADATA").write_text(METADATA.format(version=version))
    (info / "WHEEL").write_text(WHEEL)
    wheel = out / f"rushlight_kernels-{version}-py3-none-any.whl"
    archive.pack(own, wheel)
    return wheel
