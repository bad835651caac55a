"""Tensor parallelism and fully_shard: models whose weights are cut equal those in one process."""

import itertools

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight import nn
from rushlight.distributed.tensor import (
    DTensor,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from rushlight.nn import functional as F

pytestmark = pytest.mark.threads

WIDTH, HEADS, VOCABULARY = 8, 4, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        def heads(t):  # however many of them are here
            return t.view(*t.shape[:2], -1, WIDTH // HEADS).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.double()
        rng = np.random.default_rng(0)
        with rl.no_grad():
            for p in self.parameters():
                p.copy_(rl.tensor(rng.standard_normal(tuple(p.shape))) * 0.3)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def tokens(step):
    return rl.tensor(np.random.default_rng(step).integers(0, VOCABULARY, (2, 6)))


def whole(t):
    return (t.full_tensor() if isinstance(t, DTensor) else t).detach().numpy()


def train(model, steps=3):
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        ids = tokens(step)
        out = model(ids)
        loss = F.cross_entropy(out.flatten(0, 1), ids.flatten().roll(1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [whole(p) for p in model.parameters()]


def check(got, expected):
    for losses, parameters in got:
        np.testing.assert_allclose(losses, expected[0], rtol=1e-9)
        for mine, theirs in zip(parameters, expected[1], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8)


PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate()),
    "layers.*.[qkv]": ColwiseParallel(),
    "layers.*.o": RowwiseParallel(),
    "layers.*.up": ColwiseParallel(),
    "layers.*.down": RowwiseParallel(),
    "head": ColwiseParallel(output_layouts=Replicate()),
}
# Norms and the residual stream are cut along the sequence.
SEQUENCE_PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "layers.*.norm[12]": SequenceParallel(use_local_output=True),
    "layers.*.[qkv]": ColwiseParallel(input_layouts=Shard(1)),
    "layers.*.o": RowwiseParallel(output_layouts=Shard(1)),
    "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "layers.*.down": RowwiseParallel(output_layouts=Shard(1)),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


@pytest.mark.parametrize("plan", [PLAN, SEQUENCE_PLAN], ids=["tensor", "sequence"])
def test_a_transformer_under_tensor_parallelism(plan):
    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        model = parallelize_module(Model(), mesh, plan)
        assert model.layers[0].q.weight.to_local().shape == (WIDTH // 2, WIDTH)
        assert model.layers[1].down.weight.to_local().shape == (WIDTH, 2 * WIDTH)
        assert set(model.state_dict()) == set(Model().state_dict())
        return train(model)

    check(dist.simulate(2, program), train(Model()))


def test_tensor_and_data_parallel_on_one_mesh():
    def program(rank):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = parallelize_module(Model(), mesh["tp"], PLAN)
        ids = tokens(0)[mesh.get_local_rank("dp")][None]
        out = model(ids)
        F.cross_entropy(out.flatten(0, 1), ids.flatten()).backward()
        grads = []
        for p in model.parameters():
            grad = (p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad).clone()
            dist.all_reduce(grad, dist.ReduceOp.AVG, mesh.get_group("dp"))
            grads.append(grad.numpy())
        return grads

    model = Model()
    F.cross_entropy(model(tokens(0)).flatten(0, 1), tokens(0).flatten()).backward()
    for got in dist.simulate(4, program):
        for mine, p in zip(got, model.parameters(), strict=True):
            np.testing.assert_allclose(mine, p.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_prepared_inputs_and_errors():
    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        seen = []

        class Module(nn.Module):
            def forward(self, a, b=None):
                seen.append((a.placements, None if b is None else b.placements))
                return a * 2

        module = parallelize_module(
            Module(),
            mesh,
            PrepareModuleInput(
                input_layouts=(Shard(0),),
                desired_input_layouts=(Replicate(),),
                input_kwarg_layouts={"b": Replicate()},
                desired_input_kwarg_layouts={"b": Shard(0)},
            ),
        )
        parallelize_module(module, mesh, PrepareModuleOutput(
            output_layouts=Replicate(), desired_output_layouts=Shard(0)))  # fmt: skip
        out = module(rl.full((2, 1), float(rank)), b=rl.ones(4))
        assert seen == [((Replicate(),), (Shard(0),))] and out.tolist() == [[2.0 * rank]] * 2
        parallelize_module(Model(), mesh, {"absent": ColwiseParallel()})
        with pytest.raises(NotImplementedError, match=r"nn.Linear and nn.Embedding"):
            parallelize_module(nn.Conv1d(1, 1, 1), mesh, ColwiseParallel())

    # Warnings are caught for all threads, which ranks are: not by each of them.
    with pytest.warns(UserWarning, match="names no submodule"):
        dist.simulate(2, program)


def sharded(**options):
    from rushlight.distributed.fsdp import fully_shard

    model = Model()
    for layer in model.layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("size", [2, 3])
def test_fully_shard_trains_as_one_process(size, drops):
    """Every rank has the whole batch here, so that means of gradients are the gradients."""

    def program(rank):
        model = sharded(reshard_after_forward=drops)
        held = sum(p.to_local().numel() for p in model.parameters())
        assert held < 0.62 * sum(p.numel() for p in Model().parameters())
        assert type(model).__name__ == "FSDPModel" and set(model.state_dict()) == names
        result = train(model)
        with rl.no_grad():
            model(tokens(0))
        return result

    names = set(Model().state_dict())
    check(dist.simulate(size, program), train(Model()))


def test_fully_shard_gathers_ahead():
    """The same steps with as many collectives, which begin earlier; parameters that were changed
    since are gathered again."""

    def program(ahead):
        model = sharded()
        layers = list(model.layers)
        if ahead:
            for one, other in itertools.pairwise(layers):
                one.set_modules_to_forward_prefetch([other])
                other.set_modules_to_backward_prefetch([one])
        result = train(model)
        count = sum("all_gather" in what for _, what, _ in dist.group.WORLD._recorded())
        handle = model.layers[0].unshard(async_op=True)
        handle.wait()
        with rl.no_grad():
            for p in model.parameters():
                p.to_local().mul_(0.5)
            halved = model(tokens(0))
        return result, count, halved

    plain = dist.simulate(2, program, False)
    ahead = dist.simulate(2, program, True)
    check([result for result, _, _ in ahead], train(Model()))
    assert [count for _, count, _ in plain] == [count for _, count, _ in ahead]
    for (_, _, a), (_, _, b) in zip(plain, ahead, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_fully_shard_averages_and_collects():
    def program(rank, mesh_shape):
        mesh = init_device_mesh("cpu", mesh_shape)
        model = sharded(mesh=mesh)
        for turn in range(2):
            model.set_requires_gradient_sync(turn == 1)
            ids = tokens(2 * rank + turn)
            F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        return [whole(p.grad) for p in model.parameters()]

    for mesh_shape in ((4,), (2, 2)):
        model = Model()
        for step in range(8):
            ids = tokens(step)
            (F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()) / 4).backward()
        for got in dist.simulate(4, program, mesh_shape):
            for mine, p in zip(got, model.parameters(), strict=True):
                np.testing.assert_allclose(mine, p.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_fully_shard_gathers_again_in_backward():
    from rushlight.distributed.fsdp import fully_shard

    def program(drops):
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        fully_shard(model, reshard_after_forward=drops)
        model(rl.ones(2, 4)).sum().backward()
        recorded = [what for _, what, _ in dist.group.WORLD._recorded()]
        return sum(what.startswith("all_gather") for what in recorded)

    assert dist.simulate(2, lambda: program(True)) == [2, 2]
    assert dist.simulate(2, lambda: program(False)) == [1, 1]


def test_fully_shard_drops_and_casts():
    from rushlight.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    def program(rank):
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        policy = MixedPrecisionPolicy(rl.bfloat16, rl.float32, output_dtype=rl.float32)
        seen = []
        model[2].register_forward_hook(lambda m, i, o: seen.append((m.weight.dtype, o.dtype)))
        fully_shard(model, mp_policy=policy)
        out = model(rl.ones(2, 4))
        assert out.dtype == rl.float32 and seen == [(rl.bfloat16, rl.bfloat16)]
        assert isinstance(model[0].weight, DTensor) and model[0].weight.dtype == rl.float32
        unit = model._fsdp_unit
        assert unit._again is None  # nobody holds whole parameters between forward and backward
        out.sum().backward()
        assert unit._again is None and model[2].weight.grad.dtype == rl.float32
        assert isinstance(model, FSDPModule) and isinstance(model, nn.Sequential)
        with pytest.raises(AssertionError, match="once"):
            fully_shard(model)
        with pytest.raises(ValueError, match="Linear was not cut"):
            model.set_modules_to_forward_prefetch([model[0]])
        broken = fully_shard(nn.Bilinear(2, 2, 2))
        with pytest.raises(TypeError):
            broken(rl.ones(1, 2))
        assert isinstance(broken.weight, DTensor)  # an error leaves no whole parameters behind

    dist.simulate(2, program)


@pytest.mark.parametrize(("shape", "inner"), [((2,), ()), ((3,), (2,)), ((2, 2), ())])
def test_loss_parallel_equals_the_loss_of_whole_logits(shape, inner):
    """With weights, ignored targets, all reductions; classes that the ranks do not divide."""

    def program(rank):
        mesh = init_device_mesh("cpu", shape)
        placements = [Shard(0)] * (len(shape) - 1) + [Shard(1)]
        rng = np.random.default_rng(0)
        for reduction in ("mean", "sum", "none"):
            weight = rl.tensor(rng.random(7))
            x = rl.tensor(rng.standard_normal((6, 7, *inner)) * 30)
            target = rl.tensor(rng.integers(0, 7, (6, *inner)))
            target[0] = -100
            whole = x.clone().requires_grad_()
            expected = nn.functional.cross_entropy(whole, target, weight, reduction=reduction)
            gradient = rl.tensor(rng.random(tuple(expected.shape)))
            expected.backward(gradient)
            logits = distribute_tensor(x, mesh, placements).requires_grad_()
            labels = target if len(shape) == 1 else distribute_tensor(
                target, mesh, [Shard(0), Replicate()]
            )  # fmt: skip
            with loss_parallel():
                loss = nn.functional.cross_entropy(logits, labels, weight, reduction=reduction)
                assert logits.placements[-1] == Shard(1)
                whole_loss = loss.redistribute(placements=[Replicate()] * len(shape))
                whole_loss.backward(distribute_tensor(gradient, mesh, whole_loss.placements))
            rl.testing.assert_close(loss.full_tensor(), expected)
            rl.testing.assert_close(logits.grad.full_tensor(), whole.grad)
            with loss_parallel():
                with pytest.raises(IndexError, match="number of classes"):
                    nn.functional.cross_entropy(logits, labels * 0 + 7)
                with pytest.raises(NotImplementedError, match="label_smoothing"):
                    nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)
                with pytest.raises(ValueError, match="must cut the classes"):
                    nn.functional.cross_entropy(
                        logits.redistribute(placements=[Replicate()] * len(shape)), labels
                    )

    dist.simulate(int(np.prod(shape)), program)


def test_tensor_parallel_and_fully_shard_on_one_mesh(tmp_path):
    """Rows of a mesh train on different data, columns share layers; a checkpoint of it is whole."""
    from rushlight.distributed.fsdp import fully_shard

    def made():
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4), nn.LayerNorm(4))
        with rl.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_(rl.tensor(np.random.default_rng(i).standard_normal(tuple(p.shape))))
        return model

    def train(model, rows):
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        data = rl.tensor(np.random.default_rng(9).standard_normal((8, 4))).float()
        for _ in range(3):
            optimizer.zero_grad()
            model(data[rows]).square().mean().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        return norm

    whole = made()
    expected = train(whole, slice(None))

    def program(rank):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = made()
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(model, mesh["tp"], plan)
        with pytest.raises(ValueError, match="another part of the same mesh"):
            fully_shard(model[0], mesh=init_device_mesh("cpu", (4,)))
        with pytest.raises(ValueError, match="has no forward"):
            fully_shard(nn.ModuleList([nn.Linear(2, 2)]), mesh=mesh["dp"])
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        here = mesh.get_local_rank("dp")
        norm = train(model, slice(4 * here, 4 * here + 4))
        rl.testing.assert_close(norm, expected, rtol=1e-4, atol=1e-5)
        for mine, theirs in zip(model.parameters(), whole.parameters(), strict=True):
            rl.testing.assert_close(mine.full_tensor(), theirs.detach(), rtol=1e-4, atol=1e-5)
        dcp.save({"model": model}, checkpoint_id=tmp_path)

    dist.simulate(4, program)
    again = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4), nn.LayerNorm(4))
    dcp.load({"model": again}, checkpoint_id=tmp_path)
    for mine, theirs in zip(again.parameters(), whole.parameters(), strict=True):
        rl.testing.assert_close(mine.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


def test_methods_beside_forward_find_whole_parameters():
    from rushlight.distributed.fsdp import fully_shard, register_fsdp_forward_method

    class Model(nn.Linear):
        def twice(self, x):
            assert self.weight.shape == (4, 4) and not isinstance(self.weight, DTensor)
            return self(self(x))

    def program(rank):
        model = Model(4, 4)
        with rl.no_grad():
            model.weight.copy_(rl.tensor(np.random.default_rng(0).standard_normal((4, 4))))
            model.bias.fill_(0.5)
        x = rl.ones(2, 4)
        expected = model.twice(x)
        expected.sum().backward()
        gradient = model.weight.grad
        model.weight.grad = None
        register_fsdp_forward_method(model, "twice")  # nothing, as it is not cut
        fully_shard(model)
        with pytest.raises(ValueError, match="no method"):
            register_fsdp_forward_method(model, "thrice")
        register_fsdp_forward_method(model, "twice")
        got = model.twice(x)
        got.sum().backward()
        rl.testing.assert_close(got, expected)
        rl.testing.assert_close(model.weight.grad.full_tensor(), gradient)
        assert isinstance(model.weight, DTensor)

    dist.simulate(2, program)
