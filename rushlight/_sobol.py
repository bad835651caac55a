"""What Sobol sequences are made of: direction numbers, points, scrambling.

A number here is its first 30 binary digits after the point, as an integer."""

import functools
import zlib
from pathlib import Path

import rushlight
from rushlight import _C

__all__ = ["BITS", "DIMENSIONS", "direction_numbers", "points", "scrambled"]

BITS = 30
DIMENSIONS = 21201
_DEGREES = 18
_SCRAMBLED_AT_ONCE = 1024  # dimensions; each takes a matrix of 30 * 30


@functools.cache
def _table():
    """Polynomials and initial numbers, by degree: [(degree, polynomials, [m_1, ...]), ...]. See
    Note [The file of direction numbers] in tools/make_sobol_directions.py."""
    data = zlib.decompress(Path(__file__).with_name("sobol_directions.bin").read_bytes())
    at = 0

    def column(length):
        nonlocal at
        planes = _C.frombuffer(bytearray(data[at : at + 4 * length]), dtype=_C.uint8)
        at += 4 * length
        return sum(p << (8 * i) for i, p in enumerate(planes.reshape(4, length).to(_C.int64)))

    counts = column(_DEGREES).tolist()
    polynomials = column(sum(counts)).split(counts)
    initial = [[_C.ones(n, dtype=_C.int64)] for n in counts]
    for i in range(1, _DEGREES):
        for degree, part in enumerate(column(sum(counts[i:])).split(counts[i:]), i):
            initial[degree].append(2 * part + 1)
    return list(zip(range(1, _DEGREES + 1), polynomials, initial, strict=True))


@functools.cache
def _all_directions():
    """Of all dimensions, a row each."""
    blocks = [_C.ones((BITS, 1), dtype=_C.int64)]  # van der Corput's sequence
    for degree, polynomials, initial in _table():
        m = list(initial)
        for i in range(degree, BITS):
            new = m[i - degree] ^ (m[i - degree] << degree)
            for k in range(1, degree):
                has_term = (polynomials >> (degree - 1 - k)) & 1
                new ^= has_term * (m[i - k] << k)
            m.append(new)
        blocks.append(_C.stack(m))
    places = _C.arange(BITS - 1, -1, -1).unsqueeze(1)
    return (rushlight.cat(blocks, 1) << places).t().contiguous()


def direction_numbers(dimension):
    """For each dimension the number that each digit of a point's Gray code adds."""
    return _all_directions()[:dimension].clone()


def points(directions, first, last):
    """Points first to last - 1, without a shift, a row each.

    Number k is the sum (without carry) of the directions of the ones in k ^ (k >> 1). In a block
    of 2**b points only the last b digits of k change, and the blocks differ by one number each: a
    table of one block, and what to add, make all of them."""
    columns = directions.t().to(_C.int32)  # half the memory to go through
    out = _C.empty((last - first, directions.shape[0]), dtype=_C.int32)
    if last == first:
        return out
    digits = min(BITS, (last - first - 1).bit_length())
    table = _first_block(columns, digits)
    size = 2**digits
    for block in range(first // size, (last - 1) // size + 1):
        start, stop = max(first, block * size), min(last, (block + 1) * size)
        gray = (block * size) ^ (block * size >> 1)
        to_add = _C.zeros(directions.shape[0], dtype=_C.int32)
        for place in range(gray.bit_length()):
            if gray >> place & 1:
                to_add ^= columns[place]
        out[start - first : stop - first] = (
            table[start - block * size : stop - block * size] ^ to_add
        )
    return out


def _first_block(columns, digits):
    """Points 0 to 2**digits - 1: each half is the other one backwards, plus one direction."""
    out = _C.zeros((2**digits, columns.shape[1]), dtype=_C.int32)
    for place in range(digits):
        n = 2**place
        out[n : 2 * n] = out[:n].flip(0) ^ columns[place]
    return out


def scrambled(directions, generator):
    """Direction numbers times a random matrix for each dimension, and random shifts. The matrices
    are lower triangular with ones in the diagonal, so that a digit depends on those before it and
    all intervals of 2**-k stay as evenly filled as they were."""
    places = _C.arange(BITS - 1, -1, -1)

    def bits(shape):
        return rushlight.randint(2, shape, generator=generator)

    def packed(digits):  # the last dim, the first digit first
        return (digits << places).sum(-1)

    shift = packed(bits((len(directions), BITS)))
    parts = []
    for part in directions.split(_SCRAMBLED_AT_ONCE):
        matrices = bits((len(part), BITS, BITS)).tril(-1) + _C.eye(BITS, dtype=_C.int64)
        digits = part.unsqueeze(-1) >> places & 1  # (dimension, direction, digit)
        mixed = rushlight.matmul(digits.float(), matrices.transpose(1, 2).float())
        parts.append(packed(mixed.long() & 1))
    return rushlight.cat(parts), shift
