"""Pictures as arrays and as PNG, without an imaging package."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Picture", "encode_png", "grid"]


def grid(images: np.ndarray) -> np.ndarray:
    """Images side by side, about as many in a row as in a column, at most eight in a row."""
    count, height, width, channels = images.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    canvas = np.zeros((rows * height, columns * width, channels), images.dtype)
    for i, image in enumerate(images):
        y, x = i // columns * height, i % columns * width
        canvas[y : y + height, x : x + width] = image
    return canvas


def encode_png(image: np.ndarray) -> bytes:
    """PNG bytes of (height, width, channels) bytes; written here, so that no imaging package is
    needed."""
    import struct
    import zlib

    height, width, channels = image.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]

    def chunk(name, data):
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 6)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


class Picture:
    """A picture of a tensor. Notebooks draw it; save() writes a PNG; str() is for terminals."""

    def __init__(self, pixels: Any) -> None:
        self.pixels = pixels

    def _repr_png_(self) -> bytes:
        # Small ones are enlarged, so that pixels can be seen.
        factor = max(1, 160 // max(self.pixels.shape[:2]))
        large = np.repeat(np.repeat(self.pixels, factor, 0), factor, 1)
        return encode_png(large)

    def _repr_html_(self) -> str:
        data = base64.b64encode(self._repr_png_()).decode("ascii")
        style = "image-rendering: pixelated"
        return f'<img alt="tensor" style="{style}" src="data:image/png;base64,{data}">'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a PNG file."""
        Path(os.fspath(path)).write_bytes(self._repr_png_())

    def __str__(self) -> str:
        """Two rows of pixels per line, in colours of 24 bits."""
        width = shutil.get_terminal_size().columns
        step = max(1, -(-self.pixels.shape[1] // max(8, width - 1)))
        rows = self.pixels[::step, ::step, :3]
        if rows.shape[2] == 1:
            rows = rows.repeat(3, 2)
        lines = []
        for y in range(0, len(rows), 2):
            low = rows[y + 1] if y + 1 < len(rows) else rows[y] * 0
            lines.append("".join(
                f"\x1b[38;2;{a[0]};{a[1]};{a[2]}m\x1b[48;2;{b[0]};{b[1]};{b[2]}m▀"
                for a, b in zip(rows[y].tolist(), low.tolist(), strict=True)
            ) + "\x1b[0m")  # fmt: skip
        return "\n".join(lines)
