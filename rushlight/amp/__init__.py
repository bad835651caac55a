"""Mixed precision: autocast, and the scaling of gradients."""

from rushlight._names.missing import names_missing_from
from rushlight.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from rushlight.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

__getattr__ = names_missing_from(__name__)
