"""DTensor: values, placements and gradients equal those of whole tensors."""

import itertools

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from rushlight.distributed.tensor.experimental import implicit_replication, local_map
from rushlight.nn import functional as F

pytestmark = pytest.mark.threads


def seeded(seed, *shape):
    return rl.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(tensor, expected, what=""):
    np.testing.assert_allclose(
        tensor.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=str(what)
    )


def test_mesh():
    def program(rank):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        assert mesh.shape == (2, 2) and mesh.ndim == 2 and mesh.size() == 4 and mesh.size(1) == 2
        assert mesh.get_coordinate() == [rank // 2, rank % 2]
        tp = mesh["tp"]
        assert tp.mesh.tolist() == [rank // 2 * 2, rank // 2 * 2 + 1]
        assert tp.get_local_rank() == rank % 2 == mesh.get_local_rank("tp")
        assert dist.get_process_group_ranks(mesh.get_group("dp")) == [rank % 2, rank % 2 + 2]
        flat = mesh["dp", "tp"]._flatten()
        assert flat.mesh.tolist() == [0, 1, 2, 3] and mesh["dp_tp"] is flat
        cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("pp", "dp", "tp"))
        row = cube["dp", "tp"]._flatten("model")
        assert (
            row.mesh.tolist() == [rank // 2 * 2, rank // 2 * 2 + 1] == cube["model"].mesh.tolist()
        )
        dist.all_reduce(total := rl.tensor([rank]), group=row.get_group())
        assert total.item() == sum(row.mesh.tolist())
        with cube, pytest.raises(ValueError, match="already"):
            cube["dp", "tp"]._flatten("pp")
        with pytest.raises(RuntimeError, match="no names"):
            init_device_mesh("cpu", (4,))["dp"]
        assert mesh["tp"] == tp and mesh[("dp", "tp")] is mesh and "tp" in repr(mesh)
        with pytest.raises(KeyError, match="'pp'"):
            mesh["pp"]
        with pytest.raises(RuntimeError, match="needs 6 ranks"):
            init_device_mesh("cpu", (2, 3))

    dist.simulate(4, program)


@pytest.mark.parametrize("length", [6, 5, 1])
def test_every_move(length):
    """From each placement to each, and the gradient back; uneven parts too."""
    places = [Replicate(), Shard(0), Shard(1), Partial()]

    def program(rank):
        mesh = init_device_mesh("cpu", (3,))
        whole, weight = seeded(0, length, 4), seeded(1, length, 4)
        for old, new in itertools.product(places, places[:3]):
            if isinstance(old, Partial):
                local = (whole / 3).requires_grad_()
                x = DTensor.from_local(local, mesh, [old])
            else:
                x = distribute_tensor(whole, mesh, [old]).requires_grad_()
            y = x.redistribute(mesh, [new])
            assert y.placements == (new,) and y.shape == (length, 4)
            same(y.full_tensor(), whole, (old, new))
            (y.full_tensor() * weight).sum().backward()
            if isinstance(old, Partial):
                same(local.grad, weight, (old, new))
            else:
                assert x.grad.placements == (old,)
                same(x.grad.full_tensor(), weight, (old, new))
        with pytest.raises(RuntimeError, match="Can not redistribute to Partial"):
            y.redistribute(mesh, [Partial()])
        with pytest.raises(IndexError, match="none of the 2 dims"):
            y.redistribute(mesh, [Shard(2)])

    dist.simulate(3, program)


def test_two_dims_of_a_mesh():
    def program(rank):
        mesh = init_device_mesh("cpu", (2, 2))
        whole = seeded(0, 6, 7)
        choices = [Replicate(), Shard(0), Shard(1)]
        pairs = list(itertools.product(choices, choices))
        for old, new in itertools.product(pairs, pairs):
            x = distribute_tensor(whole, mesh, old)
            same(x.redistribute(mesh, new).full_tensor(), whole, (old, new))

    dist.simulate(4, program)


x, y, z = seeded(1, 4, 6, 8), seeded(2, 8, 8), seeded(3, 8)
ids = rl.tensor(np.random.default_rng(4).integers(0, 8, (4, 6)))
OPS = {
    "add": (lambda a, b: a + b, [x, z]),
    "scaled": (lambda a: 2 * a - 1, [x]),
    "between": (lambda a, b: (a * b).tanh() / (b.abs() + 1), [x, x]),
    "matmul": (lambda a, b: a @ b, [x, y]),
    "mm": (lambda a, b: rl.mm(a, b), [y, y]),
    "bmm": (lambda a, b: rl.matmul(a, b.transpose(-1, -2)), [x, x]),
    "linear": (lambda a, w, b: F.linear(a, w, b), [x, y, z]),
    "addmm": (lambda b, m, n: rl.addmm(b, m, n), [z, y, y]),
    "transpose": (lambda a: a.transpose(0, 2).contiguous(), [x]),
    "permute": (lambda a: a.permute(2, 0, 1), [x]),
    "heads": (lambda a: a.view(4, 6, 2, 4).transpose(1, 2).reshape(8, 24), [x]),
    "flatten": (lambda a: a.flatten(0, 1), [x]),
    "unsqueeze": (lambda a: a.unsqueeze(1), [x]),
    "sum": (lambda a: a.sum(), [x]),
    "mean": (lambda a: a.mean(-1, keepdim=True), [x]),
    "sum of dims": (lambda a: a.sum((0, 2)), [x]),
    "amax": (lambda a: a.amax(1), [x]),
    "softmax": (lambda a: a.softmax(-1), [x]),
    "log_softmax": (lambda a: F.log_softmax(a, 1), [x]),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (8,), w, b), [x, z, z]),
    "rms_norm": (lambda a, w: F.rms_norm(a, (8,), w), [x, z]),
    "gelu": (lambda a: F.gelu(F.silu(a)), [x]),
    "embedding": (lambda w: F.embedding(ids, w), [y]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                  [seeded(5, 2, 4, 6, 3)] * 3),
    "cat": (lambda a, b: rl.cat([a, b], 1), [x, x]),
    "stack": (lambda a, b: rl.stack([a, b]), [x, x]),
    "split": (lambda a: sum(part * i for i, part in enumerate(a.split(4, -1))), [x]),
    "chunk": (lambda a: a.chunk(2, 1)[1], [x]),
    "index": (lambda a: a[:, 1:3, None], [x]),
    "mse_loss": (lambda a, b: F.mse_loss(a, b), [x, x * 2]),
    "cross_entropy": (lambda a: F.cross_entropy(a, rl.softmax(a, 0)), [y]),
    "masked": (lambda a: a.masked_fill(a > 0, 0.5), [x]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_operators(name):
    """With every placement of every input; the gradients of all inputs."""
    function, inputs = OPS[name]
    leaves = [t.clone().requires_grad_() for t in inputs]
    expected = function(*leaves)
    weight = seeded(9, *expected.shape)
    (expected * weight).sum().backward()

    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        options = [[Replicate(), *(Shard(d) for d in range(t.dim()))] for t in inputs]
        for placements in itertools.product(*options):
            mine = [
                distribute_tensor(t, mesh, [p]).requires_grad_()
                for t, p in zip(inputs, placements, strict=True)
            ]
            out = function(*mine)
            assert isinstance(out, DTensor) and out.shape == expected.shape, placements
            same(out.full_tensor(), expected, placements)
            (out.full_tensor() * weight).sum().backward()
            for t, leaf in zip(mine, leaves, strict=True):
                same(t.grad.full_tensor(), leaf.grad, placements)

    dist.simulate(2, program)


@pytest.mark.parametrize("source", [None, 0])
def test_meta_tensors_have_meta_parts(source):
    def program():
        mesh = init_device_mesh("cpu", (2,))
        whole = nn.Parameter(rl.empty(6, 4, device="meta"))
        made = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=source)
        return made.shape, made.to_local().shape, made.to_local().is_meta, made.requires_grad

    assert dist.simulate(2, program) == [((6, 4), (3, 4), True, True)] * 2


def test_partial_results_are_used_right():
    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        a = distribute_tensor(x, mesh, [Shard(2)])
        b = distribute_tensor(y, mesh, [Shard(0)])
        product = a @ b
        assert product.placements == (Partial(),)
        whole = x @ y
        for function in [lambda t: t + t, lambda t: t * 3, lambda t: t + 1, lambda t: t.relu(),
                         lambda t: -t, lambda t: t.sum(), lambda t: t.mean(), lambda t: t * t,
                         lambda t: t.transpose(0, 1), lambda t: t.view(24, 8), lambda t: 1 / t,
                         lambda t: t @ t.transpose(-1, -2)]:  # fmt: skip
            same(function(product).full_tensor(), function(whole))
        same(product.redistribute(mesh, [Shard(0)]).full_tensor(), whole)
        assert float(product.sum()) == pytest.approx(float(whole.sum()))

    dist.simulate(2, program)


def test_what_is_not_there_says_so():
    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        a = distribute_tensor(x, mesh, [Shard(0)])
        with pytest.raises(NotImplementedError, match=r"fft.*redistribute to Replicate"):
            rl.fft.fft(a)
        with pytest.raises(RuntimeError, match="mixed Tensor and DTensor"):
            a + rl.ones(8, dtype=rl.float64)
        with pytest.raises(RuntimeError, match="cannot be pickled"):
            import pickle

            pickle.dumps(a)
        same(rl.linalg.inv(distribute_tensor(y, mesh, [Replicate()])).to_local(), rl.linalg.inv(y))
        b = distribute_tensor(y, mesh, [Shard(0)])
        assert b.T.placements == (Shard(1),) and b.data.placements == (Shard(0),)
        same(b.T.full_tensor(), y.T)
        same(a.mT.full_tensor(), x.mT)
        b.data = b.data * 2
        same(b.full_tensor(), 2 * y)
        assert "Shard" in repr(a) and a.numel() == x.numel() and len(a) == 4

    dist.simulate(2, program)


def test_optimizers_step_the_own_part():
    for optimizer_class in (rl.optim.SGD, rl.optim.AdamW):
        model = nn.Linear(8, 6, dtype=rl.float64)
        weights = {k: v.clone() for k, v in model.state_dict().items()}

        def train(model, clip):
            optimizer = optimizer_class(model.parameters(), lr=0.1)  # noqa: B023
            for step in range(3):
                optimizer.zero_grad()
                data = seeded(step, 5, 8)
                first = next(model.parameters())
                if isinstance(first, DTensor):
                    data = distribute_tensor(data, first.device_mesh, [Replicate()])
                model(data).square().sum().backward()
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()

        def program(rank, clip):
            mesh = init_device_mesh("cpu", (2,))
            copy = nn.Linear(8, 6, dtype=rl.float64)
            copy.load_state_dict(weights)  # noqa: B023

            def cut(name, module, mesh):
                for key, p in list(module.named_parameters(recurse=False)):
                    cut = nn.Parameter(distribute_tensor(p.detach(), mesh, [Shard(0)]))
                    module.register_parameter(key, cut)

            distribute_module(copy, mesh, cut)
            assert copy.weight.to_local().shape == (3, 8) and isinstance(copy.weight, nn.Parameter)
            train(copy, clip)
            return [p.full_tensor().detach() for p in copy.parameters()]

        for clip in (False, True):
            model.load_state_dict(weights)
            train(model, clip)
            for got in dist.simulate(2, program, clip):
                for mine, expected in zip(got, model.parameters(), strict=True):
                    same(mine, expected, (optimizer_class, clip))


WHERE_AN_ELEMENT_LIES_MATTERS = {
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "roll all": lambda x: x.roll(2),
    "logsumexp": lambda x: x.logsumexp(0),
    "squeeze": lambda x: x.view(5, 1, 3).squeeze(1),
    "squeeze none": lambda x: x.squeeze(),
    "expand": lambda x: x.expand(2, 5, 3),
    "repeat": lambda x: x.repeat(1, 2),
    "repeat rows": lambda x: x.repeat(2, 1),
    "einsum": lambda x: rl.einsum("ij,kj->ik", x, x),
    "trace": lambda x: x.trace(),
    "index_select": lambda x: x.index_select(0, like(x, [0, 3])),
    "gather": lambda x: x.gather(0, like(x, [[4, 0, 1]])),
    "mask": lambda x: x[x > 0],
    "pad": lambda x: nn.functional.pad(x, (1, 0)),
    "new_zeros": lambda x: x.new_zeros(2, 2),
    "erfinv_": lambda x: x.clone().clamp_(-0.9, 0.9).erfinv_(),
    "tril_": lambda x: x.clone().tril_(),
    "fill_diagonal_": lambda x: x.clone().fill_diagonal_(7.0),
    "index_fill_": lambda x: x.clone().index_fill_(0, like(x, [1]), 5.0),
    "cumsum_": lambda x: x.clone().cumsum_(0),
    "transpose_": lambda x: x.clone().transpose_(0, 1),
}


def like(x, numbers):
    """A tensor beside x: on its mesh, if it has one."""
    made = rl.tensor(numbers)
    on_mesh = isinstance(x, DTensor)
    return distribute_tensor(made, x.device_mesh, [Replicate()]) if on_mesh else made


@pytest.mark.parametrize("name", WHERE_AN_ELEMENT_LIES_MATTERS)
def test_values_of_the_whole_or_an_error(name):
    """Never those of the parts; what is not known raises."""
    op = WHERE_AN_ELEMENT_LIES_MATTERS[name]
    whole = rl.tensor(np.random.default_rng(3).standard_normal((5, 3)))
    expected = op(whole)

    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        known = []
        for placement in (Shard(0), Shard(1), Replicate()):
            try:
                got = op(distribute_tensor(whole, mesh, [placement])).full_tensor()
            except NotImplementedError:
                known.append(False)
                continue
            known.append(True)
            assert got.shape == expected.shape
            rl.testing.assert_close(got, expected)
        assert all(known) or name.endswith("_")

    dist.simulate(2, program)


def test_small_things_of_dtensors():
    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(rl.ones(4, 2), mesh, [Shard(0)])
        assert x.redistribute(mesh, [Replicate()], forward_dtype=rl.float64).dtype == rl.float64
        layer = distribute_module(nn.Linear(2, 2), mesh)
        with pytest.raises(RuntimeError, match="before"):
            distribute_module(layer, mesh)

    dist.simulate(2, program)
    assert [str(p) for p in (Shard(1), Replicate(), Partial())] == ["S(1)", "R", "P(sum)"]
    assert repr(Partial("avg")) == "Partial(avg)"


def test_plain_tensors_beside_dtensors():
    """implicit_replication, and local_map."""

    def program(rank):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(rl.arange(4.0), mesh, [Shard(0)]).requires_grad_()
        with pytest.raises(RuntimeError, match="mixed"):
            x * rl.ones(4)
        with implicit_replication():
            y = x * rl.tensor([1.0, 2.0, 3.0, 4.0])
        assert y.placements == (Shard(0),)
        y.sum().backward()
        assert x.grad.full_tensor().tolist() == [1, 2, 3, 4]

        @local_map(out_placements=([Shard(0)], [Partial()]), in_placements=([Shard(0)], None))
        def twice_and_sum(t, factor):
            assert type(t) is rl.Tensor and t.shape == (2,)
            return t * factor, t.sum()

        doubled, total = twice_and_sum(x.detach(), 2)
        assert doubled.full_tensor().tolist() == [0, 2, 4, 6] and total.full_tensor() == 6
        whole = x.detach().redistribute(mesh, [Replicate()])
        with pytest.raises(ValueError, match="redistribute_inputs=True"):
            twice_and_sum(whole, 2)
        moved = local_map(lambda t: t + 1, [Shard(0)], ([Shard(0)],), redistribute_inputs=True)
        assert moved(whole).full_tensor().tolist() == [1, 2, 3, 4]
        with pytest.raises(ValueError, match="arguments"):
            moved(whole, whole)
        with pytest.raises(ValueError, match="results"):
            local_map(lambda t: (t, t), ([Shard(0)],))(whole)

    dist.simulate(2, program)
