"""Types for annotations in scripted code."""

from typing import Any, Dict, List, Optional, Tuple  # noqa: F401, UP035

from rushlight.jit._annotations import BroadcastingList1 as BroadcastingList1
from rushlight.jit._annotations import BroadcastingList2 as BroadcastingList2
from rushlight.jit._annotations import BroadcastingList3 as BroadcastingList3
