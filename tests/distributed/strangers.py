"""Bytes that a stranger may send to a store: random, cut off, changed, with lengths that lie."""

import random
import socket
import struct

HELLO_TEXT = b"rushlight store 1"
NUMBER = struct.pack("<I", 8) + bytes(8)
KINDS = 9


def field(data):
    return struct.pack("<I", len(data)) + data


def framed(message):
    return struct.pack("<I", len(message)) + message


def hello(token=b""):
    return framed(b"\xff" + field(HELLO_TEXT) + field(token))


def command(kind, keys, value=b"v", expected=b""):
    head = bytes([kind]) + NUMBER * 2 + field(value) + field(expected)
    return framed(head + b"".join(field(key) for key in keys))


def valid_messages(source, token):
    """A greeting and some commands, on keys that nobody else uses."""
    names = [b"stranger/%d" % source.randrange(9) for _ in range(source.randrange(1, 4))]
    commands = [
        command(source.randrange(KINDS), names, source.randbytes(source.randrange(40)))
        for _ in range(source.randrange(1, 6))
    ]
    return hello(token) + b"".join(commands)


def changed(source, data):
    """One thing about right bytes that is wrong."""
    data = bytearray(data)
    at = source.randrange(len(data))
    way = source.randrange(6)
    if way == 0:
        data = data[:at]
    elif way == 1:
        data[at] ^= 1 << source.randrange(8)
    elif way == 2:
        data[at : at + 4] = struct.pack("<I", source.choice([0, 1, 1 << 28, 1 << 31, 2**32 - 1]))
    elif way == 3:
        del data[at : at + source.randrange(1, 9)]
    elif way == 4:
        data[at:at] = source.randbytes(source.randrange(1, 99))
    else:
        data += data[at:] * source.randrange(2, 9)
    return bytes(data)


def hostile(seed, token=b""):
    """Bytes number ``seed``."""
    source = random.Random(seed)
    way = source.randrange(8)
    if way == 0:
        return source.randbytes(source.randrange(1, 5000))
    if way == 1:  # as far as the greeting, then noise
        return hello(token) + source.randbytes(source.randrange(1, 5000))
    if way == 2:
        return hello(token) + struct.pack("<I", source.randrange(1, 1 << 28)) + b"\x00"
    if way == 3:
        return source.choice([b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\x80\x04."])
    return changed(source, valid_messages(source, token))


def send(port, data, pieces=1, host="127.0.0.1"):
    """Sends them and takes what is answered, until either side has had enough."""
    with socket.create_connection((host, port), timeout=10) as stranger:
        try:
            step = max(1, len(data) // pieces)
            for at in range(0, len(data), step):
                stranger.sendall(data[at : at + step])
            stranger.shutdown(socket.SHUT_WR)
            answer = b""
            while part := stranger.recv(1 << 16):
                answer += part
            return answer
        except TimeoutError:  # neither answered nor closed
            raise
        except OSError:
            return b""
