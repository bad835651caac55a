"""Schedules for learning rates: call ``scheduler.step()`` after ``optimizer.step()``."""

from rushlight._names.missing import names_missing_from
from rushlight.optim.lr_scheduler.base import LRScheduler, _LRScheduler  # noqa: F401 -- the old name
from rushlight.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from rushlight.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from rushlight.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from rushlight.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rushlight.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

for _name in __all__:  # where PyTorch has them, so that pickled schedulers can be exchanged
    globals()[_name].__module__ = __name__

EPOCH_DEPRECATION_WARNING = (
    "scheduler.step(epoch) is deprecated; call scheduler.step() after optimizer.step()"
)

__getattr__ = names_missing_from(__name__)
