"""Files that are nearly programs: bytes and JSON of a valid one, changed at random.

    python tests/jit/hostile.py SEED COUNT [script]

With `script` the program is one with control flow; those that do not end are left after a moment,
as by Ctrl-C.

Loads each, and runs those that load. The number of a file is written before it is read: who reads
the output knows which one crashed or hung. Exceptions of ours are fine, and so is an answer.
"""

import io
import json
import random
import signal
import sys
import warnings
import zipfile

import rushlight as rl
from rushlight import nn

NUMBERS = (-1, 0, 1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("", ".", "a.b", "add", "add_", "sum", "view", "as_strided", "slice", "index", "cast",
         "x" * 999,
         "int", "Tensor", "List[int]", "Optional[Tensor]", "Dict[str, int]", "append", "item",
         "get", "add_int", "loop", "break", "set_field", "object", "Object[Best; value: Tensor]",
         "float32", "complex64", "cuda:0", "meta", "state", "value", "\0", "é")  # fmt: skip


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.fc = nn.Linear(32, 3)
        self.scale = rl.tensor([1.0, 2.0, 3.0])

    def forward(self, x):
        x = self.norm(self.conv(x)).relu()
        a, b, c = self.fc(x.view(x.size(0), -1)).split(1, dim=1)
        return rl.cat([a, b, c.add_(1)], 1) * self.scale, (a.argmax(0), None)


def example():
    return rl.ones(2, 1, 6, 6)


def valid():
    """The bytes of a valid file."""
    rl.manual_seed(0)
    return rl.jit.trace(Net(), example()).save_to_buffer({"notes": "some text"})


@rl.jit.script
class Best:
    def __init__(self, count: int):
        self.value: rl.Tensor | None = None
        self.count, self.names = count, ["best"]

    def offer(self, x) -> bool:
        value = self.value
        better = value is None or bool(x.sum() > value.sum())
        if better:
            self.value = x
            self.count += 1
        return better


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.register_buffer("steps", rl.zeros(1))
        self.count, self.names = 0, ["a"]
        self.kept = Best(3)

    def helper(self, x, n: int) -> tuple[rl.Tensor, int]:
        if n > 2:
            return x.relu(), n
        return x, n + 1

    def forward(self, x, limit: int = 3):
        found: list[int] = []
        table = {"a": 1}
        best, kept = Best(0), [self.kept]
        for i in range(limit):
            x, k = self.helper(self.fc(x), i)
            found.append(k)
            table[str(i)] = k * 2
            if best.offer(x) and i > 0:
                kept.append(best)
            if len(found) > 5:
                break
        while self.count < 2:
            self.count += 1
            self.names.append(f"{self.count:03d}")
        self.steps = self.steps + 1
        value = best.value
        assert value is not None
        self.kept.count += len(kept)
        return value[:, 1:], found, table, self.names, kept[-1], self.kept.names


def scripted():
    """The bytes of a valid script."""
    rl.manual_seed(0)
    return rl.jit.script(Scripted()).save_to_buffer()


def entries(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in parts:
            archive.writestr(name, content)
    return out.getvalue()


def changed_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(data))
        # Half of the changes near the directory, where every byte counts.
        if rng.random() < 0.5:
            at = max(0, len(data) - rng.randrange(1, 400))
        how = rng.randrange(5)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at : at + rng.randrange(1, 40)]
        elif how == 2:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
        elif how == 3:
            data[at : at + 8] = rng.choice(NUMBERS).to_bytes(8, "little", signed=True)
        else:
            data[at] ^= 1 << rng.randrange(8)
        if not data:
            break
    return bytes(data)


def places(value, path=()):
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*path, key))


def changed_json(rng, text):
    value = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        path = rng.choice([p for p in places(value) if p])
        target = value
        for key in path[:-1]:
            target = target[key]
        key, how = path[-1], rng.randrange(8)
        if how == 0:
            del target[key]
        elif how == 1:
            target[key] = rng.choice(NUMBERS)
        elif how == 2:
            target[key] = rng.choice(TEXTS)
        elif how == 3:
            target[key] = rng.choice(
                (None, True, [], {}, 1.5, [[]], {"value": 3}, {"float": "nan"})
            )
        elif how == 4 and isinstance(target[key], int):
            target[key] += rng.choice((-1, 1))
        elif how == 5 and isinstance(target, list):
            target.insert(key, target[key])
        elif how == 6 and isinstance(target, list):
            rng.shuffle(target)
        else:
            other = rng.choice([p for p in places(value) if p])
            source = value
            for k in other:
                source = source[k]
            target[key] = json.loads(json.dumps(source))
    return json.dumps(value).encode()


def changed_header(rng, weights):
    size = int.from_bytes(weights[:8], "little")
    header = changed_json(rng, weights[8 : 8 + size])
    length = len(header) if rng.random() < 0.8 else rng.choice(NUMBERS)
    return length.to_bytes(8, "little", signed=True) + header + weights[8 + size :]


def files(seed, count, script=False):
    """(label, bytes) of changed files."""
    rng = random.Random(seed)
    data = scripted() if script else valid()
    parts = entries(data)
    for i in range(count):
        how = 1 if script and i % 10 else i % 3
        if how == 0:
            yield f"{i} bytes", changed_bytes(rng, data)
        elif how == 1:
            program = changed_json(rng, parts["program.json"])
            yield f"{i} program", zipped({**parts, "program.json": program}.items())
        else:
            weights = changed_header(rng, parts["weights.safetensors"])
            yield f"{i} weights", zipped({**parts, "weights.safetensors": weights}.items())


def main():
    warnings.simplefilter("ignore")
    seed, count = map(int, sys.argv[1:3])
    script = "script" in sys.argv
    outcomes = {"loaded": 0, "ran": 0, "refused": 0}

    def leave(*args):
        raise TimeoutError

    signal.signal(signal.SIGALRM, leave)
    for label, data in files(seed, count, script):
        print(label, flush=True)
        try:
            program = rl.jit.load(io.BytesIO(data))
        except RuntimeError:
            outcomes["refused"] += 1
            continue
        outcomes["loaded"] += 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3 if script else 0)
            program(rl.ones(4, 6) if script else example())
            outcomes["ran"] += 1
        except (RuntimeError, TypeError, ValueError, IndexError, MemoryError, AttributeError,
                AssertionError, KeyError, ArithmeticError, TimeoutError):  # fmt: skip
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
