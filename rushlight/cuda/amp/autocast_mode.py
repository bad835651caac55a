"""Old spellings of rushlight.amp for GPUs."""

from rushlight.cuda.amp import autocast as autocast
from rushlight.cuda.amp import custom_bwd as custom_bwd
from rushlight.cuda.amp import custom_fwd as custom_fwd
