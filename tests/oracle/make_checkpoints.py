"""Writes tests/data/*.pt with PyTorch 2.13; run by hand, never by the tests.

    python tests/oracle/make_checkpoints.py

tests/serialization/test_pytorch_files.py loads them without PyTorch.
"""

import io
import json
import sys
import zipfile
from pathlib import Path

import torch

TESTS = Path(__file__).resolve().parent.parent
DATA = TESTS / "data"
sys.path.insert(0, str(TESTS))

from serialization.checkpoints import CONTENTS  # noqa: E402


def main():
    DATA.mkdir(exist_ok=True)
    torch.manual_seed(0)
    for name, contents in CONTENTS.items():
        torch.save(contents(torch), DATA / f"{name}.pt")
        if name in ("state_dict", "views", "dtypes", "containers"):
            path = DATA / f"legacy_{name}.pt"
            torch.save(legacy(contents(torch)), path, _use_new_zipfile_serialization=False)
    for protocol in (3, 4, 5):
        torch.save(CONTENTS["containers"](torch), DATA / f"protocol{protocol}.pt",
                   pickle_protocol=protocol)  # fmt: skip
    torch.serialization.set_crc32_options(False)
    torch.save(CONTENTS["state_dict"](torch), DATA / "no_checksums.pt")
    torch.serialization.set_crc32_options(True)
    compress(DATA / "state_dict.pt", DATA / "compressed.pt")
    big_endian()
    lazy_bits()
    parameters()
    training()
    torch.save(torch.eye(3).to_sparse(), DATA / "sparse.pt")
    torch.save(torch.ones(2).to(torch.float8_e4m3fn), DATA / "float8.pt")
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e8m0fnu)
    torch.save(codes[120:136].clone(), DATA / "float8_e8m0fnu.pt")
    halves = torch.tensor([[1 + 2j, -0.5j], [3.0, -1 - 1j]]).to(torch.complex32)
    torch.save(halves, DATA / "complex32.pt")
    torch.save(quantized(), DATA / "quantized.pt")
    torch.save(on_cuda(), DATA / "cuda.pt")


def legacy(contents):
    # PyTorch itself cannot read these back from the old format.
    for name in ("uint16", "uint32", "uint64"):
        contents.pop(name, None)
    return contents


def quantized():
    x, scales = torch.arange(6.0).view(2, 3), torch.tensor([0.5, 0.25])
    by_channel = torch.quantize_per_channel
    return {
        "tensor": torch.quantize_per_tensor(x, 0.5, 3, torch.quint8),
        "channels": by_channel(x, scales, torch.tensor([1, 2]), 0, torch.qint8),
        "floats": by_channel(x, scales, torch.tensor([1.5, 2]), 0, torch.quint8),
        "dtype": torch.qint32,
    }


def compress(source, target):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name), old.read(name), zipfile.ZIP_DEFLATED)


def big_endian():
    """What PyTorch writes on a big-endian machine: the same pickle over swapped bytes."""
    contents = CONTENTS["dtypes"](torch)
    for name in ("uint16", "uint32", "uint64"):
        del contents[name]
    buffer = io.BytesIO()
    torch.save(contents, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(DATA / "big_endian.pt", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            folder, _, key = name.rpartition("/")
            if name.endswith("/byteorder"):
                data = b"big"
            elif folder.endswith("/data"):
                tensor = list(contents.values())[int(key)]
                item = tensor.element_size() // (2 if tensor.is_complex() else 1)
                data = b"".join(data[i : i + item][::-1] for i in range(0, len(data), item))
            new.writestr(zipfile.ZipInfo(name), data)


def lazy_bits():
    """Tensors whose values are conjugated or negated when they are read."""
    z = torch.tensor([1 + 2j, 3 - 4j])
    torch.save({"plain": z, "conj": z.conj(), "neg": z.clone().conj().imag}, DATA / "lazy_bits.pt")


def parameters():
    noted = torch.nn.Parameter(torch.arange(3.0), requires_grad=False)
    noted.note = "kept"
    plain = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    torch.save({"plain": plain, "noted": noted, "tied": plain}, DATA / "parameters.pt")


def training():
    """A model and its optimiser in the middle of training; the values are beside it in JSON."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3])
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    checkpoint = {
        "epoch": 3,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": torch.get_rng_state()[:16].clone(),
    }
    torch.save(checkpoint, DATA / "training.pt")
    torch.save(model, DATA / "whole_model.pt")
    (DATA / "training.json").write_text(json.dumps(plain(checkpoint), indent=1) + "\n")


def plain(value):
    """Tensors as lists, and keys as text: what JSON has."""
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype).rpartition(".")[2], "values": value.tolist()}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def on_cuda():
    """A tensor that says it was saved from a GPU."""
    torch.serialization.register_package(
        0, lambda storage: "cuda:0" if storage.nbytes() == 12 else None, lambda storage, place: None
    )
    return torch.tensor([1.0, 2.0, 3.0])


main()
