"""state_dict and load_state_dict: layout, strictness, hooks, and errors that find the pattern."""

from collections import OrderedDict

import pytest

import rushlight as rl
from rushlight import nn


def model():
    return nn.Sequential(
        OrderedDict(
            first=nn.Linear(2, 3), norm=nn.BatchNorm1d(3), second=nn.Sequential(nn.Linear(3, 1))
        )
    )


def test_layout_and_metadata():
    m = model()
    state = m.state_dict()
    assert list(state) == [
        "first.weight", "first.bias", "norm.weight", "norm.bias", "norm.running_mean",
        "norm.running_var", "norm.num_batches_tracked", "second.0.weight", "second.0.bias",
    ]  # fmt: skip
    assert type(state) is OrderedDict
    assert state._metadata["norm"] == {"version": 2} and state._metadata[""] == {"version": 1}
    assert state["first.weight"].data_ptr() == m.first.weight.data_ptr()
    assert not state["first.weight"].requires_grad
    assert m.state_dict(keep_vars=True)["first.weight"] is m.first.weight
    assert list(m.first.state_dict(prefix="x.")) == ["x.weight", "x.bias"]
    with pytest.warns(FutureWarning):
        assert list(m.first.state_dict(OrderedDict(), "y.")) == ["y.weight", "y.bias"]


def test_round_trip_copies_values():
    a, b = model(), model()
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert rl.equal(a.first.weight, b.first.weight)
    assert a.first.weight.data_ptr() != b.first.weight.data_ptr()
    assert b.first.weight.requires_grad


def test_assign_takes_the_tensors():
    a, b = model(), model()
    state = a.state_dict()
    b.first.weight.requires_grad_(False)
    b.load_state_dict(state, assign=True)
    assert b.first.weight.data_ptr() == state["first.weight"].data_ptr()
    assert isinstance(b.first.weight, nn.Parameter) and not b.first.weight.requires_grad
    assert b.first.bias.requires_grad
    half = {k: v.half() for k, v in nn.Linear(2, 3).state_dict().items()}
    c = nn.Linear(2, 3, device="meta")
    c.load_state_dict(half, assign=True)
    assert c.weight.dtype == rl.float16 and not c.weight.is_meta
    with pytest.warns(UserWarning, match="assign=True"):
        nn.Linear(2, 3, device="meta").load_state_dict(half)


def test_not_strict():
    m = nn.Linear(2, 3)
    keys = m.load_state_dict({"weight": rl.ones(3, 2), "extra": rl.ones(1)}, strict=False)
    assert keys.missing_keys == ["bias"] and keys.unexpected_keys == ["extra"]
    assert m.weight.sum() == 6
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        m.load_state_dict({"weight": rl.ones(2, 2)}, strict=False)


def many(n, prefix=""):
    return nn.Sequential(*[nn.Linear(2, 2) for _ in range(n)])


def error_of(m, state):
    with pytest.raises(RuntimeError) as info:
        m.load_state_dict(state)
    text = str(info.value)
    assert len(text.splitlines()) <= 20, text
    return text


@pytest.mark.parametrize("n", [1, 4, 200])
@pytest.mark.parametrize(
    "rename, hint",
    [
        (lambda k: "module." + k, 'after stripping "module."'),
        (lambda k: "model.net." + k, 'after stripping "model.net."'),
        (lambda k: k.replace(".weight", ".gamma"), 'after replacing "weight" by'),
        (lambda k: k.replace(".", "._orig_mod.", 1), 'after stripping "_orig_mod."'),
    ],
)
def test_patterns_in_keys(n, rename, hint):
    m = many(n)
    state = {rename(k): v for k, v in m.state_dict().items()}
    text = error_of(m, state)
    if "gamma" in next(iter(state)):
        assert 'after replacing "gamma" by "weight"' in text
    else:
        assert f"all {2 * n} unexpected keys match {hint}" in text


def test_a_prefix_that_is_missing():
    m = nn.ModuleDict({"module": many(4)})
    text = error_of(m, many(4).state_dict())
    assert 'all 8 unexpected keys match after adding "module." in front' in text


def test_a_checkpoint_with_the_weights_inside():
    m = many(2)
    text = error_of(m, {"epoch": 3, "state_dict": m.state_dict()})
    assert 'load state_dict["state_dict"]' in text


def test_many_wrong_shapes_stay_short():
    m = nn.Sequential(*[nn.Linear(2, 2) for _ in range(50)])
    state = nn.Sequential(*[nn.Linear(3, 2) for _ in range(50)]).state_dict()
    text = error_of(m, state)
    assert "[2, 3] in the checkpoint, [2, 2] in the model" in text and "46 more" in text


def test_what_is_not_a_tensor():
    text = error_of(nn.Linear(1, 1), {"weight": 3, "bias": rl.ones(1)})
    assert "weight: expected a tensor" in text


def test_extra_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    m = nn.Sequential(Counter())
    m[0].count = 7
    state = m.state_dict()
    assert state == {"0._extra_state": {"count": 7}}
    other = nn.Sequential(Counter())
    other.load_state_dict(state)
    assert other[0].count == 7
    assert "_extra_state" in error_of(other, {})
    assert "_extra_state" in error_of(nn.Sequential(nn.Identity()), state)


def test_hooks():
    m, log = nn.Linear(1, 1), []
    m.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("pre", prefix, keep)))
    m.register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop("bias"))
    m._state_dict_hooks.clear()

    def drop(m, state, prefix, meta):
        del state["bias"]

    m.register_state_dict_post_hook(drop)
    assert list(m.state_dict()) == ["weight"] and log == [("pre", "", False)]
    m._state_dict_hooks.clear()
    m.register_state_dict_post_hook(lambda *a: 3)
    with pytest.raises(RuntimeError):
        m.state_dict()
    m._state_dict_hooks.clear()
    m._register_state_dict_hook(lambda m, state, prefix, meta: {"new": 1})
    assert m.state_dict() == {"new": 1}

    class Bound:
        def hook(self, m, state, prefix, meta):
            state["more"] = 1

    m._state_dict_hooks.clear()
    m.register_state_dict_post_hook(Bound().hook)
    assert m.state_dict()["more"] == 1

    n = nn.Linear(1, 1)

    def rename(module, state, prefix, meta, strict, missing, unexpected, errors):
        assert module is n
        state[prefix + "weight"] = state.pop(prefix + "w")

    n.register_load_state_dict_pre_hook(rename)
    n.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    keys = n.load_state_dict({"w": rl.ones(1, 1)})
    assert n.weight.item() == 1 and keys.missing_keys == []
    n.register_load_state_dict_post_hook(lambda m, keys: 3)
    with pytest.raises(AssertionError):
        n.load_state_dict({"w": rl.ones(1, 1)})


def test_old_files():
    m = nn.BatchNorm1d(2)
    state = {k: v for k, v in m.state_dict().items() if k != "num_batches_tracked"}
    m.load_state_dict(state)  # no metadata: from before batches were counted
    scalar = nn.Module()
    scalar.p = nn.Parameter(rl.zeros(()))
    scalar.load_state_dict({"p": rl.ones(1)})
    assert scalar.p.item() == 1


def test_a_module_may_convert_what_it_loads():
    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *args):
            if prefix + "W" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "W")
            super()._load_from_state_dict(state_dict, prefix, *args)

    m = nn.Sequential(Renamed(1, 1))
    given = {"0.W": rl.ones(1, 1), "0.bias": rl.zeros(1)}
    m.load_state_dict(given)
    assert m[0].weight.item() == 1 and "0.W" in given


def test_a_prefix_is_stripped_in_place():
    from rushlight.nn.modules.utils import consume_prefix_in_state_dict_if_present

    wrapped = nn.ModuleDict({"module": many(2)})
    state = wrapped.state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == list(many(2).state_dict())
    assert set(state._metadata) == {"", "0", "1"}
    many(2).load_state_dict(state)
