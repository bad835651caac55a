"""The errors of the distributed package."""

__all__ = [
    "DistArgumentError",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistNotInitializedError",
    "DistStoreError",
]


class DistError(RuntimeError):
    """An error of the distributed package."""


class DistBackendError(DistError):
    """An error of a backend: a collective failed on some rank, or never came to an end."""


class DistNetworkError(DistError):
    """An error of the network."""


class DistStoreError(DistError):
    """An error of a store: a key did not come in time."""


class DistNotInitializedError(ValueError, RuntimeError):
    """A question that needs a process group."""


class DistArgumentError(ValueError, RuntimeError):
    """A rank that is none of the group's, or a list that has not one tensor per rank."""
