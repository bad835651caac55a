"""Runs a program in several processes that form a process group, with a hard limit on its time."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import weakref

LIMIT = 90

BEGIN = """
import os, sys, time
from datetime import timedelta
import numpy as np
import rushlight as rl
import rushlight.distributed as dist
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def begin(**options):
    dist.init_process_group("gloo", init_method=os.environ["METHOD"], rank=RANK, world_size=SIZE,
                            **options)
"""


def _end(processes):
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


class Ranks:
    """Processes with the same program; their store is a file."""

    def __init__(self, source, size=2, begin="begin()", **environment):
        self._folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._folder.name, "program.py")
        with open(self.path, "w") as file:
            file.write(BEGIN + begin + "\n" + textwrap.dedent(source))
        method = f"file://{self._folder.name}/store"
        self.processes = [
            subprocess.Popen(
                [sys.executable, self.path],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "METHOD": method,
                    **environment,
                },
            )
            for rank in range(size)
        ]
        # A test that fails before finish() leaves nobody behind either.
        weakref.finalize(self, _end, self.processes)

    def finish(self, limit=LIMIT):
        """(stdout, stderr, return code) of each rank; nobody is left behind."""
        results = [None] * len(self.processes)

        def collect(rank):
            try:
                out, err = self.processes[rank].communicate(timeout=limit)
                results[rank] = (out, err, self.processes[rank].returncode)
            except subprocess.TimeoutExpired:
                os.killpg(self.processes[rank].pid, signal.SIGABRT)
                out, err = self.processes[rank].communicate()
                results[rank] = (out, err + f"\nrank {rank} hung", None)

        threads = [threading.Thread(target=collect, args=(r,)) for r in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._folder.cleanup()
        return results


def run_ranks(source, size=2, limit=LIMIT, **options):
    """What each rank printed; all must end well."""
    results = Ranks(source, size, **options).finish(limit)
    for rank, (out, err, code) in enumerate(results):
        assert code == 0, f"rank {rank}, return code {code}\n{out}\n{err}"
    return [out for out, _, _ in results]
