"""Strangers at the ports of a job: whatever they send, nothing breaks, and the job goes on."""

import contextlib
import os
import resource
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta

import pytest
from distributed import strangers
from scripts import run

import rushlight.distributed as dist


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def store_and_client(monkeypatch, token):
    monkeypatch.setenv("RUSHLIGHT_STORE_TOKEN", token)
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return master, dist.TCPStore("127.0.0.1", master.port)


@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("knows", [False, True], ids=["without the token", "with the token"])
def test_a_store_survives_any_bytes(monkeypatch, count, knows):
    master, client = store_and_client(monkeypatch, "secret")
    client.set("mine", "0")
    keys = client.num_keys()
    for seed in range(count):
        data = strangers.hostile(seed, b"secret" if knows else b"guess")
        answer = strangers.send(master.port, data, pieces=1 + seed % 3)
        assert knows or answer == b"", (seed, data)
        if seed % 50 == 0:
            client.set("mine", str(seed))
            assert master.get("mine") == str(seed).encode(), seed
    assert knows or client.num_keys() == keys


def test_a_claimed_length_takes_no_memory(monkeypatch):
    master, client = store_and_client(monkeypatch, "")
    before = resident()
    crowd = [socket.create_connection(("127.0.0.1", master.port)) for _ in range(20)]
    for stranger in crowd:
        stranger.sendall(strangers.hello() + struct.pack("<I", 256 << 20) + b"\x00")
    client.set("key", "value")
    assert client.get("key") == b"value" and resident() - before < 100 << 20
    for stranger in crowd:
        stranger.close()


def test_whoever_does_not_read_is_not_heard(monkeypatch):
    """Answers that nobody takes do not pile up."""
    master, client = store_and_client(monkeypatch, "")
    client.set("big", b"x" * (4 << 20))
    before = resident()
    with socket.create_connection(("127.0.0.1", master.port)) as greedy:
        greedy.sendall(strangers.hello() + strangers.command(1, [b"big"]) * 100)
        for i in range(20):
            client.set("key", str(i))
            assert client.get("key") == str(i).encode()
        assert resident() - before < 100 << 20
        taken = len(strangers.framed(b"\x00"))  # of the greeting
        one = 4 + 1 + 4 + (4 << 20) + 12
        greedy.settimeout(10)
        left = taken + 100 * one
        while left:  # and it gets all of them once it reads
            part = greedy.recv(1 << 20)
            assert part, left
            left -= len(part)


@pytest.mark.threads
def test_a_fast_sender_does_not_hinder_others(monkeypatch):
    master, client = store_and_client(monkeypatch, "")
    ends = threading.Event()

    def send_and_send():
        burst = rest = strangers.command(0, [b"stranger"]) * 1000
        with socket.create_connection(("127.0.0.1", master.port)) as fast:
            fast.sendall(strangers.hello())
            fast.setblocking(False)
            while not ends.is_set():
                with contextlib.suppress(BlockingIOError):
                    rest = rest[fast.send(rest) :] or burst
                with contextlib.suppress(BlockingIOError):
                    fast.recv(1 << 20)

    sender = threading.Thread(target=send_and_send)
    sender.start()
    try:
        for i in range(50):
            client.set("key", str(i))
            assert master.get("key") == str(i).encode()
    finally:
        ends.set()
        sender.join()


def test_calls_that_no_message_could_hold_are_refused(monkeypatch):
    _, client = store_and_client(monkeypatch, "")
    with pytest.raises(dist.DistStoreError, match="at most .* bytes"):
        client.set("log", bytes(256 << 20))
    with pytest.raises(dist.DistStoreError, match="4096 keys"):
        client.wait([f"key{i}" for i in range(5000)], timedelta(seconds=1))


@pytest.mark.slow
def test_a_value_does_not_outgrow_an_answer(monkeypatch):
    _, client = store_and_client(monkeypatch, "")
    client.append("log", bytes(130 << 20))
    with pytest.raises(dist.DistStoreError, match="a value has at most"):
        client.append("log", bytes(130 << 20))
    client.append("log", b"more")
    assert client.check(["log"])


def test_more_connections_than_descriptors():
    """The process that holds the store can still open files, and its workers still reach it."""
    out = run("""
        import os, resource, socket
        import rushlight.distributed as dist

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, most))
        master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        crowd = [socket.create_connection(("127.0.0.1", master.port)) for _ in range(400)]
        client = dist.TCPStore("127.0.0.1", master.port)
        client.set("key", "value")
        assert master.get("key") == b"value"
        ours = {stranger.fileno() for stranger in crowd}
        kept = [fd for fd in os.listdir("/proc/self/fd") if int(fd) not in ours]
        assert len(kept) < 100, len(kept)
        print("ok")
        """)
    assert out.strip() == "ok"


def _serve(listening, answers):
    """A thing that is no store, and answers with these bytes."""
    while answers:
        try:
            stranger, _ = listening.accept()
        except OSError:
            return
        with stranger:
            stranger.settimeout(0.5)
            stranger.sendall(answers.pop(0))
            try:
                while stranger.recv(1 << 16):
                    pass
            except OSError:
                pass


DONE = strangers.framed(b"\x00")


@pytest.mark.threads
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        strangers.framed(b"\x01"),
        DONE + struct.pack("<I", 0),
        DONE + struct.pack("<I", 2**32 - 1),
        DONE + struct.pack("<I", 256 << 20) + b"\x00",  # and nothing more
        DONE + strangers.framed(b"\x00" + struct.pack("<I", 1 << 30)),
        DONE + strangers.framed(b"\x07" + strangers.field(b"") + strangers.NUMBER),
    ],
    ids=range(7),
)
def test_a_client_survives_any_answer(answer):
    before = resident()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_serve, args=(listening, [answer]))
        thread.start()
        with pytest.raises(dist.DistNetworkError):
            dist.TCPStore("127.0.0.1", listening.getsockname()[1], timeout=timedelta(seconds=2))
        thread.join()
    assert resident() - before < 100 << 20


def _listening(pids):
    """The addresses and ports that these processes listen at."""
    sockets = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                name = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if name.startswith("socket:["):
                sockets.add(name[8:-1])
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    places = [row[1].split(":") for row in rows if row[3] == "0A" and row[9] in sockets]
    return [
        (socket.inet_ntoa(struct.pack("<I", int(host, 16))), int(port, 16)) for host, port in places
    ]


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")
@pytest.mark.parametrize("mpi_ports", [False, True])
def test_a_running_job_goes_on(tmp_path, mpi_ports):
    """Every port of the launcher and of the ranks, the MPI library's too, while they train."""
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import os, sys, time
        import rushlight as rl, rushlight.distributed as dist
        dist.init_process_group("gloo")
        print(os.getpid(), flush=True)
        total, end = rl.zeros(1), rl.zeros(1, dtype=rl.int32)
        while not end.item():
            dist.all_reduce(x := rl.ones(1))
            total += x
            end.fill_(os.path.exists("end"))
            dist.all_reduce(end, dist.ReduceOp.BOR)  # by the library; sums of two ranks are not
            time.sleep(0.01)
        steps = [None, None]
        dist.all_gather_object(steps, total.item())
        print("right" if steps[0] == steps[1] > 0 else steps, flush=True)
        """)
    )
    job = subprocess.Popen(
        [sys.executable, "-m", "rushlight.distributed.run", "--standalone", "--nproc-per-node=2",
         "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **({"UCX_TLS": "all"} if mpi_ports else {})},
    )  # fmt: skip
    pids = [job.pid, *(int(job.stdout.readline()) for _ in range(2))]
    time.sleep(0.5)
    places = _listening(pids)
    assert mpi_ports or len(places) == 1  # the launcher's store and nothing else
    assert all(host == "127.0.0.1" for host, _ in places) or mpi_ports
    for host, port in places:
        for seed in range(20 if mpi_ports else 300):
            strangers.send(port, strangers.hostile(seed), host=host)
    (tmp_path / "end").touch()
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0 and out.split() == ["right", "right"], (out, err)
