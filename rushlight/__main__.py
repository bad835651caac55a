"""python -m rushlight: doctor looks at a machine and a program, env prints facts for reports, names
says which names of PyTorch's are there, torch-wheel satisfies packages that require torch."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def _doctor(args: argparse.Namespace) -> int:
    from rushlight import doctor

    found = doctor.check_environment()
    print(f"The machine: {len(found)} findings" if found else "The machine: nothing was found.")
    for number, finding in enumerate(found, 1):
        print(f"{number}. {finding}")
    if args.script is None:
        return 1 if found else 0
    sys.stdout.flush()
    if not os.path.exists(args.script):
        print(f"doctor: there is no program {args.script!r}", file=sys.stderr)
        return 2
    diagnosis = doctor.examine(args.script, args.arguments, steps=args.steps, timed=args.timed)
    print(f"\n{args.script}:\n{diagnosis}")
    return 1 if found or diagnosis.findings or diagnosis.error else 0


def _env(args: argparse.Namespace) -> int:
    from rushlight.utils import collect_env

    collect_env.main()
    return 0


def _names(args: argparse.Namespace) -> int:
    from rushlight._names.page import entries, read_page

    text = read_page()
    if text is None:
        print("names: docs/compatibility.md is neither in the package nor beside it",
              file=sys.stderr)  # fmt: skip
        return 2
    print(text if args.name is None else entries(text, args.name))
    return 0


def _torch_wheel(args: argparse.Namespace) -> int:
    from rushlight.as_torch._wheel import write_wheel

    try:
        print(write_wheel(args.folder))
    except OSError as error:
        print(f"torch-wheel: {args.folder!r} cannot be written to: {error.strerror}",
              file=sys.stderr)  # fmt: skip
        return 2
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; the exit status is 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m rushlight", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    doctor = commands.add_parser("doctor", help="what is wrong with the machine, or a program")
    doctor.add_argument("--steps", type=int, default=5, help="steps whose values are looked at")
    doctor.add_argument("--timed", type=int, default=5, help="steps that are timed after them")
    doctor.add_argument("script", nargs="?", help="a program that trains something")
    doctor.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    doctor.set_defaults(run=_doctor)
    env = commands.add_parser("env", help="facts that a bug report should have")
    env.set_defaults(run=_env)
    names = commands.add_parser("names", help="the page of PyTorch's names, or what it says of one")
    names.add_argument("name", nargs="?", help="such as nn.functional.relu")
    names.set_defaults(run=_names)
    wheel = commands.add_parser(
        "torch-wheel", help="write a wheel `torch` without code, for packages that require torch"
    )
    wheel.add_argument("folder", nargs="?", default=".", help="where to; here, if not given")
    wheel.set_defaults(run=_torch_wheel)
    args = parser.parse_args(arguments)
    run: int = args.run(args)
    return run


if __name__ == "__main__":
    raise SystemExit(main())
