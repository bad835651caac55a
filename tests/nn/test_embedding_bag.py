"""Look-ups in bags against sums over plain look-ups."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F

RNG = np.random.RandomState(0)
W = RNG.randn(6, 3)
INDEX = np.array([0, 2, 2, 5, 1, 4, 3, 2])
STARTS = np.array([0, 3, 3, 7])  # the second bag is empty
FOLD = {"sum": np.sum, "mean": np.mean, "max": np.max}


def reference(mode, weights=None, skip=None, ends=None):
    rows = []
    for start, end in zip(STARTS, [*STARTS[1:], len(INDEX)] if ends is None else ends, strict=True):
        kept = [i for i in range(start, end) if INDEX[i] != skip]
        picked = W[INDEX[kept]]
        if weights is not None:
            picked = picked * weights[kept][:, None]
        rows.append(FOLD[mode](picked, 0) if kept else np.zeros(3))
    return np.stack(rows)


@pytest.mark.parametrize("mode", FOLD)
@pytest.mark.parametrize("skip", [None, 2, -2])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_values(mode, skip, dtype):
    index, starts = (rl.tensor(a).to(getattr(rl, dtype)) for a in (INDEX, STARTS))
    got = F.embedding_bag(index, rl.tensor(W), starts, mode=mode, padding_idx=skip)
    want = reference(mode, skip=None if skip is None else skip % 6)
    np.testing.assert_allclose(got.numpy(), want, 1e-14)


def test_rows_as_bags_and_the_last_offset():
    index = rl.tensor(INDEX)
    square = index.view(2, 4)
    flat = F.embedding_bag(index, rl.tensor(W), rl.tensor([0, 4]))
    assert rl.equal(F.embedding_bag(square, rl.tensor(W)), flat)
    with_end = F.embedding_bag(index, rl.tensor(W), rl.tensor([0, 4, 8]), include_last_offset=True)
    assert rl.equal(with_end, flat)
    assert F.embedding_bag(square[:0], rl.tensor(W)).shape == (0, 3)
    none = F.embedding_bag(index[:0], rl.tensor(W), rl.tensor([0, 0]), mode="max")
    assert rl.equal(none, rl.zeros(2, 3, dtype=rl.float64))


@pytest.mark.parametrize("mode", FOLD)
@pytest.mark.parametrize("skip", [None, 2])
def test_gradients(mode, skip):
    w = rl.tensor(W, requires_grad=True)

    def bag(w):
        return F.embedding_bag(rl.tensor(INDEX), w, rl.tensor(STARTS), mode=mode, padding_idx=skip)

    assert gradcheck(bag, (w,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(bag, (w,))
    bag(w).sum().backward()
    assert skip is None or (w.grad[skip] == 0).all()


@pytest.mark.parametrize("skip", [None, 2])
def test_weighted_sums(skip):
    by = RNG.randn(len(INDEX))
    w, weights = rl.tensor(W, requires_grad=True), rl.tensor(by, requires_grad=True)

    def bag(w, weights):
        return F.embedding_bag(
            rl.tensor(INDEX), w, rl.tensor(STARTS), mode="sum", per_sample_weights=weights,
            padding_idx=skip,
        )  # fmt: skip

    np.testing.assert_allclose(bag(w, weights).detach().numpy(), reference("sum", by, skip), 1e-14)
    assert gradcheck(bag, (w, weights))
    assert gradgradcheck(bag, (w, weights))


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_by_frequency(mode):
    w = rl.tensor(W, requires_grad=True)
    plain, scaled = (
        rl.autograd.grad(
            F.embedding_bag(
                rl.tensor(INDEX), w, rl.tensor(STARTS), mode=mode, scale_grad_by_freq=by
            ).sum(),
            w,
        )[0]
        for by in (False, True)
    )
    counts = rl.tensor(np.bincount(INDEX, minlength=6)).clamp(min=1)
    assert rl.allclose(scaled, plain / counts[:, None])


def test_max_norm_shortens_the_rows_that_are_read():
    w = rl.full((3, 4), 3.0)
    F.embedding_bag(rl.tensor([[0, 2]]), w, max_norm=1.0)
    assert (w[1] == 3).all() and abs(float(w[0].norm()) - 1) < 1e-4


def test_half_precision_adds_up_in_float32():
    w = rl.full((1, 2), 0.1, dtype=rl.bfloat16)
    got = F.embedding_bag(rl.zeros(1, 1000).long(), w, mode="sum")
    assert got.dtype == rl.bfloat16 and abs(float(got[0, 0]) - 100) < 1
    w.requires_grad_()
    F.embedding_bag(rl.zeros(1, 1000).long(), w, mode="sum").sum().backward()
    assert float(w.grad[0, 0]) == 1000


def test_the_module():
    bag = nn.EmbeddingBag(5, 3, mode="sum", padding_idx=-1)
    assert repr(bag) == "EmbeddingBag(5, 3, mode='sum', padding_idx=4)"
    assert (bag.weight[4] == 0).all()
    x = rl.tensor([[0, 1, 4]])
    assert rl.allclose(bag(x)[0], bag.weight[0] + bag.weight[1])
    made = nn.EmbeddingBag.from_pretrained(rl.ones(3, 2), mode="max")
    assert not made.weight.requires_grad and rl.equal(made(x[:, :2]), rl.ones(1, 2))
    again = nn.EmbeddingBag(5, 3, mode="sum")
    again.load_state_dict(bag.state_dict())
    assert rl.equal(again.weight, bag.weight)


I, B = rl.tensor([0, 1]), rl.tensor([0])
BAD = [
    (ValueError, "takes no offsets", lambda: F.embedding_bag(I[None], rl.ones(3, 2), B)),
    (ValueError, "needs offsets", lambda: F.embedding_bag(I, rl.ones(3, 2))),
    (ValueError, "1 dim", lambda: F.embedding_bag(I, rl.ones(3, 2), B[None])),
    (ValueError, "1 or 2 dims", lambda: F.embedding_bag(I[None, None], rl.ones(3, 2))),
    (RuntimeError, "first offset", lambda: F.embedding_bag(I, rl.ones(3, 2), B + 1)),
    (RuntimeError, "rise", lambda: F.embedding_bag(I, rl.ones(3, 2), rl.tensor([0, 2, 1]))),
    (RuntimeError, "rise", lambda: F.embedding_bag(I, rl.ones(3, 2), rl.tensor([0, 5]))),
    (IndexError, "embedding_bag", lambda: F.embedding_bag(I + 2, rl.ones(3, 2), B)),
    (IndexError, "embedding_bag", lambda: F.embedding_bag(I - 1, rl.ones(3, 2), B)),
    (ValueError, "mode", lambda: F.embedding_bag(I, rl.ones(3, 2), B, mode="median")),
    (NotImplementedError, "mode 'sum'",
     lambda: F.embedding_bag(I, rl.ones(3, 2), B, per_sample_weights=rl.ones(2))),
    (ValueError, "shape of the indices",
     lambda: F.embedding_bag(I, rl.ones(3, 2), B, mode="sum", per_sample_weights=rl.ones(3))),
    (ValueError, "sparse", lambda: F.embedding_bag(I, rl.ones(3, 2), B, mode="max", sparse=True)),
    (ValueError, "'max'",
     lambda: F.embedding_bag(I, rl.ones(3, 2), B, mode="max", scale_grad_by_freq=True)),
    (AssertionError, "padding_idx", lambda: F.embedding_bag(I, rl.ones(3, 2), B, padding_idx=3)),
    (RuntimeError, "int64", lambda: F.embedding_bag(I.float(), rl.ones(3, 2), B)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_wrong_calls(case):
    kind, text, call = BAD[case]
    with pytest.raises(kind, match=text):
        call()
