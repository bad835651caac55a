"""What workers of a DataLoader do, in the profile of the main process."""

import json
import os

import pytest

import rushlight as rl
from rushlight.profiler import profile, report
from rushlight.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return rl.full((4,), i).square()


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_are_tracks_of_their_own(tmp_path, method):
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context=method)
    with profile() as prof, rl.profiler.record_function("all of it"):
        batches = [batch.sum().item() for batch in loader]
    assert batches == [4.0 * (i * i + (i + 1) ** 2) for i in (0, 2, 4, 6)]
    events = prof.events()
    theirs = [e for e in events if e.process is not None]
    assert {e.worker for e in theirs} == {0, 1} and os.getpid() not in {e.process for e in theirs}
    ranges = [e for e in theirs if e.name.startswith("DataLoader worker")]
    assert len(ranges) == 4 and all(e.cpu_parent is None for e in ranges)
    squares = [e for e in theirs if e.name == "aten::square"]
    assert len(squares) == 8 and all(e.cpu_parent in ranges for e in squares)
    assert not {e.thread for e in theirs} & {e.thread for e in events if e.process is None}
    assert len({e.id for e in events}) == len(events)
    whole = next(e for e in events if e.name == "all of it").time_range
    assert all(whole.start < e.time_range.start < e.time_range.end < whole.end for e in theirs)

    prof.export_chrome_trace(tmp_path / "trace.json")
    lines = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["args"]["name"]: e["pid"] for e in lines if e["name"] == "process_name"}
    assert {"python", "DataLoader worker 0", "DataLoader worker 1"} == names.keys()
    pids = {e["pid"] for e in lines if e["name"] == "aten::square"}
    assert pids == {e.process for e in theirs}
    verdict = report(prof, tmp_path / "report.html", peaks=(1e9, 1e9))
    assert "loader worker 1" in (tmp_path / "report.html").read_text()
    assert sum(verdict.shares.values()) == pytest.approx(1)


def test_workers_record_nothing_when_nobody_does():
    loader = DataLoader(Squares(), batch_size=2, num_workers=1, persistent_workers=True)
    list(loader)
    with profile() as prof:
        list(loader)
    list(loader)
    ranges = [e for e in prof.events() if e.name.startswith("DataLoader worker")]
    assert len(ranges) == 4
