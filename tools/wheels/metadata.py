"""What a published wheel says of itself, derived from what the source tree says.

Pure functions over the text of METADATA. A wheel that is published differs from one that `pip
install .` makes in three ways: it asks for our own wheel of oneDNN, which holds the library once
and shares our OpenMP runtime; its compiled GPU kernels lie in a wheel that only the extras for GPUs
ask for; and the links of its description are whole addresses.
"""

import re

SOURCE_ONEDNN = "onednn-cpu-gomp"
OUR_ONEDNN = "rushlight-onednn"
KERNELS = "rushlight-kernels"
GPU_EXTRAS = ("cuda12", "cuda13")

LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s]+)((?:\s+\"[^\"]*\")?)\)")
PAGE_NAMES = {"": "Homepage", "blob/main/docs/README.md": "Documentation"}
PAGE_NAMES |= {"issues": "Issues", "blob/main/CHANGELOG.md": "Changelog"}


def split(text: str) -> tuple[list[str], str]:
    """The header's lines, and the description below it."""
    header, _, description = text.partition("\n\n")
    return header.splitlines(), description


def join(header: list[str], description: str) -> str:
    return "\n".join(header) + "\n\n" + description


def with_our_onednn(text: str, version: str) -> str:
    """The same with our wheel of oneDNN in the place of the one that source builds use."""
    header, description = split(text)
    start = f"Requires-Dist: {SOURCE_ONEDNN}"
    found = [i for i, line in enumerate(header) if line.startswith(start)]
    if len(found) != 1:
        raise ValueError(f"METADATA should ask for {SOURCE_ONEDNN} once, not {len(found)} times")
    _, _, marker = header[found[0]].partition(";")
    header[found[0]] = f"Requires-Dist: {OUR_ONEDNN}=={version}" + (f" ;{marker}" if marker else "")
    return join(header, description)


def with_kernels(text: str) -> str:
    """The same with the wheel of compiled kernels, of this very version, behind the GPU extras."""
    header, description = split(text)
    (version,) = [line.partition(": ")[2] for line in header if line.startswith("Version: ")]
    for extra in GPU_EXTRAS:
        if f"Provides-Extra: {extra}" not in header:
            raise ValueError(f"METADATA has no extra {extra}")
        header.append(f'Requires-Dist: {KERNELS}=={version} ; extra == "{extra}"')
    return join(header, description)


def with_addresses(text: str, repository: str) -> str:
    """The same with pages named in the header, and links of the description made whole."""
    repository = repository.rstrip("/")
    header, description = split(text)
    header = [line for line in header if not line.startswith("Project-URL:")]
    for page, name in PAGE_NAMES.items():
        header.append(f"Project-URL: {name}, {repository}/{page}".rstrip("/"))
    return join(header, LINK.sub(rf"]({repository}/blob/main/\1\2)", description))


def relative_links(text: str) -> list[str]:
    """Links of the description that an index could not follow."""
    return [match.group(1) for match in LINK.finditer(split(text)[1])]
