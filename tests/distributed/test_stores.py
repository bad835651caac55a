"""The stores: what each call does, waiting, timeouts, and strangers at the door."""

import fcntl
import os
import socket
import struct
import threading
import time
from datetime import timedelta

import pytest
from scripts import run

import rushlight.distributed as dist


def tcp_pair(**options):
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, **options)
    return master, dist.TCPStore("127.0.0.1", master.port, **options)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def pair(request, tmp_path):
    """Two ways to one store."""
    if request.param == "hash":
        store = dist.HashStore()
        return store, store
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "s")), dist.FileStore(str(tmp_path / "s"))
    master, client = tcp_pair()
    if request.param == "tcp":
        return master, client
    return dist.PrefixStore("a", master), dist.PrefixStore("a", client)


def test_values(pair):
    one, two = pair
    one.set("key", "text")
    assert two.get("key") == b"text"
    two.set("key", b"\x00\xff")
    assert one.get("key") == b"\x00\xff"
    assert one.multi_get(["key", "key"]) == [b"\x00\xff"] * 2
    assert two.check(["key"]) and not two.check(["key", "other"]) and two.check([])
    assert one.delete_key("key") and not two.delete_key("key") and not one.check(["key"])
    one.append("list", "a")
    two.append("list", "bc")
    assert one.get("list") == b"abc"
    with pytest.raises(TypeError, match="str or bytes"):
        one.set("key", 5)


def test_numbers(pair):
    one, two = pair
    assert [one.add("n", 1), two.add("n", 5), one.add("n", -2)] == [1, 6, 4]
    assert two.get("n") == b"4"
    one.set("word", "many")
    with pytest.raises(dist.DistStoreError, match="add needs a number"):
        two.add("word", 1)
    assert two.add("n", 0) == 4


def test_compare_set(pair):
    one, two = pair
    assert one.compare_set("key", "first", "second") == b"first" and not two.check(["key"])
    assert one.compare_set("key", "", "second") == b"second"
    assert two.compare_set("key", "first", "third") == b"second"
    assert two.compare_set("key", "second", "third") == b"third"
    assert one.get("key") == b"third"


def test_number_of_keys(pair):
    one, two = pair
    before = one.num_keys()
    one.set("a", "1")
    two.set("b", "1")
    assert one.num_keys() == two.num_keys() == before + 2


def test_get_waits_for_another_thread(pair):
    one, two = pair
    timer = threading.Timer(0.2, lambda: two.set("late", "here"))
    timer.start()
    assert one.get("late") == b"here"
    timer.join()


@pytest.mark.threads
def test_a_thread_that_waits_does_not_stop_the_others():
    _, client = tcp_pair()
    got = []
    waiting = threading.Thread(target=lambda: got.append(client.get("key")))
    waiting.start()
    time.sleep(0.1)
    client.set("key", "same store, other thread")
    waiting.join(10)
    assert got == [b"same store, other thread"]


def test_timeouts(pair):
    one, two = pair
    with pytest.raises(dist.DistStoreError, match="wait timeout after 100 ms.*never"):
        one.wait(["never"], timedelta(milliseconds=100))
    two.set_timeout(timedelta(milliseconds=150))
    assert two.timeout == timedelta(milliseconds=150)
    start = time.monotonic()
    with pytest.raises(dist.DistStoreError, match="timeout"):
        two.get("never")
    assert 0.1 < time.monotonic() - start < 5
    two.set("now", "1")
    two.wait(["now"])
    with pytest.raises(ValueError, match="negative"):
        two.wait(["now"], timedelta(seconds=-1))


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(dist.DistNetworkError, match=f"nobody answers at 127.0.0.1:{port}"):
        dist.TCPStore("127.0.0.1", port, timeout=timedelta(milliseconds=300))
    with pytest.raises(dist.DistNetworkError, match="cannot find the host"):
        dist.TCPStore("no.such.host.invalid", 1, timeout=timedelta(milliseconds=300))
    master, _ = tcp_pair()
    with pytest.raises(dist.DistNetworkError, match="cannot listen"):
        dist.TCPStore("127.0.0.1", master.port, is_master=True)


def test_the_master_waits_for_workers():
    with pytest.raises(dist.DistStoreError, match="1 of 2 workers"):
        dist.TCPStore("127.0.0.1", 0, 2, is_master=True, timeout=timedelta(milliseconds=200))


def test_it_listens_at_the_given_address_only():
    master, _ = tcp_pair()
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    local = [row[1].split(":")[0] for row in rows if int(row[1].split(":")[1], 16) == master.port]
    assert set(local) == {"0100007F"}


def test_token(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_STORE_TOKEN", "secret")
    master, client = tcp_pair()
    client.set("key", "value")
    monkeypatch.setenv("RUSHLIGHT_STORE_TOKEN", "guess")
    with pytest.raises(dist.DistNetworkError, match="another token"):
        dist.TCPStore("127.0.0.1", master.port, timeout=timedelta(seconds=2))
    monkeypatch.delenv("RUSHLIGHT_STORE_TOKEN")
    with pytest.raises(dist.DistNetworkError, match="another token"):
        dist.TCPStore("127.0.0.1", master.port, timeout=timedelta(seconds=2))
    assert client.get("key") == b"value"


HELLO = b"\xff" + struct.pack("<I", 17) + b"rushlight store 1" + struct.pack("<I", 0)
NUMBER = struct.pack("<I", 8) + bytes(8)
SET = b"\x00" + NUMBER * 2 + struct.pack("<I", 1) + b"v" + struct.pack("<I", 0)
KEY = struct.pack("<I", 1) + b"k"


def framed(message):
    return struct.pack("<I", len(message)) + message


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 64,
        struct.pack("<I", 0),
        struct.pack("<I", 1 << 31),
        framed(SET + KEY),  # without a Hello
        framed(HELLO[:-6]),
        framed(HELLO) + framed(b"\x63"),  # no such request
        framed(HELLO) + framed(SET),  # the key is missing
        framed(HELLO) + framed(SET + struct.pack("<I", 1 << 30) + b"k"),
        framed(HELLO) + framed(b"\x08" + SET[1:]),  # waits for nothing
        framed(HELLO) + struct.pack("<I", 0xFFFFFFFF),
        os.urandom(4096),
    ],
    ids=range(12),
)
def test_hostile_bytes_close_the_connection(bytes_):
    master, client = tcp_pair()
    with socket.create_connection(("127.0.0.1", master.port), timeout=10) as stranger:
        stranger.sendall(bytes_)
        stranger.shutdown(socket.SHUT_WR)
        answer = b""
        while part := stranger.recv(1000):
            answer += part
    assert answer in (b"", framed(b"\x00"))  # at most the answer to a right Hello
    client.set("key", "served as before")
    assert master.get("key") == b"served as before" and not client.check(["k"])


def test_many_who_stay_silent_do_not_hinder_others():
    master, _ = tcp_pair()
    crowd = [socket.create_connection(("127.0.0.1", master.port)) for _ in range(100)]
    late = dist.TCPStore("127.0.0.1", master.port)
    late.set("key", "value")
    assert master.get("key") == b"value"
    for stranger in crowd:
        stranger.close()


def test_a_store_that_dies_is_told(monkeypatch):
    master, client = tcp_pair()
    client.set("key", "value")
    del master
    with pytest.raises(dist.DistNetworkError, match=r"gone|nobody answers|lost"):
        client.set_timeout(timedelta(milliseconds=300))
        client.get("key")


def test_file_of_something_else(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are not the records of a store, and quite long at that")
    with pytest.raises(dist.DistStoreError, match="not the file of a store"):
        dist.FileStore(str(path))
    assert path.read_text().startswith("these are")
    with pytest.raises(dist.DistStoreError, match="cannot open"):
        dist.FileStore(str(tmp_path / "none" / "s"))


def test_the_last_user_removes_the_file(tmp_path):
    path = tmp_path / "s"
    one, two = dist.FileStore(str(path), 2), dist.FileStore(str(path), 2)
    one.set("a", "b")
    del one
    assert path.exists() and two.get("a") == b"b"
    del two
    assert not path.exists()


def test_a_file_does_not_grow_for_good(tmp_path):
    """What is mostly history is written anew; who knew the old file reads the new one."""
    path = tmp_path / "s"
    writer, reader, idle = (dist.FileStore(str(path)) for _ in range(3))
    idle.set("kept", "early")
    value = "x" * 100_000
    for i in range(200):
        writer.set("key", f"{i} {value}")
        if i % 40 == 0:
            assert reader.get("key").startswith(b"%d " % i)
    assert path.stat().st_size < 10_000_000 and os.listdir(tmp_path) == ["s"]
    assert idle.get("key").startswith(b"199 ") and idle.get("kept") == b"early"
    assert [s.add("n", 1) for s in (idle, writer, reader)] == [1, 2, 3]
    assert reader.num_keys() == idle.num_keys() == 3


@pytest.mark.slow
def test_a_file_that_stays_locked(tmp_path):
    store = dist.FileStore(str(tmp_path / "s"))
    with open(tmp_path / "s") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(dist.DistNetworkError, match="keeps .* locked"):
            store.set("key", "value")
    store.set("key", "value")


def test_processes_count_together_in_a_file(tmp_path):
    path = str(tmp_path / "s")
    store = dist.FileStore(path)
    out = run(f"""
        import multiprocessing as mp
        import rushlight.distributed as dist

        def count(_):
            store = dist.FileStore({path!r})
            return [store.add("n", 1) for _ in range(50)]

        if __name__ == "__main__":
            with mp.get_context("spawn").Pool(2) as pool:
                numbers = sum(pool.map(count, range(2)), [])
            print(sorted(numbers) == list(range(1, 101)))
        """)
    assert out.strip() == "True" and store.get("n") == b"100"


@pytest.mark.threads
def test_no_hang_at_exit():
    """Neither a server with clients nor a thread that waits keeps a program from ending."""
    run(
        """
        import threading, rushlight.distributed as dist
        master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        client = dist.TCPStore("127.0.0.1", master.port)
        threading.Thread(target=client.get, args=("never",), daemon=True).start()
        """,
        limit=20,
    )
