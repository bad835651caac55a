"""Saving, loading, slices, models with tied weights, metadata, every dtype, bytes that equal PyTorch's"""

import hashlib

import safetensors
import safetensors.torch
import torch
from same import fill, integers, normal, use

PACKAGES = ["safetensors"]
DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 uint16 uint32 uint64 float8_e4m3fn float8_e5m2".split()


@use
def files(folder):
    state = {
        name: (integers(0, 2, 3, 4) if name == "bool" else integers(0, 9, 3, 4)).to(
            getattr(torch, name)
        )
        for name in DTYPES
    }
    state["empty"], state["scalar"] = torch.zeros(0, 3), torch.tensor(2.5)
    path = folder / "all.safetensors"
    safetensors.torch.save_file(state, path, metadata={"format": "pt"})
    yield "digest", hashlib.sha256(path.read_bytes()).hexdigest()
    loaded = safetensors.torch.load_file(path)
    yield "dtypes", {name: str(value.dtype) for name, value in loaded.items()}
    yield "values", {name: loaded[name].double() for name in sorted(loaded) if name != "complex64"}
    with safetensors.safe_open(path, "pt") as file:
        yield "metadata", file.metadata()
        part = file.get_slice("float32")
        yield "slice", [part[1:, ::1][:, 2:], part.get_shape(), part.get_dtype()]
        yield "keys", sorted(file.keys())
        yield "one", file.get_tensor("bfloat16")
    data = safetensors.torch.save({"x": normal(4)})
    yield "bytes", [len(data), safetensors.torch.load(data)["x"]]
    with safetensors.safe_open(path, "np") as file:
        yield "numpy", file.get_tensor("int16")


@use
def models(folder):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9, bias=False)
            self.head.weight = self.embed.weight
            self.norm = torch.nn.BatchNorm1d(4)

    model, other = fill(Tied()), Tied()
    safetensors.torch.save_model(model, str(folder / "model.safetensors"))
    yield (
        "left",
        [
            sorted(one)
            for one in safetensors.torch.load_model(other, str(folder / "model.safetensors"))
        ],
    )
    yield "weights", dict(other.state_dict())
    try:
        safetensors.torch.save_file(model.state_dict(), folder / "shared.safetensors")
    except RuntimeError as error:
        yield "shared", "share memory" in str(error)
    missing = safetensors.torch.load_model(
        torch.nn.Linear(4, 9), str(folder / "model.safetensors"), strict=False
    )
    yield "missing", [sorted(one) for one in missing]
