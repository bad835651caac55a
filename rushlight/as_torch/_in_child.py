"""Imported by multiprocessing's fork server: its children know the name torch."""

import rushlight.as_torch

rushlight.as_torch.install()
