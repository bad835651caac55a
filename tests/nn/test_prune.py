"""Pruning: masks, their combination, and what remains."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils import prune

W = [[1.0, -4.0, 2.0], [-0.5, 3.0, 0.1]]


def layer():
    made = nn.Linear(3, 2)
    made.weight.data = rl.tensor(W)
    return made


def test_the_smallest_go():
    m = layer()
    assert prune.l1_unstructured(m, "weight", 2) is m
    assert m.weight_mask.tolist() == [[1, 1, 1], [0, 1, 0]]
    assert {n for n, _ in m.named_parameters()} == {"bias", "weight_orig"}
    assert set(m.state_dict()) == {"bias", "weight_orig", "weight_mask"}
    assert m.weight.tolist() == [[1, -4, 2], [0, 3, 0]]
    assert prune.is_pruned(m) and prune.is_pruned(nn.Sequential(m))
    x = rl.randn(5, 3)
    m(x).sum().backward()
    assert (m.weight_orig.grad[m.weight_mask == 0] == 0).all()
    rl.optim.SGD(m.parameters(), lr=1.0).step()
    m(x)  # the product is made anew before forward
    assert rl.equal(m.weight, m.weight_orig * m.weight_mask)


def test_shares_and_combination():
    m = layer()
    prune.l1_unstructured(m, "weight", 0.5)
    assert int(m.weight_mask.sum()) == 3
    prune.l1_unstructured(m, "weight", 1)  # of what is left
    assert m.weight_mask.tolist() == [[0, 1, 0], [0, 1, 0]]
    prune.ln_structured(m, "weight", 1, n=2, dim=0)
    assert m.weight_mask.tolist() == [[0, 1, 0], [0, 0, 0]]
    (hook,) = m._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3


@pytest.mark.parametrize("n", [1, 2, float("inf")])
def test_slices(n):
    m = layer()
    prune.ln_structured(m, "weight", 1, n=n, dim=1)
    assert m.weight_mask.sum(0).tolist() == [0, 2, 2]
    r = prune.random_structured(layer(), "weight", 2, dim=-1)
    assert sorted(r.weight_mask.sum(0).tolist()) == [0, 0, 2]


def test_random_identity_and_custom():
    assert int(prune.random_unstructured(layer(), "weight", 4).weight_mask.sum()) == 2
    assert (prune.identity(layer(), "weight").weight_mask == 1).all()
    mask = rl.tensor([[0, 1, 1], [1, 0, 1]])
    m = prune.custom_from_mask(layer(), "weight", mask)
    assert m.weight.tolist() == [[0, -4, 2], [-0.5, 0, 0.1]] or rl.allclose(
        m.weight, rl.tensor(W) * mask
    )


def test_scores_decide():
    m = layer()
    prune.l1_unstructured(m, "weight", 2, importance_scores=-rl.tensor(W).abs() + 10)
    assert m.weight_mask.tolist() == [[1, 0, 1], [1, 0, 1]]


def test_several_parameters_as_one():
    a, b = layer(), layer()
    b.weight.data.mul_(10)
    prune.global_unstructured(
        [(a, "weight"), (b, "weight")], pruning_method=prune.L1Unstructured, amount=5
    )
    assert int(a.weight_mask.sum()) == 2 and int(b.weight_mask.sum()) == 5
    with pytest.raises(TypeError, match="unstructured"):
        prune.global_unstructured([(layer(), "weight")], prune.LnStructured, amount=1, n=2)


def test_removal_keeps_the_zeros():
    m = layer()
    prune.l1_unstructured(m, "weight", 3)
    pruned = m.weight.detach().clone()
    prune.remove(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and rl.equal(m.weight.detach(), pruned)
    assert set(m.state_dict()) == {"weight", "bias"} and not prune.is_pruned(m)
    with pytest.raises(ValueError, match="not pruned"):
        prune.remove(m, "weight")


def test_a_method_of_ones_own():
    class Every(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    m = layer()
    Every.apply(m, "weight")
    assert m.weight_mask.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert Every().prune(rl.ones(4)).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (ValueError, lambda: prune.l1_unstructured(layer(), "weight", 7)),
        (ValueError, lambda: prune.l1_unstructured(layer(), "weight", 1.5)),
        (ValueError, lambda: prune.l1_unstructured(layer(), "weight", -1)),
        (TypeError, lambda: prune.l1_unstructured(layer(), "weight", "all")),
        (ValueError, lambda: prune.ln_structured(layer(), "bias", 1, 2, 0)),
        (IndexError, lambda: prune.ln_structured(layer(), "weight", 1, 2, 5)),
        (AttributeError, lambda: prune.l1_unstructured(layer(), "nothing", 1)),
        (AssertionError, lambda: prune.custom_from_mask(layer(), "weight", rl.ones(2, 2))),
    ],
)
def test_wrong_calls(kind, call):
    with pytest.raises(kind):
        call()
