"""Optimisers, and schedules for their learning rates."""

from rushlight._names.missing import names_missing_from
from rushlight.optim import lr_scheduler, swa_utils
from rushlight.optim._adafactor import Adafactor
from rushlight.optim._muon import Muon
from rushlight.optim._swap import swap_in_optimizer_params_and_state
from rushlight.optim.adadelta import Adadelta
from rushlight.optim.adagrad import Adagrad
from rushlight.optim.adam import Adam
from rushlight.optim.adamax import Adamax
from rushlight.optim.adamw import AdamW
from rushlight.optim.asgd import ASGD
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.nadam import NAdam
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.radam import RAdam
from rushlight.optim.rmsprop import RMSprop
from rushlight.optim.rprop import Rprop
from rushlight.optim.sgd import SGD
from rushlight.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]

__getattr__ = names_missing_from(__name__)
