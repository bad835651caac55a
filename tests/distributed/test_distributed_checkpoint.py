"""distributed.checkpoint: written by some ranks, loaded by others, whole at every moment."""

import os

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight import nn
from rushlight.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from rushlight.distributed.checkpoint.utils import _DistWrapper
from rushlight.distributed.fsdp import FullyShardedDataParallel, fully_shard
from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from rushlight.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.threads


def made(rank, shape=None):
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    with rl.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(rl.tensor(np.random.default_rng(i).standard_normal(tuple(p.shape))))
    if shape is not None:
        fully_shard(model, mesh=init_device_mesh("cpu", shape))
    return model, rl.optim.AdamW(model.parameters(), lr=0.1)


def train(model, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        data = rl.tensor(np.random.default_rng(50 + step).standard_normal((4, 5))).float()
        model(data).square().sum().backward()
        optimizer.step()


def whole(model):
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().numpy()
            for p in model.parameters()]  # fmt: skip


def save(rank, folder, shape, later):
    model, optimizer = made(rank, shape)
    train(model, optimizer, 2)
    weights, state = get_state_dict(model, optimizer)
    everything = {"model": weights, "optim": state, "step": 2, "note": (1, "x")}
    if later:
        future = dcp.async_save(everything, checkpoint_id=folder)
        train(model, optimizer, 1)  # what is saved was copied before
        future.result(60)
        model, optimizer = made(rank, shape)
        train(model, optimizer, 2)
    else:
        dcp.save(everything, checkpoint_id=folder)
    train(model, optimizer, 2)
    return whole(model)


def resume(rank, folder, shape):
    model, optimizer = made(rank, shape)
    weights, state = get_state_dict(model, optimizer)
    everything = {"model": weights, "optim": state, "step": 0, "note": None}
    dcp.load(everything, checkpoint_id=folder)
    assert everything["step"] == 2 and tuple(everything["note"]) == (1, "x")
    set_state_dict(model, optimizer, model_state_dict=everything["model"],
                   optim_state_dict=everything["optim"])  # fmt: skip
    train(model, optimizer, 2)
    return whole(model)


@pytest.mark.parametrize("later", [False, True])
def test_any_number_of_ranks_goes_on(tmp_path, later):
    folder = str(tmp_path / "checkpoint")
    (expected, *_) = dist.simulate(3, save, folder, (3,), later)
    for size, shape in ((1, None), (2, (2,)), (4, (2, 2)), (3, (3,))):
        for got in dist.simulate(size, resume, folder, shape):
            for mine, theirs in zip(got, expected, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_every_cut_becomes_every_other(tmp_path):
    value = rl.arange(35.0).view(5, 7)
    places = [Replicate(), Shard(0), Shard(1)]

    def write(rank, folder, p):
        mesh = init_device_mesh("cpu", (3,))
        dcp.save({"x": distribute_tensor(value, mesh, [p])}, checkpoint_id=folder)

    def read(rank, folder, p):
        mesh = init_device_mesh("cpu", (2,))
        state = {"x": distribute_tensor(rl.zeros(5, 7), mesh, [p])}
        dcp.load(state, checkpoint_id=folder)
        assert (state["x"].full_tensor() == value).all()

    for i, p in enumerate(places):
        dist.simulate(3, write, str(tmp_path / str(i)), p)
        plain = {"x": rl.zeros(5, 7)}
        dcp.load(plain, checkpoint_id=tmp_path / str(i))
        assert (plain["x"] == value).all()
        for q in places:
            dist.simulate(2, read, str(tmp_path / str(i)), q)


class Broken(dcp.FileSystemWriter):
    def write_data(self, plan, planner):
        super().write_data(plan, planner)
        raise OSError("no space left")


def test_the_last_checkpoint_stays_whole(tmp_path):
    folder = str(tmp_path)

    def write(rank, value, fails):
        writer = Broken(folder) if fails and rank == 1 else dcp.FileSystemWriter(folder)
        mesh = init_device_mesh("cpu", (2,))
        state = {"x": distribute_tensor(rl.full((4,), value), mesh, [Shard(0)])}
        if fails:
            with pytest.raises(dcp.CheckpointException, match="no space left") as caught:
                dcp.save(state, storage_writer=writer)
            assert list(caught.value.failures) == [1]
            with pytest.raises(dcp.CheckpointException, match="no space left"):
                dcp.async_save(state, storage_writer=writer).result(60)
        else:
            dcp.save(state, storage_writer=writer)

    def read():
        state = {"x": rl.zeros(4)}
        dcp.load(state, checkpoint_id=folder)
        return state["x"].tolist()

    dist.simulate(2, write, 1.0, False)
    dist.simulate(2, write, 2.0, True)
    assert read() == [1.0] * 4
    dist.simulate(2, write, 3.0, False)
    assert read() == [3.0] * 4
    assert len([f for f in os.listdir(folder) if f.endswith(".distcp")]) == 2


def test_a_rank_that_is_lost_after_the_metadata_takes_no_files_away(tmp_path, monkeypatch):
    """The first rank has put the metadata in place; then the others do not hear of it."""
    folder = str(tmp_path)

    def write(rank, value):
        state = {"x": distribute_tensor(rl.full((4,), value), init_device_mesh("cpu", (2,)),
                                        [Shard(0)])}  # fmt: skip
        try:
            dcp.save(state, checkpoint_id=folder)
        except dist.DistBackendError:
            return "lost"

    assert dist.simulate(2, write, 1.0) == [None, None]

    def lost(self, result):
        dist.barrier(self.group)  # until the first rank is done
        raise dist.DistBackendError("a rank is lost")

    monkeypatch.setattr(_DistWrapper, "broadcast_object", lost)
    assert dist.simulate(2, write, 2.0) == ["lost", "lost"]
    state = {"x": rl.zeros(4)}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    assert state["x"].tolist() == [2.0] * 4


def test_whole_states_and_errors(tmp_path):
    def program(rank):
        model, _ = made(rank, (2,))
        state = get_model_state_dict(model, options=StateDictOptions(True, cpu_offload=True))
        assert (len(state) == 4) == (rank == 0)
        full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        doubled = {name: t * 2 for name, t in full.items()}
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, doubled if rank == 0 else {}, options=options)
        for name, t in get_model_state_dict(
            model, options=StateDictOptions(full_state_dict=True)
        ).items():
            assert (t == doubled[name]).all()

    dist.simulate(2, program)
    dcp.save({"a": rl.ones(3), "model": nn.Linear(2, 2)}, checkpoint_id=tmp_path)
    layer = nn.Linear(2, 2)
    dcp.load({"model": layer}, checkpoint_id=tmp_path)
    for state, error, text in (
        ({"b": rl.ones(3)}, RuntimeError, "has no 'b'"),
        ({"a": rl.ones(4)}, ValueError, r"shape \[3\] in the checkpoint"),
        ({"a": 1}, ValueError, "expected a tensor"),
    ):
        with pytest.raises(dcp.CheckpointException, match=text) as caught:
            dcp.load(state, checkpoint_id=tmp_path)
        assert type(caught.value.failures[0][0]) is error
    with pytest.raises(dcp.CheckpointException, match="no whole checkpoint"):
        dcp.load({"a": rl.ones(4)}, checkpoint_id=tmp_path / "absent")
    with pytest.raises(RuntimeError, match="must be given"):
        dcp.save({})


def wrapped(kind):
    model, _ = made(0)
    if kind == "ddp":
        return DistributedDataParallel(model)
    if kind == "inside":
        model[0] = DistributedDataParallel(model[0])
        model[2] = checkpoint_wrapper(model[2])
    elif kind == "fsdp":
        return FullyShardedDataParallel(model)
    return model


def test_options_of_states():
    """Names without wrappers; flat, on one rank, from one rank: the same state again."""

    def program(rank):
        plain, _ = made(rank)
        whole = StateDictOptions(full_state_dict=True)
        for kind in ("ddp", "inside", "fsdp"):
            model = wrapped(kind)
            optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
            train(model, optimizer, 1)
            expected = get_state_dict(model, optimizer, options=whole)
            assert list(expected[0]) == list(plain.state_dict())
            assert list(expected[1]["state"]) == list(plain.state_dict())
            for flat, one in ((True, False), (False, True), (True, True)):
                options = StateDictOptions(
                    full_state_dict=True, cpu_offload=one, broadcast_from_rank0=one,
                    flatten_optimizer_state_dict=flat,
                )  # fmt: skip
                weights, state = get_state_dict(model, optimizer, options=options)
                assert bool(weights) == bool(state) == (rank == 0 or not one)
                assert not flat or not state or "param_groups.0.weight.lr" in state
                other, stepper = made(rank, (2,))
                stepper.param_groups[0]["lr"] = 9.0
                set_state_dict(other, stepper, model_state_dict=weights, optim_state_dict=state,
                               options=options)  # fmt: skip
                got = get_state_dict(other, stepper, options=whole)
                for name, value in expected[0].items():
                    assert (got[0][name] == value).all()
                    for key, held in expected[1]["state"][name].items():
                        assert (got[1]["state"][name][key] == held).all()
                assert stepper.param_groups[0]["lr"] == 0.1

    dist.simulate(2, program)
    model, optimizer = made(0)
    model[0].weight.requires_grad_(False)
    frozen = StateDictOptions(ignore_frozen_params=True)
    weights, state = get_state_dict(model, optimizer, options=frozen)
    assert "0.weight" not in weights and "0.weight" not in state["param_groups"][0]["params"]
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state,
                   options=frozen)  # fmt: skip
    with pytest.warns(FutureWarning, match="submodules"):
        part = get_model_state_dict(
            model, submodules={model[2]}, options=StateDictOptions(keep_submodule_prefixes=False)
        )
    assert list(part) == ["weight", "bias"]
    del state["state"]["2.weight"]
    with pytest.raises(RuntimeError, match=r"nothing of 2\.weight"):
        set_optimizer_state_dict(model, optimizer, state)
    set_optimizer_state_dict(model, optimizer, state, options=StateDictOptions(strict=False))
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True))


def test_the_state_of_an_optimiser_without_one(tmp_path):
    """load_sharded_optimizer_state_dict: cut as the model is."""

    def program(rank):
        model, optimizer = made(rank, (2,))
        train(model, optimizer, 1)
        weights, state = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optim": state}, checkpoint_id=tmp_path)
        reader = dcp.FileSystemReader(tmp_path)
        found = dcp.load_sharded_optimizer_state_dict(weights, "optim", reader)["optim"]
        for name, values in state["state"].items():
            for key, value in values.items():
                got = found["state"][name][key]
                assert getattr(got, "placements", None) == getattr(value, "placements", None)
                assert (got.to_local() if key != "step" else got).equal(
                    value.to_local() if key != "step" else value
                )
        assert found["param_groups"][0]["lr"] == 0.1

    dist.simulate(2, program)
