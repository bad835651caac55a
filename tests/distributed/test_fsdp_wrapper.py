"""FullyShardedDataParallel: training equals that of one process, states are those of the module."""

import functools

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.fsdp import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from rushlight.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from rushlight.distributed.tensor import DTensor, init_device_mesh

pytestmark = pytest.mark.threads

SIZE = 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 9), nn.Linear(9, 6)
        self.register_buffer("seen", rl.zeros(1, dtype=rl.float64))

    def forward(self, x):
        self.seen += 1
        return x + self.down(self.up(self.norm(x)).tanh())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.blocks = nn.Linear(5, 6), nn.ModuleList(Block() for _ in range(3))
        self.last = nn.Linear(6, 2)
        self.double()
        random = np.random.default_rng(0)
        with rl.no_grad():
            for p in self.parameters():
                p.copy_(rl.tensor(random.standard_normal(tuple(p.shape))) * 0.3)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


INPUTS = rl.tensor(np.random.default_rng(1).standard_normal((8, 5)))


def train(model, ranks=1, rank=0, steps=3, accumulated=False):
    """A few steps of Adam with clipping, and the optimiser."""
    optimizer = rl.optim.Adam(model.parameters(), lr=0.05)
    mine = INPUTS[rank::ranks]
    for _ in range(steps):
        optimizer.zero_grad()
        if accumulated:
            half = len(mine) // 2
            if isinstance(model, FSDP):
                with model.no_sync():
                    (model(mine[:half]).square().mean() / 2).backward()
            else:
                (model(mine[:half]).square().mean() / 2).backward()
            (model(mine[half:]).square().mean() / 2).backward()
        else:
            model(mine).square().mean().backward()
        if isinstance(model, FSDP):
            model.clip_grad_norm_(0.5)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return optimizer


def same(found, wanted):
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert not isinstance(found[name], DTensor)
        rl.testing.assert_close(found[name].detach(), value.detach(), rtol=1e-9, atol=1e-11)


POLICIES = {
    "none": None,
    "classes": ModuleWrapPolicy({Block}),
    "transformer": functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}),
    "lambda": functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: type(m) is nn.Linear),
    "size": functools.partial(size_based_auto_wrap_policy, min_num_params=60),
    "custom": CustomPolicy(lambda m: isinstance(m, Block) and {"cpu_offload": CPUOffload(True)}),
    "always": always_wrap_policy,
}


@pytest.mark.parametrize("policy", POLICIES)
def test_training_equals_one_process(policy):
    alone = Model()
    train(alone)

    def program(rank):
        model = FSDP(Model(), auto_wrap_policy=POLICIES[policy], use_orig_params=True)
        train(model, SIZE, rank)
        assert [n for n, _ in model.named_parameters()] == [n for n, _ in alone.named_parameters()]
        assert all(isinstance(p, DTensor) for p in model.parameters())
        same(model.state_dict(), alone.state_dict())
        return len(FSDP.fsdp_modules(model)), len(FSDP.fsdp_modules(model, root_only=True))

    wrappers = {"none": 1, "classes": 4, "transformer": 4, "lambda": 9, "custom": 4}
    for count, roots in dist.simulate(SIZE, program):
        assert roots == 1
        assert count == wrappers.get(policy, count) and count >= 1


@pytest.mark.parametrize("strategy", list(ShardingStrategy))
def test_strategies_and_collected_gradients(strategy):
    alone = Model()
    train(alone, accumulated=True)

    def program(rank):
        hybrid = "HYBRID" in strategy.name
        mesh = init_device_mesh("cpu", (2, 2)) if hybrid else None
        model = FSDP(Model(), sharding_strategy=strategy, device_mesh=mesh,
                     auto_wrap_policy=ModuleWrapPolicy([Block]))  # fmt: skip
        train(model, SIZE, rank, accumulated=True)
        # Means of means over equal shares; the order of halves differs, the sums do not.
        got = model.state_dict()
        parts = {"NO_SHARD": 1, "HYBRID_SHARD": 2, "_HYBRID_SHARD_ZERO2": 2}.get(
            strategy.name, SIZE
        )
        held = model.first.weight.to_local().shape[0]
        assert held == -(-6 // parts) or (rank % parts) * -(-6 // parts) + held >= 6
        for name, p in alone.named_parameters():
            rl.testing.assert_close(got[name], p.detach(), rtol=1e-9, atol=1e-11)

    dist.simulate(SIZE, program)


def test_states_of_all_kinds():
    alone = Model()
    optimizer = train(alone)
    want = {n: optimizer.state[p] for n, p in alone.named_parameters()}

    def program(rank):
        model = FSDP(Model(), auto_wrap_policy=ModuleWrapPolicy({Block}))
        mine = train(model, SIZE, rank)
        full = FSDP.optim_state_dict(model, mine)
        assert set(full["state"]) == set(want)
        for name, values in want.items():
            for key, value in values.items():
                rl.testing.assert_close(full["state"][name][key], value, rtol=1e-9, atol=1e-12)
        kept = model.state_dict()
        with FSDP.state_dict_type(
            model, StateDictType.FULL_STATE_DICT,
            FullStateDictConfig(offload_to_cpu=True, rank0_only=True),
            FullOptimStateDictConfig(rank0_only=True),
        ):  # fmt: skip
            assert (len(model.state_dict()) > 0) == (rank == 0)
            assert (len(FSDP.optim_state_dict(model, mine)) > 0) == (rank == 0)
        states = [kept]
        with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            states.append(model.state_dict())
            assert isinstance(states[1]["blocks.0.up.weight"], DTensor)
            sharded = FSDP.optim_state_dict(model, mine)
            assert isinstance(sharded["state"]["first.weight"]["exp_avg"], DTensor)
        with FSDP.state_dict_type(model, StateDictType.LOCAL_STATE_DICT):
            states.append(model.state_dict())
            assert states[2]["first.weight"].shape[0] <= 2
        assert FSDP.get_state_dict_type(model).state_dict_type is StateDictType.FULL_STATE_DICT
        # What was saved goes on in another model as it would have here.
        for state, of_optimizer in zip(states, (full, sharded, full), strict=True):
            again = FSDP(Model(), auto_wrap_policy=ModuleWrapPolicy({Block}))
            with rl.no_grad():
                for p in again.parameters():
                    p.zero_()
            assert not any(again.load_state_dict(state))
            other = rl.optim.Adam(again.parameters(), lr=0.01)
            other.load_state_dict(FSDP.optim_state_dict_to_load(again, other, of_optimizer))
            same(again.state_dict(), kept)
            again(INPUTS[rank::SIZE]).square().mean().backward()
            other.step()
            results.setdefault(rank, []).append(again.state_dict()["last.weight"])
        first, *others = results[rank]
        for one in others:
            rl.testing.assert_close(one, first, rtol=0, atol=0)

    results = {}
    dist.simulate(SIZE, program)


def test_states_by_the_functions_for_any_model(tmp_path):
    from rushlight.distributed.checkpoint import load, save
    from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def program(rank):
        model = FSDP(Model(), auto_wrap_policy=ModuleWrapPolicy({Block}))
        optimizer = train(model, 2, rank)
        state, of_optimizer = get_state_dict(model, optimizer)
        assert isinstance(state["blocks.1.down.weight"], DTensor)
        save({"model": state, "optimizer": of_optimizer}, checkpoint_id=tmp_path / "saved")
        want = model.state_dict()
        other = FSDP(Model(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
        second = rl.optim.Adam(other.parameters(), lr=0.05)
        state, of_optimizer = get_state_dict(other, second)
        load({"model": state, "optimizer": of_optimizer}, checkpoint_id=tmp_path / "saved")
        set_state_dict(other, second, model_state_dict=state, optim_state_dict=of_optimizer)
        same(other.state_dict(), want)

    dist.simulate(2, program)


def test_whole_parameters_can_be_seen_and_written():
    def program(rank):
        model = FSDP(Model(), auto_wrap_policy=ModuleWrapPolicy({Block}))
        model(INPUTS).sum().backward()
        with FSDP.summon_full_params(model, with_grads=True):
            assert model.blocks[0].up.weight.shape == (9, 6)
            assert not isinstance(model.blocks[0].up.weight, DTensor)
            assert model.blocks[0].up.weight.grad.shape == (9, 6)
            with rl.no_grad():
                model.blocks[0].up.weight.fill_(3)
        assert isinstance(model.blocks[0].up.weight, DTensor)
        assert (model.state_dict()["blocks.0.up.weight"] == 3).all()
        with FSDP.summon_full_params(model, writeback=False), rl.no_grad():
            model.first.bias.fill_(7)
        assert not (model.state_dict()["first.bias"] == 7).any()
        model.apply(lambda m: m.bias.data.fill_(5) if isinstance(m, nn.Linear) else None)
        assert (model.state_dict()["last.bias"] == 5).all()
        with pytest.raises(NotImplementedError, match="writeback"):
            with FSDP.summon_full_params(model, rank0_only=True):
                pass

    dist.simulate(2, program)


def test_mixed_precision_and_what_is_left_out():
    seen = {}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)
            self.kept = nn.Linear(2, 2)

        def forward(self, x):
            y = self.a(x)
            z = self.norm(y)
            norm = self.norm.running_mean.dtype
            seen["a"] = (x.dtype, self.a.weight.dtype, y.dtype, norm, z.dtype)
            return self.kept(self.b(z).float())

    def program(rank):
        net = Net()
        mixed = MixedPrecision(rl.bfloat16, rl.float32, rl.float32)
        model = FSDP(net, mixed_precision=mixed, ignored_modules=[net.kept],
                     auto_wrap_policy=ModuleWrapPolicy([nn.Sequential]))  # fmt: skip
        model(rl.ones(3, 4)).sum().backward()
        half = rl.bfloat16
        assert seen["a"] == (half, half, half, rl.float32, half)
        assert model.a.weight.dtype == model.a.weight.grad.dtype == rl.float32
        assert not isinstance(model.kept.weight, DTensor)
        assert isinstance(model.norm, FSDP)
        assert sorted(model.state_dict()) == sorted(Net().state_dict())

    dist.simulate(1, program)


def test_other_ways_in():
    def program(rank):
        with enable_wrap(wrapper_cls=FSDP, use_orig_params=True):
            inner = wrap(nn.Linear(4, 4))
        assert isinstance(inner, FSDP) and wrap(plain := nn.Linear(1, 1)) is plain
        model = FSDP(nn.Sequential(inner, nn.Linear(4, 2)))
        assert model.check_is_root() and not inner.check_is_root() and model[0] is inner
        with rl.device("meta"):
            empty = nn.Linear(3, 2)
        made = FSDP(empty, param_init_fn=lambda m: m.to_empty(device="cpu", recurse=False))
        assert made.weight.to_local().device.type == "cpu"
        with rl.device("meta"):
            empty = nn.Sequential(nn.Linear(3, 2))
        made = FSDP(empty)
        assert made[0].weight.full_tensor().isfinite().all()

        scaler = ShardedGradScaler("cpu", init_scale=8.0)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
        before = model.state_dict()
        scaler.scale(model(rl.ones(1, 4)).sum()).backward()
        if rank == 1:  # what one rank finds, all leave out
            model[1].weight.grad.to_local().fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 4.0
        same(model.state_dict(), before)

    dist.simulate(2, program)


def test_what_is_refused():
    def program(rank):
        with pytest.raises(TypeError, match="expected a module, got int"):
            FSDP(3)
        with pytest.raises(NotImplementedError, match="keep_low_precision_grads"):
            FSDP(Model(), mixed_precision=MixedPrecision(keep_low_precision_grads=True))
        mesh = init_device_mesh("cpu", (1,))
        with pytest.raises(ValueError, match="two dims"):
            FSDP(Model(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh)
        with pytest.raises(ValueError, match="not both"):
            FSDP(Model(), dist.group.WORLD, device_mesh=mesh)
        model = FSDP(Model())
        with pytest.raises(RuntimeError, match="takes a ShardedStateDictConfig"):
            FSDP.set_state_dict_type(model, StateDictType.SHARDED_STATE_DICT, FullStateDictConfig())
        with pytest.raises(ValueError, match="no FullyShardedDataParallel"):
            FSDP.get_state_dict_type(Model())
        with pytest.raises(NotImplementedError, match="reduce_scatter"):
            model.register_comm_hook(None, None)
        with pytest.raises(AttributeError, match="nothing"):
            _ = model.nothing
        with pytest.raises(RuntimeError, match="first.weight"):
            model.load_state_dict({**Model().state_dict(), "first.weight": rl.zeros(2, 2)})
        with pytest.raises(ValueError, match="no parameter 'x'"):
            optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
            unknown = {"state": {"x": {}}, "param_groups": []}
            FSDP.optim_state_dict_to_load(model, optimizer, unknown)
        with pytest.raises(ValueError, match="none of the model's"):
            FSDP.optim_state_dict(model, rl.optim.SGD(Model().parameters(), lr=0.1))
        with pytest.raises(TypeError, match="expected a ShardingStrategy, got 'NO_SHARD'"):
            FSDP(Model(), sharding_strategy="NO_SHARD")
        with pytest.raises(TypeError, match="expected a StateDictType"):
            FSDP.set_state_dict_type(model, "FULL_STATE_DICT")
        partial = Model().state_dict()
        del partial["last.bias"]
        found = model.load_state_dict({**partial, "more": rl.ones(1)}, strict=False)
        assert found.missing_keys == ["last.bias"] and found.unexpected_keys == ["more"]
        with pytest.raises(ValueError, match="bool or a dict"):
            FSDP(Model(), auto_wrap_policy=CustomPolicy(lambda m: 3))

    dist.simulate(1, program)
