"""Processes that multiprocessing starts from nothing import torch too."""

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
