"""Pruning: masks, hooks and what is left when it is made permanent."""

import copy

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils import prune


def layer():
    rl.manual_seed(0)
    return nn.Linear(4, 3)


def test_l1_unstructured_and_remove():
    m = layer()
    before = m.weight.detach().clone()
    prune.l1_unstructured(m, "weight", amount=0.5)
    assert sorted(n for n, _ in m.named_parameters()) == ["bias", "weight_orig"]
    assert [n for n, _ in m.named_buffers()] == ["weight_mask"] and prune.is_pruned(m)
    kept = before.abs() > before.abs().flatten().sort().values[5]
    assert m.weight.equal(before * kept) and not isinstance(m.weight, nn.Parameter)
    m(rl.ones(1, 4)).sum().backward()
    assert (m.weight_orig.grad[~kept] == 0).all() and (m.weight_orig.grad[kept] != 0).all()
    with rl.no_grad():
        m.weight_orig.fill_(2.0)
    m(rl.ones(1, 4))
    assert m.weight.equal(2.0 * kept)
    again = copy.deepcopy(m.state_dict())
    assert set(again) == {"bias", "weight_orig", "weight_mask"}
    prune.remove(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and m.weight.equal(2.0 * kept)
    assert set(m.state_dict()) == {"weight", "bias"} and not prune.is_pruned(m)
    with pytest.raises(ValueError, match="not pruned"):
        prune.remove(m, "weight")


def test_structured_and_further():
    m = layer()
    norms = m.weight.detach().norm(dim=1)
    prune.ln_structured(m, "weight", amount=1, n=2, dim=0)
    assert (m.weight[norms.argmin()] == 0).all() and int((m.weight_mask == 0).sum()) == 4
    prune.random_unstructured(m, "weight", amount=2)
    assert int((m.weight_mask == 0).sum()) == 6 and len(m._forward_pre_hooks) == 1
    prune.random_structured(m, "weight", amount=1, dim=0)
    assert int((m.weight_mask.sum(1) == 0).sum()) == 2
    prune.custom_from_mask(m, "bias", rl.tensor([1.0, 0.0, 1.0]))
    assert m.bias[1] == 0
    prune.identity(layer(), "weight")


def test_global():
    a, b = layer(), nn.Linear(3, 2)
    with rl.no_grad():
        b.weight.mul_(100)
    pairs = [(a, "weight"), (b, "weight")]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=6)
    zeros = [int((m.weight_mask == 0).sum()) for m in (a, b)]
    assert sum(zeros) == 6 and zeros[0] >= 5
    with pytest.raises(TypeError):
        prune.global_unstructured(pairs, pruning_method=prune.RandomStructured, amount=1)


def test_amounts():
    for bad in (-1, 1.5, "half"):
        with pytest.raises((ValueError, TypeError)):
            prune.l1_unstructured(layer(), "weight", amount=bad)
    with pytest.raises(ValueError, match="more than"):
        prune.l1_unstructured(layer(), "weight", amount=13)


def test_a_method_of_ones_own():
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    m = layer()
    EveryOther.apply(m, "weight")
    assert int((m.weight == 0).sum()) == 6
    assert int((EveryOther().prune(rl.ones(4)) == 0).sum()) == 2
