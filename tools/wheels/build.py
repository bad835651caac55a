"""Builds wheels that can be published: `make wheel`.

    python tools/wheels/build.py [--python python3.12]... [--repository ADDRESS] [--out dist]
    python tools/wheels/build.py --wheel FILE --out FOLDER     finishes one that was built elsewhere
    python tools/wheels/build.py --onednn --out FOLDER         makes oneDNN's wheel alone
    python tools/wheels/build.py --list                        prints the interpreters found

A wheel per interpreter (all of 3.10 to 3.14 that are found), and for all of them one of oneDNN's
library and one of compiled GPU kernels. Each is built from the source tree, given the OpenMP
runtime that it needs, and named by `auditwheel` after the oldest glibc that it runs with.
--repository is the address that the links in the description lead to, as
https://github.com/owner/name; the workflow that releases knows it.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import archive
import elf
import kernels
import metadata
import onednn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from requirements import requirements  # noqa: E402

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
LIMIT = 15_000_000  # bytes of our wheel


def run(*command: str | pathlib.Path, **options) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)


def makes_environments(python: str) -> bool:
    try:
        done = subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True)
    except OSError:  # one that was made in a checkout which has moved since
        return False
    return done.returncode == 0


def interpreters() -> list[str]:
    """Those that are installed, in pyenv's folders too, and those that tools/debian_python.sh made;
    this one if there is no other."""
    found = []
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    made = ROOT / "build" / "interpreters"
    for version in VERSIONS:
        kept = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
        kept = kept or sorted(made.glob(f"{version}/usr/bin/python{version}"))
        path = str(kept[-1]) if kept else shutil.which(f"python{version}")
        if path and makes_environments(path):
            found.append(path)
    return found or [sys.executable]


def build_plain(python: str, scratch: pathlib.Path) -> pathlib.Path:
    """What `pip wheel .` makes, in an environment of its own that is kept for the next time."""
    script = "import sys; print('cp%d%d' % sys.version_info[:2])"
    tag = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    venv = ROOT / "build" / "wheels" / tag.stdout.strip()
    if not (venv / ".ready").exists():
        run(python, "-m", "venv", "--clear", venv)
        run(venv / "bin/python", "-m", "pip", "install", "--quiet", *requirements(["build"]))
        (venv / ".ready").touch()
    environment = os.environ | {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    command = [venv / "bin/python", "-m", "pip", "wheel", "--quiet", "--no-build-isolation"]
    run(*command, "--no-deps", "-w", scratch / "plain", ROOT, env=environment)
    (wheel,) = (scratch / "plain").glob("*.whl")
    return wheel


def finish(wheel: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Gives the wheel the name that says where it runs."""
    before = set(out.glob("*.whl"))
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", out, wheel]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"auditwheel: {done.stdout}{done.stderr}")
    (made,) = set(out.glob("*.whl")) - before
    if "manylinux" not in made.name:
        raise SystemExit(f"{made.name} is no manylinux wheel")
    return made


def publishable(
    plain: pathlib.Path, repository: str | None, out: pathlib.Path, with_kernels: bool
) -> None:
    """From what `pip wheel` made to what an index takes; the wheel of kernels if it is wanted."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        tree = scratch / "tree"
        info = archive.unpack(plain, tree)
        elf.bundle_gomp(tree / "rushlight" / "lib" / "librushlight.so")
        made = kernels.split_off(tree, plain.name.split("-")[1], out if with_kernels else scratch)
        print(f"== {made.name}: {made.stat().st_size / 1e6:.1f} MB")
        text = metadata.with_our_onednn((info / "METADATA").read_text(), onednn_version())
        text = metadata.with_kernels(text)
        if repository:
            text = metadata.with_addresses(text, repository)
        else:
            count = len(metadata.relative_links(text))
            print(f"== {count} links of the description stay relative: no --repository was given")
        (info / "METADATA").write_text(text)
        bundled = scratch / "bundled" / plain.name
        archive.pack(tree, bundled)
        made = finish(bundled, out)
    size = made.stat().st_size
    print(f"== {made.name}: {size / 1e6:.1f} MB")
    if size > LIMIT:
        raise SystemExit(f"{made.name} has grown over {LIMIT / 1e6:.0f} MB")


def onednn_requirement() -> str:
    (found,) = [r for r in requirements(["run"]) if r.startswith(metadata.SOURCE_ONEDNN)]
    return found.split(";")[0].strip()


def onednn_version() -> str:
    return onednn_requirement().partition("==")[2]


def build_onednn(out: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        made = finish(onednn.build(onednn_requirement(), scratch, scratch / "plain"), out)
    print(f"== {made.name}: {made.stat().st_size / 1e6:.1f} MB")


def build_all(pythons: list[str], repository: str | None, out: pathlib.Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    build_onednn(out)
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            publishable(build_plain(python, pathlib.Path(folder)), repository, out, True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="only print the interpreters found")
    parser.add_argument("--python", action="append", help="an interpreter; may be repeated")
    parser.add_argument("--wheel", type=pathlib.Path, help="a wheel that was built already")
    parser.add_argument("--onednn", action="store_true", help="only oneDNN's wheel")
    parser.add_argument("--repository", default=os.environ.get("RUSHLIGHT_REPOSITORY"))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    args = parser.parse_args()
    if args.list:
        return print(*interpreters(), sep="\n")
    if not (args.wheel or args.onednn):
        return build_all(args.python or interpreters(), args.repository, args.out)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.onednn:
        build_onednn(args.out)
    if args.wheel:
        publishable(args.wheel, args.repository, args.out, False)


if __name__ == "__main__":
    main()
