"""Copies of a model."""

import copy

__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """The model for each device: the model itself for the one it lives on."""
    if len(devices) == 1:
        return [network]
    return [copy.deepcopy(network).to(device) for device in devices]
