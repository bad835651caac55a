"""Quantized tensors that are sorted, and written to in parts."""

import pytest

import rushlight as rl

NUMBERS = rl.tensor([[1.0, 3.0, 2.0], [0.0, -1.0, 5.0]])


@pytest.fixture(params=["quint8", "qint8", "qint32"])
def q(request):
    return rl.quantize_per_tensor(NUMBERS, 0.5, 3, getattr(rl, request.param))


def same(found, expected, q):
    assert found.dtype == q.dtype and found.q_scale() == q.q_scale()
    assert rl.equal(found.dequantize(), expected)


def test_order(q):
    values, places = q.sort(1)
    same(values, NUMBERS.sort(1)[0], q)
    assert rl.equal(places, NUMBERS.argsort(1)) and rl.equal(q.argsort(1), places)
    values, places = q.topk(2)
    same(values, NUMBERS.topk(2)[0], q)
    assert rl.equal(places, NUMBERS.topk(2)[1])
    same(q.as_strided((2,), (3,)), NUMBERS[:, 0], q)


def test_masked_fill(q):
    mask = rl.tensor([True, False, True])
    expected = NUMBERS.masked_fill(mask, 7.0)
    same(q.masked_fill(mask, 7.0), expected, q)
    same(q.clone().masked_fill_(mask, 7.2), expected, q)  # to the nearest step
    same(q, NUMBERS, q)


@pytest.mark.parametrize("index", [0, (1, 2), rl.tensor([[True, False, True], [False] * 3])])
def test_setitem(q, index):
    x, expected = q.clone(), NUMBERS.clone()
    x[index], expected[index] = 1.5, 1.5
    same(x, expected, q)
    if isinstance(index, int):
        x[0], expected[0] = q[1], NUMBERS[1]
        same(x, expected, q)


def test_fill_by_channel():
    x = rl.quantize_per_channel(NUMBERS, rl.tensor([0.5, 1.0]), rl.tensor([0, 1]), 0, rl.qint8)
    assert rl.equal(x.fill_(1.0).dequantize(), rl.ones(2, 3))
    with pytest.raises(RuntimeError, match="by channel"):
        x[0] = 1.0


def test_long_texts_are_broken():
    text = repr(rl.quantize_per_tensor(rl.zeros(0), 0.5, 3, rl.quint8))
    assert all(len(line) <= 80 for line in text.splitlines()) and text.count("size=") == 1
