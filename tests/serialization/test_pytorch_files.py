"""Files that PyTorch 2.13 wrote (tests/oracle/make_checkpoints.py) give the objects it saved."""

import io
import json
import pickle
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.serialization import _names as pickle_names
from serialization.checkpoints import CONTENTS
from serialization.same import assert_same

DATA = Path(__file__).resolve().parent.parent / "data"
WAYS = {
    "default": {},
    "mmap": {"mmap": True},
    "unpickler": {"weights_only": False},
    "to_cpu": {"map_location": "cpu"},
}
FILES = {name: name for name in CONTENTS}
FILES |= {f"protocol{n}": "containers" for n in (3, 4, 5)}
FILES |= {"no_checksums": "state_dict", "compressed": "state_dict"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("file", FILES)
def test_zip_files(file, way):
    expected = CONTENTS[FILES[file]](rl)
    got = rl.load(DATA / f"{file}.pt", **WAYS[way])
    if file == "tensors":
        # PyTorch keeps requires_grad of a tensor with a history; the history stays behind.
        expected["non_leaf"] = expected["non_leaf"].detach().requires_grad_()
        assert got["with_attribute"].note == {"why": "attributes travel"}
        assert got["non_leaf"].is_leaf
    assert_same(got, expected)


@pytest.mark.parametrize("way", ["default", "unpickler"])
@pytest.mark.parametrize("name", ["state_dict", "views", "dtypes", "containers"])
def test_files_from_before_1_6(name, way):
    expected = CONTENTS[name](rl)
    for missing in ("uint16", "uint32", "uint64") if name == "dtypes" else ():
        del expected[missing]
    assert_same(rl.load(DATA / f"legacy_{name}.pt", **WAYS[way]), expected)


def test_state_dict_keeps_its_metadata():
    got = rl.load(DATA / "state_dict.pt")
    assert got._metadata == CONTENTS["state_dict"](rl)._metadata


@pytest.mark.parametrize("file", ["views.pt", "legacy_views.pt"])
def test_views_share_one_storage(file):
    got = rl.load(DATA / file)
    shared = [got[k] for k in ("base", "grid", "columns", "every_second", "block", "expanded")]
    assert len({t.untyped_storage().data_ptr() for t in shared}) == 1
    got["base"].fill_(-1)
    assert got["block"].tolist() == [[-1.0] * 3] * 2


def test_a_mapped_file_is_not_copied_and_not_written():
    before = (DATA / "views.pt").read_bytes()
    got = rl.load(DATA / "views.pt", mmap=True)
    address = got["base"].data_ptr()
    maps = Path("/proc/self/maps").read_text().splitlines()
    inside = [line for line in maps if "views.pt" in line and _contains(line, address)]
    assert inside, "the tensor's memory is not the mapped file"
    assert address % 64 == 0
    got["base"].fill_(7)
    assert got["grid"].tolist() == [[7.0] * 6] * 4
    assert (DATA / "views.pt").read_bytes() == before


def _contains(line, address):
    first, _, last = line.split()[0].partition("-")
    return int(first, 16) <= address < int(last, 16)


def test_big_endian_file():
    expected = CONTENTS["dtypes"](rl)
    for missing in ("uint16", "uint32", "uint64"):
        del expected[missing]
    assert_same(rl.load(DATA / "big_endian.pt"), expected)
    assert_same(rl.load(DATA / "big_endian.pt", mmap=True), expected)


def test_conjugated_and_negated_tensors():
    got = rl.load(DATA / "lazy_bits.pt")
    assert got["conj"].tolist() == [1 - 2j, 3 + 4j]
    assert got["neg"].tolist() == [-2.0, 4.0]
    assert got["plain"].tolist() == [1 + 2j, 3 - 4j]


@pytest.mark.parametrize("way", WAYS)
def test_parameters(way):
    got = rl.load(DATA / "parameters.pt", **WAYS[way])
    assert got["plain"].tolist() == [1.0, 2.0] and got["plain"].requires_grad
    assert got["tied"] is got["plain"]
    assert got["noted"].note == "kept" and not got["noted"].requires_grad
    if hasattr(rl.nn, "Parameter"):
        assert type(got["plain"]) is rl.nn.Parameter


@pytest.mark.parametrize("way", WAYS)
def test_a_checkpoint_of_training(way):
    got = rl.load(DATA / "training.pt", **WAYS[way])
    assert plain(got) == json.loads((DATA / "training.json").read_text())
    assert got["scheduler"]["milestones"][2] == 1


def plain(value):
    if isinstance(value, rl.Tensor):
        return {"dtype": str(value.dtype).rpartition(".")[2], "values": value.tolist()}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def test_what_is_not_here_is_said():
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
        rl.load(DATA / "whole_model.pt")
    names = rl.serialization.get_unsafe_globals_in_checkpoint(DATA / "whole_model.pt")
    assert "torch.nn.modules.linear.Linear" in names
    assert "torch._utils._rebuild_parameter" not in names


def test_a_whole_model_with_the_users_trust():
    model = rl.load(DATA / "whole_model.pt", weights_only=False)
    assert type(model) is rl.nn.Sequential
    expected = json.loads((DATA / "training.json").read_text())["model"]
    assert plain(model.state_dict()) == expected
    assert model(rl.ones(2, 3)).shape == (2, 4)


@pytest.mark.skipif(rl.cuda.is_available(), reason="there is a GPU")
def test_a_file_from_a_gpu():
    with pytest.raises(RuntimeError, match=r"cuda:0.*map_location='cpu'"):
        rl.load(DATA / "cuda.pt")
    for place in ("cpu", rl.device("cpu"), {"cuda:0": "cpu"}, lambda storage, where: storage):
        assert rl.load(DATA / "cuda.pt", map_location=place).tolist() == [1.0, 2.0, 3.0]


def test_functions_are_named_as_pytorch_names_them():
    functions = [rl.nn.functional.relu, rl.nn.functional.gelu, rl.nn.functional.linear, rl.sin]
    file = io.BytesIO()
    rl.save(functions, file)
    for name in (b"torch.nn.functional\nrelu", b"torch.nn.functional\ngelu", b"torch\nsin"):
        assert name in file.getvalue()
    file.seek(0)
    assert rl.load(file, weights_only=False) == functions
    # PyTorch's own gelu says that it lives here
    assert pickle_names.module_at_home("torch._C._nn") == "rushlight.nn.functional"
