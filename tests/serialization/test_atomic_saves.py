"""A save that fails, for whatever reason, leaves the file that was there, and nothing else."""

import os
import resource
import signal
import stat
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.serialization import _atomic

MB = 1 << 20


class Fails:
    def __reduce__(self):
        raise OSError("no")


def contents(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_object_that_cannot_be_pickled(tmp_path):
    path = tmp_path / "a.pt"
    rl.save(rl.ones(3), path)
    with pytest.raises(OSError, match="no"):
        rl.save({"x": rl.zeros(10), "y": Fails()}, path)
    assert contents(tmp_path) == ["a.pt"] and rl.load(path).tolist() == [1.0, 1.0, 1.0]


def test_a_disk_that_fills_up(tmp_path):
    """The limit on the size of files stands for a full disk: writes fail part way."""
    path = tmp_path / "a.pt"
    rl.save(rl.ones(3), path)
    code = f"""
import resource, signal, sys
import rushlight as rl
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({MB}, {MB}))
try:
    rl.save(rl.zeros({MB}), {str(path)!r})
except OSError as error:
    sys.exit(3)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 3, ran.stderr
    assert contents(tmp_path) == ["a.pt"] and rl.load(path).tolist() == [1.0, 1.0, 1.0]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != MB


def test_a_process_that_is_killed(tmp_path):
    """Killed in the middle of writing: the old file is whole; a temporary file may stay."""
    path = tmp_path / "a.pt"
    rl.save(rl.ones(3), path)
    code = f"""
import os, signal
import rushlight as rl
from rushlight.serialization import _zip_writer
real, count = _zip_writer.ZipWriter._write, 0
def write(self, data):
    global count
    count += 1
    if count == 8:
        self._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, data)
_zip_writer.ZipWriter._write = write
rl.save({{"a": rl.zeros({MB}), "b": rl.zeros(3)}}, {str(path)!r})
"""
    ran = subprocess.run([sys.executable, "-c", code])
    assert ran.returncode == -signal.SIGKILL
    assert rl.load(path).tolist() == [1.0, 1.0, 1.0]
    assert all(name == "a.pt" or name.endswith(".tmp") for name in contents(tmp_path))


def test_a_file_object_that_fails(tmp_path):
    class Full:
        def __init__(self):
            self.left = 1000

        def write(self, data):
            self.left -= len(data)
            if self.left < 0:
                raise OSError(28, "No space left on device")
            return len(data)

    with pytest.raises(OSError, match="No space"):
        rl.save(rl.zeros(10_000), Full())

    class TakesNothing:
        def write(self, data):
            return 0

    with pytest.raises(OSError, match="no more bytes"):
        rl.save(rl.zeros(3), TakesNothing())


def test_the_bytes_are_on_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    order = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(_atomic.os, "fsync", lambda fd: (order.append("fsync"), sync(fd))[1])
    monkeypatch.setattr(
        _atomic.os, "replace", lambda a, b: (order.append("replace"), replace(a, b))[1]
    )
    rl.save(rl.ones(3), tmp_path / "a.pt")
    assert order == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755])
def test_mode_bits_are_kept(tmp_path, mode):
    path = tmp_path / "a.pt"
    rl.save(1, path)
    path.chmod(mode)
    rl.save(2, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode and rl.load(path) == 2


def test_a_new_file_has_the_rights_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        rl.save(1, tmp_path / "a.pt")
        with open(tmp_path / "plain", "wb"):
            pass
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode for name in ("a.pt", "plain")]
    assert modes[0] == modes[1]


def test_a_link_goes_on_pointing(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "a.pt", tmp_path / "link.pt"
    rl.save(1, target)
    link.symlink_to(target)
    rl.save(2, link)
    assert link.is_symlink() and rl.load(target) == 2
    assert contents(tmp_path / "real") == ["a.pt"]


def test_a_mapped_file_can_be_saved_over(tmp_path):
    path = tmp_path / "a.pt"
    rl.save(rl.arange(5.0), path)
    old = rl.load(path, mmap=True)
    rl.save(old + 1, path)
    rl.save(old * 2, path)
    assert old.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert rl.load(path).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_what_is_no_regular_file(tmp_path):
    rl.save(rl.ones(3), "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(IsADirectoryError):
        rl.save(1, tmp_path)
    with pytest.raises(RuntimeError, match="does not exist"):
        rl.save(1, tmp_path / "missing" / "a.pt")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    rl.save(1, tmp_path / "pipe")
    assert os.read(reader, 4) == b"PK\x03\x04"
    os.close(reader)


def test_relative_and_strange_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.pt", "ünïcode ☃.pt", "x" * 250, "☃" * 80, "new\nline"):
        rl.save(rl.ones(2), name)
        assert rl.load(name).tolist() == [1.0, 1.0]
    assert len(contents(tmp_path)) == 5
