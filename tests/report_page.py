"""Reports of a small network, and what their pages hold."""

import base64
import json
import re
import struct
import zlib

import rushlight as rl
from rushlight import nn
from rushlight.profiler import profile, schedule

PEAKS = (1e10, 1e10)  # so that no test measures the machine
FLAGS = {"record_shapes": True, "profile_memory": True, "with_flops": True, "with_modules": True}
TYPES = {"f64": "d", "f32": "f", "u32": "I", "u16": "H", "u8": "B"}


def mlp(width=64):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))


def loop(batches, model, extra=None, steps=4, dtype=None):
    """Some steps of training, under a profile with a schedule."""
    optimizer = rl.optim.SGD(model.parameters(), lr=0.01)
    with profile(schedule=schedule(wait=0, warmup=1, active=steps), **FLAGS) as prof:
        for number, x in enumerate(batches):
            loss = model(x).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if extra is not None:
                extra(number, x, loss)
            prof.step()
            if number == steps:
                break
    return prof


def trained_profile():
    return loop([rl.randn(32, 64)] * 8, mlp())


def parts(path):
    """The data of a page, and its columns."""
    text = path.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    packed = re.search(r'id="columns">(.*?)</script>', text, re.DOTALL)[1]
    buffer = zlib.decompress(base64.b64decode(packed))
    columns = {}
    for name, kind, offset, length in data["layout"]:
        columns[name] = struct.unpack_from(f"<{length}{TYPES[kind]}", buffer, offset)
    return data, columns
