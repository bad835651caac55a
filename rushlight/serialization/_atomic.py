"""Files that appear whole or not at all."""

import os
import stat
from contextlib import contextmanager


@contextmanager
def replacing(path):
    """A file to write that becomes `path` when the block ends well; otherwise nothing changes.

    The bytes go to a new file in the same folder, which is renamed once they are on the disk.
    Readers, and memory maps of the old file, keep the old one. Mode bits and, where permitted, the
    owner of an existing file are kept; a symbolic link goes on pointing to the file.
    """
    target = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"save: the folder {os.fsdecode(folder)!r} does not exist")
    try:
        old = os.stat(target)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(target, "wb") as file:  # a pipe or a device; a folder raises
            yield file
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "save: the file is not writable", os.fsdecode(target))
    temporary, descriptor = _new_file_beside(folder, name)
    try:
        with open(descriptor, "wb") as file:
            if old is not None:
                _copy_rights(descriptor, old)
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    _sync_folder(folder)


def _new_file_beside(folder, name):
    # os.open with 0o666 gives a new file the rights that open() would: the umask's.
    start = b"." + os.fsencode(name)[:200] + b"."  # a name has at most 255 bytes
    for _ in range(100):
        path = os.path.join(os.fsencode(folder), start + os.urandom(6).hex().encode() + b".tmp")
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
    raise FileExistsError(f"save: no free name for a temporary file in {os.fsdecode(folder)!r}")


def _copy_rights(descriptor, old):
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            pass  # only root may give files away
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder):
    # The rename itself has to reach the disk too. Some file systems cannot do that, and need not.
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
