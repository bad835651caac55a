"""Processes that a program starts import torch too."""

import os
from multiprocessing import spawn

_FIRST = "import rushlight.as_torch; rushlight.as_torch.install(); "
_get_command_line = spawn.get_command_line


def _command_line(**kwargs):
    """The command of a new process, with the name torch set up before anything is unpickled."""
    command = _get_command_line(**kwargs)
    if "-c" in command:
        at = command.index("-c") + 1
        command[at] = _FIRST + command[at]
    return command


def teach_children():
    """Those that multiprocessing starts from nothing."""
    from multiprocessing import forkserver

    spawn.get_command_line = _command_line
    server = forkserver._forkserver
    # Children of the fork server inherit what it imported.
    server.set_forkserver_preload(["rushlight.as_torch._in_child", *server._preload_modules])


def forget_children():
    from multiprocessing import forkserver

    spawn.get_command_line = _get_command_line
    server = forkserver._forkserver
    kept = [m for m in server._preload_modules if m != "rushlight.as_torch._in_child"]
    server.set_forkserver_preload(kept)


def teach_commands():
    """Those that the program starts as commands (`[sys.executable, "train.py"]`, as launchers do):
    a folder on PYTHONPATH has a sitecustomize.py, which Python imports at its start. Only for the
    command line: a program that calls install() itself says so again when it is started again."""
    from rushlight.as_torch._absent import PACKAGES

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_site")
    before = os.environ.get("PYTHONPATH", "")
    if before.partition(os.pathsep)[0] != folder:
        os.environ["PYTHONPATH"] = folder + (os.pathsep + before if before else "")
    os.environ["RUSHLIGHT_AS_TORCH"] = " ".join(["torch", "functorch", *sorted(PACKAGES)])
