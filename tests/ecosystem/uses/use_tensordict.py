"""TensorDicts: making, nested keys, indexing, shapes, stacking (lazily too), arithmetic, saving by memory maps; modules, sequences and policies over them; functional calls, vmap, ensembles, `tensorclass`"""

import copy
import pickle

import tensordict
import torch
from same import fill, integers, normal, use
from tensordict import (
    LazyStackedTensorDict,
    MemoryMappedTensor,
    NonTensorData,
    TensorDict,
    TensorDictParams,
    tensorclass,
)
from tensordict.nn import (
    EnsembleModule,
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    dispatch,
    set_interaction_type,
)
from torch import nn

PACKAGES = ["tensordict"]


def small():
    inner = {"pixels": normal(3, 4, 2, key=1), "count": integers(0, 9, 3, 4, key=2)}
    return TensorDict(
        {
            "obs": inner,
            "reward": normal(3, 4, 1, key=3),
            "done": integers(0, 2, 3, 4, key=4).bool(),
        },
        batch_size=[3, 4],
    )


def facts(td):
    """Batch size, and every leaf under its whole name."""
    flat = (
        td.flatten_keys(".")
        if not isinstance(td, LazyStackedTensorDict)
        else td.contiguous().flatten_keys(".")
    )
    return {"batch": list(td.batch_size), **{name: flat[name] for name in sorted(flat.keys())}}


def names(keys):
    return sorted(".".join(key) if isinstance(key, tuple) else key for key in keys)


@use
def containers(folder):
    td = small()
    yield "text", repr(td)
    yield "made", facts(td)
    yield "keys", [names(td.keys()), names(td.keys(True)), names(td.keys(True, True))]
    yield (
        "nested",
        [td["obs", "pixels"], td.get(("obs", "count")), td.get("nothing", torch.zeros(1))],
    )
    for index in (
        0,
        (0, 1),
        (slice(None), 2),
        (Ellipsis, 0),
        slice(0, 3, 2),
        torch.tensor([2, 0]),
        td["done"],
        (None, 1),
        [1, 1],
    ):
        yield (
            f"td[{index if not isinstance(index, torch.Tensor) else index.tolist()}]",
            facts(td[index]),
        )
    td["obs", "new", "deep"] = normal(3, 4, 5, key=5)
    td.set("more", torch.ones(3, 4)).set_("more", torch.full((3, 4), 2.0))
    td[0] = td[1].clone()
    td[:, 1, ...] = td[:, 2]
    td["reward"][2] = 7
    yield "written", facts(td)
    yield "selected", facts(td.select("reward", ("obs", "pixels")))
    yield "excluded", facts(td.exclude("reward", ("obs", "new")))
    yield "renamed", names(td.clone().rename_key_("more", ("obs", "more")).keys(True, True))
    yield "flat", facts(td.flatten_keys("|").unflatten_keys("|"))
    yield "popped", [td.pop("more"), "more" in td, ("obs", "pixels") in td.keys(True)]
    yield (
        "updated",
        facts(
            td.clone().update({"reward": torch.zeros(3, 4, 1), "obs": {"count": torch.ones(3, 4)}})
        ),
    )
    yield "lists", td.select("done").to_dict()
    yield "empty", facts(td.empty())
    yield (
        "numpy",
        {name: type(value).__name__ for name, value in td.select("reward").numpy().items()},
    )
    for which, wrong in enumerate(
        (
            lambda: td["absent"],
            lambda: td.set("short", torch.ones(2)),
            lambda: TensorDict({"a": torch.ones(2)}, [3]),
            lambda: td.lock_().set("x", torch.ones(3, 4)),
        )
    ):
        try:
            wrong()
        except Exception as error:
            yield f"refused {which}", type(error).__name__
    yield "locked", [td.is_locked, td.unlock_().is_locked]


@use
def shapes(folder):
    td = small()
    yield "view", facts(td.view(-1))
    yield "reshape", facts(td.reshape(2, 6))
    yield "permute", facts(td.permute(1, 0))
    yield "transpose", facts(td.transpose(0, 1))
    yield "squeeze", facts(td.unsqueeze(1).squeeze(1))
    yield "expand", facts(td.unsqueeze(0).expand(2, 3, 4))
    yield "flatten", facts(td.flatten(0, 1).unflatten(0, (4, 3)))
    yield "repeat", facts(td.repeat(2, 1))
    yield "interleaved", facts(td.repeat_interleave(2, dim=0))
    yield "gather", facts(td.gather(1, torch.tensor([[1], [0], [3]])))
    yield "split", [facts(part) for part in td.split([1, 3], 1)]
    yield "chunk", [facts(part) for part in td.chunk(2, 1)]
    yield "unbind", [facts(part) for part in td.unbind(0)]
    yield "stack", facts(torch.stack([td, td + 1], 1))
    yield "cat", facts(torch.cat([td, td[:, :1]], 1))
    yield "where", facts(td.where(td["done"], td * 0))
    yield "masked", facts(td.masked_fill(td["done"], 5))
    yield "zeros", facts(torch.zeros_like(td))
    yield "padded", facts(tensordict.pad(td, [0, 1, 1, 0], value=0.5))
    lazy = LazyStackedTensorDict(
        TensorDict({"a": normal(2, 3)}, [2]),
        TensorDict({"a": normal(2, 3, key=6), "b": torch.ones(2)}, [2]),
        stack_dim=1,
    )
    yield (
        "lazy",
        [list(lazy.batch_size), names(lazy.keys()), lazy["a"], lazy[:, 1]["b"], lazy[0]["a"]],
    )
    ragged = LazyStackedTensorDict(
        TensorDict({"a": normal(3)}), TensorDict({"a": normal(5, key=7)})
    )
    yield (
        "ragged",
        [
            tensordict.pad_sequence([*ragged.tensordicts], return_mask=False)["a"],
            [len(one["a"]) for one in ragged],
        ],
    )
    yield (
        "names",
        [
            list(
                TensorDict({"a": torch.ones(2, 3)}, [2, 3], names=["time", "batch"])
                .transpose(0, 1)
                .names
            )
        ],
    )


@use
def arithmetic(folder):
    td = small().select(("obs", "pixels"), "reward")
    yield "sums", facts(td * 2 + td - 1)
    yield "powers", facts((td**2 / 3).sqrt())
    yield "functions", facts(td.exp().log1p().abs().neg().clamp(-3, -0.5))
    yield (
        "reduced",
        [facts(td.sum(0)), facts(td.mean(1, keepdim=True)), facts(td.std(0)), td.sum(reduce=True)],
    )
    yield "norm", facts(td.norm())
    yield "compared", facts(td > 0)
    yield "equal", [bool((td == td.clone()).all()), bool((td == 0).any())]
    yield "applied", facts(td.apply(lambda x, y: x.maximum(y), td * -1))
    yield "named", facts(td.named_apply(lambda name, x: x * len(name), nested_keys=False))
    yield "resized", facts(td.apply(lambda x: x.sum(1), batch_size=[3]))
    yield (
        "dtypes",
        {
            name: str(value.dtype)
            for name, value in td.to(torch.float64).items(True, True)
            if isinstance(name, str)
        },
    )
    yield (
        "moved",
        [
            str(td.to("cpu").device),
            str(td.to("meta")["reward"].device),
            str(td.double()["reward"].dtype),
        ],
    )
    yield "lerp", facts(td.lerp(td * 3, 0.25))
    # (PyTorch maps over no _foreach_ function, which arithmetic of a whole TensorDict calls.)
    scaled = torch.func.vmap(lambda one: one.apply(lambda x: x * 2 + one["reward"].sum()))
    yield "mapped", facts(scaled(td))
    leaf = td.clone().requires_grad_()
    (leaf.sin().sum(reduce=True)).backward()
    yield "gradient", [leaf["reward"].grad, leaf["obs", "pixels"].grad]
    yield "detached", leaf.detach()["reward"].requires_grad
    yield "data", facts(leaf.data)
    yield "softmax", facts(td.softmax(-1))
    yield "nested tensors", [x.shape.numel() for x in torch.utils._pytree.tree_leaves(td)]
    yield "tree", facts(torch.utils._pytree.tree_map(lambda x: x + 1, td))


@use
def files(folder):
    td = small()
    mapped = td.memmap(folder / "map")
    yield "files", sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    yield "loaded", facts(TensorDict.load_memmap(folder / "map"))
    yield "kinds", [type(mapped["reward"]).__name__, mapped.is_memmap(), mapped.is_locked]
    mapped["obs", "pixels"][1] = 3
    yield "shared", facts(TensorDict.load_memmap(folder / "map"))
    single = MemoryMappedTensor.from_tensor(normal(3, 2), filename=folder / "one.memmap")
    single += 1
    yield (
        "single",
        [
            MemoryMappedTensor.from_filename(
                folder / "one.memmap", dtype=torch.float32, shape=(3, 2)
            ),
            single[1:] * 2,
            type(single.clone()).__name__,
        ],
    )
    empty = (
        TensorDict({"x": torch.zeros(2, dtype=torch.int64)}, [2])
        .expand(5, 2)
        .memmap_like(folder / "like")
    )
    empty[3:]["x"].fill_(4)
    yield "like", facts(TensorDict.load_memmap(folder / "like"))
    torch.save(td, folder / "td.pt")
    yield "saved", facts(torch.load(folder / "td.pt", weights_only=False))
    yield "pickled", facts(pickle.loads(pickle.dumps(td)))
    yield "copied", facts(copy.deepcopy(td))
    yield "state", facts((small() * 0).load_state_dict(td.state_dict()))
    text = TensorDict({"name": NonTensorData("lamp", batch_size=[3]), "x": normal(3)}, [3])
    text.memmap(folder / "text")
    back = TensorDict.load_memmap(folder / "text")
    yield "text", [text["name"], back["name"], facts(back.select("x"))]
    yield (
        "batches",
        [
            facts(batch)
            for batch in torch.utils.data.DataLoader(td, batch_size=2, collate_fn=lambda x: x)
        ],
    )
    packed = td.consolidate()
    yield "consolidated", facts(packed)


@use
def modules(folder):
    net = TensorDictModule(fill(nn.Linear(2, 3)), in_keys=[("obs", "pixels")], out_keys=["hidden"])
    td = small()
    yield "module", facts(net(td))
    two = TensorDictModule(
        lambda a, b: (a + b, a * b),
        in_keys=["hidden", "reward"],
        out_keys=["sum", ("out", "product")],
    )
    sequence = TensorDictSequential(net, two, TensorDictModule(nn.Softmax(-1), ["sum"], ["chance"]))
    yield "sequence", facts(sequence(small()))
    yield (
        "keys",
        [
            names(sequence.in_keys),
            names(sequence.out_keys),
            repr(sequence.select_subsequence(out_keys=["sum"]).out_keys),
        ],
    )
    yield "text", str(net)
    found = sequence(small())
    found["chance"].square().sum().backward()
    yield "gradients", [net.module.weight.grad, net.module.bias.grad]

    class Doubled(nn.Module):
        in_keys, out_keys = ["a"], ["b"]

        @dispatch(source="in_keys", dest="out_keys")
        def forward(self, tensordict):
            return tensordict.set("b", tensordict["a"] * 2)

    yield (
        "dispatched",
        [Doubled()(a=torch.ones(2)), Doubled()(TensorDict({"a": torch.ones(2)}))["b"]],
    )
    actor = ProbabilisticTensorDictSequential(
        TensorDictModule(lambda x: (x, x.exp()), ["hidden"], ["loc", "scale"]),
        ProbabilisticTensorDictModule(
            ["loc", "scale"],
            ["action"],
            distribution_class=torch.distributions.Normal,
            return_log_prob=True,
        ),
    )
    with set_interaction_type(InteractionType.MEAN):
        acted = actor(TensorDict({"hidden": normal(4, 3)}, [4]))
    yield "policy", {key: acted[key] for key in ("loc", "scale", "action")}
    yield "chance", actor.get_dist(acted).log_prob(acted["action"])
    trained, target = (
        fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))),
        normal(4, 1, key=8),
    )
    policy = TensorDictModule(trained, ["x"], ["y"])
    optimizer = torch.optim.Adam(policy.parameters(), 0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (policy(TensorDict({"x": normal(4, 3)}, [4]))["y"] - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    yield "losses", torch.stack(losses)


@use
def functional(folder):
    net = fill(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))).eval()
    x = normal(5, 3)
    params = TensorDict.from_module(net)
    yield "params", facts(params.detach())
    before = net(x)
    with (params.detach() * 0 + 1).to_module(net):
        inside = net(x)
    yield "swapped", [before, inside, net(x)]
    with (
        params.data.clone().apply(lambda p: p + 0.5 if p.is_floating_point() else p).to_module(net)
    ):
        yield "changed", net(x)
    many = TensorDict.from_modules(
        *(fill(nn.Linear(3, 2), key=key) for key in range(3)), as_module=True
    )
    empty = nn.Linear(3, 2, device="meta")

    def call(params, x):
        with params.to_module(empty):
            return empty(x)

    out = torch.vmap(call, (0, None))(many, x)
    out.square().sum().backward()
    yield "ensemble", [out, many["weight"].grad, list(many.batch_size), names(many.state_dict())]
    gradients = torch.func.grad(lambda p: call(p, x).sum())(
        TensorDict.from_module(fill(nn.Linear(3, 2))).data
    )
    yield "gradients", facts(gradients)
    held = TensorDictParams(TensorDict({"a": normal(2), "b": {"c": normal(3, key=9)}}))
    holder = nn.Module()
    holder.held = held
    optimizer = torch.optim.SGD(holder.parameters(), 0.1)
    (held["a"].square().sum() + held["b", "c"].sum()).backward()
    optimizer.step()
    yield "held", [names(name for name, _ in holder.named_parameters()), facts(held.data)]
    ensemble = EnsembleModule(TensorDictModule(nn.Linear(3, 2), ["x"], ["y"]), num_copies=3)
    for name, parameter in ensemble.named_parameters():
        parameter.data.copy_(normal(*parameter.shape, key=name))
    yield "copies", ensemble(TensorDict({"x": x}, [5]))["y"]
    batched = TensorDict({"a": normal(4, 3), "b": {"c": normal(4, key=1)}}, [4])
    yield (
        "mapped",
        facts(torch.vmap(lambda td: TensorDict({"z": td["a"].sum() * td["b", "c"]}, []))(batched)),
    )
    yield (
        "out",
        facts(
            torch.vmap(lambda td, y: td.apply(lambda v: v + y), in_dims=(0, None), out_dims=0)(
                batched, torch.tensor(2.0)
            )
        ),
    )


@tensorclass
class Step:
    action: torch.Tensor
    reward: torch.Tensor
    info: str = "none"
    hidden: torch.Tensor | None = None

    def total(self):
        return self.reward.sum()


@tensorclass
class Episode:
    steps: Step
    weight: torch.Tensor


@use
def classes(folder):
    step = Step(action=integers(0, 4, 3), reward=normal(3), info="first", batch_size=[3])
    yield (
        "fields",
        [step.action, step.reward, step.info, step.hidden, step.total(), list(step.shape)],
    )
    yield "text", repr(step)
    yield "indexed", [step[1].reward, step[1:].action, type(step[0]).__name__]
    both = torch.stack([step, step])
    yield "stacked", [both.reward, list(both.batch_size)]
    yield "sum", (step + 1).reward
    episode = Episode(steps=step, weight=torch.ones(3), batch_size=[3])
    episode.steps.reward = torch.zeros(3)
    episode.weight = episode.weight * 2
    yield (
        "nested",
        [episode.steps.reward, episode[0].weight, episode.to_tensordict()["steps", "action"]],
    )
    episode.memmap(folder / "episode")
    yield "loaded", Episode.load_memmap(folder / "episode").steps.action
    yield (
        "made",
        Step.from_tensordict(
            TensorDict({"action": torch.ones(2), "reward": torch.zeros(2)}, [2])
        ).reward,
    )
    yield "viewed", list(episode.unsqueeze(-1).expand(3, 2).reshape(-1).steps.shape)
    yield "equal", bool((step == step.clone()).all())
