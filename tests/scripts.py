"""Runs a script in a process group of its own, with a hard limit on its time, so that a test of
processes can hang neither itself nor the suite, and leaves nobody behind."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

# Under a sanitiser, or on a busy machine, processes start slowly.
LIMIT = 120


class Script:
    """A script that runs; its source is written to a file, as a user's would be."""

    def __init__(self, source, *, before="", stdin=False, env=None):
        source = textwrap.dedent(source)
        self._folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._folder.name, "script.py")
        with open(self.path, "w") as file:
            file.write(source)
        env = {**os.environ, **(env or {})}
        # A sanitizer's runtime is for the interpreter: bash, which has its own malloc, would crash.
        runtime = shlex.quote("LD_PRELOAD=" + env.pop("LD_PRELOAD", ""))
        command = f"exec env {runtime} {shlex.quote(sys.executable)} " + (
            "-" if stdin else shlex.quote(self.path)
        )
        self.process = subprocess.Popen(
            ["bash", "-c", f"{before}\n{command}"],
            stdin=open(self.path) if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=env,
        )

    def interrupt(self):
        """Ctrl-C: the signal goes to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self, limit=LIMIT):
        """Waits, and kills what is left of the group. Returns (stdout, stderr, return code)."""
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGABRT)
            out, err = self.process.communicate(timeout=10)
            raise AssertionError(f"the script hung\n{out}\n{err}") from None
        finally:
            # Python's own helper of multiprocessing leaves when it sees that nobody is left.
            deadline = time.monotonic() + 5
            while self.members() and time.monotonic() < deadline:
                time.sleep(0.02)
            self.left_behind = self.members()
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._folder.cleanup()
        return out, err, self.process.returncode

    def members(self):
        """The processes of the group that still run."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self.process.pid and fields[0] not in "ZX":
                found.append(int(name))
        return found


def run(source, limit=LIMIT, **options):
    """The output of a script that must end well."""
    script = Script(source, **options)
    out, err, code = script.finish(limit)
    assert code == 0, f"return code {code}\n{out}\n{err}"
    return out
