"""Writes rushlight/sobol_directions.bin: direction numbers of Sobol sequences, by Joe and Kuo.

    python tools/make_sobol_directions.py new-joe-kuo-6.21201
    python tools/make_sobol_directions.py scipy/stats/_sobol_direction_numbers.npz

The first is the authors' file (web.maths.unsw.edu.au/~fkuo/sobol), the second SciPy's copy of it:
both give the same bytes. rushlight/sobol_directions.license is the authors' licence.

Note [The file of direction numbers]
A dimension has a primitive polynomial of degree s and odd numbers m_1 < 2, ..., m_s < 2**s; the
first dimension has none. Dimensions stand in the order of their degrees. The file, compressed by
zlib, holds one column after the other, as little-endian uint32: how many dimensions there are of
each degree 1 to 18, then the polynomials (without the outer ones, which are always there), then
(m_i - 1) / 2 for i = 2, 3, ..., each of those dimensions that have so many. Of a column the lowest
bytes come first, then the second ones, and so on: high bytes are mostly zero, and compress.
"""

import itertools
import struct
import sys
import zlib
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "rushlight" / "sobol_directions.bin"
DEGREES = 18


def from_text(path):
    """[(degree, polynomial, [m_1, ...]), ...] from the authors' file: d s a m_i."""
    lines = Path(path).read_text().splitlines()[1:]
    numbers = ([int(word) for word in line.split()] for line in lines if line.strip())
    return [(s, a, m) for _, s, a, *m in numbers]


def from_scipy(path):
    """The same from SciPy's arrays, where polynomials have their outer ones."""
    import numpy

    with numpy.load(path) as arrays:
        polynomials, rows = arrays["poly"].tolist(), arrays["vinit"].tolist()
    degrees = [p.bit_length() - 1 for p in polynomials]
    table = zip(degrees, polynomials, rows, strict=True)
    return [(s, p % 2**s >> 1, row[:s]) for s, p, row in itertools.islice(table, 1, None)]


def column(values):
    words = struct.pack(f"<{len(values)}I", *values)
    return b"".join(words[i::4] for i in range(4))


def packed(table):
    counts = [sum(s == degree for s, _, _ in table) for degree in range(1, DEGREES + 1)]
    assert [s for s, _, _ in table] == sorted(s for s, _, _ in table)
    columns = [counts, [a for _, a, _ in table]]
    for i in range(1, DEGREES):
        columns.append([m[i] >> 1 for _, _, m in table if len(m) > i])
    return zlib.compress(b"".join(map(column, columns)), 9)


if __name__ == "__main__":
    source = sys.argv[1]
    data = packed(from_scipy(source) if source.endswith(".npz") else from_text(source))
    TARGET.write_bytes(data)
    print(f"{TARGET.name}: {len(data)} bytes")
