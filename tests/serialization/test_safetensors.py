"""The safetensors format, against Hugging Face's own reader and writer where it is installed."""

import json
import os
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.utils import safetensors
from rushlight.utils.safetensors import SafetensorError, load_file, safe_open, save_file
from serialization.checkpoints import DTYPES, values
from serialization.same import assert_same

np = pytest.importorskip("numpy")
NAMES = [name for name in DTYPES if name != "complex128"]


def everything():
    tensors = {name: values(rl, name) for name in NAMES}
    tensors["scalar"] = rl.tensor(3.5)
    tensors["empty"] = rl.empty(0, 3)
    tensors["ünï ☃"] = rl.arange(5)
    tensors["transposed"] = rl.arange(6.0).view(2, 3).t()
    return tensors


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.safetensors"


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_round_trip(path):
    tensors = everything()
    save_file(tensors, path, metadata={"epoch": "3", "ü": "☃"})
    got = load_file(path)
    assert_same({k: got[k] for k in tensors}, tensors, strides=False)
    assert all(t.is_contiguous() for t in got.values())
    with safe_open(path) as file:
        assert file.metadata() == {"epoch": "3", "ü": "☃"}
        assert file.keys() == sorted(tensors) and set(file.offset_keys()) == set(tensors)
    again = safetensors.load(safetensors.save(tensors))
    assert_same({k: again[k] for k in tensors}, tensors, strides=False)
    assert safetensors.load(path.read_bytes())["int8"].tolist() == tensors["int8"].tolist()


def test_hugging_faces_reader_opens_our_files(path):
    theirs = pytest.importorskip("safetensors")
    from safetensors.numpy import load_file as load_numpy

    tensors = everything()
    # NumPy itself has no bfloat16, so that one is checked by its bytes below.
    known = {k: t for k, t in tensors.items() if t.dtype not in (rl.bfloat16,)}
    save_file(known, path, metadata={"a": "b"})
    got = load_numpy(path)
    assert set(got) == set(known)
    for name, tensor in known.items():
        assert got[name].tolist() == tensor.tolist() and got[name].shape == tuple(tensor.shape)
        assert str(got[name].dtype) == str(tensor.dtype).rpartition(".")[2]
    with theirs.safe_open(path, framework="np") as file:
        assert file.metadata() == {"a": "b"}
    save_file({"half": tensors["bfloat16"]}, path)
    ((name, entry),) = theirs.deserialize(path.read_bytes())
    assert (name, entry["dtype"], entry["shape"]) == ("half", "BF16", [2, 2])
    assert bytes(entry["data"]) == bytes(tensors["bfloat16"].view(rl.uint8).reshape(-1).tolist())


def test_we_open_hugging_faces_files(path):
    pytest.importorskip("safetensors")
    from safetensors.numpy import save_file as save_numpy

    arrays = {
        name: np.array(values(rl, name).tolist(), dtype=name)
        for name in NAMES
        if name != "bfloat16"
    }
    arrays |= {"scalar": np.array(2.5, "float32"), "empty": np.zeros((0, 2), "int16")}
    save_numpy(arrays, path, metadata={"format": "np"})
    got = load_file(path)
    for name, array in arrays.items():
        assert got[name].tolist() == array.tolist() and tuple(got[name].shape) == array.shape
        assert str(got[name].dtype).endswith(str(array.dtype))
    with safe_open(path) as file:
        assert file.metadata() == {"format": "np"}


def test_files_are_mapped_and_private(path):
    save_file({"w": rl.arange(10_000.0), "b": rl.ones(3, dtype=rl.int8)}, path)
    before = path.read_bytes()
    got = load_file(path)
    address = got["w"].data_ptr()
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if path.name in line]
    ranges = [[int(part, 16) for part in line.split()[0].split("-")] for line in maps]
    assert any(first <= address < last for first, last in ranges)
    assert address % 64 == 0
    got["w"].zero_()
    assert path.read_bytes() == before
    path.unlink()
    assert got["b"].tolist() == [1, 1, 1]


def test_parts_of_tensors(path):
    x = rl.arange(24.0).view(4, 6)
    save_file({"x": x}, path)
    with safe_open(path, framework="pt", device="cpu") as file:
        part = file.get_slice("x")
        assert part.get_shape() == [4, 6] and part.get_dtype() == "F32"
        assert part[1:3, ::2].tolist() == x[1:3, ::2].tolist()
        assert part[-1].tolist() == x[-1].tolist()
        assert file.get_tensor("x").tolist() == x.tolist()
        with pytest.raises(SafetensorError, match="does not contain"):
            file.get_tensor("y")
    with pytest.raises(SafetensorError, match="closed"):
        file.get_tensor("x")
    with pytest.raises(SafetensorError, match="framework"):
        safe_open(path, framework="jax")
    assert load_file(path, device="meta")["x"].shape == (4, 6)


def test_what_cannot_be_saved(path):
    x = rl.arange(10.0)
    for shared in ({"a": x, "b": x}, {"a": x[:6], "b": x[5:]}, {"a": x, "b": x.view(2, 5).t()}):
        with pytest.raises(RuntimeError, match=r"'a', 'b'.*save_model"):
            save_file(shared, path)
    save_file({"a": x[:5], "b": x[5:]}, path)
    assert load_file(path)["b"].tolist() == [5.0, 6.0, 7.0, 8.0, 9.0]
    for wrong in ([x], {"a": [1.0]}, {3: x}, {"__metadata__": x}, {"a": x.to("meta")},
                  {"a": rl.ones(1, dtype=rl.complex128)}):  # fmt: skip
        with pytest.raises(ValueError, match="save_file"):
            save_file(wrong, path)
    for wrong in ({"a": 1}, {1: "a"}, "text"):
        with pytest.raises(ValueError, match="metadata"):
            save_file({"x": x}, path, metadata=wrong)
    assert set(load_file(path)) == {"a", "b"}
    assert os.listdir(path.parent) == [path.name]


class Tied:
    """What save_model needs of a model; tied weights, as language models have."""

    def __init__(self):
        self.weight = rl.arange(12.0).view(3, 4)
        self.bias = rl.zeros(3)

    def state_dict(self):
        return {"decoder.weight": self.weight, "encoder.weight": self.weight,
                "first_row": self.weight[0], "bias": self.bias}  # fmt: skip

    def load_state_dict(self, state, strict=True):
        own = self.state_dict()
        for name in own.keys() & state.keys():
            own[name].copy_(state[name])
        return [k for k in own if k not in state], [k for k in state if k not in own]


def test_tied_weights_are_written_once(path):
    model = Tied()
    safetensors.save_model(model, path, metadata={"by": "test"})
    with safe_open(path) as file:
        assert file.keys() == ["bias", "decoder.weight"]
        assert file.metadata() == {
            "by": "test", "encoder.weight": "decoder.weight", "first_row": "decoder.weight",
        }  # fmt: skip
    other = Tied()
    other.weight.zero_()
    missing, unexpected = safetensors.load_model(other, path)
    assert not missing and not unexpected
    assert other.weight.tolist() == model.weight.tolist()
    save_file({"encoder.weight": rl.ones(3, 4), "extra": rl.ones(1)}, path)
    with pytest.raises(RuntimeError, match=r"missing: 'bias'; unexpected: 'extra'"):
        safetensors.load_model(other, path)
    missing, unexpected = safetensors.load_model(other, path, strict=False)
    assert set(missing) == {"bias"} and set(unexpected) == {"extra"}


def test_overlaps_that_nothing_covers(path):
    class Chained:
        def state_dict(self):
            x = rl.arange(10.0)
            return {"a": x[:6], "b": x[4:]}

    with pytest.raises(RuntimeError, match="none of them covers"):
        safetensors.save_model(Chained(), path)


def test_a_module(path):
    model = rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    safetensors.save_model(model, path)
    other = rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.Linear(3, 3))
    other[1].weight = other[0].weight
    safetensors.load_model(other, path)
    assert other[1].weight.tolist() == model[0].weight.tolist()


F4 = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
BAD = {
    "empty": b"",
    "seven bytes": bytes(7),
    "header beyond the file": (1000).to_bytes(8, "little") + b"{}",
    "huge header": (1 << 62).to_bytes(8, "little") + b"{}",
    "no JSON": raw(b"{nope"),
    "not UTF-8": raw(b'{"\xff": 1}'),
    "a list": raw(b"[]"),
    "deep JSON": raw(b'{"a":' + b"[" * 200_000),
    "same key twice": raw(
        b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},'
        b'"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', bytes(16)),
    "entry is a number": raw({"a": 1}),
    "entry lacks its shape": raw({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "more than it should have": raw({"a": {**F4, "code": "x"}}, bytes(16)),
    "unknown dtype": raw({"a": {**F4, "dtype": "F33"}}, bytes(16)),
    "dtype is a list": raw({"a": {**F4, "dtype": ["F32"]}}, bytes(16)),
    "negative shape": raw({"a": {**F4, "shape": [-4]}}, bytes(16)),
    "fractions": raw({"a": {**F4, "shape": [4.0]}}, bytes(16)),
    "true": raw({"a": {**F4, "shape": [True, 4]}}, bytes(16)),
    "absurd shape": raw({"a": {**F4, "shape": [1 << 61, 1 << 61]}}, bytes(16)),
    "number of 5,000 digits": raw(
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,16]}}', bytes(16)),
    "too many dimensions": raw({"a": {**F4, "shape": [1] * 100 + [4]}}, bytes(16)),
    "shape and bytes differ": raw({"a": {**F4, "shape": [5]}}, bytes(16)),
    "three offsets": raw({"a": {**F4, "data_offsets": [0, 8, 16]}}, bytes(16)),
    "offsets swapped": raw({"a": {**F4, "data_offsets": [16, 0]}}, bytes(16)),
    "offsets beyond the file": raw({"a": {**F4, "data_offsets": [16, 32]}}, bytes(16)),
    "cut short": raw({"a": F4}, bytes(15)),
    "bytes left over": raw({"a": F4}, bytes(17)),
    "overlap": raw({"a": F4, "b": {**F4, "data_offsets": [8, 24]}}, bytes(24)),
    "the same bytes twice": raw({"a": F4, "b": F4}, bytes(16)),
    "hole": raw({"a": F4, "b": {**F4, "data_offsets": [20, 36]}}, bytes(36)),
    "metadata of numbers": raw({"__metadata__": {"a": 1}}),
    "metadata is a list": raw({"__metadata__": []}),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_files_that_break_the_rules(case, path):
    path.write_bytes(BAD[case])
    with pytest.raises(SafetensorError):
        load_file(path)
    with pytest.raises(SafetensorError):
        safetensors.load(BAD[case])


def test_good_header_with_unaligned_bytes(path):
    """Allowed by the format: the header's length is odd, so nothing is aligned; it is copied."""
    data = np.arange(4, dtype="float32").tobytes()
    text = json.dumps({"a": F4}).encode()
    text += b" " * (1 - len(text) % 2)
    path.write_bytes(raw(text, data))
    got = load_file(path)["a"]
    assert got.tolist() == [0.0, 1.0, 2.0, 3.0] and got.data_ptr() % 4 == 0


def test_an_open_file_is_written_to(tmp_path):
    x = rl.arange(5)
    with open(tmp_path / "x", "wb") as file:
        save_file({"x": x}, file)
        assert not file.closed
    assert rl.equal(load_file(tmp_path / "x")["x"], x)
    with pytest.raises(TypeError, match="a path or an open file, got int"):
        save_file({"x": x}, 3)
