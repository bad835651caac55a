"""Old spellings of rushlight.amp for GPUs."""

from rushlight.amp.grad_scaler import OptState as OptState
from rushlight.cuda.amp import GradScaler as GradScaler
