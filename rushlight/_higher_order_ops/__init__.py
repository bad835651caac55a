"""Control flow as functions of functions; everything runs eagerly."""

from rushlight._functions.control_flow import cond, while_loop
from rushlight._higher_order_ops.associative_scan import associative_scan
from rushlight._higher_order_ops.map import map
from rushlight._higher_order_ops.scan import scan
from rushlight._names.missing import names_missing_from

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]

__getattr__ = names_missing_from(__name__)
