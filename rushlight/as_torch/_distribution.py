"""The metadata of an installed torch, for programs that ask importlib.metadata."""

from importlib.metadata import Distribution

from rushlight.as_torch.version import __version__

_FILES = {
    "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n"
    "Summary: Rushlight, answering to the name torch\n",
    "top_level.txt": "torch\n",
}


class TorchDistribution(Distribution):
    """What `pip install torch` would leave behind, as far as programs look."""

    def read_text(self, filename):
        return _FILES.get(filename)

    def locate_file(self, path):
        import pathlib

        import rushlight

        return pathlib.Path(rushlight.__file__).parent.parent / path
