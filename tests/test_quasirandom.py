"""Sobol sequences: the values are PyTorch's (recorded), scrambled ones are as evenly spread."""

import zlib

import pytest

import rushlight as rl
from rushlight.quasirandom import SobolEngine

# The first 16 points in 8 dimensions, times 16.
FIRST = [
    [0, 8, 12, 4, 6, 14, 10, 2, 3, 11, 15, 7, 5, 13, 9, 1],
    [0, 8, 4, 12, 6, 14, 2, 10, 5, 13, 1, 9, 3, 11, 7, 15],
    [0, 8, 4, 12, 10, 2, 14, 6, 15, 7, 11, 3, 5, 13, 1, 9],
    [0, 8, 4, 12, 14, 6, 10, 2, 7, 15, 3, 11, 9, 1, 13, 5],
    [0, 8, 12, 4, 6, 14, 10, 2, 9, 1, 5, 13, 15, 7, 3, 11],
    [0, 8, 12, 4, 2, 10, 14, 6, 5, 13, 9, 1, 7, 15, 11, 3],
    [0, 8, 4, 12, 6, 14, 2, 10, 7, 15, 3, 11, 1, 9, 5, 13],
    [0, 8, 12, 4, 14, 6, 2, 10, 15, 7, 3, 11, 1, 9, 13, 5],
]


def as_bits(points):
    return (points.double() * 2**30).to(rl.int32)


def test_the_first_points():
    assert (SobolEngine(8).draw(16) * 16).int().t().tolist() == FIRST


def test_every_dimension():
    """Point 12345, and the first 100, of all 21201 dimensions, as PyTorch draws them."""
    engine = SobolEngine(SobolEngine.MAXDIM)
    point = as_bits(engine.fast_forward(12345).draw(dtype=rl.float64))[0]
    places = [0, 1, 2, 100, 1000, 10000, 21200]
    assert point[places].tolist() == [
        688193536, 873398272, 172163072, 579272704, 389218304, 135987200, 52625408,
    ]  # fmt: skip
    assert zlib.crc32(point.numpy().tobytes()) == 1685229434
    many = as_bits(engine.reset().draw(100, dtype=rl.float64))
    assert zlib.crc32(many.numpy().tobytes()) == 3208895592


@pytest.mark.parametrize("scramble", [False, True])
def test_pieces_of_any_size(scramble):
    whole = SobolEngine(5, scramble, seed=3).draw(1000, dtype=rl.float64)
    engine, at = SobolEngine(5, scramble, seed=3), 0
    for n in (1, 1, 2, 3, 0, 64, 100, 257, 5):
        assert rl.equal(engine.draw(n, dtype=rl.float64), whole[at : at + n])
        at += n
        assert engine.num_generated == at
        assert rl.equal(engine.quasi, (whole[at - 1] * 2**30).long())
    engine.fast_forward(17)
    assert rl.equal(engine.draw(dtype=rl.float64)[0], whole[at + 17])
    assert engine.reset() is engine and engine.num_generated == 0
    assert rl.equal(engine.draw(10, dtype=rl.float64), whole[:10])


def test_dtypes_and_out():
    engine = SobolEngine(3)
    assert (
        engine.draw(4).dtype == rl.float32 and engine.draw(2, dtype=rl.float64).dtype == rl.float64
    )
    out = rl.empty(0)
    assert engine.reset().draw(4, out=out) is out and out.shape == (4, 3)
    assert rl.equal(out, engine.reset().draw(4))
    assert engine.draw(0).shape == (0, 3)


def test_draw_base2():
    engine = SobolEngine(2)
    assert len(engine.draw_base2(3)) == 8 and len(engine.draw_base2(3)) == 8
    with pytest.raises(ValueError, match="power of two; 16 were drawn, and 4 more"):
        engine.draw_base2(2)


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_scrambled_points_are_a_net(seed):
    """Each of 2**m intervals of one dimension holds one of 2**m points, and the boxes of the first
    two dimensions with that volume do too (a (0, m, 2)-net)."""
    m = 8
    points = SobolEngine(20, scramble=True, seed=seed).draw_base2(m, dtype=rl.float64)
    assert ((points >= 0) & (points < 1)).all()
    cells = (points * 2**m).long()
    for d in range(20):
        assert cells[:, d].unique().numel() == 2**m
    for k in range(m + 1):
        boxes = (points[:, 0] * 2**k).long() * 2 ** (m - k) + (points[:, 1] * 2 ** (m - k)).long()
        assert boxes.unique().numel() == 2**m, k


def test_seeds():
    first, same = (SobolEngine(4, scramble=True, seed=5).draw(8) for _ in range(2))
    assert rl.equal(first, same)
    assert not rl.equal(first, SobolEngine(4, scramble=True, seed=6).draw(8))
    rl.manual_seed(1)
    drawn = SobolEngine(4, scramble=True).draw(8)
    rl.manual_seed(1)
    assert rl.equal(drawn, SobolEngine(4, scramble=True).draw(8))
    state = rl.get_rng_state()
    SobolEngine(4, scramble=True, seed=5)
    assert rl.equal(rl.get_rng_state(), state)


def test_texts_and_refusals():
    assert repr(SobolEngine(3)) == "SobolEngine(dimension=3)"
    assert repr(SobolEngine(3, True, 7)) == "SobolEngine(dimension=3, scramble=True, seed=7)"
    for dimension in (0, 21202, -1):
        with pytest.raises(ValueError, match=f"from 1 to 21201, got {dimension}"):
            SobolEngine(dimension)
    with pytest.raises(ValueError, match="too many"):
        SobolEngine(1).fast_forward(2**30 + 1)
    with pytest.raises(ValueError, match="negative"):
        SobolEngine(1).draw(-1)


def test_the_licence_travels_with_the_numbers():
    from pathlib import Path

    text = Path(rl.__file__).with_name("sobol_directions.license").read_text()
    assert "Frances Y. Kuo and Stephen Joe" in text and "Redistributions in binary form" in text
