"""The launcher as functions: one function, or one command, in several processes."""

from rushlight._names.missing import names_missing_from
from rushlight.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

__getattr__ = names_missing_from(__name__)
