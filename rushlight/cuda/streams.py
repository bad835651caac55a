"""Queues of work on GPUs."""

from rushlight.cuda import Event, ExternalStream, Stream

__all__ = ["Event", "ExternalStream", "Stream"]
