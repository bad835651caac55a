"""What the files in tests/data hold, written once: PyTorch saves these objects, and Rushlight
builds the same ones to compare with what it loads. `torch` is either library."""

from collections import Counter, OrderedDict

DTYPES = (
    "float16 bfloat16 float32 float64 uint8 int8 int16 int32 int64 bool complex64 complex128 "
    "uint16 uint32 uint64"
).split()


def dtypes(torch):
    return {name: values(torch, name) for name in DTYPES}


def values(torch, name):
    dtype = getattr(torch, name)
    if name.startswith("complex"):
        return torch.tensor([[1 + 2j, -3.5j], [0.25, -1e3 + 4j]], dtype=dtype)
    if name == "bool":
        return torch.tensor([[True, False], [False, True]])
    if name.startswith("uint"):
        return torch.tensor([[0, 1], [100, 255]]).to(dtype)
    if name.startswith("int"):
        return torch.tensor([[0, 1], [-100, 127]]).to(dtype)
    return torch.tensor([[0.5, -1.25], [1e4, float("inf")]], dtype=dtype)


def state_dict(torch):
    out = OrderedDict()
    out["conv.weight"] = torch.arange(54.0).reshape(2, 3, 3, 3) / 8
    out["conv.bias"] = torch.tensor([0.5, -0.5])
    out["bn.num_batches_tracked"] = torch.tensor(7)
    out["bn.running_mean"] = torch.zeros(0)
    out._metadata = OrderedDict([("", {"version": 1}), ("bn", {"version": 2})])
    return out


def views(torch):
    base = torch.arange(24.0)
    grid = base.view(4, 6)
    return {
        "base": base,
        "grid": grid,
        "columns": grid.t(),
        "every_second": base[1::2],
        "block": grid[1:3, 2:5],
        "row": grid[3],
        "expanded": base[5].expand(3, 2),
        "channels_last": torch.arange(24.0).reshape(1, 2, 3, 4).permute(0, 3, 1, 2),
    }


def slice_only(torch):
    return torch.arange(10000, dtype=torch.int32)[500:510]


def containers(torch):
    inner = [1, -2, 3.5, True, None]
    return {
        "list": inner,
        "again": inner,
        "tuple": (1, (2, (3,)), ()),
        "dict": {"a": {"b": {"c": torch.ones(2)}}, 3: "three", (1, 2): "pair", None: 0},
        "set": {1, 2, 3},
        "bytes": b"\x00\xff text",
        "bytearray": bytearray(b"abc"),
        "text": "naïve ☃ 🔥",
        "ints": [0, 255, 256, 65535, 65536, -1, 2**31, -(2**31), 2**63, -(2**100), 10**300],
        "floats": [0.0, -0.0, 1e-300, float("inf")],
        "complex": 1 - 2j,
        "counter": Counter("abca"),
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1),
        "layout": torch.strided,
        "many": list(range(3000)),
        "empty": [{}, [], (), "", OrderedDict()],
    }


def tensors(torch):
    with_attribute = torch.ones(2)
    with_attribute.note = {"why": "attributes travel"}
    return {
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0),
        "empty_2d": torch.empty(3, 0, 2),
        "needs_grad": torch.ones(3, requires_grad=True),
        "with_attribute": with_attribute,
        "meta": torch.empty(2, 3, device="meta"),
        "large": torch.arange(2000, dtype=torch.int16),
        "non_leaf": torch.ones(2, requires_grad=True) * 2,
    }


CONTENTS = {
    "dtypes": dtypes,
    "state_dict": state_dict,
    "views": views,
    "slice": slice_only,
    "containers": containers,
    "tensors": tensors,
}
