"""Runs a script, a module or a line of code as Python itself would, as __main__."""

import builtins
import importlib.machinery
import io
import os
import runpy
import sys
import types

USAGE = """usage: python -m rushlight.as_torch script.py [arguments ...]
       python -m rushlight.as_torch -m module [arguments ...]
       python -m rushlight.as_torch -c code [arguments ...]

Runs a program that was written for PyTorch; `import torch` gives it Rushlight."""


def main(arguments):
    """Runs what the arguments name; returns the exit status where the program did not exit."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stderr if not arguments else sys.stdout)
        return 0 if arguments else 2
    if arguments[0] == "--version":
        import rushlight
        from rushlight.as_torch import TORCH_VERSION

        print(f"rushlight {rushlight.__version__}, answering as torch {TORCH_VERSION}")
        return 0
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        print(f"Argument expected for the {arguments[0]} option\n{USAGE}", file=sys.stderr)
        return 2
    if arguments[0].startswith("-") and arguments[0] not in ("-", "-m", "-c"):
        print(f"unknown option {arguments[0]}\n{USAGE}", file=sys.stderr)
        return 2
    sys.excepthook = _without_our_frames(sys.excepthook)
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy._run_module_as_main(arguments[1])
    elif arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        _run_code(compile(arguments[1], "<string>", "exec"), {})
    else:
        return _run_script(arguments)
    return 0


def _run_script(arguments):
    path = arguments[0]
    sys.argv[:] = arguments
    if path == "-":
        _run_code(compile(sys.stdin.read(), "<stdin>", "exec"), {})
        return 0
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return 0
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        print(f"python -m rushlight.as_torch: can't open file {path!r}: {error}", file=sys.stderr)
        return 2
    # `python script.py` looks for modules beside the script, not in the working directory.
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    _run_code(
        compile(source, path, "exec", dont_inherit=True), {"__file__": path, "__loader__": loader}
    )
    return 0


def _run_code(code, attributes):
    """Runs code in a fresh __main__ that stays, for threads and exit handlers."""
    module = types.ModuleType("__main__")
    module.__dict__.update(attributes, __builtins__=builtins, __spec__=None, __package__=None)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _without_our_frames(hook):
    """An excepthook that shows tracebacks from the program's first line on."""
    runners = (os.path.dirname(os.path.abspath(__file__)), "<frozen runpy>", runpy.__file__)

    def excepthook(kind, error, traceback):
        shown = traceback
        while shown is not None and shown.tb_frame.f_code.co_filename.startswith(runners):
            shown = shown.tb_next
        hook(kind, error.with_traceback(shown or traceback), shown or traceback)

    return excepthook
