"""distributed.checkpoint: files of PyTorch and of hostile people, planners, storages, formats."""

import json
import os
import pickle
import pickletools
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint import _metadata_file
from rushlight.distributed.checkpoint.filesystem import SerializationFormat
from rushlight.distributed.checkpoint.format_utils import (
    BroadcastingTorchSaveReader,
    DynamicMetaLoadPlanner,
    dcp_to_torch_save,
    torch_save_to_dcp,
)
from rushlight.distributed.checkpoint.metadata import MetadataIndex
from rushlight.distributed.checkpoint.planner import WriteItemType
from rushlight.distributed.checkpoint.staging import DefaultStager, StagingOptions
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from rushlight.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from rushlight.utils import safetensors
from rushlight.utils._pytree import tree_flatten, tree_map
from rushlight.utils.safetensors import load_file

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "oracle"))

from make_distributed_checkpoint import FOLDER, state  # noqa: E402

pytestmark = pytest.mark.threads


def made(mesh=None, zero=False):
    """What the checkpoint holds, or the same of zeros."""

    def cut(tensor, dim):
        tensor = rl.zeros_like(tensor) if zero else tensor
        if mesh is None:
            return tensor
        return distribute_tensor(tensor, mesh, [Replicate() if dim is None else Shard(dim)])

    whole = state(rl, cut)
    return tree_map(lambda v: v if isinstance(v, rl.Tensor) else None, whole) if zero else whole


def in_order(value):
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(v) for v in value] if isinstance(value, list) else value


def assert_same(found):
    whole = tree_map(lambda v: v.full_tensor() if hasattr(v, "full_tensor") else v, found)
    (got, tree), (expected, wanted) = (tree_flatten(in_order(v)) for v in (whole, made()))
    assert str(tree) == str(wanted)
    for mine, value in zip(got, expected, strict=True):
        if isinstance(value, rl.Tensor):
            assert mine.dtype == value.dtype and (mine == value).all()
        else:
            assert type(mine) is type(value) and mine == value


def room(mesh=None):
    empty = made(mesh, zero=True)
    empty["inner"]["list"][1]["pair"] = None  # a tuple is one value
    empty["rates"] = None
    return empty


def test_what_pytorch_wrote_on_two_ranks_loads_on_any_number():
    def read(rank, size):
        found = room(init_device_mesh("cpu", (size,)))
        dcp.load(found, checkpoint_id=FOLDER)
        assert_same(found)

    for size in (2, 3):
        dist.simulate(size, read, size)
    alone = room()
    dcp.load(alone, storage_reader=dcp.FileSystemReader(FOLDER))
    assert_same(alone)


def names_in(path):
    """The classes and functions that a pickle names."""
    found, texts = set(), []
    for code, value, _ in pickletools.genops(Path(path).read_bytes()):
        if code.name == "GLOBAL":
            found.add(value.replace(" ", "."))
        elif code.name == "STACK_GLOBAL":
            found.add(".".join(texts[-2:]))
        elif isinstance(value, str):
            texts.append(value)
        elif code.name.startswith(("BINGET", "LONG_BINGET")):
            texts.append("?")
    return found


def test_what_is_written_is_what_pytorch_writes(tmp_path):
    """The same classes, files, names and chunks."""

    def write(rank):
        writer = dcp.FileSystemWriter(tmp_path)
        dcp.save(made(init_device_mesh("cpu", (2,))), storage_writer=writer)

    dist.simulate(2, write)
    assert sorted(os.listdir(tmp_path)) == sorted(os.listdir(FOLDER))
    classes = {n for n in names_in(tmp_path / ".metadata") if "distributed" in n}
    assert {f"torch.distributed.checkpoint.metadata.{n}" for n in (
        "Metadata", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata",
        "BytesStorageMetadata", "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING",
    )} | {"torch.distributed.checkpoint.filesystem._StorageInfo"} == classes  # fmt: skip
    ours, theirs = (dcp.FileSystemReader(f).read_metadata() for f in (tmp_path, FOLDER))
    assert ours.state_dict_metadata == theirs.state_dict_metadata
    assert ours.planner_data == theirs.planner_data and ours.version == theirs.version
    assert ours.storage_data.keys() == theirs.storage_data.keys()


def test_a_folder_is_written_as_safetensors(tmp_path):
    """Other readers find the tensors; what the format lacks lies beside them."""
    x = rl.arange(6.0).reshape(2, 3)
    state = {"x": x, "tied": x, "z": rl.ones(2, dtype=rl.complex128), "step": 3, "none": rl.ones(0)}
    dcp.save(state, checkpoint_id=tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".metadata", "__0_0.distcp", "__0_0.safetensors"]
    found = safetensors.load_file(tmp_path / "__0_0.safetensors")
    assert sorted(found) == ["none", "tied", "x"] and rl.equal(found["x"], x)
    again = {k: rl.zeros_like(v) if isinstance(v, rl.Tensor) else 0 for k, v in state.items()}
    dcp.load(again, checkpoint_id=tmp_path)
    assert again["step"] == 3
    with pytest.raises(TypeError, match="expects a dict to save, got list"):
        dcp.save([x], checkpoint_id=tmp_path)
    assert all(rl.equal(again[k], v) for k, v in state.items() if k != "step")


def test_metadata_run_nothing_and_are_checked(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "c")
    path = tmp_path / "c" / ".metadata"
    good = path.read_bytes()

    class Evil:
        def __reduce__(self):
            return os.system, ("touch " + str(tmp_path / "ran"),)

    def changed(**fields):
        return _metadata_file.dumps(replace(_metadata_file.loads(good), **fields))

    def moved(file):
        found = _metadata_file.loads(good)
        for info in found.storage_data.values():
            info.relative_path = file
        return _metadata_file.dumps(found)

    def box(offsets):
        found = _metadata_file.loads(good)
        found.state_dict_metadata["rows"].chunks[0].offsets = offsets
        return _metadata_file.dumps(found)

    deep = ()
    for _ in range(500):
        deep = (deep,)
    for data in (
        pickle.dumps(Evil()), b"", b"{}", good[: len(good) // 2], pickle.dumps({"a": 1}),
        changed(state_dict_metadata=[1]), changed(state_dict_metadata={"rows": 3}),
        changed(storage_meta=3), changed(storage_data={"rows": 1}), moved("../../etc/passwd"),
        moved("/etc/passwd"), box(rl.Size([9, 9])), box((0, 0)), box(rl.Size([0])),
        changed(planner_data={"rows": ("a", 10**9)}),
    ):  # fmt: skip
        path.write_bytes(data)
        with pytest.raises(dcp.CheckpointException, match="no metadata of a checkpoint"):
            dcp.load(room(), checkpoint_id=tmp_path / "c")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(TypeError, match="MetadataIndex"):
        MetadataIndex("a").__setstate__({"fqn": "a", "offset": deep})
    path.write_bytes(good)
    for file in (tmp_path / "c").glob("*.distcp"):
        file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(dcp.CheckpointException, match="bytes, and has"):
        dcp.load(room(), checkpoint_id=tmp_path / "c")


@pytest.mark.parametrize(
    ("options", "files"),
    [({"thread_count": 3}, 3), ({"single_file_per_rank": False}, 10), ({"sync_files": False}, 1),
     ({"serialization_format": SerializationFormat.SAFETENSORS}, 2)],
)  # fmt: skip
def test_options_of_the_writer(tmp_path, options, files):
    dcp.save(made(), storage_writer=dcp.FileSystemWriter(tmp_path, **options))
    assert len(os.listdir(tmp_path)) == files + 1
    found = room()
    dcp.load(found, checkpoint_id=tmp_path)
    assert_same(found)
    with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
        dcp.save({}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    (tmp_path / "model.safetensors").write_bytes(b"somebody else's")
    dcp.save({"x": 1}, checkpoint_id=tmp_path)
    assert len(os.listdir(tmp_path)) == 3  # nothing of the old one, and what is not ours


def test_planners(tmp_path):
    class Renamed(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            renamed = {f"new_{k}": v for k, v in state_dict.items()}
            super().set_up_planner(renamed, storage_meta, is_coordinator)

        def create_local_plan(self):
            plan = super().create_local_plan()
            for item in plan.items:
                if item.tensor_data is not None:
                    item.tensor_data.properties.dtype = rl.float16
            return plan

        def resolve_data(self, write_item):
            data = super().resolve_data(write_item)
            return data if write_item.type == WriteItemType.BYTE_IO else data.half()

    found = dcp.save({"x": rl.ones(2), "n": 1}, checkpoint_id=tmp_path, planner=Renamed())
    assert found.state_dict_metadata["new_x"].properties.dtype == rl.float16
    target = {"new_x": rl.zeros(2), "more": rl.zeros(1), "new_n": 0}
    dcp.load(
        target, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True)
    )
    assert target["new_x"].tolist() == [1, 1] and target["new_n"] == 1
    assert target["more"].tolist() == [0]
    whole = _load_state_dict_from_keys("new_x", checkpoint_id=tmp_path)
    assert list(whole) == ["new_x"] and whole["new_x"].dtype == rl.float16
    meta = {"new_x": rl.empty(2, device="meta")}
    dcp.load(meta, checkpoint_id=tmp_path)
    assert meta["new_x"].tolist() == [1, 1]

    def cached(rank):
        mesh = init_device_mesh("cpu", (2,))
        for value, rows in ((1.0, 4), (2.0, 4), (3.0, 6)):
            planner = dcp.DefaultSavePlanner(
                enable_plan_caching=True, dedup_save_to_lowest_rank=True
            )
            x = distribute_tensor(rl.full((rows,), value), mesh, [Shard(0)])
            folder = tmp_path / str(value)
            dcp.save({"x": x, "p": rl.full((2,), value)}, checkpoint_id=folder, planner=planner)
            again = {"x": rl.zeros(rows), "p": rl.zeros(2)}
            dcp.load(again, checkpoint_id=folder)
            assert again["x"].tolist() == [value] * rows and again["p"].tolist() == [value] * 2
            info = dcp.FileSystemReader(folder).read_metadata().storage_data
            assert info[MetadataIndex("p", [0])].relative_path == "__0_0.safetensors"

    dist.simulate(2, cached)


def test_other_formats_and_storages(tmp_path):
    dcp_to_torch_save(FOLDER, tmp_path / "one.pt")
    assert_same(rl.load(tmp_path / "one.pt"))
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    found = room()
    dcp.load(found, checkpoint_id=tmp_path / "folder")
    assert_same(found)

    def read(rank):
        mesh = init_device_mesh("cpu", (2,))
        target = {"rows": distribute_tensor(rl.zeros(5, 3), mesh, [Shard(0)])}
        dcp.load(target, storage_reader=BroadcastingTorchSaveReader(),
                 planner=DynamicMetaLoadPlanner(), checkpoint_id=tmp_path / "one.pt")  # fmt: skip
        assert (target["rows"].full_tensor() == made()["rows"]).all()

    dist.simulate(2, read)
    with pytest.raises(dcp.CheckpointException, match="only tensors"):
        dcp.load({"step": 1}, storage_reader=BroadcastingTorchSaveReader(tmp_path / "one.pt"),
                 planner=DynamicMetaLoadPlanner())  # fmt: skip
    with pytest.warns(FutureWarning):
        dcp.save_state_dict({"x": rl.ones(1)}, dcp.FileSystemWriter(tmp_path / "old"))
    target = {"x": rl.zeros(1)}
    with pytest.warns(FutureWarning):
        dcp.load_state_dict(target, dcp.FileSystemReader(tmp_path / "old"))
    assert target["x"].item() == 1


def test_each_rank_by_itself_and_copies_by_a_thread(tmp_path):
    def program(rank):
        dcp.save({"x": rl.full((2,), float(rank))}, checkpoint_id=tmp_path, use_collectives=False)
        found = {"x": rl.zeros(2)}
        dcp.load(found, checkpoint_id=tmp_path)
        assert found["x"].tolist() == [rank] * 2
        stager = DefaultStager(StagingOptions(False, False, True, False))
        x = rl.ones(3)
        for value in (1.0, 2.0):
            response = dcp.async_save(
                {"x": x}, checkpoint_id=tmp_path / "later", async_stager=stager
            )
            assert isinstance(response, AsyncSaveResponse)
            response.staging_completion.result(60)
            x.add_(1)
            written = response.upload_completion.result(60)
            assert written.state_dict_metadata.keys() == {"x"} and len(written.storage_data) == 1
            found = {"x": rl.zeros(3)}
            dcp.load(found, checkpoint_id=tmp_path / "later")
            assert found["x"].tolist() == [value] * 3
            dist.barrier()
        stager.close()

    dist.simulate(2, program)


def test_saves_that_overlap_leave_a_whole_one(tmp_path):
    """Also the first ones of a folder, of which none is there yet."""

    def program(rank):
        futures = [
            dcp.async_save({"x": rl.full((1000,), float(i)), "i": i}, checkpoint_id=tmp_path)
            for i in range(4)
        ]
        for future in futures:
            future.result(60)
        found = {"x": rl.full((1000,), -1.0), "i": None}
        dcp.load(found, checkpoint_id=tmp_path)
        assert (found["x"] == found["i"]).all()

    dist.simulate(2, program)


def test_folders_as_hugging_face_lays_them_out(tmp_path):
    expected = {"a": rl.arange(10.0).view(5, 2), "b": rl.ones(3, dtype=rl.bfloat16)}
    files = {"a": 1, "b": 2}

    def filled(folder, cut=lambda t: t):
        found = {name: cut(rl.zeros_like(t)) for name, t in expected.items()}
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(folder))
        return found

    def program(rank):
        mesh = init_device_mesh("cpu", (2,))

        def cut(tensor):
            return distribute_tensor(tensor, mesh, [Shard(0)])

        parts = {name: cut(t) for name, t in expected.items()}
        with pytest.raises(dcp.CheckpointException, match="save_distributed=True"):
            dcp.save(parts, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path / "no"))
        for folder, together in (("parts", False), ("both", True)):
            writer = dcp.HuggingFaceStorageWriter(
                tmp_path / folder, files, save_distributed=True, enable_consolidation=together
            )
            dcp.save(parts, storage_writer=writer)
        dcp.save(expected, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path / "whole", files))
        for folder in ("parts", "both", "whole"):
            for name, got in filled(tmp_path / folder, cut).items():
                assert (got.full_tensor() == expected[name]).all()

    dist.simulate(2, program)
    for folder in ("parts", "both", "whole"):
        for name, got in filled(tmp_path / folder).items():
            assert got.dtype == expected[name].dtype and (got == expected[name]).all()
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    assert sorted(os.listdir(tmp_path / "both"))[:2] == names
    index = json.loads((tmp_path / "both" / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == dict(zip("ab", names, strict=True))
    assert index["metadata"]["total_size"] == 46
    whole = load_file(tmp_path / "both" / names[0])
    assert list(whole) == ["a"] and (whole["a"] == expected["a"]).all()
    with pytest.raises(dcp.CheckpointException, match="is none"):
        dcp.save({"n": 1}, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path / "no"))
    with pytest.raises(dcp.CheckpointException, match="no safetensors file"):
        filled(tmp_path)
