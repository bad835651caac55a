"""The old place of hub.load_state_dict_from_url."""

from __future__ import annotations

from typing import Any

from rushlight.hub import _get_torch_home as _get_torch_home
from rushlight.hub import load_state_dict_from_url as load_url
from rushlight.hub import urlparse as urlparse

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    from rushlight import hub

    return getattr(hub, name)  # tqdm, and whatever else moved there
