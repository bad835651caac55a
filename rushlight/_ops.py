"""The place where PyTorch keeps the classes of operators."""

from rushlight import ops as ops
from rushlight._library.higher_order import HigherOrderOperator as HigherOrderOperator
from rushlight._library.operators import OpOverload as OpOverload
from rushlight._library.operators import OpOverloadPacket as OpOverloadPacket
from rushlight._names.missing import names_missing_from

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "ops"]

__getattr__ = names_missing_from(__name__)
