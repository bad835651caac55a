"""Devices that PyTorch does not know: none can be added."""

from rushlight._missing import absent

absent(
    globals(),
    "kinds of devices cannot be added",
    functions="generate_methods_for_privateuse1_backend rename_privateuse1_backend",
)
